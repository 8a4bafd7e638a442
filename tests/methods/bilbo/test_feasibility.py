"""Feasibility in BILBO: looking for it, asking for it first, declaring that there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.methods.bilbo import algorithm as bilbo
from bbo_plugins.methods.bilbo.algorithm import Options, trusted_sets
from bbo_plugins.methods.bilbo.model import BilevelModel
from tests.oracles.bilbo_runs import SMOOTH, run, step
from tests.oracles.bilevel import box_problem, data_of, grid_problem

if TYPE_CHECKING:
    from bbo_plugins.methods.bilbo.model import BilevelProblem
    from bbo_plugins.space.dimension import FloatArray


def test_an_infeasible_problem_is_declared_and_the_constraint_asked_for() -> None:
    """Once u_c < 0 everywhere, queries say so and go to the least violated point's constraint."""
    problem = box_problem(1, 1, upper_constraints=("C",))
    functions = {**SMOOTH, "C": lambda p: -1.0 - (p[0] - 0.3) ** 2}
    queries, _ = run(problem, functions, 30)
    first = next(t for t, query in enumerate(queries) if query.infeasible)
    assert first <= 12  # nine observations are the start
    declared = queries[first:]
    assert {query.function for query in declared} == {"C"}
    assert {query.reason for query in declared} == {"infeasible"}
    assert all(query.infeasible for query in declared)


def _hopeless(n: int, seed: int, feasible: FloatArray) -> tuple[BilevelProblem, dict[str, Any]]:
    """Return a grid problem whose constraints, C known better than c, are violated where seen.

    All functions are also observed at ``feasible`` (m, 2), where the constraints hold.
    """
    problem = grid_problem(20, 20, upper_constraints=("C",), lower_constraints=("c",))
    rng = np.random.default_rng(seed)
    data = {}
    for name, count in (("upper", n), ("lower", n), ("C", 3 * n), ("c", n)):
        X = problem.space.snap(rng.random((count, 2)))
        y = rng.standard_normal(count) if name not in {"C", "c"} else -1.0 - rng.random(count)
        X, y = np.concatenate([X, feasible]), np.append(y, np.ones(len(feasible)))
        data[name] = data_of(X, y)
    return problem, data


@pytest.mark.parametrize("seed", range(4))
def test_where_nothing_feasible_is_known_it_is_looked_for(seed: int) -> None:
    """The point has the largest smallest u_c; of the violated ones C, known better, is asked for.

    C is the nearest to excluding the space: its largest u_c is the smaller one.
    """
    problem, data = _hopeless(3, seed, np.empty((0, 2)))
    query = step(problem, data)
    model = BilevelModel.fit(problem, data)
    points = problem.space.enumerate()
    bounds = {c.name: np.dot((1.0, 2.0), c.predict(points)) for c in model.constraints}
    slack = np.minimum(bounds["C"], bounds["c"])
    assert bilbo.feasibility_is_open(model)
    assert query.reason == ("feasibility" if slack.max() >= 0.0 else "infeasible")
    assert query.infeasible is bool(slack.max() < 0.0)
    assert query.x == pytest.approx(points[np.argmax(slack)])
    violated = [
        c.name for c in model.constraints if c.process.predict_mean(query.x[None])[0] < -0.02
    ]
    assert query.function == min(violated, key=lambda name: bounds[name].max())


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
        assert bilbo.function_query(model, point, bounds) == asked
