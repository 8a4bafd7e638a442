"""The bilevel benchmark: same start for everyone, budgets kept, resuming, tables."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bilevel
from benchmarks.bilevel_entrants import N_INITIAL, STRATEGIES, Campaign, can_nest, problem_of
from benchmarks.bilevel_problems import TASKS
from benchmarks.bilevel_task import LOWER, UPPER
from benchmarks.report import Report, read_records

BRANIN = TASKS["branin-goldstein"]


def options(**values: object) -> argparse.Namespace:
    """Return the options of a tiny run."""
    given: dict[str, object] = {
        "tasks": ["branin-goldstein", "mixed"],
        "entrants": ["sobol", "nested"],
        "seeds": 2,
        "first_seed": 0,
        "queries": 20,
        "quick": True,
    }
    return argparse.Namespace(**(given | values))


def test_everyone_starts_alike() -> None:
    """Two campaigns of a seed have the same first observations, of another seed others."""
    first, again, other = (Campaign(BRANIN, seed) for seed in (0, 0, 1))
    assert first.values == again.values
    assert first.values != other.values
    assert first.n_queries == N_INITIAL * 2


@pytest.mark.parametrize("name", STRATEGIES)
def test_nobody_exceeds_the_budget(name: str) -> None:
    """A strategy stops at the number of queries it is given, and uses nearly all of it."""
    campaign = Campaign(BRANIN, 0)
    for n in (13, 25):
        STRATEGIES[name](campaign, n)
        assert n - 2 <= campaign.n_queries <= n


def test_observations_are_maximized_and_noisy() -> None:
    """An observation is minus the standardized value, give or take its noise."""
    campaign = Campaign(BRANIN, 0)
    point = np.array([0.2, 0.6])
    params = campaign.problem.space.decode(point)
    seen = [campaign.observe(UPPER, point) for _ in range(200)]
    assert np.mean(seen) == pytest.approx(-BRANIN.value(UPPER, params), abs=0.003)
    assert np.std(seen) == pytest.approx(BRANIN.noise_sd, rel=0.3)


def test_nested_solves_the_lower_level() -> None:
    """Its solution was visited, and answers x better than a random response does."""
    campaign = Campaign(TASKS["smd6-bounded"], 0)
    solution = STRATEGIES["nested"](campaign, 200)
    assert solution is not None
    task = campaign.task
    regret = task.regrets(campaign.problem.space.decode(solution))[LOWER]
    space = campaign.problem.space
    others = [
        task.regrets(space.decode(point))[LOWER]
        for point in np.random.default_rng(0).random((50, len(space)))
    ]
    assert regret < np.median(others)
    assert any((solution == point).all() for point in campaign.points[UPPER])


def test_nested_goes_on_after_a_checkpoint() -> None:
    """Interrupted in the middle of a solve, it makes the queries of an uninterrupted run."""
    whole, pieces = Campaign(BRANIN, 0), Campaign(BRANIN, 0)
    expected = STRATEGIES["nested"](whole, 60)
    for n in (9, 17, 40, 60):
        solution = STRATEGIES["nested"](pieces, n)
    assert pieces.values == whole.values
    np.testing.assert_array_equal(solution, expected)


def test_nested_takes_part_where_it_can() -> None:
    """Constraints and categories are not for it; infeasible problems are for ours only."""
    assert can_nest(BRANIN)
    assert not can_nest(TASKS["smd12-bounded"])
    assert not can_nest(TASKS["mixed"])
    names = list(STRATEGIES)
    assert bilevel.entrants_of(TASKS["mixed"], names) == [n for n in names if n != "nested"]
    assert bilevel.entrants_of(TASKS["branin-infeasible"], names) == ["ours"]


def test_trusted_rand_observes_every_function_at_answered_points() -> None:
    """Each of its points is observed in all functions, and is a good response to its x."""
    campaign = Campaign(BRANIN, 0)
    STRATEGIES["trusted-rand"](campaign, 60)
    later = {name: np.array(campaign.points[name][N_INITIAL:]) for name in (UPPER, LOWER)}
    assert (later[UPPER] == later[LOWER]).all()
    regrets = [
        BRANIN.regrets(campaign.problem.space.decode(point))[LOWER] for point in later[UPPER][-10:]
    ]
    assert np.median(regrets) < 0.5


def test_the_spaces_are_the_tasks() -> None:
    """Parameters, levels and functions of a task arrive in the method's problem."""
    problem = problem_of(TASKS["smd12-bounded"])
    assert problem.space.names == ("a0", "b0", "c0", "c1", "d0")
    assert problem.functions == (UPPER, LOWER, "gap", "a", "b", "c0", "c1", "size")


def test_report_and_resume(tmp_path: Path) -> None:
    """All runs are in the tables; a second run repeats none; what cannot take part is named."""
    report = Report(name="bilevel", directory=tmp_path, command="test")
    bilevel.run(options(), report)
    text = report.text()
    assert "SKIPPED nested on mixed" in text
    assert "| branin-goldstein | nested " in text
    assert "continuous" in text
    records = read_records(report.records_path)
    assert len(records) == 6
    assert [point["n_queries"] for point in records[0]["curve"]] == [8, 12, 16, 20]
    bilevel.run(options(), Report(name="bilevel", directory=tmp_path, command="test"))
    assert len(read_records(report.records_path)) == 6


def test_regret_of_each_function_over_queries() -> None:
    """F, f and the sum of the constraints' violations are told apart, and averaged over seeds."""
    curves: list[list[dict[str, float]]] = [
        [{"n_queries": 8, UPPER: 0.5, LOWER: 0.25, "a": 1.0, "b": 0.5}],
        [{"n_queries": 8, UPPER: 0.0, LOWER: 0.25, "a": 0.0, "b": 0.5}, {"n_queries": 9}],
    ]
    assert bilevel.by_function(curves[0][0]) == (0.5, 0.25, 1.5)
    rows = bilevel._curve_rows([{"curve": curve[:1]} for curve in curves])
    assert rows == [["8", "0.25", "0.25", "1", "1.5"]]


def test_declarations_are_reported(tmp_path: Path) -> None:
    """For problems with constraints the report says what was declared, and what is true."""
    report = Report(name="bilevel", directory=tmp_path, command="test")
    bilevel.run(options(tasks=["branin-infeasible"], entrants=["ours"], seeds=1), report)
    assert "| branin-infeasible | infeasible |" in report.text()


def test_checkpoints_end_at_the_budget() -> None:
    """A run is judged at equal shares of its budget."""
    assert bilevel.checkpoints(150) == [30, 60, 90, 120, 150]
    assert bilevel.total({"n_queries": 30, UPPER: 0.25, LOWER: 0.5}) == pytest.approx(0.75)
