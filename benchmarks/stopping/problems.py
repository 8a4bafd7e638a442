"""The objectives of the stopping benchmark, in families, and their fixed split into two halves.

| family | objectives                                                                           |
|--------|--------------------------------------------------------------------------------------|
| paper  | the six functions of Ishibashi et al. (2023), in their usual boxes and *not moved*   |
| table  | tuning of scikit-learn models, looked up in ``benchmarks.problems.hpo_tables``
      |
| smooth | those of ``benchmarks.problems.functions`` up to ten dimensions, shifted and rotated
      |
| mixed  | those of its problems with discrete and categorical parameters                       |
| noisy  | some of the above with normal noise, those of ``benchmarks.problems.functions`` among
them    |

An objective belongs to the in-sample or to the held-out half by the parity of the CRC-32 of its
name. A noisy objective has the half of the one that it is a noisy version of. A rule may be tuned
on the in-sample half only.

The noise of a table has the standard deviation of a cross-validated value that its folds suggest
(their standard error, the median over configurations): what another draw of the folds would do.
"""

import functools
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import numpy as np

from benchmarks.problems import formulas
from benchmarks.problems.formulas import Formula, Vector
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.hpo_grids import GRIDS
from benchmarks.problems.hpo_tables import is_missing, table_of
from benchmarks.problems.problem import Params, Problem, box, from_unit, moved

Family: TypeAlias = Literal["paper", "table", "smooth", "mixed", "noisy"]
Half: TypeAlias = Literal["in-sample", "held-out"]

FAMILIES: tuple[Family, ...] = get_args(Family)
HALVES: tuple[Half, ...] = get_args(Half)
BUDGET = 120  # trials of every objective
MAX_DIMENSION = 10
QUICK_TABLE = "quick_tree_wine"
NOISY_TABLES = (
    "svr_diabetes",
    "boosting_diabetes",
    "neighbors_digits",
    "logistic_cancer",
    "perceptron_wine",
)
_NOISY = "noisy_"
_N_POINTS = 512

HOLDER_TABLE_ARGMIN = np.array([8.05502347573655, 9.664590019241274])
CROSS_IN_TRAY_ARGMIN = np.array([1.3494066171539107, 1.3494066171539107])
SIX_HUMP_CAMEL_ARGMIN = np.array([0.08984201368301331, -0.7126564032704135])


@dataclass(frozen=True, kw_only=True)
class Objective:
    """A problem as the stopping benchmark sees it.

    Attributes:
        problem: The problem, to be minimized.
        family: What it is one of.
        fold_scores: Returns the scores on the folds that the value is the mean of; None where the
            value is no cross-validated score.
    """

    problem: Problem
    family: Family
    fold_scores: Callable[[Params], list[float]] | None = None

    @property
    def name(self) -> str:
        """The problem's name."""
        return self.problem.name

    @property
    def is_noisy(self) -> bool:
        """Whether the optimizer sees noise."""
        return self.problem.noise_sd > 0.0

    @property
    def half(self) -> Half:
        """The half it belongs to, see the module."""
        return HALVES[zlib.crc32(self.name.removeprefix(_NOISY).encode()) % 2]

    @functools.cached_property
    def largest_regret(self) -> float:
        """The largest noise-free regret of 512 random points: the range of the regret."""
        points = np.random.default_rng(0).random((_N_POINTS, self.problem.dimension))
        params = (from_unit(self.problem.space, point) for point in points)
        return max(self.problem.regret(point) for point in params)


def holder_table(z: Vector) -> float:
    """Waves that grow towards four equal corners; minimum -19.208503 in [-10, 10]²."""
    growth = math.exp(abs(1.0 - float(np.linalg.norm(z)) / math.pi))
    return float(-abs(math.sin(z[0]) * math.cos(z[1]) * growth))


def cross_in_tray(z: Vector) -> float:
    """A cross of ridges over a waved tray; four equal minima, -2.062612."""
    growth = math.exp(abs(100.0 - float(np.linalg.norm(z)) / math.pi))
    return float(-1e-4 * (abs(math.sin(z[0]) * math.sin(z[1]) * growth) + 1.0) ** 0.1)


def six_hump_camel(z: Vector) -> float:
    """Six wells in two equal halves; minimum -1.031628."""
    square = z[0] * z[0]
    first = (4.0 - 2.1 * square + square * square / 3.0) * square
    return float(first + z[0] * z[1] + (4.0 * z[1] * z[1] - 4.0) * z[1] * z[1])


def easom(z: Vector) -> float:
    """A plain with one narrow hole; minimum -1 at (π, π)."""
    depth = math.exp(-float(np.square(z - math.pi).sum()))
    return float(-math.cos(z[0]) * math.cos(z[1]) * depth)


def booth(z: Vector) -> float:
    """A tilted quadratic valley; minimum 0 at (1, 3)."""
    return float((z[0] + 2.0 * z[1] - 7.0) ** 2 + (2.0 * z[0] + z[1] - 5.0) ** 2)


