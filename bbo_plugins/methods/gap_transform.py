r"""Monotone power transform of the targets' distances from the best one.

With the best target b and the median's distance s from it, of targets that are *maximized*,

    u = (b - y) / s,      v = -((1 + u)^p - 1) / p      (p > 0),      v = -log(1 + u)      (p = 0),

continued by v = -u above b, and standardized to mean 0 and variance 1. Where p = 1 it is linear;
where p = 1/2 a quartic valley becomes a quadratic one; where p = 0 values orders of magnitude worse
than the best ones count by their order only. It is strictly increasing and continuously
differentiable, so that comparisons of targets stay the same. Which p a model should see can be
decided by its marginal likelihood, as long as that is one of the targets in their own units: that
of v plus :meth:`GapTransform.log_jacobian`.

Source: Box & Cox (1964), "An Analysis of Transformations", whose power transform of positive values
is applied to 1 + u here; Snelson et al. (2004), "Warped Gaussian Processes", for the likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FloatArray

_DEGENERATE = 1e-12
_SMALLEST_SPREAD = 1e-100  # relative to the furthest target's distance
_LARGEST = np.finfo(np.float64).max
_SMALLEST_EXPONENT = -1000  # keeps the prescale and its reciprocal normal numbers


@dataclass(frozen=True)
class GapTransform:
    """A fitted transform; :meth:`fit` builds one.

    Attributes:
        power: p, between 0 and 1.
        prescale: Power of two that divides the targets first, so that nothing after it overflows or
            underflows.
        best: b, after the division.
        spread: s, after the division; positive.
        mean: Mean of v over the fitted targets.
        std: Standard deviation of v over the fitted targets; positive.
    """

    power: float
    prescale: float
    best: float
    spread: float
    mean: float = 0.0
    std: float = 1.0

    @classmethod
    def fit(cls, y: FloatArray, power: float) -> GapTransform:
        """Fit to maximized targets ``y`` (n,), n >= 1, finite; constant targets get unit scales."""
        _, exponent = math.frexp(float(np.abs(y).max()))
        prescale = math.ldexp(1.0, max(exponent - 1, _SMALLEST_EXPONENT))
        values = y / prescale
        best = float(values.max())
        gaps = best - values
        spread = float(np.median(gaps))
        if spread == 0.0:  # at least half of the targets are the best one: look at the others only
            others = gaps[gaps > 0.0]
            spread = float(np.median(others)) if len(others) else 1.0
        spread = max(spread, _SMALLEST_SPREAD * float(gaps.max()))
        unscaled = cls(power, prescale, best, spread)
        v = unscaled.forward(y)
        std = float(v.std())
        return replace(unscaled, mean=float(v.mean()), std=std if std > _DEGENERATE else 1.0)

    def forward(self, y: FloatArray) -> FloatArray:
        """Map targets to standardized units, any shape."""
        u = (self.best - np.asarray(y) / self.prescale) / self.spread
        below = np.maximum(u, 0.0)
        if self.power == 0.0:
            fall = np.log1p(below)
        else:
            fall = np.expm1(self.power * np.log1p(below)) / self.power
        return (-fall - np.minimum(u, 0.0) - self.mean) / self.std

    def inverse(self, z: FloatArray) -> FloatArray:
        """Map standardized units to targets, any shape; what overflows, to the largest float."""
        v = np.asarray(z) * self.std + self.mean
        fall = np.maximum(-v, 0.0)
        with np.errstate(over="ignore"):
            if self.power == 0.0:
                below = np.expm1(fall)
            else:
                below = np.expm1(np.log1p(self.power * fall) / self.power)
            y = (self.best - (below - np.maximum(v, 0.0)) * self.spread) * self.prescale
        return np.clip(y, -_LARGEST, _LARGEST)

    def derivative(self, y: FloatArray) -> FloatArray:
        """Return d forward / dy at targets ``y``; squared, it maps small noise variances."""
        with np.errstate(over="ignore", divide="ignore"):  # subnormal targets: infinitely steep
            return np.exp(self._log_slope(y)) / (self.spread * self.std) / self.prescale

    def log_jacobian(self, y: FloatArray) -> float:
        """Return Σ log d forward / dy over ``y`` (n,), up to a constant that no power changes."""
        return float(self._log_slope(y).sum()) - len(y) * math.log(self.std)

    def _log_slope(self, y: FloatArray) -> FloatArray:
        u = (self.best - np.asarray(y) / self.prescale) / self.spread
        return (self.power - 1.0) * np.log1p(np.maximum(u, 0.0))
