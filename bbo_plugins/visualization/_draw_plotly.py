"""The plots, drawn by plotly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bbo_plugins.visualization._data.bilevel import plot_bilevel as bilevel
from bbo_plugins.visualization._data.horizon import plot_horizon as horizon
from bbo_plugins.visualization._data.lengthscales import plot_lengthscales as lengthscales
from bbo_plugins.visualization._data.panels import HeatMap, Line, Points, Rule
from bbo_plugins.visualization._data.posterior import plot_posterior as posterior
from bbo_plugins.visualization._data.regret_gap import plot_regret_gap as regret_gap
from bbo_plugins.visualization._lazy import drawn
from bbo_plugins.visualization._style import BAND_OPACITY, BLUE, COLORMAP, GRAY, N_CONTOURS

if TYPE_CHECKING:
    from bbo_plugins.visualization._data.panels import Axis, Band, Panel, Plot

_LEGEND_HEIGHT = 130  # pixels below the panels
_BELOW = {
    "orientation": "h",
    "xref": "container",
    "xanchor": "center",
    "x": 0.5,
    "yref": "container",
    "yanchor": "bottom",
    "y": 0.01,
}
_BAND_COLOR = f"rgba{(*bytes.fromhex(BLUE[1:]), BAND_OPACITY)}"


def draw(plot: Plot) -> go.Figure:
    """Draw a plot; without panels, an empty figure."""
    n, layout = len(plot.panels), plot.layout
    if not n:
        return go.Figure(layout={"title": {"text": plot.title}})
    n_columns = min(n, layout.n_columns)
    n_rows = -(-n // n_columns)
    inside = layout.pixels[1] * n_rows
    figure = make_subplots(
        rows=n_rows,
        cols=n_columns,
        shared_xaxes=layout.share == "x",
        shared_yaxes="all" if layout.share == "y" else False,
        horizontal_spacing=layout.column_gap,
        vertical_spacing=layout.gap / inside if n_rows > 1 else None,
        subplot_titles=[panel.title for panel in plot.panels],
        specs=[
            [{} if row * n_columns + column < n else None for column in range(n_columns)]
            for row in range(n_rows)
        ],
    )
    named: set[str] = set()
    for index, panel in enumerate(plot.panels):
        row, column = index // n_columns + 1, index % n_columns + 1
        _draw_panel(figure, panel, row, column, named)
        if layout.share == "y" and column > 1:
            figure.get_subplot(row, column).yaxis.title = None
    figure.update_layout(title={"text": plot.title}, showlegend=True)
    if n > 1 or not layout.stacked:
        figure.update_layout(height=inside + layout.pixels_around[1])
    if not layout.stacked:
        figure.update_layout(margin={"b": _LEGEND_HEIGHT}, legend=_BELOW)
    if n_columns > 1:
        figure.update_layout(width=layout.pixels[0] * n_columns + layout.pixels_around[0])
    return figure


def _draw_panel(figure: go.Figure, panel: Panel, row: int, column: int, named: set[str]) -> None:
    """Draw a panel; its labels are in the legend unless they are among those ``named`` before."""
    place = {"row": row, "col": column}
    cell = figure.get_subplot(row, column)
    for item in panel.items:
        if isinstance(item, Rule):
            continue
        trace = _trace(item)
        if isinstance(item, HeatMap):
            right, (low, high) = cell.xaxis.domain[1], cell.yaxis.domain
            trace.colorbar.update(x=right + 0.01, y=(low + high) / 2.0, len=high - low)
        elif trace.name:
            trace.update(legendgroup=trace.name, showlegend=trace.name not in named)
            named.add(trace.name)
        figure.add_trace(trace, **place)
    for rule in (item for item in panel.items if isinstance(item, Rule)):
        look = {"color": GRAY, "width": rule.width, "dash": "dot"}
        note = {"text": rule.label} if rule.label else None
        if rule.vertical:
            figure.add_vline(x=rule.at, line=look, annotation=note, **place)
        else:
            figure.add_hline(y=rule.at, line=look, annotation=note, **place)
    cell.xaxis.update(_axis(panel.x))
    cell.yaxis.update(_axis(panel.y))


def _axis(axis: Axis) -> dict[str, Any]:
    looks: dict[str, Any] = {"title": {"text": axis.title}} if axis.title else {}
    if axis.labels:
        looks |= {"tickvals": list(range(len(axis.labels))), "ticktext": axis.labels}
    if axis.log:
        looks |= {"type": "log", "exponentformat": "power"}
    if axis.limits is not None:
        looks["range"] = tuple(map(math.log10, axis.limits)) if axis.log else axis.limits
    return looks


def _trace(item: HeatMap | Line | Points | Band) -> Any:
    if isinstance(item, HeatMap):
        return _heat_map(item)
    if isinstance(item, Line):
        return _line(item)
    if isinstance(item, Points):
        return _points(item)
    return go.Scatter(
        x=[*item.x, *item.x[::-1]],
        y=[*item.low, *item.high[::-1]],
        name=item.label,
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=_BAND_COLOR,
        hoverinfo="skip",
    )


def _line(line: Line) -> go.Scatter:
    style = line.style
    looks: dict[str, Any] = {"mode": "lines", "showlegend": bool(line.label)}
    if style.marker:
        sizes: Any = style.size[0]
        if line.marked is not None:
            sizes = np.zeros(len(line.x), dtype=np.int64)
            sizes[line.marked] = style.size[0]
        marker = {"symbol": style.marker.plotly, "size": sizes, "opacity": 1.0}
        looks |= {"mode": "lines+markers", "marker": marker}
    return go.Scatter(
        x=line.x,
        y=line.y,
        name=line.label or None,
        line={
            "color": style.color,
            "dash": style.dash.plotly,
            "width": style.width,
            "shape": "hv" if line.step else None,
        },
        connectgaps=False,
        customdata=line.custom,
        **looks,
        **_hover(line.hover),
    )


def _points(points: Points) -> go.Scatter:
    style, errors = points.style, None
    if points.interval is not None:
        low, high = points.interval
        errors = {"symmetric": False, "array": high - points.y, "arrayminus": points.y - low}
        errors |= {"type": "data", "thickness": 1.5}
    marker = {
        "symbol": style.marker.plotly if style.color else f"{style.marker.plotly}-open",
        "size": style.size[0],
        "color": style.color or style.edge,
        "opacity": style.opacity if points.opacity is None else points.opacity,
    }
    if style.color and style.edge:
        marker["line"] = {"color": style.edge, "width": style.edge_width}
    return go.Scatter(
        x=points.x,
        y=points.y,
        error_y=errors,
        name=points.label,
        mode="markers",
        marker=marker,
        cliponaxis=points.clip,
        customdata=points.custom,
        **_hover(points.hover),
    )


def _heat_map(heat: HeatMap) -> go.Contour | go.Heatmap:
    bar: dict[str, Any] = {"title": {"text": heat.title, "side": "right"}, "thickness": 14}
    if heat.labels:
        bar |= {"tickvals": list(range(len(heat.labels))), "ticktext": heat.labels}
    looks: dict[str, Any] = {
        "x": heat.x,
        "y": heat.y,
        "z": heat.values,
        "colorscale": COLORMAP,
        "name": heat.title,
        "colorbar": {**bar, "xanchor": "left"},
        "showlegend": False,
    }
    if not heat.contours:
        low, high = heat.limits or (None, None)
        return go.Heatmap(**looks, zmin=low, zmax=high)
    line = {"color": "rgba(0, 0, 0, 0.25)", "width": 0.6}
    return go.Contour(**looks, ncontours=N_CONTOURS, line=line)


def _hover(template: str | None) -> dict[str, Any]:
    if template is None:
        return {}
    return {"hovertemplate": template} if template else {"hoverinfo": "skip"}


_PACKAGE = "bbo_plugins.visualization"
plot_bilevel = drawn(bilevel, draw, _PACKAGE, {})
plot_horizon = drawn(horizon, draw, _PACKAGE, {})
plot_lengthscales = drawn(lengthscales, draw, _PACKAGE, {})
plot_posterior = drawn(posterior, draw, _PACKAGE, {})
plot_regret_gap = drawn(regret_gap, draw, _PACKAGE, {})
