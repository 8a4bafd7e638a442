"""What a test problem is, and how a raw formula is moved into a box.

A :class:`Problem` is to be minimized, as a function of the parameters of an Optuna trial.  Noisy
problems add independent normal noise to the value that the optimizer sees; regret is measured on
the noise-free value.

An :class:`ObjectiveProblem` is any Optuna objective: it may suggest parameters under conditions,
set constraints by ``Trial.set_constraint`` and have several values.
"""

import functools
import hashlib
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.trial import FrozenTrial, Trial

from bbo_plugins.optuna.study.parameters import dimension_of
from bbo_plugins.space import SearchSpace
from benchmarks.problems.formulas import Formula, Vector

Params: TypeAlias = Mapping[str, Any]
Direction: TypeAlias = Literal["minimize", "maximize"]
BOX_LOW, BOX_HIGH = -5.0, 5.0
N_STARTUP = 10
_DIGITS = 9  # of values that are stored
_FINGERPRINT_POINTS = 16
_SCALE_POINTS = 512


def digest_of(*parts: object) -> str:
    """Return a digest of what the parts look like."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem: its space, noise-free value, known minimum, and the budget it is given.

    Attributes:
        name: Its name.
        space: The parameters.
        value: The noise-free value at parameters.
        argmin: Where it is least.
        minimum: Its least value.
        n_trials: Trials of one run.
        n_startup: How many of them are start-up points, the same ones for all entrants.
        noise_sd: Standard deviation of the noise.
        group: What it is reported with: "paper" if it is a paper's own function and not moved,
            "table" if it is a model to be tuned, "integers" if floats and integers act together.
        definition: What identifies it where evaluating it for that would take long.
        fold_scores: Returns the scores on the folds that the value is the mean of; None where the
            value is no cross-validated score.
    """

    name: str
    space: Mapping[str, BaseDistribution]
    value: Callable[[Params], float]
    argmin: Params
    minimum: float
    n_trials: int
    n_startup: int = N_STARTUP
    noise_sd: float = 0.0
    group: str = "smooth"
    definition: str | None = None
    fold_scores: Callable[[Params], list[float]] | None = None
    directions: ClassVar[Sequence[Direction]] = ("minimize",)

    @functools.cached_property
    def cube(self) -> SearchSpace:
        """The parameters in the unit cube."""
        return cube_of(self.space)

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return len(self.space)

    def regret(self, params: Params) -> float:
        """Noise-free simple regret of one point; rounding below the minimum counts as zero."""
        return max(0.0, self.value(params) - self.minimum)

    def regrets(self, observed: Iterable[tuple[Params, float | None]]) -> list[float]:
        """Return the noise-free regret of the best *observed* trial after each of them."""
        best, regret, regrets = math.inf, math.inf, []
        for params, value in observed:
            assert value is not None
            if value < best:
                best = value
                regret = self.regret(params) if self.noise_sd else max(0.0, best - self.minimum)
            regrets.append(regret)
        return regrets

    def observe(self, params: Params, *, seed: int, number: int) -> float:
        """Return what the optimizer sees at a trial; every sampler meets the same noise there."""
        if self.noise_sd == 0.0:
            return self.value(params)
        noise = np.random.default_rng(
            [zlib.crc32(self.name.encode()), seed, number]
        ).standard_normal()
        return self.value(params) + self.noise_sd * float(noise)

    def startup_points(self, seed: int, n_points: int = N_STARTUP) -> list[dict[str, Any]]:
        """Return the points of a Latin hypercube that every sampler starts from."""
        points = space_filling(n_points, self.dimension, np.random.default_rng(seed))
        return [self.cube.decode(point) for point in points]

    def objective(self, trial: Trial, *, seed: int) -> float:
        """Return what the optimizer sees at a trial that has all its parameters."""
        return self.observe(trial.params, seed=seed, number=trial.number)

    def measured(self, trials: Sequence[FrozenTrial]) -> dict[str, Any]:
        """Return observed values and regrets."""
        values = [float(f"{trial.value:.{_DIGITS}g}") for trial in trials]
        return {
            "values": values,
            "regrets": self.regrets((trial.params, trial.value) for trial in trials),
        }

    @functools.cached_property
    def random_regrets(self) -> Vector:
        """Regrets of random points, shape (512,)."""
        points = np.random.default_rng(0).random((_SCALE_POINTS, self.dimension))
        return np.array([self.regret(params) for params in map(self.cube.decode, points)])

    @property
    def scale(self) -> float:
        """Median regret of a random point: the unit in which regrets are called negligible."""
        return float(np.median(self.random_regrets))

    @property
    def largest_regret(self) -> float:
        """The largest regret of a random point: the range of the regret."""
        return float(self.random_regrets.max())

    @functools.cached_property
    def fingerprint(self) -> str:
        """Digest of the definition, so that stored results of an older one are not reused.

        The group is left out on purpose: it says how results are reported, not what they are.
        """
        if self.definition is not None:
            return self.definition
        points = np.random.default_rng(1).random((_FINGERPRINT_POINTS, self.dimension))
        values = [format(self.value(params), ".9e") for params in map(self.cube.decode, points)]
        minimum = format(self.minimum, ".9e")
        return digest_of(self.name, dict(self.space), values, minimum, self.noise_sd)


