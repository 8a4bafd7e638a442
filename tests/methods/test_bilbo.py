"""One step of BILBO: start, queries, reassignment, infeasibility, pending queries, bad input."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.methods import bilbo
from bbo_plugins.methods.bilbo import Options, Query, suggest, trusted_sets
from bbo_plugins.methods.bilbo_candidates import anchors_of, best_pair
from bbo_plugins.methods.bilbo_model import BilevelModel, BilevelProblem, FunctionData
from bbo_plugins.methods.bilbo_solution import solve
from tests.oracles.bilevel import box_problem, data_of, grid_problem, posterior, random_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bbo_plugins.gp.kernels import FloatArray

Functions = dict[str, "Callable[[FloatArray], float]"]
SMOOTH: Functions = {
    "upper": lambda p: -((p[0] - 0.8) ** 2) - (p[1] - 0.2) ** 2,
    "lower": lambda p: -((p[1] - p[0]) ** 2),
}


def _data(
    problem: BilevelProblem, n: int, functions: Functions = SMOOTH, seed: int = 0
) -> dict[str, FunctionData]:
    """Return ``n`` observations of each function at points of its own."""
    rng = np.random.default_rng(seed)
    data = {}
    for name in problem.functions:
        X = problem.space.snap(rng.random((n, len(problem.space))))
        data[name] = data_of(X, [functions[name](x) for x in X])
    return data


def _step(
    problem: BilevelProblem, data: Mapping[str, FunctionData], seed: int = 0, **options: Any
) -> Query:
    rng = np.random.default_rng(seed)
    return suggest(problem, data, rng=rng, options=Options(**options))


def _run(
    problem: BilevelProblem, functions: Functions, n_queries: int, **options: Any
) -> tuple[list[Query], dict[str, FunctionData]]:
    """Query one function per step, or all of them if coupled."""
    data = {name: data_of(np.empty((0, len(problem.space))), []) for name in problem.functions}
    queries, warm_starts = [], None
    for t in range(n_queries):
        query = suggest(
            problem,
            data,
            rng=np.random.default_rng(t),
            options=Options(**options),
            warm_starts=warm_starts,
        )
        warm_starts = query.warm_starts or warm_starts
        queries.append(query)
        asked = problem.functions if options.get("coupled") else (query.function,)
        for name in asked:
            X = np.concatenate([data[name].X, query.point[None]])
            y = np.append(data[name].y, functions[name](query.point))
            data[name] = data_of(X, y)
    return queries, data


# ----------------------------------------------------------------------------------------- start


def test_the_start_asks_for_each_function_in_turn() -> None:
    """Until each function has its initial observations, the one with the fewest is asked for."""
    problem = box_problem(1, 1, upper_constraints=("C",), lower_constraints=("c",))
    functions = {**SMOOTH, "C": lambda _: 1.0, "c": lambda _: 1.0}
    queries, data = _run(problem, functions, 12, n_initial=3)
    assert {query.reason for query in queries} == {"start"}
    assert {name: len(of.y) for name, of in data.items()} == dict.fromkeys(problem.functions, 3)
    for of in data.values():
        distances = np.linalg.norm(of.X[:, None] - of.X[None], axis=2)[np.triu_indices(3, 1)]
        assert distances.min() > 0.25


def test_a_function_without_any_observation_is_asked_for() -> None:
    """A function that is only pending cannot be modeled: it is asked for again, elsewhere."""
    problem = box_problem(1, 1)
    data = _data(problem, 5)
    pending = np.array([[0.5, 0.5]] * 5)
    data["lower"] = data_of(np.empty((0, 2)), [], pending)
    query = _step(problem, data, n_initial=1)
    assert (query.function, query.reason) == ("lower", "start")
    assert np.linalg.norm(query.point - 0.5) > 0.4


# --------------------------------------------------------------------------------------- queries


def test_a_query_follows_the_definitions() -> None:
    """Point, function and reassignment are those of Eqs. (4.6) to (4.8), recomputed."""
    problem = grid_problem(25, 25)
    reasons = set()
    for n in (4, 6, 7, 9, 11, 13):
        for many in (True, False):
            data = _data(problem, n, seed=n)
            query = _step(problem, data, many_responses=many)
            model = BilevelModel.fit(problem, data)
            points = problem.space.enumerate().reshape(25, 25, 2)
            u_F, u_f, l_f, sd_F, sd_f = (
                value.reshape(25, 25) for value in _bounds(model, points.reshape(-1, 2))
            )
            best = np.argmax(u_f, axis=1)
            rows = np.arange(25)
            trusted = u_f >= l_f[rows, best][:, None] if many else np.zeros((25, 25), dtype=bool)
            trusted[rows, best] = True
            i, j = np.unravel_index(np.argmax(np.where(trusted, u_F, -np.inf)), (25, 25))
            r_F = 4.0 * sd_F[i, j] / model.upper.spread
            r_f = 4.0 * sd_f[i, j] / model.lower.spread
            if j != best[i]:
                r_f += 4.0 * sd_f[i, best[i]] / model.lower.spread
            asked = "upper" if r_F >= r_f else "lower"
            if asked == "lower" and sd_f[i, best[i]] >= sd_f[i, j]:
                j = best[i]
            assert query.function == asked
            assert query.point == pytest.approx(points[i, j])
            assert query.regret_bounds == pytest.approx({"upper": r_F, "lower": r_f}, rel=1e-6)
            reasons.add(query.reason)
    assert reasons == {"optimism", "reassignment"}


def _bounds(model: BilevelModel, P: FloatArray) -> tuple[FloatArray, ...]:
    (mean_F, sd_F), (mean_f, sd_f) = model.upper.predict(P), model.lower.predict(P)
    return mean_F + 2.0 * sd_F, mean_f + 2.0 * sd_f, mean_f - 2.0 * sd_f, sd_F, sd_f


def test_every_tenth_query_verifies_the_solution() -> None:
    """The verification keeps the solution's x and asks for the lower level."""
    problem = box_problem(1, 1)
    data = _data(problem, 12)
    data["upper"] = data_of(data["upper"].X[:7], data["upper"].y[:7])  # 19 observations
    query = _step(problem, data)
    assert (query.reason, query.function) == ("verification", "lower")
    data["upper"] = data_of(data["upper"].X[:6], data["upper"].y[:6])
    assert _step(problem, data).reason != "verification"


