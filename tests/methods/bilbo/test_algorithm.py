"""One step of BILBO: start, queries, reassignment, unanswered queries, reductions, bad input."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.methods.bilbo.algorithm import Options, trusted_sets
from bbo_plugins.methods.bilbo.model import BilevelModel
from bbo_plugins.methods.bilbo.search import best_pair
from bbo_plugins.methods.bilbo.solution import solve
from tests.oracles.bilbo_runs import SMOOTH, observations, run, step
from tests.oracles.bilevel import box_problem, data_of, grid_problem

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


# ----------------------------------------------------------------------------------------- start


def test_the_start_asks_for_each_function_in_turn() -> None:
    """Until each function has its initial observations, the one with the fewest is asked for."""
    problem = box_problem(1, 1, upper_constraints=("C",), lower_constraints=("c",))
    functions = {**SMOOTH, "C": lambda _: 1.0, "c": lambda _: 1.0}
    queries, data = run(problem, functions, 12, n_initial=3)
    assert {query.reason for query in queries} == {"start"}
    assert {name: len(of.y) for name, of in data.items()} == dict.fromkeys(problem.functions, 3)
    for of in data.values():
        distances = np.linalg.norm(of.X[:, None] - of.X[None], axis=2)[np.triu_indices(3, 1)]
        assert distances.min() > 0.25


def test_a_function_without_any_observation_is_asked_for() -> None:
    """A function without any answer cannot be modeled: it is asked for again, elsewhere."""
    problem = box_problem(1, 1)
    data = observations(problem, 5)
    unanswered = np.array([[0.5, 0.5]] * 5)
    data["lower"] = data_of(np.empty((0, 2)), [], unanswered)
    query = step(problem, data, n_initial=1)
    assert (query.function, query.reason) == ("lower", "start")
    assert np.linalg.norm(query.x - 0.5) > 0.4


# --------------------------------------------------------------------------------------- queries


def test_a_query_follows_the_definitions() -> None:
    """Point, function and reassignment are those of Eqs. (4.6) to (4.8), recomputed."""
    problem = grid_problem(25, 25)
    reasons = set()
    for n in (4, 6, 7, 9, 11, 13):
        for many in (True, False):
            data = observations(problem, n, seed=n)
            query = step(problem, data, options=Options(many_responses=many))
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
            r_F = 4.0 * sd_F[i, j] / model.upper.scale
            r_f = 4.0 * sd_f[i, j] / model.lower.scale
            if j != best[i]:
                r_f += 4.0 * sd_f[i, best[i]] / model.lower.scale
            asked = "upper" if r_F >= r_f else "lower"
            if asked == "lower" and sd_f[i, best[i]] >= sd_f[i, j]:
                j = best[i]
            assert query.function == asked
            assert query.x == pytest.approx(points[i, j])
            assert query.regret_bounds == pytest.approx({"upper": r_F, "lower": r_f}, rel=1e-6)
            reasons.add(query.reason)
    assert reasons == {"optimism", "reassignment"}


def _bounds(model: BilevelModel, P: FloatArray) -> tuple[FloatArray, ...]:
    (mean_F, sd_F), (mean_f, sd_f) = model.upper.predict(P), model.lower.predict(P)
    return mean_F + 2.0 * sd_F, mean_f + 2.0 * sd_f, mean_f - 2.0 * sd_f, sd_F, sd_f


def test_every_tenth_query_verifies_the_solution() -> None:
    """The verification keeps the solution's x and asks for the lower level."""
    problem = box_problem(1, 1)
    data = observations(problem, 12)
    data["upper"] = data_of(data["upper"].X[:7], data["upper"].y[:7])  # 19 observations
    query = step(problem, data)
    assert (query.reason, query.function) == ("verification", "lower")
    data["upper"] = data_of(data["upper"].X[:6], data["upper"].y[:6])
    assert step(problem, data).reason != "verification"


def test_an_unanswered_query_is_not_repeated() -> None:
    """A function that is being evaluated at a point is not asked for at the same point."""
    problem = grid_problem(30, 30)
    data = observations(problem, 6)
    first = step(problem, data)
    of = data[first.function]
    data[first.function] = data_of(of.X, of.y, first.x[None])
    second = step(problem, data)
    assert first.function != second.function or (first.x != second.x).any()
    assert second.regret_bounds[first.function] != first.regret_bounds[first.function]


