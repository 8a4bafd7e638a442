"""Optuna's own conformance classes, run against GOUCBSampler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import optuna
import pytest
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

from bbo_plugins.optuna import GOUCBSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler

FACTORIES: dict[str, Callable[[], BaseSampler]] = {
    "model": lambda: GOUCBSampler(n_startup_trials=1, hidden_units=5, seed=0),
    "model-deterministic": lambda: GOUCBSampler(
        n_startup_trials=1, hidden_units=5, deterministic_objective=True
    ),
    "default": GOUCBSampler,
}
INDEPENDENT: dict[str, Callable[[], BaseSampler]] = {
    "random": lambda: GOUCBSampler(independent_sampler=optuna.samplers.RandomSampler(seed=0))
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
