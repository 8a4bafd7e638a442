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
    MultiObjectiveSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

from bbo_plugins.optuna import BBOSampler, GOUCBSampler, UHEBOSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler

FACTORIES: dict[str, Callable[[], BaseSampler]] = {
    "bbo": lambda: BBOSampler(n_startup_trials=1, seed=0),
    "uhe": lambda: UHEBOSampler(n_startup_trials=1, seed=0),
    "go-ucb": lambda: GOUCBSampler(n_startup_trials=1, hidden_units=5, seed=0),
}
INDEPENDENT: dict[str, Callable[[], BaseSampler]] = {
    "go-ucb-independent": lambda: GOUCBSampler(
        independent_sampler=optuna.samplers.RandomSampler(seed=0)
    )
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


class TestSeveralObjectives(MultiObjectiveSamplerTestCase):
    """Independent sampling in a study with two directions."""

    @pytest.fixture(params=["bbo"])
    def sampler(self, request: pytest.FixtureRequest) -> Callable[[], BaseSampler]:
        """Return a function that makes a sampler."""
        return FACTORIES[request.param]


class TestSingleOnly(SingleOnlySamplerTestCase):
    """Several objectives are refused."""

    @pytest.fixture(params=["uhe", "go-ucb", *INDEPENDENT])
    def sampler(self, request: pytest.FixtureRequest) -> Callable[[], BaseSampler]:
        """Return a function that makes a sampler."""
        return {**FACTORIES, **INDEPENDENT}[request.param]
