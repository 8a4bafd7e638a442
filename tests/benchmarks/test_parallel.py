"""The benchmark of parallel work: durations, and a study shared by two processes."""

from typing import Any

import pytest

from benchmarks.common.report import Report
from benchmarks.parallel.study import SharedStudy, duration, execute
from benchmarks.parallel.tables import add_tables
from benchmarks.problems.functions import PROBLEMS


def a_run(**values: Any) -> SharedStudy:
    """Return one small run."""
    given: dict[str, Any] = {
        "problem": "branin",
        "entrant": "random",
        "seed": 0,
        "workers": 2,
        "n_trials": 13,
        "seconds": 0.01,
        "source": "here",
        "fingerprint": PROBLEMS["branin"].fingerprint,
    }
    return SharedStudy(**(given | values))


def test_durations_are_the_same_for_every_sampler_and_number_of_workers() -> None:
    """They depend on the seed and the trial's number, and lie around the mean."""
    drawn = [duration(a_run(seconds=2.0), number) for number in range(200)]
    other = a_run(seconds=2.0, entrant="tpe", workers=8)
    assert drawn == [duration(other, number) for number in range(200)]
    assert drawn != [duration(a_run(seconds=2.0, seed=1), number) for number in range(200)]
    assert 1.0 <= min(drawn) < 1.1
    assert 2.9 < max(drawn) <= 3.0


@pytest.mark.slow  # the quick form of the benchmark does it
def test_two_workers_share_the_trials(report: Report) -> None:
    """Together they run as many as there are, in less time than one after another."""
    run = a_run(seconds=0.3)
    record = execute(run)  # says how many trials there were, too
    assert record["slept_seconds"] / 2.0 < record["wall_seconds"] < record["slept_seconds"]
    add_tables(report, [{**record, **vars(run)}], ["random"], [2])
    assert "| random" in report.text()