def test_the_same_arguments_give_the_same_query() -> None:
    """A step is a function of observations, pending queries and the generator's state."""
    problem = box_problem(1, 2)
    data = _data(problem, 8)
    first, again, other = (_step(problem, data, seed) for seed in (3, 3, 4))
    assert (first.point == again.point).all()
    assert (first.function, first.regret_bounds) == (again.function, again.regret_bounds)
    assert (first.point != other.point).any()


def test_a_pending_query_is_not_repeated() -> None:
    """A function that is being evaluated at a point is not asked for at the same point."""
    problem = grid_problem(30, 30)
    data = _data(problem, 6)
    first = _step(problem, data)
    of = data[first.function]
    data[first.function] = data_of(of.X, of.y, first.point[None])
    second = _step(problem, data)
    assert first.function != second.function or (first.point != second.point).any()
    assert second.regret_bounds[first.function] != first.regret_bounds[first.function]


def test_infinite_epsilon_maximizes_the_upper_bound() -> None:
    """With every response trusted, the point is that of GP-UCB on F."""
    problem = grid_problem(20, 20)
    data = _data(problem, 7)
    query = _step(problem, data, epsilon=math.inf, many_responses=True, beta=9.0)
    model = BilevelModel.fit(problem, data)
    points = problem.space.enumerate()
    best = points[np.argmax(model.upper.bound(points, 3.0))]
    if query.reason != "reassignment":
        assert query.point == pytest.approx(best)
    pair = best_pair(
        trusted_sets(model, Options(epsilon=math.inf, many_responses=True, beta=9.0)),
        problem,
        rng=np.random.default_rng(0),
        anchors=np.empty((0, 2)),
    )
    assert pair.point == pytest.approx(best)


