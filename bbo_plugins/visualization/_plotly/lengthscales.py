"""Length-scales by trial, drawn by plotly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plotly import graph_objects as go

from bbo_plugins.visualization._data import lengthscales
from bbo_plugins.visualization._style import GRAY, LineStyle, line_styles, marked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study

_MARKER_SIZE = 7


_RUG_SYMBOLS = {"tick": "line-ns-open", "dot": "circle"}


_HOVER = "trial %{x}: %{y:.3g}"


def plot_lengthscales(study: Study) -> go.Figure:
    """Plot the length-scale of each parameter that was estimated before each trial.

    A short length-scale says that the objective changes a lot along that parameter, one well above
    1 that it hardly does. Everything is read from the study's storage; nothing is fitted. A trial
    without an estimate (start-up, enqueued, suggested at random) has no point; those suggested at
    random by a sampler that chose so have a mark at the bottom. If a sampler estimates in more than
    one way, the line connects the estimates of the more frequent one and the others are hollow.

    Args:
        study: A study whose trials a sampler of this package suggested.

    Returns:
        The figure; an empty one, with a warning in the log, if no estimate is stored.

    Raises:
        TypeError: ``study`` is not a study.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import UHEBOSampler
            from bbo_plugins.visualization import plot_lengthscales

            study = optuna.create_study(sampler=UHEBOSampler(seed=0))
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2, n_trials=14)
            figure = plot_lengthscales(study)
            figure.write_html("lengthscales.html")
    """
    return draw(lengthscales.lengthscales_info(study))


def draw(info: lengthscales.LengthscalesInfo) -> go.Figure:
    """Draw the records."""
    figure = go.Figure(layout={"title": {"text": lengthscales.TITLE}})
    if not info.lines:
        return figure
    styles = line_styles(len(info.lines))
    for index, (line, style) in enumerate(zip(info.lines, styles, strict=True)):
        figure.add_trace(_trace(line, index, style))
        if line.detached:
            figure.add_trace(_hollow(line.detached, style.marker.plotly, style.color, line.label))
    if info.detached_label:
        nowhere = ((None, None),)
        figure.add_trace(_hollow(nowhere, "circle", GRAY, info.detached_label, showlegend=True))
    for label, shape, numbers in info.rugs:
        figure.add_trace(_rug(label, _RUG_SYMBOLS[shape], numbers))
    low, high = info.log10_range
    figure.update_layout(
        xaxis={"title": {"text": lengthscales.X_TITLE}, "range": info.x_range},
        yaxis={
            "title": {"text": lengthscales.Y_TITLE},
            "type": "log",
            "range": (low, high),
            "exponentformat": "power",
        },
        # A second axis, from 0 to 1, for the marks at the bottom.
        yaxis2={"overlaying": "y", "range": (0.0, 1.0), "visible": False, "fixedrange": True},
        showlegend=True,
    )
    dotted = {"color": GRAY, "width": 1, "dash": "dot"}
    figure.add_shape(type="line", xref="paper", x0=0, x1=1, yref="y", y0=1, y1=1, line=dotted)
    return figure


def _trace(line: lengthscales.ScaleLine, index: int, style: LineStyle) -> go.Scatter:
    sizes = [0] * len(line.points)
    for point in range(len(sizes))[marked(len(sizes), index)]:
        sizes[point] = _MARKER_SIZE
    return go.Scatter(
        x=[number for number, _ in line.points],
        y=[scale for _, scale in line.points],
        name=line.label,
        legendgroup=line.label,
        mode="lines+markers",
        line={"color": style.color, "dash": style.dash.plotly, "width": 1.5},
        marker={"symbol": style.marker.plotly, "size": sizes, "opacity": 1.0},
        hovertemplate=_HOVER,
    )


def _hollow(
    points: Sequence[tuple[int | None, float | None]],
    symbol: str,
    color: str,
    name: str,
    *,
    showlegend: bool = False,
) -> go.Scatter:
    return go.Scatter(
        x=[number for number, _ in points],
        y=[scale for _, scale in points],
        name=name,
        legendgroup=name,
        showlegend=showlegend,
        mode="markers",
        marker={"symbol": f"{symbol}-open", "size": _MARKER_SIZE, "color": color},
        hovertemplate=_HOVER,
    )


def _rug(label: str, symbol: str, numbers: tuple[int, ...]) -> go.Scatter:
    return go.Scatter(
        x=numbers,
        y=[0.02] * len(numbers),
        yaxis="y2",
        name=label,
        mode="markers",
        marker={"symbol": symbol, "size": 8, "color": GRAY, "line": {"width": 1.5}},
        hovertemplate="trial %{x}",
    )
