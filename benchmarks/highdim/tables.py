"""Tables of the ``highdim`` benchmark.

Regrets are noise-free; those below ``RELATIVE_FLOOR`` of a problem's scale (median regret of a
random point) count as that. GPSampler and TuRBO have fewer seeds than the others: ranks are over
the runs that all compared entrants have, and each paired comparison over those that both have. Runs
may differ in length: at a number of trials, those count that are that long. UHE-BO, which is ours
too, is compared in pairs and has no rank.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.common.report import Report
from benchmarks.highdim.entrants import EXPENSIVE, OURS, UHE_BO
from benchmarks.highdim.problems import CASES

RELATIVE_FLOOR = 1e-6
CHECKPOINTS = {
    "d10": (50, 100), "d20": (100, 200), "d30": (100, 150), "d50": (100, 300), "d100": (100, 300)
}  # fmt: skip
GROUPS = ("held out", "seen", "all")
WALD = 1.96

# problem -> sampler -> seed -> values (n_trials,) as observed, to be minimized.
Values: TypeAlias = Mapping[str, Mapping[str, Mapping[int, NDArray[np.float64]]]]
# (problem, seed) -> sampler -> simple regret.
Cells: TypeAlias = Mapping[tuple[str, int], Mapping[str, float]]


def collect(records: Sequence[Mapping[str, Any]], part: str) -> Values:
    """Return one part's values by problem, sampler and seed."""
    values: dict[str, dict[str, dict[int, NDArray[np.float64]]]] = {}
    for record in records:
        if CASES[record["problem"]].part == part:
            per_sampler = values.setdefault(record["problem"], {})
            per_seed = per_sampler.setdefault(record["sampler"], {})
            per_seed[record["seed"]] = np.array(record["values"], dtype=np.float64)
    return values


def simple_regret(problem: str, values: NDArray[np.float64], t: int) -> float:
    """Return the regret of the best of the first ``t`` values, floored."""
    case = CASES[problem]
    assert case.minimum is not None
    assert case.scale is not None
    return max(float(values[:t].min()) - case.minimum, RELATIVE_FLOOR * case.scale())


def cells_after(values: Values, t: int) -> Cells:
    """Return the simple regret after ``t`` evaluations of every problem, seed and sampler."""
    cells: dict[tuple[str, int], dict[str, float]] = {}
    for problem, per_sampler in values.items():
        for sampler, per_seed in per_sampler.items():
            for seed, series in per_seed.items():
                if len(series) < t:
                    continue
                cells.setdefault((problem, seed), {})[sampler] = simple_regret(problem, series, t)
    return cells


def in_group(problem: str, group: str) -> bool:
    """Tell whether a problem belongs to one of ``GROUPS``."""
    return group == "all" or CASES[problem].seen == (group == "seen")


def mean_ranks(
    cells: Cells, samplers: Sequence[str], group: str
) -> tuple[NDArray[np.float64] | None, int]:
    """Return mean ranks (n_samplers,) and over how many (problem, seed) all samplers have run.

    Ranks are averaged over a problem's seeds first, so that every problem counts alike.
    """
    by_problem: dict[str, list[NDArray[np.float64]]] = {}
    for (problem, _seed), cell in cells.items():
        if in_group(problem, group) and all(name in cell for name in samplers):
            ranks = rankdata([cell[name] for name in samplers])
            by_problem.setdefault(problem, []).append(ranks)
    if not by_problem:
        return None, 0
    means = np.array([np.mean(ranks, axis=0) for ranks in by_problem.values()])
    return means.mean(axis=0), sum(map(len, by_problem.values()))


def paired(cells: Cells, ours: str, peer: str, group: str) -> dict[str, float] | None:
    """Compare two samplers on the runs that both have; None if there is none.

    Returns:
        Wins, ties and losses over runs, the geometric mean of the regret ratio ours / peer over
        problems, and a 95 % interval of it, which is over problems.
    """
    logs: dict[str, list[float]] = {}
    for (problem, _seed), cell in cells.items():
        if in_group(problem, group) and ours in cell and peer in cell:
            logs.setdefault(problem, []).append(math.log(cell[ours] / cell[peer]))
    if not logs:
        return None
    ratios = np.concatenate([np.array(values) for values in logs.values()])
    means = np.array([np.mean(values) for values in logs.values()])
    half = WALD * float(means.std(ddof=1)) / math.sqrt(means.size) if means.size > 1 else math.nan
    return {
        "wins": int((ratios < 0.0).sum()),
        "ties": int((ratios == 0.0).sum()),
        "losses": int((ratios > 0.0).sum()),
        "ratio": math.exp(float(means.mean())),
        "low": math.exp(float(means.mean()) - half),
        "high": math.exp(float(means.mean()) + half),
    }


