"""Maximization of an acquisition function over the mixed unit cube.

1. **Screening.** A batch of Sobol points and of perturbations of good observed points is evaluated
   at once.
2. **Ascent.** The best, mutually distant ones become starts that climb *together*: every iteration
   of :mod:`bbo_plugins.acquisition.ascent` evaluates all of them in one call, and those that cannot
   catch up are dropped. Discrete numeric dimensions with many levels take part as if they were
   continuous.
3. **Discrete search.** The survivors are snapped to representable points; one coordinate at a time,
   all levels (few) or neighbors at doubling distances (many) are tried, alternating with ascent in
   the continuous dimensions.

A small finite space is enumerated instead. At the end the best point is taken that is allowed: not
one that must not be suggested again, and not one close to where another worker already is.

Maximization of an acquisition function over a trust region of the mixed unit cube.

As in :mod:`bbo_plugins.acquisition.maximize`, a batch of candidates is screened, the best climb
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
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bbo_plugins.acquisition.ascent import ascend
from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.space import CLOSE, Dimension, SearchSpace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bbo_plugins.space.dimension import FloatArray, IntArray

_MAX_ENUMERATED = 1024  # finite spaces up to this size are searched exhaustively


_N_UNSEEN_DRAWS = 1024  # random points tried first when a point not seen yet is needed


_MAX_LISTED = 200_000  # finite spaces up to this size are listed to find a point not seen yet


_FEW_LEVELS = 16  # numeric dimensions beyond this size take part in the ascent


_MAX_TRIED_LEVELS = 64  # dimensions up to this size are searched level by level


_N_STARTS = 12


_N_LOCAL = 128


_START_POOL = 192  # best screened points among which distant starts are picked


_START_DISTANCE = 0.25  # in length-scales


_N_SURVIVORS = 4  # starts that go through the discrete search


_MAX_ROUNDS = 4


_MATCH_DECIMALS = 10  # coordinates that agree to this many digits are the same point


class Acquisition(Protocol):
    """A function to be maximized over the unit cube, evaluated in batches."""

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values at ``X`` (m, d), shape (m,)."""

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""


def maximize(
    acquisition: Acquisition,
    space: SearchSpace,
    *,
    rng: np.random.Generator,
    length_scales: FloatArray,
    anchors: FloatArray,
    excluded: FloatArray | None = None,
    pending: FloatArray | None = None,
    n_candidates: int = 256,
) -> tuple[FloatArray, float]:
    """Return a representable point of the unit cube with a high acquisition value, and that value.

    Args:
        acquisition: The function to maximize.
        space: The search space that says which points are representable.
        rng: Source of the candidates.
        length_scales: Typical distance over which the function varies, per dimension, shape (d,).
        anchors: Promising points whose surroundings are searched too, shape (k, d).
        excluded: Points that must not be returned unless the space is exhausted, shape (e, d).
        pending: Points being evaluated elsewhere, shape (p, d): none of them is returned unless
            the space is exhausted, and none near them as long as there is another candidate.
        n_candidates: Number of space-filling candidates.
    """
    nothing = np.empty((0, len(space)))
    excluded = nothing if excluded is None else excluded
    pending = nothing if pending is None else pending
    size = space.size
    if size is not None and size <= _MAX_ENUMERATED:
        points = space.enumerate()
        values = _finite(acquisition.value(points))
        return best_allowed(points, values, excluded, pending, space, rng)
    reach = np.minimum(length_scales, 1.0)
    candidates = space.snap(
        np.concatenate(
            [
                shifted_sobol(n_candidates, len(space), rng),
                _perturbations(anchors, space, reach, rng),
            ]
        )
    )
    values = _finite(acquisition.value(candidates))
    starts = candidates[_distant_best(candidates / reach, values)]
    continuous = space.is_continuous
    relaxed = np.array([_has_many_levels(dimension) for dimension in space.dimensions])
    X, optima = ascend(acquisition, starts, free=continuous | relaxed, scale=reach)
    if not continuous.all():
        best = np.argsort(-optima, kind="stable")[:_N_SURVIVORS]
        X = space.snap(X[best])
        X, optima = _search_discrete(acquisition, space, X, reach, rng)
    order = np.argsort(-values, kind="stable")[:_START_POOL]
    return best_allowed(
        np.concatenate([X, candidates[order]]),
        np.concatenate([optima, values[order]]),
        excluded,
        pending,
        space,
        rng,
    )


