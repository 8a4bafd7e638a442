"""Confidence bounds of the functions of a bilevel problem, and the trusted sets they define.

With u_h, l_h = μ_h ± √β σ_h (Eqs. 4.1, 4.2) of the function h, in model units:

| symbol | definition                                                             | source       |
|--------|------------------------------------------------------------------------|--------------|
| S_lo   | {(x, z): u_c >= 0 for every constraint c of the lower level}           | Eq. (4.4)    |
| S      | S_lo and u_c >= 0 for every constraint c of the upper level            | Eq. (4.3)    |
| z̄(x)   | argmax of u_f(x, z) over z in S_lo(x)                                  | Eq. (4.5)    |
| P⁺     | {(x, z) in S_lo: u_f(x, z) + ε >= l_f(x, z̄(x))}                        | Eq. (4.4)    |
| P̄      | {(x, z̄(x)) for every x}                                                | section D.2  |
| r̄_h    | 2√β σ_h(x, z); for f also 2√β σ_f(x, z̄(x)) where z is not z̄(x)         | Def. 4.7     |

A set is asked for as a :class:`View`: two levels of values and slacks that a search over candidates
compares (:mod:`bbo_plugins.methods.bilbo_candidates`). :class:`TrustedSets` is the optimistic view,
which chooses queries.

Source: Chew, Nguyen & Low (2025), "BILBO: BILevel Bayesian Optimization", section 4.

Deviations: ε is in the lower level's own units; the paper's functions are standardized beforehand.
Where queries failed, u_F and u_f are less by -log P(valid)
(:mod:`bbo_plugins.methods.validity`), in spreads of their functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.gp.kernels import FloatArray
    from bbo_plugins.methods.bilbo_model import BilevelModel, FunctionModel

# Weight of a violated lower-level constraint while a response climbs; model units on both sides.
PENALTY = 30.0


class LowerLevel(NamedTuple):
    """What a view says of the lower level at n joint points, each of shape (n,).

    Attributes:
        value: What a response maximizes.
        reach: How good a response may be.
        threshold: What the reach of another response to the same x must be for it to be trusted,
            if this one is the best.
        slack: Smallest slack of a lower-level constraint; a response needs at least 0.
    """

    value: FloatArray
    reach: FloatArray
    threshold: FloatArray
    slack: FloatArray


class UpperLevel(NamedTuple):
    """What a view says of the upper level at n joint points, each of shape (n,).

    Attributes:
        value: What the search maximizes.
        slack: Smallest slack of an upper-level constraint; a solution needs at least 0.
    """

    value: FloatArray
    slack: FloatArray


class View(Protocol):
    """How a search looks at a bilevel problem: with optimism, or with caution."""

    @property
    def many_responses(self) -> bool:
        """Whether every trusted response to x takes part (P⁺), or the best one only (P̄)."""

    def lower_level(self, P: FloatArray) -> LowerLevel:
        """Look at the lower level at joint points ``P`` (n, d)."""

    def upper_level(self, P: FloatArray, best: FloatArray) -> UpperLevel:
        """Look at the upper level at ``P`` (n, d), given the points ``best`` (n, d) of z̄(x)."""

    def penalized(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a response's value less a penalty per violation (n,), and its gradient (n, d)."""


