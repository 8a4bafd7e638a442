"""The models of a bilevel study around its solution, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib import pyplot as plt

from bbo_plugins.visualization._data import bilevel
from bbo_plugins.visualization._style import (
    BAND_OPACITY,
    BLUE,
    COLORMAP,
    QUERY_MARKERS,
    RED,
    opacity,
)
from bbo_plugins.visualization.matplotlib._scales import label_log_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from optuna.study import Study

    from bbo_plugins.optuna import BILBOSampler
    from bbo_plugins.visualization._data.axes import ParameterAxis

_N_COLUMNS = 2


_PANEL_WIDTH, _PANEL_HEIGHT, _FRAME_HEIGHT = 4.6, 3.6, 0.9  # inches


_N_LEVELS = 12


_MAX_LABEL_LENGTH = 24  # characters of all choices together that fit in one line


def plot_bilevel(
    study: Study, sampler: BILBOSampler, params: Sequence[str] | None = None
) -> NDArray[np.object_]:
    """Plot what the models of a bilevel study know of both levels, around the solution.

    See :func:`bbo_plugins.visualization.plot_bilevel`.

    Args:
        study: A study of ``sampler``.
        sampler: The sampler.
        params: Parameters to draw, one or two of each level; None for those in which the levels'
            objectives vary most.

    Returns:
        An array (n,) with the axes of each panel.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no solution yet, the study does not fit the sampler, or ``params`` is
            not possible.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import BILBOSampler
            from bbo_plugins.visualization.matplotlib import plot_bilevel

            sampler = BILBOSampler(["x"], ["z"], seed=0)


            def objective(trial):
                query = trial.suggest_categorical("query", sampler.functions)
                x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
                return (x - 0.8) ** 2 + z**2 if query == "upper" else (z - x) ** 2


            study = optuna.create_study(sampler=sampler)
            study.optimize(objective, n_trials=12)
            axes = plot_bilevel(study, sampler)
            axes[0].figure.savefig("bilevel.png")
    """
    return draw(bilevel.bilevel_info(study, sampler, params))


def draw(info: bilevel.BilevelInfo) -> NDArray[np.object_]:
    """Draw the records."""
    n_rows = -(-len(info.panels) // _N_COLUMNS)
    figure, grid = plt.subplots(
        n_rows,
        _N_COLUMNS,
        figsize=(_PANEL_WIDTH * _N_COLUMNS, _PANEL_HEIGHT * n_rows + _FRAME_HEIGHT),
        squeeze=False,
        layout="constrained",
    )
    panels = grid.ravel()
    for panel in panels[len(info.panels) :]:
        panel.remove()
    named: dict[str, Artist] = {}
    for axes, panel in zip(panels, info.panels, strict=False):
        _draw_panel(axes, panel, info)
        handles, labels = axes.get_legend_handles_labels()
        named.update(zip(labels, handles, strict=True))
    figure.suptitle(info.title)
    labels = [label for label in info.labels if label in named]
    figure.legend(
        handles=[named[label] for label in labels],
        labels=labels,
        loc="outside lower center",
        ncols=3,
    )
    return panels[: len(info.panels)]


def _draw_panel(axes: Axes, panel: bilevel.Panel, info: bilevel.BilevelInfo) -> None:
    if panel.values is not None and len(panel.axes) == 1:
        _draw_curve(axes, panel, panel.values)
    elif panel.values is not None:
        _draw_surface(axes, panel, panel.values)
    if panel.answer is not None:
        _draw_answer(axes, panel, panel.answer)
    if panel.violated is not None:
        label = bilevel.VIOLATED_LABEL
        x, y = panel.violated
        axes.scatter(x, y, s=14, marker="x", color="black", alpha=0.55, linewidths=0.8, label=label)
    for queries in panel.queries:
        _draw_queries(axes, queries, info.functions.index(queries.function))
    axes.plot(
        *panel.solution,
        linestyle="none",
        marker="*",
        markersize=17,
        markerfacecolor=RED,
        markeredgecolor="white",
        markeredgewidth=1.2,
        zorder=5,
        clip_on=False,
        label=bilevel.SOLUTION_LABEL,
    )
    axes.set_title(panel.title, fontsize="medium")
    _label(axes, "x", panel.axes[0])
    if len(panel.axes) > 1:
        _label(axes, "y", panel.axes[1])
    else:
        axes.set_ylabel(panel.value_title)


def _draw_queries(axes: Axes, queries: bilevel.Queries, index: int) -> None:
    marker = QUERY_MARKERS[index % len(QUERY_MARKERS)].matplotlib
    look: dict[str, Any] = {"s": 30, "marker": marker, "linewidths": 0.9}
    alpha = opacity(queries.closeness).tolist()
    axes.scatter(
        queries.x,
        queries.y,
        facecolors=[(1.0, 1.0, 1.0, a) for a in alpha],
        edgecolors=[(0.0, 0.0, 0.0, a) for a in alpha],
        zorder=3,
        clip_on=False,
        **look,
    )
    label = bilevel.queries_label(queries.function)
    axes.scatter([], [], facecolors="white", edgecolors="black", label=label, **look)


def _draw_curve(axes: Axes, panel: bilevel.Panel, values: NDArray[np.float64]) -> None:
    x = panel.axes[0].values
    interval = panel.interval(values)
    if panel.axes[0].is_discrete:
        spread = [values - interval[0], interval[1] - values]
        label = bilevel.BARS_LABEL
        axes.errorbar(x, values, yerr=spread, fmt="s", capsize=4, color=BLUE, label=label)
    else:
        label = bilevel.INTERVAL_LABEL
        axes.fill_between(x, *interval, color=BLUE, alpha=BAND_OPACITY, linewidth=0, label=label)
        axes.plot(x, values, color=BLUE, linewidth=2, label=bilevel.MEAN_LABEL)
    axes.grid(visible=True, alpha=0.3)


def _draw_surface(axes: Axes, panel: bilevel.Panel, values: NDArray[np.float64]) -> None:
    x, y = (axis.values for axis in panel.axes)
    if not panel.is_smooth:
        low, high = panel.value_range or (None, None)
        surface: Any = axes.pcolormesh(
            x, y, values, shading="nearest", cmap=COLORMAP, vmin=low, vmax=high
        )
    else:
        surface = axes.contourf(x, y, values, levels=_N_LEVELS, cmap=COLORMAP)
        axes.contour(
            x, y, values, levels=surface.levels, colors="black", alpha=0.25, linewidths=0.6
        )
    bar = axes.figure.colorbar(surface, ax=axes)
    bar.set_label(panel.value_title)
    if panel.value_labels:
        bar.set_ticks(range(len(panel.value_labels)), labels=panel.value_labels)


def _draw_answer(axes: Axes, panel: bilevel.Panel, answer: NDArray[np.float64]) -> None:
    if any(axis.is_discrete for axis in panel.axes):
        x, y = answer
        label = bilevel.ANSWER_LABEL
        axes.scatter(x, y, s=36, marker="_", color="black", linewidths=2, label=label)
        return
    axes.plot(*answer, color="white", linewidth=4.5, solid_capstyle="round")
    axes.plot(
        *answer, color="black", linewidth=2, solid_capstyle="round", label=bilevel.ANSWER_LABEL
    )


def _label(axes: Axes, which: str, axis: ParameterAxis) -> None:
    """Name an axis and give it its scale and its ends."""
    x = which == "x"
    (axes.set_xlabel if x else axes.set_ylabel)(axis.name)
    if axis.labels:
        ticks = axes.xaxis if x else axes.yaxis
        ticks.set_ticks(range(len(axis.labels)), labels=list(axis.labels))
        if x and sum(map(len, axis.labels)) > _MAX_LABEL_LENGTH:
            for text in axes.get_xticklabels():
                text.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    elif axis.log:
        (axes.set_xscale if x else axes.set_yscale)("log")
        label_log_axis(axes, which, *axis.limits)
    (axes.set_xlim if x else axes.set_ylim)(axis.limits)
