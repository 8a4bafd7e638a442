"""What a bilevel test problem is: spaces, functions in their own units, its solution, its regrets.

Both objectives are to be minimized, and a constraint holds where it is at most zero. Functions are
standardized as in the BILBO paper: objectives to mean 0 and deviation 1 over the box, constraints
to root mean square 1 without a shift.

Source: Chew, Nguyen & Low (2025), "BILBO: BILevel Bayesian Optimization", section 3, Eqs. (3.5) to
(3.7).
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution

from benchmarks.problems.problem import cube_of, space_filling

Array: TypeAlias = NDArray[np.float64]
# Upper-level points (..., d_x) and lower-level points (..., d_z) to values (...).
Function: TypeAlias = Callable[[Array, Array], Array]
Params: TypeAlias = Mapping[str, Any]

UPPER, LOWER = "upper", "lower"
_SCALE_POINTS = 4096
_NOISE_SD = 0.01  # in standardized units, as in the BILBO paper


@dataclass(frozen=True, kw_only=True)
class BilevelTask:
    """One problem: spaces, functions in their own units, and its solution.

    Attributes:
        name: Name of the problem.
        upper_space: Parameters of the upper level.
        lower_space: Parameters of the lower level.
        functions: F under "upper", f under "lower", constraints under names of their own.
        upper_constraints: Names of the upper level's constraints.
        lower_constraints: Names of the lower level's constraints.
        lower_minimum: Smallest feasible f given x (..., d_x).
        solution: Parameters of a bilevel optimum; None if the problem is infeasible.
        n_queries: Function queries that a run is given.
        many_responses: Whether lower-level solutions are not unique and F differs between them.
    """

    name: str
    upper_space: Mapping[str, BaseDistribution]
    lower_space: Mapping[str, BaseDistribution]
    functions: Mapping[str, Function]
    lower_minimum: Callable[[Array], Array]
    solution: Params | None
    n_queries: int
    upper_constraints: tuple[str, ...] = ()
    lower_constraints: tuple[str, ...] = ()
    many_responses: bool = False
    noise_sd: float = _NOISE_SD

    @property
    def constraints(self) -> tuple[str, ...]:
        """Names of all constraints."""
        return self.upper_constraints + self.lower_constraints

    def points(self, params: Params) -> tuple[Array, Array]:
        """Return x (d_x,) and z (d_z,) in the functions' units; a category is its index."""
        x, z = (
            np.array([at.to_internal_repr(params[name]) for name, at in space.items()])
            for space in (self.upper_space, self.lower_space)
        )
        return x, z

    @functools.cached_property
    def scales(self) -> Mapping[str, tuple[float, float]]:
        """Shift and divisor that standardize each function."""
        space = cube_of({**self.upper_space, **self.lower_space})
        unit = space_filling(_SCALE_POINTS, len(space), np.random.default_rng(0))
        pairs = [self.points(space.decode(point)) for point in unit]
        x, z = (np.array(points) for points in zip(*pairs, strict=True))
        scales = {}
        for name, function in self.functions.items():
            values = function(x, z)
            if name in self.constraints:
                scales[name] = (0.0, float(np.sqrt(np.mean(np.square(values)))))
            else:
                scales[name] = (float(values.mean()), float(values.std()))
        return scales

    def value(self, name: str, params: Params) -> float:
        """Return the standardized, noise-free value of one function."""
        shift, divisor = self.scales[name]
        return (float(self.functions[name](*self.points(params))) - shift) / divisor

    def regrets(self, params: Params) -> dict[str, float]:
        """Return the noise-free regret of each function at a pair, standardized, at least 0.

        The BILBO paper's Eqs. (3.5) to (3.7); better than the optimum counts as zero.

        Raises:
            ValueError: The problem is infeasible.
        """
        if self.solution is None:
            message = f"{self.name} must have a solution to have regrets."
            raise ValueError(message)
        x, _ = self.points(params)
        shift, divisor = self.scales[LOWER]
        best = (float(self.lower_minimum(x)) - shift) / divisor
        regrets = {
            UPPER: self.value(UPPER, params) - self.value(UPPER, self.solution),
            LOWER: self.value(LOWER, params) - best,
            **{name: self.value(name, params) for name in self.constraints},
        }
        return {name: max(0.0, regret) for name, regret in regrets.items()}
