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
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from benchmarks.problems import formulas
from benchmarks.problems.breast_cancer import TASKS
from benchmarks.problems.formulas import Formula, Vector
from benchmarks.problems.problem import BOX_HIGH, BOX_LOW, Problem, moved, rng_of, unmoved


def definition(family: str, dimension: int) -> tuple[Formula, Vector, float]:
    """Return a family's formula, its minimizer (d,) and the usual width of its box."""
    d = dimension
    if family == "cauchy":
        rng = rng_of(f"highdim directions {d}")
        directions = rng.standard_normal((2 * d, d)) / math.sqrt(d)
        return functools.partial(formulas.cauchy, directions=directions), np.zeros(d), 20.0
    hidden = formulas.hidden_hartmann6
    hidden_argmin = np.concatenate([formulas.HARTMANN6_ARGMIN, np.zeros(d - 6)])
    near, low = formulas.BIRASTRIGIN_NEAR, formulas.STYBLINSKI_TANG_ARGMIN
    definitions: dict[str, tuple[Formula, Vector, float]] = {
        "styblinski_tang": (formulas.styblinski_tang, np.full(d, low), 10.0),
        "ellipsoid": (formulas.ellipsoid, np.zeros(d), 10.0),
        "rosenbrock": (formulas.rosenbrock, np.ones(d), 10.0),
        "levy": (formulas.levy, np.ones(d), 20.0),
        "ackley": (formulas.ackley, np.zeros(d), 20.0),
        "dixon_price": (formulas.dixon_price, formulas.dixon_price_argmin(d), 20.0),
        "alpine": (formulas.alpine, np.zeros(d), 20.0),
        "birastrigin": (formulas.birastrigin, np.full(d, near), 10.24),
        "hidden_hartmann6": (hidden, hidden_argmin, 1.0),
        "axes_hartmann6": (hidden, hidden_argmin, 1.0),
    }
    return definitions[family]


# In the order in which they are run: an interrupted benchmark has some of each kind.
SEEN = ("rosenbrock", "styblinski_tang", "ellipsoid", "levy", "ackley")
HELD_OUT = (
    "dixon_price", "hidden_hartmann6", "cauchy", "alpine", "birastrigin", "axes_hartmann6"
)  # fmt: skip
FAMILIES = (*(name for pair in zip(SEEN, HELD_OUT, strict=False) for name in pair), HELD_OUT[-1])
LARGER = ("rosenbrock", "dixon_price", "hidden_hartmann6", "styblinski_tang")
UNROTATED = ("axes_hartmann6",)
# Dimension: families and trials.
PARTS: Mapping[int, tuple[tuple[str, ...], int]] = {
    10: (FAMILIES, 100),
    20: (FAMILIES, 200),
    30: (FAMILIES, 150),
    50: (LARGER, 300),
    100: (LARGER, 300),
}
# The paper's functions with n and T of section 6.1: name, formula, a minimizer's coordinates.
_PAPER: tuple[tuple[str, Formula, float, int, int], ...] = (
    ("f1", formulas.single_network, BOX_HIGH, 5, 25),
    ("f2", formulas.styblinski_tang, formulas.STYBLINSKI_TANG_ARGMIN, 8, 64),
    ("f3", formulas.rastrigin, 0.0, 8, 64),
)


def _moved(family: str, dimension: int, n_trials: int) -> Problem:
    """Return a family's function: shifted, and rotated unless its axes are the point."""
    formula, argmin, width = definition(family, dimension)
    return moved(
        f"{family}-{dimension}",
        formula,
        argmin,
        width=width,
        n_trials=n_trials,
        rotate=family not in UNROTATED,
        group="seen" if family in SEEN else "held out",
    )


def _unmoved(name: str, formula: Formula, at: float, n_startup: int, horizon: int) -> Problem:
    """Return one of the paper's functions."""
    low, high = np.full(20, BOX_LOW), np.full(20, BOX_HIGH)
    n_trials = n_startup + horizon
    argmin = np.full(20, at)
    return unmoved(name, formula, argmin, low, high, n_trials=n_trials, n_startup=n_startup)


# In the order of the report and of the runs of one seed.
_ALL = (
    *(_unmoved(*row) for row in _PAPER),
    *(
        _moved(family, dimension, n_trials)
        for dimension, (families, n_trials) in PARTS.items()
        for family in families
    ),
    *(task.problem for task in TASKS),
)
PROBLEMS: Mapping[str, Problem] = MappingProxyType({problem.name: problem for problem in _ALL})


def part_of(name: str) -> str:
    """Return the part that a problem belongs to."""
    problem = PROBLEMS[name]
    return {"paper": "paper", "table": "hpo"}.get(problem.group, f"d{problem.dimension}")
