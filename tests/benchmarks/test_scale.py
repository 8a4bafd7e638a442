"""The benchmarks of long studies: the rules it compares, its tables, and the memory it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods import active_set
from bbo_plugins.methods.observations import Observations
from benchmarks import memory, scale
from benchmarks.report import Report
from benchmarks.subset_rules import ALL, CHOSEN, RULES

if TYPE_CHECKING:
    from pathlib import Path

PLANE = FeatureMap((0, 0))


def study(n: int) -> Observations:
    """Return random observations whose values tell them apart; the best of them is an early one."""
    rng = np.random.default_rng(0)
    y = rng.permutation(n).astype(float)
    y[3] = 1000.0
    return Observations(
        X=rng.random((n, 2)), y=y, complete=np.ones(n, bool), pending=np.empty((0, 2))
    )


@pytest.mark.parametrize("name", sorted(RULES))
def test_rules_choose_so_many_and_change_slowly(name: str) -> None:
    """All but the one without a limit: the best is there, and one more adds one."""
    whole, rule = study(98), RULES[name]
    before, after = (rule(whole.take(np.arange(n)), PLANE, 40).y.tolist() for n in (97, 98))
    if name == ALL:
        assert len(after) == 98
        return
    assert len(before) == 37
    assert after == [*before, whole.y[97]]
    assert 1000.0 in after
    assert rule(whole.take(np.arange(40)), PLANE, 40).y.tolist() == whole.y[:40].tolist()


def test_the_variance_rule_spreads_out() -> None:
    """The greedy choice by conditional variance leaves no pair as close as random ones are."""
    whole = study(300)
    gaps = {}
    for name in ("random", "variance"):
        X = RULES[name](whole, PLANE, 30).X
        distances = np.linalg.norm(X[:, None] - X[None], axis=2)[np.triu_indices(len(X), 1)]
        gaps[name] = distances.min()
    assert gaps["variance"] > 3.0 * gaps["random"]


def test_a_rule_applies_for_a_while() -> None:
    """Inside the block the package's models have what the rule chooses, afterwards as ever."""
    usual = active_set.modeled
    with scale.modeling(RULES["latest"], 20):
        assert len(active_set.modeled(study(50), PLANE).y) == 18 + 50 % 2
    assert active_set.modeled is usual


def test_runs_are_repeatable_and_paired(tmp_path: Path) -> None:
    """The same run gives the same regret; stored runs are not executed again."""
    runs = [
        scale.Run(
            function="branin", rule=rule, seed=0, n_given=0, n_trials=14, limit=10, source="test"
        )
        for rule in (ALL, CHOSEN)
    ]
    report = Report(name="scale", directory=tmp_path, command="test")
    first = scale.execute_all(runs, report, 1)
    report.record(**first[0] | {"seed": 1})
    assert scale.execute_all(runs, report, 1) == first
    assert len(report.records_path.read_text(encoding="utf-8").splitlines()) == 3
    again = scale.execute(runs[1])
    assert again["regret"] == first[1]["regret"]


def test_continued_histories_keep_what_was_given() -> None:
    """The best of the given trials is where a continued search starts."""
    run = scale.Run(
        function="branin", rule=CHOSEN, seed=0, n_given=20, n_trials=2, limit=10, source="test"
    )
    record = scale.execute(run)
    assert record["regret"] <= record["given"]


def test_the_table_has_medians_ranks_and_differences(tmp_path: Path) -> None:
    """Made-up regrets come out as they should: ties share a rank, negligible regrets are equal."""
    report = Report(name="scale", directory=tmp_path, command="test")
    records = [
        {"function": "f", "seed": s, "rule": r, "regret": x, "scale": 1.0, "cpu_seconds": 2.0}
        for s, r, x in [(0, ALL, 1e-9), (0, CHOSEN, 1e-8), (1, ALL, 0.01), (1, CHOSEN, 0.1)]
    ]
    scale.add_regret_table(report, "title", records, (ALL, CHOSEN))
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.text().split("\n")]
    assert ["f", "-4.0", "-3.5"] in [line for line in lines if line] or ["f", "-4", "-3.5"] in lines
    assert ["mean rank", "1.25", "1.75"] in lines
    assert ["mean, less all", "0.00 ± 0.00", "0.50 ± 0.35"] in lines


def test_memory_is_that_of_another_process() -> None:
    """Peaks and growth are read in a fresh interpreter; a model needs more than random points."""
    peaks = [
        memory.in_own_process(memory.Job(entrant=name, n=15))["peak"]
        for name in ("random", "ours-map")
    ]
    assert 10.0 < peaks[0] < peaks[1] < 1000.0
    grown = memory.in_own_process(memory.Job(entrant="random", n=15, n_repeated=3))
    assert grown["bytes"] < 100_000
