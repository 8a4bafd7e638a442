"""Training by configuration and values by training, drawn by matplotlib."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator

from bbo_plugins.visualization._data import horizon as data
from bbo_plugins.visualization._style import BLUE, GRAY, RED
from bbo_plugins.visualization.matplotlib._scales import label_log_axis

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon

_SIZE = (8.0, 6.4)  # inches


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
    info = data.horizon_info(results, horizon=horizon, metric=metric, mode=mode, steps=steps)
    if info is None:
        axes = plt.subplots()[1]
        axes.set_title(data.EMPTY_TITLE)
        return axes
    return draw(info)


def draw(info: data.HorizonInfo) -> NDArray[np.object_]:
    """Draw the records."""
    panels: NDArray[np.object_]
    figure, panels = plt.subplots(2, 1, figsize=_SIZE, layout="constrained")
    upper, lower = panels
    if info.horizon:
        index, steps = zip(*info.horizon, strict=True)
        upper.plot(index, steps, "--", color=GRAY, linewidth=1.5, label=data.HORIZON_LABEL)
    for courses, label, color in (
        (info.single, data.SINGLE_LABEL, GRAY),
        (info.continued, data.CONTINUED_LABEL, BLUE),
        ((info.best,), data.BEST_LABEL, RED),
    ):
        if courses:
            indices, n, values = data.joined(courses, math.nan)
            upper.plot(indices, n, ".-", color=color, linewidth=1, label=label)
            lower.plot(n, values, ".-", color=color, linewidth=1)
    every = [n for course in (*info.single, *info.continued, info.best) for n, _ in course.points]
    low, high = max(min(every), 1) / 1.2, max(*every, 1) * 1.2
    upper.set(title=data.TITLE, xlabel=data.X_TITLE, ylabel=data.STEPS_TITLE)
    upper.xaxis.set_major_locator(MaxNLocator(integer=True))
    upper.set(yscale="log", ylim=(low, high))
    label_log_axis(upper, "y", low, high)
    lower.set(xlabel=data.STEPS_TITLE, ylabel=info.value_title, ylim=info.value_range)
    lower.set(xscale="log", xlim=(low, high))
    label_log_axis(lower, "x", low, high)
    for axes in panels:
        axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2)
    return panels
