"""Tables of the ``parallel`` benchmark: regret and wall time by number of workers."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.common.tables import RELATIVE_FLOOR, quartiles
from benchmarks.problems.functions import PROBLEMS

Records: TypeAlias = Sequence[Mapping[str, Any]]


def add_tables(report: Report, records: Records, samplers: Sequence[str]) -> None:
    """Add every table of the benchmark to the report."""
    workers = sorted({record["workers"] for record in records})
    _add_regrets(report, records, samplers, workers)
    _add_ratios(report, records, samplers, workers)
    _add_times(report, records, samplers, workers)


def regrets(records: Records, sampler: str, workers: int) -> NDArray[np.float64]:
    """Return the relative regrets, floored, of one entrant and number of workers, problem by seed.

    They are in units of the problem's scale, the median regret of a random point.
    """
    found = {
        (record["problem"], record["seed"]): record["regret"] / PROBLEMS[record["problem"]].scale
        for record in records
        if record["entrant"] == sampler and record["workers"] == workers
    }
    return np.maximum([found[key] for key in sorted(found)], RELATIVE_FLOOR)


def mean_ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> str:
    """Format the geometric mean of the ratios of paired values, with a 95% interval."""
    logs = np.log(above / below)
    center = float(logs.mean())
    if len(logs) < 2:
        return f"{np.exp(center):.2f}"
    quantile = float(stats.t.ppf(0.975, len(logs) - 1))
    half = quantile * float(logs.std(ddof=1)) / len(logs) ** 0.5
    return f"{np.exp(center):.2f} [{np.exp(center - half):.2f}, {np.exp(center + half):.2f}]"


def _add_regrets(
    report: Report, records: Records, samplers: Sequence[str], workers: Sequence[int]
) -> None:
    rows = []
    for problem in dict.fromkeys(record["problem"] for record in records):
        for sampler in samplers:
            of_both = [r for r in records if (r["problem"], r["entrant"]) == (problem, sampler)]
            found = [[r["regret"] for r in of_both if r["workers"] == n] for n in workers]
            rows.append([problem, sampler, *map(quartiles, found)])
    n_seeds = len({record["seed"] for record in records})
    report.table(
        f"Final simple regret after {records[0]['n_trials']} trials by number of workers: "
        f"median [quartiles] over {n_seeds} seeds",
        ["problem", "sampler", *map(str, workers)],
        rows,
    )


def _add_ratios(
    report: Report, records: Records, samplers: Sequence[str], workers: Sequence[int]
) -> None:
    """Add what sharing the trials among workers costs each entrant, and ours against peers."""
    found = {(name, n): regrets(records, name, n) for name in samplers for n in workers}
    few, *more = workers
    if more:
        rows = [
            [name, *(mean_ratio(found[name, n], found[name, few]) for n in more)]
            for name in samplers
        ]
        title = f"Regret with more workers, as a multiple of that with {few}: geometric mean [95%]"
        report.table(title, ["sampler", *map(str, more)], rows)
    rows = [
        [f"{mine} / {peer}", *(mean_ratio(found[mine, n], found[peer, n]) for n in workers)]
        for mine in samplers
        for peer in samplers
        if SAMPLERS[mine].ours and not SAMPLERS[peer].ours
    ]
    if rows:
        title = "Ratio of regrets with the same number of workers (below 1: the first is better)"
        report.table(title, ["pair", *map(str, workers)], rows)
    report.note(
        f"Over problems and seeds together. Regrets below {RELATIVE_FLOOR:g} of a problem's "
        "scale (median regret of a random point) count as that."
    )


def _add_times(
    report: Report, records: Records, samplers: Sequence[str], workers: Sequence[int]
) -> None:
    rows = []
    for sampler in samplers:
        of_sampler = [record for record in records if record["entrant"] == sampler]
        walls = [_median(of_sampler, "wall_seconds", n) for n in workers]
        n_asked = sum(record["n_trials"] for record in of_sampler)
        asking = sum(record["ask_seconds"] for record in of_sampler) / n_asked
        cells = [f"{wall:.1f} ({walls[0] / wall:.2f}x)" for wall in walls]
        rows.append([sampler, *cells, f"{1e3 * asking:.0f}"])
    asleep = [_median(records, "slept_seconds", n) / n for n in workers]
    rows.append(["asleep only", *(f"{seconds:.1f}" for seconds in asleep), "0"])
    report.table(
        f"Wall time in seconds (speed-up over {workers[0]}), median over problems and seeds",
        ["sampler", *map(str, workers), "CPU ms per ask"],
        rows,
    )
    report.note(
        "Asleep only: the durations of all trials, divided by the workers. CPU ms per ask depend "
        "little on what else the machine does; wall times do."
    )


def _median(records: Records, name: str, workers: int) -> float:
    values = [record[name] for record in records if record["workers"] == workers]
    return float(np.median(values))
