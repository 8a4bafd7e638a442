r"""Monotone transform of the targets before a Gaussian process sees them.

Objectives such as a loss that diverges have values many orders of magnitude worse than anything of
interest; a stationary model spends its capacity on them. With median m and robust spread s (1.4826
· median absolute deviation), of targets that are *maximized*,

    u = (y - m) / s,      v = u for u >= -1,      v = -1 - log(-u) for u < -1,

followed by standardization of v to mean 0 and variance 1. The transform is strictly increasing and
continuously differentiable, compresses the bad tail only, and leaves the better half of the data
linear, so the incumbent and every comparison of targets stay the same.

A choice of this project, not from one of its papers.

The maps between the units of a bilevel problem's functions and those of their models.

Objectives such as a loss that diverges have values many orders of magnitude worse than anything of
interest, and so have constraints. One such value would decide the unit, beside which all that
matters is rounding error to the model. So values far out are compressed:

    g <= L: unchanged,        g > L: L + s log(1 + log(1 + (g - L) / s)),

g being an objective's distance below its best value, or a constraint's absolute value, and s the
median of g over the space, each observation counting for the part of the space to which it is the
nearest. L is 4 s for an objective. For a constraint, which varies more in this unit the nearer its
border is to the middle of its values, it is 20 s. The map is increasing, continuously
differentiable and leaves the better half of the space linear; a constraint keeps its sign. (One
logarithm instead of two leaves a pole that tells on a stationary model.) Values alone do not say
whether the farthest are a pole or the far end of a smooth valley: the model decides, by marginal
likelihood and prior (:mod:`bbo_plugins.methods.bilbo.model`).

Observations cluster near the solution. The usual robust spreads, such as those of
:mod:`bbo_plugins.gp.targets`, would take the width of the cluster for that of the function, and
compress nearly all of it; the median over the space does not.

Monotone power transform of the targets' distances from the best one.

With the best target b and the median's distance s from it, of targets that are *maximized*,

    u = (b - y) / s,      v = -((1 + u)^p - 1) / p      (p > 0),      v = -log(1 + u)      (p = 0),

continued by v = -u above b, and standardized to mean 0 and variance 1. Where p = 1 it is linear;
where p = 1/2 a quartic valley becomes a quadratic one; where p = 0 values orders of magnitude worse
than the best ones count by their order only. It is strictly increasing and continuously
differentiable, so that comparisons of targets stay the same. Which p a model should see can be
decided by its marginal likelihood, as long as that is one of the targets in their own units: that
of v plus :meth:`BoxCoxTransform.log_jacobian`.

Source: Box & Cox (1964), "An Analysis of Transformations", whose power transform of positive values
is applied to 1 + u here; Snelson et al. (2004), "Warped Gaussian Processes", for the likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

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


_LOGLOG_DEGENERATE = 1e-150  # values no larger are all zero


_LOGLOG_SMALLEST_SPREAD = 1e-12  # of the values; less is rounding error


_OBJECTIVE_REACH: Final = 4.0  # L / s


_CONSTRAINT_REACH: Final = 20.0


_LOGLOG_LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True)
class LogLogTransform:
    """An increasing map between a function's own units and its model's; :meth:`fit` builds one.

    Attributes:
        prescale: Largest absolute value, which divides values first, so that no square overflows.
        mean: Prescaled and compressed value that is zero in model units.
        std: One model unit in prescaled and compressed units; positive.
        origin: Prescaled value from which g counts: an objective's best one, zero of a constraint.
        reach: L in prescaled units; infinite if nothing is compressed.
        unit: s in prescaled units; positive.
        furthest: Largest (g - L) / s of the values, or 0; what is mapped back is no farther out, as
            two exponentials make anything of a model's error.
        both_ways: Whether values on both sides of the origin are compressed, or those below only.
    """

    prescale: float = 1.0
    mean: float = 0.0
    std: float = 1.0
    origin: float = 0.0
    reach: float = np.inf
    unit: float = 1.0
    furthest: float = 0.0
    both_ways: bool = False

    @classmethod
    def fit(
        cls, y: FloatArray, *, is_constraint: bool, shares: FloatArray | None = None
    ) -> LogLogTransform:
        """Return the units for values ``y`` (n,), n >= 1; constant values get a scale of 1.

        An objective gets mean 0 and standard deviation 1, a constraint root mean square 1 and no
        shift, all after compression.

        Args:
            y: The values; an objective's are to be maximized.
            is_constraint: Whether the function is a constraint, which keeps its sign.
            shares: Part of the space that each value stands for, shape (n,), at least 0 and not all
                0. Values far out are compressed unless g is zero in half of the space. None: none
                are compressed.
        """
        largest = float(np.abs(y).max())
        if largest < _LOGLOG_DEGENERATE:
            return cls()
        values = y / largest
        origin = 0.0 if is_constraint else float(values.max())
        units = cls(largest, origin=origin, both_ways=is_constraint)
        g = np.abs(origin - values)
        typical = 0.0 if shares is None else _weighted_median(g, shares)
        if typical > _LOGLOG_SMALLEST_SPREAD * abs(origin):
            reach = typical * (_CONSTRAINT_REACH if is_constraint else _OBJECTIVE_REACH)
            furthest = _in_units(float(g.max()) - reach, typical)
            units = replace(units, reach=reach, unit=typical, furthest=float(furthest))
        compressed = units.forward(y)
        mean = 0.0 if is_constraint else float(compressed.mean())
        deviations = compressed - mean
        widest = float(np.abs(deviations).max())
        if widest <= _LOGLOG_SMALLEST_SPREAD * float(np.abs(compressed).max()):
            return cls(largest, mean, 1.0 / largest)
        std = widest * math.sqrt(float(np.mean(np.square(deviations / widest))))
        return replace(units, mean=mean, std=std)

    def compresses(self, y: FloatArray) -> bool:
        """Tell whether any of the own values ``y`` (n,) is far enough out to be compressed."""
        return bool((self._far_out(y / self.prescale)[1] > 0.0).any())

    @property
    def scale(self) -> float:
        """One model unit in own units, where nothing is compressed."""
        return self.std * self.prescale

    def forward(self, y: FloatArray) -> FloatArray:
        """Map own values to model units, any shape."""
        return (self._compress(np.asarray(y) / self.prescale) - self.mean) / self.std

    def inverse(self, z: FloatArray) -> FloatArray:
        """Map model units to own values, any shape; what overflows, to the largest float.

        As the map is increasing, the mean of a Gaussian becomes the median of the values. None is
        farther out than the values of the fit where those were compressed.
        """
        compressed = np.asarray(z) * self.std + self.mean
        with np.errstate(over="ignore"):
            y = self._decompress(compressed) * self.prescale
        return np.clip(y, -_LOGLOG_LARGEST, _LOGLOG_LARGEST)

    def derivative(self, y: FloatArray) -> FloatArray:
        """Return d forward / dy at own values ``y``; squared, it maps small noise variances."""
        _, u = self._far_out(np.asarray(y) / self.prescale)
        with np.errstate(over="ignore", divide="ignore"):  # the smallest values: infinitely steep
            slope = 1.0 / (1.0 + u) / (1.0 + np.log1p(u)) / self.scale
        return np.minimum(slope, _LOGLOG_LARGEST)

    def deviation(self, mean: FloatArray, sd: FloatArray) -> FloatArray:
        """Return standard deviations in own units, by the map's tangent at the mean, any shape.

        Args:
            mean: Means in model units.
            sd: Standard deviations in model units.
        """
        with np.errstate(over="ignore", divide="ignore"):
            own = sd / self.derivative(self.inverse(mean))
        return np.minimum(own, _LOGLOG_LARGEST)

    def _compress(self, v: FloatArray) -> FloatArray:
        side, u = self._far_out(v)
        g = self.reach + self.unit * np.log1p(np.log1p(u))
        return np.where(u > 0.0, self.origin + side * g, v)

    def _decompress(self, v: FloatArray) -> FloatArray:
        side, u = self._far_out(v)
        g = self.reach + self.unit * np.minimum(np.expm1(np.expm1(u)), self.furthest)
        return np.where(u > 0.0, self.origin + side * g, v)

    def _far_out(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the side of the origin, 1 or -1, and (g - L) / s or 0, both of v's shape."""
        g = self.origin - v
        distance = np.abs(g) if self.both_ways else g
        return np.where(g < 0.0, 1.0, -1.0), _in_units(distance - self.reach, self.unit)


