"""Maximization of an acquisition function over a trust region of the mixed unit cube.

As in :mod:`bbo_plugins.acquisition.optimize`, a batch of candidates is screened, the best climb
together, and what has levels is searched level by level; but everything stays inside a box around
the region's center, whatever the number of dimensions. In numeric dimensions with levels the box
reaches the neighbors of the center's level at least; categories are all inside.

Candidates are of two kinds: points spread evenly over the box, and copies of the center of which
about twenty coordinates are moved, some far, some hardly.

Source: the moved copies after Regis & Shoemaker (2013), "Combining radial basis function surrogates
and dynamic coordinate search in high-dimensional expensive black-box optimization".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.acquisition.ascent import ascend
from bbo_plugins.acquisition.optimize import best_allowed
from bbo_plugins.acquisition.quasirandom import shifted_sobol

if TYPE_CHECKING:
    from bbo_plugins.acquisition.optimize import Acquisition
    from bbo_plugins.gp.kernels import FloatArray
    from bbo_plugins.methods.trust_region import TrustRegion
    from bbo_plugins.space import SearchSpace

_N_CANDIDATES = 512
_N_STARTS = 6
_N_MOVED = 20.0  # coordinates of a copy of the center that move, on average
_MAX_ITERATIONS = 40
_FEW_LEVELS = 16  # numeric dimensions with more levels take part in the ascent
_MAX_TRIED_LEVELS = 16
_MAX_ROUNDS = 2
_SCALE = 0.5  # of the box: distance over which the function is taken to vary


@dataclass(frozen=True)
class _Box:
    """The part of the unit cube that is searched, and the function in its coordinates [0, 1]^d."""

    acquisition: Acquisition
    low: FloatArray
    width: FloatArray

    def points(self, T: FloatArray) -> FloatArray:
        return self.low + self.width * T

    def value_and_gradient(self, T: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, gradient = self.acquisition.value_and_gradient(self.points(T))
        return value, gradient * self.width


def maximize_in_region(
    acquisition: Acquisition,
    space: SearchSpace,
    region: TrustRegion,
    *,
    rng: np.random.Generator,
    excluded: FloatArray,
    pending: FloatArray,
) -> FloatArray:
    """Return a representable point (d,) of the region with a high acquisition value.

    Args:
        acquisition: The function to maximize.
        space: The search space that says which points are representable.
        region: Where to search; its center is representable.
        rng: Source of the candidates.
        excluded: Points not to be returned unless the space is exhausted, shape (e, d).
        pending: Points being evaluated elsewhere, shape (p, d): none of them is returned unless the
            space is exhausted, and none near them as long as there is another candidate.
    """
    box = _box(acquisition, space, region)
    candidates = space.snap(_candidates(space, region.center, box, rng))
    values = _finite(acquisition.value(candidates))
    order = np.argsort(-values, kind="stable")
    starts = np.concatenate([candidates[order[:_N_STARTS]], region.center[None, :]])
    free = space.is_continuous | _has_many_levels(space)
    X, optima = _climb(box, starts, free)
    if not space.is_continuous.all():
        X = space.snap(X)
        X, optima = _search_levels(acquisition, space, box, X, rng)
    return best_allowed(
        np.concatenate([X, candidates[order]]),
        np.concatenate([optima, values[order]]),
        excluded,
        pending,
        space,
        rng,
    )[0]


def _finite(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, -np.inf)


def _has_many_levels(space: SearchSpace) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    counts = [0 if axis.is_categorical else axis.n_levels or 0 for axis in space.dimensions]
    return np.array(counts) > _FEW_LEVELS


def _box(acquisition: Acquisition, space: SearchSpace, region: TrustRegion) -> _Box:
    low, high = region.low, region.high
    for i, axis in enumerate(space.dimensions):
        if axis.is_categorical:
            low[i], high[i] = 0.0, 1.0
        elif axis.n_levels is not None:
            level = axis.level_of(region.center[i : i + 1])
            neighbors = np.clip(level + np.array([-1, 1]), 0, axis.n_levels - 1)
            below, above = axis.position_of(neighbors).tolist()
            low[i], high[i] = min(low[i], below), max(high[i], above)
    return _Box(acquisition, low, high - low)


def _candidates(
    space: SearchSpace, center: FloatArray, box: _Box, rng: np.random.Generator
) -> FloatArray:
    """Return points of the box (m, d), half of them spread evenly, half near the center."""
    n, d = _N_CANDIDATES // 2, len(space)
    points = box.points(shifted_sobol(2 * n, d, rng))
    spread, near = points[:n], points[n:]
    numeric = space.n_categories == 0
    reach = np.where(numeric, 10.0 ** rng.uniform(-1.5, 0.0, size=(n, 1)), 1.0)
    near = center + reach * (near - center)
    share = np.where(numeric, min(1.0, _N_MOVED / d), min(0.3, _N_MOVED / d))
    near = np.where(rng.random((n, d)) < share, near, center)
    return np.concatenate([spread, near])


def _climb(
    box: _Box, starts: FloatArray, free: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[FloatArray, FloatArray]:
    """Climb from ``starts`` (B, d) in the ``free`` coordinates; return points and values (B,)."""
    safe = np.where(box.width > 0.0, box.width, 1.0)
    T = np.clip((starts - box.low) / safe, 0.0, 1.0)
    scale = np.full(starts.shape[1], _SCALE)
    moved = free & (box.width > 0.0)
    T, values = ascend(box, T, free=moved, scale=scale, max_iterations=_MAX_ITERATIONS)
    return np.where(moved, box.points(T), starts), values


def _search_levels(
    acquisition: Acquisition, space: SearchSpace, box: _Box, X: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Alternate search over levels, one dimension at a time, and ascent in continuous dimensions.

    Returns the points (B, d) and their values (B,).
    """
    values = _finite(acquisition.value(X))
    continuous = space.is_continuous
    for _ in range(_MAX_ROUNDS):
        before = values.copy()
        for i in np.flatnonzero(~continuous & (box.width > 0.0)).tolist():
            levels = _levels(space, box, i, rng)
            trials = np.repeat(X, len(levels), axis=0)
            trials[:, i] = np.tile(levels, len(X))
            heights = _finite(acquisition.value(trials)).reshape(len(X), -1)
            best = np.argmax(heights, axis=1)
            higher = heights.max(axis=1) > values
            X = X.copy()
            X[higher, i] = levels[best[higher]]
            values = np.maximum(values, heights.max(axis=1))
        improved = values > before
        if not improved.any() or not continuous.any():
            break
        climbed, heights = _climb(box, X[improved], continuous)
        better = heights > values[improved]
        rows = np.flatnonzero(improved)[better]
        X[rows], values[rows] = climbed[better], heights[better]
    return X, values


def _levels(space: SearchSpace, box: _Box, i: int, rng: np.random.Generator) -> FloatArray:
    """Return coordinates of levels of dimension ``i`` inside the box, all of them or a sample."""
    axis = space.dimensions[i]
    ends = np.array([box.low[i], box.low[i] + box.width[i]])
    first, last = axis.level_of(ends).tolist()
    n = last - first + 1
    if n <= _MAX_TRIED_LEVELS:
        levels = np.arange(first, last + 1)
    else:
        levels = first + rng.integers(n, size=_MAX_TRIED_LEVELS)
    coordinates: FloatArray = axis.position_of(levels)
    return coordinates
