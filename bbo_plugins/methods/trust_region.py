"""How far a search may leave the best point: a trust region whose length follows from the history.

A box around the best point, as long as ``length`` in every numeric direction of the unit cube. The
length grows when trials keep improving on the best value and shrinks when they keep failing to; a
region that has become tiny starts over at full length around the same point. There is no state: the
length is recomputed from all values in their order, so that a resumed search continues as if it had
not been interrupted.

Source: Eriksson et al. (2019), "Scalable Global Optimization via Local Bayesian Optimization",
section 3 (TuRBO).

Deviations: one region, which keeps its data when it starts over. What counts as an improvement is
measured by the distance of the best value from the median and not by the best value's size, so that
adding a constant to the objective changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FloatArray

_LONGEST, _SHORTEST, _FIRST = 1.6, 2.0**-7, 0.8  # as in TuRBO
_N_SUCCESSES, _N_FAILURES = 2, 5  # in a row, before the length doubles or halves
_LEAST_RISE = 1e-3  # of the best value's distance from the median, to be an improvement


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


def length_after(y: FloatArray, n_startup: int) -> float:
    """Return the length of the region after values ``y`` (n,), maximized, in the order of trials.

    Args:
        y: Values; -inf for one that cannot be the best.
        n_startup: How many of them were not suggested from within a region.
    """
    length, successes, failures = _FIRST, 0, 0
    n_first = max(min(n_startup, len(y)), 1)
    best = float(y[:n_first].max(initial=-np.inf))
    for i in range(n_first, len(y)):
        value = float(y[i])
        if value > best and value > best + _LEAST_RISE * _spread(y[:i], best):
            successes, failures = successes + 1, 0
        else:
            successes, failures = 0, failures + 1
        best = max(best, value)
        if successes == _N_SUCCESSES:
            length, successes = min(2.0 * length, _LONGEST), 0
        elif failures == _N_FAILURES:
            length, failures = 0.5 * length, 0
        if length < _SHORTEST:
            length, successes, failures = _FIRST, 0, 0
    return length


def _spread(y: FloatArray, best: float) -> float:
    """Return the distance of ``best`` from the median of the finite values."""
    seen = y[np.isfinite(y)]
    return best - float(np.median(seen)) if len(seen) else 0.0
