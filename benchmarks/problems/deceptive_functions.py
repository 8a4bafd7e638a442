"""Problems on which a wrong length-scale keeps the search in the wrong basin.

Moved like all others, with two exceptions. *Deceptive* is defined by its box: its false slopes end
at the edges, so a shift would cut some of them off; what is moved instead is its parameter, the
places of its peaks, which the paper has at i / (d + 1).  *Two basins* consists of isotropic wells,
which no rotation changes.
"""

import functools
import math

import numpy as np

from benchmarks.problems import formulas
from benchmarks.problems.formulas import Formula, Vector
from benchmarks.problems.problem import Problem, moved, place_of_optimum, rng_of

_LEAST_DISTANCE = 0.35  # between the two basins, per square root of the dimension


def _deceptive(dimension: int) -> Problem:
    """Deceptive with its peaks at the place of the optimum, so that its cube is the box."""
    name = f"deceptive{dimension}"
    peaks = place_of_optimum(rng_of(name), dimension)
    formula = functools.partial(formulas.deceptive, peaks=peaks)
    return _in_place(name, formula, peaks, 1.0, 80)


def _two_basins(dimension: int) -> Problem:
    """A broad basin and, far from it but both well inside the box, a narrow deeper one."""
    name = f"twobasin{dimension}"
    place = place_of_optimum(rng_of(name), dimension)
    rng = rng_of(f"{name} broad")
    offset = np.zeros(dimension)
    while np.linalg.norm(offset) < _LEAST_DISTANCE * math.sqrt(dimension):
        offset = rng.uniform(0.15, 0.85, size=dimension) - place
    formula = functools.partial(formulas.two_basins, broad=offset)
    return _in_place(name, formula, formulas.two_basins_argmin(offset), 1.0, 80)


def _in_place(name: str, formula: Formula, argmin: Vector, width: float, n_trials: int) -> Problem:
    """A separable function, which is shifted alone."""
    return moved(
        name, formula, argmin, width=width, n_trials=n_trials, rotate=False, group="deceptive"
    )


def deceptive_problems() -> tuple[Problem, ...]:
    """Return every problem of the group, in the order of the report."""
    schwefel, michalewicz = formulas.schwefel, formulas.michalewicz
    at, places = formulas.SCHWEFEL_ARGMIN, formulas.MICHALEWICZ_ARGMIN
    return (
        moved("h1", formulas.h1, formulas.H1_ARGMIN, width=200.0, n_trials=80, group="deceptive"),
        _deceptive(2),
        _deceptive(3),
        _in_place("schwefel2", schwefel, np.full(2, at), 1000.0, 60),
        _in_place("schwefel4", schwefel, np.full(4, at), 1000.0, 80),
        _in_place("michalewicz2", michalewicz, places[:2], math.pi, 60),
        _in_place("michalewicz5", michalewicz, places, math.pi, 80),
        _two_basins(2),
        _two_basins(3),
        _two_basins(4),
    )
