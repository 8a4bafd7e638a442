"""The training of each configuration of a search, and its values.

Two kinds of results are understood: a study, whose trials say which steps they made
(:func:`bbo_plugins.optuna.inner_steps`), and what Ray Tune's ``Tuner.fit`` returns, of which only
the reported metrics of each result are looked at; Ray itself is not imported.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from optuna.study import Study, StudyDirection
from optuna.trial import TrialState

from bbo_plugins import errors
from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna.study.continuations import (
    end_of,
    first_trials,
    index_of,
    steps_of,
    steps_taken,
)
from bbo_plugins.optuna.study.trials import TrialRow, beginning_none, check_one_function, never_ran
from bbo_plugins.visualization._data.panels import (
    Axis,
    Item,
    Line,
    Panel,
    Plot,
    limits_without_outliers,
)
from bbo_plugins.visualization._style import BLUE, DASHED, DOT, GRAY, RED, STACK, LineStyle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_TITLE, _STEPS_TITLE = "Inner horizon", "Training steps"
_HORIZON_LABEL = "horizon of new configurations"
_HORIZON = LineStyle(GRAY, DASHED, width=1.5)
_BEYOND = 1.2  # factor from the fewest and the most steps to the ends of their axis
_logger = logging.getLogger(__name__)

# Of each configuration, by its age: the value after each number of steps that it had made by the
# end of one of its trainings (or by one of its reports).
Courses: TypeAlias = dict[int, dict[int, float]]


def plot_horizon(
    results: object,
    *,
    horizon: InnerHorizon | None = None,
    metric: str | None = None,
    mode: Literal["min", "max"] = "min",
    steps: str = "sgd_steps",
) -> Plot:
    """Plot how long each configuration was trained, and which values it reached.

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
        If nothing is known, an empty figure or an array (1,), with a warning in the log.

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
                # A continuation would load a checkpoint first.
                for _ in inner_steps(trial, horizon):
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
        check_one_function(results)
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
        recorded = {index: horizon.steps(index) for index in courses}
    return Plot(_TITLE, _panels(courses, recorded, title, maximize=maximize), STACK)


def _panels(
    courses: Courses, recorded: Mapping[int, int], title: str, *, maximize: bool
) -> tuple[Panel, Panel]:
    final = {index: courses[index][max(courses[index])] for index in sorted(courses)}
    best = (max if maximize else min)(final, key=final.__getitem__)
    others = [index for index in final if index != best]
    above: list[Item] = []
    below: list[Item] = []
    if recorded:
        indices, horizon = zip(*sorted(recorded.items()), strict=True)
        above.append(Line(_HORIZON_LABEL, indices, horizon, _HORIZON))
    for chosen, label, color in (
        ([i for i in others if len(courses[i]) == 1], "configurations", GRAY),
        ([i for i in others if len(courses[i]) > 1], "continued configurations", BLUE),
        ([best], "best configuration", RED),
    ):
        if chosen:
            index, steps, values = _joined(courses, chosen)
            hover = "configuration %{customdata}: %{x}, %{y:.4g}"
            style = LineStyle(color, marker=DOT, width=1.0, size=(6, 6.0))
            above.append(Line(label, index, steps, style, hover=hover, custom=index))
            below.append(Line(label, steps, values, style, hover=hover, custom=index))
    every = [n for course in courses.values() for n in course] + list(recorded.values())
    ends = (max(min(every), 1) / _BEYOND, max(*every, 1) * _BEYOND)
    steps_axis = Axis(_STEPS_TITLE, log=True, limits=ends)
    values = [value for course in courses.values() for value in course.values()]
    limits = limits_without_outliers(values, maximize=maximize)
    return (
        Panel(Axis("Configuration", whole=True), steps_axis, tuple(above)),
        Panel(steps_axis, Axis(title, limits=limits), tuple(below)),
    )


def _of_study(study: Study, horizon: InnerHorizon | None) -> tuple[Courses, dict[int, int]]:
    """Return the courses of a study's configurations, and the steps of new ones by index."""
    trials = study.get_trials(deepcopy=False)
    first_of = first_trials(trials)
    others = beginning_none(trials)
    points: dict[int, dict[int, float]] = {}
    recorded: dict[int, int] = {}
    for trial in trials:
        if trial.state is not TrialState.COMPLETE or never_ran(trial):
            continue
        first = first_of.get(trial.number, trial.number)
        index, recorded_steps = index_of(first, others), steps_of(trial)
        if horizon is not None:
            n_steps = end_of(trial, horizon)
        elif recorded_steps is not None:
            n_steps = recorded_steps.start + steps_taken(trial)
        else:
            continue
        if first == trial.number:
            recorded[index] = n_steps if recorded_steps is None else recorded_steps.stop
        value = TrialRow.read(trial).value
        if math.isfinite(value):
            points.setdefault(index, {})[n_steps] = value
    return points, recorded


def _of_reports(results: object, metric: str | None, steps: str) -> Courses:
    """Return the courses of the results of Ray Tune."""
    frames = _frames_of(results)
    if metric is None:
        raise ValueError(errors.rule_message("metric", "the name of the reported value", metric))
    for name, argument in ((metric, "metric"), (steps, "steps")):
        errors.check_instance(argument, name, str, "the name of a reported metric")
        if frames and not any(name in frame for frame in frames.values()):
            raise ValueError(errors.rule_message(argument, "a reported metric", name))
    points: dict[int, dict[int, float]] = {}
    for index, frame in frames.items():
        if metric not in frame or steps not in frame:
            continue
        for n, value in zip(map(_number, frame[steps]), map(_number, frame[metric]), strict=True):
            if math.isfinite(n) and math.isfinite(value):
                points.setdefault(index, {})[int(n)] = value
    return points


def _number(entry: Any) -> float:
    """Return a reported entry as a number, NaN for what ``float`` does not take, such as None."""
    try:
        return float(entry)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _frames_of(results: Any) -> dict[int, Any]:
    """Return the reports of each result of Ray Tune that has some, a table each, by its index."""
    rule = "an Optuna study or the results of a Ray tuner"
    try:
        found = [*results]  # Ray's ResultGrid has no __iter__, but items
    except TypeError:
        raise TypeError(errors.rule_message("results", rule, results)) from None
    if not all(hasattr(one, "metrics_dataframe") for one in found):
        raise TypeError(errors.rule_message("results", rule, results))
    tables: dict[int, Any] = {}
    for index, one in enumerate(found):
        table, last = one.metrics_dataframe, one.metrics
        if table is not None and len(table) > 0:
            tables[index] = table
        elif last:  # without files of reports Ray knows the last one
            tables[index] = {path: [value] for path, value in _by_path(last)}
    return tables


def _by_path(metrics: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of nested metrics by path, as Ray's files of reports have them."""
    for name, value in metrics.items():
        if isinstance(value, dict):
            yield from _by_path(value, f"{above}{name}/")
        else:
            yield f"{above}{name}", value


def _joined(courses: Courses, chosen: Sequence[int]) -> Iterator[list[Any]]:
    """Yield index, steps and value of all points, NaN after each course."""
    rows: list[tuple[float, ...]] = []
    for index in chosen:
        rows += [(index, *point) for point in sorted(courses[index].items())]
        rows.append((math.nan,) * 3)
    yield from map(list, zip(*rows, strict=True))
