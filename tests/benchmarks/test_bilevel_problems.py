"""The bilevel test problems: their solutions, lower-level minima, constraints and scales."""

import math
from collections.abc import Mapping

import numpy as np
import pytest
from optuna.distributions import BaseDistribution

from benchmarks.bilevel.problems import TASKS
from benchmarks.bilevel.task import LOWER, UPPER, Array, BilevelTask
from benchmarks.problems.problem import cube_of, space_filling

FEASIBLE = [name for name, task in TASKS.items() if task.solution is not None]
SMD = [name for name in FEASIBLE if name.startswith("smd")]
N_UPPER, N_LOWER = 400, 400


def _sample(space: Mapping[str, BaseDistribution], n: int, seed: int) -> Array:
    """Return points (n, d) of one level in the functions' units; categories are indices."""
    cube = cube_of(space)
    unit = space_filling(n, len(space), np.random.default_rng(seed))
    rows = [cube.decode(point) for point in unit]
    return np.array([[at.to_internal_repr(row[k]) for k, at in space.items()] for row in rows])


@pytest.mark.parametrize("name", FEASIBLE)
def test_the_solution_has_no_regret(name: str) -> None:
    """At the solution both objectives are optimal and every constraint holds."""
    task = TASKS[name]
    assert task.solution is not None
    regrets = task.regrets(task.solution)
    assert set(regrets) == set(task.functions)
    assert max(regrets.values()) < 1e-6


@pytest.mark.parametrize("name", FEASIBLE)
def test_no_response_beats_the_lower_minimum(name: str) -> None:
    """For random x, no random response in the box and feasible is below the stated minimum."""
    task = TASKS[name]
    x = _sample(task.upper_space, 60, 1)
    z = _sample(task.lower_space, N_LOWER, 2)
    X, Z = np.repeat(x, len(z), axis=0), np.tile(z, (len(x), 1))
    minima = np.repeat(task.lower_minimum(x), len(z))
    feasible = np.all([task.functions[c](X, Z) <= 0.0 for c in task.lower_constraints], axis=0)
    values = task.functions[LOWER](X, Z)
    assert (values >= minima - 1e-9)[feasible | np.zeros(len(X), dtype=bool)].all()


def _response(task: BilevelTask, x: Array) -> Array:
    """Return a best response (n, d_z) to x (n, d_x) of an SMD problem, from its formulas."""
    number = task.name.split("-")[0][3:]
    n_a = sum(name.startswith("a") for name in task.upper_space)
    n_c = sum(name.startswith("c") for name in task.lower_space)
    b = x[:, n_a:]
    c = np.full((len(x), n_c), 1.0 if number in {"5", "8", "12"} else 0.0)
    bounded_log = np.clip((np.exp(b) - 0.01) / 0.99, 0.0, math.e)
    d = {
        "1": np.arctan(b),
        "2": bounded_log if "bounded" in task.name else np.exp(b),
        "3": np.arctan(b**2),
        "4": np.expm1(np.abs(b)),
        "5": np.sqrt(np.abs(b)),
        "6": b,
        "7": np.exp(b),
        "8": np.cbrt(b),
        "12": np.arctanh(np.clip(b - np.where(b > 0.0, 1.0, -1.0), -0.99999, 0.99999)),
    }[number]
    return np.concatenate([c, d], axis=1)


@pytest.mark.parametrize("name", SMD)
def test_the_lower_minimum_is_attained_in_the_box(name: str) -> None:
    """For every x the response of the formula lies in the box and attains the stated minimum."""
    task = TASKS[name]
    x = _sample(task.upper_space, N_UPPER, 3)
    z = _response(task, x)
    low = np.array([getattr(d, "low", 0.0) for d in task.lower_space.values()])
    high = np.array([getattr(d, "high", 0.0) for d in task.lower_space.values()])
    inside = ((z >= low) & (z <= high)).all(axis=1)
    if name == "smd12-bounded":  # for small |b| the lower level is infeasible
        assert inside.mean() > 0.85
        x, z = x[inside], z[inside]
    else:
        assert inside.all()
    assert task.functions[LOWER](x, z) == pytest.approx(task.lower_minimum(x), abs=1e-8)
    for constraint in task.lower_constraints:
        assert task.functions[constraint](x, z).max() <= 1e-9


