"""Slices of the posterior, drawn by plotly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bbo_plugins.visualization._data import posterior
from bbo_plugins.visualization._style import BAND_OPACITY, BLUE, RED, opacity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optuna.study import Study

_MAX_COLUMNS = 3


_PANEL_SIZE = (310, 290)  # pixels


_FRAME_WIDTH, _FRAME_HEIGHT, _LEGEND_HEIGHT = 150, 220, 130


_BELOW = {
    "orientation": "h",
    "xref": "container",
    "xanchor": "center",
    "x": 0.5,
    "yref": "container",
    "yanchor": "bottom",
    "y": 0.01,
}


_HOVER = "%{y:.4g} (%{customdata[0]:.4g} to %{customdata[1]:.4g})"


_BAND_COLOR = f"rgba{(*bytes.fromhex(BLUE[1:]), BAND_OPACITY)}"


def plot_posterior(
    study: Study,
    params: Sequence[str] | None = None,
    *,
    at: int | None = None,
    n_points: int = posterior.DEFAULT_POINTS,
) -> go.Figure:
    """Plot the model of the objective along one parameter at a time, through one trial.

    The model, over the parameters that all complete trials share, of this package's latest
    suggestion: a Gaussian process with the hyperparameters stored with it, or GO-UCB's network. If
    nothing is stored it is fitted once, a network for a ``GOUCBSampler`` and a Gaussian process for
    all other samplers. Each panel varies one parameter and keeps the others at the values of the
    best trial, feasible if there is one. It shows the median of the objective without noise, its
    central 95% interval, and the complete trials: the further a trial is off the slice, by the
    model's own measure, the fainter it is. The interval is the model's: far from all trials a
    network's is often too narrow.

    Values are in the objective's units. The axis of the values ends where only outliers are left.
    Known noise variances are those of the study's sampler, so load the study with its sampler.

    Args:
        study: A study with one objective.
        params: Parameters to draw; None for all, of more than nine those along which the
            median varies most.
        at: Number of the complete trial that the slices go through; None for the best.
        n_points: Number of points along a parameter with many values.

    Returns:
        The figure; an empty one, with a warning in the log, if there is nothing to model yet.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives, a name is not one of the model's parameters,
            or there is no such trial.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import UHEBOSampler
            from bbo_plugins.visualization import plot_posterior

            study = optuna.create_study(sampler=UHEBOSampler(seed=0))
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2, n_trials=14)
            figure = plot_posterior(study)
            figure.write_html("posterior.html")
    """
    info = posterior.posterior_info(study, params, at=at, n_points=n_points)
    if info is None:
        return go.Figure(layout={"title": {"text": posterior.EMPTY_TITLE}})
    return draw(info)


def draw(info: posterior.PosteriorInfo) -> go.Figure:
    """Draw the records."""
    n_columns = min(len(info.slices), _MAX_COLUMNS)
    n_rows = -(-len(info.slices) // n_columns)
    places: list[dict[str, Any] | None] = [{}] * len(info.slices)
    places += [None] * (n_rows * n_columns - len(places))
    specs = [places[start : start + n_columns] for start in range(0, len(places), n_columns)]
    figure = make_subplots(rows=n_rows, cols=n_columns, shared_yaxes="all", specs=specs)
    named: set[str] = set()
    for index, drawn in enumerate(info.slices):
        row, column = index // n_columns + 1, index % n_columns + 1
        for trace in _traces(info, drawn):
            trace.update(legendgroup=trace.name, showlegend=trace.name not in named)
            named.add(trace.name)
            figure.add_trace(trace, row=row, col=column)
        figure.update_xaxes(_x_axis(drawn), row=row, col=column)
        if column == 1:
            figure.update_yaxes(title={"text": posterior.Y_TITLE}, row=row, col=column)
    figure.update_yaxes(range=info.value_range)
    figure.update_layout(
        title={"text": info.title},
        height=_PANEL_SIZE[1] * n_rows + _FRAME_HEIGHT,
        margin={"b": _LEGEND_HEIGHT},
        legend=_BELOW,
    )
    if n_columns > 1:
        figure.update_layout(width=_PANEL_SIZE[0] * n_columns + _FRAME_WIDTH)
    return figure


def _x_axis(drawn: posterior.Slice) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": {"text": drawn.name}}
    if drawn.labels:
        n = len(drawn.labels)
        axis |= {"tickvals": list(range(n)), "ticktext": drawn.labels, "range": (-0.5, n - 0.5)}
    elif drawn.log:
        axis |= {"type": "log", "exponentformat": "power"}
    return axis


def _traces(info: posterior.PosteriorInfo, drawn: posterior.Slice) -> Iterator[go.Scatter]:
    if drawn.kind == "curve":
        yield from _curve(drawn)
    else:
        yield _bars(drawn)
    others = info.others
    yield go.Scatter(
        x=drawn.trials_x[others],
        y=info.values[others],
        name=info.trials_label,
        mode="markers",
        marker={"color": "black", "size": 6, "opacity": opacity(drawn.closeness[others])},
        customdata=info.numbers[others],
        hovertemplate="trial %{customdata}: %{y:.4g}<extra></extra>",
    )
    yield go.Scatter(
        x=drawn.trials_x[[info.reference]],
        y=info.values[[info.reference]],
        name=info.reference_label,
        mode="markers",
        marker={"symbol": "star", "size": 14, "color": RED, "line": {"color": "white", "width": 1}},
        hovertemplate="%{y:.4g}",
    )


def _curve(drawn: posterior.Slice) -> Iterator[go.Scatter]:
    yield go.Scatter(
        x=[*drawn.x, *drawn.x[::-1]],
        y=[*drawn.low, *drawn.high[::-1]],
        name=posterior.INTERVAL_LABEL,
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=_BAND_COLOR,
        hoverinfo="skip",
    )
    yield go.Scatter(
        x=drawn.x,
        y=drawn.median,
        name=posterior.MEDIAN_LABEL,
        mode="lines",
        line={"color": BLUE, "width": 2},
        customdata=np.column_stack([drawn.low, drawn.high]),
        hovertemplate=_HOVER,
    )


def _bars(drawn: posterior.Slice) -> go.Scatter:
    return go.Scatter(
        x=drawn.x,
        y=drawn.median,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": drawn.high - drawn.median,
            "arrayminus": drawn.median - drawn.low,
            "thickness": 1.5,
        },
        name=posterior.BARS_LABEL,
        mode="markers",
        marker={"symbol": "square", "size": 7, "color": BLUE},
        customdata=np.column_stack([drawn.low, drawn.high]),
        hovertemplate=_HOVER,
    )
