"""The benchmark of parallel work: who shares what, what is counted, resuming, and its tables."""

import argparse
import datetime as dt
import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

from benchmarks import parallel, parallel_tables
from benchmarks.functions import PROBLEMS
from benchmarks.parallel import execute_all, planned_runs
from benchmarks.parallel_study import Meeting, Run, duration, n_repeated, record_of
from benchmarks.peers import SAMPLERS
from benchmarks.problem import from_unit
from benchmarks.report import Report, read_records

BRANIN = PROBLEMS["branin"]
NOON = dt.datetime(2024, 5, 17, 12)  # noqa: DTZ001 - Optuna's times have no zone


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Return a report that writes to a temporary folder."""
    return Report(name="parallel", directory=tmp_path, command="test")


def options(**values: object) -> argparse.Namespace:
    """Return the options of a tiny run."""
    given: dict[str, object] = {
        "functions": ["branin"],
        "samplers": ["random"],
        "peers": [],
        "workers": [1, 2],
        "seeds": 1,
        "trials": 12,
        "seconds": 0.01,
        "jobs": 3,
        "quick": False,
    }
    return argparse.Namespace(**(given | values))


def a_run(**values: Any) -> Run:
    """Return one small run."""
    given: dict[str, Any] = {
        "function": "branin",
        "sampler": "random",
        "seed": 0,
        "workers": 2,
        "n_trials": 13,
        "seconds": 0.01,
        "source": "here",
        "problem": BRANIN.fingerprint,
    }
    return Run(**(given | values))


def trial(
    number: int, point: Sequence[float], *, asked: float, done: float, value: float = 0.0
) -> FrozenTrial:
    """Return a complete trial at a point of the unit square; asked for and done in minutes."""
    made = create_trial(
        state=TrialState.COMPLETE,
        params=from_unit(BRANIN.space, np.array(point)),
        distributions=dict(BRANIN.space),
        value=value,
    )
    made.number = number
    made.datetime_start = NOON + dt.timedelta(minutes=asked)
    made.datetime_complete = NOON + dt.timedelta(minutes=done)
    return made


# ---------------------------------------------------------------------------------- whole benchmark


def test_runs_share_their_trials_and_are_resumed(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each run has its trials whatever its workers; what is stored is not run again."""
    parallel.run(options(), report)
    records = read_records(report.records_path)
    assert sorted(record["workers"] for record in records) == [1, 2]
    for record in records:
        assert len(record["curve"]) == len(record["times"]) == 12
        assert record["curve"] == sorted(record["curve"], reverse=True)
        assert record["regret"] == record["curve"][-1] >= 0.0
        assert record["times"] == sorted(record["times"])
        assert record["wall_seconds"] >= record["slept_seconds"] / record["workers"]
        assert record["equal"] == 0
    first, second = records
    assert first["slept_seconds"] == second["slept_seconds"]

    capsys.readouterr()
    again = Report(name="parallel", directory=report.directory, command="test")
    parallel.run(options(), again)
    assert "2 runs, 2 of them stored already" in capsys.readouterr().err
    assert again.sections == report.sections
    titles = [section.splitlines()[0] for section in report.sections if section.startswith("##")]
    assert len(titles) == 4  # no pairs without one of ours
    assert "over 1 seeds" in titles[0]


def test_more_runs_than_places_all_end() -> None:
    """Runs wait for workers to be free; each one's record is that of its own study."""
    runs = [a_run(workers=n, seed=seed, n_trials=11) for seed in range(2) for n in (2, 1)]
    records = list(execute_all(runs, jobs=2))
    assert {(r["workers"], r["seed"]) for r in records} == {(1, 0), (1, 1), (2, 0), (2, 1)}
    assert all(len(record["curve"]) == 11 for record in records)


def test_a_worker_that_fails_is_not_passed_over() -> None:
    """Its error ends the benchmark."""
    with pytest.raises(KeyError, match="nosuch"):
        list(execute_all([a_run(sampler="nosuch", workers=1)], jobs=1))


def test_plan_is_complete_and_seed_by_seed() -> None:
    """Every combination once, all of one seed before the next, most workers first."""
    entrants = [SAMPLERS["random"], SAMPLERS["tpe"]]
    runs = planned_runs([BRANIN], entrants, [1, 4, 2], 2, n_trials=8, seconds=1.0)
    assert len(set(runs)) == len(runs) == 12
    assert [run.seed for run in runs] == [0] * 6 + [1] * 6
    assert [run.workers for run in runs[:3]] == [4, 2, 1]


