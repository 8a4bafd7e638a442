"""Optuna's own conformance classes, run against our samplers.

Its relative tests ask for a complete suggestion after one finished trial. A start-up of one trial
sends them through the model, the default start-up through the space-filling design; a user's own
independent sampler, which is responsible for the start-up, is left out of those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import optuna
import pytest
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

from bbo_plugins.optuna import UHEBOSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler

FACTORIES: dict[str, Callable[[], BaseSampler]] = {
    "model": lambda: UHEBOSampler(n_startup_trials=1, seed=0),
    "model-ei": lambda: UHEBOSampler(n_startup_trials=1, acquisition="ei", seed=0),
    "model-ucb": lambda: UHEBOSampler(n_startup_trials=1, acquisition="ucb", beta=2.0),
    "model-map": lambda: UHEBOSampler(n_startup_trials=1, estimation="map", seed=0),
    "model-deterministic": lambda: UHEBOSampler(n_startup_trials=1, deterministic_objective=True),
    "default": UHEBOSampler,
}
INDEPENDENT: dict[str, Callable[[], BaseSampler]] = {
    "random": lambda: UHEBOSampler(independent_sampler=optuna.samplers.RandomSampler(seed=0))
}


class TestBasic(BasicSamplerTestCase):
    """Independent sampling, odd values, conditional and dynamic parameters."""

    @pytest.fixture(params=[*FACTORIES, *INDEPENDENT])
    def sampler(self, request: pytest.FixtureRequest) -> Callable[[], BaseSampler]:
        """Return a function that makes a sampler."""
        return {**FACTORIES, **INDEPENDENT}[request.param]


class TestRelative(RelativeSamplerTestCase):
    """Joint sampling of every kind of parameter, in one thread and in two."""

    @pytest.fixture(params=[*FACTORIES])
    def sampler(self, request: pytest.FixtureRequest) -> Callable[[], BaseSampler]:
        """Return a function that makes a sampler."""
        return FACTORIES[request.param]


class TestSingleOnly(SingleOnlySamplerTestCase):
    """Several objectives are refused."""

    @pytest.fixture(params=[*FACTORIES, *INDEPENDENT])
    def sampler(self, request: pytest.FixtureRequest) -> Callable[[], BaseSampler]:
        """Return a function that makes a sampler."""
        return {**FACTORIES, **INDEPENDENT}[request.param]
