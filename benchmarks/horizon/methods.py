"""The ways of spending a total number of SGD steps that the ``horizon`` benchmark compares.

Ours train by an :class:`~bbo_plugins.InnerHorizon`: one that grows, also with noise known to be
φ² / N, or a fixed one, N = B / T. The peers are Optuna's pruners at their
own defaults with Optuna's default sampler: a trial trains for up to R steps, reports its validation
loss 64 times on the way, and is pruned or not. All start and stop trainings at the same places:
what has been trained is never trained again, every step of every trial counts, and the last trial
gets the steps that are left. The outcome is the model that a user would take: that of the trial
which ended with the lowest validation loss.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import optuna
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, SuccessiveHalvingPruner
from optuna.samplers import TPESampler

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna import PromotionCallback, UHEBOSampler, continued_from, inner_steps
from benchmarks.horizon.tasks import Task, Training

N_REPORTS = 64  # of a peer's full training
FULL_TRAININGS = 10  # of the peers that the budget would allow: R = B / 10
OUTERS = (5, 10, 20, 40, 80)
PAPER_OUTERS = (20, 40, 60)  # T in section 5 of Fu et al. (2024)
PHIS = (0.3, 1.0, 3.0)
# Spends the steps on a task, given them and a seed; returns what :meth:`Bench.outcome` does.
Method: TypeAlias = Callable[[Task, int, int], dict[str, float]]


class Bench:
    """The trainings of one search, by trial number."""

    def __init__(self, task: Task, seed: int) -> None:
        """Start without any."""
        self._task, self._seed = task, seed
        self._ended: dict[int, tuple[Training, float]] = {}
        self._n_configurations = self.spent = 0

    def start(self, trial: optuna.Trial) -> Training:
        """Return a new training with the parameters that ``trial`` suggests."""
        self._n_configurations += 1
        return self._task.start(
            self._task.suggest(trial), seed=(self._seed, self._n_configurations)
        )

    def resume(self, trial: optuna.Trial, source: int) -> Training:
        """Return the training of another trial, to go on with."""
        self._task.suggest(trial)
        return self._ended[source][0].copy()

    def train(self, training: Training, n_steps: int) -> None:
        """Make steps, and count them."""
        training.train(n_steps)
        self.spent += n_steps

    def end(self, trial: optuna.Trial, training: Training) -> float:
        """Keep the model of a trial; returns the logarithm of its validation loss."""
        loss = training.validation_loss()
        self._ended[trial.number] = (training, loss)
        return float(np.log(loss))

    def outcome(self) -> dict[str, float]:
        """Return losses and the test error of the model with the lowest validation loss, and steps.

        Counted are those of its training, of the longest one, and of all of them (``spent``).
        """
        best, loss = min(self._ended.values(), key=lambda ended: ended[1])
        return {
            "validation_loss": loss,
            "test_loss": best.test_loss(),
            "test_error": best.test_error(),
            "n_steps": best.n_steps,
            "n_configurations": self._n_configurations,
            "n_longest": max(training.n_steps for training, _ in self._ended.values()),
            "spent": self.spent,
        }


def by_horizon(
    task: Task, total: int, seed: int, *, horizon: Callable[[int], InnerHorizon], **options: Any
) -> dict[str, float]:
    """Train by a horizon, with our sampler."""
    plan, bench = horizon(total), Bench(task, seed)

    def objective(trial: optuna.Trial) -> float:
        source = continued_from(trial)
        training = bench.start(trial) if source is None else bench.resume(trial, source)
        bench.train(training, len(inner_steps(trial, plan)))
        return bench.end(trial, training)

    study = optuna.create_study(sampler=UHEBOSampler(seed=seed, horizon=plan, **options))
    study.optimize(objective, n_trials=plan.n_outer, callbacks=[PromotionCallback(plan)])
    return bench.outcome()


def by_pruner(
    task: Task,
    total: int,
    seed: int,
    *,
    pruner: Callable[[], BasePruner],
    full_trainings: int = FULL_TRAININGS,
) -> dict[str, float]:
    """Train up to R steps unless pruned."""
    bench = Bench(task, seed)
    largest = max(total // full_trainings, N_REPORTS)
    ends = [largest * report // N_REPORTS for report in range(1, N_REPORTS + 1)]

    def objective(trial: optuna.Trial) -> float:
        training = bench.start(trial)
        for report, end in enumerate(ends, start=1):
            bench.train(training, min(end - training.n_steps, total - bench.spent))
            value = bench.end(trial, training)
            trial.report(value, report)
            if bench.spent >= total:
                trial.study.stop()
                break
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=TPESampler(seed=seed), pruner=pruner())
    study.optimize(objective)
    return bench.outcome()


def growing(total: int, **options: Any) -> InnerHorizon:
    """Return the growing horizon."""
    return InnerHorizon.growing(total_steps=total, **options)


def fixed(total: int, *, n_outer: int) -> InnerHorizon:
    """Return N = B / T."""
    return InnerHorizon(n_outer=n_outer, constant=total // n_outer / n_outer)


PEERS: dict[str, Callable[[], BasePruner]] = {
    "asha": SuccessiveHalvingPruner,
    "hyperband": functools.partial(HyperbandPruner, min_resource=1, max_resource=N_REPORTS),
    "median": MedianPruner,
}
OURS = {"ei": "logei", "ucb": "ucb"}
HORIZONS: dict[str, Callable[[int], InnerHorizon]] = {
    "growing": growing,
    **{f"phi={phi:g}": functools.partial(growing, phi=phi) for phi in PHIS},
    **{f"T={n}": functools.partial(fixed, n_outer=n) for n in sorted({*OUTERS, *PAPER_OUTERS})},
}
GROWING = tuple(f"growing-{name}" for name in OURS)
RATIOS = tuple(f"T={n}-{name}" for name in OURS for n in OUTERS)
RIVALS: dict[str, Method] = {
    **{name: functools.partial(by_pruner, pruner=pruner) for name, pruner in PEERS.items()},
    "asha-5": functools.partial(by_pruner, pruner=SuccessiveHalvingPruner, full_trainings=5),
}
METHODS: dict[str, Method] = {
    **{
        f"{kind}-{name}": functools.partial(by_horizon, horizon=horizon, acquisition=acquisition)
        for kind, horizon in HORIZONS.items()
        for name, acquisition in OURS.items()
    },
    **RIVALS,
}
