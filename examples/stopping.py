"""Let a study stop by itself, and see what the trials that this saved would still have brought.

Three hyperparameters of a digits classifier that is trained by stochastic gradient descent (the
strength of regularization, the first step length and how fast steps become shorter) are tuned by
:class:`bbo_plugins.BBOSampler`. What is maximized is cross-validated accuracy, on other folds in
each trial, so it is noisy. :class:`bbo_plugins.RegretGapTerminator` ends the study when one more
trial can hardly change what is known of the optimum. After that, only to show what stopping cost,
the rest of the budget is spent all the same. The study is stored in SQLite, so that a second run
continues where the first one ended::

    python examples/stopping.py                  # a budget of 100 trials
    python examples/stopping.py --n-trials 150   # 50 more
"""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
import optuna
from optuna.trial import TrialState
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from threadpoolctl import threadpool_limits

from _script import add_count, add_out, add_seed, save_plot, timed
from bbo_plugins.optuna import BBOSampler, RegretGapTerminator
from bbo_plugins.visualization.matplotlib import plot_regret_gap

if TYPE_CHECKING:
    from collections.abc import Mapping

EPOCHS = 5
N_FOLDS = 3
FIRST_FRESH_SEED = 1_000_000  # of folds that no trial has seen
N_FRESH = 10


class Data(NamedTuple):
    """Images and labels."""

    X: np.ndarray
    y: np.ndarray


def suggest(trial: optuna.Trial) -> dict[str, float]:
    """Return the hyperparameters of one trial; this is the search space."""
    return {
        "alpha": trial.suggest_float("alpha", 1e-6, 1e-1, log=True),
        "eta0": trial.suggest_float("eta0", 1e-2, 10.0, log=True),
        "power_t": trial.suggest_float("power_t", 0.0, 0.75),
    }


def accuracy(params: Mapping[str, Any], data: Data, seed: int) -> float:
    """Return the cross-validated accuracy; the seed is that of the folds and of the training."""
    model = SGDClassifier(
        loss="log_loss",
        learning_rate="invscaling",  # step t has length eta0 / t**power_t
        max_iter=EPOCHS,
        tol=None,  # all epochs, always
        random_state=seed,
        **params,
    )
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed)
    return float(cross_val_score(model, data.X, data.y, cv=folds, error_score="raise").mean())


def fresh_accuracy(params: Mapping[str, Any], data: Data) -> float:
    """Return the mean accuracy on folds that no trial has seen, which nothing was selected by."""
    seeds = range(FIRST_FRESH_SEED, FIRST_FRESH_SEED + N_FRESH)
    return float(np.mean([accuracy(params, data, seed) for seed in seeds]))


def complete_trials(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the completed trials in the order of completion."""
    trials = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    return sorted(trials, key=lambda trial: trial.datetime_complete or trial.number)


def best(trials: list[optuna.trial.FrozenTrial]) -> optuna.trial.FrozenTrial:
    """Return the trial with the largest value."""
    return max(trials, key=lambda trial: trial.values[0])


def stopped_at(study: optuna.Study, terminator: RegretGapTerminator) -> int | None:
    """Return after how many trials the terminator has stopped the study, None if it has not."""
    records = terminator.history(study)
    return next((record.n_trials for record in records if record.terminate), None)


def search(storage: str, data: Data, n_trials: int, seed: int) -> tuple[optuna.Study, int | None]:
    """Open or create the stored study and run the trials it lacks.

    Returns:
        The study with all of the budget spent, and after how many trials it stopped by itself.
    """
    study = optuna.create_study(
        study_name=f"digits, seed {seed}",
        storage=storage,
        sampler=BBOSampler(seed=seed),
        direction="maximize",
        load_if_exists=True,
    )
    terminator = RegretGapTerminator()

    def objective(trial: optuna.Trial) -> float:
        return accuracy(suggest(trial), data, trial.number)

    done = len(complete_trials(study))
    print(f"{done} trials stored, {max(0, n_trials - done)} to run", flush=True)
    if done < n_trials and stopped_at(study, terminator) is None:
        # The one line to change in a study of your own: add the callback.
        study.optimize(objective, n_trials=n_trials - done, callbacks=[terminator])
    missing = n_trials - len(complete_trials(study))
    if missing > 0:
        print(f"Spending the other {missing} trials, to see what they bring", flush=True)
        study.optimize(objective, n_trials=missing)
    return study, stopped_at(study, terminator)


def report(study: optuna.Study, data: Data, stop: int | None) -> None:
    """Print what stopping has saved and what it has cost."""
    trials = complete_trials(study)
    budget = len(trials)
    print(f"\n{'':24}seen in the search  on fresh folds")

    def row(name: str, trial: optuna.trial.FrozenTrial) -> float:
        fresh = fresh_accuracy(trial.params, data)
        print(f"{name:24}{trial.values[0]:18.4f}  {fresh:14.4f}")
        return fresh

    at_the_end = row(f"best of all {budget} trials", best(trials))
    if stop is None:
        print(f"\nThe study did not stop by itself within {budget} trials.")
        return
    at_the_stop = row(f"best of the first {stop}", best(trials[:stop]))
    saved = budget - stop
    print(f"\nStopped by itself after {stop} of {budget} trials.")
    print(f"Trials saved: {saved} ({100.0 * saved / budget:.0f}%)")
    print(f"Regret against the full budget, on fresh folds: {at_the_end - at_the_stop:.4f}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Let a study stop by itself.")
    add_count(parser, "--n-trials", 100, "the whole budget, stored trials included")
    add_out(parser, "stopping_output", "the database and the plot")
    add_seed(parser, "the search")
    return parser.parse_args()


def main() -> None:
    """Run the study, then print the comparison and draw the plot."""
    args = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Why the terminator stops a study, it says to this logger.
    logging.getLogger("bbo_plugins.optuna.terminator").addHandler(logging.StreamHandler())
    args.out.mkdir(parents=True, exist_ok=True)
    database = args.out / "stopping.db"
    images, labels = load_digits(return_X_y=True)
    data = Data(images / 16.0, labels)

    study, stop = search(f"sqlite:///{database}", data, args.n_trials, args.seed)
    report(study, data, stop)
    picture = args.out / "regret_gap.png"
    mpl.use("Agg")
    save_plot(plot_regret_gap(study), picture)
    print(f"\nStudy: {database}\nPlot:  {picture}")


if __name__ == "__main__":
    # Threads that wait for each other on a busy machine take many times longer than one.
    with threadpool_limits(limits=1), timed():
        main()
