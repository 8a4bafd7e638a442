"""Training by configuration and values by training, drawn by plotly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bbo_plugins.visualization._data import horizon as data
from bbo_plugins.visualization._style import BLUE, GRAY, RED

if TYPE_CHECKING:
    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon

_HEIGHT = 640  # pixels


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
    info = data.horizon_info(results, horizon=horizon, metric=metric, mode=mode, steps=steps)
    if info is None:
        return go.Figure(layout={"title": {"text": data.EMPTY_TITLE}})
    return draw(info)


def draw(info: data.HorizonInfo) -> go.Figure:
    """Draw the records."""
    figure = make_subplots(rows=2, cols=1, vertical_spacing=0.14)
    if info.horizon:
        line = {"color": GRAY, "dash": "dash", "width": 1.5}
        figure.add_trace(
            go.Scatter(
                x=[index for index, _ in info.horizon],
                y=[steps for _, steps in info.horizon],
                name=data.HORIZON_LABEL,
                mode="lines",
                line=line,
            ),
            row=1,
            col=1,
        )
    for courses, label, color in (
        (info.single, data.SINGLE_LABEL, GRAY),
        (info.continued, data.CONTINUED_LABEL, BLUE),
        ((info.best,), data.BEST_LABEL, RED),
    ):
        if courses:
            index, steps, values = data.joined(courses, None)
            figure.add_trace(_courses(index, steps, index, label, color), row=1, col=1)
            lower = _courses(steps, values, index, label, color)
            lower.showlegend = False
            figure.add_trace(lower, row=2, col=1)
    figure.update_xaxes(title={"text": data.X_TITLE}, row=1, col=1)
    figure.update_yaxes(title={"text": data.STEPS_TITLE}, type="log", row=1, col=1)
    figure.update_xaxes(title={"text": data.STEPS_TITLE}, type="log", row=2, col=1)
    figure.update_yaxes(title={"text": info.value_title}, range=info.value_range, row=2, col=1)
    figure.update_layout(title={"text": data.TITLE}, height=_HEIGHT)
    return figure


def _courses(x: list[Any], y: list[Any], index: list[Any], label: str, color: str) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=y,
        name=label,
        mode="lines+markers",
        line={"color": color, "width": 1},
        marker={"size": 6},
        connectgaps=False,
        customdata=index,
        hovertemplate="configuration %{customdata}: %{x}, %{y:.4g}",
    )
