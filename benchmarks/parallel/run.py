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

Every finished run is one JSON line; those in the file already (same problem, same entrant's code,
same seed, workers and budget) are not repeated.
"""

import argparse
import concurrent.futures
import itertools
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from benchmarks.common.report import Report, read_records
from benchmarks.common.samplers import Sampler, add_entrant_arguments, available, quiet
from benchmarks.parallel.study import STUDY, Meeting, Run, join, record_of, storage_at, work
from benchmarks.parallel.tables import add_tables
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import Problem
from benchmarks.regret.run import startup_points

DESCRIPTION = "Regret and wall time of studies shared by 1 to 8 worker processes."
DEFAULT_SAMPLERS = ("ours-uhe", "ours-map", "gpsampler", "tpe", "random")
DEFAULT_FUNCTIONS = ("hartmann6", "ackley5", "mixed_interaction5")
DEFAULT_WORKERS = (1, 2, 4, 8)
DEFAULT_TRIALS, DEFAULT_SECONDS, DEFAULT_SEEDS = 64, 1.0, 5
QUICK_SAMPLERS = ("ours-uhe", "tpe", "random")
QUICK_FUNCTIONS = ("branin",)
QUICK_WORKERS = (1, 2, 4)
QUICK_TRIALS, QUICK_SECONDS, QUICK_SEEDS = 16, 0.05, 1


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
            jobs, mp_context=context, initializer=join, initargs=(counters,)
        ) as pool,
    ):

        def begin(run: Run, place: int) -> "_Begun":
            path = Path(folder) / f"{next(names)}.log"
            study = optuna.create_study(study_name=STUDY, storage=storage_at(path))
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
        study = optuna.load_study(study_name=STUDY, storage=storage_at(self.path))
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
