"""The training of each configuration of a search, and its values.

Two kinds of results are understood: a study, whose trials say which steps they made
(:func:`bbo_plugins.optuna.inner_steps`), and what Ray Tune's ``Tuner.fit`` returns, of which only
the reported metrics of each result are looked at; Ray itself is not imported.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from optuna.study import Study, StudyDirection
from optuna.trial import TrialState

from bbo_plugins import errors
from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna.study.continuations import Continuations, steps_of
from bbo_plugins.optuna.study.trials import TrialRow
from bbo_plugins.visualization._data.objective import check_single_objective
from bbo_plugins.visualization._data.panels import (
    Axis,
    Item,
    Line,
    Panel,
    Plot,
    limits_without_outliers,
)
from bbo_plugins.visualization._style import BLUE, DASHED, DOT, GRAY, RED, STACK, LineStyle

_TITLE, _STEPS_TITLE = "Inner horizon", "Training steps"
_HORIZON_LABEL = "horizon of new configurations"
_HORIZON = LineStyle(GRAY, DASHED, width=1.5)
_BEYOND = 1.2  # factor from the fewest and the most steps to the ends of their axis
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Course:
    """One configuration.

    Attributes:
        index: How many configurations are older.
        points: Number of steps and value after them, at the end of each of its trainings (or at
            each of its reports), the steps increasing.
    """

    index: int
    points: tuple[tuple[int, float], ...]


def plot_horizon(
    results: object,
    *,
    horizon: InnerHorizon | None = None,
    metric: str | None = None,
    mode: Literal["min", "max"] = "min",
    steps: str = "sgd_steps",
) -> Plot:
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
        Plotly's figure; of matplotlib, an array (2,) with the axes of the steps and of the values.
        Empty, with a warning in the log, if nothing is known.

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
    return _plot(results, horizon, metric, mode, steps)


def _plot(
    results: object, horizon: InnerHorizon | None, metric: str | None, mode: str, steps: str
) -> Plot:
    if horizon is not None:
        errors.check_instance("horizon", horizon, InnerHorizon, "an InnerHorizon or None")
    errors.check_word("mode", mode, ("min", "max"))
    if isinstance(results, Study):
        check_single_objective(results)
        maximize = results.direction is StudyDirection.MAXIMIZE
        courses, recorded = _of_study(results, horizon)
        title = "Objective value"
    else:
        maximize, recorded = mode == "max", {}
        courses, title = _of_reports(results, metric, steps), str(metric)
    if not courses:
        _logger.warning("No trial has a value and a number of steps, so there is nothing to plot.")
        return Plot(_TITLE)
    if horizon is not None:
        recorded = {course.index: horizon.steps(course.index) for course in courses}
    return Plot(_TITLE, _panels(courses, recorded, title, maximize=maximize), STACK)


def _panels(
    courses: Sequence[Course], recorded: Mapping[int, int], title: str, *, maximize: bool
) -> tuple[Panel, Panel]:
    best = (max if maximize else min)(courses, key=lambda course: course.points[-1][1])
    others = [course for course in courses if course is not best]
    above: list[Item] = []
    below: list[Item] = []
    if recorded:
        indices, horizon = zip(*sorted(recorded.items()), strict=True)
        above.append(Line(_HORIZON_LABEL, indices, horizon, _HORIZON))
    for chosen, label, color in (
        ([course for course in others if len(course.points) == 1], "configurations", GRAY),
        ([course for course in others if len(course.points) > 1], "continued configurations", BLUE),
        ([best], "best configuration", RED),
    ):
        if chosen:
            index, steps, values = _joined(chosen)
            hover = "configuration %{customdata}: %{x}, %{y:.4g}"
            style = LineStyle(color, marker=DOT, width=1.0, size=(6, 6.0))
            above.append(Line(label, index, steps, style, hover=hover, custom=index))
            below.append(Line(label, steps, values, style, hover=hover, custom=index))
    every = [n for course in courses for n, _ in course.points] + list(recorded.values())
    ends = (max(min(every), 1) / _BEYOND, max(*every, 1) * _BEYOND)
    steps_axis = Axis(_STEPS_TITLE, log=True, limits=ends)
    limits = limits_without_outliers(
        [value for course in courses for _, value in course.points], maximize=maximize
    )
    return (
        Panel(Axis("Configuration", whole=True), steps_axis, tuple(above)),
        Panel(steps_axis, Axis(title, limits=limits), tuple(below)),
    )


def _of_study(study: Study, horizon: InnerHorizon | None) -> tuple[list[Course], dict[int, int]]:
    """Return the courses of a study's configurations, and the steps of new ones by index."""
    trials = study.get_trials(deepcopy=False)
    continuations = Continuations.of(trials)
    points: dict[int, dict[int, float]] = {}
    recorded: dict[int, int] = {}
    for trial in trials:
        first = continuations.first.get(trial.number, trial.number)
        index, made = continuations.index(first), steps_of(trial)
        n_steps = None if made is None else made.stop
        if n_steps is None and horizon is not None:
            n_steps = horizon.steps(index)
        if n_steps is None or trial.state is not TrialState.COMPLETE:
            continue
        if first == trial.number:
            recorded[index] = n_steps
        value = TrialRow.read(trial).value
        if math.isfinite(value):
            points.setdefault(index, {})[n_steps] = value
    return _courses(points), recorded


def _of_reports(results: object, metric: str | None, steps: str) -> list[Course]:
    """Return the courses of the results of Ray Tune."""
    rule = "an Optuna study or the results of a Ray tuner"
    if not isinstance(results, Iterable) or isinstance(results, str | bytes):
        raise TypeError(errors.rule_message("results", rule, results))
    if metric is None:
        raise ValueError(errors.rule_message("metric", "the name of the reported value", metric))
    points: dict[int, dict[int, float]] = {}
    for index, result in enumerate(results):
        if not hasattr(result, "metrics_dataframe"):
            raise TypeError(errors.rule_message("results", rule, results))
        frame = result.metrics_dataframe
        if frame is None:  # a trial that never reported
            continue
        for name, argument in ((metric, "metric"), (steps, "steps")):
            if name not in frame:
                raise ValueError(errors.rule_message(argument, "a reported metric", name))
        for n, value in zip(frame[steps], frame[metric], strict=True):
            if math.isfinite(n) and math.isfinite(value):
                points.setdefault(index, {})[int(n)] = float(value)
    return _courses(points)


def _courses(points: dict[int, dict[int, float]]) -> list[Course]:
    return [Course(index, tuple(sorted(row.items()))) for index, row in sorted(points.items())]


def _joined(courses: Iterable[Course]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return index, steps and value of all points, NaN after each course."""
    rows = [row for c in courses for row in (*((c.index, *p) for p in c.points), (math.nan,) * 3)]
    index, steps, values = zip(*rows, strict=True)
    return list(index), list(steps), list(values)
