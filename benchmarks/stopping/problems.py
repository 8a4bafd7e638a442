"""The objectives of the stopping benchmark, in families, and their fixed split into two halves.

| family | objectives                                                                           |
|--------|--------------------------------------------------------------------------------------|
| paper  | the six functions of Ishibashi et al. (2023), in their usual boxes and *not moved*   |
| table  | tuning of scikit-learn models, looked up in ``benchmarks.problems.tuning``           |
| smooth | those of ``benchmarks.problems.functions`` up to ten dimensions, shifted and rotated |
| mixed  | those of its problems with discrete and categorical parameters                       |
| noisy  | some of the above with normal noise, and the noisy ones of ``functions``             |

An objective belongs to the in-sample or to the held-out half by the parity of the CRC-32 of its
name. A noisy objective has the half of the one that it is a noisy version of. A rule may be tuned
on the in-sample half only.
"""

import functools
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import numpy as np

from benchmarks.problems import formulas as f
from benchmarks.problems.formulas import Formula, Vector
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import Params, Problem, noisy, unmoved
from benchmarks.problems.tuning import (
    BUDGET,
    NOISY,
    QUICK_TABLE,
    TABLE_NAMES,
    problem_named,
    table_named,
)

Family: TypeAlias = Literal["paper", "table", "smooth", "mixed", "noisy"]
Half: TypeAlias = Literal["in-sample", "held-out"]

FAMILIES: tuple[Family, ...] = get_args(Family)
HALVES: tuple[Half, ...] = get_args(Half)
MAX_DIMENSION = 10


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
        return HALVES[zlib.crc32(self.name.removeprefix(NOISY).encode()) % 2]

    @property
    def largest_regret(self) -> float:
        """The largest noise-free regret of 512 random points: the range of the regret."""
        return float(self.problem.random_regrets.max())


def _box(a: float, b: float) -> tuple[Vector, Vector]:
    """Return the box that is symmetric around zero, with these half-widths."""
    return np.array([-a, -b]), np.array([a, b])


# Name, formula, minimizer, box: the paper's functions in its order, in the boxes of the library
# that it names.
_PAPER: tuple[tuple[str, Formula, Vector, tuple[Vector, Vector]], ...] = (
    ("holder_table", f.holder_table, f.HOLDER_TABLE_ARGMIN, _box(10.0, 10.0)),
    ("cross_in_tray", f.cross_in_tray, f.CROSS_IN_TRAY_ARGMIN, _box(10.0, 10.0)),
    ("six_hump_camel", f.six_hump_camel, f.SIX_HUMP_CAMEL_ARGMIN, _box(3.0, 2.0)),
    ("easom", f.easom, np.full(2, math.pi), _box(100.0, 100.0)),
    ("rosenbrock2", f.rosenbrock, np.ones(2), (np.full(2, -5.0), np.full(2, 10.0))),
    ("booth", f.booth, np.array([1.0, 3.0]), _box(10.0, 10.0)),
)


def _objectives() -> tuple[Objective, ...]:
    """Return all objectives but the tables, family by family."""
    families: tuple[Family, ...] = ("smooth", "mixed")
    noise = [p for p in PROBLEMS.values() if p.group == "noisy"]
    for name, noise_sd in (("hartmann3", 0.2), ("styblinski_tang5", 10.0)):
        noise.append(noisy(PROBLEMS[name], noise_sd, n_trials=BUDGET))
    return (
        *(
            Objective(problem=unmoved(name, formula, argmin, *box, n_trials=BUDGET), family="paper")
            for name, formula, argmin, box in _PAPER
        ),
        *(
            Objective(problem=problem, family=family)
            for family in families
            for problem in PROBLEMS.values()
            if problem.group == family and problem.dimension <= MAX_DIMENSION
        ),
        *(Objective(problem=problem, family="noisy") for problem in noise),
    )


_FUNCTIONS: Mapping[str, Objective] = MappingProxyType({o.name: o for o in _objectives()})
NAMES: tuple[str, ...] = (*_FUNCTIONS, *TABLE_NAMES, QUICK_TABLE)


def needs_table(name: str) -> bool:
    """Tell whether the objective of this name is looked up in a table."""
    return name not in _FUNCTIONS


@functools.cache
def objective_of(name: str, directory: Path) -> Objective:
    """Return the objective of this name; a table that is not stored yet is computed.

    Args:
        name: One of :data:`NAMES`.
        directory: Where tables are kept.
    """
    if not needs_table(name):
        return _FUNCTIONS[name]
    return Objective(
        problem=problem_named(name, directory),
        family="noisy" if name.startswith(NOISY) else "table",
        fold_scores=table_named(name, directory).fold_scores,
    )


def default_names() -> list[str]:
    """Return the names of all objectives but the quick one, family by family."""
    families: dict[str, Family] = {name: o.family for name, o in _FUNCTIONS.items()}
    families |= {name: "noisy" if name.startswith(NOISY) else "table" for name in TABLE_NAMES}
    return sorted(families, key=lambda name: FAMILIES.index(families[name]))
