"""Monotone transform of the targets before a Gaussian process sees them.

Objectives such as a loss that diverges have values many orders of magnitude worse than anything of
interest; a stationary model spends its capacity on them. With median m and robust spread s (1.4826
· median absolute deviation), of targets that are *maximized*,

    u = (y - m) / s,      v = u for u >= -1,      v = -1 - log(-u) for u < -1,

followed by standardization of v to mean 0 and variance 1. The transform is strictly increasing and
continuously differentiable, compresses the bad tail only, and leaves the better half of the data
linear, so the incumbent and every comparison of targets stay the same.

A choice of this project, not from one of its papers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FloatArray

_MAD_TO_STD = 1.4826
_DEGENERATE = 1e-12
# Least spread relative to the best target's distance (u is squared) and to the furthest one's.
_SMALLEST_SPREAD, _SMALLEST_RATIO = 1e-100, 1e-300
_SMALLEST_EXPONENT = -1000  # keeps the prescale and its reciprocal normal numbers


@dataclass(frozen=True)
class OutputTransform:
    """A fitted transform; :meth:`fit` builds one.

    Attributes:
        prescale: Power of two that divides the targets first, so that nothing after it overflows or
            underflows.
        median: m, after the division.
        spread: s, after the division; positive.
        mean: Mean of v over the fitted targets.
        std: Standard deviation of v over the fitted targets; positive.
    """

    prescale: float
    median: float
    spread: float
    mean: float
    std: float

    @classmethod
    def fit(cls, y: FloatArray) -> OutputTransform:
        """Fit to maximized targets ``y`` (n,), n >= 1, finite; constant targets get unit scales."""
        _, exponent = math.frexp(float(np.abs(y).max()))
        prescale = math.ldexp(1.0, max(exponent - 1, _SMALLEST_EXPONENT))
        values = y / prescale
        median = float(np.median(values))
        deviations = np.abs(values - median)
        spread = _MAD_TO_STD * float(np.median(deviations))
        if spread == 0.0:  # at least half of the targets are equal: look at the others only
            others = deviations[deviations > 0.0]
            spread = float(np.median(others)) if len(others) else 1.0
        best, furthest = float(values.max()) - median, float(deviations.max())
        spread = max(spread, _SMALLEST_SPREAD * best, _SMALLEST_RATIO * furthest)
        unscaled = cls(prescale, median, spread, 0.0, 1.0)
        v = unscaled.forward(y)
        std = float(v.std())
        return cls(prescale, median, spread, float(v.mean()), std if std > _DEGENERATE else 1.0)

    def forward(self, y: FloatArray) -> FloatArray:
        """Map targets to standardized units, any shape."""
        u = (np.asarray(y) / self.prescale - self.median) / self.spread
        return (_compress(u) - self.mean) / self.std

    def inverse(self, z: FloatArray) -> FloatArray:
        """Map standardized values back to targets, any shape; what overflows, to the largest float.

        As the map is increasing, it takes quantiles to quantiles: that of a Gaussian's mean is the
        median of the target.
        """
        largest = np.finfo(np.float64).max
        with np.errstate(over="ignore"):
            u = _decompress(np.asarray(z) * self.std + self.mean)
            y: FloatArray = (self.median + self.spread * u) * self.prescale
        return np.clip(y, -largest, largest)

    def derivative(self, y: FloatArray) -> FloatArray:
        """Return d forward / dy at targets ``y``; squared, it maps small noise variances."""
        u = (np.asarray(y) / self.prescale - self.median) / self.spread
        slope = np.where(u >= -1.0, 1.0, -1.0 / np.minimum(u, -1.0))
        with np.errstate(over="ignore", divide="ignore"):  # subnormal targets: infinitely steep
            return slope / (self.spread * self.std) / self.prescale


def _compress(u: FloatArray) -> FloatArray:
    return np.where(u >= -1.0, u, -1.0 - np.log(np.maximum(-u, 1.0)))


def _decompress(v: FloatArray) -> FloatArray:
    return np.where(v >= -1.0, v, -np.exp(-1.0 - np.minimum(v, -1.0)))
