"""A stopping criterion by the number of complete trials, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from bbo_plugins.visualization._data import regret_gap
from bbo_plugins.visualization._style import BLUE, GRAY, RED, line_styles
from bbo_plugins.visualization.matplotlib._scales import label_log_axis

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from optuna.study import Study

    from bbo_plugins.optuna.terminator import RegretGapTerminator

_SIZE = (8.0, 6.4)  # inches


def plot_regret_gap(
    study: Study, terminator: RegretGapTerminator | None = None
) -> Axes | NDArray[np.object_]:
    """Plot what a terminator has recorded: its criterion, the terms, the threshold and the stop.

    See :func:`bbo_plugins.visualization.plot_regret_gap`.

    Args:
        study: A study that a :class:`~bbo_plugins.optuna.RegretGapTerminator` has looked at.
        terminator: One with the settings whose records are to be seen; None for those that cover
            most of the study.

    Returns:
        An array (2,) with the axes of the criterion and of the objective. Empty axes, with a
        warning in the log, if no records are stored.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import RegretGapTerminator
            from bbo_plugins.visualization.matplotlib import plot_regret_gap

            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            terminator = RegretGapTerminator()
            study.optimize(
                lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2,
                n_trials=14,
                callbacks=[terminator],
            )
            axes = plot_regret_gap(study)
            axes[0].figure.savefig("regret_gap.png")
    """
    info = regret_gap.regret_gap_info(study, terminator)
    if info is None:
        axes = plt.subplots()[1]
        axes.set_title(regret_gap.EMPTY_TITLE)
        return axes
    return draw(info)


def draw(info: regret_gap.RegretGapInfo) -> NDArray[np.object_]:
    """Draw the records."""
    panels: NDArray[np.object_]
    figure, panels = plt.subplots(2, 1, figsize=_SIZE, sharex=True, layout="constrained")
    upper, lower = panels
    upper.set_title(info.title)
    _draw_criterion(upper, info)
    n = range(1, len(info.values) + 1)
    lower.plot(
        n,
        info.values,
        linestyle="none",
        marker=".",
        color=GRAY,
        alpha=0.6,
        label=regret_gap.TRIALS_LABEL,
    )
    lower.step(n, info.best, where="post", color=BLUE, linewidth=2, label=regret_gap.BEST_LABEL)
    lower.set(xlabel=regret_gap.X_TITLE, ylabel=regret_gap.VALUE_TITLE, ylim=info.value_range)
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in panels:
        if info.stop is not None:
            label = info.stop_label if axes is upper else None
            axes.axvline(info.stop, color=GRAY, linewidth=1.5, linestyle=":", label=label)
        axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside lower center", ncols=3)
    return panels


def _draw_criterion(axes: Axes, info: regret_gap.RegretGapInfo) -> None:
    styles = line_styles(3 + len(info.terms))
    next(styles), next(styles)  # the looks of the criterion and the threshold
    for curve, style in zip(info.terms, styles, strict=False):
        _draw_curve(axes, curve, style.color, style.dash.matplotlib, 1.0, marker=".")
    _draw_curve(axes, info.criterion, BLUE, "-", 2.5)
    _draw_curve(axes, info.threshold, RED, "--", 2.0)
    low, high = info.log10_range
    axes.set(ylabel=info.y_title, yscale="log", ylim=(10.0**low, 10.0**high))
    label_log_axis(axes, "y", 10.0**low, 10.0**high)


def _draw_curve(
    axes: Axes,
    curve: regret_gap.Curve,
    color: str,
    linestyle: str | tuple[int, tuple[int, ...]],
    linewidth: float,
    *,
    marker: str = "",
) -> None:
    axes.plot(
        [n for n, _ in curve.points],
        [value for _, value in curve.points],
        color=color,
        linestyle=linestyle,
        linewidth=linewidth,
        marker=marker,
        label=curve.label,
    )
