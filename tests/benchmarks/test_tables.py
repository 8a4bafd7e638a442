"""Tables of regrets against hand calculations, of runs that differ in length and seeds."""

import math

import numpy as np
import pytest

from benchmarks.common.report import Report
from benchmarks.common.tables import (
    RELATIVE_FLOOR,
    CheckpointTables,
    Comparison,
    behind,
    mean_ranks,
    paired,
)
from benchmarks.problems.functions import PROBLEMS

CELLS = {
    ("rosenbrock", 0): {"a": 1.0, "b": 2.0, "c": 3.0},
    ("rosenbrock", 1): {"a": 4.0, "b": 2.0},
    ("alpine", 0): {"a": 8.0, "b": 1.0, "c": 8.0},
}


def a_comparison(groups: dict[str, str]) -> Comparison:
    """Return the regrets of ``CELLS`` after two trials; after one they are twice as large."""
    curves: dict[str, dict[str, dict[int, np.ndarray]]] = {}
    for (problem, seed), cell in CELLS.items():
        for name, regret in cell.items():
            per_seed = curves.setdefault(problem, {}).setdefault(name, {})
            per_seed[seed] = np.array([2.0 * regret, regret])
    return Comparison(entrants=("a", "b", "c"), curves=curves, groups=groups)


def test_ranks_are_over_common_runs_and_problems_count_alike() -> None:
    """A problem's runs are averaged first; entrants without a common run have no ranks."""
    ranks, n = mean_ranks(CELLS, ["a", "b", "c"])
    assert ranks is not None
    assert (ranks.tolist(), n) == ([1.75, 1.5, 2.75], 2)
    ranks, n = mean_ranks(CELLS, ["a", "b"])
    assert ranks is not None
    assert (ranks.tolist(), n) == ([1.75, 1.25], 3)
    assert mean_ranks(CELLS, ["a", "d"]) == (None, 0)


def test_pairs_by_hand() -> None:
    """Wins are over runs, the ratio over problems: the mean of log 1/2 and log 2 is 0; log 8."""
    pair = paired(CELLS, "a", "b")
    assert pair is not None
    assert pair.counts == "1 / 0 / 2"
    assert pair.ratio == pytest.approx(math.sqrt(8.0))
    half = 1.96 * math.log(8.0) / 2.0  # the deviation of 0 and log 8 is log 8 / √2
    assert pair.low == pytest.approx(math.sqrt(8.0) * math.exp(-half))
    assert paired(CELLS, "a", "d") is None
    assert behind(CELLS, "a", "b") == pytest.approx({"alpine": 8.0, "rosenbrock": 1.25})
    assert behind(CELLS, "a", "c") == {}


def test_a_run_counts_up_to_its_length_and_negligible_regrets_are_equal() -> None:
    """After five trials a run of three is not compared; regrets are floored, infinite ones not."""
    problem = PROBLEMS["ackley5"]
    records = [
        {"problem": "ackley5", "entrant": name, "seed": 7, "regrets": regrets}
        for name, regrets in (("a", [9.0, 8.0, 7.0, 6.0, 0.0]), ("b", [None, 4.0, 4.0]))
    ]
    found = Comparison.of(records, ["b", "a", "absent"], {"ackley5": problem})
    assert found.entrants == ("b", "a")
    assert found.cells(3) == {("ackley5", 7): {"a": 7.0, "b": 4.0}}
    assert found.cells(5) == {("ackley5", 7): {"a": RELATIVE_FLOOR * problem.scale}}
    assert found.cells(1)["ackley5", 7]["b"] == 10.0 * problem.scale
    assert found.checkpoints([2, 5, 9]) == [2, 5]


def rows_of(report: Report, title: str) -> list[list[str]]:
    """Return the cells of the table whose title begins so."""
    section = next(text for text in report.sections if text.startswith(f"## {title}"))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()[2:]]


def test_checkpoint_tables(report: Report) -> None:
    """Medians, ranks and pairs by number of trials and group of problems."""
    tables = CheckpointTables(name="made up", trials=(1,), group=("kind", "kinds"))
    groups = {"rosenbrock": "seen", "alpine": "held out"}
    tables.add(report, a_comparison(groups), first=["b"])
    medians = rows_of(report, "made up: simple regret")
    assert medians[0] == ["problem", "kind", "trials", "a", "b", "c"]
    assert medians[3][:5] == ["rosenbrock", "seen", "2", "2.5 [1.8, 3.2] (2)", "**2 [2, 2] (2)**"]
    ranks = rows_of(report, "made up: mean rank")
    assert ["2", "all", "2", "1.75", "1.50", "2.75"] in ranks
    assert ["1", "held out", "1", "2.50", "1.00", "2.50"] in ranks
    pairs = rows_of(report, "made up: paired comparison")
    assert pairs[-1][:4] == ["b against c", "2", "all", "2 / 0 / 0"]
    assert ["b against a", "2", "seen", "1 / 0 / 1", "1 [nan, nan]", ""] in pairs
    assert report.sections[-1] == "Runs in made up: a 3, b 3, c 2."
