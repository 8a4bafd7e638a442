"""Rules that say which observations a model has if there may only be so many.

The package's own is :mod:`bbo_plugins.methods.training_subset`; the others are what it was chosen
from.
All change slowly in the same way: what is chosen stays for a tenth of the limit, and observations
that come meanwhile are added. All but ``all`` keep the best observation.

- ``all``: no limit.
- ``chosen``: the package's.
- ``mostly-best``, ``best-latest``, ``best-far``, ``latest``, ``far``: other shares of its parts.
- ``random``: a random part.
- ``nearest``: half of them the nearest to the best one, a quarter the best, a quarter far apart.
- ``variance``: each the one of which those before it say least, by the kernel with the prior's
  length-scales (a pivoted Cholesky factorization).
"""

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from bbo_plugins.gp.fit import default_prior
from bbo_plugins.gp.kernels import (
    FeatureMap,
    left_factor,
    matern52,
    right_factor,
    squared_distances,
)
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.observations import Observations
from bbo_plugins.methods.training_subset import Shares, modeled
from bbo_plugins.space.dimension import FloatArray, IntArray

Rule: TypeAlias = Callable[[Observations, FeatureMap, int], Observations]
# From the feature columns (n, D), the values (n,) and the size: the indices (size,).
Choice: TypeAlias = Callable[[FloatArray, FloatArray, int], IntArray]

ALL, CHOSEN = "all", "chosen"
_N_BLOCKS = 10
_NOISE = 1e-6  # of the kernel's variance, for the rule by variance
_SEED = 7


def _everything(observations: Observations, _features: FeatureMap, _limit: int) -> Observations:
    return observations


def _own(observations: Observations, features: FeatureMap, limit: int) -> Observations:
    return modeled(observations, features, limit=limit)


def _with_shares(shares: Shares) -> Rule:
    def rule(observations: Observations, features: FeatureMap, limit: int) -> Observations:
        return modeled(observations, features, limit=limit, shares=shares)

    return rule


def _in_blocks(
    choice: Choice, observations: Observations, features: FeatureMap, limit: int
) -> Observations:
    """Apply a choice to the observations up to the last full block."""
    n, block = len(observations.y), max(limit // _N_BLOCKS, 1)
    if n <= limit:
        return observations
    settled = n - n % block
    values = np.where(observations.complete, observations.y, -np.inf)[:settled]
    chosen = choice(features.columns(observations.X[:settled]), values, limit - block)
    return observations.take(np.concatenate([np.sort(chosen), np.arange(settled, n)]))


def _random(_columns: FloatArray, values: FloatArray, size: int) -> IntArray:
    rank = np.random.default_rng(_SEED).random(len(values))  # that of an index does not change
    rank[int(np.argmax(values))] = -1.0
    return np.argsort(rank, kind="stable")[:size]


def _nearest(columns: FloatArray, values: FloatArray, size: int) -> IntArray:
    best = np.argsort(-values, kind="stable")
    near = np.argsort(np.square(columns - columns[best[0]]).sum(axis=1), kind="stable")
    chosen = np.union1d(near[: size // 2], best[: size // 4])
    others = np.setdiff1d(np.arange(len(values)), chosen)
    far = training_subset._far_apart(  # noqa: SLF001 - the package's own way
        columns[others], columns[chosen], size - len(chosen)
    )
    return np.concatenate([chosen, others[far]])


def _variance(columns: FloatArray, values: FloatArray, size: int) -> IntArray:
    d = columns.shape[1]
    A = columns * (np.sqrt(5.0) / np.exp(default_prior(d).location[0]))
    left = left_factor(A)
    V, variance = np.zeros((size, len(values))), np.ones(len(values)) + _NOISE
    chosen = np.empty(size, dtype=np.int64)
    i = int(np.argmax(values))
    for k in range(size):
        chosen[k] = i
        covariance = matern52(squared_distances(left, right_factor(A[[i]])))[:, 0]
        V[k] = (covariance - V[:k].T @ V[:k, i]) / np.sqrt(variance[i])
        variance = variance - np.square(V[k])
        variance[chosen[: k + 1]] = -np.inf
        i = int(np.argmax(variance))
    return chosen


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        ALL: _everything,
        CHOSEN: _own,
        "mostly-best": _with_shares(Shares(best=0.5, latest=0.25)),
        "best-latest": _with_shares(Shares(best=0.5, latest=0.5)),
        "best-far": _with_shares(Shares(best=0.5, latest=0.0)),
        "latest": _with_shares(Shares(best=0.0, latest=1.0)),
        "far": _with_shares(Shares(best=0.0, latest=0.0)),
        "random": functools.partial(_in_blocks, _random),
        "nearest": functools.partial(_in_blocks, _nearest),
        "variance": functools.partial(_in_blocks, _variance),
    }
)
