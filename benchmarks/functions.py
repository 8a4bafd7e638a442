"""Test problems with known minima, as functions of the parameters of an Optuna trial.

Every problem is to be minimized.  The optimum of each sits at a fixed pseudo-random place, neither
at the center of the box nor near its edges, and all but the separable ones (Michalewicz, Schwefel)
are rotated by a fixed random rotation. Noisy problems add independent normal noise to the value
that the optimizer sees; regret is measured on the noise-free value of the trial the user would
take, the one with the best *observed* value.
"""

import functools
import hashlib
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from benchmarks import formulas
from benchmarks.formulas import Formula, Vector

Params: TypeAlias = Mapping[str, Any]

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
        """Digest of the definition, so that stored results of an older one are not reused."""
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


def _rng(name: str) -> np.random.Generator:
    """Return the generator behind a problem's shift and rotation: fixed by its name."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def _place_of_optimum(rng: np.random.Generator, dimension: int) -> Vector:
    """Return unit-cube coordinates between 0.15 and 0.85 that keep 0.08 away from the center."""
    side = rng.choice([-1.0, 1.0], size=dimension)
    return np.asarray(0.5 + side * rng.uniform(0.08, 0.35, size=dimension))


def _rotation(rng: np.random.Generator, dimension: int) -> Vector:
    """Return a random orthogonal matrix, uniform up to signs."""
    q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
    return np.asarray(q * np.sign(np.diag(r)))


def _box(dimension: int) -> dict[str, BaseDistribution]:
    """Return ``dimension`` plain floats x0, x1, ..."""
    return {f"x{i}": FloatDistribution(BOX_LOW, BOX_HIGH) for i in range(dimension)}


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
) -> Problem:
    """Return a formula moved into the box: optimum shifted, axes rotated unless told not to.

    ``width`` is the side of the usual box in the formula's own coordinates.  ``definition`` names
    the problem whose shift and rotation are shared, so that a noisy problem differs from the noise-
    free one by its noise alone.
    """
    dimension = z_argmin.size
    rng = _rng(definition or name)
    center = BOX_LOW + (BOX_HIGH - BOX_LOW) * _place_of_optimum(rng, dimension)
    turn = _rotation(rng, dimension) if rotate else np.eye(dimension)
    turn *= width / (BOX_HIGH - BOX_LOW)
    names = tuple(_box(dimension))

    def value(params: Params) -> float:
        x = np.array([params[parameter] for parameter in names])
        return formula(z_argmin + turn @ (x - center))

    return Problem(
        name=name,
        space=MappingProxyType(_box(dimension)),
        value=value,
        argmin=MappingProxyType(dict(zip(names, center.tolist(), strict=True))),
        minimum=formula(z_argmin),
        n_trials=n_trials,
        noise_sd=noise_sd,
    )


def _log_sphere() -> Problem:
    """Squared distance, in decades, over five log-scaled floats of very different ranges."""
    ranges = {
        "lr": (1e-6, 1e0),
        "decay": (1e-10, 1e-2),
        "eps": (1e-12, 1e-4),
        "tau": (1e-3, 1e3),
        "c": (1e-2, 1e5),
    }
    argmin = {"lr": 2e-3, "decay": 3e-5, "eps": 5e-11, "tau": 4e-2, "c": 2e1}

    def value(params: Params) -> float:
        return sum(math.log10(params[name] / best) ** 2 for name, best in argmin.items())

    space = {name: FloatDistribution(low, high, log=True) for name, (low, high) in ranges.items()}
    return Problem(
        name="log_sphere5", space=space, value=value, argmin=argmin, minimum=0.0, n_trials=60
    )


def _stepped_ackley() -> Problem:
    """Rotated Ackley on a grid of step 0.25 that contains the optimum."""
    argmin = {"x0": 1.25, "x1": -2.5, "x2": 3.0, "x3": -1.75, "x4": 2.25}
    center = np.array(list(argmin.values()))
    turn = 2.0 * _rotation(_rng("stepped_ackley5"), center.size)

    def value(params: Params) -> float:
        return formulas.ackley(turn @ (np.array([params[name] for name in argmin]) - center))

    space = {name: FloatDistribution(BOX_LOW, BOX_HIGH, step=0.25) for name in argmin}
    return Problem(
        name="stepped_ackley5", space=space, value=value, argmin=argmin, minimum=0.0, n_trials=80
    )


def _mixed_sphere() -> Problem:
    """Floats, an int, a log int, and two categorical parameters that add an offset each."""
    shape = {"round": 0.8, "square": 0.0, "star": 3.0, "cross": 1.5}
    space: dict[str, BaseDistribution] = {
        "x0": FloatDistribution(-5.0, 5.0),
        "x1": FloatDistribution(-5.0, 5.0),
        "n": IntDistribution(0, 30),
        "width": IntDistribution(4, 512, log=True),
        "shape": CategoricalDistribution(list(shape)),
        "flag": CategoricalDistribution([False, True, None]),
    }
    argmin = {"x0": 1.7, "x1": -2.9, "n": 22, "width": 24, "shape": "square", "flag": True}

    def value(params: Params) -> float:
        floats = sum(0.25 * (params[name] - argmin[name]) ** 2 for name in ("x0", "x1"))
        ints = 0.02 * (params["n"] - 22) ** 2 + 0.5 * math.log2(params["width"] / 24) ** 2
        return float(
            floats + ints + shape[params["shape"]] + (0.0 if params["flag"] is True else 1.0)
        )

    return Problem(
        name="mixed_sphere6", space=space, value=value, argmin=argmin, minimum=0.0, n_trials=80
    )


def _mixed_interaction() -> Problem:
    """A choice of optimizer that moves the best rate, its sharpness, and the best depth."""
    # choice: (floor, best log10 rate, curvature, best depth)
    choices = {
        "sgd": (0.35, -0.8, 1.0, 4),
        "momentum": (0.0, -1.7, 2.0, 9),
        "adam": (0.1, -3.1, 0.7, 7),
        "lion": (0.6, -4.0, 3.0, 3),
    }
    space: dict[str, BaseDistribution] = {
        "optimizer": CategoricalDistribution(list(choices)),
        "rate": FloatDistribution(1e-6, 1e1, log=True),
        "depth": IntDistribution(1, 12),
        "dropout": FloatDistribution(0.0, 0.8, step=0.05),
        "mix": FloatDistribution(0.0, 1.0),
    }
    argmin = {
        "optimizer": "momentum",
        "rate": 10.0**-1.7,
        "depth": 9,
        "dropout": 0.35,
        "mix": 0.2 + 0.05 * 9,
    }

    def value(params: Params) -> float:
        floor, log_rate, curvature, depth = choices[params["optimizer"]]
        rate_term = curvature * (math.log10(params["rate"]) - log_rate) ** 2
        depth_term = 0.05 * (params["depth"] - depth) ** 2
        drop_term = 6.0 * (params["dropout"] - 0.35) ** 2
        # The best mixture moves with the depth: a continuous-integer interaction.
        mix_term = 3.0 * (params["mix"] - (0.2 + 0.05 * params["depth"])) ** 2
        return float(floor + rate_term + depth_term + drop_term + mix_term)

    return Problem(
        name="mixed_interaction5", space=space, value=value, argmin=argmin, minimum=0.0, n_trials=80
    )


def _problems() -> tuple[Problem, ...]:
    """Return every problem, in the order of the report."""
    f = formulas
    return (
        moved("branin", f.branin, f.BRANIN_ARGMIN, width=15.0, n_trials=60),
        moved("hartmann3", f.hartmann3, f.HARTMANN3_ARGMIN, width=1.0, n_trials=60),
        moved("hartmann6", f.hartmann6, f.HARTMANN6_ARGMIN, width=1.0, n_trials=80),
        moved("rosenbrock5", f.rosenbrock, np.ones(5), width=10.0, n_trials=80),
        moved("ackley5", f.ackley, np.zeros(5), width=20.0, n_trials=80),
        moved("levy6", f.levy, np.ones(6), width=20.0, n_trials=80),
        moved("griewank5", f.griewank, np.zeros(5), width=40.0, n_trials=80),
        moved(
            "styblinski_tang5",
            f.styblinski_tang,
            np.full(5, f.STYBLINSKI_TANG_ARGMIN),
            width=10.0,
            n_trials=80,
        ),
        moved(
            "michalewicz5",
            f.michalewicz,
            f.MICHALEWICZ_ARGMIN,
            width=math.pi,
            n_trials=80,
            rotate=False,
        ),
        moved(
            "schwefel4",
            f.schwefel,
            np.full(4, f.SCHWEFEL_ARGMIN),
            width=1000.0,
            n_trials=80,
            rotate=False,
        ),
        moved("h1", f.h1, f.H1_ARGMIN, width=200.0, n_trials=80),
        moved("ellipsoid10", f.ellipsoid, np.zeros(10), width=10.0, n_trials=100),
        moved("levy20", f.levy, np.ones(20), width=20.0, n_trials=100),
        _log_sphere(),
        moved(
            "noisy_branin",
            f.branin,
            f.BRANIN_ARGMIN,
            width=15.0,
            n_trials=60,
            noise_sd=5.0,
            definition="branin",
        ),
        moved(
            "noisy_hartmann6",
            f.hartmann6,
            f.HARTMANN6_ARGMIN,
            width=1.0,
            n_trials=80,
            noise_sd=0.2,
            definition="hartmann6",
        ),
        moved("noisy_levy4", f.levy, np.ones(4), width=20.0, n_trials=80, noise_sd=1.0),
        _mixed_sphere(),
        _stepped_ackley(),
        _mixed_interaction(),
    )


PROBLEMS: Mapping[str, Problem] = MappingProxyType(
    {problem.name: problem for problem in _problems()}
)