@pytest.mark.parametrize("name", SMD)
def test_no_answered_upper_point_beats_the_solution(name: str) -> None:
    """Over random x, anywhere and near the optimum, F at the response is never below F there."""
    task = TASKS[name]
    assert task.solution is not None
    best_x, best_z = task.points(task.solution)
    x = _sample(task.upper_space, 6000, 4)
    closer = np.repeat([1.0, 0.1, 0.01], 2000)[:, None]
    x = best_x + closer * (x - best_x)
    z = _response(task, x)
    feasible = np.ones(len(x), dtype=bool)
    for constraint in task.constraints:
        feasible &= task.functions[constraint](x, z) <= 1e-9
    low = np.array([getattr(d, "low", 0.0) for d in task.lower_space.values()])
    high = np.array([getattr(d, "high", 0.0) for d in task.lower_space.values()])
    feasible &= ((z >= low) & (z <= high)).all(axis=1)
    values = task.functions[UPPER](x, z)
    assert (values[feasible] >= float(task.functions[UPPER](best_x, best_z)) - 1e-9).all()


def test_branin_goldstein_price_by_enumeration() -> None:
    """On a grid of 1500 x 3000 points no pair of a best response and x beats the solution."""
    task = TASKS["branin-goldstein"]
    assert task.solution is not None
    x, z = np.linspace(0.0, 1.0, 1500), np.linspace(0.0, 1.0, 3000)
    best_F, at = np.inf, (0.0, 0.0)
    for start in range(0, len(x), 100):
        X = np.repeat(x[start : start + 100], len(z))[:, None]
        Z = np.tile(z, 100)[:, None]
        response = np.argmin(task.functions[LOWER](X, Z).reshape(100, -1), axis=1)
        rows = np.arange(100) * len(z) + response
        values = task.functions[UPPER](X[rows], Z[rows])
        if values.min() < best_F:
            i = int(np.argmin(values))
            best_F, at = float(values[i]), (float(X[rows][i, 0]), float(Z[rows][i, 0]))
    expected = float(task.functions[UPPER](*task.points(task.solution)))
    assert best_F == pytest.approx(expected, abs=1e-3)
    assert at == pytest.approx(tuple(task.solution.values()), abs=2e-3)


def test_the_mixed_problem_by_enumeration() -> None:
    """Over a fine grid of all levels no answered upper point beats the solution."""
    task = TASKS["mixed"]
    assert task.solution is not None
    price, amount = np.linspace(-1.0, 1.0, 401), np.linspace(-1.5, 1.5, 601)
    kinds = np.arange(3.0)
    z = np.stack([grid.ravel() for grid in np.meshgrid(amount, kinds)], axis=-1)
    best = np.inf
    for level in range(9):
        x = np.column_stack([price, np.full(401, level)])
        X, Z = np.repeat(x, len(z), axis=0), np.tile(z, (401, 1))
        rows = np.argmin(task.functions[LOWER](X, Z).reshape(401, -1), axis=1)
        best = min(best, float(task.functions[UPPER](x, z[rows]).min()))
    solution = float(task.functions[UPPER](*task.points(task.solution)))
    assert solution - 1e-6 <= best + 5e-3
    assert best == pytest.approx(solution, abs=5e-3)
    worse = {**task.solution, "kind": "plain"}
    assert task.regrets(worse)[LOWER] > 0.1


@pytest.mark.parametrize("name", ["branin-infeasible", "smd12-infeasible"])
def test_infeasible_problems_are_so_by_half(name: str) -> None:
    """The violated constraint is at least 0.5 everywhere, in units of its root mean square."""
    task = TASKS[name]
    rng = np.random.default_rng(0)
    worst = {"branin-infeasible": "wave", "smd12-infeasible": "gap"}[name]
    space = cube_of({**task.upper_space, **task.lower_space})
    corners = rng.integers(0, 2, size=(200, len(space))).astype(np.float64)
    values = [
        task.value(worst, space.decode(point))
        for point in np.concatenate([rng.random((1000, len(space))), corners])
    ]
    assert 0.48 <= min(values) < 0.55
    with pytest.raises(ValueError, match=f"{name} must have a solution"):
        task.regrets({})
