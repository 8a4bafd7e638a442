"""Tables of the ``regret`` benchmark: quartiles per problem, mean ranks, paired comparisons."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.regret.problems import problem_named

RELATIVE_FLOOR = 1e-6
WORSE_FACTOR = 3.0
REFERENCE = "gpsampler"

# Final regrets, floored: problem -> sampler -> (n_seeds,), every sampler's seeds in one order.
Regrets: TypeAlias = Mapping[str, Mapping[str, NDArray[np.float64]]]


def collect(
    records: Iterable[Mapping[str, Any]], samplers: Sequence[str], directory: Path
) -> Regrets:
    """Group records; regrets below ``RELATIVE_FLOOR`` of the problem's scale are raised to it.

    Args:
        records: Finished runs, of each sampler the same.
        samplers: Whose are asked for.
        directory: Where tables are kept, see ``benchmarks.regret.problems``.
    """
    by_key = {
        (record["function"], record["sampler"], record["seed"]): float(record["regret"])
        for record in records
    }
    functions = list(dict.fromkeys(function for function, _, _ in by_key))
    seeds = sorted({seed for _, _, seed in by_key})
    return {
        function: {
            sampler: np.maximum(
                [by_key[function, sampler, seed] for seed in seeds],
                RELATIVE_FLOOR * problem_named(function, directory).scale,
            )
            for sampler in samplers
        }
        for function in functions
    }


def ranks_by_median(regrets: Regrets, samplers: Sequence[str]) -> NDArray[np.float64]:
    """Return ranks (n_functions, n_samplers) of the median regrets; 1 is best, ties share."""
    medians = [
        [float(np.median(per_sampler[sampler])) for sampler in samplers]
        for per_sampler in regrets.values()
    ]
    return np.asarray(rankdata(np.array(medians), axis=1), dtype=np.float64)


def ranks_by_seed(regrets: Regrets, samplers: Sequence[str]) -> NDArray[np.float64]:
    """Return ranks (n_functions, n_samplers) of each seed's regrets, averaged over the seeds."""
    rows = [
        rankdata(np.array([per_sampler[sampler] for sampler in samplers]), axis=0).mean(axis=1)
        for per_sampler in regrets.values()
    ]
    return np.array(rows, dtype=np.float64)


def paired(regrets: Regrets, ours: str, peer: str) -> dict[str, float]:
    """Compare two samplers: wins and losses per seed, and the geometric mean of ours / peer."""
    per_function = [
        np.log(per_sampler[ours] / per_sampler[peer]) for per_sampler in regrets.values()
    ]
    ratios = np.concatenate(per_function)
    # The claim generalizes over problems, not seeds, so the interval is over problems.
    means = np.array([values.mean() for values in per_function])
    half = 1.96 * float(means.std(ddof=1)) / math.sqrt(means.size) if means.size > 1 else math.nan
    return {
        "wins": int((ratios < 0.0).sum()),
        "losses": int((ratios > 0.0).sum()),
        "ties": int((ratios == 0.0).sum()),
        "ratio": math.exp(float(means.mean())),
        "low": math.exp(float(means.mean()) - half),
        "high": math.exp(float(means.mean()) + half),
    }


def _quartiles(values: NDArray[np.float64]) -> str:
    """Format the median and the quartiles."""
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{median:.3g} [{low:.2g}, {high:.2g}]"


def add_tables(
    report: Report, records: Sequence[Mapping[str, Any]], samplers: Sequence[str]
) -> None:
    """Add every table of the benchmark to the report."""
    if not records or not samplers:
        report.note("Nothing was measured.")
        return
    regrets = collect(records, samplers, report.directory)
    budget = {record["function"]: record["n_trials"] for record in records}
    _add_functions(report, regrets, samplers, budget)
    _add_ranks(report, regrets, samplers, records)
    ours = [name for name in samplers if SAMPLERS[name].ours]
    peers = [name for name in samplers if not SAMPLERS[name].ours]
    _add_pairs(report, regrets, ours, peers)
    _add_notes(report, regrets, ours)


