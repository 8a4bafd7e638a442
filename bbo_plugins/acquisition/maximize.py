"""Maximization of an acquisition function over the mixed unit cube, or over a trust region of it.

1. **Screening.** A batch of candidates (:mod:`bbo_plugins.acquisition.candidates`) is evaluated at
   once.
2. **Ascent.** The best of them climb *together* (:mod:`bbo_plugins.acquisition.ascent`). Discrete
   numeric dimensions with many levels take part as if they were continuous.
3. **Search of levels.** The points are snapped to representable ones; one discrete coordinate at a
   time, levels are tried, alternating with ascent in the continuous dimensions.

The best of these points is returned that is not excluded and keeps a distance from pending points
and accidents. The distance follows from those between evaluated points: where they are dense, the
search has narrowed down, and a fixed distance would stop it. With noise it is longer.

Over the cube, the candidates are Sobol points and perturbations of good observed points, and the
starts are distant from each other; a small finite space is enumerated instead. Over a region, they
are Sobol points of its box and copies of its center with some coordinates moved. In numeric
dimensions with levels the box reaches the neighbors of the center's level at least; categories are
all inside. How long the box is follows from the order of all values (:func:`length_after`). From
the point found, a coordinate search may go on across the space.

In a space with conditions the function is evaluated where inactive coordinates are set, and its
gradient in them is 0: candidates, ascent and search of levels stay on points that exist.

Source of the region: section 2 of Eriksson, Pearce, Gardner, Turner & Poloczek (2019), "Scalable
Global Optimization via Local Bayesian Optimization" (TuRBO). Deviations: all sides have the same
length, also for a network, which has no length-scales. The length follows from the stored values
alone. :func:`length_after` says what counts as a success, and what a failure beside running trials
counts. A region that became tiny starts over around the best point, not elsewhere.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from bbo_plugins.acquisition.ascent import ascend
from bbo_plugins.acquisition.candidates import along_lines, screening, shifted_sobol, toward
from bbo_plugins.space.search_space import keys_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray, IntArray

_MAX_ENUMERATED = 1024  # finite spaces up to this size are searched exhaustively
_FEW_LEVELS = 16  # numeric dimensions with more levels take part in the ascent

# Over the cube:
_N_CANDIDATES = 256
_N_STARTS = 12
_N_AROUND_ANCHORS = 128
_START_POOL = 192  # best screened points among which distant starts are picked
_START_DISTANCE = 0.25  # in length-scales

# Over a region:
_N_REGION_CANDIDATES = 512
_N_REGION_STARTS = 6
_N_CHANGES = 4  # of one coordinate each, in a search across the space
_MOST_ALONG_LINE, _N_ALONG_LINES = 16, 512  # places tried for a change: of each coordinate, of all
_N_CANDIDATES_THERE = 128  # in the box around the point that the changes lead to
_REGION_SCALE = 0.5  # of the box: distance over which the function is taken to vary
_LONGEST, _SHORTEST, _FIRST = 1.6, 2.0**-7, 0.8  # lengths of the box, as in TuRBO
_N_SUCCESSES, _N_FAILURES = 2, 5  # in a row, before the length doubles or halves
_ROUNDING = 1e-9
_LEAST_RISE = 1e-3  # of the best value's distance from the median, to be an improvement

CLOSE: Final = 0.05  # distance in the unit cube below which concurrent trials are too close
# Kept from a point to avoid, of its distance to the nearest evaluated one, by whether there is
# noise: without it, points close to one another tell the slope.
_KEPT = {False: 0.1, True: 0.5}


class Acquisition(Protocol):
    """A function to be maximized over the unit cube, evaluated in batches."""

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values at ``X`` (m, d), shape (m,)."""

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""


