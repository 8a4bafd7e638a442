"""Candidate points of the unit cube: Sobol sequences, perturbations, and those that lie far apart.

A Sobol sequence is computed once per size and kept; every use adds a random shift modulo 1, which
keeps the points' uniformity, so that every suggestion can have its own set.

Sources: the shift after Cranley & Patterson (1976); the moved copies of one point after Regis &
Shoemaker (2013), "Combining radial basis function surrogates and dynamic coordinate search in
high-dimensional expensive black-box optimization".
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.gp.kernels import left_factor, right_factor, squared_distances

if TYPE_CHECKING:
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray, IntArray

_MAX_SOBOL_DIMENSIONS = 21201  # SciPy's table of direction numbers ends here
_N_MOVED = 20.0  # coordinates of a point that move, on average, in many dimensions
_CATEGORY_SHARE = 0.3  # of the categorical coordinates that move

_construction_lock = threading.Lock()


def shifted_sobol(n: int, n_dimensions: int, rng: np.random.Generator) -> FloatArray:
    """Return Sobol points shifted by a random vector modulo 1.

    Args:
        n: How many points.
        n_dimensions: d; beyond SciPy's 21,201 the points are random.
        rng: Source of the shift.

    Returns:
        Points of the unit cube, shape (n, d).
    """
    if n_dimensions > _MAX_SOBOL_DIMENSIONS:
        return rng.random((n, n_dimensions))
    shift = rng.random(n_dimensions)
    # SciPy fills its table of direction numbers on first use, which is not safe to do twice at a
    # time.
    with _construction_lock:
        points = _sobol(1 << max(n - 1, 0).bit_length(), n_dimensions)
    shifted = points[:n] + shift
    shifted -= np.floor(shifted)
    return shifted


@lru_cache(maxsize=32)
def _sobol(n: int, n_dimensions: int) -> FloatArray:
    # scipy.stats takes longer to import than everything else here together
    from scipy.stats import qmc  # noqa: PLC0415

    points: FloatArray = qmc.Sobol(n_dimensions, scramble=False).random(n)
    points.flags.writeable = False
    return points


def screening(
    space: SearchSpace,
    anchors: FloatArray,
    length_scales: FloatArray,
    n_sobol: int,
    n_near: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return points that fill the space, then points 1/1000 to 1 length-scales from given ones.

    In more than 20 dimensions a random subset of about 20 of the coordinates moves; a category that
    moves is drawn anew. A coordinate that is inactive at the given point is drawn anew as well: it
    counts if its parent moves.

    Args:
        space: The search space, d dimensions.
        anchors: The given points, shape (k, d).
        length_scales: One per dimension, in units of the cube; above 1 they count as 1, shape (d,).
        n_sobol: How many points fill the space.
        n_near: How many are near the anchors, equally many near each; none without anchors.
        rng: Source of randomness.

    Returns:
        Representable points, shape (n_sobol + n_near, d), or (n_sobol, d) without anchors.
    """
    sobol = shifted_sobol(n_sobol, len(space), rng)
    near = _around(anchors, n_near, space, np.minimum(length_scales, 1.0), rng)
    return space.snap(np.concatenate([sobol, near]))


def _around(
    anchors: FloatArray, n: int, space: SearchSpace, scale: FloatArray, rng: np.random.Generator
) -> FloatArray:
    d = len(space)
    if not len(anchors):
        return np.empty((0, d))
    points = anchors[np.arange(n) % len(anchors)]
    if space.is_conditional:
        points = np.where(space.active(points), points, rng.random((n, d)))
    distance = 10.0 ** rng.uniform(-3.0, 0.0, size=(n, 1))
    moved = points + distance * scale * rng.standard_normal((n, d))
    categorical = space.n_categories > 0
    moved[:, categorical] = rng.random((n, int(categorical.sum())))
    share = np.where(categorical, _CATEGORY_SHARE, min(1.0, _N_MOVED / d))
    return np.clip(np.where(rng.random((n, d)) < share, moved, points), 0.0, 1.0)


def toward(
    center: FloatArray, targets: FloatArray, space: SearchSpace, rng: np.random.Generator
) -> FloatArray:
    """Return copies of one point with some coordinates moved toward those of other points.

    About 20 coordinates of each copy move, by 3% to 100% of the way; a category moves all the way.

    Args:
        center: The point, shape (d,).
        targets: Where the coordinates move to, one row per copy, shape (n, d).
        space: The search space, d dimensions.
        rng: Source of randomness.

    Returns:
        Points, not yet snapped to the space, shape (n, d).
    """
    n, d = targets.shape
    numeric = space.n_categories == 0
    share_of_way = np.where(numeric, 10.0 ** rng.uniform(-1.5, 0.0, size=(n, 1)), 1.0)
    moved = center + share_of_way * (targets - center)
    share = np.where(numeric, min(1.0, _N_MOVED / d), min(_CATEGORY_SHARE, _N_MOVED / d))
    return np.where(rng.random((n, d)) < share, moved, center)


def along_lines(x: FloatArray, n: int, rng: np.random.Generator) -> FloatArray:
    """Return copies of one point, each with one coordinate elsewhere in its range.

    Args:
        x: The point, shape (d,).
        n: How many copies for each coordinate, which has them in n equal parts of its range.
        rng: Source of the places within the parts.

    Returns:
        Points, not yet snapped to the space, shape (n d, d).
    """
    d = len(x)
    points = np.tile(x, (n * d, 1))
    rows = np.arange(n * d)
    points[rows, rows // n] = (rows % n + rng.random(n * d)) / n
    return points


def far_apart(columns: FloatArray, known: FloatArray, count: int) -> IntArray:
    """Return indices (count,), each of the point farthest from ``known`` and those before it.

    Args:
        columns: Feature columns of the points to choose among, shape (m, D), m >= count.
        known: Feature columns of points that are there already, shape (k, D).
        count: How many to choose; no index occurs twice.
    """
    chosen = np.empty(count, dtype=np.int64)
    if not count:
        return chosen
    to_nearest = np.full(len(columns), np.inf)
    if len(known):
        to_nearest = squared_distances(left_factor(columns), right_factor(known)).min(axis=1)
    for i in range(count):
        chosen[i] = farthest = int(to_nearest.argmax())
        gaps = np.square(columns - columns[farthest]).sum(axis=1)
        np.minimum(to_nearest, gaps, out=to_nearest)
        to_nearest[chosen[: i + 1]] = -1.0
    return chosen
