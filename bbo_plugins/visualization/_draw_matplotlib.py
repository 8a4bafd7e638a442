"""The plots, drawn by matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from bbo_plugins.visualization._data.bilevel import plot_bilevel as bilevel
from bbo_plugins.visualization._data.horizon import plot_horizon as horizon
from bbo_plugins.visualization._data.lengthscales import plot_lengthscales as lengthscales
from bbo_plugins.visualization._data.panels import Band, HeatMap, Line, Points
from bbo_plugins.visualization._data.posterior import plot_posterior as posterior
from bbo_plugins.visualization._data.regret_gap import plot_regret_gap as regret_gap
from bbo_plugins.visualization._lazy import drawn
from bbo_plugins.visualization._style import BAND_OPACITY, BLUE, COLORMAP, GRAY, N_CONTOURS

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from numpy.typing import NDArray

    from bbo_plugins.visualization._data.panels import Axis, Item, Plot
    from bbo_plugins.visualization._style import Layout

_SINGLE_SIZE = (6.4, 4.8)  # inches, at least
_WIDE = 8.0  # inches; three labels of a legend fit in a row
_MAX_LABEL_LENGTH = 24  # characters of all choices together that fit in one line


def draw(plot: Plot) -> NDArray[np.object_]:
    """Draw a plot, and return the axes (n,) of its panels, empty ones if it has none."""
    n, layout = len(plot.panels), plot.layout
    if not n:
        unlabeled: NDArray[np.object_] = plt.subplots(squeeze=False)[1][0]
        unlabeled[0].set_title(_plain(plot.title))
        return unlabeled
    n_columns = min(n, layout.n_columns)
    size = _size(layout, n, n_columns)
    figure, grid = plt.subplots(
        -(-n // n_columns),
        n_columns,
        figsize=size,
        sharex=layout.share == "x",
        sharey=layout.share == "y",
        squeeze=False,
        layout="constrained",
    )
    for unused in grid.ravel()[n:]:
        unused.remove()
    every = grid.ravel()[:n]
    named: dict[str, Artist] = {}
    for index, (axes, panel) in enumerate(zip(every, plot.panels, strict=True)):
        for item in panel.items:
            handle = _draw_item(axes, item)
            if not isinstance(item, HeatMap) and item.label:
                named[item.label] = handle
        _draw_axis(axes, "x", panel.x)
        _draw_axis(axes, "y", panel.y)
        if layout.share == "y" and index % n_columns:
            axes.set_ylabel("")
        axes.set_title(_plain(panel.title), fontsize="medium")
        if not any(isinstance(item, HeatMap) for item in panel.items):
            axes.grid(visible=True, alpha=0.3)
    if layout.stacked:
        every[0].set_title(_plain(plot.title), fontsize="large")
    else:
        figure.suptitle(_plain(plot.title))
    labels = [label for label in plot.legend or named if label in named]
    figure.legend(
        handles=[named[label] for label in labels],
        labels=[*map(_plain, labels)],
        loc="outside right upper" if layout.stacked and n == 1 else "outside lower center",
        ncols=1 if layout.stacked and n == 1 else 3 if size[0] >= _WIDE else 2,
    )
    return every


def _size(layout: Layout, n: int, n_columns: int) -> tuple[float, float]:
    """Return width and height of a figure of ``n`` panels in inches."""
    width = layout.inches[0] * n_columns
    height = layout.inches[1] * -(-n // n_columns) + layout.inches_around
    if n > 1:
        return width, height
    return max(width, _SINGLE_SIZE[0]), max(height, _SINGLE_SIZE[1])


def _draw_item(axes: Axes, item: Item) -> Artist:
    """Draw an item, and return what stands for it in the legend."""
    if isinstance(item, Line):
        return _draw_line(axes, item)
    if isinstance(item, Points):
        return _draw_points(axes, item)
    if isinstance(item, HeatMap):
        return _draw_heat_map(axes, item)
    if isinstance(item, Band):
        look: dict[str, Any] = {"color": BLUE, "alpha": BAND_OPACITY, "linewidth": 0}
        return axes.fill_between(item.x, item.low, item.high, **look, label=_plain(item.label))
    draw_rule = axes.axvline if item.vertical else axes.axhline
    look = {"color": GRAY, "linewidth": item.width, "linestyle": ":"}
    return draw_rule(item.at, **look, label=_plain(item.label) or None)


def _draw_line(axes: Axes, line: Line) -> Artist:
    style = line.style
    (artist,) = axes.plot(
        line.x,
        line.y,
        color=style.color,
        linestyle=style.dash.matplotlib,
        linewidth=style.width,
        marker=style.marker.matplotlib if style.marker else None,
        markersize=style.size[1],
        markevery=line.marked,
        drawstyle="steps-post" if line.step else "default",
        label=_plain(line.label) or None,
    )
    return artist


def _draw_points(axes: Axes, points: Points) -> Artist:
    style = points.style
    edge = style.edge or style.color
    if points.opacity is not None:
        look: dict[str, Any] = {"s": style.size[1] ** 2, "marker": style.marker.matplotlib}
        look |= {"facecolors": style.color or "none", "edgecolors": edge or "none"}
        look |= {"linewidths": style.edge_width, "clip_on": points.clip}
        opacity: Any = points.opacity if len(points.x) else None  # Matplotlib asks for one
        zorder = 2.0 if points.clip else 3.0
        axes.scatter(points.x, points.y, alpha=opacity, zorder=zorder, **look)
        return axes.scatter([], [], label=_plain(points.label), **look)
    look = {
        "linestyle": "none",
        "marker": style.marker.matplotlib,
        "markersize": style.size[1],
        "markerfacecolor": style.color or "none",
        "markeredgecolor": edge,
        "markeredgewidth": style.edge_width,
        "alpha": style.opacity,
        "zorder": 2.0 if points.clip else 3.0,
        "clip_on": points.clip,
        "label": _plain(points.label),
    }
    if points.interval is None:
        (line,) = axes.plot(points.x, points.y, **look)
        return line
    low, high = points.interval
    ends = [points.y - low, high - points.y]
    bars: Artist = axes.errorbar(  # type: ignore[assignment]  # a container, good for legends
        points.x, points.y, ends, capsize=4, ecolor=style.color, **look
    )
    return bars


def _draw_heat_map(axes: Axes, heat: HeatMap) -> Artist:
    grid = (heat.x, heat.y, heat.values)
    if heat.contours:
        drawn: Any = axes.contourf(*grid, levels=N_CONTOURS, cmap=COLORMAP)
        axes.contour(*grid, levels=drawn.levels, colors="black", alpha=0.25, linewidths=0.6)
    else:
        low, high = heat.limits or (None, None)
        drawn = axes.pcolormesh(*grid, shading="nearest", cmap=COLORMAP, vmin=low, vmax=high)
    bar = axes.figure.colorbar(drawn, ax=axes)
    bar.set_label(_plain(heat.title))
    if heat.labels:
        bar.set_ticks(range(len(heat.labels)), labels=[*map(_plain, heat.labels)])
    artist: Artist = drawn
    return artist


def _draw_axis(axes: Axes, name: Literal["x", "y"], axis: Axis) -> None:
    """Name an axis ("x" or "y") and give it its scale, its ticks and its ends."""
    drawn = axes.xaxis if name == "x" else axes.yaxis
    drawn.set_label_text(_plain(axis.title))
    if axis.labels:
        drawn.set_ticks(range(len(axis.labels)), labels=[*map(_plain, axis.labels)])
        if name == "x" and sum(map(len, axis.labels)) > _MAX_LABEL_LENGTH:
            for text in axes.get_xticklabels():
                text.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    elif axis.log:
        axes.set(**{f"{name}scale": "log"})
        drawn.set_major_locator(_FiniteLogLocator())
        drawn.set_minor_locator(_FiniteLogLocator(subs="auto"))
        low, high = axis.limits or getattr(axes.dataLim, f"interval{name}").tolist()
        _label_log_axis(drawn, low, high)
    elif axis.whole:
        drawn.set_major_locator(MaxNLocator(integer=True))
    if axis.limits is not None:
        axes.set(**{f"{name}lim": axis.limits})


def _plain(text: str) -> str:
    """Return a text, such as a parameter's name, so that no part of it is read as a formula."""
    return text.replace("$", r"\$")


