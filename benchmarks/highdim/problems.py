"""The problems of the ``highdim`` benchmark: functions of 10 to 100 parameters, and tuning tasks.

Five parts are shifted and rotated functions, named by their dimension. Families that were looked
at while the sampler was made are marked as seen, in whatever place and rotation; the others, the
held-out ones, were written down for this benchmark and had not been run before its figures.

The part ``paper`` has f1, f2 and f3 of the GO-UCB paper (Liu & Wang 2023, section 6.1) as they are
printed, in their own box and not moved: the optimum of f1 is a corner (and a large region around
it, to rounding), that of f3 the center of the box, where CMA-ES starts.
"""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution

from benchmarks.highdim.tuning import TASKS, Task
from benchmarks.problems import formulas
from benchmarks.problems.formulas import Formula, Vector
from benchmarks.problems.problem import BOX_HIGH, BOX_LOW, Params, Problem, box, moved, rng_of

Part: TypeAlias = Literal["paper", "d10", "d20", "d30", "d50", "d100", "hpo"]

N_STARTUP = 10
BIRASTRIGIN_NEAR = 2.5  # coordinate of the deeper funnel's bottom


@dataclass(frozen=True, kw_only=True)
class Case:
    """One problem of one part, to be minimized.

    Attributes:
        name: Its name in options, records and tables.
        part: The part it belongs to.
        family: The formula, without the dimension.
        seen: Whether the family was looked at while the sampler was made.
        space: The search space.
        value: The objective.
        minimum: Its least value; None if unknown.
        fingerprint: Digest of the definition.
        n_trials: Evaluations per run.
        n_startup: How many of them are start-up points, the same ones for all entrants.
        scale: Median regret of a random point; None if unknown.
    """

    name: str
    part: Part
    family: str
    seen: bool
    space: Mapping[str, BaseDistribution]
    value: Callable[[Params], float]
    minimum: float | None
    fingerprint: Callable[[], str]
    n_trials: int
    n_startup: int = N_STARTUP
    scale: Callable[[], float] | None = None


def rastrigin(z: Vector) -> float:
    """A bowl under deep regular waves; minimum 0 at the origin."""
    return float(z @ z + 10.0 * (1.0 - np.cos(2.0 * math.pi * z)).sum())


def dixon_price(z: Vector) -> float:
    """A curved valley that stiffens from term to term; minimum 0 at ``dixon_price_argmin``."""
    terms = np.arange(2.0, z.size + 1.0) * (2.0 * z[1:] ** 2 - z[:-1]) ** 2
    return float((z[0] - 1.0) ** 2 + terms.sum())


def dixon_price_argmin(dimension: int) -> Vector:
    """Return z_i = 2^(2^(1-i) - 1), shape (d,)."""
    return np.asarray(2.0 ** (2.0 ** -np.arange(dimension, dtype=float) - 1.0))


def alpine(z: Vector) -> float:
    """Ripples that grow with the distance, with a kink at every zero; minimum 0 at the origin."""
    return float(np.abs(z * np.sin(z) + 0.1 * z).sum())


def birastrigin(z: Vector) -> float:
    """Lunacek's two funnels under waves, the wider one shallower; minimum 0 at 2.5 (1, ..., 1)."""
    near, d = BIRASTRIGIN_NEAR, z.size
    s = 1.0 - 1.0 / (2.0 * math.sqrt(d + 20.0) - 8.2)
    far = -math.sqrt((near**2 - 1.0) / s)
    funnels = min(float(((z - near) ** 2).sum()), d + s * float(((z - far) ** 2).sum()))
    return funnels + 10.0 * float((1.0 - np.cos(2.0 * math.pi * (z - near))).sum())


def cauchy(z: Vector, directions: Vector) -> float:
    """Mean of log(1 + (a_k·z)²), as in robust regression; minimum 0 at the origin."""
    return float(np.log1p((directions @ z) ** 2).mean())


def hidden_hartmann6(z: Vector) -> float:
    """Hartmann's six-dimensional function of the first six coordinates; minimum -3.322368."""
    return formulas.hartmann6(z[:6])


def paper_f1(x: Vector) -> float:
    """The paper's network with all weights one, negated: -(25 sigmoid(1 + Σ x) + 1)."""
    return -(25.0 / (1.0 + math.exp(-(1.0 + float(x.sum())))) + 1.0)


def paper_f2(x: Vector) -> float:
    """Styblinski-Tang, negated: 1/2 Σ (x⁴ - 16 x² + 5 x)."""
    return formulas.styblinski_tang(x)


def paper_f3(x: Vector) -> float:
    """Rastrigin, negated: 200 - Σ (10 cos(2π x) - x²)."""
    return rastrigin(x)


