"""The plots, drawn by matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from bbo_plugins.visualization._data.bilevel import bilevel_plot
from bbo_plugins.visualization._data.horizon import horizon_plot
from bbo_plugins.visualization._data.lengthscales import lengthscales_plot
from bbo_plugins.visualization._data.panels import Band, Bars, HeatMap, Line, Points
from bbo_plugins.visualization._data.posterior import DEFAULT_POINTS, posterior_plot
from bbo_plugins.visualization._data.regret_gap import regret_gap_plot
from bbo_plugins.visualization._style import BAND_OPACITY, BARS, BLUE, COLORMAP, GRAY, N_CONTOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from numpy.typing import NDArray
    from optuna.study import Study

    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
    from bbo_plugins.optuna import BILBOSampler, RegretGapTerminator
    from bbo_plugins.visualization._data.panels import Axis, Item, Plot
    from bbo_plugins.visualization._style import Layout

_SINGLE_SIZE = (6.4, 4.8)  # inches, at least
_WIDE = 8.0  # inches; three labels of a legend fit in a row
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
    return draw(bilevel_plot(study, sampler, params))


def plot_horizon(
    results: object,
    *,
    horizon: InnerHorizon | None = None,
    metric: str | None = None,
    mode: Literal["min", "max"] = "min",
    steps: str = "sgd_steps",
) -> Axes | NDArray[np.object_]:
    """Plot how long each configuration was trained, and what came of it.

    See :func:`bbo_plugins.visualization.plot_horizon`.

    Args:
        results: A study whose objective asks :func:`~bbo_plugins.optuna.inner_steps`, or what
            ``Tuner.fit`` of Ray Tune returns.
        horizon: The horizon to be drawn; None for what the study has recorded, and for none of
            Ray's results. Also the steps of trials that have not recorded any.
        metric: The reported value; only for the results of Ray, which need it.
        mode: "min" or "max", which of Ray's values are the better ones.
        steps: The reported number of steps, of Ray's results.

    Returns:
        An array (2,) with the axes of the steps and of the values. Empty axes, with a warning in
        the log, if nothing is known.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives, or ``metric`` or ``steps`` is not reported.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import InnerHorizon, PromotionCallback, inner_steps
            from bbo_plugins.visualization.matplotlib import plot_horizon

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
            axes = plot_horizon(study)
            axes[0].figure.savefig("horizon.png")
    """
    plot = horizon_plot(results, horizon=horizon, metric=metric, mode=mode, steps=steps)
    return _one_or_all(draw(plot))


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
    axes: Axes = draw(lengthscales_plot(study))[0]
    return axes


def plot_posterior(
    study: Study,
    params: Sequence[str] | None = None,
    *,
    at: int | None = None,
    n_points: int = DEFAULT_POINTS,
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
    return _one_or_all(draw(posterior_plot(study, params, at=at, n_points=n_points)))


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
    return _one_or_all(draw(regret_gap_plot(study, terminator)))


def _one_or_all(axes: NDArray[np.object_]) -> Axes | NDArray[np.object_]:
    """Return the axes of a single panel, of several all of them."""
    return axes if len(axes) > 1 else axes[0]


def draw(plot: Plot) -> NDArray[np.object_]:
    """Draw a plot, and return the axes (n,) of its panels, empty ones if it has none."""
    n, layout = len(plot.panels), plot.layout
    if not n:
        unlabeled: NDArray[np.object_] = plt.subplots(squeeze=False)[1][0]
        unlabeled[0].set_title(plot.title)
        return unlabeled
    n_columns = min(n, layout.n_columns)
    size = _size(layout, n, n_columns)
    figure, grid = plt.subplots(
        -(-n // n_columns),
        n_columns,
        figsize=size,
        sharex=layout.share == "x",
        sharey=layout.share == "y",
        squeeze=False,
        layout="constrained",
    )
    for unused in grid.ravel()[n:]:
        unused.remove()
    every = grid.ravel()[:n]
    named: dict[str, Artist] = {}
    for index, (axes, panel) in enumerate(zip(every, plot.panels, strict=True)):
        for item in panel.items:
            handle = _draw_item(axes, item)
            if not isinstance(item, HeatMap) and item.label:
                named[item.label] = handle
        _draw_axis(axes, "x", panel.x)
        _draw_axis(axes, "y", panel.y)
        if layout.share == "y" and index % n_columns:
            axes.set_ylabel("")
        axes.set_title(panel.title, fontsize="medium")
        if panel.grid:
            axes.grid(visible=True, alpha=0.3)
    if layout.stacked:
        every[0].set_title(plot.title, fontsize="large")
    else:
        figure.suptitle(plot.title)
    labels = [label for label in plot.legend or named if label in named]
    figure.legend(
        handles=[named[label] for label in labels],
        labels=labels,
        loc="outside right upper" if layout.stacked and n == 1 else "outside lower center",
        ncols=1 if layout.stacked and n == 1 else 3 if size[0] >= _WIDE else 2,
    )
    return every


def _size(layout: Layout, n: int, n_columns: int) -> tuple[float, float]:
    """Return width and height of a figure of ``n`` panels in inches."""
    width = layout.inches[0] * n_columns
    height = layout.inches[1] * -(-n // n_columns) + layout.inches_around
    if n > 1:
        return width, height
    return max(width, _SINGLE_SIZE[0]), max(height, _SINGLE_SIZE[1])


def _draw_item(axes: Axes, item: Item) -> Artist:
    """Draw an item, and return what stands for it in the legend."""
    if isinstance(item, Line):
        return _draw_line(axes, item)
    if isinstance(item, Points):
        return _draw_points(axes, item)
    if isinstance(item, HeatMap):
        return _draw_heat_map(axes, item)
    if isinstance(item, Band):
        look: dict[str, Any] = {"color": BLUE, "alpha": BAND_OPACITY, "linewidth": 0}
        return axes.fill_between(item.x, item.low, item.high, **look, label=item.label)
    if isinstance(item, Bars):
        return axes.errorbar(  # type: ignore[return-value]  # a container, which legends take too
            item.x,
            item.middle,
            yerr=[item.middle - item.low, item.high - item.middle],
            fmt=BARS.marker.matplotlib,
            markersize=BARS.size[1],
            capsize=4,
            color=BARS.color,
            label=item.label,
        )
    draw_rule = axes.axvline if item.vertical else axes.axhline
    look = {"color": GRAY, "linewidth": item.width, "linestyle": ":"}
    return draw_rule(item.at, **look, label=item.label or None)


def _draw_line(axes: Axes, line: Line) -> Artist:
    style = line.style
    (artist,) = axes.plot(
        line.x,
        line.y,
        color=style.color,
        linestyle=style.dash.matplotlib,
        linewidth=style.width,
        marker=style.marker.matplotlib if style.marker else None,
        markersize=style.size[1],
        markevery=line.marked,
        drawstyle="steps-post" if line.step else "default",
        label=line.label or None,
    )
    return artist


def _draw_points(axes: Axes, points: Points) -> Artist:
    style = points.style
    marker, size, zorder = style.marker.matplotlib, style.size[1], 2.0 if points.clip else 3.0
    edge = style.edge or style.color
    if points.opacity is None:
        (artist,) = axes.plot(
            points.x,
            points.y,
            linestyle="none",
            marker=marker,
            markersize=size,
            markerfacecolor=style.color or "none",
            markeredgecolor=edge,
            markeredgewidth=style.edge_width,
            alpha=style.opacity,
            zorder=zorder,
            clip_on=points.clip,
            transform=axes.get_xaxis_transform() if points.at_bottom else axes.transData,
            label=points.label,
        )
        return artist
    look: dict[str, Any] = {"s": size**2, "marker": marker, "linewidths": style.edge_width}
    alphas = points.opacity.tolist()
    axes.scatter(
        points.x,
        points.y,
        facecolors=[to_rgba(style.color or "none", alpha) for alpha in alphas],
        edgecolors=[to_rgba(edge or "none", alpha) for alpha in alphas],
        zorder=zorder,
        clip_on=points.clip,
        **look,
    )
    return axes.scatter([], [], facecolors=style.color, edgecolors=edge, label=points.label, **look)


def _draw_heat_map(axes: Axes, heat: HeatMap) -> Artist:
    grid = (heat.x, heat.y, heat.values)
    if heat.contours:
        drawn: Any = axes.contourf(*grid, levels=N_CONTOURS, cmap=COLORMAP)
        axes.contour(*grid, levels=drawn.levels, colors="black", alpha=0.25, linewidths=0.6)
    else:
        low, high = heat.limits or (None, None)
        drawn = axes.pcolormesh(*grid, shading="nearest", cmap=COLORMAP, vmin=low, vmax=high)
    bar = axes.figure.colorbar(drawn, ax=axes)
    bar.set_label(heat.title)
    if heat.labels:
        bar.set_ticks(range(len(heat.labels)), labels=heat.labels)
    artist: Artist = drawn
    return artist


def _draw_axis(axes: Axes, name: Literal["x", "y"], axis: Axis) -> None:
    """Name an axis ("x" or "y") and give it its scale, its ticks and its ends."""
    drawn = axes.xaxis if name == "x" else axes.yaxis
    drawn.set_label_text(axis.title)
    if axis.labels:
        drawn.set_ticks(range(len(axis.labels)), labels=list(axis.labels))
        if name == "x" and sum(map(len, axis.labels)) > _MAX_LABEL_LENGTH:
            for text in axes.get_xticklabels():
                text.set(rotation=30, horizontalalignment="right", rotation_mode="anchor")
    elif axis.log:
        axes.set(**{f"{name}scale": "log"})
        low, high = axis.limits or getattr(axes.dataLim, f"interval{name}").tolist()
        _label_log_axis(axes, name, low, high)
    elif axis.whole:
        drawn.set_major_locator(MaxNLocator(integer=True))
    if axis.limits is not None:
        axes.set(**{f"{name}lim": axis.limits})


_MAX_DECADES = 3.0  # beyond, a label at each power of ten is enough
_PLAIN_RANGE = (1e-3, 1e5)  # numbers that are written out
# Labels of a decade, and the smallest distance between two of them in decades.
_LABELS = (((1.0, 2.0, 5.0), math.log10(2.0)), ((1.0, 3.0), math.log10(3.0)), ((1.0,), 1.0))
_CHARACTER, _LINE = 0.65, 1.2  # width of one and height of the other, in font sizes
# Matplotlib's guess of the room that a label takes, in font sizes: Axis.get_tick_space.
_GUESSED = {"x": 3.0, "y": 2.0}


class _RoomyLocator(LogLocator):
    """Ticks at the 1, 2 and 5 of each decade, or at fewer where the labels would overlap.

    Args:
        name: "x" or "y".
    """

    def __init__(self, name: str) -> None:
        """Start with the most labels."""
        super().__init__(subs=_LABELS[0][0])
        self._name = name

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return the places of the ticks for a view from ``vmin`` to ``vmax``."""
        low, high = sorted((vmin, vmax))
        if self.axis is not None and 0.0 < low < high:
            ends = (10.0 ** math.floor(math.log10(low)), 10.0 ** math.floor(math.log10(high)))
            longest = 1 + max(len(f"{end:g}") for end in ends)  # and a space
            needed = _LINE if self._name == "y" else _CHARACTER * longest
            length = self.axis.get_tick_space() * _GUESSED[self._name]
            per_decade = length / math.log10(high / low)
            fitting = [subs for subs, distance in _LABELS if distance * per_decade >= needed]
            self.set_params(subs=(*fitting, _LABELS[-1][0])[0])
        return super().tick_values(vmin, vmax)


def _label_log_axis(axes: Axes, name: str, low: float, high: float) -> None:
    """Label the logarithmic axis ``name`` ("x" or "y"), which shows ``low`` to ``high``.

    Matplotlib's own labels are powers of ten: on a short axis a single one, or "3 × 10⁰" for 3.
    """
    axis = axes.xaxis if name == "x" else axes.yaxis
    plain = _PLAIN_RANGE[0] <= low and high <= _PLAIN_RANGE[1]
    if plain and math.log10(high / low) <= _MAX_DECADES:
        axis.set_major_locator(_RoomyLocator(name))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