# ---------------------------------------------------------------------------------------- its parts


def test_meeting_hands_out_every_trial_once() -> None:
    """Numbers are consecutive, places do not mix, and a new run at a place starts from zero."""
    counters: Any = multiprocessing.get_context("spawn").Array("q", 4)
    meeting = Meeting(counters)
    for _ in range(2):
        meeting.open(1)
        assert [meeting.take(1) for _ in range(3)] == [0, 1, 2]
    assert meeting.take(0) == 0
    assert meeting.arrive(0, 1) == 0
    assert meeting.arrive(0, 2) == 1


def test_durations_are_the_same_for_every_sampler_and_number_of_workers() -> None:
    """They depend on the seed and the trial's number, and lie around the mean."""
    drawn = [duration(a_run(seconds=2.0), number) for number in range(200)]
    other = a_run(seconds=2.0, sampler="tpe", workers=8)
    assert drawn == [duration(other, number) for number in range(200)]
    assert drawn != [duration(a_run(seconds=2.0, seed=1), number) for number in range(200)]
    assert 1.0 <= min(drawn) < 1.1
    assert 2.9 < max(drawn) <= 3.0


def test_curve_is_in_the_order_of_completion() -> None:
    """The incumbent is the best trial that has completed, whatever its number."""
    late = trial(0, [0.5427, 0.1516], asked=0.0, done=5.0, value=0.4)
    early = trial(1, [0.9, 0.9], asked=1.0, done=2.0, value=100.0)
    record = record_of(a_run(n_trials=2), [late, early], 0.25)
    assert record["times"] == [120.0, 300.0]
    assert record["curve"] == [BRANIN.regret(early.params), BRANIN.regret(late.params)]
    assert record["ask_seconds"] == 0.25


def test_repetitions_count_running_neighbours_and_equals() -> None:
    """Near counts only beside a trial that was running; equal counts whenever it was."""
    running = trial(10, [0.2, 0.2], asked=0.0, done=10.0)
    done = trial(11, [0.6, 0.6], asked=0.0, done=1.0)
    near_running = trial(12, [0.205, 0.195], asked=5.0, done=6.0)
    near_done = trial(13, [0.605, 0.605], asked=5.0, done=6.0)
    equal_to_done = trial(14, [0.6, 0.6], asked=5.0, done=6.0)
    far = trial(15, [0.2, 0.22], asked=5.0, done=6.0)
    start = trial(3, [0.2, 0.2], asked=5.0, done=6.0)
    trials = [start, running, done, near_running, near_done, equal_to_done, far]
    # 14 is near 13, which was asked for at the same time; 10 was asked for before 3, but is later.
    assert n_repeated(BRANIN, trials) == (2 + 1, 2)
    assert n_repeated(BRANIN, [running, far]) == (0, 0)


def record(sampler: str, workers: int, seed: int, regret: float) -> dict[str, Any]:
    """Return what a table needs of a record."""
    return {
        "function": "branin",
        "sampler": sampler,
        "workers": workers,
        "seed": seed,
        "regret": regret,
        "n_trials": 10,
        "wall_seconds": 8.0 / workers,
        "slept_seconds": 4.0,
        "ask_seconds": 0.5,
        "near_running": workers - 1,
        "equal": 0,
    }


def test_tables_say_what_the_records_say(report: Report) -> None:
    """Losses, ratios, speed-ups and repetitions of made-up records."""
    records = [
        record(sampler, workers, seed, factor * (2.5 if (sampler, workers) == ("tpe", 4) else 1.0))
        for sampler, factor in (("ours-uhe", 1.0), ("tpe", 2.0))
        for workers in (1, 4)
        for seed in (0, 1)
    ]
    parallel_tables.add_tables(report, records, ["ours-uhe", "tpe"])
    text = report.text()
    assert "| ours-uhe | 1.00 [1.00, 1.00] |" in text
    assert "| tpe      | 2.50 [2.50, 2.50] |" in text
    assert "| ours-uhe / tpe | 0.50 [0.50, 0.50] | 0.20 [0.20, 0.20] |" in text
    assert "| ours-uhe    | 8.0 (1.00x) | 2.0 (4.00x) | 50             |" in text
    assert "| asleep only | 4.0         | 1.0         | 0              |" in text
    assert "| ours-uhe | 0.00 / 0.00 | 3.00 / 0.00 |" in text


def test_nothing_measured_is_said(report: Report) -> None:
    """Without an entrant that can run here there are no tables."""
    parallel_tables.add_tables(report, [], [])
    assert "Nothing was measured." in report.text()
