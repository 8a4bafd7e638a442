"""Quadratics and ridges whose parameters act together, two of five of them integers.

A rotation couples floats and integers, so that the best value of an integer depends on all others.
"""

import math
from collections.abc import Mapping

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from benchmarks.problems import formulas
from benchmarks.problems.formulas import Formula
from benchmarks.problems.problem import (
    BOX_HIGH,
    BOX_LOW,
    Params,
    Problem,
    place_of_optimum,
    rng_of,
    rotation,
)

_FORMULAS: Mapping[str, Formula] = {"ellipsoid": formulas.ellipsoid, "ridge": formulas.sharp_ridge}
_DIMENSIONS = (4, 5, 6, 7, 8, 10)
_SHARE, _MOST_LEVELS = 0.4, 20


def integer_problems() -> tuple[Problem, ...]:
    """Return every problem of the group, by formula and number of parameters."""
    return tuple(
        _problem(f"integer_{name}{dimension}", formula, dimension)
        for name, formula in _FORMULAS.items()
        for dimension in _DIMENSIONS
    )


def _problem(name: str, formula: Formula, dimension: int) -> Problem:
    """Return a formula of rotated coordinates, some of which take the levels of an integer only.

    The levels reach from edge to edge of the box in which the floats are, as 0, 1, ...
    """
    rng = rng_of(name)
    place = place_of_optimum(rng, dimension)
    turn = rotation(rng, dimension)
    space: dict[str, BaseDistribution] = {}
    argmin: dict[str, float] = {}
    steps = np.ones(dimension)  # from one level to the next
    n_integers = round(_SHARE * dimension)
    for i, at in enumerate(place.tolist()):
        if i < n_integers:
            last = int(rng.integers(1, _MOST_LEVELS))
            space[f"n{i}"] = IntDistribution(0, last)
            steps[i] = (BOX_HIGH - BOX_LOW) / last
            level = math.floor(at * (last + 1))
            argmin[f"n{i}"] = level + 1 if 2 * level == last else level  # not in the middle
        else:
            space[f"x{i}"] = FloatDistribution(BOX_LOW, BOX_HIGH)
            argmin[f"x{i}"] = BOX_LOW + (BOX_HIGH - BOX_LOW) * at

    def value(params: Params) -> float:
        return formula(turn @ (steps * [params[at] - best for at, best in argmin.items()]))

    return Problem(
        name=name,
        space=space,
        value=value,
        argmin=argmin,
        minimum=0.0,
        n_trials=60 if dimension <= 6 else 80,
        group="integers",
    )
