"""A stopping criterion by the number of complete trials, drawn by plotly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from bbo_plugins.visualization._data import regret_gap
from bbo_plugins.visualization._style import BLUE, GRAY, RED, line_styles

if TYPE_CHECKING:
    from optuna.study import Study

    from bbo_plugins.optuna.terminator import RegretGapTerminator

_HOVER = "%{x}: %{y:.4g}"


_HEIGHT = 640  # pixels


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
    info = regret_gap.regret_gap_info(study, terminator)
    if info is None:
        return go.Figure(layout={"title": {"text": regret_gap.EMPTY_TITLE}})
    return draw(info)


def draw(info: regret_gap.RegretGapInfo) -> go.Figure:
    """Draw the records."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    styles = line_styles(3 + len(info.terms))
    next(styles), next(styles)  # the looks of the criterion and the threshold
    for curve, style in zip(info.terms, styles, strict=False):
        line = {"color": style.color, "dash": style.dash.plotly, "width": 1}
        figure.add_trace(_curve(curve, line, mode="lines+markers"), row=1, col=1)
    figure.add_trace(_curve(info.criterion, {"color": BLUE, "width": 2.5}), row=1, col=1)
    line = {"color": RED, "width": 2, "dash": "dash"}
    figure.add_trace(_curve(info.threshold, line), row=1, col=1)
    for trace in _objective(info):
        figure.add_trace(trace, row=2, col=1)
    if info.stop is not None:
        dotted = {"color": GRAY, "width": 1.5, "dash": "dot"}
        figure.add_vline(x=info.stop, line=dotted, row=2, col=1)
        figure.add_vline(
            x=info.stop, line=dotted, row=1, col=1, annotation={"text": info.stop_label}
        )
    figure.update_yaxes(
        title={"text": info.y_title},
        type="log",
        range=info.log10_range,
        exponentformat="power",
        row=1,
        col=1,
    )
    figure.update_yaxes(
        title={"text": regret_gap.VALUE_TITLE}, range=info.value_range, row=2, col=1
    )
    figure.update_xaxes(title={"text": regret_gap.X_TITLE}, row=2, col=1)
    figure.update_layout(title={"text": info.title}, height=_HEIGHT)
    return figure


def _curve(curve: regret_gap.Curve, line: dict[str, object], *, mode: str = "lines") -> go.Scatter:
    return go.Scatter(
        x=[n for n, _ in curve.points],
        y=[value for _, value in curve.points],
        name=curve.label,
        mode=mode,
        line=line,
        marker={"size": 4},
        hovertemplate=_HOVER,
    )


def _objective(info: regret_gap.RegretGapInfo) -> tuple[go.Scatter, go.Scatter]:
    n = list(range(1, len(info.values) + 1))
    values = go.Scatter(
        x=n,
        y=info.values,
        name=regret_gap.TRIALS_LABEL,
        mode="markers",
        marker={"color": GRAY, "size": 5, "opacity": 0.6},
        hovertemplate=_HOVER,
    )
    best = go.Scatter(
        x=n,
        y=info.best,
        name=regret_gap.BEST_LABEL,
        mode="lines",
        line={"color": BLUE, "width": 2, "shape": "hv"},
        hovertemplate=_HOVER,
    )
    return values, best
