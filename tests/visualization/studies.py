"""Studies to be plotted."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Literal

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from bbo_plugins.optuna import UHEBOSampler

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

MIXED: dict[str, BaseDistribution] = {
    "choice": CategoricalDistribution(["a", None, True]),
    "layers": IntDistribution(1, 6),
    "lr": FloatDistribution(1e-5, 1.0, log=True),
    "units": IntDistribution(4, 512, log=True),
    "x": FloatDistribution(-1.0, 1.0),
}
N_STARTUP, N_TRIALS = 6, 13


def loss(params: dict[str, Any]) -> float:
    """Return a value to be minimized."""
    return float(
        (math.log10(params["lr"]) + 2.5) ** 2
        + 0.2 * (params["layers"] - 3) ** 2
        + 0.1 * math.log(params["units"]) ** 2
        + (params["choice"] is None)
        + 0.5 * params["x"] ** 2
    )


def sampler() -> UHEBOSampler:
    """Return the sampler of the studies."""
    return UHEBOSampler(estimation="map", n_startup_trials=N_STARTUP, seed=1)


@functools.cache
def modeled_study() -> Study:
    """Return a study in which a model suggested all but the first trials; not to be changed."""
    study = optuna.create_study(sampler=sampler())
    for _ in range(N_TRIALS):
        trial = study.ask(MIXED)
        study.tell(trial, loss(trial.params))
    return study


def copied(study: Study, *, negated: bool = False) -> Study:
    """Return a study with the complete trials of ``study`` only, or the mirror image of it."""
    sign = -1.0 if negated else 1.0
    direction: Literal["minimize", "maximize"] = "maximize" if negated else "minimize"
    copy = optuna.create_study(direction=direction, sampler=sampler())
    for trial in study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)):
        copy.add_trial(
            optuna.trial.create_trial(
                params=trial.params,
                distributions=trial.distributions,
                value=sign * (trial.value or 0.0),
            )
        )
    return copy