@dataclass(frozen=True, kw_only=True)
class ObjectiveProblem:
    """Any Optuna objective with a known optimum.

    Attributes:
        name: Its name.
        function: The objective. Parameters may be conditional; a trial is feasible if all that is
            set by ``Trial.set_constraint`` is at most zero.
        n_trials: Trials of one run.
        minimum: Least feasible value; of no use where ``regret_of`` is given.
        regret_of: Regret of a set of trials, infinite if there is none yet; by default that of the
            best feasible value. With several objectives it has to be given: the hypervolume that
            is missing, for example.
        n_startup: How many trials are start-up points, the same random ones for all entrants.
        directions: Direction of each value.
        group: What it is reported with.
        unit: The unit of regrets where it is known; else the median regret of a random trial.
    """

    name: str
    function: Callable[[Trial], float | Sequence[float]]
    n_trials: int
    minimum: float = math.nan
    regret_of: Callable[[Sequence[FrozenTrial]], float] | None = None
    n_startup: int = N_STARTUP
    directions: Sequence[Direction] = ("minimize",)
    group: str = ""
    unit: float | None = None
    space: ClassVar[Mapping[str, BaseDistribution]] = MappingProxyType({})

    def objective(self, trial: Trial, *, seed: int) -> float | Sequence[float]:
        """Return what the optimizer sees at a trial."""
        del seed
        return self.function(trial)

    def random_trials(self, n: int, seed: int) -> list[FrozenTrial]:
        """Return the trials of a random search."""
        study = optuna.create_study(
            directions=list(self.directions), sampler=optuna.samplers.RandomSampler(seed=seed)
        )
        study.optimize(self.function, n_trials=n)
        return study.get_trials(deepcopy=False)

    def startup_points(self, seed: int, n_points: int = N_STARTUP) -> list[dict[str, Any]]:
        """Return the random points that every sampler starts from."""
        return [trial.params for trial in self.random_trials(n_points, seed)]

    def regret(self, trials: Sequence[FrozenTrial]) -> float:
        """Return the regret of a set of trials; infinite if none is feasible."""
        if self.regret_of is not None:
            return self.regret_of(trials)
        values = [trial.values[0] for trial in trials if is_feasible(trial)]
        return max(0.0, min(values) - self.minimum) if values else math.inf

    def measured(self, trials: Sequence[FrozenTrial]) -> dict[str, Any]:
        """Return the regret after each trial, None where it is infinite."""
        regrets = [self.regret(trials[:n]) for n in range(1, len(trials) + 1)]
        return {"regrets": [regret if math.isfinite(regret) else None for regret in regrets]}

    @functools.cached_property
    def scale(self) -> float:
        """Median regret of a random trial, of those that have one; if none, without constraints."""
        if self.unit is not None:
            return self.unit
        trials = self.random_trials(_SCALE_POINTS, 0)
        regrets = np.array([self.regret([trial]) for trial in trials])
        if not np.isfinite(regrets).any():
            regrets = np.array([abs(trial.values[0] - self.minimum) for trial in trials])
        return float(np.median(regrets[np.isfinite(regrets)]))

    @functools.cached_property
    def fingerprint(self) -> str:
        """Digest of the definition, so that stored results of an older one are not reused."""
        trials = self.random_trials(_FINGERPRINT_POINTS, 1)
        seen = [
            (t.params, t.distributions, [format(v, ".9e") for v in t.values], t.constraints)
            for t in trials
        ]
        return digest_of(self.name, format(self.minimum, ".9e"), self.directions, seen)


