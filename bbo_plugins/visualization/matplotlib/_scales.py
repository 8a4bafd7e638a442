"""Logarithmic axes whose labels can be read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_MAX_DECADES = 3.0  # beyond, a label at each power of ten is enough


_PLAIN_RANGE = (1e-3, 1e5)  # numbers that are written out


# Labels of a decade, and the smallest distance between two of them in decades.
_LABELS = (((1.0, 2.0, 5.0), math.log10(2.0)), ((1.0, 3.0), math.log10(3.0)), ((1.0,), 1.0))


_CHARACTER, _LINE = 0.65, 1.2  # width of one and height of the other, in font sizes


# Matplotlib's guess of the room that a label takes, in font sizes: Axis.get_tick_space.
_GUESSED = {"x": 3.0, "y": 2.0}


class _RoomyLocator(LogLocator):
    """Ticks at the 1, 2 and 5 of each decade, or at fewer where the labels would overlap.

    Args:
        name: "x" or "y".
    """

    def __init__(self, name: str) -> None:
        """Start with the most labels."""
        super().__init__(subs=_LABELS[0][0])
        self._name = name

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return the places of the ticks for a view from ``vmin`` to ``vmax``."""
        low, high = sorted((vmin, vmax))
        if self.axis is not None and 0.0 < low < high:
            ends = (10.0 ** math.floor(math.log10(low)), 10.0 ** math.floor(math.log10(high)))
            longest = 1 + max(len(f"{end:g}") for end in ends)  # and a space
            needed = _LINE if self._name == "y" else _CHARACTER * longest
            length = self.axis.get_tick_space() * _GUESSED[self._name]
            per_decade = length / math.log10(high / low)
            fitting = [subs for subs, distance in _LABELS if distance * per_decade >= needed]
            self.set_params(subs=(*fitting, _LABELS[-1][0])[0])
        return super().tick_values(vmin, vmax)


def label_log_axis(axes: Axes, name: str, low: float, high: float) -> None:
    """Label the logarithmic axis ``name`` ("x" or "y"), which shows ``low`` to ``high``.

    Matplotlib's own labels are powers of ten: on a short axis a single one, or "3 × 10⁰" for 3.
    """
    axis = axes.xaxis if name == "x" else axes.yaxis
    plain = _PLAIN_RANGE[0] <= low and high <= _PLAIN_RANGE[1]
    if plain and math.log10(high / low) <= _MAX_DECADES:
        axis.set_major_locator(_RoomyLocator(name))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
