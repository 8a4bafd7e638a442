"""Choose a model and its hyperparameters in one study, and see which model was tried when.

The objective asks for a kind of model, and then for the hyperparameters of that model only: support
vectors with one of two kernels, neighbors, a random forest or a linear model, each after one of
three preprocessing steps, one of which has a hyperparameter too. Of 14 hyperparameters a trial has
3 to 7. :class:`bbo_plugins.BBOSampler` learns from the trials which belong to what and
models all of them together. What is minimized is the cross-validated error on handwritten digits; a
part of the data that no trial sees tells how good the choice is::

    python examples/model_choice.py                  # 60 trials
    python examples/model_choice.py --n-trials 100 --seed 1
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import optuna
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from _script import add_count, add_out, add_seed, timed
from bbo_plugins import BBOSampler

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("support vectors", "neighbors", "forest", "linear")


class Data(NamedTuple):
    """Images and labels: for cross-validation, and held out until the end."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_data() -> Data:
    """Split the digits, always in the same way."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    return Data(X, y, X_test, y_test)


def suggest_model(trial: optuna.trial.BaseTrial) -> Any:
    """Return a classifier; which hyperparameters a trial has depends on its kind."""
    kind = trial.suggest_categorical("kind", KINDS)
    if kind == "support vectors":
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)
        kernel = trial.suggest_categorical("kernel", ["rbf", "poly"])
        if kernel == "rbf":
            return SVC(C=C, gamma=trial.suggest_float("gamma", 1e-6, 1e0, log=True))
        degree = trial.suggest_int("degree", 2, 5)
        return SVC(C=C, kernel="poly", degree=degree, coef0=trial.suggest_float("coef0", 0.0, 2.0))
    if kind == "neighbors":
        n = trial.suggest_int("n_neighbors", 1, 50, log=True)
        weights = trial.suggest_categorical("weights", ["uniform", "distance"])
        return KNeighborsClassifier(n, weights=weights)
    if kind == "forest":
        return RandomForestClassifier(
            60,
            max_depth=trial.suggest_int("max_depth", 2, 20),
            max_features=trial.suggest_float("max_features", 0.02, 0.5, log=True),
            min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 20, log=True),
            random_state=0,
        )
    return RidgeClassifier(trial.suggest_float("alpha", 1e-3, 1e5, log=True))


def suggest(trial: optuna.trial.BaseTrial) -> Pipeline:
    """Return a preprocessing step and a classifier; this is the search space."""
    step = trial.suggest_categorical("step", ["none", "standardize", "principal components"])
    model = suggest_model(trial)
    if step == "none":
        return make_pipeline(model)
    if step == "standardize":
        return make_pipeline(StandardScaler(), model)
    n_components = trial.suggest_int("n_components", 5, 60)
    return make_pipeline(PCA(n_components, random_state=0), model)


def validation_error(model: Pipeline, data: Data) -> float:
    """Return the cross-validated error rate, which is minimized."""
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model, data.X, data.y, cv=folds, error_score="raise")
    return float(1.0 - scores.mean())


def plot(study: optuna.Study, path: Path) -> None:
    """Draw the error of each trial above, and below which kind of model it was."""
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.0, 1.0])
    values = np.array([trial.values[0] for trial in study.trials])
    kinds = np.array([trial.params["kind"] for trial in study.trials])
    for row, (kind, color) in enumerate(zip(KINDS, ("C0", "C1", "C2", "C3"), strict=True)):
        numbers = np.flatnonzero(kinds == kind)
        above.scatter(numbers, values[numbers], s=18, color=color)
        below.scatter(numbers, np.full(len(numbers), row), s=60, marker="|", color=color)
    best = np.minimum.accumulate(values)
    above.step(np.arange(len(best)), best, where="post", color="black", label="best so far")
    above.set(yscale="log", ylabel="cross-validated error")
    above.legend()
    below.set(yticks=range(len(KINDS)), yticklabels=KINDS, ylim=(3.5, -0.5), xlabel="trial")
    figure.suptitle("The error of each trial, and which model it tried")
    figure.savefig(path, dpi=150)


def print_table(study: optuna.Study, data: Data) -> None:
    """Print the best trial of each kind of model, and its error on what no trial saw."""
    print(f"\n{'':15}  trials  validation    test")
    for kind in KINDS:
        trials = [trial for trial in study.trials if trial.params["kind"] == kind]
        if not trials:
            print(f"{kind:15}  {0:6d}")
            continue
        best = min(trials, key=lambda trial: trial.values[0])
        model = suggest(optuna.trial.FixedTrial(best.params)).fit(data.X, data.y)
        test = 1.0 - model.score(data.X_test, data.y_test)
        print(f"{kind:15}  {len(trials):6d}  {best.values[0]:10.4f}  {test:.4f}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Choose a model and its hyperparameters.")
    add_count(parser, "--n-trials", 60, "trials of the study")
    add_out(parser, "model_choice_output", "the plot")
    add_seed(parser, "the study")
    return parser.parse_args()


def main() -> None:
    """Run the study, print the best of each kind of model and draw the plot."""
    args = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # the progress bar says enough
    args.out.mkdir(parents=True, exist_ok=True)
    data = load_data()
    study = optuna.create_study(sampler=BBOSampler(seed=args.seed))
    study.optimize(
        lambda trial: validation_error(suggest(trial), data),
        n_trials=args.n_trials,
        show_progress_bar=True,
    )
    print_table(study, data)
    print("\nBest hyperparameters:")
    for name, value in study.best_params.items():
        print(f"  {name} = {value:.4g}" if isinstance(value, float) else f"  {name} = {value}")
    picture = args.out / "model_choice.png"
    plot(study, picture)
    print(f"\nPlot: {picture}")


if __name__ == "__main__":
    # Threads that wait for each other on a busy machine take many times longer than one.
    with threadpool_limits(limits=1), timed():
        main()
