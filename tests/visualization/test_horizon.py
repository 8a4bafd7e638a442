"""The plot of the inner horizon shows what was trained."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState, create_trial

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna import PromotionCallback, inner_steps
from bbo_plugins.optuna.study.continuations import CONTINUED_FROM, STEPS, STEPS_MADE
from bbo_plugins.optuna.study.trials import mark_never_ran
from bbo_plugins.visualization._data.horizon import plot_horizon
from tests.visualization.parts import labels, part, xy

if TYPE_CHECKING:
    from optuna.study import Study

SPACE: dict[str, optuna.distributions.BaseDistribution] = {
    "x": optuna.distributions.FloatDistribution(0.0, 1.0)
}
SINGLE, CONTINUED, BEST = "configurations", "continued configurations", "best configuration"
HORIZON = "horizon of new configurations"


def _add(study: Study, steps: tuple[int, int], value: float, source: int | None = None) -> None:
    attributes: dict[str, Any] = {STEPS: list(steps)}
    if source is not None:
        attributes[CONTINUED_FROM] = source
    study.add_trial(
        create_trial(params={"x": 0.5}, distributions=SPACE, value=value, user_attrs=attributes)
    )


@functools.cache
def _study(direction: Any = "minimize") -> Study:
    """Four configurations: the first was continued twice, the second once; not to be changed."""
    study = optuna.create_study(direction=direction)
    sign = 1.0 if direction == "minimize" else -1.0
    _add(study, (0, 1), sign * 3.0)
    _add(study, (0, 4), sign * 2.5)
    _add(study, (1, 4), sign * 2.0, source=0)
    _add(study, (0, 9), sign * 4.0)
    _add(study, (4, 9), sign * 1.5, source=2)
    _add(study, (4, 9), sign * 1.0, source=1)
    _add(study, (0, 16), sign * 2.2)
    study.add_trial(create_trial(state=TrialState.FAIL, user_attrs={STEPS: [0, 25]}))
    return study


EXPECTED = {
    SINGLE: [(2, 9, 4.0), None, (3, 16, 2.2), None],
    CONTINUED: [(0, 1, 3.0), (0, 4, 2.0), (0, 9, 1.5), None],
    BEST: [(1, 4, 2.5), (1, 9, 1.0), None],
}


def _expected(label: str, columns: tuple[int, int], sign: float) -> np.ndarray[Any, Any]:
    """Return two of index, steps and value of all points, NaN between configurations."""
    rows = []
    for point in EXPECTED[label]:
        row = (math.nan,) * 3 if point is None else (*point[:2], sign * point[2])
        rows.append([row[column] for column in columns])
    return np.array(rows, dtype=float)


def _courses(line: Any) -> list[np.ndarray[Any, Any]]:
    """Return steps and values of each configuration that a line joins."""
    points = xy(line)
    return [part[~np.isnan(part[:, 0])] for part in np.split(points, _gaps(points))[:-1]]


def _gaps(points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.flatnonzero(np.isnan(points[:, 0])) + 1


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_courses_of_all_configurations(direction: str) -> None:
    """Steps by configuration above, values by steps below, each configuration's points joined."""
    sign = 1.0 if direction == "minimize" else -1.0
    above, below = plot_horizon(_study(direction)).panels
    for label in (SINGLE, CONTINUED, BEST):
        np.testing.assert_array_equal(xy(part(above, label)), _expected(label, (0, 1), sign))
        np.testing.assert_array_equal(xy(part(below, label)), _expected(label, (1, 2), sign))
    np.testing.assert_array_equal(xy(part(above, HORIZON)), [[0, 1], [1, 4], [2, 9], [3, 16]])
    titles = ["Configuration", "Training steps", "Training steps", "Objective value"]
    assert [axis.title for panel in (above, below) for axis in (panel.x, panel.y)] == titles
    assert above.y.log
    assert below.x.log


def test_study_of_a_growing_search_is_read_back() -> None:
    """From start to end with the callback: the horizon is t², and continued trainings increase."""
    horizon = InnerHorizon.growing(constant=1.0, total_steps=400)

    def objective(trial: optuna.Trial) -> float:
        return trial.suggest_float("x", 0.0, 1.0) + 1.0 / inner_steps(trial, horizon).stop

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, callbacks=[PromotionCallback(horizon)])
    above, below = plot_horizon(study).panels
    recorded = xy(part(above, HORIZON))[:-1]
    np.testing.assert_array_equal(recorded[:, 1], (recorded[:, 0] + 1) ** 2)
    courses = _courses(part(below, CONTINUED))
    assert len(courses) >= 2
    for course in (*courses, *_courses(part(below, BEST))):
        assert (np.diff(course[:, 0]) > 0).all()
    complete = [trial for trial in study.trials if trial.state is TrialState.COMPLETE]
    drawn = [c for label in labels(below) for c in _courses(part(below, label))]
    assert sum(map(len, drawn)) == len(complete)
    assert xy(part(below, BEST))[-2, 1] == study.best_value


def test_trials_without_recorded_steps_need_the_horizon() -> None:
    """Where the objective has not recorded its steps, the horizon says what they were."""
    study = optuna.create_study()
    for value in (3.0, 2.0):
        study.add_trial(create_trial(value=value))
    assert plot_horizon(study).panels == ()
    horizon = InnerHorizon(n_outer=5, constant=2.0)
    above, below = plot_horizon(study, horizon=horizon).panels
    np.testing.assert_array_equal(xy(part(below, BEST)), [[10, 2.0], [math.nan] * 2])
    np.testing.assert_array_equal(xy(part(above, HORIZON)), [[0, 10], [1, 10]])


