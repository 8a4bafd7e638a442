"""Which observations a model is fitted to, once there are too many for all of them.

An exact Gaussian process costs n³ time and n² memory. Up to :data:`MAX_MODELED` observations it has
all of them; beyond, a *training subset*: a quarter of it the best ones, half the latest, a quarter
as far apart as possible. Hyperparameters are estimated on the subset, by whatever criterion, and
predictions come from it. The criteria of UHE-BO are no longer consistent then, as the holes between
so many points stop shrinking.

The subset changes slowly, so that a fit can start from the one before it: it is chosen among the
observations up to the last full block, a tenth of the limit, and those after that are added as they
come. It depends on the observations and their order alone, so every process chooses the same.

"Best" means complete before pruned, then the smaller violation of constraints (0 where feasible),
then the larger value. Of points that coincide the mean value counts, as the best of many noisy
values would be a lucky one, and only the latest few copies take part. The best point is never
dropped.

A constraint that few trials report is modeled on those, so the last quarter goes to them first: an
even part of it for each constraint that has fewer in the subset so far, far apart among themselves.
What is left goes to those far apart from all.

The rule is this project's own; ``python -m benchmarks scale`` compares it with others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bbo_plugins.acquisition.candidates import far_apart

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space.dimension import FloatArray, IntArray

MAX_MODELED: Final = 1000  # observations that a model is fitted to, at most
_BLOCKS = 10  # so many blocks make the limit
_MAX_COPIES = 4  # of one point, that come before the first one of another
_MAX_SPREAD_OUT = 2000  # observations among which those far apart are looked for


@dataclass(frozen=True)
class Shares:
    """Composition of a training subset; the rest of it is chosen far apart.

    Attributes:
        best: Share of the best observations.
        latest: Share of the latest ones.
    """

    best: float = 0.25
    latest: float = 0.5


SHARES: Final = Shares()


def modeled(
    observations: Observations,
    features: FeatureMap,
    *,
    limit: int = MAX_MODELED,
    shares: Shares = SHARES,
) -> Observations:
    """Return the observations that the model is to be fitted to, in their order.

    Args:
        observations: What is known of the study, n evaluated points.
        features: The kernel's feature map, by which distances are measured.
        limit: How many may be modeled; at least ten. All are returned if there are no more.
        shares: How the set is composed.

    Returns:
        A copy with fewer evaluated points; the rest is the same.
    """
    return observations.take(indices(observations, features, limit=limit, shares=shares))


def indices(
    observations: Observations,
    features: FeatureMap,
    *,
    limit: int = MAX_MODELED,
    shares: Shares = SHARES,
) -> IntArray:
    """Return which of the observations are to be modeled, ascending, shape (m,), m <= ``limit``.

    If there is a share for the latest ones, the newest observation is the last of them. For the
    arguments see :func:`modeled`.
    """
    n = len(observations.y)
    if n <= limit:
        return np.arange(n)
    block = limit // _BLOCKS
    n_settled = n - n % block
    chosen = _chosen(observations, features, n_settled, limit - block, shares)
    return np.concatenate([np.sort(chosen), np.arange(n_settled, n)])


def _chosen(
    observations: Observations, features: FeatureMap, n: int, size: int, shares: Shares
) -> IntArray:
    """Return the indices (size,) of a subset of the first ``n`` observations, n >= size."""
    n_best = max(int(shares.best * size), 1)
    n_latest = min(int(shares.latest * size), size - n_best)
    is_chosen = np.zeros(n, dtype=bool)
    is_chosen[_best_first(observations, n)[:n_best]] = True
    others = np.flatnonzero(~is_chosen)
    is_chosen[others[len(others) - n_latest :]] = True
    columns = features.columns(observations.X[:n])
    reporting = _reporting(observations, n)
    room = size - n_best - n_latest
    for rows in reporting:
        known, unknown = rows[is_chosen[rows]], rows[~is_chosen[rows]]
        missing = max(room // len(reporting), 1) - len(known)
        count = max(min(missing, len(unknown), size - int(is_chosen.sum())), 0)
        is_chosen[_spread_out(columns, unknown, known, count)] = True
    known, others = np.flatnonzero(is_chosen), np.flatnonzero(~is_chosen)
    is_chosen[_spread_out(columns, others, known, size - len(known))] = True
    return np.flatnonzero(is_chosen)


def _reporting(observations: Observations, n: int) -> list[IntArray]:
    """Return which of the first ``n`` observations report each constraint, ascending (k,)."""
    reported = observations.reported_constraints.values()
    return [np.flatnonzero(~np.isnan(values[:n])) for values in reported]


def _spread_out(columns: FloatArray, candidates: IntArray, known: IntArray, count: int) -> IntArray:
    """Return ``count`` of the ``candidates`` (k,), far from the ``known`` rows and each other.

    Of very many candidates, equally many in each part of the history are looked at.
    """
    if len(candidates) > _MAX_SPREAD_OUT:
        places = np.linspace(0, len(candidates) - 1, _MAX_SPREAD_OUT).astype(np.int64)
        candidates = candidates[places]
    return candidates[far_apart(columns[candidates], columns[known], count)]


def _best_first(observations: Observations, n: int) -> IntArray:
    """Return the indices of the first ``n`` observations, the best ones first."""
    X, y = observations.X[:n], observations.y[:n]
    _, point, copies = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    point = point.reshape(-1)  # some releases of numpy return a column
    with np.errstate(over="ignore"):  # an infinite mean is one of huge values, which it ranks well
        mean = (np.bincount(point, weights=y) / copies)[point]
    by_point = np.argsort(point, kind="stable")
    later = np.empty(n, dtype=np.int64)  # copies of the same point that come later
    later[by_point] = (np.cumsum(copies)[point] - 1)[by_point] - np.arange(n)
    keys = (-mean, _violation(observations, n), ~observations.complete[:n], later >= _MAX_COPIES)
    order: IntArray = np.lexsort(keys)
    return order


def _violation(observations: Observations, n: int) -> FloatArray:
    """Return by how much the first ``n`` observations violate the constraints, shape (n,).

    That is the sum of the violations, each relative to the largest one; infinite for a trial that
    reports no constraint where others do.
    """
    if observations.constraints is None:
        return np.zeros(n)
    values = observations.constraints[:n]
    excess = np.where(values > 0.0, values, 0.0)  # NaN, not reported, is no violation
    largest = excess.max(axis=0, initial=0.0)
    total: FloatArray = (excess / np.where(largest > 0.0, largest, 1.0)).sum(axis=1)
    total[np.isnan(values).all(axis=1)] = np.inf
    return total
