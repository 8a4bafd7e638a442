"""Length-scales by trial, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from bbo_plugins.visualization._data import lengthscales
from bbo_plugins.visualization._style import GRAY, line_styles, marked
from bbo_plugins.visualization.matplotlib._scales import label_log_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from optuna.study import Study

_WIDTH, _HEIGHT = 8.0, 4.8  # inches


_MARKER_SIZE = 5


_RUG_MARKERS = {"tick": ("|", 9), "dot": (".", 5)}


def plot_lengthscales(study: Study) -> Axes:
    """Plot the length-scale of each parameter that was estimated before each trial.

    See :func:`bbo_plugins.visualization.plot_lengthscales`.

    Args:
        study: A study whose trials a sampler of this package suggested.

    Returns:
        The axes; empty ones, with a warning in the log, if no estimate is stored.

    Raises:
        TypeError: ``study`` is not a study.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import UHEBOSampler
            from bbo_plugins.visualization.matplotlib import plot_lengthscales

            study = optuna.create_study(sampler=UHEBOSampler(seed=0))
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2, n_trials=14)
            axes = plot_lengthscales(study)
            axes.figure.savefig("lengthscales.png")
    """
    return draw(lengthscales.lengthscales_info(study))


def draw(info: lengthscales.LengthscalesInfo) -> Axes:
    """Draw the records."""
    figure, axes = plt.subplots(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    axes.set_title(lengthscales.TITLE)
    if not info.lines:
        return axes
    axes.axhline(1.0, color=GRAY, linewidth=1, linestyle=":")
    styles = line_styles(len(info.lines))
    for index, (line, style) in enumerate(zip(info.lines, styles, strict=True)):
        axes.plot(
            [number for number, _ in line.points],
            [scale for _, scale in line.points],
            label=line.label,
            color=style.color,
            linestyle=style.dash.matplotlib,
            linewidth=1.5,
            marker=style.marker.matplotlib,
            markersize=_MARKER_SIZE,
            markevery=marked(len(line.points), index),
        )
        if line.detached:
            _draw_hollow(axes, line.detached, style.marker.matplotlib, style.color)
    if info.detached_label:
        _draw_hollow(axes, (), "o", GRAY, label=info.detached_label)
    for label, shape, numbers in info.rugs:
        marker, size = _RUG_MARKERS[shape]
        axes.plot(
            numbers,
            [0.02] * len(numbers),
            linestyle="none",
            marker=marker,
            markersize=size,
            color=GRAY,
            label=label,
            transform=axes.get_xaxis_transform(),
        )
    low, high = info.log10_range
    axes.set(xlabel=lengthscales.X_TITLE, ylabel=lengthscales.Y_TITLE, yscale="log")
    axes.set(xlim=info.x_range, ylim=(10.0**low, 10.0**high))
    label_log_axis(axes, "y", 10.0**low, 10.0**high)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside right upper")
    return axes


def _draw_hollow(
    axes: Axes,
    points: Sequence[tuple[int, float]],
    marker: str,
    color: str,
    *,
    label: str | None = None,
) -> None:
    axes.plot(
        [number for number, _ in points],
        [scale for _, scale in points],
        label=label,
        linestyle="none",
        marker=marker,
        markersize=_MARKER_SIZE,
        markerfacecolor="none",
        markeredgecolor=color,
    )