@dataclass(frozen=True)
class TrustRegion:
    """A box around a point, cut off at the unit cube.

    Attributes:
        center: The middle, shape (d,).
        length: Length of the sides.
    """

    center: FloatArray
    length: float

    @classmethod
    def around_best(
        cls, space: SearchSpace, points: FloatArray, worth: FloatArray, length: float
    ) -> TrustRegion:
        """Return the region around the best point, in a space with conditions a completed one.

        Where a parameter does not exist at the best point, the center has its coordinate at the
        best point that has it. So a step into another branch starts from the best known there.

        Args:
            space: The search space, d dimensions.
            points: Representable points, shape (n, d).
            worth: By which they are compared, shape (n,).
            length: Length of the sides.
        """
        order = np.argsort(-worth, kind="stable")
        center: FloatArray = points[order[0]].copy()
        if space.is_conditional:
            active = space.active(points[order])
            first = np.argmax(active, axis=0)  # 0 if it is nowhere active
            center = points[order[first], np.arange(len(space))]
        return cls(center, length)

    @property
    def low(self) -> FloatArray:
        """Lower ends of the sides, shape (d,)."""
        return np.maximum(self.center - 0.5 * self.length, 0.0)

    @property
    def high(self) -> FloatArray:
        """Upper ends of the sides, shape (d,)."""
        return np.minimum(self.center + 0.5 * self.length, 1.0)


@dataclass(frozen=True)
class Exclusions:
    """Points that are not to be suggested.

    Attributes:
        known: Points not to be suggested unless the space is exhausted, shape (e, d).
        avoided: Points being evaluated elsewhere, and accidents, shape (p, d): none of them is
            suggested unless the space is exhausted, and none near them if there is another
            candidate.
        clearance: What is near each of those, by :func:`clearance_of`, shape (p,).
    """

    known: FloatArray
    avoided: FloatArray
    clearance: FloatArray

    def keep_clear(self, X: FloatArray, space: SearchSpace) -> NDArray[np.bool_]:
        """Return which of ``X`` (m, d) are near none of the points to avoid, shape (m,)."""
        if not len(self.avoided):
            return np.ones(len(X), dtype=np.bool_)
        clear = space.distances(X, self.avoided) >= self.clearance
        return np.asarray(clear.all(axis=1), dtype=np.bool_)


def length_after(y: FloatArray, n_startup: int, n_beside: IntArray | None = None) -> float:
    """Return the length of the region after values ``y`` (n,), maximized, in the order of trials.

    Successes in a row double it, failures in a row halve it; a tiny region starts over. A success
    exceeds the best value by a share of its distance from the median, which no shift of the
    objective changes. Trials that run at the same time do not know of one another: a failure beside
    p of them counts as 1 / (p + 1).

    Args:
        y: Values, shape (n,); -inf for one that cannot be the best.
        n_startup: How many of them came first, at the start-up; they do not change the length.
        n_beside: How many others were running when each was suggested, shape (n,); None for none.

    Returns:
        The length in units of the cube's edge.
    """
    length, successes, failures = _FIRST, 0, 0.0
    shares = 1.0 / (1.0 + (np.zeros(len(y)) if n_beside is None else n_beside))
    n_first = max(min(n_startup, len(y)), 1)
    in_order = sorted(value for value in y[:n_first].tolist() if math.isfinite(value))
    best = in_order[-1] if in_order else -math.inf
    for value, share in zip(y[n_first:].tolist(), shares[n_first:].tolist(), strict=True):
        if value > best and value > best + _LEAST_RISE * _above_median(in_order, best):
            successes, failures = successes + 1, 0.0
        else:
            successes, failures = 0, failures + share
        best = max(best, value)
        if math.isfinite(value):
            insort(in_order, value)
        if successes == _N_SUCCESSES:  # Section 2 of Eriksson et al. (2019)
            length, successes = min(2.0 * length, _LONGEST), 0
        elif failures > _N_FAILURES - _ROUNDING:
            length, failures = 0.5 * length, 0.0
        if length < _SHORTEST:
            length, successes, failures = _FIRST, 0, 0.0
    return length