def lost_problems(cells: Cells, ours: str, peer: str) -> dict[str, float]:
    """Return the problems on which our median regret is above a peer's, and the ratio of the two.

    Medians are over the seeds that both have.
    """
    both: dict[str, list[tuple[float, float]]] = {}
    for (problem, _seed), cell in cells.items():
        if ours in cell and peer in cell:
            both.setdefault(problem, []).append((cell[ours], cell[peer]))
    ratios = {}
    for problem, pairs in both.items():
        mine, theirs = np.median(np.array(pairs), axis=0)
        if mine > theirs:
            ratios[problem] = float(mine / theirs)
    return ratios


def add_moved_tables(
    report: Report, records: Sequence[Mapping[str, Any]], samplers: Sequence[str], part: str
) -> None:
    """Add everything about one part of shifted and rotated functions."""
    values = collect(records, part)
    if not values:
        return
    present = [name for name in samplers if any(name in runs for runs in values.values())]
    n_trials = max(
        len(s) for runs in values.values() for per in runs.values() for s in per.values()
    )
    checkpoints = [t for t in CHECKPOINTS[part] if t < n_trials] + [n_trials]
    rows = []
    for problem, per_sampler in values.items():
        for t in checkpoints:
            kind = "seen" if CASES[problem].seen else "held out"
            cells = _median_cells(problem, per_sampler, present, t)
            if cells:
                rows.append([problem, kind, t, *cells])
    report.table(
        f"{part}: simple regret, median [quartiles] (number of seeds)",
        ["problem", "family", "trials", *present],
        rows,
    )
    every = {t: cells_after(values, t) for t in checkpoints}
    _add_ranks(report, every, [name for name in present if name != UHE_BO], part)
    if OURS in present:
        _add_pairs(report, every, [name for name in present if name != OURS], part)
    _add_counts(report, values, present, part)


def _median_cells(
    problem: str,
    per_sampler: Mapping[str, Mapping[int, NDArray[np.float64]]],
    samplers: Sequence[str],
    t: int,
) -> list[str]:
    """Return one row's cells, none if no run is that long; the least median is bold."""
    regrets = {
        name: np.array(found)
        for name in samplers
        if (
            found := [
                simple_regret(problem, series, t)
                for series in per_sampler.get(name, {}).values()
                if len(series) >= t
            ]
        )
    }
    if not regrets:
        return []
    least = min(float(np.median(found)) for found in regrets.values())
    cells = []
    for name in samplers:
        if name not in regrets:
            cells.append("not run")
            continue
        low, median, high = np.quantile(regrets[name], [0.25, 0.5, 0.75])
        text = f"{median:.3g} [{low:.2g}, {high:.2g}] ({len(regrets[name])})"
        cells.append(f"**{text}**" if median == least else text)
    return cells


def _add_ranks(
    report: Report, every: Mapping[int, Cells], samplers: Sequence[str], part: str
) -> None:
    """Add mean ranks among all entrants, and among those with all seeds."""
    cheap = [name for name in samplers if name not in EXPENSIVE]
    for chosen in (samplers, cheap) if cheap != list(samplers) else (samplers,):
        rows = []
        for t, cells in every.items():
            for group in GROUPS:
                ranks, n_runs = mean_ranks(cells, chosen, group)
                if ranks is not None and len(chosen) > 1:
                    rows.append([t, group, n_runs, *(f"{rank:.2f}" for rank in ranks)])
        if rows:
            headers = ["trials", "families", "problems x seeds", *chosen]
            whom = "all entrants" if chosen is samplers else f"all but {' and '.join(EXPENSIVE)}"
            report.table(f"{part}: mean rank among {whom}, 1 is best", headers, rows)


