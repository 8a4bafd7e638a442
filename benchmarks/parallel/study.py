"""One study of the ``parallel`` benchmark: its key, the work of its workers, and its record."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from benchmarks.common import runs
from benchmarks.common.samplers import SAMPLERS, quiet
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import N_STARTUP, Problem, to_unit

NEAR = 0.01  # largest difference of a coordinate of the unit cube that counts as the same place
STUDY = "parallel"  # its name in its journal
_POLL = 0.005  # seconds between two looks at whether the other workers have arrived
_WORKER_SEEDS = 1_000  # workers of one run count from this multiple of its seed


@dataclass(frozen=True, kw_only=True)
class Run(runs.Run):
    """One study to be run.

    Attributes:
        problem: Name of the problem.
        entrant: Name of the entrant.
        seed: Seed of the start-up points, the noise and the workers.
        workers: Number of processes.
        n_trials: Number of trials of all workers together.
        seconds: Mean duration of a trial.
        fingerprint: What identifies the problem's definition.
    """

    problem: str
    entrant: str
    seed: int
    workers: int
    n_trials: int
    seconds: float
    fingerprint: str


# ---------------------------------------------------------------------------------------- a worker


class Meeting:
    """Where the workers of the runs at hand wait for each other and take their trials.

    Args:
        counters: Two numbers for each run that may be at work at once: workers that have arrived,
            and trials that have been taken.
    """

    def __init__(self, counters: "Counters") -> None:
        """Keep the shared memory."""
        self._counters = counters

    def open(self, place: int) -> None:
        """Start a run at ``place``."""
        with self._counters.get_lock():
            self._counters[2 * place] = self._counters[2 * place + 1] = 0

    def arrive(self, place: int, n: int) -> int:
        """Return the worker's own number, as soon as all ``n`` are there."""
        own = self._next(2 * place)
        while self._counters[2 * place] < n:
            time.sleep(_POLL)
        return own

    def take(self, place: int) -> int:
        """Return how many trials have been taken before."""
        return self._next(2 * place + 1)

    def _next(self, index: int) -> int:
        with self._counters.get_lock():
            self._counters[index] += 1
            return self._counters[index] - 1


class Counters(Protocol):
    """An array of integers that processes share."""

    def __getitem__(self, index: int, /) -> int:
        """Return one."""

    def __setitem__(self, index: int, value: int, /) -> None:
        """Set one."""

    def get_lock(self) -> Any:
        """Return its lock."""


_here: dict[str, Meeting] = {}  # of this process, under one name


def join(counters: Counters) -> None:
    """Prepare a worker process."""
    quiet()
    _here["meeting"] = Meeting(counters)


def storage_at(path: Path) -> BaseStorage:
    """Open the journal file of a study."""
    return JournalStorage(JournalFileBackend(str(path)))


def duration(run: Run, number: int) -> float:
    """Return how long a trial takes, in seconds: half to three halves of the mean."""
    return run.seconds * (0.5 + float(np.random.default_rng([run.seed, number]).random()))


def work(run: Run, path: Path, place: int) -> float:
    """Evaluate trials of a run until all are taken; returns processor seconds spent in asking."""
    meeting = _here["meeting"]
    problem, seconds = PROBLEMS[run.problem], 0.0
    _warm_up(run, problem)
    storage = storage_at(path)
    own = meeting.arrive(place, run.workers)
    sampler = SAMPLERS[run.entrant].build(_WORKER_SEEDS * run.seed + own, budget=run.n_trials)
    study = optuna.load_study(study_name=STUDY, storage=storage, sampler=sampler)
    while meeting.take(place) < run.n_trials:
        start = time.process_time()
        trial = study.ask(dict(problem.space))
        seconds += time.process_time() - start
        time.sleep(duration(run, trial.number))
        study.tell(trial, problem.observe(trial.params, seed=run.seed, number=trial.number))
    return seconds


def _warm_up(run: Run, problem: Problem) -> None:
    """Import whatever a suggestion by the model needs."""
    sampler = SAMPLERS[run.entrant].build(run.seed, budget=run.n_trials)
    study = optuna.create_study(sampler=sampler)
    for params in problem.startup_points(run.seed):
        study.add_trial(
            optuna.create_trial(
                params=params, distributions=dict(problem.space), value=problem.value(params)
            )
        )
    study.ask(dict(problem.space))


# ----------------------------------------------------------------------------------------- records


def record_of(run: Run, trials: Sequence[FrozenTrial], ask_seconds: float) -> dict[str, Any]:
    """Return what was measured in a finished run.

    Args:
        run: The run.
        trials: Its trials, all complete.
        ask_seconds: Processor seconds that all workers spent in asking.
    """
    assert len(trials) == run.n_trials
    problem = PROBLEMS[run.problem]
    began = min(trial.datetime_start for trial in trials if trial.datetime_start is not None)
    done = sorted(trials, key=_completed_at)
    n_near, n_equal = n_repeated(problem, trials)
    return {
        "regret": problem.regrets((trial.params, trial.value) for trial in done)[-1],
        "wall_seconds": round((_completed_at(done[-1]) - began).total_seconds(), 3),
        "slept_seconds": round(sum(duration(run, trial.number) for trial in trials), 3),
        "ask_seconds": round(ask_seconds, 4),
        "near_running": n_near,
        "equal": n_equal,
    }


def _completed_at(trial: FrozenTrial) -> Any:
    assert trial.datetime_complete is not None
    return trial.datetime_complete


def n_repeated(problem: Problem, trials: Sequence[FrozenTrial]) -> tuple[int, int]:
    """Count trials that did what another one was about to do, or had done.

    Returns:
        How many trials after the start-up lie within :data:`NEAR` of a trial that was running when
        they were asked for, and how many of them have the parameters of any earlier trial.
    """
    points = np.array([to_unit(problem.space, trial.params) for trial in trials])
    n_near = n_equal = 0
    for trial, point in zip(trials, points, strict=True):
        if trial.number < N_STARTUP:
            continue
        asked = trial.datetime_start
        assert asked is not None
        n_equal += any(
            other.params == trial.params for other in trials if other.number < trial.number
        )
        n_near += any(
            other.number < trial.number
            and _completed_at(other) > asked
            and bool(np.abs(there - point).max() < NEAR)
            for other, there in zip(trials, points, strict=True)
        )
    return n_near, n_equal
