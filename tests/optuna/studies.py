"""Studies that several tests of samplers use."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

if TYPE_CHECKING:
    import pytest
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.optuna import UHEBOSampler


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


def started(sampler: UHEBOSampler, n: int = 6, **study: Any) -> Study:
    """Return a study with ``n`` finished trials in the box."""
    made = optuna.create_study(sampler=sampler, **study)
    for _ in range(n):
        trial = made.ask(BOX)
        made.tell(trial, quadratic(trial.params))
    return made


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