StudyProblem: TypeAlias = Problem | ObjectiveProblem


@dataclass(frozen=True)
class BoxFunction:
    """Functions of a box, to be minimized, with or without constraints, as an Optuna objective.

    Attributes:
        function: Returns the value or values and the constraints, kept where none is above zero,
            at a point (d,).
        low: Lower ends of the box.
        high: Upper ends.
        integers: Coordinates that are integers.
        noise_sd: Standard deviation of the noise of every value.
    """

    function: Callable[[Vector], tuple[float | Sequence[float], Sequence[float]]]
    low: tuple[float, ...]
    high: tuple[float, ...]
    integers: tuple[int, ...] = field(default=(), kw_only=True)
    noise_sd: float = field(default=0.0, kw_only=True)

    def __call__(self, trial: Trial) -> list[float]:
        """Suggest a point; return the values there, and set the constraints."""
        x = [
            trial.suggest_int(f"x{i}", int(low), int(high))
            if i in self.integers
            else trial.suggest_float(f"x{i}", low, high)
            for i, (low, high) in enumerate(zip(self.low, self.high, strict=True))
        ]
        found, constraints = self.function(np.array(x, dtype=np.float64))
        for i, constraint in enumerate(constraints):
            trial.set_constraint(f"c{i}", float(constraint))
        values = np.atleast_1d(np.array(found, dtype=np.float64))
        noise = np.random.default_rng(trial.number).standard_normal(len(values))
        noisy: list[float] = (values + self.noise_sd * noise).tolist()
        return noisy


def is_feasible(trial: FrozenTrial) -> bool:
    """Tell whether all constraints of a trial are at most zero."""
    return all(value <= 0.0 for value in trial.constraints.values())


def cube_of(space: Mapping[str, BaseDistribution]) -> SearchSpace:
    """Return the coordinates of a space; discrete levels share the unit interval equally."""
    return SearchSpace({name: dimension_of(at) for name, at in space.items()})


def space_filling(n_points: int, dimension: int, rng: np.random.Generator) -> Vector:
    """Return a Latin hypercube (n_points, dimension): each coordinate has one point per stratum."""
    strata = rng.permuted(np.tile(np.arange(n_points), (dimension, 1)), axis=1).T
    return np.asarray((strata + rng.random((n_points, dimension))) / n_points)


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


def unmoved(
    name: str,
    formula: Formula,
    argmin: Vector,
    low: Vector,
    high: Vector,
    *,
    n_trials: int,
    n_startup: int = N_STARTUP,
    group: str = "paper",
) -> Problem:
    """Return a formula as it is, in the box from ``low`` to ``high``, each of shape (d,)."""
    space = box(low, high)
    return Problem(
        name=name,
        space=MappingProxyType(space),
        value=lambda params: formula(np.array([params[parameter] for parameter in space])),
        argmin=MappingProxyType(dict(zip(space, argmin.tolist(), strict=True))),
        minimum=formula(argmin),
        n_trials=n_trials,
        n_startup=n_startup,
        group=group,
    )


def moved(
    name: str,
    formula: Formula,
    z_argmin: Vector,
    *,
    width: float,
    n_trials: int,
    rotate: bool = True,
    group: str = "smooth",
) -> Problem:
    """Return a formula moved into the box: optimum shifted, axes rotated unless told not to.

    ``width`` is the side of the usual box in the formula's own coordinates.
    """
    dimension = z_argmin.size
    rng = rng_of(name)
    center = BOX_LOW + (BOX_HIGH - BOX_LOW) * place_of_optimum(rng, dimension)
    turn = rotation(rng, dimension) if rotate else np.eye(dimension)
    turn *= width / (BOX_HIGH - BOX_LOW)
    problem = unmoved(
        name,
        lambda x: formula(z_argmin + turn @ (x - center)),
        center,
        np.full(dimension, BOX_LOW),
        np.full(dimension, BOX_HIGH),
        n_trials=n_trials,
        group=group,
    )
    return replace(problem, minimum=formula(z_argmin))


def noisy(problem: Problem, noise_sd: float, **changes: Any) -> Problem:
    """Return a problem that differs from ``problem`` by its noise, and ``changes``, alone."""
    name = f"noisy_{problem.name}"
    return replace(problem, name=name, noise_sd=noise_sd, group="noisy", **changes)
