"""One study of the ``parallel`` benchmark: its key, the work of its workers, and its record."""

import concurrent.futures
import multiprocessing
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from benchmarks.common.samplers import SAMPLERS, quiet
from benchmarks.common.studies import StudyRun, run_study
from benchmarks.problems.functions import PROBLEMS

_STUDY = "parallel"  # its name in its journal
_WORKER_SEEDS = 1_000  # workers of one run count from this multiple of its seed


@dataclass(frozen=True, kw_only=True)
class SharedStudy(StudyRun):
    """One study to be run by several processes, its trials those of all workers together.

    Attributes:
        workers: Number of processes.
        seconds: Mean duration of a trial.
    """

    workers: int
    seconds: float

    @property
    def key(self) -> Self:
        """All fields: a longer study does not answer for the time of a shorter one."""
        return self


def execute(run: SharedStudy) -> dict[str, Any]:
    """Run one study by its workers.

    Returns:
        Regrets in the order of completion, and seconds: on the clock, of all trials' durations,
        and of processor time that all workers spent in asking.
    """
    context = multiprocessing.get_context("spawn")
    shared = context.Barrier(run.workers), context.Value("i", 0)
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ProcessPoolExecutor(
            run.workers, mp_context=context, initializer=_join, initargs=shared
        ) as pool,
    ):
        path = Path(folder) / "study.log"
        study = optuna.create_study(study_name=_STUDY, storage=_storage_at(path))
        for params in PROBLEMS[run.problem].startup_points(run.seed):
            study.enqueue_trial(params)
        futures = [pool.submit(_work, run, path, number) for number in range(run.workers)]
        seconds = sum(future.result() for future in futures)
        trials = optuna.load_study(study_name=_STUDY, storage=_storage_at(path)).trials
    began = min(trial.datetime_start for trial in trials if trial.datetime_start is not None)
    done = sorted(trials, key=_completed_at)
    return {
        **PROBLEMS[run.problem].measured(done),
        "wall_seconds": round((_completed_at(done[-1]) - began).total_seconds(), 3),
        "slept_seconds": round(sum(duration(run, trial.number) for trial in trials), 3),
        "ask_seconds": round(seconds, 4),
    }


def _storage_at(path: Path) -> BaseStorage:
    return JournalStorage(JournalFileBackend(str(path)))


def duration(run: SharedStudy, number: int) -> float:
    """Return how long a trial takes, in seconds: half to three halves of the mean."""
    return run.seconds * (0.5 + float(np.random.default_rng([run.seed, number]).random()))


_here: dict[str, Any] = {}  # what the workers of a run share


def _join(barrier: Any, taken: Any) -> None:
    """Prepare a worker process."""
    quiet()
    _here.update(barrier=barrier, taken=taken)


def _takes(n_trials: int) -> bool:
    """Take one of the run's trials; returns whether there was one left."""
    with _here["taken"].get_lock():
        _here["taken"].value += 1
        return bool(_here["taken"].value <= n_trials)


def _work(run: SharedStudy, path: Path, number: int) -> float:
    """Evaluate trials of a run until all are taken; returns processor seconds spent in asking."""
    problem, seconds = PROBLEMS[run.problem], 0.0
    entrant = SAMPLERS[run.entrant]
    # Imports whatever a suggestion by the model needs.
    first = entrant.build(run.seed, budget=run.n_trials)
    run_study(problem, first, seed=run.seed, n_trials=problem.n_startup + 1)
    _here["barrier"].wait()
    sampler = entrant.build(_WORKER_SEEDS * run.seed + number, budget=run.n_trials)
    study = optuna.load_study(study_name=_STUDY, storage=_storage_at(path), sampler=sampler)
    while _takes(run.n_trials):
        start = time.process_time()
        trial = study.ask(dict(problem.space))
        seconds += time.process_time() - start
        time.sleep(duration(run, trial.number))
        study.tell(trial, problem.observe(trial.params, seed=run.seed, number=trial.number))
    return seconds


def _completed_at(trial: FrozenTrial) -> Any:
    assert trial.datetime_complete is not None
    return trial.datetime_complete
