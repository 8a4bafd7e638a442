"""How long each configuration of a search was trained and what came of it, to be drawn.

Two kinds of results are understood: a study, whose trials say which steps they made
(:func:`bbo_plugins.optuna.inner_steps`), and what Ray Tune's ``Tuner.fit`` returns, of which only
the reported metrics of each result are looked at; Ray itself is not imported.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.study import Study, StudyDirection
from optuna.trial import TrialState

from bbo_plugins import errors
from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna.study.continuations import Continuations, steps_of
from bbo_plugins.optuna.study.trials import TrialRow

EMPTY_TITLE = TITLE = "Inner horizon"


X_TITLE = "Configuration"


STEPS_TITLE = "Training steps"


SINGLE_LABEL = "configurations"


CONTINUED_LABEL = "continued configurations"


BEST_LABEL = "best configuration"


HORIZON_LABEL = "horizon of new configurations"


_MARGIN = 0.05


_FENCE = 1.5  # interquartile ranges beyond the quartiles, as in a box plot


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

    @property
    def n_steps(self) -> int:
        """Steps of its longest training."""
        return self.points[-1][0]

    @property
    def value(self) -> float:
        """Its value after its longest training."""
        return self.points[-1][1]


@dataclass(frozen=True)
class HorizonInfo:
    """What the plot shows.

    Attributes:
        value_title: What the values are.
        single: The configurations with one value.
        continued: Those with several, in either case without the best one.
        best: The one with the best value after its longest training.
        horizon: Index of a configuration and number of steps a new one has; possibly none.
        value_range: Ends of the values' axis; outliers on the worse side are left out.
    """

    value_title: str
    single: tuple[Course, ...]
    continued: tuple[Course, ...]
    best: Course
    horizon: tuple[tuple[int, int], ...]
    value_range: tuple[float, float]


def horizon_info(
    results: object, *, horizon: InnerHorizon | None, metric: str | None, mode: str, steps: str
) -> HorizonInfo | None:
    """Read the courses of all configurations.

    Returns:
        None, with a warning in the log, if no steps or values are known.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives, or a metric is not given or not reported.
    """
    if horizon is not None:
        errors.check_instance("horizon", horizon, InnerHorizon, "an InnerHorizon or None")
    errors.check_word("mode", mode, ("min", "max"))
    if isinstance(results, Study):
        if len(results.directions) != 1:
            raise ValueError(f"study must have one objective, but got {len(results.directions)}.")
        maximize = results.direction is StudyDirection.MAXIMIZE
        courses, recorded = _of_study(results, horizon)
        title = "Objective value"
    else:
        maximize, recorded = mode == "max", {}
        courses, title = _of_reports(results, metric, steps), str(metric)
    if not courses:
        _logger.warning("No trial has a value and a number of steps, so there is nothing to plot.")
        return None
    if horizon is not None:
        recorded = {course.index: horizon.steps(course.index) for course in courses}
    best = (max if maximize else min)(courses, key=lambda course: course.value)
    others = [course for course in courses if course is not best]
    return HorizonInfo(
        value_title=title,
        single=tuple(course for course in others if len(course.points) == 1),
        continued=tuple(course for course in others if len(course.points) > 1),
        best=best,
        horizon=tuple(sorted(recorded.items())),
        value_range=_value_range(courses, maximize=maximize),
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


def _value_range(courses: Sequence[Course], *, maximize: bool) -> tuple[float, float]:
    """Return the range of all values but the outliers on the worse side."""
    values = np.array([value for course in courses for _, value in course.points])
    low, high = float(values.min()), float(values.max())
    first, third = np.quantile(values, [0.25, 0.75]).tolist()
    fence = _FENCE * (third - first)
    if maximize:
        low = max(low, first - fence)
    else:
        high = min(high, third + fence)
    margin = _MARGIN * ((high - low) or 1.0)
    return low - margin, high + margin


def joined(courses: Iterable[Course], gap: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return index, steps and value of all points, ``gap`` after each course."""
    indices: list[Any] = []
    steps: list[Any] = []
    values: list[Any] = []
    for course in courses:
        indices += [course.index] * len(course.points) + [gap]
        steps += [n for n, _ in course.points] + [gap]
        values += [value for _, value in course.points] + [gap]
    return indices, steps, values
