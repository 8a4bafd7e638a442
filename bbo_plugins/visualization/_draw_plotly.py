"""The plots, drawn by plotly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bbo_plugins.visualization._data.bilevel import bilevel_plot
from bbo_plugins.visualization._data.horizon import horizon_plot
from bbo_plugins.visualization._data.lengthscales import lengthscales_plot
from bbo_plugins.visualization._data.panels import Band, Bars, HeatMap, Line, Points, Rule
from bbo_plugins.visualization._data.posterior import DEFAULT_POINTS, posterior_plot
from bbo_plugins.visualization._data.regret_gap import regret_gap_plot
from bbo_plugins.visualization._style import BAND_OPACITY, BARS, BLUE, COLORMAP, GRAY, N_CONTOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike
    from optuna.study import Study

    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
    from bbo_plugins.optuna import BILBOSampler, RegretGapTerminator
    from bbo_plugins.visualization._data.panels import Axis, Item, Panel, Plot
    from bbo_plugins.visualization._style import MarkerStyle

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
_BOTTOM = {"range": (0.0, 1.0), "visible": False, "fixedrange": True}  # the axis of such points


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
    return draw(bilevel_plot(study, sampler, params))


def plot_horizon(
    results: object,
    *,
    horizon: InnerHorizon | None = None,
    metric: str | None = None,
    mode: Literal["min", "max"] = "min",
    steps: str = "sgd_steps",
) -> go.Figure:
    """Plot how long each configuration was trained, and what came of it.

    Above, the steps of each configuration with the horizon that new ones have; below, the values by
    the number of steps. The trainings of a configuration that was continued are joined by a line.
    Values that are outliers on the worse side are out of sight.

    Args:
        results: A study whose objective asks :func:`~bbo_plugins.optuna.inner_steps`, or what
            ``Tuner.fit`` of Ray Tune returns.
        horizon: The horizon to be drawn; None for what the study has recorded, and for none of
            Ray's results. Also the steps of trials that have not recorded any.
        metric: The reported value; only for the results of Ray, which need it.
        mode: "min" or "max", which of Ray's values are the better ones.
        steps: The reported number of steps, of Ray's results.

    Returns:
        The figure; an empty one, with a warning in the log, if nothing is known.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives, or ``metric`` or ``steps`` is not reported.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import InnerHorizon, PromotionCallback, inner_steps
            from bbo_plugins.visualization import plot_horizon

            horizon = InnerHorizon.growing(total_steps=300)


            def objective(trial):
                rate, weight = trial.suggest_float("rate", 0.01, 1.0), 0.0
                for _ in inner_steps(
                    trial, horizon
                ):  # a continuation would load a checkpoint first
                    weight -= rate * (weight - 1.0)
                return abs(weight - 1.0)


            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            study.optimize(objective, callbacks=[PromotionCallback(horizon)])
            figure = plot_horizon(study)
            figure.write_html("horizon.html")
    """
    return draw(horizon_plot(results, horizon=horizon, metric=metric, mode=mode, steps=steps))


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
    return draw(lengthscales_plot(study))


def plot_posterior(
    study: Study,
    params: Sequence[str] | None = None,
    *,
    at: int | None = None,
    n_points: int = DEFAULT_POINTS,
) -> go.Figure:
    """Plot the model of the objective along one parameter at a time, through one trial.

    The model, over all parameters that the trials have, of this package's latest suggestion: a
    Gaussian process with the hyperparameters stored with it, or GO-UCB's network. If nothing is
    stored it is fitted once, a network for a ``GOUCBSampler`` and a Gaussian process for all other
    samplers. Each panel varies one parameter and keeps the others at the values of the best trial,
    feasible if there is one. It shows the median of the objective without noise, its
    central 95% interval, and the complete trials: the further a trial is off the slice, by the
    model's own measure, the fainter it is. The interval is the model's: far from all trials a
    network's is often too narrow.

    A parameter that not all trials have is drawn where it exists, with the trials that have it: the
    panel's title has the values of the parameters that decide on that. If the best trial lacks it,
    the slice goes through the best of the others. Along a parameter that others depend on, those
    that appear are as in the best trial that has them.

    Values are in the objective's units. The axis of the values ends where only outliers are left.
    Known noise variances are those of the study's sampler, so load the study with its sampler.

    Args:
        study: A study with one objective.
        params: Parameters to draw; None for all, of more than nine those along which the
            median varies most.
        at: Number of the complete trial that the slices go through, if it has the parameter; None
            for the best.
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
    return draw(posterior_plot(study, params, at=at, n_points=n_points))


