"""The log marginal likelihood against scikit-learn, a dense formula and numeric gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from bbo_plugins.gp.kernels import FeatureMap, FloatArray
from bbo_plugins.gp.likelihood import (
    NOISE_FLOOR,
    Hyperparameters,
    MarginalLikelihood,
    noise_diagonal,
)
from bbo_plugins.gp.regression import GaussianProcess
from tests.oracles import dense
from tests.oracles.differences import numeric_gradient


def _theta(rng: np.random.Generator, d: int) -> FloatArray:
    """Return random log length-scales, log signal variance and log excess noise, (d + 2,)."""
    scales = rng.uniform(math.log(0.1), math.log(3.0), size=d)
    return np.concatenate([scales, [rng.uniform(-1.0, 2.0)], [rng.uniform(-6.0, 0.0)]])


def _dense_value(
    X: FloatArray,
    y: FloatArray,
    theta: FloatArray,
    n_categories: tuple[int, ...],
    known: FloatArray | None,
) -> float:
    d = X.shape[1]
    excess = math.exp(theta[d + 1]) if len(theta) == d + 2 else 0.0
    noise = np.full(len(y), NOISE_FLOOR + excess)
    if known is not None:
        noise = np.where(np.isnan(known), noise, np.maximum(np.nan_to_num(known), NOISE_FLOOR))
    K = dense.covariance(X, X, np.exp(theta[:d]), math.exp(theta[d]), n_categories)
    return dense.log_likelihood(K + np.diag(noise), y)


@pytest.mark.parametrize("n, d", [(1, 1), (2, 3), (40, 1), (40, 6), (120, 20)])
def test_value_and_gradient_agree_with_scikit_learn(n: int, d: int) -> None:
    """Same value to 1e-8 and gradient to 1e-6.

    Scikit-learn's noise parameter is log σ_n², ours log(σ_n² - floor): the chain rule turns one
    derivative into the other.
    """
    rng = np.random.default_rng(100 * d + n)
    X, y = rng.random((n, d)), rng.standard_normal(n)
    theta = _theta(rng, d)
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
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_value_and_gradient_agree_with_the_dense_formula(
    counts: tuple[int, ...], n: int, noise: str, seed: int
) -> None:
    """Mixed kinds and every way to state the noise: the dense value and its numeric gradient."""
    rng = np.random.default_rng(seed)
    d = len(counts)
    features = FeatureMap(counts)
    X, y = rng.random((n, d)), rng.standard_normal(n)
    known = None
    if noise == "floor":  # twins that differ would make the value so large that differences fail
        columns = features.columns(X)
        y = columns @ rng.standard_normal(columns.shape[1])
    if noise in {"partly known", "known"}:
        known = rng.uniform(1e-3, 0.5, size=n)
        if noise == "partly known":
            known[rng.integers(n)] = np.nan
    likelihood = MarginalLikelihood(X, y, features, known_noise=known, fit_noise=noise != "floor")
    has_noise_parameter = noise in {"fitted", "partly known"}
    assert likelihood.n_parameters == d + 1 + int(has_noise_parameter)
    theta = _theta(rng, d)[: likelihood.n_parameters]
    value, gradient = likelihood(theta)
    # Without noise on the diagonal the matrix is badly conditioned, for both sides.
    tolerance = 1e-5 if noise == "floor" else 1e-8
    assert value == pytest.approx(_dense_value(X, y, theta, counts, known), rel=tolerance)
    numeric = numeric_gradient(lambda t: likelihood(t)[0], theta)
    scale = max(1.0, float(np.abs(numeric).max()))
    np.testing.assert_allclose(gradient, numeric, atol=10.0 * tolerance * scale)


@pytest.mark.parametrize("fit_noise", [True, False])
def test_gradient_agrees_with_differences_on_real_sizes(fit_noise: bool) -> None:
    """A hundred points of a smooth function in a mixed space of six dimensions."""
    rng = np.random.default_rng(7)
    counts = (0, 4, 0, 0, 2, 0)
    X = rng.random((100, len(counts)))
    y = np.sin(5.0 * X[:, 0]) + (X[:, 1] > 0.5) + X[:, 2] * X[:, 3]
    likelihood = MarginalLikelihood(X, y - y.mean(), FeatureMap(counts), fit_noise=fit_noise)
    theta = _theta(rng, len(counts))[: likelihood.n_parameters]
    numeric = numeric_gradient(lambda t: likelihood(t)[0], theta)
    np.testing.assert_allclose(likelihood(theta)[1], numeric, rtol=1e-6)


def test_evaluations_do_not_disturb_one_another() -> None:
    """Work arrays are shared between evaluations, results and inputs are not."""
    rng = np.random.default_rng(3)
    X, y = rng.random((20, 3)), rng.standard_normal(20)
    X_before, y_before = X.copy(), y.copy()
    likelihood = MarginalLikelihood(X, y, FeatureMap((0, 3, 0)))
    first, second = _theta(rng, 3), _theta(rng, 3)
    value, gradient = likelihood(first)
    kept, first_before = gradient.copy(), first.copy()
    likelihood(second)
    again, gradient_again = likelihood(first)
    assert again == value
    assert np.array_equal(gradient, kept)
    assert np.array_equal(gradient_again, kept)
    for array, before in ((X, X_before), (y, y_before), (first, first_before)):
        assert np.array_equal(array, before)


def test_order_of_the_observations_does_not_matter() -> None:
    """The likelihood is that of a set of observations, each with its own noise."""
    rng = np.random.default_rng(5)
    X, y, known = rng.random((30, 2)), rng.standard_normal(30), rng.uniform(0.01, 1.0, 30)
    known[::3] = np.nan
    order = rng.permutation(30)
    theta = _theta(rng, 2)
    features = FeatureMap((0, 0))
    one = MarginalLikelihood(X, y, features, known_noise=known)(theta)
    other = MarginalLikelihood(X[order], y[order], features, known_noise=known[order])(theta)
    assert one[0] == pytest.approx(other[0], rel=1e-10)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-8)


@given(
    theta=st.lists(st.floats(-250.0, 250.0), min_size=4, max_size=4),
    fit_noise=st.booleans(),
    twins=st.booleans(),
)
@settings(max_examples=300)
def test_extreme_hyperparameters_give_a_value_or_minus_infinity(
    theta: list[float], fit_noise: bool, twins: bool
) -> None:
    """However far a line search goes, there is no exception, no warning and no NaN."""
    rng = np.random.default_rng(11)
    X = np.full((6, 2), 0.25) if twins else rng.random((6, 2))
    y = rng.standard_normal(6)
    likelihood = MarginalLikelihood(X, y, FeatureMap((0, 2)), fit_noise=fit_noise)
    value, gradient = likelihood(np.array(theta)[: likelihood.n_parameters])
    if math.isfinite(value):
        assert np.isfinite(gradient).all()
    else:
        assert value == -math.inf
        assert not gradient.any()


@pytest.mark.parametrize("damage", ["X", "y"])
def test_data_that_is_not_finite_has_no_likelihood(damage: str) -> None:
    """One NaN gives -inf with a zero gradient, which every optimizer can deal with."""
    rng = np.random.default_rng(13)
    X, y = rng.random((5, 2)), rng.standard_normal(5)
    (X if damage == "X" else y)[2] = np.nan
    value, gradient = MarginalLikelihood(X, y, FeatureMap((0, 0)))(np.zeros(4))
    assert value == -math.inf
    assert gradient.tolist() == [0.0] * 4


def test_theta_is_read_as_documented() -> None:
    """Length-scales, signal variance, and noise above its floor; without an entry, at its floor."""
    theta = np.log([0.2, 0.4, 3.0, 0.05])
    full = Hyperparameters.from_theta(theta, 2)
    np.testing.assert_allclose(full.length_scales, [0.2, 0.4])
    assert full.signal_variance == pytest.approx(3.0)
    assert full.noise_variance == pytest.approx(0.05 + NOISE_FLOOR)
    assert Hyperparameters.from_theta(theta[:3], 2).noise_variance == NOISE_FLOOR


def test_known_noise_takes_the_place_of_the_fitted() -> None:
    """NaN means unknown; a known variance is never below the floor, not even when it is zero."""
    known = np.array([np.nan, 0.5, 0.0, np.nan])
    assert noise_diagonal(4, 0.1, known).tolist() == [0.1, 0.5, NOISE_FLOOR, 0.1]
    assert noise_diagonal(3, 0.1, None).tolist() == [0.1] * 3


def test_process_and_likelihood_agree() -> None:
    """The factorized posterior reports the likelihood that the fit maximized."""
    rng = np.random.default_rng(17)
    counts = (0, 3, 0)
    X, y, known = rng.random((25, 3)), rng.standard_normal(25), np.full(25, np.nan)
    known[:10] = 0.2
    theta = _theta(rng, 3)
    features = FeatureMap(counts)
    value, _ = MarginalLikelihood(X, y, features, known_noise=known)(theta)
    process = GaussianProcess.from_data(
        X, y, Hyperparameters.from_theta(theta, 3), features, known_noise=known
    )
    assert process.log_marginal_likelihood() == pytest.approx(value, rel=1e-10)
    dense_value = _dense_value(X, y, theta, counts, known)
    assert process.log_marginal_likelihood() == pytest.approx(dense_value, rel=1e-10)


def test_factor_is_that_of_the_last_evaluation_only() -> None:
    """The factor left behind is K's, and none is handed out for a θ that was not the last one."""
    rng = np.random.default_rng(0)
    X, y = rng.random((25, 3)), rng.standard_normal(25)
    likelihood = MarginalLikelihood(X, y, FeatureMap((0, 0, 0)))
    first, second = _theta(rng, 3), _theta(rng, 3)
    assert likelihood.factor_at(first) is None
    likelihood(first)
    likelihood(second)
    assert likelihood.factor_at(first) is None
    factor = likelihood.factor_at(second)
    assert factor is not None
    noise = NOISE_FLOOR + math.exp(second[4])
    K = dense.covariance(X, X, np.exp(second[:3]), math.exp(second[3]), (0, 0, 0))
    np.testing.assert_allclose(factor, np.linalg.cholesky(K + noise * np.eye(25)), atol=1e-10)


def test_failed_evaluation_leaves_no_factor() -> None:
    """What an evaluation overwrote before it failed is not taken for the factor of the last θ."""
    rng = np.random.default_rng(0)
    X, y = rng.random((25, 3)), rng.standard_normal(25)
    likelihood = MarginalLikelihood(X, y, FeatureMap((0, 0, 0)))
    theta = _theta(rng, 3)
    likelihood(theta)
    value, _ = likelihood(np.full(5, np.nan))
    assert value == -math.inf
    assert likelihood.factor_at(theta) is None
