"""Tables of the ``horizon`` benchmark."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.report import Report
from benchmarks.common.tables import quartiles

Record: TypeAlias = Mapping[str, Any]
Cell: TypeAlias = tuple[str, int]  # task and total


def cells(records: Iterable[Record]) -> dict[Cell, dict[str, list[Record]]]:
    """Group records: task and total -> method -> records by seed."""
    grouped: dict[Cell, dict[str, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record["seed"]):
        cell = grouped.setdefault((record["task"], record["total"]), {})
        cell.setdefault(record["method"], []).append(record)
    return dict(sorted(grouped.items()))


def column(records: Iterable[Record], name: str) -> NDArray[np.float64]:
    """Return one field of all records."""
    return np.array([record[name] for record in records], dtype=np.float64)


def add_cells(report: Report, records: Sequence[Record], methods: Sequence[str]) -> None:
    """Add a table per task and total: what each method ended with."""
    for (task, total), by_method in cells(records).items():
        rows = []
        for method in methods:
            found = by_method[method]
            rows.append(
                [
                    method,
                    quartiles(column(found, "test_loss"), ".4f", ".4f"),
                    f"{column(found, 'test_loss').mean():.4f}",
                    f"{100.0 * column(found, 'test_error').mean():.2f}",
                    f"{column(found, 'validation_loss').mean():.4f}",
                    f"{column(found, 'n_configurations').mean():.0f}",
                    f"{column(found, 'n_steps').mean():.0f}",
                    f"{column(found, 'n_longest').max():.0f}",
                ]
            )
        headers = [
            "method",
            "test loss: median [quartiles]",
            "mean",
            "test error, %",
            "validation loss",
            "configurations",
            "steps of the chosen",
            "longest",
        ]
        data, n = by_method[methods[0]][0]["data"], len(by_method[methods[0]])
        report.table(f"{task} on {data}, {total:,} steps, {n} seeds", headers, rows)


def add_verdict(
    report: Report,
    records: Sequence[Record],
    *,
    ours: Sequence[str],
    peers: Sequence[str],
    longer: Sequence[str] = (),
) -> None:
    """Add, per method of ours, the ratio of median test losses to each peer's in every cell.

    Args:
        report: What to add to.
        records: Those of all methods and cells.
        ours: Names of our methods.
        peers: Names of the others.
        longer: Those of the peers without which a second count is given.
    """
    for method in ours if peers else ():
        rows: list[list[str]] = []
        cell_ratios: list[dict[str, float]] = []
        for (task, total), by_method in cells(records).items():
            own = column(by_method[method], "test_loss")
            ratios, row = {}, [f"{task} {total:,}"]
            for peer in peers:
                other = column(by_method[peer], "test_loss")
                ratios[peer] = float(np.median(own) / np.median(other))
                row.append(f"{ratios[peer]:.3f} ({int((own < other).sum())} of {len(own)})")
            cell_ratios.append(ratios)
            rows.append(row)
        report.table(
            f"{method} / peer: ratio of median test losses (seeds on which it is ahead)",
            ["cell", *peers],
            rows,
        )
        short = [peer for peer in peers if peer not in longer]
        for group in (peers, short) if 0 < len(short) < len(peers) else (peers,):
            worst = [max(ratios[peer] for peer in group) for ratios in cell_ratios]
            report.note(
                f"{method} is ahead of all of {', '.join(group)} in "
                f"{sum(ratio < 1.0 for ratio in worst)} of {len(rows)} cells; the largest ratio is "
                f"{max(worst):.3f}."
            )


def _headers(names: Sequence[str]) -> list[str]:
    """Return the headings of the columns by acquisition function."""
    columns = ("validation loss", "test loss", "test error, %")
    return [f"{name}: {column}" for name in names for column in columns]


def _losses(records: Sequence[Record], cell: Callable[[NDArray[np.float64]], str]) -> list[str]:
    """Return the cells of one acquisition function, losses as ``cell`` formats them."""
    error = f"{100.0 * column(records, 'test_error').mean():.2f}"
    return [cell(column(records, part)) for part in ("validation_loss", "test_loss")] + [error]


def add_ratios(
    report: Report, records: Sequence[Record], outers: Sequence[int], names: Sequence[str]
) -> None:
    """Add the losses of T trials of B / T steps each, by N / T."""
    rows = []
    for (task, total), by_method in cells(records).items():
        for n_outer in outers:
            n_inner = total // n_outer
            row: list[object] = [f"{task} {total:,}", n_outer, n_inner, f"{n_inner / n_outer:.3g}"]
            for name in names:
                row += _losses(by_method[f"T={n_outer}-{name}"], _quartiles)
            rows.append(row)
    headers = ["cell", "T", "N", "N / T", *_headers(names)]
    report.table("T trials of N steps each, N = B / T", headers, rows)


def add_paper(
    report: Report,
    records: Sequence[Record],
    trials: Mapping[int, Sequence[int]],
    names: Sequence[str],
) -> None:
    """Add one table per T: the final losses by N.

    Args:
        report: What to add to.
        records: Those of all T, N and ``names``.
        trials: N by T.
        names: Of the acquisition functions.
    """
    by_cell, task = cells(records), records[0]["task"]
    n = len({record["seed"] for record in records})
    for n_outer, row in trials.items():
        rows = []
        for n_inner in row:
            line: list[object] = [n_inner, f"{n_inner / n_outer:.3g}"]
            for name in names:
                found = by_cell[task, n_outer * n_inner][f"T={n_outer}-{name}"]
                line += _losses(found, _mean_and_sd)
            rows.append(line)
        title = f"T = {n_outer} trials of N steps each, {n} seeds: mean ± sd"
        report.table(title, ["N", "N / T", *_headers(names)], rows)


def _quartiles(values: NDArray[np.float64]) -> str:
    return quartiles(values, ".4f", ".4f")


def _mean_and_sd(values: NDArray[np.float64]) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1 if len(values) > 1 else 0):.3f}"
