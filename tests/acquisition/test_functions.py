"""Acquisition functions against arbitrary precision, SciPy and Monte Carlo."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from bbo_plugins.acquisition import functions
from tests.oracles import normal
from tests.oracles.differences import numeric_gradients
from tests.oracles.problems import random_process, unit_box

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.space.dimension import FloatArray

# Both sides of the two switches at -1 and -25, and tails as far as the issue asks.
Z = [
    -1e4, -3e3, -1e3, -300.0, -100.0, -50.0, -38.0, -30.0, -26.0, -25.0 - 1e-9, -25.0, -25.0 + 1e-9,
    -24.0, -10.0, -5.0, -2.0, -1.0 - 1e-9, -1.0, -1.0 + 1e-9, -0.5, -1e-8, 0.0, 1e-8, 0.5, 1.0, 3.0,
    10.0, 40.0, 1e4,
]  # fmt: skip
MEANS = st.floats(-20.0, 20.0)
VARIANCES = st.floats(1e-8, 1e4)


def _arrays(mean: float, variance: float) -> tuple[FloatArray, FloatArray]:
    return np.array([mean]), np.array([variance])


@given(z=st.floats(-1e4, 1e4))
def test_log_h_agrees_with_arbitrary_precision_anywhere(z: float) -> None:
    """As above, wherever hypothesis looks."""
    value, slope = functions.log_h(np.array([z]))
    expected, expected_slope = normal.log_h(z)
    assert value[0] == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert slope[0] == pytest.approx(expected_slope, rel=1e-10)


@given(mean=MEANS, variance=VARIANCES, incumbent=MEANS)
def test_log_expected_improvement_agrees_with_arbitrary_precision(
    mean: float, variance: float, incumbent: float
) -> None:
    """1e-10 relative, whether or not EI itself could be represented.

    (z has a rounding error of its own, which the tail multiplies by |z| in log EI.)
    """
    ours = functions.log_expected_improvement(*_arrays(mean, variance), incumbent).value[0]
    expected = normal.log_expected_improvement(mean, variance, incumbent)
    assert ours == pytest.approx(expected, rel=1e-10, abs=1e-10)


@given(mean=MEANS, variance=VARIANCES, incumbent=MEANS)
def test_expected_improvement_agrees_with_arbitrary_precision(
    mean: float, variance: float, incumbent: float
) -> None:
    """1e-9 relative down to where it underflows, then zero."""
    ours = functions.expected_improvement(*_arrays(mean, variance), incumbent).value[0]
    expected = normal.expected_improvement(mean, variance, incumbent)
    assert ours >= 0.0
    assert ours == pytest.approx(expected, rel=1e-9, abs=1e-290)


@given(mean=MEANS, variance=VARIANCES, beta=st.floats(0.0, 10.0))
def test_upper_confidence_bound_is_mean_plus_beta_sigma(
    mean: float, variance: float, beta: float
) -> None:
    """β multiplies the standard deviation; it is not under a root."""
    ours = functions.upper_confidence_bound(*_arrays(mean, variance), beta)
    assert ours.value[0] == pytest.approx(mean + beta * math.sqrt(variance), rel=1e-14, abs=1e-14)
    assert ours.by_mean[0] == 1.0


@pytest.mark.parametrize("z", [*Z[:23], 5.0, 37.0, 100.0])
def test_log_probability_of_feasibility_agrees_with_arbitrary_precision(z: float) -> None:
    """Log Φ and its derivative φ/Φ to 1e-8 relative in the tail and to rounding elsewhere."""
    sigma, threshold = 0.5, 2.0
    ours = functions.log_probability_of_feasibility(
        *_arrays(threshold + z * sigma, sigma**2), threshold
    )
    expected, slope = normal.log_cdf(z)
    assert ours.value[0] == pytest.approx(expected, rel=1e-10)
    assert ours.value[0] == pytest.approx(float(special.log_ndtr(z)), rel=1e-12)
    assert ours.by_mean[0] == pytest.approx(slope / sigma, rel=1e-7)
    assert ours.by_variance[0] == pytest.approx(-0.5 * slope * z / sigma**2, rel=1e-7)


@pytest.mark.parametrize(
    "value", [-700.0, -100.0, -31.0, -30.0 - 1e-9, -30.0 + 1e-9, -29.0, -20.0, -12.0, -1.0]
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_log_softplus_agrees_with_arbitrary_precision(value: float, sign: float) -> None:
    """Log log(1 + exp v) and its derivative on both sides of the switch, also for large v."""
    ours, slope = functions.log_softplus(np.array([sign * value]))
    expected, expected_slope = normal.log_softplus(sign * value)
    assert ours[0] == pytest.approx(expected, rel=1e-12, abs=1e-13)
    assert slope[0] == pytest.approx(expected_slope, rel=1e-12)


ACQUISITIONS: dict[str, Callable[[FloatArray, FloatArray], functions.Derivatives]] = {
    "log EI": lambda m, v: functions.log_expected_improvement(m, v, 0.7),
    "EI": lambda m, v: functions.expected_improvement(m, v, 0.7),
    "UCB": lambda m, v: functions.upper_confidence_bound(m, v, 1.96),
    "log PoF": lambda m, v: functions.log_probability_of_feasibility(m, v, 0.7),
}


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_partial_derivatives_agree_with_differences(name: str) -> None:
    """By the mean and by the variance, over all regimes of z."""
    function = ACQUISITIONS[name]
    sigma = np.array([0.3, 1.0, 2.0] * 9)
    z = np.repeat([-60.0, -26.0, -20.0, -5.0, -1.5, -0.5, 0.0, 1.0, 6.0], 3)
    mean, variance = 0.7 + z * sigma, sigma**2
    ours = function(mean, variance)
    step = 1e-5 * sigma
    by_mean = (function(mean + step, variance).value - function(mean - step, variance).value) / (
        2.0 * step
    )
    step = 1e-5 * variance
    by_variance = (
        function(mean, variance + step).value - function(mean, variance - step).value
    ) / (2.0 * step)
    np.testing.assert_allclose(ours.by_mean, by_mean, rtol=2e-5, atol=1e-10)
    np.testing.assert_allclose(ours.by_variance, by_variance, rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_pullback_gives_the_gradient_by_the_coordinates(name: str) -> None:
    """Through a posterior: against a numeric gradient of the whole."""
    function = ACQUISITIONS[name]
    process = random_process(unit_box(3), 15, seed=1)
    X = np.random.default_rng(2).uniform(0.05, 0.95, (8, 3))
    mean, variance, pullback = process.predict_with_pullback(X)
    found = function(mean, variance)
    ours = pullback(found.by_mean, found.by_variance)
    numeric = numeric_gradients(lambda P: function(*process.predict(P)).value, X, 1e-4)
    assert ours.shape == X.shape
    np.testing.assert_allclose(ours, numeric, rtol=1e-5, atol=1e-7)
