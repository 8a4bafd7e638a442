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
from benchmarks.problems.problem import Problem, moved, place_of_optimum, rng_of

_LEAST_DISTANCE = 0.35  # between the two basins, per square root of the dimension


def _deceptive(dimension: int) -> Problem:
    """Deceptive with its peaks at the place of the optimum, so that its cube is the box."""
    name = f"deceptive{dimension}"
    peaks = place_of_optimum(rng_of(name), dimension)
    formula = functools.partial(formulas.deceptive, peaks=peaks)
    return moved(name, formula, peaks, width=1.0, n_trials=80, rotate=False, group="deceptive")


def _two_basins(dimension: int) -> Problem:
    """A broad basin and, far from it but both well inside the box, a narrow deeper one."""
    name = f"twobasin{dimension}"
    place = place_of_optimum(rng_of(name), dimension)
    rng = rng_of(f"{name} broad")
    offset = np.zeros(dimension)
    while np.linalg.norm(offset) < _LEAST_DISTANCE * math.sqrt(dimension):
        offset = rng.uniform(0.15, 0.85, size=dimension) - place
    return moved(
        name,
        functools.partial(formulas.two_basins, broad=offset),
        formulas.two_basins_argmin(offset),
        width=1.0,
        n_trials=80,
        rotate=False,
        group="deceptive",
    )


def _schwefel(dimension: int, n_trials: int) -> Problem:
    argmin = np.full(dimension, formulas.SCHWEFEL_ARGMIN)
    return moved(
        f"schwefel{dimension}",
        formulas.schwefel,
        argmin,
        width=1000.0,
        n_trials=n_trials,
        rotate=False,
        group="deceptive",
    )


def _michalewicz(dimension: int, n_trials: int) -> Problem:
    return moved(
        f"michalewicz{dimension}",
        formulas.michalewicz,
        formulas.MICHALEWICZ_ARGMIN[:dimension],
        width=math.pi,
        n_trials=n_trials,
        rotate=False,
        group="deceptive",
    )


def deceptive_problems() -> tuple[Problem, ...]:
    """Return every problem of the group, in the order of the report."""
    return (
        moved("h1", formulas.h1, formulas.H1_ARGMIN, width=200.0, n_trials=80, group="deceptive"),
        _deceptive(2),
        _deceptive(3),
        _schwefel(2, 60),
        _schwefel(4, 80),
        _michalewicz(2, 60),
        _michalewicz(5, 80),
        _two_basins(2),
        _two_basins(3),
        _two_basins(4),
    )
