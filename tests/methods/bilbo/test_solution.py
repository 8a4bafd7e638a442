"""What is reported as the solution: caution, ties, constraints, verification, Eq. (4.9)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.methods.bilbo.solution import SolutionCriterion, solve, verification
from bbo_plugins.methods.bilbo.trusted_sets import TrustedSets
from tests.oracles.bilevel import (
    assembled,
    box_problem,
    grid_problem,
    known_model,
    posterior,
    random_model,
)

BOTH = {"upper_constraints": ("C",), "lower_constraints": ("c",)}

if TYPE_CHECKING:
    from bbo_plugins.methods.bilbo.model import BilevelModel, BilevelProblem
    from bbo_plugins.methods.bilbo.search import Pair
    from bbo_plugins.space.dimension import FloatArray


def _known(problem: BilevelProblem, n: int = 200, **formulas: str) -> BilevelModel:
    """Return models that know each function, a formula of x and z, at ``n`` random points."""
    points = np.random.default_rng(0).random((n, 2))
    names = {"x": points[:, 0], "z": points[:, 1], "np": np}
    values = {name: eval(formula, names) for name, formula in formulas.items()}  # noqa: S307
    return assembled(
        problem,
        {
            name: known_model(name, points, np.broadcast_to(values[name], n), length_scale=0.5)
            for name in problem.functions
        },
    )


@pytest.mark.parametrize("box", [True, False])
def test_a_well_known_problem_is_solved(box: bool) -> None:
    """The solution is the best answered pair, not the best pair."""
    problem = box_problem(1, 1) if box else grid_problem(100, 100)
    model = _known(
        problem, upper="-20 * (x - 0.8)**2 - 20 * (z - 0.2)**2", lower="-20 * (z - x)**2"
    )
    pair = solve(model, problem, rng=np.random.default_rng(0))
    assert pair.tier == 0
    assert pair.point == pytest.approx([0.5, 0.5], abs=0.03)


@pytest.mark.parametrize(
    "many, gap, noise, z",
    [
        (True, 0.005, 1e-4, 0.9),
        (True, 0.005, 1e-6, None),  # a difference of five deviations is no tie
        (True, 0.1, 1e-2, None),  # nor is a large one, however uncertain
        (False, 0.005, 1e-4, None),
    ],
)
def test_of_equal_responses_the_upper_level_chooses(
    many: bool, gap: float, noise: float, z: float | None
) -> None:
    """With many responses, those within a tie take part and F decides; else the best mean does."""
    problem = grid_problem(1, 50)
    rows = problem.space.enumerate()
    lower = np.where((rows[:, 1] > 0.1) & (rows[:, 1] < 0.9), 1.0, 0.0)
    lower[25] += gap
    models = {
        "upper": known_model("upper", rows, rows[:, 1], noise=1e-6, length_scale=0.05),
        "lower": known_model("lower", rows, lower, noise=noise, length_scale=0.05),
    }
    pair = solve(
        assembled(problem, models), problem, rng=np.random.default_rng(0), many_responses=many
    )
    expected = float(rows[25, 1]) if z is None else z
    assert pair.point[1] == pytest.approx(expected, abs=0.021)


@pytest.mark.parametrize("name, many", [("upper", True), ("lower", False), ("c", True)])
def test_where_queries_failed_there_is_no_solution(name: str, many: bool) -> None:
    """A function that fails beyond x = 0.6 is not continued there, however smooth it is."""
    problem = box_problem(1, 1, **BOTH)
    one = "1 + 0 * x"
    model = _known(problem, upper="9 * x + 0 * z", lower="z - z**2", C=one, c=one)
    P = model.lower.process.X[model.lower.process.X[:, 0] < 0.6]
    beyond = np.random.default_rng(1).random((100, 2)) * [0.4, 1.0] + [0.6, 0.0]

    def solved(failed: FloatArray) -> Pair:
        functions = {f.name: f for f in model.functions}
        values = functions[name].process.y[model.lower.process.X[:, 0] < 0.6]
        part = known_model(name, P, values, length_scale=0.5)
        functions[name] = replace(part, failed=failed)
        rng = np.random.default_rng(0)
        return solve(assembled(problem, functions), problem, rng=rng, many_responses=many)

    assert solved(np.empty((0, 2))).point[0] > 0.7
    pair = solved(beyond)
    assert pair.tier == 0
    assert 0.5 < pair.point[0] < 0.65
    assert pair.best[1] == pytest.approx(0.5, abs=0.05)


def test_the_cautious_value_is_the_formula() -> None:
    """μ_F - (σ_F + σ_f(z) + σ_f(z*) + Σ σ_c), constraints by their means and a tolerance."""
    problem = box_problem(1, 1, **BOTH)
    model = random_model(problem, 9, 0)
    known, c = (
        known_model(one.name, one.process.X, one.process.y, noise=1e-6)
        for one in (model.lower, *model.lower_constraints)
    )
    model = replace(model, lower=known, lower_constraints=(c,))
    rng = np.random.default_rng(0)
    P, best = rng.random((2, 6, 2))
    for at in (P, best):  # a failed response fails the pair, whichever of the two it is
        failing = replace(model, lower=replace(known, failed=at[2:3]))
        failing_slack = SolutionCriterion(failing).upper_level(P, best).slack
        nearest = np.linalg.norm(known.process.X - at[2], axis=1).min()
        slack = min(-nearest, SolutionCriterion(model).upper_level(P, best).slack[2])
        assert failing_slack[2] == pytest.approx(slack)
    Q = model.lower.process.X  # where f is known best
    upper = SolutionCriterion(model).upper_level(P, best)
    lower = SolutionCriterion(model).lower_level(P)
    moments = {f.name: posterior(f, P) for f in model.functions}
    doubt = sum(sd for _, sd in moments.values()) + posterior(model.lower, best)[1]
    assert upper.value == pytest.approx(moments["upper"][0] - doubt, abs=1e-6)
    mean, sd = moments["C"]
    assert upper.slack == pytest.approx(mean + np.minimum(sd, 0.02), abs=1e-6)
    assert lower.value == pytest.approx(moments["lower"][0], abs=1e-6)
    assert lower.upper_bound == pytest.approx(moments["lower"][0], abs=1e-6)
    assert lower.lower_bound == pytest.approx(moments["lower"][0], abs=1e-6)
    many = SolutionCriterion(model, many_responses=True).lower_level(np.concatenate([P, Q]))
    mean, sd = posterior(model.lower, np.concatenate([P, Q]))
    assert sd.min() < 0.005 < sd.max()
    tie = np.minimum(sd, 0.005)
    assert many.value == pytest.approx(mean, abs=1e-5)
    assert many.upper_bound == pytest.approx(mean + tie, abs=1e-5)
    assert many.lower_bound == pytest.approx(mean - tie, abs=1e-5)
    mean, sd = posterior(c, np.concatenate([P, c.process.X]))
    assert sd.min() < 0.02 < sd.max()
    slack = SolutionCriterion(model).lower_level(np.concatenate([P, c.process.X])).slack
    assert slack == pytest.approx(mean + np.minimum(sd, 0.02), abs=1e-6)


@pytest.mark.parametrize(
    "epsilon, point", [(0.0, [0.5, 0.5]), (0.8, [0.6, 0.4]), (np.inf, [0.8, 0.2])]
)
def test_responses_that_are_worse_by_epsilon_take_part(epsilon: float, point: list[float]) -> None:
    """With 20 (z - x)² <= ε the upper level has its way along with the answer."""
    problem, upper = box_problem(1, 1), "-20 * (x - 0.8)**2 - 20 * (z - 0.2)**2"
    model = _known(problem, upper=upper, lower="-20 * (z - x)**2")
    rng = np.random.default_rng(0)
    pair = solve(model, problem, rng=rng, many_responses=True, epsilon=epsilon)
    assert pair.tier == 0
    assert pair.point == pytest.approx(point, abs=0.03)


def test_verification_asks_for_a_response_that_may_be_better() -> None:
    """The query keeps x̂, and goes to the unknown answer that could still beat the known one."""
    problem = box_problem(1, 1)
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.random(40), np.full(10, 0.5)])
    z = np.concatenate([0.4 * rng.random(40), np.linspace(0.0, 0.4, 10)])
    P = np.column_stack([x, z])
    model = assembled(
        problem,
        {
            "upper": known_model("upper", P, np.zeros(50)),
            "lower": known_model("lower", P, 0.1 - np.square(z - 0.2)),
        },
    )
    solution = solve(model, problem, rng=rng)
    point, name = verification(TrustedSets(model, 2.0), problem, solution, rng)
    assert name == "lower"
    assert point[0] == solution.point[0]
    assert solution.point[1] < 0.5
    assert point[1] > 0.8