def test_unrecorded_steps_are_those_of_the_trial_number_beside_continuations() -> None:
    """As :class:`PromotionCallback` counts them: ``horizon.steps(trial.number)``."""
    study = optuna.create_study()
    study.add_trial(create_trial(params={"x": 0.5}, distributions=SPACE, value=3.0))
    _add(study, (1, 4), 2.0, source=0)
    study.add_trial(create_trial(params={"x": 0.2}, distributions=SPACE, value=2.5))
    horizon = InnerHorizon.growing(constant=1.0)
    above, _ = plot_horizon(study, horizon=horizon).panels
    np.testing.assert_array_equal(xy(part(above, BEST))[:-1], [[0, 1], [0, 4]])
    np.testing.assert_array_equal(xy(part(above, SINGLE))[:-1], [[1, horizon.steps(2)]])


# --- results of Ray Tune --------------------------------------------------------------------------


@dataclass
class _Result:
    """What is looked at of a result of Ray Tune: columns by name, as of a data frame."""

    metrics_dataframe: dict[str, list[Any]] | None
    metrics: dict[str, Any] | None = None


def _reports() -> list[_Result]:
    return [
        _Result({"loss": [3.0, 2.0, 1.0], "sgd_steps": [1, 4, 9]}),
        _Result(None),
        _Result({"loss": [2.5, math.nan], "sgd_steps": [4, 9]}),
        _Result({}),  # one that failed before its first report
        _Result({}, {"loss": 2.8, "sgd_steps": 16}),  # of a tuner that writes no files of reports
    ]


def test_trials_that_never_ran_are_no_configurations() -> None:
    """The horizon of the next ones is drawn as :func:`inner_steps` has asked it for them."""
    study, horizon = optuna.create_study(), InnerHorizon.growing(constant=1.0)

    def objective(trial: optuna.Trial) -> float:
        if trial.number == 1:
            mark_never_ran(study, trial)
            raise optuna.TrialPruned
        return float(len(inner_steps(trial, horizon)))

    study.optimize(objective, n_trials=4)
    for one in (horizon, None):
        above, _ = plot_horizon(study, horizon=one).panels
        np.testing.assert_array_equal(xy(part(above, HORIZON)), [[0, 1], [1, 4], [2, 9]])


def test_a_training_that_ended_early_has_the_steps_it_made() -> None:
    """As a trial of Ray Tune that was stopped before its goal."""
    study = optuna.create_study()
    _add(study, (0, 10), 1.0)
    study.add_trial(
        create_trial(
            params={"x": 0.5},
            distributions=SPACE,
            value=2.0,
            user_attrs={STEPS: [0, 10], STEPS_MADE: 6},
        )
    )
    above, _ = plot_horizon(study).panels
    np.testing.assert_array_equal(xy(part(above, SINGLE))[0], [1, 6])
    np.testing.assert_array_equal(xy(part(above, HORIZON)), [[0, 10], [1, 10]])


def test_reports_of_ray_are_read_by_their_names() -> None:
    """Each result is a configuration, each report a point; NaN and silent trials are left out."""
    above, below = plot_horizon(_reports(), metric="loss").panels
    np.testing.assert_array_equal(_courses(part(below, BEST))[0], [[1, 3.0], [4, 2.0], [9, 1.0]])
    single = [course.tolist() for course in _courses(part(below, SINGLE))]
    assert single == [[[4, 2.5]], [[16, 2.8]]]
    assert [part(below, SINGLE).custom[i] for i in (0, 2)] == [2, 4]
    assert (labels(above), below.y.title) == ([SINGLE, BEST], "loss")
    largest = plot_horizon(_reports(), metric="loss", mode="max")
    assert part(largest.panels[1], BEST).custom[0] == 4


def test_reports_without_files_are_read_by_path() -> None:
    """The last result is nested where files of reports are not; no number is no point."""
    results = [
        _Result(None, {"valid": {"loss": 0.5}, "sgd_steps": 3}),
        _Result(None, {"valid": {"loss": None}, "sgd_steps": 4}),
        _Result({"valid/loss": [None, "?", 0.25], "sgd_steps": [1, 2, 3]}),
    ]
    _, below = plot_horizon(results, metric="valid/loss").panels
    assert [_courses(part(below, label))[0].tolist() for label in (SINGLE, BEST)] == [
        [[3, 0.5]],
        [[3, 0.25]],
    ]


@pytest.mark.parametrize(
    "results, options, error, message",
    [
        (5, {}, TypeError, "results must be an Optuna study or the results of a Ray tuner"),
        ([1], {"metric": "loss"}, TypeError, "results must be an Optuna study or"),
        (_reports(), {}, ValueError, "metric must be the name of the reported value, but got None"),
        (_reports(), {"metric": "acc"}, ValueError, "metric must be a reported metric, but got"),
        (_reports(), {"metric": "loss", "steps": "epoch"}, ValueError, "steps must be a reported"),
        (_reports(), {"metric": 5}, TypeError, "metric must be the name of a reported metric"),
        (_reports(), {"metric": "loss", "steps": None}, TypeError, "steps must be the name of"),
        (_reports(), {"metric": "loss", "mode": "best"}, ValueError, "mode must be one of 'min'"),
        (_reports(), {"horizon": 3}, TypeError, "horizon must be an InnerHorizon or None"),
        (
            optuna.create_study(directions=["minimize"] * 2),
            {},
            ValueError,
            "study must have one objective, but got 2.",
        ),
    ],
)
def test_impossible_arguments_are_refused(
    results: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """By name."""
    with pytest.raises(error, match=message):
        plot_horizon(results, **options)
