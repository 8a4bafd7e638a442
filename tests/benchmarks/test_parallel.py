"""The benchmark of parallel work: who shares what, what is counted, resuming, and its tables."""

import datetime as dt
import multiprocessing
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from optuna.trial import FrozenTrial, TrialState, create_trial

from benchmarks.parallel.study import Meeting, Run, duration, n_repeated, record_of
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import from_unit

BRANIN = PROBLEMS["branin"]
NOON = dt.datetime(2024, 5, 17, 12)  # noqa: DTZ001 - Optuna's times have no zone


def a_run(**values: Any) -> Run:
    """Return one small run."""
    given: dict[str, Any] = {
        "problem": "branin",
        "entrant": "random",
        "seed": 0,
        "workers": 2,
        "n_trials": 13,
        "seconds": 0.01,
        "source": "here",
        "fingerprint": BRANIN.fingerprint,
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
    other = a_run(seconds=2.0, entrant="tpe", workers=8)
    assert drawn == [duration(other, number) for number in range(200)]
    assert drawn != [duration(a_run(seconds=2.0, seed=1), number) for number in range(200)]
    assert 1.0 <= min(drawn) < 1.1
    assert 2.9 < max(drawn) <= 3.0


def test_record_by_hand() -> None:
    """The regret is the best observed trial's, and the clock stops at the last completion."""
    late = trial(0, [0.5427, 0.1516], asked=0.0, done=5.0, value=0.4)
    early = trial(1, [0.9, 0.9], asked=1.0, done=2.0, value=100.0)
    record = record_of(a_run(n_trials=2), [late, early], 0.25)
    assert record["wall_seconds"] == 300.0
    assert record["regret"] == pytest.approx(0.4 - BRANIN.minimum)
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