class _FiniteLogLocator(LogLocator):
    """Matplotlib's own, without the tick that it sets beyond the floats if an axis ends there."""

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        """Return the places of the ticks."""
        with np.errstate(over="ignore"):
            return [tick for tick in super().tick_values(vmin, vmax) if tick < math.inf]


_PLAIN_RANGE = (1e-3, 1e5)  # numbers that are written out
# Labels of a decade, by how many decades an axis may have for them; of more, one for each of them.
_LABELS = {1.6: (1.0, 2.0, 5.0), 2.2: (1.0, 3.0), 3.0: (1.0,)}


def _label_log_axis(axis: XAxis | YAxis, low: float, high: float) -> None:
    """Label a logarithmic axis, which shows ``low`` to ``high``.

    Matplotlib's own labels are powers of ten: on a short axis a single one, or "3 × 10⁰" for 3.
    """
    plain = _PLAIN_RANGE[0] <= low and high <= _PLAIN_RANGE[1]
    subs = [subs for most, subs in _LABELS.items() if math.log10(high / low) <= most]
    if plain and subs:
        axis.set_major_locator(_FiniteLogLocator(subs=subs[0]))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def _draw_one_or_all(plot: Plot) -> Axes | NDArray[np.object_]:
    """Draw a plot, and return the axes of its only panel, or those (n,) of several."""
    axes = draw(plot)
    return axes if len(axes) > 1 else axes[0]


def _draw_one(plot: Plot) -> Axes:
    """Draw a plot of one panel, and return its axes."""
    axes: Axes = draw(plot)[0]
    return axes


_PACKAGE = "bbo_plugins.visualization.matplotlib"
_ONE = {
    "bbo_plugins.visualization import": f"{_PACKAGE} import",
    "figure = ": "axes = ",
    "figure.write_html": "axes.figure.savefig",
    ".html": ".png",
}
_ALL = {**_ONE, "figure.write_html": "axes[0].figure.savefig"}
plot_bilevel = drawn(bilevel, draw, _PACKAGE, _ALL)
plot_horizon = drawn(horizon, draw, _PACKAGE, _ALL)
plot_lengthscales = drawn(lengthscales, _draw_one, _PACKAGE, _ONE)
plot_posterior = drawn(posterior, _draw_one_or_all, _PACKAGE, _ONE)
plot_regret_gap = drawn(regret_gap, draw, _PACKAGE, _ALL)
