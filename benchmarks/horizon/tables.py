"""Tables of the ``horizon`` benchmark."""

from collections.abc import Iterable, Mapping, Sequence
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
        ]
        data, n = by_method[methods[0]][0]["data"], len(by_method[methods[0]])
        report.table(f"{task} on {data}, {total:,} steps, {n} seeds", headers, rows)


def add_verdict(
    report: Report, records: Sequence[Record], *, ours: Sequence[str], peers: Sequence[str]
) -> None:
    """Add, per method of ours, the ratio of median test losses to each peer's in every cell.

    Args:
        report: What to add to.
        records: Those of all methods and cells.
        ours: Names of our methods.
        peers: Names of the others.
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
        worst = [max(ratios.values()) for ratios in cell_ratios]
        report.note(
            f"{method} is ahead of all of {', '.join(peers)} in "
            f"{sum(ratio < 1.0 for ratio in worst)} of {len(rows)} cells; the largest ratio is "
            f"{max(worst):.3f}."
        )
