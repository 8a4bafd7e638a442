"""Tables of the ``highdim`` benchmark.

GPSampler and TuRBO have fewer seeds than the others. UHE-BO, which is ours too, is compared in
pairs and has no rank.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common.report import Report
from benchmarks.common.tables import CheckpointTables, Comparison, wald
from benchmarks.highdim.entrants import BBO, EXPENSIVE, OURS, UHE_BO
from benchmarks.highdim.problems import PROBLEMS, part_of

CHECKPOINTS = {
    "d10": (50, 100), "d20": (100, 200), "d30": (100, 150), "d50": (100, 300), "d100": (100, 300)
}  # fmt: skip


def add_moved_tables(
    report: Report, records: Sequence[Mapping[str, Any]], samplers: Sequence[str], part: str
) -> None:
    """Add everything about one part of shifted and rotated functions."""
    problems = {name: problem for name, problem in PROBLEMS.items() if part_of(name) == part}
    kinds = {name: problem.group for name, problem in problems.items()}
    comparison = Comparison.of(records, samplers, problems, kinds)
    if not comparison.curves:
        return
    ranked = [name for name in comparison.entrants if name != UHE_BO]
    cheap = [name for name in ranked if name not in EXPENSIVE]
    by_whom = {"all entrants": ranked}
    if cheap != ranked:
        by_whom[f"all but {' and '.join(EXPENSIVE)}"] = cheap
    tables = CheckpointTables(name=part, trials=CHECKPOINTS[part], group=("family", "families"))
    tables.add(report, comparison, first=[BBO, OURS], ranked=by_whom)


def add_cumulative(
    report: Report,
    records: Sequence[Mapping[str, Any]],
    samplers: Sequence[str],
    part: str,
    title: str,
) -> None:
    """Add cumulative regret over all evaluations, and after the start-up, and simple regret.

    The optimum of a tuning task is the least error rate that any run has met.
    """
    values: dict[str, dict[str, list[Any]]] = {}
    for record in records:
        if part_of(record["problem"]) == part:
            runs = values.setdefault(record["problem"], {})
            runs.setdefault(record["entrant"], []).append(np.array(record["values"]))
    rows = []
    for problem, runs in values.items():
        minimum = PROBLEMS[problem].minimum
        if part == "hpo":
            minimum = min(float(series.min()) for found in runs.values() for series in found)
        start = PROBLEMS[problem].n_startup
        for what, first in (
            ("cumulative", 0),
            ("cumulative after the start-up", start),
            ("simple", None),
        ):
            row = [problem, what]
            for name in samplers:
                regrets = [series - minimum for series in runs.get(name, [])]
                figures = [float(r.min() if first is None else r[first:].sum()) for r in regrets]
                row.append(f"{wald(figures)} ({len(figures)})" if figures else "not run")
            rows.append(row)
    if rows:
        report.table(title, ["problem", "regret", *samplers], rows)
    if part == "hpo":
        for problem, runs in values.items():
            least = min(float(series.min()) for found in runs.values() for series in found)
            report.note(f"Least error rate met on {problem}: {least:.5f}.")
