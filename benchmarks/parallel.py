"""Regret and wall time against the number of worker processes, with an objective that sleeps.

Each run is one study in a journal file, shared by 1, 2, 4 or 8 processes, each with a sampler of
its own seed. All runs of a problem have the same number of trials and the same ``N_STARTUP``
start-up points (by seed). A trial takes ``--seconds`` on average, between half and three halves of
it by its number, the same for every sampler: workers drift apart as they do in practice, and
sleeping costs no processor. Workers import what they need before the clock starts, and the clock
stops at the last completion.

Reported: the regret of the best observed trial, evaluated without noise; how much more workers add
to it; wall time and speed-up; the processor time of a suggestion; and how often a trial was
suggested next to one that was running (``NEAR``) or equal to any other. Runs that fit side by side
run at once, up to ``--jobs`` workers in all, so that every run meets the same load.

Every finished run is one JSON line; those in the file already (same problem, same entrant's code,
same seed, workers and budget) are not repeated.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial

from benchmarks.functions import PROBLEMS
from benchmarks.histories import to_unit
from benchmarks.parallel_tables import add_tables
from benchmarks.peers import SAMPLERS, Sampler, add_entrant_arguments, available, quiet
from benchmarks.problem import Problem
from benchmarks.regret import N_STARTUP, startup_points
from benchmarks.report import Report, read_records

DESCRIPTION = "Regret and wall time of studies shared by 1 to 8 worker processes."
DEFAULT_SAMPLERS = ("ours-uhe", "ours-map", "gpsampler", "tpe", "random")
DEFAULT_FUNCTIONS = ("hartmann6", "ackley5", "mixed_interaction5")
DEFAULT_WORKERS = (1, 2, 4, 8)
DEFAULT_TRIALS, DEFAULT_SECONDS, DEFAULT_SEEDS = 64, 1.0, 5
QUICK_SAMPLERS = ("ours-uhe", "tpe", "random")
QUICK_FUNCTIONS = ("branin",)
QUICK_WORKERS = (1, 2, 4)
QUICK_TRIALS, QUICK_SECONDS, QUICK_SEEDS = 16, 0.05, 1
NEAR = 0.01  # largest difference of a coordinate of the unit cube that counts as the same place
_STUDY = "parallel"
_POLL = 0.005  # seconds between two looks at whether the other workers have arrived
_WORKER_SEEDS = 1_000  # workers of one run count from this multiple of its seed
PROTOCOL = 1


@dataclass(frozen=True, kw_only=True)
class Run:
    """One study to be run; all its fields together are the key of its stored record.

    Attributes:
        function: Name of the problem.
        sampler: Name of the entrant.
        seed: Seed of the start-up points, the noise and the workers.
        workers: Number of processes.
        n_trials: Number of trials of all workers together.
        seconds: Mean duration of a trial.
        source: What identifies the entrant's code.
        problem: What identifies the problem's definition.
        protocol: Version of how this file runs studies.
    """

    function: str
    sampler: str
    seed: int
    workers: int
    n_trials: int
    seconds: float
    source: str
    problem: str
    protocol: int = PROTOCOL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=max(DEFAULT_WORKERS),
        help="workers of all runs at work at once (default: %(default)s)",
    )
    parser.add_argument(
        "--workers", type=int, nargs="+", metavar="N", help="numbers of workers (default: 1 2 4 8)"
    )
    parser.add_argument(
        "--trials", type=int, help=f"trials of each study (default: {DEFAULT_TRIALS})"
    )
    parser.add_argument(
        "--seconds", type=float, help=f"mean duration of a trial (default: {DEFAULT_SECONDS:g})"
    )
    parser.add_argument(
        "--functions",
        nargs="+",
        choices=sorted(PROBLEMS),
        metavar="NAME",
        help=f"problems (default: {' '.join(DEFAULT_FUNCTIONS)})",
    )
    add_entrant_arguments(parser, DEFAULT_SAMPLERS)
    parser.set_defaults(samplers=None)


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


def _join(counters: Counters) -> None:
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
    problem, seconds = PROBLEMS[run.function], 0.0
    _warm_up(run, problem)
    storage = storage_at(path)
    own = meeting.arrive(place, run.workers)
    sampler = SAMPLERS[run.sampler].build(_WORKER_SEEDS * run.seed + own, run.n_trials)
    study = optuna.load_study(study_name=_STUDY, storage=storage, sampler=sampler)
    while meeting.take(place) < run.n_trials:
        start = time.process_time()
        trial = study.ask(dict(problem.space))
        seconds += time.process_time() - start
        time.sleep(duration(run, trial.number))
        study.tell(trial, problem.observe(trial.params, seed=run.seed, number=trial.number))
    return seconds


def _warm_up(run: Run, problem: Problem) -> None:
    """Import whatever a suggestion by the model needs."""
    sampler = SAMPLERS[run.sampler].build(run.seed, run.n_trials)
    study = optuna.create_study(sampler=sampler)
    for params in startup_points(problem, run.seed):
        study.add_trial(
            optuna.create_trial(
                params=params, distributions=dict(problem.space), value=problem.value(params)
            )
        )
    study.ask(dict(problem.space))


# ----------------------------------------------------------------------------------------- records


def record_of(run: Run, trials: Sequence[FrozenTrial], ask_seconds: float) -> dict[str, Any]:
    """Return the record of a finished run.

    Args:
        run: The run.
        trials: Its trials, all complete.
        ask_seconds: Processor seconds that all workers spent in asking.
    """
    assert len(trials) == run.n_trials
    problem = PROBLEMS[run.function]
    began = min(trial.datetime_start for trial in trials if trial.datetime_start is not None)
    best, regret, curve, times = float("inf"), float("inf"), [], []
    for trial in sorted(trials, key=_completed_at):
        assert trial.value is not None
        if trial.value < best:
            best, regret = trial.value, problem.regret(trial.params)
        curve.append(regret)
        times.append(round((_completed_at(trial) - began).total_seconds(), 3))
    n_near, n_equal = n_repeated(problem, trials)
    return {
        **asdict(run),
        "regret": curve[-1],
        "curve": curve,
        "times": times,
        "wall_seconds": times[-1],
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


# -------------------------------------------------------------------------------------------- runs


def planned_runs(
    problems: Sequence[Problem],
    samplers: Sequence[Sampler],
    workers: Sequence[int],
    seeds: int,
    *,
    n_trials: int,
    seconds: float,
) -> list[Run]:
    """Return every run, seed by seed, so that an interrupted benchmark has complete seeds."""
    sources = {sampler.name: sampler.source() for sampler in samplers}
    return [
        Run(
            function=problem.name,
            sampler=sampler.name,
            seed=seed,
            workers=n,
            n_trials=n_trials,
            seconds=seconds,
            source=sources[sampler.name],
            problem=problem.fingerprint,
        )
        for seed, problem, sampler, n in itertools.product(
            range(seeds), problems, samplers, sorted(workers, reverse=True)
        )
    ]


def stored_runs(records: Iterable[dict[str, Any]]) -> dict[Run, dict[str, Any]]:
    """Return the readable records by their run."""
    fields = Run.__dataclass_fields__
    stored = {}
    for record in records:
        if fields.keys() <= record.keys() and "near_running" in record:
            stored[Run(**{name: record[name] for name in fields})] = record
    return stored


def execute_all(runs: Sequence[Run], *, jobs: int) -> Iterator[dict[str, Any]]:
    """Execute runs, as many at once as ``jobs`` workers can; yield each record when it is there."""
    context = multiprocessing.get_context("spawn")
    counters: Any = context.Array("q", 2 * jobs)
    meeting = Meeting(counters)
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ProcessPoolExecutor(
            jobs, mp_context=context, initializer=_join, initargs=(counters,)
        ) as pool,
    ):

        def begin(run: Run, place: int) -> "_Begun":
            path = Path(folder) / f"{next(names)}.log"
            study = optuna.create_study(study_name=_STUDY, storage=storage_at(path))
            for params in startup_points(PROBLEMS[run.function], run.seed):
                study.enqueue_trial(params)
            meeting.open(place)
            return _Begun(
                run, path, place, [pool.submit(work, run, path, place) for _ in range(run.workers)]
            )

        names = itertools.count()
        yield from _scheduled(runs, begin, jobs)


@dataclass
class _Begun:
    """A run at work."""

    run: Run
    path: Path
    place: int
    futures: list[concurrent.futures.Future[float]]

    def record(self) -> dict[str, Any]:
        """Return the record of the run, which has to be done; its journal is removed."""
        seconds = sum(future.result() for future in self.futures)
        study = optuna.load_study(study_name=_STUDY, storage=storage_at(self.path))
        record = record_of(self.run, study.trials, seconds)
        self.path.unlink()
        return record


def _scheduled(
    runs: Sequence[Run], begin: Callable[[Run, int], _Begun], jobs: int
) -> Iterator[dict[str, Any]]:
    """Yield records; a run begins as soon as it has the workers, the largest that fits first."""
    waiting, busy = list(runs), list[_Begun]()
    while waiting or busy:
        free = jobs - sum(begun.run.workers for begun in busy)
        fitting = next((run for run in waiting if run.workers <= free), None)
        if fitting is not None:
            waiting.remove(fitting)
            places = {begun.place for begun in busy}
            busy.append(begin(fitting, next(p for p in range(jobs) if p not in places)))
            continue
        futures = [future for begun in busy for future in begun.futures if not future.done()]
        if futures:
            concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
        for begun in [b for b in busy if all(future.done() for future in b.futures)]:
            busy.remove(begun)
            yield begun.record()


def run(options: argparse.Namespace, report: Report) -> None:
    """Run every study that is not stored yet, then report on all that were asked for."""
    quiet()
    quick = options.quick
    names = [*(options.samplers or (QUICK_SAMPLERS if quick else DEFAULT_SAMPLERS)), *options.peers]
    samplers = available(names, report)
    workers = options.workers or (QUICK_WORKERS if quick else DEFAULT_WORKERS)
    functions = options.functions or (QUICK_FUNCTIONS if quick else DEFAULT_FUNCTIONS)
    runs = planned_runs(
        [PROBLEMS[name] for name in functions],
        samplers,
        workers,
        options.seeds or (QUICK_SEEDS if quick else DEFAULT_SEEDS),
        n_trials=options.trials or (QUICK_TRIALS if quick else DEFAULT_TRIALS),
        seconds=options.seconds or (QUICK_SECONDS if quick else DEFAULT_SECONDS),
    )
    stored = stored_runs(read_records(report.records_path))
    todo = [planned for planned in runs if planned not in stored]
    report.progress(f"{len(runs)} runs, {len(runs) - len(todo)} of them stored already")
    if todo:
        jobs = max(options.jobs, *workers, 1)
        for done, record in enumerate(execute_all(todo, jobs=jobs), start=1):
            report.record(**record)
            report.progress(
                f"[{done}/{len(todo)}] {record['function']} {record['sampler']} seed "
                f"{record['seed']}, {record['workers']} workers: regret {record['regret']:.3g} in "
                f"{record['wall_seconds']:.1f} s"
            )
    stored = stored_runs(read_records(report.records_path))
    add_tables(
        report, [stored[planned] for planned in runs], [entrant.name for entrant in samplers]
    )
