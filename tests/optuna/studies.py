"""Studies that several tests of samplers use."""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial


BOX: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0.0, 1.0),
    "y": FloatDistribution(0.0, 1.0),
    "z": FloatDistribution(0.0, 1.0),
}
MIXED: dict[str, BaseDistribution] = {
    "c": CategoricalDistribution(["a", None, True, 2.5]),
    "lr": FloatDistribution(1e-5, 1.0, log=True),
    "n": IntDistribution(1, 9, step=2),
    "s": FloatDistribution(0.0, 1.0, step=0.1),
    "u": IntDistribution(4, 256, log=True),
}


def quadratic(params: dict[str, Any]) -> float:
    """Return a bowl with its minimum inside the box."""
    return float((params["x"] - 0.3) ** 2 + (params["y"] - 0.6) ** 2 + (params["z"] - 0.8) ** 2)


def conditional(trial: Trial) -> float:
    """Use every kind of parameter, one of them only sometimes."""
    x = trial.suggest_float("x", -2.0, 2.0)
    lr = trial.suggest_float("lr", 1e-4, 1.0, log=True)
    n = trial.suggest_int("n", 1, 8)
    kind = trial.suggest_categorical("kind", ["a", "b", None])
    extra = trial.suggest_float("extra", 0.0, 1.0) if kind == "a" else 0.5
    return (x - 0.3) ** 2 + abs(math.log10(lr) + 2.0) + 0.1 * n + extra


def started(sampler: BaseSampler, n: int = 6, **study: Any) -> Study:
    """Return a study with ``n`` finished trials in the box."""
    made = optuna.create_study(sampler=sampler, **study)
    for _ in range(n):
        trial = made.ask(BOX)
        made.tell(trial, quadratic(trial.params))
    return made


def add_begun(study: Study, params: dict[str, Any]) -> None:
    """Add a waiting trial as of a worker that died after it had suggested ``params``."""
    known = study.trials[0].distributions
    distributions = {name: known[name] for name in params}
    waiting = optuna.trial.TrialState.WAITING
    study.add_trial(optuna.create_trial(state=waiting, params=params, distributions=distributions))


def violation(params: dict[str, Any]) -> float:
    """Return the constraint of :func:`constrained`, violated at the minimum of the bowl."""
    return float(0.5 - params["x"])


def constrained(make: Callable[..., BaseSampler], form: str) -> Study:
    """Return a study of 25 trials of which those with x < 0.5 are infeasible.

    Args:
        make: Makes a sampler from a ``constraints_func``.
        form: How constraints are told: "constraints_func" or "set_constraint".
    """
    listed = form == "constraints_func"
    if not listed and not hasattr(optuna.Trial, "set_constraint"):
        pytest.skip("this Optuna has no Trial.set_constraint")
    constraints_func = (lambda trial: [violation(trial.params)]) if listed else None
    study = optuna.create_study(sampler=make(constraints_func=constraints_func))
    for _ in range(25):
        trial = study.ask(BOX)
        if not listed:
            trial.set_constraint("x is large", violation(trial.params))
        study.tell(trial, quadratic(trial.params))
    return study


def stop_below(bound: float) -> Callable[[Study, FrozenTrial], None]:
    """Return a callback that ends a study as soon as its best value is less."""

    def stop(study: Study, trial: FrozenTrial) -> None:
        del trial
        with suppress(ValueError):  # nothing is complete and feasible yet
            if study.best_value < bound:
                study.stop()

    return stop


def params_of(study: Study) -> list[dict[str, Any]]:
    """Return the parameters of all trials."""
    return [trial.params for trial in study.trials]


def points(trials: list[Any]) -> Any:
    """Return trials of the box as an array (n, 3)."""
    return np.array([[trial.params[name] for name in BOX] for trial in trials])


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings this package has logged."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("bbo_plugins") and record.levelno == logging.WARNING
    ]