def _in_units(excess: FloatArray | float, unit: float) -> FloatArray:
    """Return ``excess``, any shape, over ``unit``, where it is positive, else 0."""
    with np.errstate(over="ignore"):  # of the smallest units
        return np.clip(np.asarray(excess) / unit, 0.0, _LOGLOG_LARGEST)


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the least of ``values`` (n,) that is no less than half of them, by weight."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, 0.5 * total[-1])])


_BOXCOX_DEGENERATE = 1e-12


_BOXCOX_SMALLEST_SPREAD = 1e-100  # relative to the furthest target's distance


_BOXCOX_LARGEST = np.finfo(np.float64).max


_BOXCOX_SMALLEST_EXPONENT = -1000  # keeps the prescale and its reciprocal normal numbers


@dataclass(frozen=True)
class BoxCoxTransform:
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
    def fit(cls, y: FloatArray, power: float) -> BoxCoxTransform:
        """Fit to maximized targets ``y`` (n,), n >= 1, finite; constant targets get unit scales."""
        _, exponent = math.frexp(float(np.abs(y).max()))
        prescale = math.ldexp(1.0, max(exponent - 1, _BOXCOX_SMALLEST_EXPONENT))
        values = y / prescale
        best = float(values.max())
        gaps = best - values
        spread = float(np.median(gaps))
        if spread == 0.0:  # at least half of the targets are the best one: look at the others only
            others = gaps[gaps > 0.0]
            spread = float(np.median(others)) if len(others) else 1.0
        spread = max(spread, _BOXCOX_SMALLEST_SPREAD * float(gaps.max()))
        unscaled = cls(power, prescale, best, spread)
        v = unscaled.forward(y)
        std = float(v.std())
        return replace(unscaled, mean=float(v.mean()), std=std if std > _BOXCOX_DEGENERATE else 1.0)

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
        return np.clip(y, -_BOXCOX_LARGEST, _BOXCOX_LARGEST)

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
