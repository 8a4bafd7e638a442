"""Trusted sets: the joint points that may be feasible and the lower level's best responses.

A search compares pairs (x, z) by the numbers of a :class:`PairScore`. :class:`TrustedSets` scores
by upper confidence bounds, to choose queries. Where queries failed, u_F and u_f are less by
-log P(valid) (:mod:`bbo_plugins.acquisition.validity`), in scales of their functions; but not where
u_f decides whether a response is trusted, as it is no less good for having failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.methods.bilbo.model import BilevelModel, FunctionModel
    from bbo_plugins.space.dimension import FloatArray

# Weight of a violated lower-level constraint while a response climbs; model units on both sides.
PENALTY = 30.0


class LowerLevel(NamedTuple):
    """Scores of n joint points on the lower level, each of shape (n,).

    Attributes:
        value: What the best response maximizes.
        upper_bound: The best value that the response may have.
        lower_bound: The least value that the response may have; another response to the same x is
            trusted if its upper bound is no smaller than the best response's lower bound.
        slack: Smallest slack of a lower-level constraint; at least 0 where all hold.
    """

    value: FloatArray
    upper_bound: FloatArray
    lower_bound: FloatArray
    slack: FloatArray


class UpperLevel(NamedTuple):
    """Scores of n joint points on the upper level, each of shape (n,).

    Attributes:
        value: What the best pair maximizes.
        slack: Smallest slack of an upper-level constraint; at least 0 where all hold.
    """

    value: FloatArray
    slack: FloatArray


class PairScore(Protocol):
    """The numbers by which a search compares pairs (x, z)."""

    @property
    def many_responses(self) -> bool:
        """Whether every trusted response to x takes part (P⁺), or the best one only (P̄)."""

    def lower_level(self, P: FloatArray) -> LowerLevel:
        """Score joint points ``P`` (n, d) on the lower level."""

    def upper_level(self, P: FloatArray, best: FloatArray) -> UpperLevel:
        """Score ``P`` (n, d) on the upper level, given the points ``best`` (n, d) of z̄(x)."""

    def penalized(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a response's value less a penalty per violation (n,), and its gradient (n, d)."""


def worse_by(epsilon: float, bound: FloatArray, lower: FunctionModel) -> FloatArray:
    """Return a bound (n,) on the lower objective less ε, which is in its own units."""
    if epsilon == np.inf:
        return np.full_like(bound, -np.inf)
    if epsilon <= 0.0:
        return bound
    # The inverse takes a bound beyond all values for the worst of them, which is above it.
    return np.minimum(bound, lower.transform.forward(lower.transform.inverse(bound) - epsilon))


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
        """Return u_f, u_f, l_f - ε and the smallest u_c of the lower level at ``P`` (n, d)."""
        lower = self.model.lower
        mean, sd = lower.predict(P)
        l_f = worse_by(self.epsilon, mean - self.sqrt_beta * sd, lower)  # Eq. (4.2)
        slack = smallest_bound(self.model.lower_constraints, P, self.sqrt_beta)
        u_f = mean + self.sqrt_beta * sd  # Eq. (4.1)
        value = u_f + lower.scale * self.log_validity(P)
        return LowerLevel(value, u_f, l_f, slack)

    def upper_level(self, P: FloatArray, best: FloatArray) -> UpperLevel:  # noqa: ARG002
        """Return u_F and the smallest u_c of the upper level at ``P`` (n, d)."""
        upper = self.model.upper
        value = upper.bound(P, self.sqrt_beta) + upper.scale * self.log_validity(P)
        slack = smallest_bound(self.model.upper_constraints, P, self.sqrt_beta)
        return UpperLevel(value, slack)

    def penalized(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return u_f less a penalty per violated u_c >= 0 (n,), and its gradient (n, d)."""
        lower, validity = self.model.lower, self.model.validity
        value, gradient = penalized_bound(lower, self.model.lower_constraints, P, self.sqrt_beta)
        if validity is not None:
            log_probability, slope = validity.log_probability_and_gradient(P)
            value += lower.scale * log_probability
            gradient += lower.scale * slope
        return value, gradient

    def log_validity(self, P: FloatArray) -> FloatArray:
        """Return the log probability that queries at ``P`` (n, d) return values, shape (n,)."""
        if self.model.validity is None:
            return np.zeros(len(P))
        return self.model.validity.log_probability(P)

    def feasibility(self, P: FloatArray) -> FloatArray:
        """Return the smallest u_c of all constraints at ``P`` (n, d), shape (n,); >= 0 in S."""
        # Eq. (4.3)
        return smallest_bound(self.model.constraints, P, self.sqrt_beta)

    def regret_bounds(self, point: FloatArray, best: FloatArray) -> dict[str, float]:
        """Return r̄_h of each function at a joint point, in units of its model's scale.

        Args:
            point: The joint point (x, z), shape (d,).
            best: The joint point (x, z̄(x)), shape (d,).

        Returns:
            r̄_h by the function's name.
        """
        rows = np.stack([point, best])
        bounds = {}
        for function in self.model.functions:
            _, sd = function.predict(rows)
            total = float(sd[0])
            if function is self.model.lower and not np.array_equal(point, best):
                total += float(sd[1])
            bounds[function.name] = 2.0 * self.sqrt_beta * total / function.scale  # Definition 4.7
        return bounds


def smallest_bound(
    functions: Sequence[FunctionModel], P: FloatArray, multiplier: float
) -> FloatArray:
    """Return the smallest μ + ``multiplier`` σ of ``functions``.

    Args:
        functions: Posteriors.
        P: Joint points, shape (n, d).
        multiplier: Factor of σ.

    Returns:
        The smallest bound at each point, shape (n,); infinite without any function.
    """
    smallest = np.full(len(P), np.inf)
    for function in functions:
        np.minimum(smallest, function.bound(P, multiplier), out=smallest)
    return smallest


def penalized_bound(
    lower: FunctionModel, constraints: Sequence[FunctionModel], P: FloatArray, multiplier: float
) -> tuple[FloatArray, FloatArray]:
    """Return the bound of ``lower`` less a penalty for the constraints whose bound is negative.

    Args:
        lower: Posterior of f.
        constraints: Posteriors of the constraints of the lower level.
        P: Joint points, shape (n, d).
        multiplier: Factor of σ in all bounds.

    Returns:
        The penalized bound, shape (n,), and its gradient, shape (n, d), in model units.
    """
    value, gradient = lower.bound_with_gradient(P, multiplier)
    for constraint in constraints:
        bound, slope = constraint.bound_with_gradient(P, multiplier)
        violated = bound < 0.0
        value += PENALTY * np.where(violated, bound, 0.0)
        gradient[violated] += PENALTY * slope[violated]
    return value, gradient
