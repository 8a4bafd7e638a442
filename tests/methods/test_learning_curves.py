"""What trainings that were cut off would have come to."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.methods.learning_curves import LearningCurve, predict_finals

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


def _u(values: FloatArray, best: float, unit: float) -> FloatArray:
    """Return values on the scale of the regressions, by its definition."""
    return np.array(
        [-math.log(1.0 + (best - y) / unit) if y <= best else (y - best) / unit for y in values]
    )


def _y(u: FloatArray, best: float, unit: float) -> FloatArray:
    """Return the values at points of that scale."""
    return np.array([best + unit * (1.0 - math.exp(-v) if v < 0.0 else v) for v in u])


def _curve(*values: float, first: int = 1) -> LearningCurve:
    """Return what was reported at consecutive steps."""
    return LearningCurve(
        np.arange(first, first + len(values), dtype=float), np.array(values, dtype=float)
    )


def _at_one_step(reports: FloatArray, finals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return predictions after a report at step 1; NaN in ``finals`` is to be predicted."""
    curves = [
        _curve(report) if math.isnan(final) else _curve(report, final)
        for report, final in zip(reports.tolist(), finals.tolist(), strict=True)
    ]
    return predict_finals(curves, finals)


def _oracle(
    reports: FloatArray, finals: FloatArray, new: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance by the normal equations, with σ² at its fixed point."""
    columns = np.column_stack([np.ones(len(reports)), reports - reports.mean()])
    follows = finals - reports
    variance = follows.var()
    for _ in range(200):
        information = columns.T @ columns + np.diag([0.0, 4.0 * variance])
        weights = np.linalg.solve(information, columns.T @ follows)
        residuals = follows - columns @ weights
        variance = (residuals @ residuals + follows.var()) / (len(reports) - 1)
    rows = np.column_stack([np.ones(len(new)), new - reports.mean()])
    spread = np.einsum("ij,jk,ik->i", rows, np.linalg.inv(information), rows)
    return new + rows @ weights, variance * (1.0 + len(new) * spread)


def test_the_prediction_is_that_of_a_regression() -> None:
    """Against the normal equations, with slopes of the reports from none to twofold."""
    rng = np.random.default_rng(0)
    for slope in (0.0, 0.5, 1.0, 2.0):
        reports, new = rng.normal(size=12), np.array([-3.0, 0.0, 2.0])
        finals = 1.0 + slope * reports + 0.2 * rng.normal(size=12)
        together = np.concatenate([reports, new])
        means, variances = _at_one_step(together, np.append(finals, [math.nan] * 3))
        best = finals.max()
        scale = best, float(np.median((best - finals)[finals < best]))
        expected, spread = _oracle(*(_u(values, *scale) for values in (reports, finals, new)))
        np.testing.assert_array_equal(means[:12], finals)
        assert np.isnan(variances[:12]).all()
        np.testing.assert_allclose(_u(means[12:], *scale), expected, rtol=2e-3, atol=2e-3)
        step = 1e-6
        slopes = (_y(expected + step, *scale) - _y(expected - step, *scale)) / (2.0 * step)
        np.testing.assert_allclose(variances[12:], slopes**2 * spread, rtol=0.02)


def _risen(finals: list[float], by: float) -> list[float]:
    """Return reports from which these final values rise ``by`` on the scale."""
    best = max(finals)
    scale = best, float(np.median([best - final for final in finals if final < best]))
    return [float(y) for y in _y(_u(np.array(finals), *scale) - by, *scale)]


def test_what_follows_for_all_alike_is_known_exactly() -> None:
    """All rise by as much, and so does the one that is predicted."""
    finals = [-6.0, -4.0, -2.0, -1.0, -17.0]
    reports = _risen(finals[:4], by=1.5)
    reports.append(_y(_u(np.array(finals[4:]), -1.0, 3.0) - 1.5, -1.0, 3.0)[0])
    means, variances = _at_one_step(np.array(reports), np.array([*finals[:4], math.nan]))
    assert means[4] == pytest.approx(-17.0, abs=1e-3)
    assert variances[4] < 1e-6


def test_bad_values_far_off_do_not_bend_what_is_said_of_good_ones() -> None:
    """Trainings that nearly diverged are of any size; those near the best fall by a third."""
    rng = np.random.default_rng(4)
    good = -rng.uniform(1.0, 2.0, size=6)
    bad = -(10.0 ** rng.uniform(2.0, 4.0, size=4))
    reports = np.concatenate([1.5 * good, bad * 10.0 ** rng.uniform(-1.0, 1.0, size=4), [-2.25]])
    means, _ = _at_one_step(reports, np.concatenate([good, bad, [math.nan]]))
    assert -2.5 < means[10] < -1.0


def test_the_variance_is_honest() -> None:
    """Nine of ten final values are within 1.64 standard deviations, about."""
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(300):
        reports = rng.normal(size=9)
        finals = reports + 1.0 - 0.4 * reports + 0.3 * rng.normal(size=9)
        known = finals.copy()
        known[8] = math.nan
        means, variances = _at_one_step(reports, known)
        inside.append(abs(means[8] - finals[8]) < 1.64 * math.sqrt(variances[8]))
    assert 0.83 < np.mean(inside) < 0.97


def test_a_late_report_says_more_than_an_early_one() -> None:
    """What follows the second report varies less, and its trial has the smaller variance."""
    rng = np.random.default_rng(2)
    curves, finals = [], []
    for _ in range(10):
        final = rng.normal()
        curves.append(_curve(final - 3.0 + rng.normal(), final - 1.0 + 0.1 * rng.normal(), final))
        finals.append(final)
    curves += [_curve(-2.0), _curve(-2.0, 0.0)]
    means, variances = predict_finals(curves, np.array([*finals, math.nan, math.nan]))
    assert variances[11] < 0.2 * variances[10]
    assert means[11] == pytest.approx(1.0, abs=0.3)


def test_what_many_predictions_share_does_not_average_out() -> None:
    """The mean of many trials that were cut off is as uncertain as the regression itself."""
    rng = np.random.default_rng(3)
    reports = rng.normal(size=10)
    finals = reports + 1.0 + 0.3 * rng.normal(size=10)
    sds = []
    for n in (1, 10, 1000):
        known = np.append(finals, np.full(n, math.nan))
        _, variances = _at_one_step(np.append(reports, np.full(n, -2.0)), known)
        sds.append(math.sqrt(variances[10:].sum()) / n)
    assert sds[0] > 1.5 * sds[1]
    assert sds[1] < 1.5 * sds[2]


def test_trials_that_were_cut_off_later_teach_about_those_cut_off_earlier() -> None:
    """All that ended rose by 5 after step 1; those that a pruner stopped at step 2, not."""
    ended = [_curve(x, x + 4.0, x + 5.0) for x in (0.0, 0.1, 0.2, 0.3, 0.4)]
    stopped = [_curve(x, x - 0.1) for x in (-2.0, -2.1, -2.2, -2.3, -2.4)]
    finals = np.array([curve.values[-1] for curve in ended] + [math.nan] * 6)
    means, _ = predict_finals([*ended, *stopped, _curve(-2.2)], finals)
    alone, _ = predict_finals([*ended, _curve(-2.2)], finals[[0, 1, 2, 3, 4, 10]])
    assert means[10] < alone[5] - 0.2


def test_a_report_counts_until_the_next_one() -> None:
    """Trials that ended reported at steps 1, 4 and 9 only; the others stopped in between."""
    finals = [1.0, 2.0, 3.0, 4.0]
    early, late = _risen(finals, by=2.0), _risen(finals, by=0.5)
    curves = [
        LearningCurve(np.array([1.0, 4.0, 9.0]), np.array(values))
        for values in zip(early, late, finals, strict=True)
    ]
    curves += [_curve(early[1], first=3), _curve(late[1], first=6)]
    means, _ = predict_finals(curves, np.array([*finals, math.nan, math.nan]))
    np.testing.assert_allclose(means[4:], [2.0, 2.0], atol=1e-3)


def test_nothing_is_predicted_from_too_little() -> None:
    """Neither from two final values, nor for a trial that stopped before all of their reports."""
    curves = [_curve(1.0), _curve(2.0), _curve(2.0)]
    means, variances = predict_finals(curves, np.array([2.0, 3.0, math.nan]))
    assert math.isnan(means[2])
    assert math.isnan(variances[2])
    late = [_curve(value, first=5) for value in (1.0, 2.0, 3.0, 4.0)]
    means, _ = predict_finals([*late, _curve(1.0, first=2)], np.array([2, 3, 4, 5, math.nan]))
    assert math.isnan(means[4])
    none = LearningCurve(np.empty(0), np.empty(0))
    means, _ = predict_finals([*late, none], np.array([2, 3, 4, 5, math.nan]))
    assert math.isnan(means[4])
    means, variances = predict_finals([], np.empty(0))
    assert len(means) == len(variances) == 0


def test_reports_of_another_quantity_predict_nothing() -> None:
    """A percentage that is reported, or a logarithm, and a share that is returned."""
    finals = np.array([0.6, 0.7, 0.8, 0.85, 0.9, 0.92])
    for reports in (100.0 * finals, np.log(finals) - 1.0, 5000.0 * finals):
        curves = [_curve(0.9 * y, y) for y in reports.tolist()]
        curves.append(_curve(float(reports[2])))
        means, variances = predict_finals(curves, np.append(finals, math.nan))
        assert math.isnan(means[6])
        assert np.isnan(variances).all()


def test_very_many_steps_are_thinned() -> None:
    """Each trial is predicted, by a report that is at most a little older than its last one."""
    rng, steps = np.random.default_rng(6), np.arange(1.0, 401.0)
    finals = rng.normal(size=200)
    whole = [LearningCurve(steps, final - 1.0 / steps + 1.0 / 400.0) for final in finals.tolist()]
    cut = [LearningCurve(one.steps[:n], one.values[:n]) for n, one in enumerate(whole, start=1)]
    means, variances = predict_finals(
        [*whole, *cut], np.concatenate([finals, np.full(200, math.nan)])
    )
    assert not np.isnan(means).any()
    np.testing.assert_allclose(means[250:], finals[50:], atol=0.05)
    assert np.median(variances[390:]) < np.median(variances[200:210])


def test_values_beyond_the_squares_of_floats_are_left_alone() -> None:
    """Whatever is computed of them overflows: without a warning."""
    for large in (1e200, 1.7e308):
        finals = np.array([-large, 0.9 * large, 1.0, 2.0, math.nan])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            curves = [_curve(-0.8 * large, y) for y in (large, -large, large, 0.0)]
            means, _ = predict_finals([*curves, _curve(0.5 * large)], finals)
            _at_one_step(np.array([large, -large, 0.5 * large, 0.0, 0.7 * large]), finals)
        assert math.isnan(means[4])  # reports and values are far apart


@given(
    scale=st.floats(1e-6, 1e6),
    shift=st.floats(-10.0, 10.0),
    seed=st.integers(0, 1000),
    is_constant=st.booleans(),
)
def test_predictions_follow_the_units(
    *, scale: float, shift: float, seed: int, is_constant: bool
) -> None:
    """Values in other units, and from another zero, have the predictions in these."""
    rng = np.random.default_rng(seed)
    reports = np.full(9, 0.5) if is_constant else rng.normal(size=9)
    finals = reports + rng.normal(size=9)
    finals[6:] = math.nan
    means, variances = _at_one_step(reports, finals)
    other, spread = _at_one_step(scale * (reports + shift), scale * (finals + shift))
    tolerance = 1e-6 * scale * (1.0 + abs(shift))
    np.testing.assert_allclose(other, scale * (means + shift), atol=tolerance)
    np.testing.assert_allclose(spread, scale**2 * variances, rtol=1e-5)