@dataclass(frozen=True)
class TrustedSets:
    """The trusted sets of a model.

    Attributes:
        model: Posteriors of all functions.
        sqrt_beta: √β, the multiplier of σ.
        epsilon: ε, in the lower objective's own units; infinite to trust every feasible response.
        many_responses: Whether lower-level solutions come from P⁺; else from P̄.
    """

    model: BilevelModel
    sqrt_beta: float
    epsilon: float = 0.0
    many_responses: bool = False

    def lower_level(self, P: FloatArray) -> LowerLevel:
        """Return u_f, l_f - ε and the smallest u_c of the lower level at ``P`` (n, d)."""
        lower = self.model.lower
        mean, sd = lower.predict(P)
        bound = mean - self.sqrt_beta * sd  # Eq. (4.2)
        if self.epsilon == np.inf:
            bound = np.full_like(bound, -np.inf)
        elif self.epsilon > 0.0:
            with np.errstate(over="ignore"):  # of the largest floats: everything is in reach
                bound = lower.units.forward(lower.units.inverse(bound) - self.epsilon)
        slack = smallest_bound(self.model.lower_constraints, P, self.sqrt_beta)
        reach = mean + self.sqrt_beta * sd  # Eq. (4.1)
        if self.model.validity is not None:
            reach += lower.spread * self.model.validity.log_probability(P)
        return LowerLevel(reach, reach, bound, slack)  # Eq. (4.4)

    def upper_level(self, P: FloatArray, best: FloatArray) -> UpperLevel:  # noqa: ARG002
        """Return u_F and the smallest u_c of the upper level at ``P`` (n, d)."""
        value = self.model.upper.bound(P, self.sqrt_beta)
        if self.model.validity is not None:
            value += self.model.upper.spread * self.model.validity.log_probability(P)
        slack = smallest_bound(self.model.upper_constraints, P, self.sqrt_beta)
        return UpperLevel(value, slack)  # Eqs. (4.3), (4.6)

    def penalized(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return u_f less a penalty per violated u_c >= 0 (n,), and its gradient (n, d)."""
        lower, validity = self.model.lower, self.model.validity
        value, gradient = penalized_bound(lower, self.model.lower_constraints, P, self.sqrt_beta)
        if validity is not None:
            log_probability, slope = validity.log_probability_and_gradient(P)
            value += lower.spread * log_probability
            gradient += lower.spread * slope
        return value, gradient

    def log_validity(self, P: FloatArray) -> FloatArray:
        """Return the log probability that queries at ``P`` (n, d) return values, shape (n,)."""
        if self.model.validity is None:
            return np.zeros(len(P))
        return self.model.validity.log_probability(P)

    def feasibility(self, P: FloatArray) -> FloatArray:
        """Return the smallest u_c of all constraints at ``P`` (n, d), shape (n,); >= 0 in S."""
        return smallest_bound(self.model.constraints, P, self.sqrt_beta)

    def regret_bounds(self, point: FloatArray, best: FloatArray) -> dict[str, float]:
        """Return r̄_h of each function at the joint point (d,), in its spreads (Definition 4.7).

        Args:
            point: The joint point (x, z), shape (d,).
            best: The joint point (x, z̄(x)), shape (d,).
        """
        rows = np.stack([point, best])
        bounds = {}
        for function in self.model.functions:
            _, sd = function.predict(rows)
            total = float(sd[0])
            if function is self.model.lower and not np.array_equal(point, best):
                total += float(sd[1])
            bounds[function.name] = 2.0 * self.sqrt_beta * total / function.spread
        return bounds


def smallest_bound(
    functions: Sequence[FunctionModel], P: FloatArray, multiplier: float
) -> FloatArray:
    """Return the smallest μ + ``multiplier`` σ at ``P`` (n, d), shape (n,); inf without any."""
    smallest = np.full(len(P), np.inf)
    for function in functions:
        np.minimum(smallest, function.bound(P, multiplier), out=smallest)
    return smallest


def penalized_bound(
    lower: FunctionModel, constraints: Sequence[FunctionModel], P: FloatArray, multiplier: float
) -> tuple[FloatArray, FloatArray]:
    """Return the bound of ``lower`` less the violations by those of ``constraints``.

    Values have shape (n,), gradients (n, d).
    """
    value, gradient = lower.bound_with_gradient(P, multiplier)
    for constraint in constraints:
        bound, slope = constraint.bound_with_gradient(P, multiplier)
        violated = bound < 0.0
        value += PENALTY * np.where(violated, bound, 0.0)
        gradient[violated] += PENALTY * slope[violated]
    return value, gradient
