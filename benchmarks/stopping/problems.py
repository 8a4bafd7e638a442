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

import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from benchmarks.problems import formulas as f
from benchmarks.problems import tuning
from benchmarks.problems.formulas import Formula, Vector
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import Problem, noisy, unmoved
from benchmarks.problems.tuning import BUDGET, NOISY, QUICK_TABLE, TABLE_NAMES

HALVES = ("in-sample", "held-out")
MAX_DIMENSION = 10


def half_of(name: str) -> str:
    """Return the half that an objective belongs to, see the module."""
    return HALVES[zlib.crc32(name.removeprefix(NOISY).encode()) % 2]


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


def _functions() -> tuple[Problem, ...]:
    """Return all objectives but the tables, family by family."""
    noise = [p for p in PROBLEMS.values() if p.group == "noisy"]
    for name, noise_sd in (("hartmann3", 0.2), ("styblinski_tang5", 10.0)):
        noise.append(noisy(PROBLEMS[name], noise_sd, n_trials=BUDGET))
    return (
        *(
            unmoved(name, formula, argmin, *box, n_trials=BUDGET)
            for name, formula, argmin, box in _PAPER
        ),
        *(
            problem
            for group in ("smooth", "mixed")
            for problem in PROBLEMS.values()
            if problem.group == group and problem.dimension <= MAX_DIMENSION
        ),
        *noise,
    )


_FUNCTIONS: Mapping[str, Problem] = MappingProxyType({p.name: p for p in _functions()})
NAMES: tuple[str, ...] = (*_FUNCTIONS, *TABLE_NAMES, QUICK_TABLE)


def needs_table(name: str) -> bool:
    """Tell whether the objective of this name is looked up in a table."""
    return name not in _FUNCTIONS


def problem_named(name: str, directory: Path) -> Problem:
    """Return the objective of this name; a table that is not stored yet is computed.

    Args:
        name: One of :data:`NAMES`.
        directory: Where tables are kept.
    """
    return tuning.problem_named(name, directory) if needs_table(name) else _FUNCTIONS[name]
