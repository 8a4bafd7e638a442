"""Objectives of the stopping benchmark: the paper's functions, and the split into halves."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks import stopping_problems
from benchmarks.hpo_grids import GRIDS
from benchmarks.hpo_tables import Table
from benchmarks.problem import from_unit
from benchmarks.stopping_problems import Objective, objective_of

PAPER = {objective.name: objective for objective in stopping_problems.paper_objectives()}
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


@pytest.mark.parametrize("name", PAPER)
def test_minima_are_those_of_the_literature(name: str) -> None:
    """The known minimum is attained at argmin, and nothing near or far is below it."""
    objective = PAPER[name]
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


@pytest.mark.parametrize("name", PAPER)
def test_formulas(name: str) -> None:
    """One more value of each function, away from the minimum."""
    z0, z1 = 0.5, 2.0
    assert value_at(PAPER[name], np.array([z0, z1])) == pytest.approx(KNOWN[name][1], abs=1e-6)


def test_the_four_equal_minima() -> None:
    """Holder table and cross-in-tray are the same in every quadrant."""
    for name in ("holder_table", "cross_in_tray"):
        objective = PAPER[name]
        best = np.array(list(objective.problem.argmin.values()))
        for signs in ((-1, 1), (1, -1), (-1, -1)):
            assert value_at(objective, best * signs) == pytest.approx(objective.problem.minimum)


def test_names_and_families() -> None:
    """There are at least 20 objectives beside the quick one, each family has some, none twice."""
    names = stopping_problems.default_names()
    assert len(names) == len(set(names)) >= 20
    assert set(names) | {stopping_problems.QUICK_TABLE} == set(stopping_problems.NAMES)
    tables = [name for name in names if stopping_problems.needs_table(name)]
    assert {name.removeprefix("noisy_") for name in tables} < set(GRIDS)
    families = [name.startswith("noisy_") for name in names]
    assert families == sorted(families)  # the noisy ones come last
    others = [objective_of(name, Path()) for name in names if name not in tables]
    assert {o.family for o in others} == {"paper", "smooth", "mixed", "noisy"}
    assert all((o.family == "noisy") == o.is_noisy for o in others)
    assert all(o.problem.dimension <= stopping_problems.MAX_DIMENSION for o in others)


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


def test_noise_does_not_change_the_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noisy objective is in the half of the one it is a noisy version of."""
    for name in stopping_problems.NAMES:
        plain = name.removeprefix("noisy_")
        if name != plain and plain in stopping_problems.NAMES:
            monkeypatch.setattr(stopping_problems, "table_of", made_up)
            assert objective_of(name, Path("x")).half == objective_of(plain, Path("x")).half
    stopping_problems.table_objective.cache_clear()


def made_up(grid: object, directory: Path) -> Table:
    """Return a table of random scores."""
    del directory
    known = GRIDS[grid.name]  # type: ignore[attr-defined]
    scores = np.random.default_rng(3).random((len(known.configurations), 5))
    return Table(grid=known, scores=scores)


def test_a_table_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its minimum is the smallest mean over folds, and a noisy one has the folds' error."""
    monkeypatch.setattr(stopping_problems, "table_of", made_up)
    stopping_problems.table_objective.cache_clear()
    plain = objective_of("svr_diabetes", Path("x"))
    noisy = objective_of("noisy_svr_diabetes", Path("x"))
    stopping_problems.table_objective.cache_clear()
    table = made_up(GRIDS["svr_diabetes"], Path("x"))
    means = table.scores.mean(axis=1)
    assert plain.problem.minimum == pytest.approx(means.min())
    assert plain.problem.regret(plain.problem.argmin) == 0.0
    assert (plain.family, noisy.family) == ("table", "noisy")
    assert plain.problem.noise_sd == 0.0
    # The median over configurations of sd / sqrt(5): some 0.29 / 2.24 for uniform scores.
    assert noisy.problem.noise_sd == pytest.approx(0.13, abs=0.01)
    assert noisy.problem.minimum == plain.problem.minimum
    params = table.grid.configurations[17]
    assert plain.fold_scores is not None
    assert plain.fold_scores(params) == table.scores[17].tolist()
    assert plain.problem.value(params) == pytest.approx(means[17])
    assert noisy.problem.observe(params, seed=0, number=0) != plain.problem.value(params)


def test_largest_regret_is_the_range() -> None:
    """On Booth's function the largest regret of a random point is near the corner's 2594."""
    objective = PAPER["booth"]
    assert objective.problem.scale < 400.0
    assert 2000.0 < objective.largest_regret < 2594.0
