"""Objectives of the stopping benchmark: the paper's functions, and the split into halves."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.problems.problem import from_unit
from benchmarks.stopping import problems as stopping_problems
from benchmarks.stopping.problems import Objective, objective_of

# Published minima, and values at (1/2, 2) by the published definitions.
KNOWN = {
    "holder_table": (-19.208502567886743, -0.2813667),
    "cross_in_tray": (-2.0626118708227397, -1.8984037),
    "six_hump_camel": (-1.0316284534898774, 49.8739583),
    "easom": (-1.0, 9.24773e-05),
    "rosenbrock2": (0.0, 306.5),
    "booth": (0.0, 10.25),
}


def value_at(objective: Objective, x: np.ndarray) -> float:
    """Return the value at the point x (d,)."""
    return objective.problem.value(dict(zip(objective.problem.space, x.tolist(), strict=True)))


@pytest.mark.parametrize("name", KNOWN)
def test_minima_are_those_of_the_literature(name: str) -> None:
    """The known minimum is attained at argmin, and nothing near or far is below it."""
    objective = objective_of(name, Path())
    problem = objective.problem
    best = np.array(list(problem.argmin.values()))
    assert problem.minimum == pytest.approx(KNOWN[name][0], abs=1e-9)
    near = best + 0.1 * np.random.default_rng(1).standard_normal((200, 2))
    assert min(value_at(objective, x) for x in [*near, *(best + 1e-4 * (near - best))]) > (
        problem.minimum
    )
    points = np.random.default_rng(0).random((2000, 2))
    values = [problem.value(from_unit(problem.space, point)) for point in points]
    assert min(values) >= problem.minimum
    assert problem.group == objective.family == "paper"


@pytest.mark.parametrize("name", KNOWN)
def test_formulas(name: str) -> None:
    """One more value of each function, away from the minimum."""
    z0, z1 = 0.5, 2.0
    assert value_at(objective_of(name, Path()), np.array([z0, z1])) == pytest.approx(
        KNOWN[name][1], abs=1e-6
    )


def test_the_four_equal_minima() -> None:
    """Holder table and cross-in-tray are the same in every quadrant."""
    for name in ("holder_table", "cross_in_tray"):
        objective = objective_of(name, Path())
        best = np.array(list(objective.problem.argmin.values()))
        for signs in ((-1, 1), (1, -1), (-1, -1)):
            assert value_at(objective, best * signs) == pytest.approx(objective.problem.minimum)


def test_halves_are_fixed_and_both_used() -> None:
    """The split does not change from process to process, and no half is nearly empty."""
    by_hand = {"booth": "in-sample", "six_hump_camel": "held-out", "branin": "in-sample"}
    for name, half in by_hand.items():
        assert objective_of(name, Path()).half == half
    functions = [n for n in stopping_problems.NAMES if not stopping_problems.needs_table(n)]
    objectives = [objective_of(name, Path()) for name in functions]
    counts = Counter((o.family, o.half) for o in objectives)
    assert all(
        counts[family, half] >= 1
        for family in {o.family for o in objectives}
        for half in stopping_problems.HALVES
    )


def test_largest_regret_is_the_range() -> None:
    """On Booth's function the largest regret of a random point is near the corner's 2594."""
    objective = objective_of("booth", Path())
    assert objective.problem.scale < 400.0
    assert 2000.0 < objective.largest_regret < 2594.0
