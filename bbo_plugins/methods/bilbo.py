"""BILBO: Bayesian optimization of bilevel problems, one function query at a time.

Two decision-makers: the upper level chooses x to maximize F(x, z), but z is the lower level's
answer, which maximizes f(x, z); black-box constraints may belong to either level. Both levels are
optimized together. Each step takes the most promising point of the trusted sets (symbols:
:mod:`bbo_plugins.methods.trusted_sets`), and observes the function that is most uncertain there.

    (x, z) = argmax of u_F over S ∩ P        query point     Eq. (4.6)
    h      = argmax of r̄_h(x, z)             function query  Definition 4.7
    z <- z̄(x) if h = f and σ_f(x, z̄(x)) >= σ_f(x, z)         Eq. (4.8)

Source: Chew, Nguyen & Low (2025), "BILBO: BILevel Bayesian Optimization", Algorithm 1.

Deviations. β is a constant, 4 by default: the paper's β_t trusts nearly everything at practical
budgets. P is P̄ by default, as in half of the paper's experiments; P⁺ where lower-level solutions
are not unique. As long as the means satisfy all constraints at no point observed so far, nothing
else is worth a query: it goes to the point with the largest smallest u_c, and to the constraint
that comes nearest to excluding the whole space (:func:`bottleneck`). Where that u_c is negative, S
is empty: the problem is declared infeasible, and the same rule goes on, which finds the declaration
wrong if it is; the paper stops. A constraint that the mean says is violated at the query point is
asked for before functions whose r̄ is up to ten times as large, as those values would most likely be
of no use. Every tenth query checks the current solution's response
(:func:`bbo_plugins.methods.bilbo_solution.verification`). A constant β comes to rest, and if the
models are wrong, in the wrong place: where no r̄ at the query point is worth a query, β is raised
for this step until one is. A point at which a query failed is not asked for again; one that fills
the space takes its place. Where all functions are observed at once (coupled queries), the function
query decides about the reassignment only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bbo_plugins import errors
from bbo_plugins.acquisition.quasirandom import shifted_sobol
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.methods.bilbo_candidates import anchors_of, best_pair, best_response, most_feasible
from bbo_plugins.methods.bilbo_model import (
    BilevelModel,
    BilevelProblem,
    FunctionData,
    failed_points,
)
from bbo_plugins.methods.bilbo_solution import TOLERANCE, solve, verification
from bbo_plugins.methods.trusted_sets import TrustedSets, smallest_bound
from bbo_plugins.space import CLOSE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.kernels import FloatArray

DEFAULT_BETA = 4.0
_VERIFY_EVERY = 10  # queries
# Largest r̄ at the query point, in spreads, from which on a query would teach next to nothing.
_AT_REST = 0.03
_WIDEN, _WIDEST = 16.0, 256.0  # factors of β at rest: in one step, and in all
# A constraint that the mean says is violated at the query point is asked for from so much of the
# largest r̄ on.
_FEASIBILITY_FIRST = 0.1
_N_SPREAD = 64  # candidates for a point far from all others
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
    """How BILBO decides.

    Attributes:
        beta: β, whose root multiplies σ in the confidence bounds.
        epsilon: ε, by how much a trusted response may be worse than the best, in the lower
            objective's own units; positive values need ``many_responses``.
        many_responses: Whether lower-level solutions are taken from P⁺, which is needed where they
            are not unique and F differs between them; else from P̄.
        n_initial: Observations of each function before the first use of the models.
        coupled: Whether a query observes all functions.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of its range, or ε is positive without ``many_responses``.
    """

    beta: float = DEFAULT_BETA
    epsilon: float = 0.0
    many_responses: bool = False
    n_initial: int = 3
    coupled: bool = False

    def __post_init__(self) -> None:
        """Check the options."""
        errors.check_positive("beta", self.beta)
        errors.check_real("epsilon", self.epsilon, "at least 0", lambda value: value >= 0.0)
        errors.check_bool("many_responses", self.many_responses)
        errors.check_int("n_initial", self.n_initial, minimum=1)
        errors.check_bool("coupled", self.coupled)
        if self.epsilon > 0.0 and not self.many_responses:
            rule = "0 unless many_responses is True"
            raise ValueError(errors.rule_message("epsilon", rule, self.epsilon))


@dataclass(frozen=True)
class Query:
    """The outcome of one step.

    Attributes:
        point: Joint point to evaluate, representable in the space, shape (d,).
        function: Name of the function to evaluate; with coupled queries, of the most uncertain one.
        reason: Why this query.
        infeasible: Whether the trusted feasible set is empty: the problem is declared infeasible.
        near_failure: Whether a query of some function failed nearer to the point, or to its best
            response, than one succeeded.
        regret_bounds: r̄_h of each function at the point before any reassignment, in its spreads
            and without pending queries; empty without a model.
        warm_starts: For each function, what the next step's fit starts from.
        notes: Fallbacks taken, in words; empty when all went well.
    """

    point: FloatArray
    function: str
    reason: Reason
    infeasible: bool = False
    near_failure: bool = False
    regret_bounds: Mapping[str, float] = field(default_factory=dict)
    warm_starts: Mapping[str, WarmStart] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@one_blas_thread()
def suggest(
    problem: BilevelProblem,
    data: Mapping[str, FunctionData],
    *,
    rng: np.random.Generator,
    options: Options | None = None,
    warm_starts: Mapping[str, WarmStart] | None = None,
) -> Query:
    """Return the next query.

    A pure function of its arguments (``rng`` counts by its state). Where no model can be fitted it
    returns a space-filling query and says so in the notes.

    Args:
        problem: The spaces and the names of the functions.
        data: What is known of each function, by its name.
        rng: Source of randomness of the candidate points.
        options: How to decide; by default as :class:`Options` has it.
        warm_starts: The :attr:`Query.warm_starts` of the previous step.

    Raises:
        ValueError: ``data`` lacks a function, has an unknown one, or points of other dimension.
    """
    options = options or Options()
    _check_data(problem, data)
    counts = {name: len(of.y) + len(of.pending) for name, of in data.items()}
    rarest = min(problem.functions, key=counts.__getitem__)
    unseen = [name for name in problem.functions if not len(data[name].y)]
    if counts[rarest] < options.n_initial or unseen:
        name = rarest if counts[rarest] < options.n_initial else unseen[0]
        return Query(_spread(problem, data[name], rng), name, "start")
    try:
        model = BilevelModel.fit(problem, data, warm_starts)
        query = _query(problem, model, options, rng, n_queries=_n_queries(counts, options))
    except (ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
        reason = str(error) or type(error).__name__
        note = f"no model could be used ({reason}), so the query fills the space"
        point = _spread(problem, data[rarest], rng)
        return Query(point, rarest, "fallback", notes=(note,))
    failed = failed_points(data)
    if len(failed) and (problem.space.distances(query.point[None], failed) < CLOSE).any():
        # Where a query failed none is made again.
        everything = FunctionData(X=model.observed, y=np.zeros(len(model.observed)), pending=failed)
        point = _spread(problem, everything, rng)
        near = bool(model.success(point[None], point[None])[0] < 0.0)
        return replace(
            query, point=point, reason="exploration", near_failure=near, regret_bounds={}
        )
    return query


def _query(
    problem: BilevelProblem,
    model: BilevelModel,
    options: Options,
    rng: np.random.Generator,
    *,
    n_queries: int,
) -> Query:
    """Choose by the models."""
    trusted = trusted_sets(model, options)
    warm_starts = {function.name: function.warm_start for function in model.functions}
    anchors = anchors_of(trusted, model.observed)
    is_open = feasibility_is_open(model)
    pair = None if is_open else best_pair(trusted, problem, rng=rng, anchors=anchors)
    if pair is None or pair.tier > 0:
        point, slack = most_feasible(trusted, problem, rng=rng, anchors=anchors)
        if pair is None or slack < 0.0:
            return Query(
                point,
                bottleneck(trusted, problem, point, rng),
                "infeasible" if slack < 0.0 else "feasibility",
                infeasible=slack < 0.0,
                regret_bounds=_known_bounds(trusted, problem, point, point, rng),
                warm_starts=warm_starts,
            )
    if n_queries % _VERIFY_EVERY == _VERIFY_EVERY - 1:
        many = options.many_responses
        solution = solve(model.without_pending, problem, rng=rng, many_responses=many)
        point, name = verification(trusted, problem, solution, rng)
        bounds = _known_bounds(trusted, problem, point, point, rng)
        return Query(point, name, "verification", regret_bounds=bounds, warm_starts=warm_starts)
    doubtful, bounds = trusted, trusted.regret_bounds(pair.point, pair.best)
    wider = options.beta
    while max(bounds.values()) < _AT_REST and wider < _WIDEST * options.beta:
        wider *= _WIDEN
        doubtful = trusted_sets(model, replace(options, beta=wider))
        pair = best_pair(doubtful, problem, rng=rng, anchors=anchors)
        bounds = trusted.regret_bounds(pair.point, pair.best)
    name = _asked(model, pair.point, bounds)
    point = pair.point
    reason: Reason = "optimism" if wider == options.beta else "exploration"
    if name == problem.lower and not np.array_equal(pair.point, pair.best):
        _, sd = model.lower.predict(np.stack([pair.point, pair.best]))
        if sd[1] >= sd[0]:  # Eq. (4.8)
            point, reason = pair.best, "reassignment"
    success = model.success(point[None], pair.best[None])[0]
    return Query(
        point,
        name,
        reason,
        near_failure=bool(success < 0.0),
        regret_bounds=_known_bounds(doubtful, problem, pair.point, pair.best, rng),
        warm_starts=warm_starts,
    )


def _known_bounds(
    trusted: TrustedSets,
    problem: BilevelProblem,
    point: FloatArray,
    best: FloatArray,
    rng: np.random.Generator,
) -> dict[str, float]:
    """Return bounds of the regrets at the joint point (d,) without pending queries.

    They shrink u_f near themselves, so that z̄(x) may be elsewhere without them. The regret of f is
    then bounded by u_f(x, z̄(x)) - l_f(x, z), which is what Definition 4.7 bounds in turn.
    """
    known = trusted.model.without_pending
    if known is trusted.model:
        return trusted.regret_bounds(point, best)
    settled = replace(trusted, model=known)
    rival = best_response(settled, problem, point[: problem.n_upper], rng)
    bounds = settled.regret_bounds(point, point)
    reach = known.lower.bound(np.stack([point, rival]), trusted.sqrt_beta)
    bounds[problem.lower] += max(0.0, float(reach[1] - reach[0])) / known.lower.spread
    return bounds


def feasibility_is_open(model: BilevelModel) -> bool:
    """Return whether the means satisfy all constraints at none of the observed points modeled."""
    slack = smallest_bound(model.constraints, model.observed, 0.0)
    return not bool((slack >= -TOLERANCE).any())


def bottleneck(
    trusted: TrustedSets, problem: BilevelProblem, point: FloatArray, rng: np.random.Generator
) -> str:
    """Return the constraint whose value at a joint point (d,) decides most about feasibility.

    Of those that the mean says are violated there (of all, if none is) it is the one with the
    smallest maximum of u_c over the space: once that is negative, S is empty whatever the others
    are.
    """
    constraints = trusted.model.constraints
    violated = [c for c in constraints if c.process.predict_mean(point[None])[0] < -TOLERANCE]
    pool = problem.space.snap(shifted_sobol(_N_POOL, len(problem.space), rng))
    pool = np.concatenate([pool, point[None]])
    largest = {c.name: c.bound(pool, trusted.sqrt_beta).max() for c in violated or constraints}
    return min(largest, key=largest.__getitem__)


def _asked(model: BilevelModel, point: FloatArray, bounds: Mapping[str, float]) -> str:
    """Return the function to query at a joint point (d,), given the r̄_h there."""
    largest = max(bounds.values())
    doubtful = [
        constraint.name
        for constraint in model.constraints
        if bounds[constraint.name] >= _FEASIBILITY_FIRST * largest
        and constraint.process.predict_mean(point[None])[0] < 0.0
    ]
    return max(doubtful or bounds, key=bounds.__getitem__)  # Eq. (4.7)


def trusted_sets(model: BilevelModel, options: Options) -> TrustedSets:
    """Return the trusted sets of ``model`` under ``options``."""
    return TrustedSets(model, math.sqrt(options.beta), options.epsilon, options.many_responses)


def _n_queries(counts: Mapping[str, int], options: Options) -> int:
    return max(counts.values()) if options.coupled else sum(counts.values())


def _spread(problem: BilevelProblem, data: FunctionData, rng: np.random.Generator) -> FloatArray:
    """Return a joint point (d,) far from all where the function was or is being observed."""
    space = problem.space
    points = space.snap(shifted_sobol(_N_SPREAD, len(space), rng))
    known = np.concatenate([data.X, data.pending])
    if not len(known):
        first: FloatArray = points[0]
        return first
    far: FloatArray = points[int(np.argmax(space.distances(points, known).min(axis=1)))]
    return far


def _check_data(problem: BilevelProblem, data: Mapping[str, FunctionData]) -> None:
    if set(data) != set(problem.functions):
        rule = f"of the functions {problem.functions}"
        raise ValueError(errors.rule_message("data", rule, tuple(data)))
    d = len(problem.space)
    for name, of in data.items():
        if of.X.shape[1] != d:
            message = f"the points of {name!r} must have {d} coordinates, but got {of.X.shape[1]}."
            raise ValueError(message)