def _finite(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, -np.inf)


def _has_many_levels(dimension: Dimension) -> bool:
    count = dimension.n_levels
    return count is not None and count > _FEW_LEVELS and not dimension.is_categorical


def _perturbations(
    anchors: FloatArray, space: SearchSpace, reach: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return points 1/1000 to 1 length-scales from ``anchors`` (k, d), shape (_N_LOCAL, d).

    In more than 20 dimensions a random subset of about 20 of the coordinates moves; a category is
    drawn anew.
    """
    if not len(anchors):
        return np.empty((0, len(space)))
    n, d = _N_LOCAL, len(space)
    points = anchors[np.arange(n) % len(anchors)]
    distance = 10.0 ** rng.uniform(-3.0, 0.0, size=(n, 1))
    moved = points + distance * reach * rng.standard_normal((n, d))
    categorical = space.n_categories > 0
    moved[:, categorical] = rng.random((n, int(categorical.sum())))
    share = np.where(categorical, 0.3, min(1.0, 20.0 / d))
    return np.clip(np.where(rng.random((n, d)) < share, moved, points), 0.0, 1.0)


def _distant_best(scaled: FloatArray, values: FloatArray) -> IntArray:
    """Return indices of some of the best points, no two closer than ``_START_DISTANCE``."""
    pool = np.argsort(-values, kind="stable")[:_START_POOL]
    points = scaled[pool]
    open_ = values[pool] > -np.inf
    open_[0] = True
    chosen: list[int] = []
    while len(chosen) < _N_STARTS and open_.any():
        pick = int(np.argmax(open_))
        chosen.append(pick)
        gaps = points - points[pick]
        open_ &= np.einsum("ij,ij->i", gaps, gaps) > _START_DISTANCE**2
    return pool[chosen]


def _search_discrete(
    acquisition: Acquisition,
    space: SearchSpace,
    X: FloatArray,
    reach: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Alternate search over discrete coordinates and ascent over continuous ones from ``X`` (B, d).

    Ends when a round improves no point; returns the points (B, d) and their values (B,).
    """
    values = _finite(acquisition.value(X))
    continuous = space.is_continuous
    for _ in range(_MAX_ROUNDS):
        before = values.copy()
        for i in np.flatnonzero(~continuous).tolist():
            X, values = _search_coordinate(acquisition, space.dimensions[i], i, X, values, rng)
        improved = values > before
        if not improved.any():
            break
        if continuous.any():
            climbed, heights = ascend(acquisition, X[improved], free=continuous, scale=reach)
            better = heights > values[improved]
            rows = np.flatnonzero(improved)[better]
            X[rows], values[rows] = climbed[better], heights[better]
    return X, values


def _search_coordinate(
    acquisition: Acquisition,
    dimension: Dimension,
    i: int,
    X: FloatArray,
    values: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Move coordinate ``i`` of every point to the best of its tried levels."""
    tried = _levels_to_try(dimension, dimension.level_of(X[:, i]), rng)
    trials = np.repeat(X, tried.shape[1], axis=0)
    trials[:, i] = dimension.position_of(tried.ravel())
    heights = _finite(acquisition.value(trials)).reshape(tried.shape)
    best = np.argmax(heights, axis=1)
    rows = np.arange(len(X))
    better = heights[rows, best] > values
    X, values = X.copy(), values.copy()
    X[better, i] = dimension.position_of(tried[rows, best])[better]
    values[better] = heights[rows, best][better]
    return X, values


def _levels_to_try(dimension: Dimension, current: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the levels to try from each ``current`` one (B,), shape (B, t)."""
    count = dimension.n_levels or 1
    if count <= _MAX_TRIED_LEVELS:
        return np.tile(np.arange(count), (len(current), 1))
    if dimension.is_categorical:
        return rng.integers(count, size=(len(current), _MAX_TRIED_LEVELS))
    offsets = 2 ** np.arange(min(count - 1, 2**40).bit_length())
    levels: IntArray = current[:, None] + np.concatenate([-offsets, offsets])
    return np.clip(levels, 0, count - 1)


def best_allowed(
    X: FloatArray,
    values: FloatArray,
    excluded: FloatArray,
    pending: FloatArray,
    space: SearchSpace,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    """Return the best of ``X`` that may be suggested; a repeat only if the space is exhausted."""
    order = np.argsort(-values, kind="stable")
    X, values = X[order], values[order]
    if not len(excluded) and not len(pending):
        return X[0], float(values[0])
    taken = _keys_inside(np.concatenate([excluded, pending]), space)
    allowed = np.array([key not in taken for key in _keys(X)])
    apart = space.distances(X, pending).min(axis=1, initial=np.inf) >= CLOSE
    for choice in (allowed & apart & (values > -np.inf), allowed):
        if choice.any():
            row = int(np.argmax(choice))
            return X[row], float(values[row])
    if space.size is None or len(taken) < space.size:
        for candidates in _unseen_candidates(space, rng):
            for row, key in zip(candidates, _keys(candidates), strict=True):
                if key not in taken:
                    return row, -np.inf
    return X[0], float(values[0])


def _keys_inside(X: FloatArray, space: SearchSpace) -> set[bytes]:
    """Return the keys of those points of ``X`` (m, d) that ``space`` can represent as they are."""
    keys = zip(_keys(X), _keys(space.snap(X)), strict=True)
    return {key for key, snapped in keys if key == snapped}


def _unseen_candidates(space: SearchSpace, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield random points first and then, where that is feasible, the whole space."""
    yield space.snap(rng.random((_N_UNSEEN_DRAWS, len(space))))
    if space.size is not None and space.size <= _MAX_LISTED:
        points = space.enumerate()
        yield points[rng.permutation(len(points))]


def _keys(X: FloatArray) -> Iterator[bytes]:
    return (row.tobytes() for row in np.round(X, _MATCH_DECIMALS) + 0.0)


_REGION_N_CANDIDATES = 512


_REGION_N_STARTS = 6


_N_MOVED = 20.0  # coordinates of a copy of the center that move, on average


_REGION_MAX_ITERATIONS = 40


_REGION_FEW_LEVELS = 16  # numeric dimensions with more levels take part in the ascent


_REGION_MAX_TRIED_LEVELS = 16


_REGION_MAX_ROUNDS = 2


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
    values = _finite_in_region(acquisition.value(candidates))
    order = np.argsort(-values, kind="stable")
    starts = np.concatenate([candidates[order[:_REGION_N_STARTS]], region.center[None, :]])
    free = space.is_continuous | _has_many_levels_in_region(space)
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


def _finite_in_region(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), values, -np.inf)


def _has_many_levels_in_region(space: SearchSpace) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    counts = [0 if axis.is_categorical else axis.n_levels or 0 for axis in space.dimensions]
    return np.array(counts) > _REGION_FEW_LEVELS


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
    n, d = _REGION_N_CANDIDATES // 2, len(space)
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
    T, values = ascend(box, T, free=moved, scale=scale, max_iterations=_REGION_MAX_ITERATIONS)
    return np.where(moved, box.points(T), starts), values


def _search_levels(
    acquisition: Acquisition, space: SearchSpace, box: _Box, X: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Alternate search over levels, one dimension at a time, and ascent in continuous dimensions.

    Returns the points (B, d) and their values (B,).
    """
    values = _finite_in_region(acquisition.value(X))
    continuous = space.is_continuous
    for _ in range(_REGION_MAX_ROUNDS):
        before = values.copy()
        for i in np.flatnonzero(~continuous & (box.width > 0.0)).tolist():
            levels = _levels(space, box, i, rng)
            trials = np.repeat(X, len(levels), axis=0)
            trials[:, i] = np.tile(levels, len(X))
            heights = _finite_in_region(acquisition.value(trials)).reshape(len(X), -1)
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
    if n <= _REGION_MAX_TRIED_LEVELS:
        levels = np.arange(first, last + 1)
    else:
        levels = first + rng.integers(n, size=_REGION_MAX_TRIED_LEVELS)
    coordinates: FloatArray = axis.position_of(levels)
    return coordinates


@dataclass(frozen=True)
class TrustRegion:
    """A box around a point, cut off at the unit cube.

    Attributes:
        center: The middle, shape (d,).
        length: Length of the sides.
    """

    center: FloatArray
    length: float

    @property
    def low(self) -> FloatArray:
        """Lower ends of the sides, shape (d,)."""
        return np.maximum(self.center - 0.5 * self.length, 0.0)

    @property
    def high(self) -> FloatArray:
        """Upper ends of the sides, shape (d,)."""
        return np.minimum(self.center + 0.5 * self.length, 1.0)
