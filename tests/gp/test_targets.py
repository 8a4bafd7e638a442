"""The output transform: its formula, and that it keeps order and units on any finite targets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from bbo_plugins.gp.targets import BoxCoxTransform, OutputTransform
from tests.oracles.differences import numeric_gradient

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


FINITE = st.floats(-1e250, 1e250)
TARGETS = st.lists(FINITE, min_size=1, max_size=15).map(np.array)
# Values an eighth apart: sums with moderate numbers are exact enough to compare transforms.
EIGHTHS = st.lists(st.integers(-800, 800), min_size=1, max_size=15).map(lambda v: np.array(v) / 8.0)


def _reference(y: FloatArray) -> FloatArray:
    """Return the transform by the formula of the module, for targets of moderate size."""
    spread = 1.4826 * float(stats.median_abs_deviation(y))
    u = (y - np.median(y)) / spread
    v = np.array([value if value >= -1.0 else -1.0 - math.log(-value) for value in u])
    standardized: FloatArray = stats.zscore(v)
    return standardized


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tail", [0.0, 3.0])
def test_forward_follows_its_formula(seed: int, tail: float) -> None:
    """Median, 1.4826 · MAD, logarithm below -1, z-score: written down with scipy.stats."""
    rng = np.random.default_rng(seed)
    y = 5.0 + 2.0 * rng.standard_normal(31) - np.exp(tail * rng.standard_normal(31))
    np.testing.assert_allclose(OutputTransform.fit(y).forward(y), _reference(y), atol=1e-10)


@given(y=TARGETS)
def test_order_is_kept_on_any_finite_targets(y: FloatArray) -> None:
    """No two targets change their order; the best one stays the best; everything is finite."""
    transform = OutputTransform.fit(y)
    z = transform.forward(y)
    assert np.isfinite(z).all()
    assert (np.diff(z[np.argsort(y, kind="stable")]) >= 0.0).all()
    assert z[np.argmax(y)] == z.max()


@given(y=TARGETS)
def test_fitted_targets_are_standardized(y: FloatArray) -> None:
    """Mean 0 and variance 1, or all 0 where the targets are constant."""
    z = OutputTransform.fit(y).forward(y)
    if np.ptp(y) == 0.0:
        assert not z.any()
    else:
        assert abs(float(z.mean())) < 1e-6
        assert float(z.std()) == pytest.approx(1.0, abs=1e-6)


@given(y=EIGHTHS, a=st.sampled_from([1e-100, 1e-9, 0.25, 3.0, 1e9, 1e240]), b=st.integers(-50, 50))
def test_units_of_the_targets_do_not_matter(y: FloatArray, a: float, b: int) -> None:
    """Targets a·y + b, a > 0, are transformed to the same standardized values."""
    z = OutputTransform.fit(y).forward(y)
    moved = a * (y + b)
    np.testing.assert_allclose(OutputTransform.fit(moved).forward(moved), z, atol=1e-9)


@given(y=EIGHTHS)
def test_derivative_agrees_with_differences(y: FloatArray) -> None:
    """On both sides of the switch, wherever the points of the difference are on one side."""
    assume(np.ptp(y) > 0.0)
    transform = OutputTransform.fit(y)
    step = 1e-5 * transform.scale
    switch = transform.median - transform.scale
    x = np.concatenate([y, np.linspace(y.min(), y.max(), 7)])
    x = x[np.abs(x - switch) > 2.0 * step]
    numeric = (transform.forward(x + step) - transform.forward(x - step)) / (2.0 * step)
    np.testing.assert_allclose(transform.derivative(x), numeric, rtol=1e-4)


@given(y=EIGHTHS, a=st.sampled_from([1e-100, 1e-9, 1.0, 1e9, 1e240]))
def test_inverse_returns_to_the_targets(y: FloatArray, a: float) -> None:
    """On both branches and at any scale, to rounding relative to the range of the targets."""
    transform = OutputTransform.fit(a * y)
    x = a * np.concatenate([y, np.linspace(y.min() - 50.0, y.max() + 50.0, 9)])
    back = transform.inverse(transform.forward(x))
    np.testing.assert_allclose(back / a, x / a, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("diverged", [-1e3, -1e13, -1e308])
def test_one_diverged_value_does_not_flatten_the_others(diverged: float) -> None:
    """The purpose: with one diverged target the remaining ones still cover a good part of z."""
    y = np.append(np.linspace(0.0, 1.0, 20), diverged)
    z = OutputTransform.fit(y).forward(y)
    assert np.ptp(z[:20]) > 0.01
    assert (np.diff(z[:20]) > 0.0).all()


def test_a_center_below_the_median_keeps_what_is_around_it_linear() -> None:
    """Feasible values among the worst are not bent, unlike without a center."""
    y = np.linspace(0.0, 10.0, 41)
    moved = OutputTransform.fit(y, center=1.0)
    slopes = moved.derivative(y)
    np.testing.assert_allclose(slopes, slopes[-1], rtol=1e-12)
    assert OutputTransform.fit(y).derivative(y)[0] < 0.9 * OutputTransform.fit(y).derivative(y)[-1]


@given(y=EIGHTHS, a=st.sampled_from([1e-100, 1e-9, 1.0, 1e9, 1e240]))
def test_slacks_keep_their_order_and_their_border(y: FloatArray, a: float) -> None:
    """Increasing, odd around 0, invertible, standardized, and the same in other units."""
    assume(bool(y.any()))
    transform = OutputTransform.fit_slack(a * y)
    x = np.concatenate([y, [0.0], np.linspace(-200.0, 200.0, 9)])
    z = transform.forward(a * x)
    assert (np.diff(z[np.argsort(x)]) >= 0.0).all()
    border = transform.forward(np.zeros(1))
    np.testing.assert_allclose(transform.forward(-a * x) - border, border - z, atol=1e-9)
    np.testing.assert_allclose(transform.inverse(z) / a, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(z, OutputTransform.fit_slack(y).forward(x), atol=1e-9)
    assert abs(float(transform.forward(a * y).mean())) < 1e-6


def test_most_slacks_may_be_zero() -> None:
    """As of a constraint that is 0 wherever it is met: the others say what is large."""
    y = np.array([0.0] * 19 + [-3.0])
    assert OutputTransform.fit_slack(y).scale == 3.0


POWERS = (1.0, 0.5, 0.0)


@pytest.mark.parametrize("power", POWERS)
def test_transformed_targets_are_the_documented_formula(power: float) -> None:
    """Standardized powers of the distance from the best target over the median's distance."""
    y = np.array([3.0, -1.0, 2.0, -40.0, 0.5])
    u = (3.0 - y) / 2.5
    v = -np.log1p(u) if power == 0.0 else -((1.0 + u) ** power - 1.0) / power
    z = BoxCoxTransform.fit(y, power).forward(y)
    np.testing.assert_allclose(z, (v - v.mean()) / v.std(), rtol=1e-12)


