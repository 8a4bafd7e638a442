"""The log marginal likelihood against scikit-learn, a dense formula and numeric gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import (
    NOISE_FLOOR,
    STATED_NOISE_FLOOR,
    Hyperparameters,
    MarginalLikelihood,
    noise_diagonal,
)
from bbo_plugins.methods.uhe_bo.criteria import LeaveOneOut
from tests.gp.random_data import Noise, random_data, random_theta
from tests.oracles import dense
from tests.oracles.differences import numeric_gradient

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.gp.likelihood import BoundCriterion
    from bbo_plugins.space.dimension import FloatArray


@pytest.mark.parametrize("n, d", [(1, 1), (2, 3), (40, 1), (40, 6), (120, 20)])
def test_value_and_gradient_agree_with_scikit_learn(n: int, d: int) -> None:
    """Same value to 1e-8 and gradient to 1e-6.

    Scikit-learn's noise parameter is log σ_n², ours log(σ_n² - floor): the chain rule turns one
    derivative into the other.
    """
    rng = np.random.default_rng(100 * d + n)
    X, y = rng.random((n, d)), rng.standard_normal(n)
    theta = random_theta(rng, d)
    noise = NOISE_FLOOR + math.exp(theta[-1])
    kernel = ConstantKernel(math.exp(theta[d])) * Matern(np.exp(theta[:d]), nu=2.5) + WhiteKernel(
        noise
    )
    # `alpha` is a further noise that we do not have; 1e-300 is as good as none.
    theirs = GaussianProcessRegressor(kernel, alpha=1e-300, optimizer=None).fit(X, y)
    their_value, their_gradient = theirs.log_marginal_likelihood(
        np.log([math.exp(theta[d]), *np.exp(theta[:d]), noise]), eval_gradient=True
    )
    value, gradient = MarginalLikelihood(X, y, FeatureMap((0,) * d))(theta)
    assert value == pytest.approx(their_value, rel=1e-8)
    expected = [
        *their_gradient[1 : d + 1],
        their_gradient[0],
        their_gradient[-1] * math.exp(theta[-1]) / noise,
    ]
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8 * scale)


@given(
    counts=st.lists(st.sampled_from([0, 0, 1, 2, 5]), min_size=1, max_size=5).map(tuple),
    n=st.integers(1, 12),
    noise=st.sampled_from(["fitted", "floor", "partly known", "known"]),
    trend=st.sampled_from([None, 0, 20]),
    seed=st.integers(0, 2**32 - 1),
)
def test_value_and_gradient_agree_with_the_dense_formula(
    counts: tuple[int, ...], n: int, noise: Noise, trend: int | None, seed: int
) -> None:
    """Mixed kinds and every way to state the noise: the dense value and its numeric gradient."""
    rng = np.random.default_rng(seed)
    d = len(counts)
    has_trend, n_cosines = trend is not None, trend or 0
    features = FeatureMap(counts, trend=has_trend, cosines=n_cosines > 0)
    X, y, known = random_data(rng, features, n, noise)
    likelihood = MarginalLikelihood(X, y, features, known_noise=known, fit_noise=noise != "floor")
    has_noise_parameter = noise in {"fitted", "partly known"}
    assert likelihood.n_parameters == d + 1 + 3 * has_trend + int(has_noise_parameter)
    theta = random_theta(rng, d, trend=has_trend)[: likelihood.n_parameters]
    value, gradient = likelihood(theta)
    K = dense.noisy_covariance(X, theta, counts, known, n_cosines)
    # Without noise on the diagonal the matrix is badly conditioned, for both sides.
    rounding = dense.rounding(K)
    assume(rounding < 1e-6)  # beyond that, differences say nothing
    assert value == pytest.approx(dense.log_likelihood(K, y), rel=1e-8 + 10.0 * rounding)
    numeric = numeric_gradient(lambda t: likelihood(t)[0], theta)
    scale = max(1.0, float(np.abs(numeric).max()))
    np.testing.assert_allclose(gradient, numeric, atol=(1e-7 + 1e4 * rounding) * scale)


def test_theta_is_read_as_documented() -> None:
    """Length-scales, signal variance, and noise above its floor; without an entry, at its floor."""
    theta = np.log([0.2, 0.4, 3.0, 0.05])
    full = Hyperparameters.from_theta(theta, 2)
    np.testing.assert_allclose(full.length_scales, [0.2, 0.4])
    assert full.signal_variance == pytest.approx(3.0)
    assert full.noise_variance == pytest.approx(0.05 + NOISE_FLOOR)
    assert full.trend is None
    assert Hyperparameters.from_theta(theta[:3], 2).noise_variance == STATED_NOISE_FLOOR


def test_theta_with_a_trend_is_read_as_documented() -> None:
    """Its three weights follow the signal variance; the noise is last, or at its floor."""
    theta = np.log([0.2, 0.4, 3.0, 0.5, 0.6, 0.7, 0.05])
    for entries, noise in ((7, 0.05 + NOISE_FLOOR), (6, STATED_NOISE_FLOOR)):
        read = Hyperparameters.from_theta(theta[:entries], 2)
        assert read.trend is not None
        parts = (read.trend.linear, read.trend.quadratic, read.trend.separable)
        assert parts == pytest.approx((0.5, 0.6, 0.7))
        assert read.signal_variance == pytest.approx(3.0)
        assert read.noise_variance == pytest.approx(noise, rel=1e-12)


def test_known_noise_takes_the_place_of_the_fitted() -> None:
    """NaN means unknown; a known variance is never below the floor, not even when it is zero."""
    known = np.array([np.nan, 0.5, 0.0, np.nan])
    assert noise_diagonal(4, 0.1, known).tolist() == [0.1, 0.5, STATED_NOISE_FLOOR, 0.1]
    assert noise_diagonal(3, 0.1, None).tolist() == [0.1] * 3


def test_factor_is_that_of_the_last_evaluation_only() -> None:
    """The factor left behind is K's, and none is handed out for a θ that was not the last one."""
    rng = np.random.default_rng(0)
    X, y = rng.random((25, 3)), rng.standard_normal(25)
    likelihood = MarginalLikelihood(X, y, FeatureMap((0, 0, 0)))
    first, second = random_theta(rng, 3), random_theta(rng, 3)
    assert likelihood.factor_at(first) is None
    likelihood(first)
    likelihood(second)
    assert likelihood.factor_at(first) is None
    factor = likelihood.factor_at(second)
    assert factor is not None
    noise = NOISE_FLOOR + math.exp(second[4])
    K = dense.covariance(X, X, np.exp(second[:3]), math.exp(second[3]), (0, 0, 0))
    np.testing.assert_allclose(factor, np.linalg.cholesky(K + noise * np.eye(25)), atol=1e-10)


