"""Spend a total number of training steps: short trainings for many, long ones for the best.

Three hyperparameters of a digits classifier that is trained by stochastic gradient descent (the
strength of regularization, the first step length and how fast steps become shorter) are tuned by
:class:`bbo_plugins.BBOSampler`. A step is one minibatch. The t-th configuration is trained for
c t² steps, and whenever that has grown, the best three are continued from their checkpoints to as
many, until all steps are spent (:class:`bbo_plugins.optuna.PromotionCallback`). The study is stored
in SQLite with the checkpoints beside it, so that a second run continues where the first one ended::

    python examples/horizon_optuna.py                       # 4,000 steps
    python examples/horizon_optuna.py --total-steps 16000   # 12,000 more
"""

from __future__ import annotations

import argparse
import logging
import pickle
from typing import TYPE_CHECKING, NamedTuple

import matplotlib as mpl
import numpy as np
import optuna
from optuna.trial import TrialState
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from _script import add_count, add_out, add_seed, save_plot, timed
from bbo_plugins.methods.inner_horizon.horizon import GrowingHorizon, InnerHorizon
from bbo_plugins.optuna import BBOSampler, PromotionCallback, continued_from, inner_steps
from bbo_plugins.visualization.matplotlib import plot_horizon

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BATCH = 16
N_CLASSES = 10
SPLIT_SEED = 0


class Part(NamedTuple):
    """Images and labels."""

    X: np.ndarray
    y: np.ndarray


class Data(NamedTuple):
    """Images to train on, to choose by, and to judge the choice by."""

    train: Part
    validation: Part
    test: Part


def load() -> Data:
    """Return the digits in three parts."""
    X, y = load_digits(return_X_y=True)
    X_rest, X_test, y_rest, y_test = train_test_split(
        X / 16.0, y, test_size=500, random_state=SPLIT_SEED, stratify=y
    )
    X_train, X_val, y_train, y_val = train_test_split(
        X_rest, y_rest, test_size=400, random_state=SPLIT_SEED, stratify=y_rest
    )
    return Data(Part(X_train, y_train), Part(X_val, y_val), Part(X_test, y_test))


def new_model(trial: optuna.Trial) -> SGDClassifier:
    """Return an untrained model with the hyperparameters of a trial; this is the search space."""
    return SGDClassifier(
        loss="log_loss",
        learning_rate="invscaling",  # step t has length eta0 / t**power_t
        alpha=trial.suggest_float("alpha", 1e-7, 1e-1, log=True),
        eta0=trial.suggest_float("eta0", 1e-3, 10.0, log=True),
        power_t=trial.suggest_float("power_t", 0.0, 0.75),
        random_state=0,
    )


def train_step(model: SGDClassifier, part: Part, step: int) -> None:
    """Train on one minibatch, the same for every model that makes this step."""
    rows = np.random.default_rng(step).integers(len(part.y), size=BATCH)
    model.partial_fit(part.X[rows], part.y[rows], classes=np.arange(N_CLASSES))


def loss_of(model: SGDClassifier, part: Part) -> float:
    """Return the mean log loss."""
    return float(log_loss(part.y, model.predict_proba(part.X), labels=np.arange(N_CLASSES)))


def load_model(folder: Path, number: int) -> SGDClassifier:
    """Return the model that the trial of this number has saved."""
    return pickle.loads((folder / f"{number}.pickle").read_bytes())  # noqa: S301 - our own


def objective_on(
    data: Data, horizon: GrowingHorizon, folder: Path
) -> Callable[[optuna.Trial], float]:
    """Return the objective: the logarithm of the validation loss, to be minimized."""

    def objective(trial: optuna.Trial) -> float:
        model = new_model(trial)
        source = continued_from(trial)
        if source is not None:  # the best trials come back: go on where their training ended
            model = load_model(folder, source)
        for step in inner_steps(trial, horizon):
            train_step(model, data.train, step)
        (folder / f"{trial.number}.pickle").write_bytes(pickle.dumps(model))
        return float(np.log(loss_of(model, data.validation)))

    return objective


def search(
    storage: str, data: Data, horizon: GrowingHorizon, folder: Path, options: argparse.Namespace
) -> optuna.Study:
    """Open or create the stored study and run what it lacks."""
    study = optuna.create_study(
        study_name=f"digits, seed {options.seed}",
        storage=storage,
        sampler=BBOSampler(seed=options.seed),
        load_if_exists=True,
    )
    promotion = PromotionCallback(horizon)
    done = len(study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]))
    n_trials = None if options.n_trials is None else max(options.n_trials - done, 0)
    print(f"{done} trials stored", flush=True)
    if not promotion.is_spent(study):
        objective = objective_on(data, horizon, folder)
        study.optimize(objective, n_trials=n_trials, callbacks=[promotion])
    return study


def report(study: optuna.Study, data: Data, folder: Path) -> None:
    """Print what was trained, and how good the best model is on images that nothing was chosen by.

    A model is there for every complete trial, so the best of them all can be taken.
    """
    trials = study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
    n_continued = sum(continued_from(trial) is not None for trial in trials)
    print(f"\n{len(trials) - n_continued} configurations, {n_continued} continuations")
    best = study.best_trial
    model = load_model(folder, best.number)
    print(f"Best: trial {best.number}, {model.t_ - 1:.0f} images in all")
    for name, value in best.params.items():
        print(f"  {name:8} {value:.3g}")
    error = float((model.predict(data.test.X) != data.test.y).mean())
    print(f"Validation loss {np.exp(study.best_value):.4f}")
    print(f"Test loss       {loss_of(model, data.test):.4f}")
    print(f"Test error      {100.0 * error:.1f}%")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Spend a total number of training steps.")
    add_count(parser, "--total-steps", 4_000, "minibatches of all trainings together", metavar="B")
    add_count(
        parser, "--n-trials", None, "stop after so many, stored ones and continuations included"
    )
    add_out(parser, "horizon_output", "database, checkpoints and plot")
    add_seed(parser, "the search")
    return parser.parse_args()


def main() -> None:
    """Run the study, then print the outcome and draw the plot."""
    args = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # What the callback continues, it says to this logger.
    logging.getLogger("bbo_plugins.optuna.promotion").addHandler(logging.StreamHandler())
    checkpoints = args.out / f"checkpoints-{args.seed}"
    checkpoints.mkdir(parents=True, exist_ok=True)
    database = args.out / "horizon.db"
    data = load()
    # The constant is given, as its default depends on the budget and a second run may have another.
    horizon = InnerHorizon.growing(constant=1.0, total_steps=args.total_steps)

    study = search(f"sqlite:///{database}", data, horizon, checkpoints, args)
    report(study, data, checkpoints)
    picture = args.out / "horizon.png"
    mpl.use("Agg")
    save_plot(plot_horizon(study), picture)
    print(f"\nStudy: {database}\nPlot:  {picture}")


if __name__ == "__main__":
    # Threads that wait for each other on a busy machine take many times longer than one.
    with threadpool_limits(limits=1), timed():
        main()
