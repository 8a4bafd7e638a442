"""The regret benchmark: same start for everyone, resuming, and its statistics."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.problems.functions import PROBLEMS
from benchmarks.regret import run as regret
from benchmarks.regret import tables as regret_tables


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Return a report that writes to a temporary folder."""
    return Report(name="regret", directory=tmp_path, command="test")


def a_run(sampler: str, **values: object) -> regret.Run:
    """Return one small run."""
    problem = PROBLEMS["noisy_branin"]
    run = regret.Run(
        function=problem.name,
        sampler=sampler,
        seed=3,
        n_trials=12,
        source=SAMPLERS[sampler].source(),
        problem=problem.fingerprint,
    )
    return dataclasses.replace(run, **values)  # type: ignore[arg-type]


def test_everyone_starts_alike(tmp_path: Path) -> None:
    """Two samplers have equal curves over the start-up points, then go their own ways."""
    runs = [
        dataclasses.replace(a_run(name, n_trials=25), function="levy6", problem="x")
        for name in ("tpe", "random")
    ]
    tpe, random = (regret.execute(run, tmp_path) for run in runs)
    start = regret.N_STARTUP
    assert tpe["curve"][:start] == random["curve"][:start]
    assert tpe["curve"] != random["curve"]
    assert len(tpe["curve"]) == 25


def test_statistics() -> None:
    """Ranks, paired counts and the geometric mean agree with a hand calculation."""
    regrets = {
        "branin": {"a": np.array([1.0, 4.0]), "b": np.array([2.0, 2.0])},
        "levy6": {"a": np.array([1.0, 1.0]), "b": np.array([1.0, 8.0])},
    }
    assert regret_tables.ranks_by_median(regrets, ["a", "b"]).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    assert regret_tables.ranks_by_seed(regrets, ["a", "b"]).tolist() == [[1.5, 1.5], [1.25, 1.75]]
    result = regret_tables.paired(regrets, "a", "b")
    assert (result["wins"], result["ties"], result["losses"]) == (2, 1, 1)
    assert result["ratio"] == pytest.approx(8.0**-0.25)
