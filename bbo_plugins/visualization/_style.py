"""The looks of the plots in both plotting packages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bbo_plugins.space.dimension import FloatArray

# The palette of Okabe and Ito (2008), told apart by the color-blind too; its yellow is too light.
BLUE, RED, GRAY = "#0072B2", "#D55E00", "#555555"
_COLORS = (BLUE, RED, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
COLORMAP = "viridis"  # gets lighter all the way, so that it can be read without colors
N_CONTOURS = 12
BAND_OPACITY = 0.2
FAINTEST = 0.12  # opacity of a trial that tells nothing about what is drawn
_MAX_MARKED = 40  # points of a line that all get a marker; of longer ones about half as many do


class Dash(NamedTuple):
    """The name of a dash pattern in each package."""

    plotly: str
    matplotlib: str | tuple[int, tuple[int, ...]]


class Marker(NamedTuple):
    """The name of a marker in each package."""

    plotly: str
    matplotlib: str


SOLID, DASHED, DOTTED = Dash("solid", "-"), Dash("dash", "--"), Dash("dot", ":")
_DASHES = (SOLID, DASHED, DOTTED, Dash("dashdot", "-."), Dash("longdash", (0, (9, 3))))
CIRCLE, SQUARE, DOT = Marker("circle", "o"), Marker("square", "s"), Marker("circle", ".")
_TRIANGLE, _DIAMOND = Marker("triangle-up", "^"), Marker("diamond", "D")
_DOWN, _STAR, _PLUS = Marker("triangle-down", "v"), Marker("star", "*"), Marker("cross", "P")
_CROSS = Marker("x", "X")
_MARKERS = (CIRCLE, SQUARE, _TRIANGLE, _DIAMOND, _CROSS, _DOWN, _STAR, _PLUS)
# Of observations, by function: shapes that are told apart when they are small and white.
_PENTAGON, _HEXAGON = Marker("pentagon", "p"), Marker("hexagon", "h")
_QUERY_MARKERS = (CIRCLE, SQUARE, _TRIANGLE, _DIAMOND, _DOWN, _PENTAGON, _HEXAGON, _PLUS)


@dataclass(frozen=True)
class LineStyle:
    """One line's looks; each of color, dash and marker tells it from its neighbors.

    Attributes:
        color: The color.
        dash: The dash pattern.
        marker: The marker at its points, None for none.
        width: Its width, pixels of plotly and points of matplotlib.
        size: The markers' size, in pixels of plotly and in points of matplotlib.
    """

    color: str = BLUE
    dash: Dash = SOLID
    marker: Marker | None = None
    width: float = 2.0
    size: tuple[int, float] = (7, 5.0)


@dataclass(frozen=True)
class MarkerStyle:
    """The looks of points.

    Attributes:
        marker: The marker.
        size: Its size, in pixels of plotly and in points of matplotlib.
        color: Its color; None for a hollow one.
        edge: The color of its outline, None for that of the marker.
        edge_width: The width of the outline.
        opacity: Its opacity, where the points have none of their own.
    """

    marker: Marker
    size: tuple[int, float]
    color: str | None = "black"
    edge: str | None = None
    edge_width: float = 1.0
    opacity: float = 1.0


BARS = MarkerStyle(SQUARE, (7, 6.0), BLUE)
TRIALS = MarkerStyle(CIRCLE, (6, 4.25), edge_width=0.0)
STAR = MarkerStyle(_STAR, (16, 17.0), RED, "white")
SMALL_STAR = replace(STAR, size=(14, 14.0))
TICK = MarkerStyle(Marker("line-ns-open", "|"), (8, 9.0), GRAY, GRAY, 1.5)
VIOLATED = MarkerStyle(Marker("x-thin", "x"), (5, 3.75), edge="black", opacity=0.55)
ANSWERS = MarkerStyle(Marker("line-ew", "_"), (9, 6.0), edge="black", edge_width=2.0)


def query_style(function: int) -> MarkerStyle:
    """Return the looks of the observations of a study's function of that index."""
    marker = _QUERY_MARKERS[function % len(_QUERY_MARKERS)]
    return MarkerStyle(marker, (7, 5.5), "white", "black")


def hollow(style: LineStyle) -> MarkerStyle:
    """Return the looks of points that belong to a line and are no part of it."""
    return MarkerStyle(style.marker or CIRCLE, style.size, None, style.color)


def line_styles(n: int) -> Iterator[LineStyle]:
    """Return the looks of ``n`` lines, different ones for up to 280 of them."""
    looks = zip(cycle(_COLORS), cycle(_DASHES), cycle(_MARKERS), strict=False)
    return (LineStyle(*look, width=1.5) for look in islice(looks, n))


def marked(n: int, line: int) -> slice:
    """Return which of the ``n`` points of a line get a marker; lines take turns in long ones."""
    step = 1 if n <= _MAX_MARKED else 2 * n // _MAX_MARKED
    return slice(line * max(step // 4, 1) % step, None, step)


def closeness_of(correlation: FloatArray) -> FloatArray:
    """Return the share of the standard deviation at one point that a value at another one removes.

    It is 1 - √(1 - ρ²) with their correlation ρ before any data, of any shape.
    """
    closeness: FloatArray = 1.0 - np.sqrt(1.0 - np.square(correlation))
    return closeness


def opacity(closeness: FloatArray) -> FloatArray:
    """Return the opacity of trials that are so close (0 to 1) to what is drawn, same shape."""
    return FAINTEST + (1.0 - FAINTEST) * closeness


@dataclass(frozen=True)
class Layout:
    """Arrangement and size of panels.

    Attributes:
        n_columns: Panels in a row, at most.
        inches: Width and height of a panel of matplotlib.
        inches_around: Height of the rest.
        pixels: Width and height of a panel of plotly; the width only of several columns, neither
            of a single stacked panel.
        pixels_around: Width and height of the rest.
        gap: Pixels between two rows.
        column_gap: Share of the width between two columns; None for plotly's own.
        share: The axis that all panels have in common; None for none.
        stacked: Whether panels are parts of one picture, under the title of the first; else each
            is a picture, and the legend of all is below them.
    """

    n_columns: int
    inches: tuple[float, float]
    inches_around: float
    pixels: tuple[int, int]
    pixels_around: tuple[int, int]
    gap: float
    column_gap: float | None = None
    share: Literal["x", "y"] | None = None
    stacked: bool = False


_SMALL, _LARGE, _WIDE = (310, 290), (430, 330), (0, 190)
SLICES = Layout(3, (3.6, 3.0), 0.8, _SMALL, (150, 220), gap=87.0, share="y")
PAIRS = Layout(2, (4.6, 3.6), 0.9, _LARGE, (140, 190), gap=100.0, column_gap=0.24)
STACK = Layout(1, (8.0, 1.6), 3.2, _WIDE, (0, 260), gap=53.2, stacked=True)
SHARED_STACK = Layout(1, (8.0, 1.6), 3.2, _WIDE, (0, 260), gap=22.8, share="x", stacked=True)
