r"""Hypervolume: the front of several objectives, and the expected improvement of what it dominates.

| symbol     | meaning                                                                           |
|------------|-----------------------------------------------------------------------------------|
| F          | front: points that no other point dominates, shape (f, k); all is maximized       |
| r          | reference point: what is better than it in all objectives counts, shape (k,)      |
| [l_c, u_c] | boxes that fill the region above r that F does not dominate, some u_cj infinite   |
| ψ_j(a)     | E[(Y_j - a)⁺] = σ_j h((μ_j - a) / σ_j), with h of :mod:`.functions`               |

A value Y adds the volume Σ_c Π_j ((min(Y_j, u_cj) - l_cj)⁺) to that dominated by F. For independent
normal Y_j its expectation is a sum of products,

    EHVI = Σ_c Π_j (ψ_j(l_cj) - ψ_j(u_cj)),

here in log space: log(ψ(l) - ψ(u)) = log ψ(l) + log(1 - ψ(u)/ψ(l)), summed over j, then
log-sum-exp over the boxes. With one objective it is log EI.

Two objectives have a staircase of f + 1 boxes. For more, the local lower bounds of the region are
found one point of F at a time (Klamroth et al.), and the union of the orthants above them is cut
into disjoint boxes by the same update (Lacour et al., Eq. 2; used in this way, twice, by Daulton et
al.). Three objectives have O(f) boxes, four O(f²).

Sources: Lacour, Klamroth & Fonseca (2017), "A box decomposition algorithm to compute the
hypervolume indicator"; Klamroth, Lacour & Vanderpooten (2015), "On the representation of the search
region in multi-objective optimization"; Yang et al. (2019), "Efficient computation of expected
hypervolume improvement using box decomposition algorithms"; Daulton, Balandat & Bakshy (2020),
"Differentiable Expected Hypervolume Improvement for Parallel Multi-Objective Bayesian
Optimization"; Ament et al. (2023), "Unexpected Improvements to Expected Improvement for Bayesian
Optimization", for log space. The rule of :func:`reference_point` is that of BoTorch
(``infer_reference_point``), after Ishibuchi et al. (2018); :func:`proper_front_of` is the front in
the sense of Geoffrion (1968), "Proper efficiency and the theory of vector maximization", with a
bounded rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from bbo_plugins.acquisition.functions import Derivatives, log_expected_improvement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bbo_plugins.space.dimension import FloatArray, IntArray

_MARGIN: Final = 0.1  # of the points' range, by which the reference point is below them
_BLOCK_SIZE: Final = 1_000_000  # numbers in the largest array
_CAPACITY: Final = 256  # local upper bounds for which there is room at first
_LEAST_GAP: Final = 1e-14  # of log ψ(l) - log ψ(u), below which it is rounding error


def n_dominating(Y: FloatArray) -> IntArray:
    """Return how many of the points ``Y`` (n, k) dominate each of them, shape (n,).

    A point dominates another one if it is at least as large everywhere and larger somewhere.
    """
    n = len(Y)
    counts = np.empty(n, dtype=np.int64)
    for rows in _blocks(n, n):
        at_least = np.ones((len(Y[rows]), n), dtype=np.bool_)
        larger = np.zeros_like(at_least)
        for column in Y.T:
            at_least &= column >= column[rows, None]
            larger |= column > column[rows, None]
        counts[rows] = (at_least & larger).sum(axis=1)
    return counts


def front_of(Y: FloatArray) -> FloatArray:
    """Return the points of ``Y`` (n, k) that no other one dominates, without copies, (f, k)."""
    return np.unique(Y[n_dominating(Y) == 0], axis=0)


def proper_front_of(Y: FloatArray, rate: float) -> FloatArray:
    """Return the points of ``Y`` (n, k) that no other one dominates by augmented values, (f, k).

    To each objective the others are added ``rate`` times, in units of the points' ranges. A point
    that is the best one in an objective by little is left out if another one is more than 1 /
    ``rate`` times as much better in the others.

    Args:
        Y: Points, maximized, n >= 1.
        rate: At least 0, where it is the front with its copies, and less than 1.
    """
    extent = np.ptp(Y, axis=0)
    V = Y / np.where(extent > 0.0, extent, 1.0)
    augmented = (1.0 - rate) * V + rate * V.sum(axis=1, keepdims=True)
    front: FloatArray = Y[n_dominating(augmented) == 0]
    return front


def reference_point(points: FloatArray) -> FloatArray:
    """Return a reference point (k,): a tenth of the points' range below their worst values.

    Where there is no range, as with one point, it is a tenth of one unit below.

    Args:
        points: Points (n, k), n >= 1, in units of about a standard deviation of the values.
    """
    worst = points.min(axis=0)
    extent = points.max(axis=0) - worst
    reference: FloatArray = worst - _MARGIN * np.where(extent > 0.0, extent, 1.0)
    return reference


class Boxes(NamedTuple):
    """Disjoint boxes, given by their lower and upper corners, each of shape (c, k)."""

    low: FloatArray
    high: FloatArray


def boxes_above(front: FloatArray, reference: FloatArray) -> Boxes:
    """Return boxes that fill the region above ``reference`` that ``front`` does not dominate.

    Args:
        front: Points (f, k), f >= 0, k >= 1; those that others dominate, or that are not above the
            reference point in all objectives, do not matter.
        reference: The reference point, shape (k,).

    Returns:
        At least one box; some upper corners are infinite.
    """
    front = front_of(front[(front > reference).all(axis=1)])
    k = len(reference)
    if k == 2:
        return _staircase(front, reference)
    lower_bounds = -_local_upper_bounds(-front, -reference).corner
    found = _local_upper_bounds(lower_bounds, np.full(k, np.inf))
    return Boxes(found.low, found.high)


def _staircase(front: FloatArray, reference: FloatArray) -> Boxes:
    """Return one box over each interval between the first coordinates of ``front`` (f, 2)."""
    ends = np.concatenate([reference[:1], front[:, 0], [np.inf]])  # front_of has sorted them
    low = np.column_stack([ends[:-1], np.append(front[:, 1], reference[1])])
    return Boxes(low, np.column_stack([ends[1:], np.full(len(low), np.inf)]))


class _Bounds(NamedTuple):
    """Local upper bounds (b, k) of a region to be minimized in, and the boxes of Lacour et al.

    Attributes:
        corner: The local upper bounds, shape (b, k).
        low: Lower corners of disjoint boxes that fill what the points dominate, shape (c, k).
        high: Their upper corners, shape (c, k).
    """

    corner: FloatArray
    low: FloatArray
    high: FloatArray


def _local_upper_bounds(points: FloatArray, reference: FloatArray) -> _Bounds:
    """Return the local upper bounds of what ``points`` (n, k) do not dominate, all minimized.

    A point below the reference point (k,) is not dominated if it is below one of the bounds. Each
    bound u has k defining points z_1, ..., z_k, of which the j-th one has u's j-th coordinate and
    is below u in the others.
    """
    k = len(reference)
    corner, defining = np.empty((_CAPACITY, k)), np.empty((_CAPACITY, k, k))
    corner[0], defining[0] = reference, -np.inf  # defining: bound, which point, coordinate
    defining[0, range(k), range(k)] = reference
    n = 1
    others = ~np.eye(k, dtype=np.bool_)
    for point in points:
        hit = np.flatnonzero(np.logical_and.reduce([corner[:n, j] > point[j] for j in range(k)]))
        if not len(hit):
            continue
        old, old_defining = corner[hit], defining[hit]
        corners, definings = [], []
        for j in range(k):
            # Klamroth et al. (2015), Algorithm 3: a new bound is not redundant if the point is
            # beyond the j-th coordinates of all defining points but the j-th one.
            kept = point[j] >= old_defining[:, others[j], j].max(axis=1, initial=-np.inf)
            moved, moved_defining = old[kept], old_defining[kept]
            moved[:, j], moved_defining[:, j] = point[j], point
            corners.append(moved)
            definings.append(moved_defining)
        while n + k * len(hit) > len(corner):
            corner = np.concatenate([corner, np.empty_like(corner)])
            defining = np.concatenate([defining, np.empty_like(defining)])
        _replace_rows(corner, n, hit, np.concatenate(corners))
        n = _replace_rows(defining, n, hit, np.concatenate(definings))
    corner, defining = corner[:n], defining[:n]
    # Lacour et al. (2017), Eq. (2)
    low, high = np.empty_like(corner), corner.copy()
    low[:, 0], high[:, 0] = defining[:, 0, 0], reference[0]
    for j in range(1, k):
        low[:, j] = defining[:, :j, j].max(axis=1)
    filled = (low < high).all(axis=1)
    return _Bounds(corner, low[filled], high[filled])


def _replace_rows(rows: FloatArray, n: int, old: IntArray, new: FloatArray) -> int:
    """Replace the rows ``old`` (h,) of the first ``n`` by ``new`` (m, ...); return how many remain.

    The others keep their place if they can: few of many rows change with each point.
    """
    m, h = len(new), len(old)
    if m >= h:
        rows[old], rows[n : n + m - h] = new[:h], new[h:]
        return n + m - h
    rows[old[:m]] = new
    kept = np.delete(rows[:n], old[m:], axis=0)
    rows[: len(kept)] = kept
    return len(kept)


@dataclass(frozen=True)
class _Sides:
    """The different sides of boxes in one objective.

    Attributes:
        ends: The different finite ends of sides, shape (e,).
        low: Which of them is the lower end of each side, shape (s,).
        high: Which of them is the upper end, any if it is infinite, shape (s,).
        bounded: Whether it is finite, shape (s,).
        of_box: Which side each box has, shape (c,).
    """

    ends: FloatArray
    low: IntArray
    high: IntArray
    bounded: NDArray[np.bool_]
    of_box: IntArray

    @classmethod
    def of(cls, low: FloatArray, high: FloatArray) -> _Sides:
        """Return those of boxes from ``low`` (c,) to ``high`` (c,)."""
        sides, of_box = np.unique(np.column_stack([low, high]), axis=0, return_inverse=True)
        ends = np.unique(sides[np.isfinite(sides)])
        bounded = np.isfinite(sides[:, 1])
        low_end, high_end = np.searchsorted(ends, np.where(np.isinf(sides), ends[0], sides)).T
        return cls(ends, low_end, high_end, bounded, of_box.reshape(-1))

    def log_expected_lengths(self, mean: FloatArray, variance: FloatArray) -> Derivatives:
        """Return log(ψ(l) - ψ(u)) of each side, and its derivatives, each of shape (m, s).

        Args:
            mean: Means of the objective, shape (m,).
            variance: Its variances, positive, shape (m,).
        """
        value, *by = log_expected_improvement(mean[:, None], variance[:, None], self.ends)
        log_ratio = np.full((len(mean), len(self.low)), -np.inf)  # of ψ(u) to ψ(l)
        gap = value[:, self.high] - value[:, self.low]
        np.minimum(gap, -_LEAST_GAP, out=log_ratio, where=self.bounded)
        ratio, rest = np.exp(log_ratio), -np.expm1(log_ratio)
        # d log(ψ(l) - ψ(u)) = (ψ(l) d log ψ(l) - ψ(u) d log ψ(u)) / (ψ(l) - ψ(u))
        slopes = ((one[:, self.low] - ratio * one[:, self.high]) / rest for one in by)
        return Derivatives(value[:, self.low] + np.log(rest), *slopes)


@dataclass(frozen=True)
class ExpectedHypervolumeImprovement:
    """The logarithm of EHVI as a function of independent normal values; :meth:`of` builds one.

    Attributes:
        sides: The sides of the boxes, by objective.
    """

    sides: tuple[_Sides, ...]

    @classmethod
    def of(cls, front: FloatArray, reference: FloatArray) -> ExpectedHypervolumeImprovement:
        """Decompose the region that is not dominated.

        Args:
            front: Points to improve upon, maximized, shape (f, k), f >= 0.
            reference: The reference point, shape (k,).
        """
        boxes = boxes_above(front, reference)
        return cls(tuple(map(_Sides.of, boxes.low.T, boxes.high.T)))

    @property
    def n_boxes(self) -> int:
        """Number of boxes."""
        return len(self.sides[0].of_box)

    def log_value(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return log EHVI, shape (m,).

        Args:
            mean: Means of the k objectives, shape (m, k).
            variance: Their variances, positive, shape (m, k).
        """
        value = np.empty(len(mean))
        for rows in _blocks(len(mean), self.n_boxes):
            value[rows] = self._log_value(self._lengths(mean[rows], variance[rows]))[0]
        return value

    def derivatives(self, mean: FloatArray, variance: FloatArray) -> Derivatives:
        """Return log EHVI (m,) with its derivatives by mean and variance, each of shape (m, k).

        For the arguments see :meth:`log_value`.
        """
        value = np.empty(len(mean))
        by_mean, by_variance = np.empty((2, *mean.shape))
        for rows in _blocks(len(mean), self.n_boxes):
            lengths = self._lengths(mean[rows], variance[rows])
            value[rows], shares = self._log_value(lengths)
            for j, (sides, length) in enumerate(zip(self.sides, lengths, strict=True)):
                of_box = sides.of_box
                by_mean[rows, j] = (shares * length.by_mean[:, of_box]).sum(axis=1)
                by_variance[rows, j] = (shares * length.by_variance[:, of_box]).sum(axis=1)
        return Derivatives(value, by_mean, by_variance)

    def _lengths(self, mean: FloatArray, variance: FloatArray) -> list[Derivatives]:
        return [
            sides.log_expected_lengths(*column)
            for sides, *column in zip(self.sides, mean.T, variance.T, strict=True)
        ]

    def _log_value(self, lengths: list[Derivatives]) -> tuple[FloatArray, FloatArray]:
        """Return log EHVI (m,) and each box's share of EHVI, shape (m, c)."""
        volumes = lengths[0].value[:, self.sides[0].of_box]
        for sides, length in zip(self.sides[1:], lengths[1:], strict=True):
            volumes = volumes + length.value[:, sides.of_box]
        largest = volumes.max(axis=1, keepdims=True)
        shares = np.exp(volumes - largest)
        total = shares.sum(axis=1, keepdims=True)
        return (largest + np.log(total))[:, 0], shares / total


def _blocks(m: int, width: int) -> Iterator[slice]:
    """Yield slices of m rows, each of rows that have no more than so many numbers together."""
    step = max(_BLOCK_SIZE // max(width, 1), 1)
    for start in range(0, m, step):
        yield slice(start, start + step)