def _definition(family: str, dimension: int) -> tuple[Formula, Vector, float]:
    """Return a family's formula, its minimizer (d,) and the usual width of its box."""
    d = dimension
    if family == "cauchy":
        rng = rng_of(f"highdim directions {d}")
        directions = rng.standard_normal((2 * d, d)) / math.sqrt(d)
        return functools.partial(cauchy, directions=directions), np.zeros(d), 20.0
    hidden = np.concatenate([formulas.HARTMANN6_ARGMIN, np.zeros(d - 6)])
    definitions: dict[str, tuple[Formula, Vector, float]] = {
        "styblinski_tang": (
            formulas.styblinski_tang,
            np.full(d, formulas.STYBLINSKI_TANG_ARGMIN),
            10.0,
        ),
        "ellipsoid": (formulas.ellipsoid, np.zeros(d), 10.0),
        "rosenbrock": (formulas.rosenbrock, np.ones(d), 10.0),
        "levy": (formulas.levy, np.ones(d), 20.0),
        "ackley": (formulas.ackley, np.zeros(d), 20.0),
        "dixon_price": (dixon_price, dixon_price_argmin(d), 20.0),
        "alpine": (alpine, np.zeros(d), 20.0),
        "birastrigin": (birastrigin, np.full(d, BIRASTRIGIN_NEAR), 10.24),
        "hidden_hartmann6": (hidden_hartmann6, hidden, 1.0),
        "axes_hartmann6": (hidden_hartmann6, hidden, 1.0),
    }
    return definitions[family]


# In the order in which they are run: an interrupted benchmark has some of each kind.
SEEN = ("rosenbrock", "styblinski_tang", "ellipsoid", "levy", "ackley")
HELD_OUT = (
    "dixon_price", "hidden_hartmann6", "cauchy", "alpine", "birastrigin", "axes_hartmann6"
)  # fmt: skip
LARGER = ("rosenbrock", "dixon_price", "hidden_hartmann6", "styblinski_tang")
UNROTATED = ("axes_hartmann6",)


def _moved_case(family: str, dimension: int, part: Part, n_trials: int) -> Case:
    """Return a family's case: shifted, and rotated unless its axes are the point."""
    formula, argmin, width = _definition(family, dimension)
    name = f"{family}-{dimension}"
    problem = moved(
        name, formula, argmin, width=width, n_trials=n_trials, rotate=family not in UNROTATED
    )
    return _case(problem, part, family, seen=family in SEEN)


def _case(
    problem: Problem, part: Part, family: str, *, seen: bool, n_startup: int = N_STARTUP
) -> Case:
    return Case(
        name=problem.name,
        part=part,
        family=family,
        seen=seen,
        space=problem.space,
        value=problem.value,
        minimum=problem.minimum,
        fingerprint=lambda: problem.fingerprint,
        n_trials=problem.n_trials,
        n_startup=n_startup,
        scale=lambda: problem.scale,
    )


def _paper_case(name: str, formula: Formula, at: float, n_startup: int, horizon: int) -> Case:
    """Return one of the paper's functions with n and T of section 6.1."""
    space = box(np.full(20, BOX_LOW), np.full(20, BOX_HIGH))

    def value(params: Params) -> float:
        return formula(np.array([params[parameter] for parameter in space]))

    problem = Problem(
        name=name,
        space=MappingProxyType(space),
        value=value,
        argmin=MappingProxyType(dict.fromkeys(space, at)),
        minimum=formula(np.full(20, at)),
        n_trials=n_startup + horizon,
        group="paper",
    )
    return _case(problem, "paper", name, seen=True, n_startup=n_startup)


def _tuning_case(task: Task) -> Case:
    return Case(
        name=task.name,
        part="hpo",
        family=task.name,
        seen=False,
        space=task.box,
        value=task.value,
        minimum=None,
        fingerprint=lambda: task.fingerprint,
        n_trials=36,
        n_startup=6,
    )


def _cases() -> tuple[Case, ...]:
    """Return every case, in the order of the report and of the runs of one seed."""
    paper = (
        _paper_case("f1", paper_f1, BOX_HIGH, 5, 25),
        _paper_case("f2", paper_f2, formulas.STYBLINSKI_TANG_ARGMIN, 8, 64),
        _paper_case("f3", paper_f3, 0.0, 8, 64),
    )
    mixed = [name for pair in zip(SEEN, HELD_OUT, strict=False) for name in pair]
    families = [*mixed, *HELD_OUT[len(SEEN) :]]
    return (
        *paper,
        *(_moved_case(family, 10, "d10", 100) for family in families),
        *(_moved_case(family, 20, "d20", 200) for family in families),
        *(_moved_case(family, 30, "d30", 150) for family in families),
        *(_moved_case(family, 50, "d50", 300) for family in LARGER),
        *(_moved_case(family, 100, "d100", 300) for family in LARGER),
        *map(_tuning_case, TASKS),
    )


CASES: Mapping[str, Case] = MappingProxyType({case.name: case for case in _cases()})
