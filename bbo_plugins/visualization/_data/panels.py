"""The parts of a plot, which any drawer can draw: panels of lines, bands, points, surfaces.

Coordinates are those of the axes' own units. Colors and sizes are named by :mod:`._style`. A
``hover`` is what plotly shows of a point, in its own notation with ``custom``: None for what plotly
shows of itself, empty for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from bbo_plugins.visualization._style import BARS, STACK, Layout, LineStyle, MarkerStyle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from bbo_plugins.space.dimension import FloatArray

INTERVAL = 0.95  # probability that the interval around an estimate holds
QUANTILE = float(ndtri(0.5 + 0.5 * INTERVAL))
_PLAIN = LineStyle()
_FENCE = 1.5  # interquartile ranges beyond the quartiles, as in a box plot
MARGIN = 0.05  # of what is shown, beyond its ends on either side
_LARGEST = 1e300  # in size, of what is shown


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        title: What it shows, with the unit.
        log: Whether it is logarithmic.
        limits: Its ends; None for those of what is drawn.
        labels: Texts at 0, 1, 2, ...; empty for an axis of numbers.
        whole: Whether only whole numbers are ticks.
    """

    title: str = ""
    log: bool = False
    limits: tuple[float, float] | None = None
    labels: tuple[str, ...] = ()
    whole: bool = False


@dataclass(frozen=True)
class Line:
    """Points (n,) joined by a line, which is broken by NaN.

    Attributes:
        label: What the legend says; empty for nothing.
        x: Horizontal coordinates, shape (n,).
        y: Vertical coordinates, shape (n,).
        style: The looks.
        marked: The points that have the marker; None for all.
        step: Whether the value of a point holds until the next one.
        hover: What plotly shows of a point.
        custom: Numbers for it, by point.
    """

    label: str
    x: Sequence[Any] | FloatArray
    y: Sequence[Any] | FloatArray
    style: LineStyle = _PLAIN
    marked: slice | None = None
    step: bool = False
    hover: str | None = None
    custom: ArrayLike | None = None


@dataclass(frozen=True)
class Band:
    """The area between two curves, coordinates of shape (n,)."""

    label: str
    x: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Points:
    """Single points (n,).

    Attributes:
        label: What the legend says.
        x: Horizontal coordinates, shape (n,).
        y: Vertical coordinates, shape (n,).
        style: The looks.
        opacity: The opacity of each, shape (n,); None for that of the style.
        interval: Ends of a vertical bar at each, both of shape (n,); None for no bars.
        clip: Whether points at the frame are cut off by it.
        hover: What plotly shows of a point.
        custom: Numbers for it, by point.
    """

    label: str
    x: Sequence[Any] | FloatArray
    y: Sequence[Any] | FloatArray
    style: MarkerStyle
    opacity: FloatArray | None = None
    interval: tuple[FloatArray, FloatArray] | None = None
    clip: bool = True
    hover: str | None = None
    custom: ArrayLike | None = None


@dataclass(frozen=True)
class HeatMap:
    """Values over two axes as colors.

    Attributes:
        title: What the values are.
        x: Horizontal coordinates, shape (n,).
        y: Vertical coordinates, shape (m,).
        values: The values, shape (m, n).
        labels: What the values 0, 1, 2, ... stand for; empty if they are numbers.
        limits: Ends of the color scale; None for those of the values.
        contours: Whether contours are drawn; else each value by itself.
    """

    title: str
    x: FloatArray
    y: FloatArray
    values: FloatArray
    labels: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None
    contours: bool = False


@dataclass(frozen=True)
class Rule:
    """A dotted line across the panel, at one value of an axis.

    Attributes:
        at: The value.
        vertical: Whether the value is one of the horizontal axis.
        label: What is said of it; empty for nothing.
        width: Its width.
    """

    at: float
    vertical: bool = False
    label: str = ""
    width: float = 1.0


Item = Line | Band | Points | HeatMap | Rule


@dataclass(frozen=True)
class Panel:
    """The content between two axes.

    Attributes:
        x: The horizontal axis.
        y: The vertical axis.
        items: What is drawn, the lowest first.
        title: The panel's title.
    """

    x: Axis
    y: Axis
    items: tuple[Item, ...]
    title: str = ""


@dataclass(frozen=True)
class Plot:
    """A figure.

    Attributes:
        title: The title.
        panels: The panels, row by row; none if there is nothing to show.
        layout: How they are arranged.
        legend: The order of the legend's labels; empty for that in which they are drawn.
    """

    title: str
    panels: tuple[Panel, ...] = ()
    layout: Layout = STACK
    legend: tuple[str, ...] = ()


def estimate_labels(middle: str) -> tuple[str, str, str]:
    """Return what the legend says of a curve, of the band around it, and of bars in their place."""
    interval = f"{INTERVAL:.0%} interval"
    return middle, interval, f"{middle} and {interval}"


def estimate(
    x: FloatArray, interval: Sequence[FloatArray], name: str, *, each: bool
) -> tuple[Item, ...]:
    """Return a curve with a band around it, or bars if ``each`` value is drawn by itself.

    Args:
        x: Horizontal coordinates, shape (n,).
        interval: Lower ends, middle values and upper ends, each of shape (n,).
        name: What the middle values are.
        each: Whether bars are drawn.
    """
    low, middle, high = interval
    of_curve, of_band, of_bars = estimate_labels(name)
    hover = "%{y:.4g} (%{customdata[0]:.4g} to %{customdata[1]:.4g})"
    custom = np.column_stack([low, high])
    if each:
        ends = (low, high)
        return (Points(of_bars, x, middle, BARS, interval=ends, hover=hover, custom=custom),)
    curve = Line(of_curve, x, middle, hover=hover, custom=custom)
    return (Band(of_band, x, low, high), curve)


def limits_without_outliers(values: Sequence[float], *, maximize: bool) -> tuple[float, float]:
    """Return the ends of an axis for all finite values but the outliers on the worse side."""
    finite = np.array([value for value in values if np.isfinite(value)] or [0.0])
    low, high = float(finite.min()), float(finite.max())
    limit = outlier_limit(finite, maximize=maximize)
    if maximize:
        low = max(low, limit)
    else:
        high = min(high, limit)
    return limits_around(low, high)


def limits_around(low: float, high: float) -> tuple[float, float]:
    """Return the ends of an axis for values from ``low`` to ``high``, some way beyond them.

    It ends where differences and ticks do not overflow yet.
    """
    low, high = (min(max(end, -_LARGEST), _LARGEST) for end in (low, high))
    margin = MARGIN * ((high - low) or max(1.0, 1e-3 * abs(low)))
    return low - margin, high + margin


def outlier_limit(values: FloatArray, *, maximize: bool) -> float:
    """Return the value (of n) beyond which, on the worse side, there are outliers.

    It is a box plot's fence or, since the box of a search that has converged has no height, farther
    away. At least four fifths of the values are within, and the limit is as far from the last of
    these as the best value is.
    """
    score = values if maximize else -values
    first, third = map(float, np.quantile(score, [0.25, 0.75]))
    usual = float(np.sort(score)[len(score) // 5])
    limit = min(first - _FENCE * (third - first), usual - (float(score.max()) - usual))
    return limit if maximize else -limit
