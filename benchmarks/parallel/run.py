"""Regret and wall time against the number of worker processes, with an objective that sleeps.

Each run is one study in a journal file, shared by 1, 2, 4 or 8 processes, each with a sampler of
its own seed. All runs of a problem have the same number of trials and the same ``N_STARTUP``
start-up points (by seed). A trial takes ``--seconds`` on average, between half and three halves of
it by its number, the same for every sampler: workers drift apart as they do in practice, and
sleeping costs no processor. Workers import what they need before the clock starts, and the clock
stops at the last completion.

Reported: the regret of the best observed trial, evaluated without noise; how much more workers add
to it; wall time and speed-up; the processor time of a suggestion; and how often a trial was
suggested next to one that was running or equal to any other. Runs that fit side by side run at
once, up to ``--jobs`` workers in all, so that every run meets the same load.
"""

import argparse
import concurrent.futures
import functools
import itertools
import math
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from benchmarks.common.report import Report
from benchmarks.common.runs import completed
from benchmarks.common.sampler_benchmark import add_study_arguments
from benchmarks.common.samplers import available
from benchmarks.parallel.study import STUDY, Meeting, Run, join, record_of, storage_at, work
from benchmarks.parallel.tables import add_tables
from benchmarks.problems.functions import PROBLEMS

DESCRIPTION = "Regret and wall time of studies shared by 1 to 8 worker processes."
SIZES = {
    "samplers": ("ours-uhe", "ours-map", "gpsampler", "tpe", "random"),
    "problems": ("hartmann6", "ackley5", "mixed_interaction5"),
    "workers": (1, 2, 4, 8),
    "trials": 64,
    "seconds": 1.0,
    "seeds": 5,
}
QUICK = {
    "samplers": ("ours-uhe", "tpe", "random"),
    "problems": ("branin",),
    "workers": (1, 2, 4),
    "trials": 16,
    "seconds": 0.05,
    "seeds": 1,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    parser.add_argument("--workers", type=int, nargs="+", metavar="N", help="numbers of workers")
    parser.add_argument("--seconds", type=float, help="mean duration of a trial")
    # A job is a worker here: all that are at work at once.
    add_study_arguments(parser, tuple(PROBLEMS), jobs=8)


def execute_all(
    runs: Sequence[Run], *, jobs: int, minutes: float | None
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Execute runs, as many at once as ``jobs`` workers can; yield each when it is done."""
    context = multiprocessing.get_context("spawn")
    counters: Any = context.Array("q", 2 * jobs)
    meeting = Meeting(counters)
    with (
        tempfile.TemporaryDirectory() as folder,
        concurrent.futures.ProcessPoolExecutor(
            jobs, mp_context=context, initializer=join, initargs=(counters,)
        ) as pool,
    ):

        def begin(run: Run, place: int) -> "_Begun":
            path = Path(folder) / f"{next(names)}.log"
            study = optuna.create_study(study_name=STUDY, storage=storage_at(path))
            for params in PROBLEMS[run.problem].startup_points(run.seed):
                study.enqueue_trial(params)
            meeting.open(place)
            return _Begun(
                run, path, place, [pool.submit(work, run, path, place) for _ in range(run.workers)]
            )

        names = itertools.count()
        yield from _scheduled(runs, begin, jobs, minutes)


@dataclass
class _Begun:
    """A run at work."""

    run: Run
    path: Path
    place: int
    futures: list[concurrent.futures.Future[float]]

    def record(self) -> dict[str, Any]:
        """Return what was measured in the run, which has to be done; its journal is removed."""
        seconds = sum(future.result() for future in self.futures)
        study = optuna.load_study(study_name=STUDY, storage=storage_at(self.path))
        record = record_of(self.run, study.trials, seconds)
        self.path.unlink()
        return record


def _scheduled(
    runs: Sequence[Run], begin: Callable[[Run, int], _Begun], jobs: int, minutes: float | None
) -> Iterator[tuple[Run, dict[str, Any]]]:
    """Yield runs and records; the largest run that fits the free workers begins first."""
    waiting, busy = list(runs), list[_Begun]()
    end = math.inf if minutes is None else time.monotonic() + 60.0 * minutes
    while waiting or busy:
        if time.monotonic() >= end:
            waiting.clear()
            if not busy:
                return
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
            yield begun.run, begun.record()


def run(options: argparse.Namespace, report: Report) -> None:
    """Run every study that is not stored yet, then report on all that were asked for."""
    entrants = available((*options.samplers, *options.peers), report)
    sources = {entrant.name: entrant.source() for entrant in entrants}
    runs = [
        Run(
            problem=problem,
            entrant=entrant.name,
            seed=seed,
            workers=workers,
            n_trials=options.trials,
            seconds=options.seconds,
            source=sources[entrant.name],
            fingerprint=PROBLEMS[problem].fingerprint,
        )
        for seed, problem, entrant, workers in itertools.product(
            range(options.seeds), options.problems, entrants, sorted(options.workers, reverse=True)
        )
    ]
    jobs = max(options.jobs, *options.workers)
    effort = {"jobs": jobs, "minutes": options.minutes}
    found = completed(runs, functools.partial(execute_all, **effort), report)
    if len(found) == len(runs):  # the tables are of whole groups
        add_tables(report, list(found.values()), [entrant.name for entrant in entrants])