Make: TypeAlias = "Callable[[FloatArray, FloatArray, FloatArray, FeatureMap, bool], BoundCriterion]"

# Each from points, targets, weights >= 0, the feature map and whether noise is estimated.
MAKERS: dict[str, Make] = {
    "likelihood": lambda X, y, _, features, fit_noise: MarginalLikelihood(
        X, y, features, fit_noise=fit_noise
    ),
    "leave one out": lambda X, y, weights, features, fit_noise: LeaveOneOut(
        X, y, features, weights, fit_noise=fit_noise
    ),
}
every_criterion = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@every_criterion
def test_evaluations_do_not_disturb_one_another(make: Make) -> None:
    """Work arrays are shared between evaluations, results and inputs are not."""
    rng = np.random.default_rng(3)
    X, y, weights = rng.random((20, 3)), rng.standard_normal(20), rng.random(20)
    first, second = (random_theta(rng, 3, trend=True) for _ in range(2))
    inputs = (X, y, weights, first)
    before = [array.copy() for array in inputs]
    criterion = make(X, y, weights, FeatureMap((0, 3, 0), trend=True), True)
    value, gradient = criterion(first)
    kept = gradient.copy()
    criterion(second)
    again, gradient_again = criterion(first)
    assert again == value
    assert np.array_equal(gradient, kept)
    assert np.array_equal(gradient_again, kept)
    for array, original in zip(inputs, before, strict=True):
        assert np.array_equal(array, original)


@every_criterion
@given(
    theta=st.lists(st.floats(-250.0, 250.0), min_size=6, max_size=6),
    trend=st.booleans(),
    fit_noise=st.booleans(),
    twins=st.booleans(),
)
@settings(max_examples=100)
def test_extreme_hyperparameters_give_a_value_or_minus_infinity(
    make: Make, theta: list[float], trend: bool, fit_noise: bool, twins: bool
) -> None:
    """However far a line search goes, there is no exception, no warning and no NaN."""
    rng = np.random.default_rng(11)
    X = np.full((6, 2), 0.25) if twins else rng.random((6, 2))
    y, weights = rng.standard_normal(6), np.array([0.0, 0.5, 1.0, 1.0, 1.5, 2.0])
    criterion = make(X, y, weights, FeatureMap((0, 2), trend=trend), fit_noise)
    value, gradient = criterion(np.array(theta)[: criterion.n_parameters])
    if math.isfinite(value):
        assert np.isfinite(gradient).all()
    else:
        assert value == -math.inf
        assert not gradient.any()