def plot_regret_gap(study: Study, terminator: RegretGapTerminator | None = None) -> go.Figure:
    """Plot what a terminator has recorded: its criterion, the terms, the threshold and the stop.

    Below them are the values of the complete trials and the best so far, by the number of complete
    trials as well; values that are outliers on the worse side are out of sight. Everything is read
    from the study's storage; nothing is fitted.

    Args:
        study: A study that a :class:`~bbo_plugins.optuna.RegretGapTerminator` has looked at.
        terminator: One with the settings whose records are to be seen; None for those that cover
            most of the study.

    Returns:
        The figure; an empty one, with a warning in the log, if no records are stored.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import RegretGapTerminator
            from bbo_plugins.visualization import plot_regret_gap

            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            terminator = RegretGapTerminator()
            study.optimize(
                lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2,
                n_trials=14,
                callbacks=[terminator],
            )
            figure = plot_regret_gap(study)
            figure.write_html("regret_gap.html")
    """
    return draw(regret_gap_plot(study, terminator))


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
        specs=_places(plot, n_rows, n_columns),
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


def _places(plot: Plot, n_rows: int, n_columns: int) -> list[list[dict[str, Any] | None]]:
    """Return plotly's description of the cells, row by row; None for those without a panel."""
    places: list[dict[str, Any] | None] = [
        {"secondary_y": any(isinstance(item, Points) and item.at_bottom for item in panel.items)}
        for panel in plot.panels
    ]
    places += [None] * (n_rows * n_columns - len(places))
    return [places[start : start + n_columns] for start in range(0, len(places), n_columns)]


def _draw_panel(figure: go.Figure, panel: Panel, row: int, column: int, named: set[str]) -> None:
    """Draw a panel; its labels are in the legend unless they are among those ``named`` before."""
    place = {"row": row, "col": column}
    cell = figure.get_subplot(row, column)
    for item in panel.items:
        if isinstance(item, Rule):
            continue
        for trace in _traces(item):
            if isinstance(item, HeatMap):
                right, (low, high) = cell.xaxis.domain[1], cell.yaxis.domain
                trace.colorbar.update(x=right + 0.01, y=(low + high) / 2.0, len=high - low)
            elif trace.name:
                trace.update(legendgroup=trace.name, showlegend=trace.name not in named)
                named.add(trace.name)
            at_bottom = isinstance(item, Points) and item.at_bottom
            figure.add_trace(trace, **place, secondary_y=at_bottom or None)
            if at_bottom:
                figure.get_subplot(row, column, secondary_y=True).yaxis.update(_BOTTOM)
                cell.xaxis.domain = (0.0, 1.0)  # which has left room for that axis' labels
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


def _traces(item: Item) -> Iterator[Any]:
    if isinstance(item, Line):
        yield _line(item)
    elif isinstance(item, Points):
        yield go.Scatter(
            x=item.x,
            y=item.y,
            name=item.label,
            mode="markers",
            marker=_marker(item.style, item.opacity),
            cliponaxis=item.clip,
            customdata=item.custom,
            **_hover(item.hover),
        )
    elif isinstance(item, HeatMap):
        yield _heat_map(item)
    elif isinstance(item, Band):
        yield go.Scatter(
            x=[*item.x, *item.x[::-1]],
            y=[*item.low, *item.high[::-1]],
            name=item.label,
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=_BAND_COLOR,
            hoverinfo="skip",
        )
    elif isinstance(item, Bars):
        yield go.Scatter(
            x=item.x,
            y=item.middle,
            error_y={
                "type": "data",
                "symmetric": False,
                "array": item.high - item.middle,
                "arrayminus": item.middle - item.low,
                "thickness": 1.5,
            },
            name=item.label,
            mode="markers",
            marker=_marker(BARS, None),
            customdata=np.column_stack([item.low, item.high]),
            **_hover(item.hover),
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
    shape = "hv" if line.step else None
    return go.Scatter(
        x=line.x,
        y=line.y,
        name=line.label or None,
        line={
            "color": style.color,
            "dash": style.dash.plotly,
            "width": style.width,
            "shape": shape,
        },
        connectgaps=False,
        customdata=line.custom,
        **looks,
        **_hover(line.hover),
    )


def _marker(style: MarkerStyle, opacity: ArrayLike | None) -> dict[str, Any]:
    symbol = style.marker.plotly if style.color else f"{style.marker.plotly}-open"
    line = {"color": style.edge, "width": style.edge_width} if style.color and style.edge else None
    return {
        "symbol": symbol,
        "size": style.size[0],
        "color": style.color or style.edge,
        "opacity": style.opacity if opacity is None else opacity,
        "line": line,
    }


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
