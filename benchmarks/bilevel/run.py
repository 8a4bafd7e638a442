"""Bilevel regret against function queries: BILBO, the BILBO paper's two rivals, and a control.

The instantaneous regret of a solution is the sum over the functions of the BILBO paper's Eqs.
(3.5) to (3.7): how much worse F is than at the bilevel optimum, how much worse f is than the best
response to the same x, and by how much each constraint is violated; noise-free, in standardized
units, better than the optimum counted as zero. Observations have noise of deviation 0.01 in those
units.

Infeasible problems are run for their declaration only.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.bilevel.entrants import STRATEGIES, Campaign, can_nest
from benchmarks.bilevel.problems import TASKS
from benchmarks.bilevel.task import LOWER, UPPER, BilevelTask
from benchmarks.common.options import add_count, add_effort, add_names
from benchmarks.common.report import Report, file_digest, package_digest
from benchmarks.common.runs import Run, completed
from benchmarks.common.tables import quartiles

DESCRIPTION = "Regret of bilevel optimization against function queries."
FIRST_SEED = 100  # the method's choices were made on lower ones
N_CHECKPOINTS = 5
SIZES = {"problems": tuple(TASKS), "entrants": tuple(STRATEGIES), "seeds": 5}
QUICK = {"problems": ("branin-goldstein", "branin-infeasible"), "queries": 24, "seeds": 1}
# Modules that decide what a run records, besides the package.
_DECISIVE = tuple(f"benchmarks.bilevel.{part}" for part in ("entrants", "problems", "smd", "task"))


@dataclass(frozen=True, kw_only=True)
class Search(Run):
    """One search to be run."""

    task: str
    entrant: str
    seed: int
    n_queries: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_effort(parser)
    parser.set_defaults(jobs=1)
    add_names(parser, "--problems", TASKS)
    add_names(parser, "--entrants", STRATEGIES)
    add_count(parser, "--queries", "budget of every problem (default: stated per problem)")
    parser.add_argument(
        "--first-seed", type=int, default=FIRST_SEED, help="seeds count from here (%(default)s)"
    )


def checkpoints(n_queries: int) -> list[int]:
    """Return the numbers of queries at which a run is judged."""
    return [round(n_queries * (i + 1) / N_CHECKPOINTS) for i in range(N_CHECKPOINTS)]


def execute(run: Search) -> dict[str, Any]:
    """Execute one search; returns what was measured."""
    task = TASKS[run.task]
    campaign = Campaign(task, run.seed)
    strategy, curve = STRATEGIES[run.entrant], []
    for n in [run.n_queries] if run.entrant == "nested" else checkpoints(run.n_queries):
        if n <= campaign.n_queries:
            continue
        solution = strategy(campaign, n)
        if task.solution is not None:
            point = campaign.solution() if solution is None else solution
            regrets = task.regrets(campaign.problem.space.decode(point))
            curve.append({"n_queries": n, **{k: round(v, 6) for k, v in regrets.items()}})
    n_asks = max(1, campaign.n_queries)
    return {
        "curve": curve,
        "declared": campaign.declared,
        "declared_at_end": campaign.declared_at_end,
        "seconds_per_query": round(campaign.seconds / n_asks, 5),
    }


def entrants_of(task: BilevelTask, chosen: Sequence[str]) -> list[str]:
    """Return those of the chosen entrants that can take part in ``task``."""
    names = [name for name in chosen if name != "nested" or can_nest(task)]
    return [name for name in names if name == "ours"] if task.solution is None else names


def run(options: argparse.Namespace, report: Report) -> None:
    """Run the benchmark and fill the report."""
    tasks, chosen = [TASKS[name] for name in options.problems], options.entrants
    source = "-".join([package_digest(), *map(file_digest, _DECISIVE)])
    searches = [
        Search(
            task=task.name,
            entrant=entrant,
            seed=seed,
            n_queries=options.queries or task.n_queries,
            source=source,
        )
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for task in tasks
        for entrant in entrants_of(task, chosen)
    ]
    effort = {"jobs": options.jobs, "minutes": options.minutes}
    records = list(completed(searches, execute, report, **effort).values())
    for task in tasks:
        if "nested" in chosen and task.solution is not None and not can_nest(task):
            report.skip(f"nested on {task.name}", "it handles neither constraints nor categories")
    _add_regret_tables(report, records)
    _add_declarations(report, records)


def total(point: dict[str, Any]) -> float:
    """Return the sum of the regrets of one point of a curve."""
    return float(sum(value for name, value in point.items() if name != "n_queries"))


def by_function(point: dict[str, Any]) -> tuple[float, float, float]:
    """Return the regrets of one point of a curve: of F, of f, and of all constraints together."""
    objectives = {UPPER, LOWER, "n_queries"}
    violation = sum(value for name, value in point.items() if name not in objectives)
    return point[UPPER], point[LOWER], float(violation)


def _add_regret_tables(report: Report, records: Sequence[dict[str, Any]]) -> None:
    """Add regrets per problem and entrant: at the end, and of each function over queries."""
    grouped: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in records:
        if record["curve"]:
            grouped.setdefault((record["task"], record["entrant"]), []).append(record)
    at_end, over_queries = [], []
    for (task, entrant), group in grouped.items():
        final = [total(record["curve"][-1]) for record in group]
        seconds = np.mean([record["seconds_per_query"] for record in group])
        at_end.append(
            [
                task,
                entrant,
                f"{np.mean(final):.3g} ({max(final):.3g})",
                quartiles(final),
                f"{len(group)}",
                f"{seconds:.3f}",
            ]
        )
        over_queries += [[task, entrant, *cells] for cells in _curve_rows(group)]
    report.table(
        "Final instantaneous regret over seeds, and processor seconds per query",
        ["problem", "entrant", "mean (worst)", "median [quartiles]", "seeds", "s/query"],
        at_end,
    )
    report.table(
        "Instantaneous regret of each function by function queries, mean over seeds",
        ["problem", "entrant", "queries", "F", "f", "constraints", "sum"],
        over_queries,
    )


def _curve_rows(group: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return queries and mean regrets by function at each checkpoint that all runs reached."""
    curves = [{point["n_queries"]: by_function(point) for point in r["curve"]} for r in group]
    rows = []
    for n in sorted(set.intersection(*map(set, curves))):
        means = np.mean([curve[n] for curve in curves], axis=0)
        rows.append([f"{n}", *(f"{mean:.3g}" for mean in (*means, means.sum()))])
    return rows


def _add_declarations(report: Report, records: Sequence[dict[str, Any]]) -> None:
    """Add when problems were declared infeasible, rightly or not."""
    rows = []
    for task in dict.fromkeys(record["task"] for record in records):
        group = [r for r in records if r["task"] == task and r["entrant"] == "ours"]
        if group and TASKS[task].constraints:
            said = [_declaration(r) for r in group]
            truth = "infeasible" if TASKS[task].solution is None else "feasible"
            rows.append([task, truth, ", ".join(said)])
    report.table(
        "Queries after which ours declared a problem infeasible, by seed",
        ["problem", "in truth", "declared after"],
        rows,
    )


def _declaration(record: dict[str, Any]) -> str:
    """Return after how many queries a run was first declared infeasible, and if that was kept."""
    if record["declared"] is None:
        return "never"
    return f"{record['declared']}{'' if record['declared_at_end'] else ' (withdrawn)'}"
