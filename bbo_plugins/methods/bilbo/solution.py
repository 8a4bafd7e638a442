"""The reported solution of a bilevel problem, and the query that may refute it.

The solution maximizes, over the pairs whose means satisfy the constraints,

    μ_F(x, z) - κ (σ_F(x, z) + σ_f(x, z) + σ_f(x, z*) + Σ_c σ_c(x, z))

in units of each model's scale, where z* = argmax of μ_f(x, z), and z is z* itself or, where many
responses are trusted, any with μ_f(x, z) + τ(x, z) >= μ_f(x, z*) - max(τ(x, z*), ε), with
τ = min(κ σ_f, 0.005). Constraints hold where μ_c >= -min(tol, σ_c); a failed query nearer than an
observation counts as a violation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.methods.bilbo.search import SOLUTION, Pair, anchors_of, best_pair, best_response
from bbo_plugins.methods.bilbo.trusted_sets import (
    LowerLevel,
    TrustedSets,
    UpperLevel,
    penalized_bound,
    worse_by,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.methods.bilbo.model import BilevelModel, BilevelProblem
    from bbo_plugins.space.dimension import FloatArray

CAUTION = 1.0  # κ
TIE = 0.005  # largest τ, model units
TOLERANCE = 0.02  # tol, model units


@dataclass(frozen=True)
class SolutionCriterion:
    """The score of a solution: posterior means less deviations.

    Attributes:
        model: Posteriors of all functions.
        many_responses: Whether responses that may be as good as the best take part.
        epsilon: ε, by how much a response may be worse than the best, in the lower objective's own
            units; infinite for every feasible response.
    """

    model: BilevelModel
    many_responses: bool = False
    epsilon: float = 0.0

    def lower_level(self, P: FloatArray) -> LowerLevel:
        """Return μ_f, μ_f + τ, the less of μ_f - τ and μ_f - ε, and the slack at ``P`` (n, d)."""
        slack = _slack([one.predict(P) for one in self.model.lower_constraints], len(P))
        if not self.many_responses:
            mean = self.model.lower.process.predict_mean(P)
            return LowerLevel(mean, mean, mean, slack)
        mean, sd = self.model.lower.predict(P)
        tie = np.minimum(CAUTION * sd, TIE)
        least = np.minimum(mean - tie, worse_by(self.epsilon, mean, self.model.lower))
        return LowerLevel(mean, mean + tie, least, slack)

    def upper_level(self, P: FloatArray, best: FloatArray) -> UpperLevel:
        """Return the penalized μ_F and the slack of the upper level at ``P`` (n, d).

        The margin to failed queries counts as a constraint of the upper level.
        """
        upper, lower = self.model.upper, self.model.lower
        value, sd = upper.predict(P)
        deviations = sd / upper.scale
        deviations += (lower.predict(P)[1] + lower.predict(best)[1]) / lower.scale
        constraints = self.model.constraints
        moments = [constraint.predict(P) for constraint in constraints]
        for constraint, (_, sd) in zip(constraints, moments, strict=True):
            deviations += sd / constraint.scale
        slack = _slack(moments[: len(self.model.upper_constraints)], len(P))
        slack = np.minimum(slack, self.model.margin_to_failure(P, best))
        return UpperLevel(value / upper.scale - CAUTION * deviations, slack)

    def penalized(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return μ_f less a penalty per violated constraint (n,), and its gradient (n, d)."""
        return penalized_bound(self.model.lower, self.model.lower_constraints, P, 0.0)


def _slack(moments: Sequence[tuple[FloatArray, FloatArray]], n: int) -> FloatArray:
    """Return the smallest μ_c + min(tol, σ_c) at n points, shape (n,); infinite without any."""
    smallest = np.full(n, np.inf)
    for mean, sd in moments:
        np.minimum(smallest, mean + np.minimum(TOLERANCE, sd), out=smallest)
    return smallest


def solve(
    model: BilevelModel,
    problem: BilevelProblem,
    *,
    rng: np.random.Generator,
    many_responses: bool = False,
    epsilon: float = 0.0,
) -> Pair:
    """Return the pair to report.

    Args:
        model: Posteriors of all functions.
        problem: The spaces.
        rng: Source of the candidates.
        many_responses: Whether lower-level solutions are not unique.
        epsilon: ε of :class:`SolutionCriterion`, with ``many_responses``.

    Returns:
        The pair; all constraints hold by the means if its tier is 0.
    """
    criterion = SolutionCriterion(model, many_responses, epsilon)
    anchors = anchors_of(criterion, model.observed)
    # In place of Eq. (4.9)
    return best_pair(criterion, problem, rng=rng, anchors=anchors, budget=SOLUTION)


def verification(
    trusted: TrustedSets, problem: BilevelProblem, solution: Pair, rng: np.random.Generator
) -> tuple[FloatArray, str]:
    """Return the query that may refute a solution: of the best response to its x.

    Args:
        trusted: The trusted sets.
        problem: The spaces.
        solution: The solution.
        rng: Source of the candidates.

    Returns:
        The joint point (x, z̄(x)), shape (d,), and of f and the constraints of the lower level the
        function that is most uncertain there.
    """
    x = solution.point[: problem.n_upper]
    point = best_response(trusted, problem, x, rng)
    functions = (trusted.model.lower, *trusted.model.lower_constraints)
    deviations = [float(f.predict(point[None])[1][0]) / f.scale for f in functions]
    return point, functions[int(np.argmax(deviations))].name