def _add_functions(
    report: Report, regrets: Regrets, samplers: Sequence[str], budget: Mapping[str, int]
) -> None:
    """Add the table of medians and quartiles; the best median of each problem is bold."""
    rows = []
    for function, per_sampler in regrets.items():
        best = min(float(np.median(values)) for values in per_sampler.values())
        cells = []
        for sampler in samplers:
            text = _quartiles(per_sampler[sampler])
            cells.append(f"**{text}**" if float(np.median(per_sampler[sampler])) == best else text)
        problem = problem_named(function, report.directory)
        rows.append([function, problem.group, budget[function], f"{problem.noise_sd:g}", *cells])
    n_seeds = len(next(iter(next(iter(regrets.values())).values())))
    title = f"Final simple regret: median [quartiles] over {n_seeds} seeds"
    report.table(title, ["problem", "group", "trials", "noise sd", *samplers], rows)
    report.note(
        "Regret of the best observed trial, evaluated without noise. Values below "
        f"{RELATIVE_FLOOR:g} of a problem's scale (median regret of a random point) count as that."
    )


def _add_ranks(
    report: Report, regrets: Regrets, samplers: Sequence[str], records: Sequence[Mapping[str, Any]]
) -> None:
    """Add the mean ranks over problems and the time spent in asking."""
    median_ranks = ranks_by_median(regrets, samplers).mean(axis=0)
    seed_ranks = ranks_by_seed(regrets, samplers).mean(axis=0)
    scales = {name: problem_named(name, report.directory).scale for name in regrets}
    rows = []
    for i, sampler in enumerate(samplers):
        seconds = [r["ask_seconds"] / r["n_trials"] for r in records if r["sampler"] == sampler]
        logs = [
            float(np.log10(values[sampler] / scales[name]).mean())
            for name, values in regrets.items()
        ]
        rows.append(
            [
                sampler,
                f"{median_ranks[i]:.2f}",
                f"{seed_ranks[i]:.2f}",
                f"{np.mean(logs):.2f}",
                f"{1e3 * float(np.mean(seconds)):.1f}",
            ]
        )
    headers = [
        "sampler",
        "mean rank (by median)",
        "mean rank (per seed)",
        "mean log10 relative regret",
        "CPU ms per ask",
    ]
    report.table(f"Ranks over {len(regrets)} problems (1 is best)", headers, rows)


def _add_pairs(report: Report, regrets: Regrets, ours: Sequence[str], peers: Sequence[str]) -> None:
    """Add the paired comparisons, ours against each peer and ours among each other."""
    rows = []
    others = [(mine, peer) for mine in ours for peer in peers]
    for mine, peer in others + [(a, b) for i, a in enumerate(ours) for b in ours[i + 1 :]]:
        result = paired(regrets, mine, peer)
        counts = f"{result['wins']:.0f} / {result['ties']:.0f} / {result['losses']:.0f}"
        interval = f"{result['ratio']:.3g} [{result['low']:.3g}, {result['high']:.3g}]"
        rows.append([f"{mine} against {peer}", counts, interval])
    if not rows:
        return
    headers = [
        "pair",
        "wins / ties / losses (per seed)",
        "geometric mean of regret ratio [95% over problems]",
    ]
    report.table("Paired comparison (below 1: the first is better)", headers, rows)


def _add_notes(report: Report, regrets: Regrets, ours: Sequence[str]) -> None:
    """Name each problem where our median regret is far above the reference's."""
    if not all(REFERENCE in per_sampler for per_sampler in regrets.values()):
        return
    for mine in ours:
        worse = []
        for function, per_sampler in regrets.items():
            ratio = float(np.median(per_sampler[mine]) / np.median(per_sampler[REFERENCE]))
            if ratio > WORSE_FACTOR:
                worse.append(f"{function} ({ratio:.1f}x)")
        where = ", ".join(worse) if worse else "none"
        report.note(
            f"Problems where the median regret of {mine} is more than "
            f"{WORSE_FACTOR:g}x {REFERENCE}'s: {where}."
        )
