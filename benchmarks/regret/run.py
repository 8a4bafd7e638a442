"""Simple regret per problem, sampler and seed, from the same start-up points and budget.

Each run enqueues the same ``N_STARTUP`` Latin hypercube points (by seed) into its own study and
then asks the sampler up to the problem's budget.  The regret is the noise-free regret of the
incumbent a user would take: the best observed trial. Every finished run is one JSON line; runs
already in the file (same problem, same entrant's code, same seed and budget) are not repeated, so
an interrupted benchmark resumes, and a change of our code repeats our runs only.

``--paper`` runs the UHE paper's own functions, unmoved, with its acquisition function (GP-UCB,
multiplier 1.96) and its 20 seeds; what its text leaves open is in
``benchmarks.problems.paper_functions``.
Those records keep the evaluated points, from which the prediction error of the paper's Fig. 4 is
computed.

``--tables`` tunes scikit-learn models on its data sets, looked up in tables of cross-validated
scores (``benchmarks.problems.hpo_tables``), without noise and, some of them, with that of their
folds.
"""

import argparse
import concurrent.futures
import functools
import multiprocessing
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from benchmarks.common.histories import to_unit
from benchmarks.common.report import Report, read_records
from benchmarks.common.samplers import SAMPLERS, Sampler, add_entrant_arguments, available, quiet
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import Problem, from_unit, space_filling
from benchmarks.regret.groups import add_group_tables
from benchmarks.regret.paper import add_paper_tables
from benchmarks.regret.problems import FUNCTION_NAMES, NAMES, PAPER_NAMES, problem_named
from benchmarks.regret.tables import add_tables
from benchmarks.stopping.problems import QUICK_TABLE, TABLE_NAMES, tables_are_missing

DESCRIPTION = "Simple regret of our samplers and their peers on shifted and rotated test functions."
N_STARTUP = 10
DEFAULT_SEEDS = 10
DEFAULT_SAMPLERS = ("ours-uhe", "ours-map", "gpsampler", "tpe", "random")
QUICK_PROBLEMS = ("branin", "deceptive2", "noisy_hartmann6", "mixed_interaction5")
QUICK_SEEDS = 2
QUICK_TRIALS = 15
PAPER_SEEDS = 20
PAPER_SAMPLERS = ("ours-uhe-ucb", "ours-map-ucb", "uhe-literal", "gpsampler", "tpe", "random")
PAPER_REPORT = "regret-paper"
TABLE_TRIALS = 60
TABLE_REPORT = "regret-tables"
_POINT_DIGITS = 9
PROTOCOL = 1


@dataclass(frozen=True, kw_only=True)
class Run:
    """One study to be run; all its fields together are the key of its stored record."""

    function: str
    sampler: str
    seed: int
    n_trials: int
    source: str
    problem: str
    protocol: int = PROTOCOL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    parser.add_argument(
        "--jobs", type=int, default=2, help="processes, each with one thread (default: %(default)s)"
    )
    parser.add_argument(
        "--trials", type=int, help="budget of every problem (default: stated per problem)"
    )
    parser.add_argument(
        "--functions", nargs="+", choices=sorted(NAMES), metavar="NAME", help="only these problems"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--paper",
        action="store_true",
        help=f"the UHE paper's functions and settings, {PAPER_SEEDS} seeds, with "
        f"{' '.join(PAPER_SAMPLERS)}; writes {PAPER_REPORT}.*",
    )
    kind.add_argument(
        "--tables",
        action="store_true",
        help=f"tables of scikit-learn models' scores, {TABLE_TRIALS} trials; writes "
        f"{TABLE_REPORT}.*",
    )
    add_entrant_arguments(parser, DEFAULT_SAMPLERS)
    parser.set_defaults(samplers=None)


def startup_points(problem: Problem, seed: int, n_points: int = N_STARTUP) -> list[dict[str, Any]]:
    """Return the space-filling points that every sampler starts from."""
    points = space_filling(n_points, problem.dimension, np.random.default_rng(seed))
    return [from_unit(problem.space, point) for point in points]


