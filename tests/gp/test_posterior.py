"""The posterior against scikit-learn, a dense formula, numeric gradients and full refits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from bbo_plugins.gp.kernels import FeatureMap, Trend
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.gp.posterior import GaussianProcess
from tests.oracles import dense
from tests.oracles.differences import numeric_gradients

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

COUNTS = st.lists(st.sampled_from([0, 0, 1, 2, 5]), min_size=1, max_size=5).map(tuple)
TRENDS = [(False, False), (True, False), (True, True)]  # whether there is one, whether of cosines
FEATURES = st.tuples(COUNTS, st.sampled_from(TRENDS)).map(lambda drawn: _features(*drawn))


def _features(counts: tuple[int, ...], trend: tuple[bool, bool]) -> FeatureMap:
    return FeatureMap(counts, trend=trend[0], cosines=trend[1])


def _hyperparameters(
    rng: np.random.Generator, d: int, noise: float | None = None, *, trend: bool = False
) -> Hyperparameters:
    return Hyperparameters(
        trend=Trend(*np.exp(rng.uniform(-4.0, 1.0, 3))) if trend else None,
        length_scales=10.0 ** rng.uniform(-0.7, 0.5, size=d),
        signal_variance=float(rng.uniform(0.3, 3.0)),
        noise_variance=float(rng.uniform(1e-3, 0.1)) if noise is None else noise,
    )


def _dense_covariance(
    X: FloatArray, Z: FloatArray, parameters: Hyperparameters, features: FeatureMap
) -> FloatArray:
    trend = parameters.trend or Trend(0.0, 0.0, 0.0)
    return dense.covariance(
        X,
        Z,
        parameters.length_scales,
        parameters.signal_variance,
        features.n_categories,
        (trend.linear, trend.quadratic, trend.separable),
        20 if features.cosines else 0,
    )


def _partly_known(rng: np.random.Generator, n: int) -> FloatArray:
    known = rng.uniform(1e-3, 0.5, size=n)
    known[rng.random(n) < 0.5] = np.nan
    return known


def _assert_same_posterior(one: GaussianProcess, other: GaussianProcess, X: FloatArray) -> None:
    for ours, theirs in zip(one.predict_joint(X), other.predict_joint(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    for ours, theirs in zip(one.predict(X), other.predict(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)


@pytest.mark.parametrize("n, d", [(1, 1), (30, 1), (60, 6), (150, 20)])
@pytest.mark.parametrize("known_noise", [False, True])
def test_posterior_agrees_with_scikit_learn(n: int, d: int, known_noise: bool) -> None:
    """Mean, variance and covariance to 1e-8, with one noise variance and with one per point."""
    rng = np.random.default_rng(1000 * d + n)
    X, y, new = rng.random((n, d)), rng.standard_normal(n), rng.random((25, d))
    parameters = _hyperparameters(rng, d)
    known = _partly_known(rng, n) if known_noise else None
    ours = GaussianProcess.from_data(X, y, parameters, FeatureMap((0,) * d), known_noise=known)
    noise = np.full(n, parameters.noise_variance)
    if known is not None:
        noise = np.where(np.isnan(known), noise, known)
    kernel = ConstantKernel(parameters.signal_variance) * Matern(parameters.length_scales, nu=2.5)
    theirs = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    their_mean, their_covariance = theirs.predict(new, return_cov=True)
    mean, covariance = ours.predict_joint(new)
    np.testing.assert_allclose(mean, their_mean, atol=1e-8)
    np.testing.assert_allclose(covariance, their_covariance, atol=1e-8)
    mean, variance = ours.predict(new)
    np.testing.assert_allclose(mean, their_mean, atol=1e-8)
    np.testing.assert_allclose(variance, np.diag(their_covariance), atol=1e-8)


@given(features=FEATURES, n=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_posterior_agrees_with_the_dense_formula(features: FeatureMap, n: int, seed: int) -> None:
    """Mixed kinds, repeated points and partly known noise, without a trend and with each."""
    rng = np.random.default_rng(seed)
    d = len(features.n_categories)
    X = rng.random((n, d))
    X[-1] = X[0]
    y, new, known = rng.standard_normal(n), rng.random((4, d)), _partly_known(rng, n)
    parameters = _hyperparameters(rng, d, trend=features.trend)
    noise = np.where(np.isnan(known), parameters.noise_variance, known)
    expected_mean, expected_covariance = dense.posterior(
        _dense_covariance(X, X, parameters, features) + np.diag(noise),
        _dense_covariance(new, X, parameters, features),
        _dense_covariance(new, new, parameters, features),
        y,
    )
    process = GaussianProcess.from_data(X, y, parameters, features, known_noise=known)
    mean, covariance = process.predict_joint(new)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-8)
    np.testing.assert_allclose(covariance, expected_covariance, atol=1e-8)


@given(features=FEATURES, seed=st.integers(0, 2**32 - 1))
def test_all_predictions_agree(features: FeatureMap, seed: int) -> None:
    """Every method that predicts a mean or a variance predicts the same one."""
    rng = np.random.default_rng(seed)
    d = len(features.n_categories)
    parameters = _hyperparameters(rng, d, trend=features.trend)
    process = GaussianProcess.from_data(
        rng.random((8, d)), rng.standard_normal(8), parameters, features
    )
    new = rng.random((6, d))
    mean, variance = process.predict(new)
    joint_mean, covariance = process.predict_joint(new)
    gradient_mean, gradient_variance, _ = process.predict_with_pullback(new)
    np.testing.assert_allclose(process.predict_mean(new), mean, atol=1e-12)
    np.testing.assert_allclose(joint_mean, mean, atol=1e-12)
    np.testing.assert_allclose(gradient_mean, mean, atol=1e-12)
    np.testing.assert_allclose(covariance.diagonal(), variance, atol=1e-12)
    np.testing.assert_allclose(gradient_variance, variance, atol=1e-12)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
    one_by_one = [process.predict(row[None, :]) for row in new]
    np.testing.assert_allclose(np.concatenate([m for m, _ in one_by_one]), mean, atol=1e-12)
    np.testing.assert_allclose(np.concatenate([v for _, v in one_by_one]), variance, atol=1e-12)


@pytest.mark.parametrize("counts", [(0,), (0, 0, 0), (0, 3, 0, 2, 0), (4, 2), (0,) * 20])
@pytest.mark.parametrize("trend", TRENDS)
def test_gradients_agree_with_differences(
    counts: tuple[int, ...], trend: tuple[bool, bool]
) -> None:
    """Gradients by the unit-cube coordinates; those of categorical dimensions are zero."""
    rng = np.random.default_rng(len(counts))
    d, features = len(counts), _features(counts, trend)
    parameters = _hyperparameters(rng, d, trend=features.trend)
    process = GaussianProcess.from_data(
        rng.random((20, d)), rng.standard_normal(20), parameters, features
    )
    new = rng.uniform(0.01, 0.99, size=(10, d))
    categorical = np.array(counts) > 0
    # in the middle of a cell, where a numeric difference stays inside it
    middles = (np.floor(new * np.maximum(counts, 1)) + 0.5) / np.maximum(counts, 1)
    new = np.where(categorical, middles, new)
    _, _, pullback = process.predict_with_pullback(new)
    one, zero = np.ones(len(new)), np.zeros(len(new))
    mean_gradient, variance_gradient = pullback(one, zero), pullback(zero, one)
    factors = rng.standard_normal((2, len(new), 1))
    np.testing.assert_allclose(
        pullback(*factors[..., 0]),
        factors[0] * mean_gradient + factors[1] * variance_gradient,
        atol=1e-9,
    )
    assert not mean_gradient[:, categorical].any()
    assert not variance_gradient[:, categorical].any()
    numeric_mean = numeric_gradients(process.predict_mean, new, 1e-4)
    numeric_variance = numeric_gradients(lambda X: process.predict(X)[1], new, 1e-4)
    np.testing.assert_allclose(mean_gradient, numeric_mean, atol=1e-7)
    np.testing.assert_allclose(variance_gradient, numeric_variance, atol=1e-7)


@given(features=FEATURES, n=st.integers(1, 10), m=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_conditioning_equals_a_full_refit_anywhere(
    features: FeatureMap, n: int, m: int, seed: int
) -> None:
    """Also when new points repeat old ones or one another, with and without a trend."""
    rng = np.random.default_rng(seed)
    d = len(features.n_categories)
    X, y = rng.random((n + m, d)), rng.standard_normal(n + m)
    X[-1] = X[0]
    known = _partly_known(rng, n + m)
    parameters = _hyperparameters(rng, d, trend=features.trend)
    extended = GaussianProcess.from_data(
        X[:n], y[:n], parameters, features, known_noise=known[:n]
    ).condition_on(X[n:], y[n:], known_noise=known[n:])
    refit = GaussianProcess.from_data(X, y, parameters, features, known_noise=known)
    _assert_same_posterior(extended, refit, rng.random((4, d)))


def test_conditioning_leaves_the_parent_alone() -> None:
    """A posterior is immutable: what is built on it does not change it, nor do predictions."""
    rng = np.random.default_rng(6)
    process = GaussianProcess.from_data(
        rng.random((10, 2)), rng.standard_normal(10), _hyperparameters(rng, 2), FeatureMap((0, 2))
    )
    arrays = ("X", "y", "A", "noise", "L", "alpha")
    before = {name: getattr(process, name).copy() for name in arrays}
    new = rng.random((3, 2))
    process.predict_with_pullback(new)[2](np.ones(3), np.ones(3))
    process.predict_joint(new)
    child = process.condition_on(new, rng.standard_normal(3))
    assert len(child.y) == 13
    for name in arrays:
        assert np.array_equal(getattr(process, name), before[name]), name


@pytest.mark.parametrize("trend", TRENDS)
def test_prior_correlation_is_the_dense_one(trend: tuple[bool, bool]) -> None:
    """k(x, z) / √(k(x, x) k(z, z)), row by row; of a point with itself it is 1."""
    rng = np.random.default_rng(12)
    features, parameters = _features((0, 3, 0), trend), _hyperparameters(rng, 3, trend=trend[0])
    X, Z = rng.random((2, 7, 3))
    process = GaussianProcess.from_data(X, rng.standard_normal(7), parameters, features)
    K, of_X, of_Z = (
        _dense_covariance(A, B, parameters, features).diagonal()
        for A, B in ((X, Z), (X, X), (Z, Z))
    )
    np.testing.assert_allclose(process.prior_variance(X), of_X, rtol=1e-12)
    np.testing.assert_allclose(
        process.prior_correlation(X, Z), K / np.sqrt(of_X * of_Z), rtol=1e-12
    )
    np.testing.assert_allclose(process.prior_correlation(X, X), 1.0, rtol=1e-12)
    assert (process.prior_correlation(X, X) <= 1.0).all()


@pytest.mark.parametrize("known_noise", [False, True])
def test_mean_at_the_observations_is_the_prediction_there(known_noise: bool) -> None:
    """The short cut y - diag(σ²) α, before and after conditioning, also with jitter."""
    rng = np.random.default_rng(10)
    X, y = rng.random((25, 3)), rng.standard_normal(25)
    known = _partly_known(rng, 25) if known_noise else None
    parameters, features = _hyperparameters(rng, 3), FeatureMap((0, 2, 0))
    process = GaussianProcess.from_data(X, y, parameters, features, known_noise=known)
    np.testing.assert_allclose(process.mean_at_observations, process.predict_mean(X), atol=1e-10)
    child = process.condition_on(
        X[:4], np.ones(4), known_noise=None if known is None else known[:4]
    )
    np.testing.assert_allclose(child.mean_at_observations, child.predict_mean(child.X), atol=1e-10)


@pytest.mark.parametrize("signal", [1e4, 1e12, 1e16])
def test_singular_covariance_gets_jitter(signal: float) -> None:
    """Twins whose noise drowns in s² are factorized with a jitter that the posterior reports."""
    parameters = Hyperparameters(np.array([1.0, 1.0]), signal, 1e-6)
    X = np.full((10, 2), 0.5)
    y = np.linspace(-1.0, 1.0, 10)
    process = GaussianProcess.from_data(X, y, parameters, FeatureMap((0, 0)))
    mean, variance = process.predict(np.array([[0.5, 0.5], [0.1, 0.9]]))
    assert np.isfinite(mean).all()
    assert (variance > 0.0).all()
    assert mean[0] == pytest.approx(y.mean(), abs=1e-3)
    if signal > 1e12:
        assert process.jitter > 0.0
    child = process.condition_on(X[:2], y[:2])
    assert child.jitter >= process.jitter
    np.testing.assert_allclose(child.noise[:10], 1e-6 + process.jitter)
    np.testing.assert_allclose(child.noise[10:], 1e-6 + child.jitter, rtol=1.0)
    assert (child.noise[10:] >= process.noise[0]).all()
    assert np.isfinite(child.predict_mean(X)).all()


@pytest.mark.parametrize("n", [60, 520])
def test_a_prediction_does_not_depend_on_earlier_ones(n: int) -> None:
    """To the last bit, also where the covariance is close to singular."""
    rng = np.random.default_rng(0)
    X, few, many = rng.random((n, 2)), rng.random((2, 2)), rng.random((100, 2))
    parameters = Hyperparameters(np.full(2, 2.0), 1.0, 1e-9)
    process = GaussianProcess.from_data(X, X.sum(axis=1), parameters, FeatureMap((0, 0)))
    before = process.predict(few)
    process.predict(many)
    process.leave_one_out()
    for earlier, later in zip(before, process.predict(few), strict=True):
        np.testing.assert_array_equal(earlier, later)