def _unmoved(name: str, formula: Formula, argmin: Vector, low: Vector, high: Vector) -> Objective:
    """Return a formula as it is, in the box from ``low`` to ``high``, each of shape (d,)."""
    space = box(low, high)
    problem = Problem(
        name=name,
        space=MappingProxyType(space),
        value=lambda params: formula(np.array([params[parameter] for parameter in space])),
        argmin=MappingProxyType(dict(zip(space, argmin.tolist(), strict=True))),
        minimum=formula(argmin),
        n_trials=BUDGET,
        group="paper",
    )
    return Objective(problem=problem, family="paper")


def paper_objectives() -> tuple[Objective, ...]:
    """Return the paper's functions in its order, in the boxes of the library that it names."""
    ten = np.full(2, 10.0)
    camel = np.array([3.0, 2.0])
    return (
        _unmoved("holder_table", holder_table, HOLDER_TABLE_ARGMIN, -ten, ten),
        _unmoved("cross_in_tray", cross_in_tray, CROSS_IN_TRAY_ARGMIN, -ten, ten),
        _unmoved("six_hump_camel", six_hump_camel, SIX_HUMP_CAMEL_ARGMIN, -camel, camel),
        _unmoved("easom", easom, np.full(2, math.pi), -10.0 * ten, 10.0 * ten),
        _unmoved("rosenbrock2", formulas.rosenbrock, np.ones(2), np.full(2, -5.0), ten),
        _unmoved("booth", booth, np.array([1.0, 3.0]), -ten, ten),
    )


def _moved_objectives() -> tuple[Objective, ...]:
    """Return the noise-free ones of ``benchmarks.problems.functions``."""
    families: tuple[Family, ...] = ("smooth", "mixed")
    return tuple(
        Objective(problem=problem, family=family)
        for family in families
        for problem in PROBLEMS.values()
        if problem.group == family and problem.dimension <= MAX_DIMENSION
    )


def _noisy_functions() -> tuple[Objective, ...]:
    """Return the noisy ones of ``benchmarks.problems.functions``, and two more."""
    f = formulas
    added = (
        moved(
            "noisy_hartmann3",
            f.hartmann3,
            f.HARTMANN3_ARGMIN,
            width=1.0,
            n_trials=BUDGET,
            noise_sd=0.2,
            definition="hartmann3",
            group="noisy",
        ),
        moved(
            "noisy_styblinski_tang5",
            f.styblinski_tang,
            np.full(5, f.STYBLINSKI_TANG_ARGMIN),
            width=10.0,
            n_trials=BUDGET,
            noise_sd=10.0,
            definition="styblinski_tang5",
            group="noisy",
        ),
    )
    problems = [*(p for p in PROBLEMS.values() if p.group == "noisy"), *added]
    return tuple(Objective(problem=problem, family="noisy") for problem in problems)


@functools.cache
def table_objective(name: str, directory: Path) -> Objective:
    """Return the tuning problem of a grid, with noise if ``name`` says so.

    Args:
        name: Name of the grid, with "noisy_" before it for noise.
        directory: Where tables are kept.
    """
    grid = GRIDS[name.removeprefix(_NOISY)]
    table = table_of(grid, directory)
    problem = Problem(
        name=grid.name,
        space=grid.space,
        value=table.value,
        argmin=table.best,
        minimum=table.value(table.best),
        n_trials=BUDGET,
        group="table",
    )
    if name == grid.name:
        return Objective(problem=problem, family="table", fold_scores=table.fold_scores)
    noisy = replace(problem, name=name, noise_sd=table.typical_error, group="noisy")
    return Objective(problem=noisy, family="noisy", fold_scores=table.fold_scores)


_FUNCTIONS: Mapping[str, Objective] = MappingProxyType(
    {
        objective.name: objective
        for objective in (*paper_objectives(), *_moved_objectives(), *_noisy_functions())
    }
)
TABLE_NAMES: tuple[str, ...] = (
    *(name for name in GRIDS if name != QUICK_TABLE),
    *(f"{_NOISY}{name}" for name in NOISY_TABLES),
)
NAMES: tuple[str, ...] = (*_FUNCTIONS, *TABLE_NAMES, QUICK_TABLE)


def needs_table(name: str) -> bool:
    """Tell whether the objective of this name is looked up in a table."""
    return name not in _FUNCTIONS


def objective_of(name: str, directory: Path) -> Objective:
    """Return the objective of this name; a table that is not stored yet is computed.

    Args:
        name: One of :data:`NAMES`.
        directory: Where tables are kept.
    """
    return table_objective(name, directory) if needs_table(name) else _FUNCTIONS[name]


def default_names() -> list[str]:
    """Return the names of all objectives but the quick one, family by family."""
    families: dict[str, Family] = {name: o.family for name, o in _FUNCTIONS.items()}
    families |= {name: "noisy" if name.startswith(_NOISY) else "table" for name in TABLE_NAMES}
    return sorted(families, key=lambda name: FAMILIES.index(families[name]))


def tables_are_missing() -> bool:
    """Tell whether tables cannot be computed here."""
    return is_missing()