def execute(run: Run, directory: Path) -> dict[str, Any]:
    """Run one study of a problem that may be a table kept in ``directory``; returns its record."""
    quiet()
    problem = problem_named(run.function, directory)
    sampler = SAMPLERS[run.sampler].build(run.seed, run.n_trials)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    for params in startup_points(problem, run.seed):
        study.enqueue_trial(params)
    best, regret, curve, seconds = float("inf"), float("inf"), [], 0.0
    for number in range(run.n_trials):
        start = time.process_time()
        trial = study.ask(dict(problem.space))
        seconds += time.process_time() - start
        value = problem.observe(trial.params, seed=run.seed, number=number)
        study.tell(trial, value)
        if value < best:
            best, regret = value, problem.regret(trial.params)
        curve.append(regret)
    record = {**asdict(run), "regret": curve[-1], "curve": curve, "ask_seconds": round(seconds, 4)}
    if problem.group == "paper":
        points = [
            to_unit(problem.space, trial.params) for trial in study.get_trials(deepcopy=False)
        ]
        record["points"] = [[round(float(u), _POINT_DIGITS) for u in point] for point in points]
    return record


def planned_runs(
    problems: Sequence[Problem], samplers: Sequence[Sampler], seeds: int, n_trials: int | None
) -> list[Run]:
    """Return every run, seed by seed, so that an interrupted benchmark has complete seeds."""
    sources = {sampler.name: sampler.source() for sampler in samplers}
    return [
        Run(
            function=problem.name,
            sampler=sampler.name,
            seed=seed,
            n_trials=n_trials or problem.n_trials,
            source=sources[sampler.name],
            problem=problem.fingerprint,
        )
        for seed in range(seeds)
        for problem in problems
        for sampler in samplers
    ]


def stored_runs(records: Iterable[dict[str, Any]]) -> dict[Run, dict[str, Any]]:
    """Return the readable records by their run."""
    fields = Run.__dataclass_fields__
    stored = {}
    for record in records:
        if fields.keys() <= record.keys() and "regret" in record:
            stored[Run(**{name: record[name] for name in fields})] = record
    return stored


def execute_all(runs: Sequence[Run], report: Report, *, jobs: int) -> None:
    """Execute runs over several processes; each record is written as soon as it is there."""
    execute_one = functools.partial(execute, directory=report.directory)
    if jobs == 1:
        results: Iterable[dict[str, Any]] = map(execute_one, runs)
        _collect(results, len(runs), report)
        return
    # Spawned, not forked: torch and BLAS have threads, and locks, of their own.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=jobs, mp_context=context) as pool:
        futures = [pool.submit(execute_one, run) for run in runs]
        try:
            _collect(
                (future.result() for future in concurrent.futures.as_completed(futures)),
                len(runs),
                report,
            )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _collect(results: Iterable[dict[str, Any]], total: int, report: Report) -> None:
    """Write each record and show the progress."""
    for done, record in enumerate(results, start=1):
        report.record(**record)
        report.progress(
            f"[{done}/{total}] {record['function']} {record['sampler']} seed {record['seed']}: "
            f"regret {record['regret']:.3g} ({record['ask_seconds']:.1f} s of asking)"
        )


def chosen_problems(options: argparse.Namespace, report: Report) -> list[Problem]:
    """Return the problems that are named or, without names, those of the kind of run."""
    names: Sequence[str] = FUNCTION_NAMES
    if options.tables:
        names = (QUICK_TABLE,) if options.quick else TABLE_NAMES
    elif options.paper:
        names = PAPER_NAMES
    elif options.quick:
        names = QUICK_PROBLEMS
    names = options.functions or names
    functions = [name for name in names if name in PROBLEMS]
    if tables_are_missing() and len(functions) < len(names):
        report.skip("the tables", "not installed: scikit-learn")
        names = functions
    return [problem_named(name, report.directory) for name in names]


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for."""
    if options.paper or options.tables:
        report.name = PAPER_REPORT if options.paper else TABLE_REPORT
    entrants = options.samplers or (PAPER_SAMPLERS if options.paper else DEFAULT_SAMPLERS)
    samplers = available((*entrants, *options.peers), report)
    default_seeds = PAPER_SEEDS if options.paper else DEFAULT_SEEDS
    seeds = options.seeds or (QUICK_SEEDS if options.quick else default_seeds)
    default_trials = TABLE_TRIALS if options.tables else None
    n_trials = options.trials or (QUICK_TRIALS if options.quick else default_trials)
    runs = planned_runs(chosen_problems(options, report), samplers, seeds, n_trials)
    stored = stored_runs(read_records(report.records_path))
    todo = [planned for planned in runs if planned not in stored]
    report.progress(f"{len(runs)} runs, {len(runs) - len(todo)} of them stored already")
    execute_all(todo, report, jobs=options.jobs)
    stored = stored_runs(read_records(report.records_path))
    records, names = [stored[planned] for planned in runs], [sampler.name for sampler in samplers]
    add_tables(report, records, names)
    add_group_tables(report, records, names)
    if options.paper:
        add_paper_tables(report, records, names)
