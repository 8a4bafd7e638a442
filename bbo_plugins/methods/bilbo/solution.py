r"""What to report as the solution of a bilevel problem, and how to make sure of it.

The solution maximizes, over the pairs whose means satisfy the constraints,

    μ_F(x, z) - κ (σ_F(x, z) + σ_f(x, z) + σ_f(x, z*) + Σ_c σ_c(x, z))

in model units, where z* = argmax of μ_f(x, z) and z is z* itself or, where many responses are
trusted, any with μ_f(x, z) + τ(x, z) >= μ_f(x, z*) - τ(x, z*): what looks good is not reported
before it is known to be good on both levels. τ = κ σ_f, at most ``TIE``, so that this is P⁺ with κ
for √β: F gains more from a worse response than f loses by it, and a solution uses up whatever a tie
allows; that should be no more than what the model cannot tell apart. Constraints hold where
μ_c >= -tol; if they do nowhere, the pair that violates them least is reported as not feasible.
So is a pair at which a query of some function failed nearer by than one succeeded: nobody knows
whether the function has a value there, however well those elsewhere can be continued.

Source: Chew, Nguyen & Low (2025), "BILBO: BILevel Bayesian Optimization", Eq. (4.9), section 5.

Deviation: the paper's theory reports the query with the smallest regret bound
(:func:`smallest_bound_query`), its experiments argmax of μ_F over the trusted sets. Both believe
the model where it has not looked. The penalty by κ is this project's choice.
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
    smallest_bound,
)

if TYPE_CHECKING:
    from bbo_plugins.methods.bilbo.model import BilevelModel
    from bbo_plugins.methods.bilbo.problem import BilevelProblem
    from bbo_plugins.space.dimension import FloatArray

CAUTION = 1.0  # κ


TIE = 0.005  # largest τ, model units


TOLERANCE = 0.02  # tol, model units


@dataclass(frozen=True)
class CautiousView:
    """The view that chooses a solution: posterior means, less what is uncertain.

    Attributes:
        model: Posteriors of all functions.
        many_responses: Whether responses that may be as good as the best take part.
    """

    model: BilevelModel
    many_responses: bool = False

    def lower_level(self, P: FloatArray) -> LowerLevel:
        """Return μ_f, μ_f + τ, μ_f - τ and the smallest μ_c + tol of the lower level at ``P``."""
        slack = smallest_bound(self.model.lower_constraints, P, 0.0) + TOLERANCE
        if not self.many_responses:
            mean = self.model.lower.process.predict_mean(P)
            return LowerLevel(mean, mean, mean, slack)
        mean, sd = self.model.lower.predict(P)
        tie = np.minimum(CAUTION * sd, TIE)
        return LowerLevel(mean, mean + tie, mean - tie, slack)

    def upper_level(self, P: FloatArray, best: FloatArray) -> UpperLevel:
        """Return the penalized μ_F and the smallest μ_c + tol of the upper level at ``P``.

        Failed queries count as a constraint of the upper level.
        """
        upper, lower = self.model.upper, self.model.lower
        value, sd = upper.predict(P)
        doubt = sd / upper.spread
        doubt += (lower.predict(P)[1] + lower.predict(best)[1]) / lower.spread
        for constraint in self.model.constraints:
            doubt += constraint.predict(P)[1] / constraint.spread
        slack = smallest_bound(self.model.upper_constraints, P, 0.0) + TOLERANCE
        slack = np.minimum(slack, self.model.success(P, best))
        return UpperLevel(value / upper.spread - CAUTION * doubt, slack)

    def penalized(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return μ_f less a penalty per violated constraint (n,), and its gradient (n, d)."""
        return penalized_bound(self.model.lower, self.model.lower_constraints, P, 0.0)


def solve(
    model: BilevelModel,
    problem: BilevelProblem,
    *,
    rng: np.random.Generator,
    many_responses: bool = False,
) -> Pair:
    """Return the pair to report; it is feasible, as far as the means tell, in tier 0.

    Args:
        model: Posteriors of all functions.
        problem: The spaces.
        rng: Source of the candidates.
        many_responses: Whether lower-level solutions are not unique.
    """
    view = CautiousView(model, many_responses)
    anchors = anchors_of(view, model.observed)
    return best_pair(view, problem, rng=rng, anchors=anchors, effort=SOLUTION)


def verification(
    trusted: TrustedSets, problem: BilevelProblem, solution: Pair, rng: np.random.Generator
) -> tuple[FloatArray, str]:
    """Return the query that would refute a solution: a response to x̂ that may be a better one.

    The point is z̄(x̂), the function the most uncertain one there of f and the constraints of the
    lower level.
    """
    x = solution.point[: problem.n_upper]
    point = best_response(trusted, problem, x, rng)
    functions = (trusted.model.lower, *trusted.model.lower_constraints)
    deviations = [float(f.predict(point[None])[1][0]) / f.spread for f in functions]
    return point, functions[int(np.argmax(deviations))].name


def smallest_bound_query(queries: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return the query (d,) whose largest regret bound at its own time was smallest, Eq. (4.9).

    Args:
        queries: Queried joint points, shape (t, d).
        bounds: The largest r̄_h of each at the time it was chosen, shape (t,).
    """
    smallest: FloatArray = queries[int(np.argmin(bounds))]
    return smallest
