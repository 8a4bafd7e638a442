"""Tables of the ``regret`` benchmark: quartiles per problem, mean ranks, paired comparisons."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.common.tables import RELATIVE_FLOOR, Comparison, behind, mean_ranks, paired
from benchmarks.problems.problem import Problem

WORSE_FACTOR = 3.0
REFERENCE = "gpsampler"


def add_tables(
    report: Report,
    comparison: Comparison,
    records: Sequence[Mapping[str, Any]],
    problems: Mapping[str, Problem],
) -> None:
    """Add every table of the benchmark to the report."""
    if not records:
        report.note("Nothing was measured.")
        return
    budget = {record["problem"]: record["n_trials"] for record in records}
    _add_problems(report, comparison, budget, problems)
    _add_ranks(report, comparison, records)
    _add_pairs(report, comparison)
    _add_notes(report, comparison)


def _add_problems(
    report: Report,
    comparison: Comparison,
    budget: Mapping[str, int],
    problems: Mapping[str, Problem],
) -> None:
    """Add the table of medians and quartiles; the best median of each problem is bold."""
    rows = [
        [
            *(name, problems[name].group, budget[name], f"{problems[name].noise_sd:g}"),
            *comparison.median_cells(name, counts=False),
        ]
        for name in comparison.curves
    ]
    n_seeds = len({seed for _problem, seed in comparison.cells()})
    title = f"Final simple regret: median [quartiles] over {n_seeds} seeds"
    headers = ["problem", "group", "trials", "noise sd", *comparison.entrants]
    report.table(title, headers, rows)
    report.note(
        "Regret of the best observed trial, evaluated without noise. Values below "
        f"{RELATIVE_FLOOR:g} of a problem's scale (median regret of a random point) count as that."
    )


def _add_ranks(
    report: Report, comparison: Comparison, records: Sequence[Mapping[str, Any]]
) -> None:
    """Add the mean ranks over problems and the time spent in asking."""
    names, entrants = list(comparison.curves), comparison.entrants
    medians = [[np.median(comparison.values(p, e)) for e in entrants] for p in names]
    median_ranks = rankdata(np.array(medians), axis=1).mean(axis=0)
    seed_ranks, _ = mean_ranks(comparison.cells(), entrants)
    rows = []
    for i, entrant in enumerate(entrants):
        seconds = [np.mean(r["seconds"]) for r in records if r["entrant"] == entrant]
        logs = [
            np.log10(comparison.values(name, entrant) / comparison.scales[name]).mean()
            for name in names
        ]
        rank = "" if seed_ranks is None else f"{seed_ranks[i]:.2f}"
        figures = f"{median_ranks[i]:.2f}", rank, f"{np.mean(logs):.2f}"
        rows.append([entrant, *figures, f"{1e3 * float(np.mean(seconds)):.1f}"])
    headers = [
        "sampler",
        "mean rank (by median)",
        "mean rank (per seed)",
        "mean log10 relative regret",
        "CPU ms per ask",
    ]
    report.table(f"Ranks over {len(names)} problems (1 is best)", headers, rows)


def _add_pairs(report: Report, comparison: Comparison) -> None:
    """Add the paired comparisons, ours against each peer and ours among each other."""
    ours = [name for name in comparison.entrants if SAMPLERS[name].ours]
    peers = [name for name in comparison.entrants if not SAMPLERS[name].ours]
    pairs = [(mine, peer) for mine in ours for peer in peers]
    pairs += [(a, b) for i, a in enumerate(ours) for b in ours[i + 1 :]]
    rows = [
        [f"{first} against {second}", pair.counts, pair.interval(3)]
        for first, second in pairs
        if (pair := paired(comparison.cells(), first, second)) is not None
    ]
    headers = [
        "pair",
        "wins / ties / losses (per seed)",
        "geometric mean of regret ratio [95% over problems]",
    ]
    if rows:
        report.table("Paired comparison (below 1: the first is better)", headers, rows)


def _add_notes(report: Report, comparison: Comparison) -> None:
    """Name each problem where our median regret is far above the reference's."""
    if REFERENCE not in comparison.entrants:
        return
    for mine in (name for name in comparison.entrants if SAMPLERS[name].ours):
        lost = behind(comparison.cells(), mine, REFERENCE)
        worse = [f"{name} ({by:.1f}x)" for name, by in lost.items() if by > WORSE_FACTOR]
        report.note(
            f"Problems where the median regret of {mine} is more than "
            f"{WORSE_FACTOR:g}x {REFERENCE}'s: {', '.join(worse) or 'none'}."
        )
