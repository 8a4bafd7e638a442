"""Bilevel regret against function queries: BILBO, the BILBO paper's two rivals, and a control.

The instantaneous regret of a solution is the sum over the functions of the BILBO paper's Eqs.
(3.5) to (3.7): how much worse F is than at the bilevel optimum, how much worse f is than the best
response to the same x, and by how much each constraint is violated; noise-free, in standardized
units, better than the optimum counted as zero. Observations have noise of deviation 0.01 in those
units.

Infeasible problems are run for their declaration only.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.bilevel.entrants import STRATEGIES, Campaign, can_nest
from benchmarks.bilevel.problems import TASKS
from benchmarks.bilevel.task import LOWER, UPPER, BilevelTask
from benchmarks.common.options import add_count, add_effort, add_names
from benchmarks.common.report import Report, file_digest, package_digest
from benchmarks.common.runs import Run, completed, grouped

DESCRIPTION = "Regret of bilevel optimization against function queries."
FIRST_SEED = 100  # the method's choices were made on lower ones
N_CHECKPOINTS = 5
SIZES = {"problems": tuple(TASKS), "entrants": tuple(STRATEGIES), "seeds": 5}
QUICK = {"problems": ("branin-goldstein", "branin-infeasible"), "queries": 18, "seeds": 1}
# Modules that decide what a run records, besides the package.
_DECISIVE = tuple(f"benchmarks.bilevel.{part}" for part in ("entrants", "problems", "smd", "task"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_effort(parser)
    parser.set_defaults(jobs=1)
    add_names(parser, "--problems", TASKS)
    add_names(parser, "--entrants", STRATEGIES)
    add_count(parser, "--queries", "budget of every problem (default: stated per problem)")


def checkpoints(n_queries: int) -> list[int]:
    """Return the numbers of queries at which a run is judged."""
    return [round(n_queries * (i + 1) / N_CHECKPOINTS) for i in range(N_CHECKPOINTS)]


def execute(run: Run) -> dict[str, Any]:
    """Execute one search; returns what was measured."""
    task = TASKS[run.problem]
    campaign = Campaign(task, run.seed)
    strategy, curve = STRATEGIES[run.entrant], []
    for n in [run.n_trials] if run.entrant == "nested" else checkpoints(run.n_trials):
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
        Run(
            source=source,
            problem=task.name,
            entrant=entrant,
            seed=seed,
            n_trials=options.queries or task.n_queries,
        )
        for seed in range(FIRST_SEED, FIRST_SEED + options.seeds)
        for task in tasks
        for entrant in entrants_of(task, chosen)
    ]
    effort = {"jobs": options.jobs, "minutes": options.minutes}
    records = list(completed(searches, execute, report, **effort).values())
    for task in tasks:
        if "nested" in chosen and task.solution is not None and not can_nest(task):
            report.skip(f"nested on {task.name}", "it handles neither constraints nor categories")
    groups = grouped(records, "problem", "entrant")
    report.table(
        "Instantaneous regret by function queries: mean over seeds, and the worst sum",
        ["problem", "entrant", "queries", "F", "f", "constraints", "sum", "worst", "seeds"],
        [[*key, *row, len(group)] for key, group in groups.items() for row in regret_rows(group)],
    )
    report.table(
        "Processor seconds per query",
        ["problem", "entrant", "s/query"],
        [
            [*key, f"{np.mean([r['seconds_per_query'] for r in g]):.3f}"]
            for key, g in groups.items()
        ],
    )
    report.table(
        "Queries after which ours declared a problem infeasible, by seed",
        ["problem", "in truth", "declared after"],
        [
            [
                task,
                "feasible" if TASKS[task].solution else "infeasible",
                ", ".join(map(_declaration, group)),
            ]
            for (task, entrant), group in groups.items()
            if entrant == "ours" and TASKS[task].constraints
        ],
    )


def by_function(point: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the regrets of one point of a curve: of F, of f, and of all constraints together."""
    objectives = {UPPER, LOWER, "n_queries"}
    violation = sum(value for name, value in point.items() if name not in objectives)
    return point[UPPER], point[LOWER], float(violation)


def regret_rows(group: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return queries, mean regrets and the worst sum at each checkpoint that all runs reached."""
    curves = [{point["n_queries"]: by_function(point) for point in r["curve"]} for r in group]
    rows = []
    for n in sorted(set.intersection(*map(set, curves))):
        regrets = np.array([curve[n] for curve in curves])
        means, worst = regrets.mean(axis=0), regrets.sum(axis=1).max()
        rows.append([f"{n}", *(f"{value:.3g}" for value in (*means, means.sum(), worst))])
    return rows


def _declaration(record: Mapping[str, Any]) -> str:
    """Return after how many queries a run was first declared infeasible, and if that was kept."""
    if record["declared"] is None:
        return "never"
    return f"{record['declared']}{'' if record['declared_at_end'] else ' (withdrawn)'}"
