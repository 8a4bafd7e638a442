"""One step of BILBO (Algorithm 1): from the observations of each function to the next query.

:func:`suggest` fits the models; :func:`query` chooses by them:

1. Without a point at which the means satisfy all constraints: the most feasible point.
2. At every tenth query: the best response to the current solution's x.
3. Else: the best pair of S and P, there the most uncertain function, and its reassignment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from bbo_plugins import errors
from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.acquisition.maximize import CLOSE
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.methods.bilbo.model import (
    BilevelModel,
    BilevelProblem,
    FunctionData,
    failed_points,
)
from bbo_plugins.methods.bilbo.search import anchors_of, best_pair, best_response, most_feasible
from bbo_plugins.methods.bilbo.solution import TOLERANCE, solve, verification
from bbo_plugins.methods.bilbo.trusted_sets import TrustedSets, smallest_bound
from bbo_plugins.methods.observations import Suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.methods.bilbo.search import Pair
    from bbo_plugins.space.dimension import FloatArray

DEFAULT_BETA = 4.0
_VERIFY_EVERY = 10  # queries
_STAGNATED = 0.03  # no query is worth more if the largest r̄, in units of scale, is less
_WIDEN, _WIDEST = 16.0, 256.0  # factors of β after stagnation: in one step, and in all
_FEASIBILITY_FIRST = 0.1  # least share of the largest r̄ at which a violated constraint goes first
_MOST_OF_CONSTRAINT = 3  # with more times an objective's observations it no longer goes first
_N_FAR = 64  # candidates for a point far from all others
_N_POOL = 1024  # points over which the largest u_c of one constraint is taken

Reason = Literal[
    "start",
    "optimism",
    "reassignment",
    "exploration",
    "verification",
    "feasibility",
    "infeasible",
    "fallback",
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of BILBO.

    Attributes:
        beta: β; its root multiplies σ in the confidence bounds.
        epsilon: ε, by how much a trusted response may be worse than the best, in the lower
            objective's own units; positive values need ``many_responses``.
        many_responses: Whether lower-level solutions are taken from P⁺, which is needed where they
            are not unique and F differs between them; else from P̄.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of its range, or ε is positive without ``many_responses``.
    """

    beta: float = DEFAULT_BETA
    epsilon: float = 0.0
    many_responses: bool = False

    def __post_init__(self) -> None:
        """Check the options, and keep them as plain numbers."""
        checked = {
            "beta": errors.check_positive("beta", self.beta),
            "epsilon": errors.check_real("epsilon", self.epsilon, "at least 0", lambda e: e >= 0.0),
            "many_responses": errors.check_bool("many_responses", self.many_responses),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.epsilon > 0.0 and not self.many_responses:
            rule = "0 unless many_responses is True"
            raise ValueError(errors.rule_message("epsilon", rule, self.epsilon))


DEFAULT_OPTIONS: Final = Options()


@dataclass(frozen=True, kw_only=True)
class Query(Suggestion):
    """The query of one step: a joint point of both levels, and a function to evaluate there.

    The warm starts are those of the functions' models, in the order of the problem's functions.

    Attributes:
        function: Name of the function to evaluate; with coupled queries, of the most uncertain one.
        reason: The rule that chose the query.
        infeasible: Whether the trusted feasible set is empty: the problem is declared infeasible.
        near_failure: Whether a query of some function failed nearer to the point, or to its best
            response, than one succeeded.
        regret_bounds: r̄_h of each function at the point before any reassignment, in units of its
            model's scale and without unanswered queries, at the raised β if it was raised; empty
            for a query that is not of the best pair.
    """

    function: str
    reason: Reason
    infeasible: bool = False
    near_failure: bool = False
    regret_bounds: Mapping[str, float] = field(default_factory=dict)


@one_blas_thread()
def suggest(
    problem: BilevelProblem,
    data: Mapping[str, FunctionData],
    *,
    rng: np.random.Generator,
    options: Options = DEFAULT_OPTIONS,
    n_initial: int = 3,
    coupled: bool = False,
    warm_starts: Mapping[str, WarmStart | None] = MappingProxyType({}),
) -> Query:
    """Return the next query, a function of the arguments alone (``rng`` counts by its state).

    Args:
        problem: The spaces and the names of the functions.
        data: The observations and unanswered queries of each function, by its name.
        rng: Source of randomness of the candidate points.
        options: The options.
        n_initial: Observations of each function before the first use of the models, at least 1.
        coupled: Whether a query observes all functions.
        warm_starts: The :attr:`Query.warm_starts` of the previous step.

    Returns:
        The query; a space-filling one with a note where no model can be fitted.
    """
    counts = _counts(data).values()
    if min(counts) < n_initial:
        return space_filling(problem, data, rng)
    for name in problem.functions:
        if not len(data[name].y):
            return _start(problem, data, name, rng)
    n_queries = max(counts) if coupled else sum(counts)
    try:
        model = BilevelModel.fit(problem, data, warm_starts)
        chosen = query(problem, model, options, rng, n_queries=n_queries)
    except errors.UNUSABLE as error:
        note = errors.note_without_model(error, "the query fills the space")
        return replace(space_filling(problem, data, rng), notes=(note,), reason="fallback")
    chosen = replace(chosen, notes=model.notes)
    failed = failed_points(data)
    if len(failed) and (problem.space.distances(chosen.x[None], failed) < CLOSE).any():
        # Where a query failed none is made again.
        point = _far_point(problem, np.concatenate([model.observed, failed]), rng)
        near = bool(model.margin_to_failure(point[None], point[None])[0] < 0.0)
        return replace(chosen, x=point, reason="exploration", near_failure=near, regret_bounds={})
    return chosen


def space_filling(
    problem: BilevelProblem, data: Mapping[str, FunctionData], rng: np.random.Generator
) -> Query:
    """Return a query of the function that was asked least, far from where it was asked.

    Args:
        problem: The spaces and the names of the functions.
        data: The observations and unanswered queries of each function, by its name.
        rng: Source of randomness of the candidate points.
    """
    counts = _counts(data)
    rarest = min(problem.functions, key=counts.__getitem__)
    return _start(problem, data, rarest, rng)


def _start(
    problem: BilevelProblem, data: Mapping[str, FunctionData], name: str, rng: np.random.Generator
) -> Query:
    """Return a query of the named function, far from where it was asked."""
    return Query(_far_point(problem, _asked(data[name]), rng), function=name, reason="start")


def _counts(data: Mapping[str, FunctionData]) -> dict[str, int]:
    """Return how often each function was asked."""
    return {name: len(one.y) + len(one.unanswered) for name, one in data.items()}


def query(
    problem: BilevelProblem,
    model: BilevelModel,
    options: Options,
    rng: np.random.Generator,
    *,
    n_queries: int,
) -> Query:
    """Choose the next query by the models.

    Args:
        problem: The spaces and the names of the functions.
        model: The models of all functions.
        options: The options.
        rng: Source of randomness of the candidate points.
        n_queries: Number of queries so far.

    Returns:
        The query.
    """
    trusted = trusted_sets(model, options)
    make = partial(Query, warm_starts={one.name: one.warm_start for one in model.functions})
    anchors = anchors_of(trusted, model.observed)
    pair = None
    if not feasibility_is_open(model):
        pair = best_pair(trusted, problem, rng=rng, anchors=anchors)  # Algorithm 1, line 7
    if pair is None or pair.tier > 0:
        point, largest = most_feasible(trusted, problem, rng=rng, anchors=anchors)
        empty = largest < 0.0  # Algorithm 1, line 4
        if pair is None or empty:
            name = bottleneck(trusted, problem, point, rng)
            reason: Reason = "infeasible" if empty else "feasibility"
            return make(point, function=name, reason=reason, infeasible=empty)
    if n_queries % _VERIFY_EVERY == _VERIFY_EVERY - 1:
        many, epsilon = options.many_responses, options.epsilon
        known = model.without_unanswered
        solution = solve(known, problem, rng=rng, many_responses=many, epsilon=epsilon)
        point, name = verification(trusted, problem, solution, rng)
        return make(point, function=name, reason="verification")
    wider, beta, bounds = trusted, options.beta, trusted.regret_bounds(pair.point, pair.best)
    while max(bounds.values()) < _STAGNATED and beta < _WIDEST * options.beta:
        beta *= _WIDEN
        wider = trusted_sets(model, replace(options, beta=beta))
        pair = best_pair(wider, problem, rng=rng, anchors=anchors)
        bounds = trusted.regret_bounds(pair.point, pair.best)
    name = function_query(model, pair.point, bounds)  # Algorithm 1, line 8
    # Only a pair in S and P, with the β of the trusted sets, has the bounds of Section 4.4.
    is_trusted = wider is trusted and pair.tier == 0
    point, reason = pair.point, "optimism" if is_trusted else "exploration"
    if name == problem.lower and reassigned(model, pair):
        point, reason = pair.best, "reassignment"
    margin = model.margin_to_failure(point[None], pair.best[None])[0]
    return make(
        point,
        function=name,
        reason=reason,
        near_failure=bool(margin < 0.0),
        regret_bounds=_known_bounds(wider, problem, pair.point, pair.best, rng),
    )


def function_query(model: BilevelModel, point: FloatArray, bounds: Mapping[str, float]) -> str:
    """Return the function to query at a joint point.

    Args:
        model: The models of all functions.
        point: The joint point, shape (d,).
        bounds: r̄_h of each function there, in units of its model's scale.

    Returns:
        The name of the function.
    """
    largest = max(bounds.values())
    most = _MOST_OF_CONSTRAINT * min(model.upper.n_observed, model.lower.n_observed)
    violated = [
        constraint.name
        for constraint in model.constraints
        if bounds[constraint.name] >= _FEASIBILITY_FIRST * largest
        and constraint.n_observed <= most
        and constraint.process.predict_mean(point[None])[0] < 0.0
    ]
    # Eq. (4.7)
    return max(violated or bounds, key=bounds.__getitem__)


def reassigned(model: BilevelModel, pair: Pair) -> bool:
    """Return whether a query of f goes to the pair's best response instead of its own point.

    Args:
        model: The models of all functions.
        pair: The pair of which f is to be queried.
    """
    if np.array_equal(pair.point, pair.best):
        return False
    _, sd = model.lower.predict(np.stack([pair.point, pair.best]))
    # Eq. (4.8); Algorithm 1, line 11, has > in place of its >=
    return bool(sd[1] >= sd[0])


def _known_bounds(
    trusted: TrustedSets,
    problem: BilevelProblem,
    point: FloatArray,
    best: FloatArray,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return bounds of the regrets at the joint point (d,) without unanswered queries, by name.

    The best response may be another one without them. The regret of f is bounded by
    u_f(x, z̄(x)) - l_f(x, z), which is no larger than r̄_f.
    """
    known = trusted.model.without_unanswered
    if known is trusted.model:
        return trusted.regret_bounds(point, best)
    settled = replace(trusted, model=known)
    rival = best_response(settled, problem, point[: problem.n_upper], rng)
    bounds = settled.regret_bounds(point, point)
    u_f = known.lower.bound(np.stack([point, rival]), trusted.sqrt_beta)
    bounds[problem.lower] += max(0.0, float(u_f[1] - u_f[0])) / known.lower.scale
    return bounds


def feasibility_is_open(model: BilevelModel) -> bool:
    """Return whether the means satisfy all constraints at no point of the training data."""
    slack = smallest_bound(model.constraints, model.observed, 0.0)
    return not bool((slack >= -TOLERANCE).any())


def bottleneck(
    trusted: TrustedSets, problem: BilevelProblem, point: FloatArray, rng: np.random.Generator
) -> str:
    """Return the constraint that comes nearest to excluding the whole space.

    Args:
        trusted: The trusted sets.
        problem: The spaces.
        point: The joint point of the query, shape (d,).
        rng: Source of the points that stand for the space.

    Returns:
        Of the constraints that their mean violates at the point (of all, if there is none) the name
        of the one with the smallest maximum of u_c: once that is negative, S is empty.
    """
    constraints = trusted.model.constraints
    violated = [c for c in constraints if c.process.predict_mean(point[None])[0] < -TOLERANCE]
    pool = problem.space.snap(shifted_sobol(_N_POOL, len(problem.space), rng))
    pool = np.concatenate([pool, point[None]])
    largest = {c.name: c.bound(pool, trusted.sqrt_beta).max() for c in violated or constraints}
    return min(largest, key=largest.__getitem__)


def trusted_sets(model: BilevelModel, options: Options) -> TrustedSets:
    """Return the trusted sets of ``model`` under ``options``."""
    # Algorithm 1, line 2
    return TrustedSets(model, math.sqrt(options.beta), options.epsilon, options.many_responses)


def _asked(data: FunctionData) -> FloatArray:
    """Return where a function was or is being observed, joint points (n, d)."""
    return np.concatenate([data.X, data.unanswered])


def _far_point(problem: BilevelProblem, known: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a joint point (d,) far from all those that are known (n, d)."""
    space = problem.space
    points = space.snap(shifted_sobol(_N_FAR, len(space), rng))
    farthest = int(np.argmax(space.distances(points, known).min(axis=1))) if len(known) else 0
    point: FloatArray = points[farthest]
    return point