# ------------------------------------------------------------------------- feasibility, fallbacks


def test_an_infeasible_problem_is_declared_and_the_constraint_asked_for() -> None:
    """Once u_c < 0 everywhere, queries say so and go to the least violated point's constraint."""
    problem = box_problem(1, 1, upper_constraints=("C",))
    functions = {**SMOOTH, "C": lambda p: -1.0 - (p[0] - 0.3) ** 2}
    queries, _ = _run(problem, functions, 30)
    first = next(t for t, query in enumerate(queries) if query.infeasible)
    declared = queries[first:]
    assert {query.function for query in declared} == {"C"}
    assert {query.reason for query in declared} == {"infeasible"}
    assert all(query.infeasible for query in declared)


def test_feasibility_is_asked_for_first() -> None:
    """Where the mean says a constraint is violated, it is asked for, if it is uncertain at all."""
    problem = box_problem(1, 1, upper_constraints=("C",), lower_constraints=("c",))
    point = np.array([0.5, 0.5])
    near = point + np.array([[0.02, 0.0], [0.0, 0.02], [-0.02, -0.02]])
    far = np.array([[0.0, 0.0], [1.0, 0.1], [0.1, 1.0]])
    for y_C, X_C, asked in (
        (-1.0, far + 0.3 * (point - far), "C"),
        (1.0, far + 0.3 * (point - far), "lower"),
        (-1.0, near, "lower"),
    ):
        data = {
            "upper": data_of(near, [1.0, 1.1, 0.9]),
            "lower": data_of(far, [1.0, 0.0, -1.0]),
            "C": data_of(X_C, np.full(3, y_C)),
            "c": data_of(near, np.ones(3)),
        }
        model = BilevelModel.fit(problem, data)
        bounds = trusted_sets(model, Options()).regret_bounds(point, point)
        assert max(bounds, key=bounds.__getitem__) == "lower"
        assert bilbo._asked(model, point, bounds) == asked


def test_a_feasible_problem_is_not_declared() -> None:
    """A constraint that holds in a corner only does not stop the search."""
    problem = box_problem(1, 1, upper_constraints=("C",))
    functions = {**SMOOTH, "C": lambda p: 0.2 - p[0] - 0.1 * p[1]}
    queries, data = _run(problem, functions, 50)
    assert not any(query.infeasible for query in queries)
    model = BilevelModel.fit(problem, data)
    pair = solve(model, problem, rng=np.random.default_rng(0))
    assert pair.tier == 0
    assert pair.point == pytest.approx([0.2 / 1.1, 0.2 / 1.1], abs=0.04)


def test_where_no_model_can_be_fitted_the_space_is_filled() -> None:
    """Values that overflow end in a space-filling query with a note, not in an error."""
    problem = box_problem(1, 1)
    data = _data(problem, 4)
    data["lower"] = data_of(data["lower"].X, [np.finfo(float).max, -np.finfo(float).max, 0.0, 1.0])
    with np.errstate(all="ignore"):
        query = _step(problem, data)
    assert query.reason in {"fallback", "optimism", "reassignment"}
    data = _data(problem, 4)
    data["lower"] = FunctionData(
        X=np.full((4, 2), np.nan), y=np.arange(4.0), pending=np.empty((0, 2))
    )
    query = _step(problem, data)
    assert query.reason == "fallback"
    assert "no model could be used" in query.notes[0]
    assert ((query.point >= 0.0) & (query.point <= 1.0)).all()


# ------------------------------------------------------------------------------------- whole runs


