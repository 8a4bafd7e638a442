"""Bilevel studies with a known solution, for the tests of BILBO in Optuna."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optuna

from bbo_plugins.optuna.bilbo_sampler import BILBOSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.study import Study
    from optuna.trial import Trial

PAIR = (["x"], ["z"])
FUNCTIONS = ["upper", "lower"]
HAS_SET_CONSTRAINT = hasattr(optuna.Trial, "set_constraint")


def sampler_of(seed: int = 0, **options: Any) -> BILBOSampler:
    """Return a sampler of one parameter on each level."""
    return BILBOSampler(*PAIR, seed=seed, **options)


def decoupled(sampler: BILBOSampler) -> Callable[[Trial], float]:
    """Return an objective whose solution is x = z = 0.5; with a constraint, x = z = 0.6."""

    def objective(trial: Trial) -> float:
        query = trial.suggest_categorical("query", sampler.functions)
        x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
        values = {"upper": (x - 0.8) ** 2 + (z - 0.2) ** 2, "lower": (z - x) ** 2, "C": 0.6 - x}
        return values[query]

    return objective


def coupled(trial: Trial) -> tuple[float, float]:
    """Return both objectives at once; with the constraint, the solution is x = z = 0.6."""
    x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
    trial.set_constraint("C", 0.6 - x)
    return (x - 0.8) ** 2 + (z - 0.2) ** 2, (z - x) ** 2


def study_of(sampler: BILBOSampler, n_trials: int, **options: Any) -> Study:
    """Return a decoupled study of so many trials."""
    study = optuna.create_study(sampler=sampler, **{"direction": "minimize", **options})
    study.optimize(decoupled(sampler), n_trials=n_trials)
    return study


def queries_of(study: Study) -> list[tuple[Any, ...]]:
    """Return the parameters of all trials."""
    return [tuple(trial.params.values()) for trial in study.trials]
