"""What the plots of both plotting packages look like."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bbo_plugins.space.dimension import FloatArray

# The palette of Okabe and Ito (2008), told apart by the color-blind too; its yellow is too light.
BLUE, RED, GRAY = "#0072B2", "#D55E00", "#555555"


_COLORS = (BLUE, RED, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


COLORMAP = "viridis"  # gets lighter all the way, so that it can be read without colors


BAND_OPACITY = 0.2


FAINTEST = 0.12  # opacity of a trial that tells nothing about what is drawn


_MAX_MARKED = 40  # points of a line that all get a marker; of longer ones about half as many do


class _Dash(NamedTuple):
    plotly: str
    matplotlib: str | tuple[int, tuple[int, ...]]


class _Marker(NamedTuple):
    plotly: str
    matplotlib: str


_DASHES = (
    _Dash("solid", "-"),
    _Dash("dash", "--"),
    _Dash("dot", ":"),
    _Dash("dashdot", "-."),
    _Dash("longdash", (0, (9, 3))),
)


_MARKERS = (
    _Marker("circle", "o"),
    _Marker("square", "s"),
    _Marker("triangle-up", "^"),
    _Marker("diamond", "D"),
    _Marker("x", "X"),
    _Marker("triangle-down", "v"),
    _Marker("star", "*"),
    _Marker("cross", "P"),
)


@dataclass(frozen=True)
class LineStyle:
    """One line's looks; each of color, dash and marker tells it from its neighbors."""

    color: str
    dash: _Dash
    marker: _Marker


# Of observations, by function: shapes that are told apart when they are small and white.
QUERY_MARKERS = (
    _Marker("circle", "o"),
    _Marker("square", "s"),
    _Marker("triangle-up", "^"),
    _Marker("diamond", "D"),
    _Marker("triangle-down", "v"),
    _Marker("pentagon", "p"),
    _Marker("hexagon", "h"),
    _Marker("cross", "P"),
)


def line_styles(n: int) -> Iterator[LineStyle]:
    """Return the looks of ``n`` lines, different ones for up to 280 of them."""
    return islice(map(LineStyle, cycle(_COLORS), cycle(_DASHES), cycle(_MARKERS)), n)


def marked(n: int, line: int) -> slice:
    """Return which of the ``n`` points of a line get a marker; lines take turns in long ones."""
    step = 1 if n <= _MAX_MARKED else 2 * n // _MAX_MARKED
    return slice(line * max(step // 4, 1) % step, None, step)


def opacity(closeness: FloatArray) -> FloatArray:
    """Return the opacity of trials that are so close (0 to 1) to what is drawn, same shape."""
    return FAINTEST + (1.0 - FAINTEST) * closeness
