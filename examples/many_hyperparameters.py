"""Tune 20 hyperparameters at once: the preprocessing of three feature groups, and the classifier.

The breast cancer data have ten properties of cell nuclei, each in three versions: the mean over the
cells of an image, its standard error, and the mean of the worst three cells. Every group gets its
own transform, clipping, number of principal components, whitening and weight; then comes a logistic
regression on them and on kernel features of them. What is minimized is the cross-validated log
loss. :class:`bbo_plugins.GOUCBSampler`, which is made for that many hyperparameters, gets the same
number of trials as Optuna's default sampler and as random search, over several seeds::

    python examples/many_hyperparameters.py                # 60 trials each, two seeds
    python examples/many_hyperparameters.py --n-trials 100 --n-seeds 5
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import optuna
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler
from threadpoolctl import threadpool_limits

from _script import add_count, add_out, timed
from bbo_plugins import GOUCBSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from optuna.samplers import BaseSampler

GROUPS = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
TRANSFORMS: dict[str, Callable[[], Any]] = {
    "none": lambda: "passthrough",
    "sqrt": lambda: FunctionTransformer(np.sqrt),
    "log": lambda: FunctionTransformer(np.log1p),
    "rank": lambda: QuantileTransformer(n_quantiles=100, output_distribution="normal"),
}
N_FOLDS = 3
SEARCH_FOLDS = 0  # seed of the folds that trials are judged on
FRESH_FOLDS = range(1, 6)  # seeds of folds that no trial has seen


class Data(NamedTuple):
    """Features of the nuclei, and whether the tumor is benign."""

    X: np.ndarray
    y: np.ndarray


def suggest(trial: optuna.Trial) -> dict[str, Any]:
    """Return the hyperparameters of one trial; this is the search space."""
    params: dict[str, Any] = {
        "C": trial.suggest_float("C", 1e-3, 1e2, log=True),
        "positive_weight": trial.suggest_float("positive_weight", 0.2, 5.0, log=True),
        "gamma": trial.suggest_float("gamma", 1e-4, 1.0, log=True),
        "n_landmarks": trial.suggest_int("n_landmarks", 10, 100, log=True),
        "kernel_weight": trial.suggest_float("kernel_weight", 1e-2, 10.0, log=True),
    }
    for group in GROUPS:
        params |= {
            f"{group}_transform": trial.suggest_categorical(f"{group}_transform", [*TRANSFORMS]),
            f"{group}_clip": trial.suggest_float(f"{group}_clip", 1.0, 8.0, log=True),
            f"{group}_components": trial.suggest_int(f"{group}_components", 1, 10),
            f"{group}_whiten": trial.suggest_categorical(f"{group}_whiten", [False, True]),
            f"{group}_weight": trial.suggest_float(f"{group}_weight", 1e-2, 1.0, log=True),
        }
    return params


def clipped(limit: float) -> FunctionTransformer:
    """Return a step that moves values beyond ``limit`` standard deviations to there."""
    return FunctionTransformer(np.clip, kw_args={"a_min": -limit, "a_max": limit})


def pipeline(params: Mapping[str, Any]) -> Pipeline:
    """Return the model with these hyperparameters, untrained."""
    preprocessing = [
        (
            group,
            make_pipeline(
                TRANSFORMS[params[f"{group}_transform"]](),
                StandardScaler(),
                clipped(params[f"{group}_clip"]),
                PCA(
                    params[f"{group}_components"],
                    whiten=params[f"{group}_whiten"],
                    svd_solver="full",
                ),
            ),
            columns,
        )
        for group, columns in GROUPS.items()
    ]
    kernel = Nystroem(gamma=params["gamma"], n_components=params["n_landmarks"], random_state=0)
    return make_pipeline(
        ColumnTransformer(
            preprocessing,
            transformer_weights={group: params[f"{group}_weight"] for group in GROUPS},
        ),
        FeatureUnion(
            [("linear", "passthrough"), ("kernel", kernel)],
            transformer_weights={"kernel": params["kernel_weight"]},
        ),
        LogisticRegression(
            C=params["C"],
            class_weight={0: 1.0, 1: params["positive_weight"]},
            solver="newton-cholesky",
        ),
    )


def log_loss(params: Mapping[str, Any], data: Data, seed: int) -> float:
    """Return the cross-validated log loss on the folds of a seed."""
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    scores = cross_val_score(
        pipeline(params), data.X, data.y, cv=folds, scoring="neg_log_loss", error_score="raise"
    )
    return -float(scores.mean())


def search(sampler: BaseSampler, data: Data, n_trials: int) -> optuna.Study:
    """Return a study of ``n_trials`` trials."""
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: log_loss(suggest(trial), data, SEARCH_FOLDS), n_trials=n_trials)
    return study


def compare(data: Data, n_trials: int, n_seeds: int) -> dict[str, list[optuna.Study]]:
    """Run every sampler with every seed, print what they found, and return the studies."""
    # The one line to change in a study of your own: the sampler. n_trials sets its start-up.
    makers: dict[str, Callable[[int], BaseSampler]] = {
        "GOUCBSampler": lambda seed: GOUCBSampler(n_trials=n_trials, seed=seed),
        "TPESampler": lambda seed: optuna.samplers.TPESampler(seed=seed),
        "RandomSampler": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    }
    print(f"Log loss of the best of {n_trials} trials (one column per seed):\n")
    print(
        f"{'':16}{'on the folds of the search':>{8 * n_seeds + 4}}{'mean':>10}{'fresh folds':>14}"
    )
    runs = {}
    for name, make in makers.items():
        runs[name] = studies = [search(make(seed), data, n_trials) for seed in range(n_seeds)]
        found = [study.best_value for study in studies]
        fresh = np.mean(
            [log_loss(study.best_params, data, seed) for study in studies for seed in FRESH_FOLDS]
        )
        columns = "".join(f"{value:8.4f}" for value in found)
        print(f"{name:16}    {columns}{np.mean(found):10.4f}{fresh:14.4f}", flush=True)
    return runs


def plot(runs: Mapping[str, list[optuna.Study]], path: Path) -> None:
    """Draw the best value so far, averaged over the seeds."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for (name, studies), style in zip(runs.items(), ("-", "--", ":"), strict=True):
        values = [[trial.values[0] for trial in study.trials] for study in studies]
        best = np.minimum.accumulate(values, axis=1).mean(axis=0)
        axes.plot(range(1, len(best) + 1), best, style, label=name)
    axes.set(xlabel="Trials", ylabel="Cross-validated log loss, best so far", yscale="log")
    axes.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Tune 20 hyperparameters at once.")
    add_count(parser, "--n-trials", 60, "trials of every sampler and seed")
    add_count(parser, "--n-seeds", 2, "studies of every sampler")
    add_out(parser, "many_hyperparameters_output", "the plot")
    return parser.parse_args()


def main() -> None:
    """Run the comparison."""
    args = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    args.out.mkdir(parents=True, exist_ok=True)
    runs = compare(Data(*load_breast_cancer(return_X_y=True)), args.n_trials, args.n_seeds)
    path = args.out / "many_hyperparameters.png"
    plot(runs, path)
    print(f"\nPlot: {path}")


if __name__ == "__main__":
    # Threads that wait for each other on a busy machine take many times longer than one.
    with threadpool_limits(limits=1), timed():
        main()