def _above_median(in_order: Sequence[float], best: float) -> float:
    """Return the distance of ``best`` from the median of finite values in ascending order."""
    n = len(in_order)
    return best - 0.5 * (in_order[(n - 1) // 2] + in_order[n // 2]) if n else 0.0


@dataclass(frozen=True)
class _Budget:
    """The budget of a search.

    Attributes:
        max_iterations: Bound on the batched evaluations of an ascent.
        n_survivors: Points that go from the ascent to the search of levels; None for all.
        max_tried_levels: Dimensions up to this size are searched level by level.
        jumps: Whether a larger dimension is searched at doubling distances from each point, a
            category at levels drawn for each point; else at levels drawn once for all points.
        max_rounds: Bound on the alternations of the search of levels.
        max_discrete_rounds: The same in a space without continuous dimensions.
    """

    max_iterations: int
    n_survivors: int | None
    max_tried_levels: int
    jumps: bool
    max_rounds: int
    max_discrete_rounds: int


_CUBE_BUDGET: Final = _Budget(
    max_iterations=60,
    n_survivors=4,
    max_tried_levels=64,
    jumps=True,
    max_rounds=4,
    max_discrete_rounds=4,
)
_REGION_BUDGET: Final = _Budget(
    max_iterations=40,
    n_survivors=None,
    max_tried_levels=16,
    jumps=False,
    max_rounds=2,
    max_discrete_rounds=1,
)


@dataclass(frozen=True)
class _OnActive:
    """An acquisition function of the active coordinates alone, over a space with conditions."""

    acquisition: Acquisition
    space: SearchSpace

    def value(self, X: FloatArray) -> FloatArray:
        return self.acquisition.value(self.space.with_inactive_set(X))

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        active = self.space.active(X)
        points = np.where(active, X, self.space.inactive_at)
        value, gradient = self.acquisition.value_and_gradient(points)
        return value, np.where(active, gradient, 0.0)


def _on_active(acquisition: Acquisition, space: SearchSpace) -> Acquisition:
    return _OnActive(acquisition, space) if space.is_conditional else acquisition


@dataclass(frozen=True)
class _Box:
    """A function and the part of the unit cube that is searched, with coordinates t in [0, 1]^d.

    Attributes:
        acquisition: The function to maximize.
        space: The search space.
        low: Lower ends of the box, shape (d,).
        width: Lengths of its sides, positive, shape (d,).
        scale: Distance in t over which the function varies, shape (d,).
        budget: How much is spent.
    """

    acquisition: Acquisition
    space: SearchSpace
    low: FloatArray
    width: FloatArray
    scale: FloatArray
    budget: _Budget

    def points(self, T: FloatArray) -> FloatArray:
        return self.low + self.width * T

    def value_and_gradient(self, T: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, gradient = self.acquisition.value_and_gradient(self.points(T))
        return value, gradient * self.width

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values at points of the cube (m, d), -inf where they are not finite."""
        values = self.acquisition.value(X)
        return np.where(np.isfinite(values), values, -np.inf)


def maximize(
    acquisition: Acquisition,
    space: SearchSpace,
    *,
    rng: np.random.Generator,
    length_scales: FloatArray,
    anchors: FloatArray,
    exclusions: Exclusions | None = None,
) -> FloatArray:
    """Return a representable point of the unit cube with a high acquisition value.

    Args:
        acquisition: The function to maximize.
        space: The search space that says which points are representable.
        rng: Source of the candidates.
        length_scales: Typical distance over which the function varies, per dimension, shape (d,).
        anchors: Promising points whose surroundings are searched too, shape (k, d).
        exclusions: Points not to be returned; None for none.

    Returns:
        The point, shape (d,).
    """
    d = len(space)
    scale = np.minimum(length_scales, 1.0)
    function = _on_active(acquisition, space)
    box = _Box(function, space, np.zeros(d), np.ones(d), scale, _CUBE_BUDGET)
    if space.has_at_most(_MAX_ENUMERATED):
        points = space.enumerate()
        return best_allowed(points, box.value(points), exclusions, space, rng)
    candidates = screening(space, anchors, scale, _N_CANDIDATES, _N_AROUND_ANCHORS, rng)
    values = box.value(candidates)
    starts = candidates[_distant_best(candidates / scale, values)]
    order = np.argsort(-values, kind="stable")[:_START_POOL]
    return _best_of(box, starts, candidates[order], values[order], exclusions, rng)


def maximize_in_region(
    acquisition: Acquisition,
    space: SearchSpace,
    region: TrustRegion,
    *,
    rng: np.random.Generator,
    exclusions: Exclusions,
    across: bool = False,
) -> FloatArray:
    """Return a representable point with a high acquisition value, of the region or from there.

    Args:
        acquisition: The function to maximize.
        space: The search space that says which points are representable.
        region: Where to search; its center is representable.
        rng: Source of the candidates.
        exclusions: Points not to be returned.
        across: Whether the search goes on across the space. If so, up to four times it changes the
            one coordinate whose change, anywhere in its range, raises the value most. Then it
            searches a box of the same length around that point.

    Returns:
        The point, shape (d,).
    """
    box = _box(_on_active(acquisition, space), space, region)
    points = box.points(shifted_sobol(_N_REGION_CANDIDATES, len(space), rng))
    n = _N_REGION_CANDIDATES // 2
    near = toward(region.center, points[n:], space, rng)
    x = _best_in_box(box, region.center, np.concatenate([points[:n], near]), exclusions, rng)
    if not across:
        return x
    reached = _changed(box, x, rng)
    if reached is x:
        return x
    box = _box(box.acquisition, space, TrustRegion(reached, region.length))
    points = box.points(shifted_sobol(_N_CANDIDATES_THERE, len(space), rng))
    there = _best_in_box(box, reached, toward(reached, points, space, rng), exclusions, rng)
    before, after = box.value(np.stack([x, there]))
    if not after > before:  # the best points there may be excluded
        return x
    x_is_clear, there_is_clear = exclusions.keep_clear(np.stack([x, there]), space)
    return x if x_is_clear and not there_is_clear else there


def _changed(box: _Box, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return where changes of one coordinate after another lead from ``x`` (d,), or x itself."""
    n = max(min(_MOST_ALONG_LINE, _N_ALONG_LINES // len(x)), 1)
    value = box.value(x[None])[0]
    for _ in range(_N_CHANGES):
        places = box.space.snap(along_lines(x, n, rng))
        # Not x itself: in a batch of another size, BLAS may round its value up.
        places = places[(places != x).any(axis=1)]
        if not len(places):
            break
        values = box.value(places)
        best = int(np.argmax(values))
        if values[best] <= value:
            break
        x, value = places[best], values[best]
    return x


def _best_in_box(
    box: _Box,
    center: FloatArray,
    points: FloatArray,
    exclusions: Exclusions,
    rng: np.random.Generator,
) -> FloatArray:
    candidates = box.space.snap(points)
    values = box.value(candidates)
    order = np.argsort(-values, kind="stable")
    starts = np.concatenate([candidates[order[:_N_REGION_STARTS]], center[None, :]])
    return _best_of(box, starts, candidates[order], values[order], exclusions, rng)


def _best_of(
    box: _Box,
    starts: FloatArray,
    candidates: FloatArray,
    values: FloatArray,
    exclusions: Exclusions | None,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the best allowed one of what the starts lead to and the candidates."""
    X, optima = _improve(box, starts, rng)
    X, values = np.concatenate([X, candidates]), np.concatenate([optima, values])
    return best_allowed(X, values, exclusions, box.space, rng)


def _box(acquisition: Acquisition, space: SearchSpace, region: TrustRegion) -> _Box:
    """Return the box of ``region``, extended to the levels next to its center's."""
    low, high = region.low, region.high
    for i, axis in enumerate(space.dimensions):
        if axis.is_categorical:
            low[i], high[i] = 0.0, 1.0
        elif axis.n_levels is not None:
            level = axis.level_of(region.center[i : i + 1])
            neighbors = np.clip(level + np.array([-1, 1]), 0, axis.n_levels - 1)
            below, above = axis.position_of(neighbors).tolist()
            low[i], high[i] = min(low[i], below), max(high[i], above)
    scale = np.full(len(space), _REGION_SCALE)
    return _Box(acquisition, space, low, high - low, scale, _REGION_BUDGET)


def _improve(
    box: _Box, starts: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Climb from ``starts`` (B, d) and search levels; return points (b, d) and values (b,)."""
    space, n = box.space, box.budget.n_survivors
    counts = [0 if axis.is_categorical else axis.n_levels or 0 for axis in space.dimensions]
    X, optima = _climb(box, starts, space.is_continuous | (np.array(counts) > _FEW_LEVELS))
    if space.is_continuous.all():
        return space.snap(X), optima
    if n is not None:
        X = X[np.argsort(-optima, kind="stable")[:n]]
    return _search_levels(box, space.snap(X), rng)


def _climb(box: _Box, starts: FloatArray, free: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Climb from ``starts`` (B, d) in the ``free`` coordinates; return points and values (B,)."""
    T = np.clip((starts - box.low) / box.width, 0.0, 1.0)
    T, values = ascend(box, T, free=free, scale=box.scale, max_iterations=box.budget.max_iterations)
    return np.where(free, box.points(T), starts), values


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


def _search_levels(
    box: _Box, X: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Alternate search over levels, one dimension at a time, and ascent in continuous dimensions.

    Ends when a round improves no point; returns the points (B, d) and their values (B,).
    """
    values, continuous = box.value(X), box.space.is_continuous
    budget = box.budget
    for _ in range(budget.max_rounds if continuous.any() else budget.max_discrete_rounds):
        before = values.copy()
        for i in np.flatnonzero(~continuous).tolist():
            X, values = _search_coordinate(box, i, X, values, rng)
        improved = values > before
        if not improved.any():
            break
        if continuous.any():
            climbed, heights = _climb(box, X[improved], continuous)
            better = heights > values[improved]
            rows = np.flatnonzero(improved)[better]
            X[rows], values[rows] = climbed[better], heights[better]
    return box.space.snap(X), values


def _search_coordinate(
    box: _Box, i: int, X: FloatArray, values: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Move coordinate ``i`` of every point to the best of its tried levels, where it is active."""
    active = box.space.active(X)[:, i]
    if not active.any():
        return X, values
    axis = box.space.dimensions[i]
    current = axis.level_of(X[:, i])
    tried = _levels_to_try(box, i, current, rng)
    trials = np.repeat(X, tried.shape[1], axis=0)
    trials[:, i] = axis.position_of(tried.ravel())
    heights = box.value(trials).reshape(tried.shape)
    # Not the current level: in a batch of another size, BLAS may round its value up.
    heights = np.where((tried != current[:, None]) & active[:, None], heights, -np.inf)
    best = np.argmax(heights, axis=1)
    rows = np.arange(len(X))
    better = heights[rows, best] > values
    X, values = X.copy(), values.copy()
    X[better, i] = axis.position_of(tried[rows, best])[better]
    values[better] = heights[rows, best][better]
    return X, values


def _levels_to_try(box: _Box, i: int, current: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the levels of dimension ``i`` to try from each ``current`` one (B,), shape (B, t)."""
    axis, n_tried = box.space.dimensions[i], box.budget.max_tried_levels
    ends = np.array([box.low[i], box.low[i] + box.width[i]])
    first, last = axis.level_of(ends).tolist()
    n = last - first + 1
    if n <= n_tried:
        return np.tile(np.arange(first, last + 1), (len(current), 1))
    if not box.budget.jumps:
        return np.tile(first + rng.integers(n, size=n_tried), (len(current), 1))
    if axis.is_categorical:
        drawn: IntArray = first + rng.integers(n, size=(len(current), n_tried))
        return drawn
    offsets = 2 ** np.arange(min(n - 1, 2**40).bit_length())
    levels: IntArray = current[:, None] + np.concatenate([-offsets, offsets])
    return np.clip(levels, first, last)


def clearance_of(
    avoided: FloatArray, evaluated: FloatArray, space: SearchSpace, *, noisy: bool
) -> FloatArray:
    """Return the distance that is kept from each point to avoid (p, d), shape (p,).

    It is a share of the distance to the nearest evaluated point, and ``CLOSE`` at most. So the
    search may close in on a point whose evaluation never ends.

    Args:
        avoided: Points being evaluated elsewhere, and accidents, shape (p, d).
        evaluated: Evaluated points, shape (n, d).
        space: The search space.
        noisy: Whether values have noise. The share is half if so, else a tenth.
    """
    if not len(avoided):
        return np.empty(0)
    nearest: FloatArray = space.distances(avoided, evaluated).min(axis=1, initial=np.inf)
    return np.minimum(_KEPT[noisy] * nearest, CLOSE)


def best_allowed(
    X: FloatArray,
    values: FloatArray,
    exclusions: Exclusions | None,
    space: SearchSpace,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the best of ``X`` that may be suggested; a repeat only if the space is exhausted."""
    order = np.argsort(-values, kind="stable")
    X, values = space.with_inactive_set(X[order]), values[order]
    if exclusions is None:
        return np.asarray(X[0])
    taken = space.keys_inside(np.concatenate([exclusions.known, exclusions.avoided]))
    preferred = (values > -np.inf) & exclusions.keep_clear(X, space)
    allowed = (row for row, key in enumerate(keys_of(X)) if key not in taken)
    first = next(allowed, None)
    if first is None:
        found = space.unseen_point(taken, rng)
        return np.asarray(X[0]) if found is None else found
    rows = chain([first], allowed)
    return np.asarray(X[next((row for row in rows if preferred[row]), first)])