@pytest.mark.parametrize("coupled", [True, False])
def test_a_smooth_problem_is_solved(coupled: bool) -> None:
    """Forty function values are enough for a quadratic problem, in both forms."""
    problem = box_problem(1, 1)
    _, data = _run(problem, SMOOTH, 20 if coupled else 40, coupled=coupled)
    model = BilevelModel.fit(problem, data)
    pair = solve(model, problem, rng=np.random.default_rng(0))
    assert pair.point == pytest.approx([0.5, 0.5], abs=0.05)


def test_reassignment_explores_the_lower_level() -> None:
    """With many responses, some of the lower level's queries go to its best response."""
    problem = box_problem(1, 1)
    queries, _ = _run(problem, SMOOTH, 30, many_responses=True)
    assert any(query.reason == "reassignment" for query in queries)
    assert {query.function for query in queries if query.reason == "reassignment"} == {"lower"}


def test_at_rest_it_explores() -> None:
    """Where all is known at the query point, wider bounds choose one that teaches something."""
    problem = grid_problem(20, 20)
    points = problem.space.enumerate()
    known = points[(points[:, 0] > 0.5) & (points[:, 1] > 0.5)]
    data = {
        "upper": data_of(known, -((known[:, 0] - 0.8) ** 2) - (known[:, 1] - 0.8) ** 2),
        "lower": data_of(known, -((known[:, 1] - 0.8) ** 2)),
    }
    wide = _step(problem, data)
    assert wide.reason == "exploration"
    assert max(wide.regret_bounds.values()) >= 0.03
    assert min(wide.point) < 0.5
    model = BilevelModel.fit(problem, data)
    trusted = trusted_sets(model, Options())
    pair = best_pair(trusted, problem, rng=np.random.default_rng(0), anchors=np.empty((0, 2)))
    assert max(trusted.regret_bounds(pair.point, pair.best).values()) < 0.03


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"beta": 0.0}, ValueError, "beta must be a positive number, but got 0.0"),
        ({"beta": "4"}, TypeError, "beta must be a positive number"),
        ({"epsilon": -1.0, "many_responses": True}, ValueError, "epsilon must be at least 0"),
        ({"epsilon": 0.1}, ValueError, "epsilon must be 0 unless many_responses is True"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be at least 0, but got nan"),
        ({"many_responses": 1}, TypeError, "many_responses must be True or False"),
        ({"n_initial": 0}, ValueError, "n_initial must be an integer of at least 1"),
        ({"coupled": None}, TypeError, "coupled must be True or False"),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """An option that makes no sense is refused by name."""
    with pytest.raises(error, match=message):
        Options(**options)


def test_data_must_be_of_the_problems_functions() -> None:
    """A missing, an unknown function and points of another dimension are refused by name."""
    problem = box_problem(1, 1, upper_constraints=("C",))
    functions = {**SMOOTH, "C": lambda _: 1.0}
    data = _data(problem, 3, functions)
    rng = np.random.default_rng(0)
    missing = {name: of for name, of in data.items() if name != "C"}
    with pytest.raises(ValueError, match="data must be of the functions"):
        suggest(problem, missing, rng=rng)
    with pytest.raises(ValueError, match="data must be of the functions"):
        suggest(problem, {**data, "D": data["C"]}, rng=rng)
    with pytest.raises(ValueError, match="points of 'C' must have 2 coordinates, but got 3"):
        suggest(problem, {**data, "C": data_of(np.ones((3, 3)), [1.0, 1.0, 1.0])}, rng=rng)


def test_the_defaults_are_those_of_the_module() -> None:
    """Without options: β = 4, P̄, decoupled, no ε."""
    options = Options()
    model = random_model(box_problem(1, 1), 4, 0)
    trusted = trusted_sets(model, options)
    assert (trusted.sqrt_beta, trusted.epsilon, trusted.many_responses) == (2.0, 0.0, False)
    assert (options.n_initial, options.coupled) == (3, False)
    assert bilbo.DEFAULT_BETA == 4.0
    observed = model.observed
    assert len(anchors_of(trusted, observed)) == 8
    assert np.isfinite(posterior(model.upper, observed)).all()
