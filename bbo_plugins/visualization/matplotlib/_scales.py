"""Logarithmic axes whose labels can be read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_DECADES = 3.0  # beyond, a label at each power of ten is enough
_PLAIN_RANGE = (1e-3, 1e5)  # numbers that are written out


def label_log_axis(axes: Axes, name: str, low: float, high: float) -> None:
    """Label the logarithmic axis ``name`` ("x" or "y"), which shows ``low`` to ``high``.

    Matplotlib's own labels are powers of ten: on a short axis a single one, or "3 × 10⁰" for 3.
    """
    axis = axes.xaxis if name == "x" else axes.yaxis
    plain = _PLAIN_RANGE[0] <= low and high <= _PLAIN_RANGE[1]
    if plain and math.log10(high / low) <= _MAX_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
