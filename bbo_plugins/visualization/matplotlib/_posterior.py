"""Slices of the posterior, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import pyplot as plt

from bbo_plugins.visualization._data import posterior
from bbo_plugins.visualization._style import BAND_OPACITY, BLUE, RED, opacity
from bbo_plugins.visualization.matplotlib._scales import label_log_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from optuna.study import Study

_MAX_COLUMNS = 3


_PANEL_WIDTH, _PANEL_HEIGHT = 3.6, 3.0  # inches


_SINGLE_SIZE = (6.4, 4.8)


_MAX_LABEL_LENGTH = 24  # characters of all choices together that fit in one line


def plot_posterior(
    study: Study,
    params: Sequence[str] | None = None,
    *,
    at: int | None = None,
    n_points: int = posterior.DEFAULT_POINTS,
) -> Axes | NDArray[np.object_]:
    """Plot the model of the objective along one parameter at a time, through one trial.

    See :func:`bbo_plugins.visualization.plot_posterior`.

    Args:
        study: A study with one objective.
        params: Parameters to draw; None for all, of more than nine those along which the
            median varies most.
        at: Number of the complete trial that the slices go through; None for the best.
        n_points: Number of points along a parameter with many values.

    Returns:
        The axes of a single parameter, or an array (n,) with the axes of each of several. Empty
        axes, with a warning in the log, if there is nothing to model yet.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives, a name is not one of the model's parameters,
            or there is no such trial.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import UHEBOSampler
            from bbo_plugins.visualization.matplotlib import plot_posterior

            study = optuna.create_study(sampler=UHEBOSampler(seed=0))
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2, n_trials=14)
            axes = plot_posterior(study)
            axes.figure.savefig("posterior.png")
    """
    info = posterior.posterior_info(study, params, at=at, n_points=n_points)
    if info is None:
        axes = plt.subplots()[1]
        axes.set_title(posterior.EMPTY_TITLE)
        return axes
    return draw(info)


def draw(info: posterior.PosteriorInfo) -> Axes | NDArray[np.object_]:
    """Draw the records."""
    n = len(info.slices)
    n_columns = min(n, _MAX_COLUMNS)
    n_rows = -(-n // n_columns)
    size = (_PANEL_WIDTH * n_columns, _PANEL_HEIGHT * n_rows + 0.8) if n > 1 else _SINGLE_SIZE
    figure, grid = plt.subplots(
        n_rows, n_columns, figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    panels = grid.ravel()
    for panel in panels[n:]:
        panel.remove()
    for index, (axes, drawn) in enumerate(zip(panels, info.slices, strict=False)):
        _draw_panel(axes, info, drawn)
        if index % n_columns == 0:
            axes.set_ylabel(posterior.Y_TITLE)
    panels[0].set_ylim(info.value_range)
    figure.suptitle(info.title)
    named: dict[str, Artist] = {}
    for axes in panels[:n]:
        handles, labels = axes.get_legend_handles_labels()
        named.update(zip(labels, handles, strict=True))
    order = (
        posterior.MEDIAN_LABEL,
        posterior.INTERVAL_LABEL,
        posterior.BARS_LABEL,
        info.trials_label,
        info.reference_label,
    )
    figure.legend(
        handles=[named[label] for label in order if label in named],
        labels=[label for label in order if label in named],
        loc="outside lower center",
        ncols=3 if n_columns > 2 else 2,
    )
    return panels[:n] if n > 1 else panels[0]


def _draw_panel(axes: Axes, info: posterior.PosteriorInfo, drawn: posterior.Slice) -> None:
    if drawn.kind == "curve":
        label = posterior.INTERVAL_LABEL
        axes.fill_between(
            drawn.x, drawn.low, drawn.high, color=BLUE, alpha=BAND_OPACITY, linewidth=0, label=label
        )
        axes.plot(drawn.x, drawn.median, color=BLUE, linewidth=2, label=posterior.MEDIAN_LABEL)
    else:
        spread = [drawn.median - drawn.low, drawn.high - drawn.median]
        axes.errorbar(
            drawn.x,
            drawn.median,
            yerr=spread,
            fmt="s",
            markersize=6,
            capsize=4,
            color=BLUE,
            label=posterior.BARS_LABEL,
        )
    others = info.others
    axes.scatter(
        drawn.trials_x[others],
        info.values[others],
        s=18,
        color=[(0.0, 0.0, 0.0, alpha) for alpha in opacity(drawn.closeness[others]).tolist()],
        linewidths=0,
        zorder=3,
    )
    axes.scatter([], [], s=18, color="black", linewidths=0, label=info.trials_label)
    axes.plot(
        drawn.trials_x[info.reference],
        info.values[info.reference],
        linestyle="none",
        marker="*",
        markersize=14,
        markerfacecolor="none",
        markeredgecolor=RED,
        markeredgewidth=2,
        zorder=4,
        label=info.reference_label,
    )
    axes.set_xlabel(drawn.name)
    axes.grid(visible=True, alpha=0.3)
    if drawn.labels:
        axes.set_xticks(range(len(drawn.labels)), drawn.labels)
        if sum(map(len, drawn.labels)) > _MAX_LABEL_LENGTH:
            for text in axes.get_xticklabels():
                text.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
        axes.set_xlim(-0.5, len(drawn.labels) - 0.5)
    elif drawn.log:
        axes.set_xscale("log")
        label_log_axis(axes, "x", float(drawn.x[0]), float(drawn.x[-1]))
