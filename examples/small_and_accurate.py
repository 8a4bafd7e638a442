"""Tune a classifier for two objectives, its error and its size, and draw the front.

A forest with many deep trees makes fewer errors on handwritten digits, and takes more memory. Which
of the two matters more is decided afterwards, from the front: the trials to which no other one is
better in both. :class:`bbo_plugins.BBOSampler` looks for it with the same call as for one
objective; random search with as many trials is drawn beside it::

    python examples/small_and_accurate.py                  # 50 trials
    python examples/small_and_accurate.py --n-trials 100 --seed 1
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import optuna
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from _script import add_count, add_out, add_seed, timed
from bbo_plugins import BBOSampler

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.samplers import BaseSampler

SMALLEST_ERROR = 1e-3  # about one image


class Data(NamedTuple):
    """Images and labels, to train on and to count errors on."""

    X: np.ndarray
    X_test: np.ndarray
    y: np.ndarray
    y_test: np.ndarray


def load_data() -> Data:
    """Split the digits, always in the same way."""
    X, y = load_digits(return_X_y=True)
    return Data(*train_test_split(X, y, test_size=0.5, stratify=y, random_state=0))


def error_and_size(trial: optuna.trial.BaseTrial, data: Data) -> tuple[float, float]:
    """Return the decimal logarithms of a forest's error rate and of the number of its nodes.

    The sampler improves on both in their own units: on a logarithmic scale a tenth of the error is
    worth as much at 5% as at 50%.
    """
    forest = RandomForestClassifier(
        n_estimators=trial.suggest_int("n_estimators", 4, 64, log=True),
        max_depth=trial.suggest_int("max_depth", 4, 16),
        max_features=trial.suggest_float("max_features", 0.02, 0.5, log=True),
        min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 20, log=True),
        bootstrap=trial.suggest_categorical("bootstrap", [True, False]),
        random_state=0,
    ).fit(data.X, data.y)
    n_nodes = sum(tree.tree_.node_count for tree in forest.estimators_)
    error = 1.0 - float(forest.score(data.X_test, data.y_test))
    return math.log10(max(error, SMALLEST_ERROR)), math.log10(n_nodes)


def run(sampler: BaseSampler, n_trials: int, data: Data) -> optuna.Study:
    """Return a study of so many trials."""
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    study.optimize(
        lambda trial: error_and_size(trial, data), n_trials=n_trials, show_progress_bar=True
    )
    return study


def front(study: optuna.Study) -> np.ndarray:
    """Return error and size of the trials that no other one beats in both, by size, (f, 2)."""
    return 10.0 ** np.array(sorted((t.values for t in study.best_trials), key=lambda v: v[1]))


def plot(studies: dict[str, optuna.Study], path: Path) -> None:
    """Draw all trials, and the front of each study."""
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    axes = figure.subplots()
    for (name, study), color in zip(studies.items(), ("C0", "C7"), strict=True):
        values = 10.0 ** np.array([trial.values for trial in study.trials])
        axes.scatter(values[:, 1], values[:, 0], s=14, color=color, alpha=0.5)
        best = front(study)
        axes.step(best[:, 1], best[:, 0], where="post", color=color, marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="nodes of the forest", ylabel="error rate")
    axes.set_title(f"What {len(study.trials)} trials found: error against size")
    axes.legend()
    figure.savefig(path, dpi=150)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Tune a classifier for its error and its size.")
    add_count(parser, "--n-trials", 50, "trials of each study")
    add_out(parser, "small_and_accurate_output", "the plot")
    add_seed(parser, "the studies")
    return parser.parse_args()


def main() -> None:
    """Run both studies, print the front and draw the plot."""
    args = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # the progress bar says enough
    args.out.mkdir(parents=True, exist_ok=True)
    data = load_data()
    samplers = {
        "BBOSampler": BBOSampler(seed=args.seed),
        "random search": optuna.samplers.RandomSampler(seed=args.seed),
    }
    studies = {name: run(sampler, args.n_trials, data) for name, sampler in samplers.items()}
    print("\nThe front of BBOSampler:\n\n  error   nodes  trees  depth")
    for trial in sorted(studies["BBOSampler"].best_trials, key=lambda trial: trial.values[1]):
        error, size = 10.0 ** np.array(trial.values)
        n_trees, depth = trial.params["n_estimators"], trial.params["max_depth"]
        print(f"  {error:.4f}  {size:6.0f}  {n_trees:5d}  {depth:5d}")
    beaten = sum(
        any(np.all(np.array(own) <= other) for own in front(studies["BBOSampler"]))
        for other in front(studies["random search"])
    )
    n_other = len(studies["random search"].best_trials)
    print(f"\nOf {n_other} trials in the front of random search it beats or meets {beaten}.")
    picture = args.out / "small_and_accurate.png"
    plot(studies, picture)
    print(f"Plot: {picture}")


if __name__ == "__main__":
    # Threads that wait for each other on a busy machine take many times longer than one.
    with threadpool_limits(limits=1), timed():
        main()
