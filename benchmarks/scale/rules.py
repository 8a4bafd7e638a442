"""Rules that say which observations a model has if there may only be so many.

The package's own is :mod:`bbo_plugins.methods.training_subset`; the others are what it was chosen
from. All change slowly in the same way: what is chosen stays for a tenth of the limit, and
observations that come meanwhile are added. All keep the best observation.

- ``all``: no limit.
- ``chosen``: the package's.
- ``mostly-best``, ``best-latest``, ``best-far``, ``latest``: other shares of its parts.
- ``random``: a random part.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.observations import Observations
from bbo_plugins.methods.training_subset import MAX_MODELED, Shares, modeled
from bbo_plugins.optuna import UHEBOSampler

Rule: TypeAlias = Callable[[Observations, FeatureMap, int], Observations]

ALL, CHOSEN = "all", "chosen"
SHARE = 5  # the limit is the number of trials divided by this
_LEAST_LIMIT = 10
_N_BLOCKS = 10
_SEED = 7


def _everything(observations: Observations, _features: FeatureMap, _limit: int) -> Observations:
    return observations


def _with_shares(**shares: float) -> Rule:
    def rule(observations: Observations, features: FeatureMap, limit: int) -> Observations:
        return modeled(observations, features, limit=limit, shares=Shares(**shares))

    return rule


def _random(observations: Observations, _features: FeatureMap, limit: int) -> Observations:
    n, block = len(observations.y), max(limit // _N_BLOCKS, 1)
    if n <= limit:
        return observations
    settled = n - n % block
    rank = np.random.default_rng(_SEED).random(settled)  # that of an index does not change
    rank[int(np.argmax(np.where(observations.complete, observations.y, -np.inf)[:settled]))] = -1.0
    chosen = np.sort(np.argsort(rank, kind="stable")[: limit - block])
    return observations.take(np.concatenate([chosen, np.arange(settled, n)]))


RULES: Mapping[str, Rule] = {
    ALL: _everything,
    CHOSEN: _with_shares(),
    "mostly-best": _with_shares(best=0.5, latest=0.25),
    "best-latest": _with_shares(best=0.5, latest=0.5),
    "best-far": _with_shares(best=0.5, latest=0.0),
    "latest": _with_shares(best=0.0, latest=1.0),
    "random": _random,
}


class LimitedSampler(UHEBOSampler):
    """Our sampler with a model of at most a fifth of the budget, chosen by a rule."""

    def __init__(self, rule: str, *, seed: int, budget: int) -> None:
        """Keep the rule and its limit."""
        super().__init__(seed=seed)
        self._rule, self._limit = RULES[rule], max(budget // SHARE, _LEAST_LIMIT)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest as ever, while the models of this process have what the rule chooses."""

        def by_rule(observations: Observations, features: FeatureMap) -> Observations:
            return self._rule(observations, features, self._limit)

        training_subset.modeled = by_rule  # type: ignore[assignment]
        training_subset.MAX_MODELED = self._limit  # type: ignore[misc]
        try:
            return super().sample_relative(study, trial, search_space)
        finally:
            training_subset.modeled = modeled
            training_subset.MAX_MODELED = MAX_MODELED  # type: ignore[misc]
