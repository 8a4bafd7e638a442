"""The models of a bilevel study around its solution, drawn by plotly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bbo_plugins.visualization._data import bilevel
from bbo_plugins.visualization._style import (
    BAND_OPACITY,
    BLUE,
    COLORMAP,
    QUERY_MARKERS,
    RED,
    opacity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from optuna.study import Study

    from bbo_plugins.optuna import BILBOSampler
    from bbo_plugins.visualization._data.axes import ParameterAxis

_N_COLUMNS = 2


_PANEL_SIZE = (430, 330)  # pixels


_FRAME_WIDTH, _FRAME_HEIGHT, _LEGEND_HEIGHT = 140, 190, 130


_HORIZONTAL_SPACING, _VERTICAL_GAP = 0.24, 100  # share of the width; pixels


_BELOW = {
    "orientation": "h",
    "xref": "container",
    "xanchor": "center",
    "x": 0.5,
    "yref": "container",
    "yanchor": "bottom",
    "y": 0.01,
}


_N_LEVELS = 12


_BAND_COLOR = f"rgba{(*bytes.fromhex(BLUE[1:]), BAND_OPACITY)}"


def plot_bilevel(
    study: Study, sampler: BILBOSampler, params: Sequence[str] | None = None
) -> go.Figure:
    """Plot what the models of a bilevel study know of both levels, around the solution.

    With one parameter drawn on each level: the posterior means of both objectives over the two, and
    the line of the lower level's answers, its best ones by the posterior means. Otherwise what each
    level sees: the upper objective over the upper level's parameters where they are answered, the
    lower objective over the lower level's parameters at the solution, and each answer over the
    upper level's parameters. A curve comes with its central 95% interval. Parameters that are not
    drawn are held at the solution, lower ones where an answer is shown excepted.

    Each panel has the observations of its level's functions; the further off the panel one is, by
    the function's own model, the fainter it is. Crosses are where a constraint of the level is
    violated, by its posterior mean. Values are in the functions' own units.

    The models are fitted once, to all trials, as :meth:`BILBOSampler.solution` does.

    Args:
        study: A study of ``sampler``.
        sampler: The sampler.
        params: Parameters to draw, one or two of each level; None for those in which the levels'
            objectives vary most.

    Returns:
        The figure.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no solution yet, the study does not fit the sampler, or ``params`` is
            not possible.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import BILBOSampler
            from bbo_plugins.visualization import plot_bilevel

            sampler = BILBOSampler(["x"], ["z"], seed=0)


            def objective(trial):
                query = trial.suggest_categorical("query", sampler.functions)
                x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
                return (x - 0.8) ** 2 + z**2 if query == "upper" else (z - x) ** 2


            study = optuna.create_study(sampler=sampler)
            study.optimize(objective, n_trials=12)
            figure = plot_bilevel(study, sampler)
            figure.write_html("bilevel.html")
    """
    return draw(bilevel.bilevel_info(study, sampler, params))


def draw(info: bilevel.BilevelInfo) -> go.Figure:
    """Draw the records."""
    n_rows = -(-len(info.panels) // _N_COLUMNS)
    height = _PANEL_SIZE[1] * n_rows + _FRAME_HEIGHT
    inside = height - _FRAME_HEIGHT
    figure = make_subplots(
        rows=n_rows,
        cols=_N_COLUMNS,
        horizontal_spacing=_HORIZONTAL_SPACING,
        vertical_spacing=_VERTICAL_GAP / inside if n_rows > 1 else None,
        subplot_titles=[panel.title for panel in info.panels],
        specs=_places(len(info.panels), n_rows),
    )
    named: set[str] = set()
    for index, panel in enumerate(info.panels):
        row, column = index // _N_COLUMNS + 1, index % _N_COLUMNS + 1
        cell = figure.get_subplot(row, column)
        for trace in _traces(info, panel, cell.xaxis.domain, cell.yaxis.domain):
            if trace.showlegend is None and trace.name:
                trace.update(legendgroup=trace.name, showlegend=trace.name not in named)
                named.add(trace.name)
            figure.add_trace(trace, row=row, col=column)
        figure.update_xaxes(_axis(panel.axes[0]), row=row, col=column)
        vertical = (
            _axis(panel.axes[1]) if len(panel.axes) > 1 else {"title": {"text": panel.value_title}}
        )
        figure.update_yaxes(vertical, row=row, col=column)
    figure.update_layout(
        title={"text": info.title},
        width=_PANEL_SIZE[0] * _N_COLUMNS + _FRAME_WIDTH,
        height=height,
        margin={"b": _LEGEND_HEIGHT},
        legend=_BELOW,
    )
    return figure


def _places(n: int, n_rows: int) -> list[list[dict[str, Any] | None]]:
    places: list[dict[str, Any] | None] = [{}] * n
    places += [None] * (n_rows * _N_COLUMNS - n)
    return [places[start : start + _N_COLUMNS] for start in range(0, len(places), _N_COLUMNS)]


def _axis(axis: ParameterAxis) -> dict[str, Any]:
    looks: dict[str, Any] = {"title": {"text": axis.name}, "range": axis.limits}
    if axis.labels:
        looks |= {"tickvals": list(range(len(axis.labels))), "ticktext": axis.labels}
    elif axis.log:
        ends = tuple(map(math.log10, axis.limits))
        looks |= {"type": "log", "exponentformat": "power", "range": ends}
    return looks


def _traces(
    info: bilevel.BilevelInfo,
    panel: bilevel.Panel,
    x_domain: tuple[float, float],
    y_domain: tuple[float, float],
) -> Iterator[Any]:
    if panel.values is not None and len(panel.axes) == 1:
        yield from _curve(panel, panel.values)
    elif panel.values is not None:
        yield _surface(panel, x_domain, y_domain)
    if panel.answer is not None:
        yield from _answer(panel, panel.answer)
    if panel.violated is not None:
        yield go.Scatter(
            x=panel.violated[0],
            y=panel.violated[1],
            name=bilevel.VIOLATED_LABEL,
            mode="markers",
            marker={"symbol": "x-thin", "size": 5, "opacity": 0.55, "line": {"width": 1}},
            hoverinfo="skip",
        )
    for queries in panel.queries:
        marker = QUERY_MARKERS[info.functions.index(queries.function) % len(QUERY_MARKERS)]
        yield go.Scatter(
            x=queries.x,
            y=queries.y,
            name=bilevel.queries_label(queries.function),
            mode="markers",
            marker={
                "symbol": marker.plotly,
                "size": 7,
                "color": "white",
                "opacity": opacity(queries.closeness),
                "line": {"color": "black", "width": 1},
            },
            cliponaxis=False,
            customdata=queries.values,
            hovertemplate=f"{queries.function} = %{{customdata:.4g}}<extra></extra>",
        )
    yield go.Scatter(
        x=[panel.solution[0]],
        y=[panel.solution[1]],
        name=bilevel.SOLUTION_LABEL,
        mode="markers",
        marker={"symbol": "star", "size": 16, "color": RED, "line": {"color": "white", "width": 1}},
        cliponaxis=False,
    )


def _surface(
    panel: bilevel.Panel, x_domain: tuple[float, float], y_domain: tuple[float, float]
) -> go.Contour | go.Heatmap:
    looks: dict[str, Any] = {
        "x": panel.axes[0].values,
        "y": panel.axes[1].values,
        "z": panel.values,
        "colorscale": COLORMAP,
        "name": panel.value_title,
        "colorbar": {
            "title": {"text": panel.value_title, "side": "right"},
            "thickness": 14,
            "x": x_domain[1] + 0.01,
            "xanchor": "left",
            "y": sum(y_domain) / 2.0,
            "len": y_domain[1] - y_domain[0],
        },
        "showlegend": False,
    }
    if panel.value_labels:
        looks["colorbar"] |= {
            "tickvals": list(range(len(panel.value_labels))),
            "ticktext": panel.value_labels,
        }
    if not panel.is_smooth:
        low, high = panel.value_range or (None, None)
        return go.Heatmap(**looks, zmin=low, zmax=high)
    line = {"color": "rgba(0, 0, 0, 0.25)", "width": 0.6}
    return go.Contour(**looks, ncontours=_N_LEVELS, line=line)


def _curve(panel: bilevel.Panel, values: NDArray[np.float64]) -> Iterator[go.Scatter]:
    x = panel.axes[0].values
    interval = panel.interval(values)
    looks: dict[str, Any] = {
        "x": x,
        "y": values,
        "customdata": np.column_stack(interval),
        "hovertemplate": "%{y:.4g} (%{customdata[0]:.4g} to %{customdata[1]:.4g})",
    }
    if panel.axes[0].is_discrete:
        yield go.Scatter(
            **looks,
            error_y={
                "type": "data",
                "symmetric": False,
                "array": interval[1] - values,
                "arrayminus": values - interval[0],
                "thickness": 1.5,
            },
            name=bilevel.BARS_LABEL,
            mode="markers",
            marker={"symbol": "square", "size": 7, "color": BLUE},
        )
        return
    yield go.Scatter(
        x=[*x, *x[::-1]],
        y=[*interval[0], *interval[1][::-1]],
        name=bilevel.INTERVAL_LABEL,
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=_BAND_COLOR,
        hoverinfo="skip",
    )
    yield go.Scatter(
        **looks, name=bilevel.MEAN_LABEL, mode="lines", line={"color": BLUE, "width": 2}
    )


def _answer(panel: bilevel.Panel, answer: NDArray[np.float64]) -> Iterator[go.Scatter]:
    places: dict[str, Any] = {"x": answer[0], "y": answer[1], "connectgaps": False}
    if any(axis.is_discrete for axis in panel.axes):
        marker = {"symbol": "line-ew", "size": 9, "line": {"color": "black", "width": 2.5}}
        yield go.Scatter(**places, name=bilevel.ANSWER_LABEL, mode="markers", marker=marker)
        return
    halo = {"color": "white", "width": 5}
    yield go.Scatter(**places, mode="lines", line=halo, hoverinfo="skip", showlegend=False)
    line = {"color": "black", "width": 2}
    yield go.Scatter(**places, name=bilevel.ANSWER_LABEL, mode="lines", line=line)