def _add_pairs(report: Report, every: Mapping[int, Cells], peers: Sequence[str], part: str) -> None:
    """Add paired comparisons, and by name the problems on which we lose."""
    rows = []
    for peer in peers:
        for t, cells in every.items():
            for group in GROUPS:
                result = paired(cells, OURS, peer, group)
                if result is None:
                    continue
                counts = f"{result['wins']:.0f} / {result['ties']:.0f} / {result['losses']:.0f}"
                ratio = f"{result['ratio']:.3g} [{result['low']:.2g}, {result['high']:.2g}]"
                lost = lost_problems(cells, OURS, peer) if group == "all" else {}
                names = ", ".join(f"{name} ({by:.2g}x)" for name, by in lost.items())
                rows.append([f"{OURS} against {peer}", t, group, counts, ratio, names])
    headers = [
        "pair",
        "trials",
        "families",
        "wins / ties / losses",
        "regret ratio [95% over problems]",
        "behind by median",
    ]
    report.table(f"{part}: paired comparison, below 1 ours is better", headers, rows)


def _add_counts(report: Report, values: Values, samplers: Sequence[str], part: str) -> None:
    """Say how many problems each entrant has been run on."""
    counts = ", ".join(
        f"{name} {sum(len(runs.get(name, {})) for runs in values.values())}" for name in samplers
    )
    report.note(f"Runs in {part}: {counts}.")


def add_seconds_table(
    report: Report, records: Sequence[Mapping[str, Any]], samplers: Sequence[str]
) -> None:
    """Add CPU time per suggestion by part: context only, as runs are not made in turn."""
    parts = list(dict.fromkeys(CASES[record["problem"]].part for record in records))
    rows = []
    for part in parts:
        row: list[str] = [part]
        for name in samplers:
            seconds = [
                np.mean(record["seconds"][CASES[record["problem"]].n_startup :])
                for record in records
                if CASES[record["problem"]].part == part and record["sampler"] == name
            ]
            row.append(f"{1e3 * float(np.mean(seconds)):.1f}" if seconds else "")
        rows.append(row)
    if rows:
        report.table("CPU ms per suggestion, over the runs", ["part", *samplers], rows)


def wald(values: Sequence[float]) -> str:
    """Format a mean, the paper's error bar (1.96 standard errors), and the number of values."""
    if len(values) == 1:
        return f"{values[0]:.4g} (1)"
    half = WALD * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return f"{np.mean(values):.4g} ± {half:.2g} ({len(values)})"


def add_paper_table(
    report: Report, records: Sequence[Mapping[str, Any]], samplers: Sequence[str]
) -> None:
    """Add the paper's functions: cumulative and simple regret."""
    minima = {name: case.minimum for name, case in CASES.items() if case.minimum is not None}
    _add_cumulative(
        report,
        collect(records, "paper"),
        samplers,
        minima,
        "The paper's functions (20 parameters): mean ± 1.96 standard errors (seeds)",
    )


def add_tuning_table(
    report: Report, records: Sequence[Mapping[str, Any]], samplers: Sequence[str]
) -> None:
    """Add the tuning tasks; the optimum is the best error rate that any run has met."""
    values = collect(records, "hpo")
    minima = {
        problem: min(float(s.min()) for per_seed in runs.values() for s in per_seed.values())
        for problem, runs in values.items()
    }
    _add_cumulative(
        report,
        values,
        samplers,
        minima,
        "The paper's tuning tasks (error rate): mean ± 1.96 standard errors (seeds)",
    )
    for problem, least in minima.items():
        report.note(f"Least error rate met on {problem}: {least:.5f}.")


def _add_cumulative(
    report: Report, values: Values, samplers: Sequence[str], minima: Mapping[str, float], title: str
) -> None:
    """Add cumulative regret over all evaluations, and after the start-up, and simple regret."""
    rows = []
    for problem, runs in values.items():
        n_startup = CASES[problem].n_startup
        for what in ("cumulative", "cumulative after the start-up", "simple"):
            row: list[object] = [problem, what]
            for name in samplers:
                regrets = [series - minima[problem] for series in runs.get(name, {}).values()]
                if not regrets:
                    row.append("not run")
                elif what == "simple":
                    row.append(wald([float(series.min()) for series in regrets]))
                else:
                    first = 0 if what == "cumulative" else n_startup
                    row.append(wald([float(series[first:].sum()) for series in regrets]))
            rows.append(row)
    if rows:
        report.table(title, ["problem", "regret", *samplers], rows)
