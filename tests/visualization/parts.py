"""The parts of a plot, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins.visualization._data.panels import HeatMap

if TYPE_CHECKING:
    from bbo_plugins.visualization._data.panels import Panel


def labels(panel: Panel) -> list[str]:
    """Return the labels of all that a panel's legend may name, in order."""
    return [item.label for item in panel.items if not isinstance(item, HeatMap) and item.label]


def part(panel: Panel, label: str) -> Any:
    """Return what has that label in a panel."""
    (found,) = [i for i in panel.items if not isinstance(i, HeatMap) and i.label == label]
    return found


def heat_map(panel: Panel) -> HeatMap:
    """Return the only heat map of a panel."""
    (found,) = [item for item in panel.items if isinstance(item, HeatMap)]
    return found


def xy(item: Any) -> np.ndarray[Any, Any]:
    """Return the coordinates of a line or of points, NaN where there are none, shape (n, 2)."""
    return np.column_stack([np.array(item.x, dtype=float), np.array(item.y, dtype=float)])