def test_a_query_near_a_failed_one_says_so() -> None:
    """The nearest query of any function that has an outcome decides."""
    problem = grid_problem(25, 25)
    data = observations(problem, 9)
    assert not step(problem, data).near_failure
    for every, reason in ((5, "optimism"), (2, "exploration")):  # near the best query, and at it
        lower, failed = data["lower"], problem.space.enumerate()[::every]
        data["lower"] = data_of(lower.X, lower.y, failed=failed)
        query = step(problem, data)
        assert (query.reason, query.near_failure) == (reason, True)


# --------------------------------------------------------------------------- reduction, fallbacks


def test_a_single_response_gives_constrained_gp_ucb() -> None:
    """If z has one value, the query is argmax of u_F over where every u_c is at least zero."""
    problem = grid_problem(60, 1, upper_constraints=("C",), lower_constraints=("c",))
    points = problem.space.enumerate()
    X = points[::9]
    values = {
        "upper": np.sin(9.0 * X[:, 0]),
        "lower": np.zeros(len(X)),
        "C": 0.6 - X[:, 0],
        "c": X[:, 0] - 0.3,
    }
    data = {name: data_of(X, y) for name, y in values.items()}
    query = step(problem, data)
    model = BilevelModel.fit(problem, data)
    slack = np.min([c.bound(points, 2.0) for c in model.constraints], axis=0)
    u_F = np.where(slack >= 0.0, model.upper.bound(points, 2.0), -np.inf)
    assert 0 < (slack >= 0.0).sum() < len(points)
    assert query.reason == "optimism"
    assert query.x == pytest.approx(points[np.argmax(u_F)])
    assert np.argmax(u_F) != np.argmax(model.upper.bound(points, 2.0))


def test_where_no_model_can_be_fitted_the_space_is_filled() -> None:
    """Points without a place end in a space-filling query with a note."""
    problem = box_problem(1, 1)
    data = observations(problem, 4)
    data["lower"] = data_of(np.full((4, 2), np.nan), np.arange(4.0))
    query = step(problem, data)
    assert query.reason == "fallback"
    assert "no model could be used" in query.notes[0]
    assert ((query.x >= 0.0) & (query.x <= 1.0)).all()


# ------------------------------------------------------------------------------------- whole runs


@pytest.mark.parametrize("coupled", [True, False])
def test_a_smooth_problem_is_solved(coupled: bool) -> None:
    """Forty function values are enough for a quadratic problem, in both forms."""
    problem = box_problem(1, 1)
    _, data = run(problem, SMOOTH, 20 if coupled else 40, coupled=coupled)
    model = BilevelModel.fit(problem, data)
    pair = solve(model, problem, rng=np.random.default_rng(0))
    assert pair.point == pytest.approx([0.5, 0.5], abs=0.05)


def test_it_explores_once_stagnated() -> None:
    """Where all is known at the query point, wider bounds choose one that teaches something."""
    problem = grid_problem(20, 20)
    points = problem.space.enumerate()
    known = points[(points[:, 0] > 0.5) & (points[:, 1] > 0.5)]
    data = {
        "upper": data_of(known, -((known[:, 0] - 0.8) ** 2) - (known[:, 1] - 0.8) ** 2),
        "lower": data_of(known, -((known[:, 1] - 0.8) ** 2)),
    }
    wide = step(problem, data)
    assert wide.reason == "exploration"
    assert max(wide.regret_bounds.values()) >= 0.03
    assert min(wide.x) < 0.5
    model = BilevelModel.fit(problem, data)
    trusted = trusted_sets(model, Options())
    pair = best_pair(trusted, problem, rng=np.random.default_rng(0), anchors=np.empty((0, 2)))
    assert max(trusted.regret_bounds(pair.point, pair.best).values()) < 0.03


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"beta": 0.0}, ValueError, "beta must be a positive number, but got 0.0"),
        ({"epsilon": -1.0, "many_responses": True}, ValueError, "epsilon must be at least 0"),
        ({"epsilon": 0.1}, ValueError, "epsilon must be 0 unless many_responses is True"),
        ({"many_responses": 1}, TypeError, "many_responses must be True or False"),
    ],
)
def test_options_are_checked(options: dict[str, Any], error: type[Exception], message: str) -> None:
    """An option that makes no sense is refused by name."""
    with pytest.raises(error, match=message):
        Options(**options)


def test_options_are_kept_as_plain_numbers() -> None:
    """A fraction is a real number, but no function of arrays takes one."""
    third: Any = Fraction(1, 3)
    options = Options(beta=third, epsilon=third, many_responses=True)
    assert {type(options.beta), type(options.epsilon)} == {float}
