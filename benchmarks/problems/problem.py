"""What a test problem is, and how a raw formula is moved into a box.

Every problem is to be minimized, as a function of the parameters of an Optuna trial.  Noisy
problems add independent normal noise to the value that the optimizer sees; regret is measured on
the noise-free value.
"""

import functools
import hashlib
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from benchmarks.problems.formulas import Formula, Vector

Params: TypeAlias = Mapping[str, Any]
# "paper": a case of the UHE paper in its own box, not moved; it is run only when asked for.
# "table": tuning of a model, looked up; run only when asked for, too.
Group: TypeAlias = Literal["deceptive", "smooth", "mixed", "noisy", "paper", "table"]

GROUPS: tuple[Group, ...] = get_args(Group)
BOX_LOW, BOX_HIGH = -5.0, 5.0
_FINGERPRINT_POINTS = 16
_SCALE_POINTS = 512


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem: its space, noise-free value, known minimum, and the budget it is given."""

    name: str
    space: Mapping[str, BaseDistribution]
    value: Callable[[Params], float]
    argmin: Params
    minimum: float
    n_trials: int
    noise_sd: float = 0.0
    group: Group = "smooth"

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return len(self.space)

    def regret(self, params: Params) -> float:
        """Noise-free simple regret of one point; rounding below the minimum counts as zero."""
        return max(0.0, self.value(params) - self.minimum)

    def observe(self, params: Params, *, seed: int, number: int) -> float:
        """Return what the optimizer sees at a trial; every sampler meets the same noise there."""
        if self.noise_sd == 0.0:
            return self.value(params)
        noise = np.random.default_rng(
            [zlib.crc32(self.name.encode()), seed, number]
        ).standard_normal()
        return self.value(params) + self.noise_sd * float(noise)

    @functools.cached_property
    def scale(self) -> float:
        """Median regret of a random point: the unit in which regrets are called negligible."""
        points = np.random.default_rng(0).random((_SCALE_POINTS, self.dimension))
        return float(np.median([self.regret(from_unit(self.space, point)) for point in points]))

    @functools.cached_property
    def fingerprint(self) -> str:
        """Digest of the definition, so that stored results of an older one are not reused.

        The group is left out on purpose: it says how results are reported, not what they are.
        """
        points = np.random.default_rng(1).random((_FINGERPRINT_POINTS, self.dimension))
        values = [format(self.value(from_unit(self.space, point)), ".9e") for point in points]
        text = repr(
            (self.name, dict(self.space), values, format(self.minimum, ".9e"), self.noise_sd)
        )
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def from_unit(space: Mapping[str, BaseDistribution], point: NDArray[np.float64]) -> dict[str, Any]:
    """Map a point of the unit cube to parameters; discrete levels share the interval equally."""
    return {
        name: _value_at(distribution, min(max(float(u), 0.0), 1.0))
        for (name, distribution), u in zip(space.items(), point, strict=True)
    }


def space_filling(n_points: int, dimension: int, rng: np.random.Generator) -> Vector:
    """Return a Latin hypercube (n_points, dimension): each coordinate has one point per stratum."""
    strata = rng.permuted(np.tile(np.arange(n_points), (dimension, 1)), axis=1).T
    return np.asarray((strata + rng.random((n_points, dimension))) / n_points)


def _value_at(distribution: BaseDistribution, u: float) -> Any:
    """Return one parameter's value at position u of the unit interval."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[
            min(int(u * len(distribution.choices)), len(distribution.choices) - 1)
        ]
    if isinstance(distribution, IntDistribution):
        low, high = distribution.low, distribution.high
        if distribution.log:
            log_low, log_high = math.log(low - 0.5), math.log(high + 0.5)
            return min(max(round(math.exp(log_low + u * (log_high - log_low))), low), high)
        n_levels = (high - low) // distribution.step + 1
        return low + distribution.step * min(int(u * n_levels), n_levels - 1)
    if isinstance(distribution, FloatDistribution):
        low_float, high_float = distribution.low, distribution.high
        if distribution.step is not None:
            n_levels = round((high_float - low_float) / distribution.step) + 1
            return low_float + distribution.step * min(int(u * n_levels), n_levels - 1)
        if distribution.log:
            return min(max(low_float * (high_float / low_float) ** u, low_float), high_float)
        return low_float + u * (high_float - low_float)
    message = f"distribution must be a float, int or categorical one, but got {distribution!r}."
    raise TypeError(message)


def rng_of(name: str) -> np.random.Generator:
    """Return the generator behind a problem's shift and rotation: fixed by its name."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def place_of_optimum(rng: np.random.Generator, dimension: int) -> Vector:
    """Return unit-cube coordinates between 0.15 and 0.85 that keep 0.08 away from the center."""
    side = rng.choice([-1.0, 1.0], size=dimension)
    return np.asarray(0.5 + side * rng.uniform(0.08, 0.35, size=dimension))


def rotation(rng: np.random.Generator, dimension: int) -> Vector:
    """Return a random orthogonal matrix, uniform up to signs."""
    q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    return np.asarray(q * np.sign(np.diag(r)))


def box(low: Vector, high: Vector) -> dict[str, BaseDistribution]:
    """Return plain floats x0, x1, ... with the given limits, each of shape (d,)."""
    return {
        f"x{i}": FloatDistribution(*limits)
        for i, limits in enumerate(zip(low.tolist(), high.tolist(), strict=True))
    }


def moved(
    name: str,
    formula: Formula,
    z_argmin: Vector,
    *,
    width: float,
    n_trials: int,
    rotate: bool = True,
    noise_sd: float = 0.0,
    definition: str | None = None,
    group: Group = "smooth",
) -> Problem:
    """Return a formula moved into the box: optimum shifted, axes rotated unless told not to.

    ``width`` is the side of the usual box in the formula's own coordinates.  ``definition`` names
    the problem whose shift and rotation are shared, so that a noisy problem differs from the noise-
    free one by its noise alone.
    """
    dimension = z_argmin.size
    rng = rng_of(definition or name)
    center = BOX_LOW + (BOX_HIGH - BOX_LOW) * place_of_optimum(rng, dimension)
    turn = rotation(rng, dimension) if rotate else np.eye(dimension)
    turn *= width / (BOX_HIGH - BOX_LOW)
    space = box(np.full(dimension, BOX_LOW), np.full(dimension, BOX_HIGH))
    names = tuple(space)

    def value(params: Params) -> float:
        x = np.array([params[parameter] for parameter in names])
        return formula(z_argmin + turn @ (x - center))

    return Problem(
        name=name,
        space=MappingProxyType(space),
        value=value,
        argmin=MappingProxyType(dict(zip(names, center.tolist(), strict=True))),
        minimum=formula(z_argmin),
        n_trials=n_trials,
        noise_sd=noise_sd,
        group=group,
    )