@pytest.mark.parametrize("power", POWERS)
@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=12),
    st.floats(1e-3, 1e3) | st.just(1e240),
    st.floats(-1e3, 1e3),
)
def test_order_is_kept_and_units_do_not_matter(
    power: float, values: list[int], scale: float, shift: float
) -> None:
    """Finite, increasing, and the same after a change of the objective's units."""
    y = np.array(values, dtype=np.float64)
    z = BoxCoxTransform.fit(y, power).forward(y)
    assert np.isfinite(z).all()
    assert (np.diff(z[np.argsort(y)]) >= 0.0).all()
    moved = scale * y + shift
    if len(set(values)) > 1:
        other = BoxCoxTransform.fit(moved, power).forward(moved)
        np.testing.assert_allclose(other, z, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("power", POWERS)
def test_inverse(power: float) -> None:
    """It undoes the transform above the best target and far below all; overflow stays finite."""
    y = np.array([3.0, -1.0, 2.0, -40.0, 0.5])
    transform = BoxCoxTransform.fit(y, power)
    more = np.append(y, [5.0, 3.0 + 1e-9, -1e4])
    np.testing.assert_allclose(transform.inverse(transform.forward(more)), more, rtol=1e-9)
    near = transform.inverse(transform.forward(np.array([3.0])) - 1e-9 / transform.std)
    np.testing.assert_allclose(3.0 - near, 1e-9 * transform.scale, rtol=1e-5)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(transform.inverse(np.array([-1e300, 1e300]))).all()


@pytest.mark.parametrize("power", POWERS)
def test_derivative_and_jacobian(power: float) -> None:
    """The derivative agrees with a numeric one; the Jacobian is its logarithm's sum."""
    y = np.array([3.0, -1.0, 2.0, -40.0, 0.5])
    transform = BoxCoxTransform.fit(y, power)
    inside = np.array([2.9, 0.0, -37.0])
    numeric = [
        numeric_gradient(lambda v: float(transform.forward(v)[0]), inside[i : i + 1])[0]
        for i in range(3)
    ]
    np.testing.assert_allclose(transform.derivative(inside), numeric, rtol=1e-8)
    linear = BoxCoxTransform.fit(y, 1.0)
    difference = np.log(transform.derivative(y) / linear.derivative(y)).sum()
    assert transform.log_jacobian(y) - linear.log_jacobian(y) == pytest.approx(difference)


@pytest.mark.parametrize("power", POWERS)
def test_a_feasible_best_is_where_the_bend_begins(power: float) -> None:
    """Distances count from it, and what is above, out of reach, is linear."""
    y = np.array([30.0, 3.0, -1.0, 2.0, -40.0, 0.5])
    transform = BoxCoxTransform.fit(y, power, best=3.0)
    slopes = transform.derivative(np.array([3.0, 10.0, 30.0]))
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-12)
    assert power == 1.0 or transform.derivative(y)[-2] < 0.5 * slopes[0]
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-9)
