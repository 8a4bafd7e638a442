"""Tables of the ``parallel`` benchmark: regret and wall time by number of workers."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.common.tables import Comparison, paired, quartiles
from benchmarks.problems.functions import PROBLEMS

Records: TypeAlias = Sequence[Mapping[str, Any]]


def add_tables(
    report: Report, records: Records, samplers: Sequence[str], workers: Sequence[int]
) -> None:
    """Add every table of the benchmark to the report."""
    columns = [str(n) for n in workers]
    team = {(name, n): f"{name} by {n}" for name in samplers for n in workers}
    shared = [{**r, "entrant": team[r["entrant"], r["workers"]]} for r in records]
    comparison = Comparison.of(shared, list(team.values()), PROBLEMS)
    cells = comparison.cells()

    def ratio(first: str, second: str) -> str:
        pair = paired(cells, first, second)
        assert pair is not None
        return pair.interval()

    report.table(
        f"Regret after {records[0]['n_trials']} trials by number of workers: median [quartiles]",
        ["problem", "sampler", *columns],
        [
            [
                problem,
                name,
                *(quartiles(comparison.values(problem, team[name, n])) for n in workers),
            ]
            for problem in comparison.curves
            for name in samplers
        ],
    )
    few, *more = workers
    report.table(
        f"Regret with more workers, divided by that with {few} [95% over problems]",
        ["sampler", *columns[1:]],
        [[name, *(ratio(team[name, n], team[name, few]) for n in more)] for name in samplers],
    )
    report.table(
        "Ratio of regrets with the same number of workers, below 1 the first is better",
        ["pair", *columns],
        [
            [f"{mine} / {peer}", *(ratio(team[mine, n], team[peer, n]) for n in workers)]
            for mine in samplers
            for peer in samplers
            if SAMPLERS[mine].ours and not SAMPLERS[peer].ours
        ],
    )
    _add_times(report, records, samplers, workers)


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
