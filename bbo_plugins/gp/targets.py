r"""The increasing maps from targets to the units of a model.

| map                      | used by                                                           |
|--------------------------|-------------------------------------------------------------------|
| :class:`OutputTransform` | the Gaussian processes of suggestions and of their plots          |
| :class:`BoxCoxTransform` | the network of GO-UCB, with the power of the largest likelihood   |
| :class:`LogLogTransform` | the models of BILBO, if the likelihood prefers it to a linear map |

Each is strictly increasing, so that comparisons of targets stay the same, continuously
differentiable, and followed by standardization. Targets are *maximized* (a constraint of BILBO may
have either sign); all arrays have any shape unless stated otherwise. In the first two maps, values
beyond 1e250 in size count as 1e250, and are not told apart. The maps are a choice of this
project, not of one of its papers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.space.dimension import FloatArray

MAD_TO_STD: Final = 1.4826
_DEGENERATE = 1e-12  # standard deviations, and relative scales, below this are rounding error
_ALL_ZERO = 1e-150  # values no larger are all zero
# Least scale relative to the distance of a target that is squared, and to the farthest one's.
_SMALLEST_SCALE, _SMALLEST_RATIO = 1e-100, 1e-300
_LARGEST: Final = float(np.finfo(np.float64).max)
_BOUND: Final = 1e250  # larger targets count as this, which leaves room for small scales
_LINEAR_SHARE: Final = 0.9  # of the slacks, by their distances from the border
_OBJECTIVE_LIMIT: Final = 4.0  # L / s
_CONSTRAINT_LIMIT: Final = 20.0
_LARGEST_NOISE = 1e12  # of a variance, on standardized targets


_Transform = TypeVar("_Transform", "OutputTransform", "BoxCoxTransform")


def _bounded(y: FloatArray) -> FloatArray:
    return np.clip(y, -_BOUND, _BOUND)


def median_of(values: FloatArray) -> float:
    """Return the median of ``values`` (n,), n >= 1, of any finite size."""
    return 2.0 * float(np.median(0.5 * values))  # the mean of two large ones would overflow


def _median_or_others(distances: FloatArray, factor: float = 1.0) -> float:
    """Return ``factor`` times the median of ``distances`` (n,), which are at least 0.

    Where that is 0, at least half of the targets are equal: then the median of the positive
    distances, 1 without any.
    """
    median = factor * float(np.median(distances))
    if median > 0.0:
        return median
    others = distances[distances > 0.0]
    return float(np.median(others)) if len(others) else 1.0


def _standardized(transform: _Transform, y: FloatArray) -> _Transform:
    """Return the transform by which ``y`` (n,) have mean 0 and, if not all equal, variance 1."""
    v = transform.forward(y)
    std = float(v.std())
    return replace(transform, mean=float(v.mean()), std=std if std > _DEGENERATE else 1.0)


@dataclass(frozen=True)
class OutputTransform:
    """Compresses the bad tail only; :meth:`fit` builds one.

    With median m and scale s (1.4826 · median absolute deviation),

        u = (y - m) / s,      v = u for u >= -1,      v = -1 - log(-u) for u < -1.

    The better half of the data stays linear. A stationary model would spend its capacity on values
    of a diverged loss otherwise. For the slack of a constraint, :meth:`fit_slack`, v is odd around
    its border, m = 0, and s so large that only what is farthest from there is compressed.

    Attributes:
        median: m.
        scale: s; positive.
        mean: Mean of v over the fitted targets.
        std: Standard deviation of v over the fitted targets; positive.
        both_ways: Whether values far above m are compressed like those below.
    """

    median: float
    scale: float
    mean: float = 0.0
    std: float = 1.0
    both_ways: bool = False

    @classmethod
    def fit(cls, y: FloatArray, *, center: float | None = None) -> OutputTransform:
        """Fit to maximized targets; constant ones get unit scales.

        Args:
            y: Targets, finite, shape (n,), n >= 1.
            center: m, where the values that matter are not in the better half of ``y``.
        """
        y = _bounded(y)
        median = float(np.median(y) if center is None else _bounded(np.asarray(center)))
        deviations = np.abs(y - median)
        scale = _median_or_others(deviations, MAD_TO_STD)
        best, farthest = float(y.max()) - median, float(deviations.max())
        scale = max(scale, _SMALLEST_SCALE * best, _SMALLEST_RATIO * farthest)
        return _standardized(cls(median, scale), y)

    @classmethod
    def fit_slack(cls, y: FloatArray) -> OutputTransform:
        """Fit to the slacks of a constraint, which is kept from 0 on.

        A search gathers its points at the border of an active constraint. The scale is therefore a
        high quantile of the distances from there: the median would shrink with them.

        Args:
            y: Slacks, finite, shape (n,), n >= 1.
        """
        distances = np.abs(_bounded(y))
        scale = float(np.quantile(distances, _LINEAR_SHARE)) or _median_or_others(distances)
        scale = max(scale, _SMALLEST_RATIO * float(distances.max()))
        return _standardized(cls(0.0, scale, both_ways=True), y)

    def forward(self, y: FloatArray) -> FloatArray:
        """Map targets to standardized units, any shape."""
        u = (_bounded(y) - self.median) / self.scale
        return (self._to_both_sides(_compress, u) - self.mean) / self.std

    def inverse(self, z: FloatArray) -> FloatArray:
        """Map standardized values back to targets, any shape; what overflows, to the largest float.

        As the map is increasing, it takes quantiles to quantiles: that of a Gaussian's mean is the
        median of the target.
        """
        with np.errstate(over="ignore"):
            v = np.asarray(z) * self.std + self.mean
            u = self._to_both_sides(_decompress, v)
            y: FloatArray = self.median + self.scale * u
        return np.clip(y, -_LARGEST, _LARGEST)

    def derivative(self, y: FloatArray) -> FloatArray:
        """Return d forward / dy at targets ``y``; squared, it maps small noise variances."""
        u = (_bounded(y) - self.median) / self.scale
        u = -np.abs(u) if self.both_ways else u
        slope = np.where(u >= -1.0, 1.0, -1.0 / np.minimum(u, -1.0))
        with np.errstate(over="ignore", divide="ignore"):  # subnormal targets: infinitely steep
            return slope / (self.scale * self.std)

    def _to_both_sides(
        self, function: Callable[[FloatArray], FloatArray], u: FloatArray
    ) -> FloatArray:
        """Apply a function of negative values to both sides of 0, if both are compressed."""
        return -np.sign(u) * function(-np.abs(u)) if self.both_ways else function(u)


def _compress(u: FloatArray) -> FloatArray:
    return np.where(u >= -1.0, u, -1.0 - np.log(np.maximum(-u, 1.0)))


def _decompress(v: FloatArray) -> FloatArray:
    return np.where(v >= -1.0, v, -np.exp(-1.0 - np.minimum(v, -1.0)))


@dataclass(frozen=True)
class BoxCoxTransform:
    """A power of the targets' distances from the best one; :meth:`fit` builds one.

    With the best target b and the median s of the distances from it,

        u = (b - y) / s,     v = -((1 + u)^p - 1) / p     (p > 0),     v = -log(1 + u)     (p = 0),

    continued by v = -u above b. p = 1 is linear; p = 1/2 makes a quadratic valley of a quartic one;
    with p = 0 values far below the best count by their order of magnitude. The power can be chosen
    by a model's likelihood of v plus :meth:`log_jacobian`.

    Sources: Box & Cox (1964), "An Analysis of Transformations", applied to 1 + u; Snelson et al.
    (2004), "Warped Gaussian Processes", for the likelihood.

    Attributes:
        power: p, between 0 and 1.
        best: b.
        scale: s; positive.
        mean: Mean of v over the fitted targets.
        std: Standard deviation of v over the fitted targets; positive.
    """

    power: float
    best: float
    scale: float
    mean: float = 0.0
    std: float = 1.0

    @classmethod
    def fit(cls, y: FloatArray, power: float, *, best: float | None = None) -> BoxCoxTransform:
        """Fit to targets; constant ones get unit scales.

        Args:
            y: Targets, maximized, finite, shape (n,), n >= 1.
            power: p, between 0 and 1.
            best: b, if that is not the largest target: the best feasible one, say.
        """
        y = _bounded(y)
        best = float(y.max() if best is None else _bounded(np.asarray(best)))
        distances = np.abs(best - y)
        scale = max(_median_or_others(distances), _SMALLEST_SCALE * float(distances.max()))
        return _standardized(cls(power, best, scale), y)

    def forward(self, y: FloatArray) -> FloatArray:
        """Map targets to standardized units, any shape."""
        u = (self.best - _bounded(y)) / self.scale
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
            y = self.best - (below - np.maximum(v, 0.0)) * self.scale
        return np.clip(y, -_LARGEST, _LARGEST)

    def derivative(self, y: FloatArray) -> FloatArray:
        """Return d forward / dy at targets ``y``; squared, it maps small noise variances."""
        with np.errstate(over="ignore", divide="ignore"):  # subnormal targets: infinitely steep
            return np.exp(self._log_slope(y)) / (self.scale * self.std)

    def log_jacobian(self, y: FloatArray) -> float:
        """Return Σ log d forward / dy over ``y`` (n,), up to a constant that no power changes."""
        return float(self._log_slope(y).sum()) - len(y) * math.log(self.std)

    def _log_slope(self, y: FloatArray) -> FloatArray:
        u = (self.best - _bounded(y)) / self.scale
        return (self.power - 1.0) * np.log1p(np.maximum(u, 0.0))


@dataclass(frozen=True)
class LogLogTransform:
    """Compresses values far out by two logarithms; :meth:`fit` builds one.

        g <= L: unchanged,        g > L: L + s log(1 + log(1 + (g - L) / s)),

    g being an objective's distance below its best value, or a constraint's absolute value, and s
    the median of g over the space: each observation counts for the part of the space to which it is
    the nearest, as observations cluster near the solution. L is 4 s for an objective and 20 s for a
    constraint, which keeps its sign. The better half of the space stays linear.

    Attributes:
        prescale: Largest absolute value, which divides values first, so that no square overflows.
        mean: Prescaled and compressed value that is zero in model units.
        std: One model unit in prescaled and compressed units; positive.
        origin: Prescaled value from which g counts: an objective's best one, zero of a constraint.
        limit: L in prescaled units; infinite if nothing is compressed.
        unit: s in prescaled units; positive.
        furthest: Largest (g - L) / s of the values, or 0; what is mapped back is no farther out, as
            two exponentials make anything of a model's error.
        both_ways: Whether values on both sides of the origin are compressed, or those below only.
    """

    prescale: float = 1.0
    mean: float = 0.0
    std: float = 1.0
    origin: float = 0.0
    limit: float = np.inf
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
        if largest < _ALL_ZERO:
            return cls()
        values = y / largest
        origin = 0.0 if is_constraint else float(values.max())
        units = cls(largest, origin=origin, both_ways=is_constraint)
        g = np.abs(origin - values)
        typical = 0.0 if shares is None else _weighted_median(g, shares)
        if typical > _DEGENERATE * abs(origin):
            limit = typical * (_CONSTRAINT_LIMIT if is_constraint else _OBJECTIVE_LIMIT)
            furthest = _in_units(float(g.max()) - limit, typical)
            units = replace(units, limit=limit, unit=typical, furthest=float(furthest))
        compressed = units.forward(y)
        mean = 0.0 if is_constraint else float(compressed.mean())
        deviations = compressed - mean
        widest = float(np.abs(deviations).max())
        if widest <= _DEGENERATE * float(np.abs(compressed).max()):
            return cls(largest, mean, 1.0 / largest)
        std = widest * math.sqrt(float(np.mean(np.square(deviations / widest))))
        return replace(units, mean=mean, std=std)

    def compresses(self, y: FloatArray) -> bool:
        """Return whether any of the own values ``y`` (n,) is far enough out to be compressed."""
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
        return np.clip(y, -_LARGEST, _LARGEST)

    def derivative(self, y: FloatArray) -> FloatArray:
        """Return d forward / dy at own values ``y``; squared, it maps small noise variances."""
        _, u = self._far_out(np.asarray(y) / self.prescale)
        with np.errstate(over="ignore", divide="ignore"):  # the smallest values: infinitely steep
            slope = 1.0 / (1.0 + u) / (1.0 + np.log1p(u)) / self.scale
        return np.minimum(slope, _LARGEST)

    def deviation(self, mean: FloatArray, sd: FloatArray) -> FloatArray:
        """Return standard deviations in own units, by the map's tangent at the mean, any shape.

        Args:
            mean: Means in model units.
            sd: Standard deviations in model units.
        """
        with np.errstate(over="ignore", divide="ignore"):
            own = sd / self.derivative(self.inverse(mean))
        return np.minimum(own, _LARGEST)

    def _compress(self, v: FloatArray) -> FloatArray:
        side, u = self._far_out(v)
        g = self.limit + self.unit * np.log1p(np.log1p(u))
        return np.where(u > 0.0, self.origin + side * g, v)

    def _decompress(self, v: FloatArray) -> FloatArray:
        side, u = self._far_out(v)
        g = self.limit + self.unit * np.minimum(np.expm1(np.expm1(u)), self.furthest)
        return np.where(u > 0.0, self.origin + side * g, v)

    def _far_out(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the side of the origin, 1 or -1, and (g - L) / s or 0, both of v's shape."""
        g = self.origin - v
        distance = np.abs(g) if self.both_ways else g
        return np.where(g < 0.0, 1.0, -1.0), _in_units(distance - self.limit, self.unit)


def _in_units(excess: FloatArray | float, unit: float) -> FloatArray:
    """Return ``excess``, any shape, over ``unit``, where it is positive, else 0."""
    with np.errstate(over="ignore"):  # of the smallest units
        return np.clip(np.asarray(excess) / unit, 0.0, _LARGEST)


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the least of ``values`` (n,) that is no less than half of them, by weight."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, 0.5 * total[-1])])


def transformed_noise(noise_variance: FloatArray, derivative: FloatArray) -> FloatArray:
    """Return known noise variances in squared transformed units, at most ``_LARGEST_NOISE``.

    Args:
        noise_variance: Noise variances in squared own units, NaN where unknown, shape (n,).
        derivative: Derivative of the transform at the targets, shape (n,).

    Returns:
        NaN where unknown, shape (n,).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        noise_sd = np.sqrt(noise_variance) * derivative
    noise_sd[noise_variance == 0.0] = 0.0
    return np.minimum(np.square(np.minimum(noise_sd, _LARGEST_NOISE)), _LARGEST_NOISE)
