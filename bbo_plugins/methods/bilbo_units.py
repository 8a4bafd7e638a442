"""The maps between the units of a bilevel problem's functions and those of their models.

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
likelihood and prior (:mod:`bbo_plugins.methods.bilbo_fit`).

Observations cluster near the solution. The usual robust spreads, such as those of
:mod:`bbo_plugins.gp.outputs`, would take the width of the cluster for that of the function, and
compress nearly all of it; the median over the space does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FloatArray

_DEGENERATE = 1e-150  # values no larger are all zero
_SMALLEST_SPREAD = 1e-12  # of the values; less is rounding error
_OBJECTIVE_REACH: Final = 4.0  # L / s
_CONSTRAINT_REACH: Final = 20.0
_LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True)
class Units:
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
    def fit(cls, y: FloatArray, *, is_constraint: bool, shares: FloatArray | None = None) -> Units:
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
        if largest < _DEGENERATE:
            return cls()
        values = y / largest
        origin = 0.0 if is_constraint else float(values.max())
        units = cls(largest, origin=origin, both_ways=is_constraint)
        g = np.abs(origin - values)
        typical = 0.0 if shares is None else _weighted_median(g, shares)
        if typical > _SMALLEST_SPREAD * abs(origin):
            reach = typical * (_CONSTRAINT_REACH if is_constraint else _OBJECTIVE_REACH)
            furthest = _in_units(float(g.max()) - reach, typical)
            units = replace(units, reach=reach, unit=typical, furthest=float(furthest))
        compressed = units.forward(y)
        mean = 0.0 if is_constraint else float(compressed.mean())
        deviations = compressed - mean
        widest = float(np.abs(deviations).max())
        if widest <= _SMALLEST_SPREAD * float(np.abs(compressed).max()):
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
        return np.clip(np.asarray(excess) / unit, 0.0, _LARGEST)


def _weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Return the least of ``values`` (n,) that is no less than half of them, by weight."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, 0.5 * total[-1])])
