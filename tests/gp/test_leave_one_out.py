"""The leave-one-out density against refits without each observation, and numeric gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.kernels import FeatureMap, FloatArray
from bbo_plugins.gp.leave_one_out import LeaveOneOut
from bbo_plugins.gp.likelihood import NOISE_FLOOR, MarginalLikelihood
from tests.oracles import dense
from tests.oracles.differences import numeric_gradient


def _theta(rng: np.random.Generator, d: int) -> FloatArray:
    """Return random log length-scales, log signal variance and log excess noise, (d + 2,)."""
    scales = rng.uniform(math.log(0.1), math.log(3.0), size=d)
    return np.concatenate([scales, [rng.uniform(-1.0, 2.0)], [rng.uniform(-6.0, 0.0)]])


def _covariance(
    X: FloatArray, theta: FloatArray, n_categories: tuple[int, ...], known: FloatArray | None
) -> FloatArray:
    d = X.shape[1]
    excess = math.exp(theta[d + 1]) if len(theta) == d + 2 else 0.0
    noise = np.full(len(X), NOISE_FLOOR + excess)
    if known is not None:
        noise = np.where(np.isnan(known), noise, np.maximum(np.nan_to_num(known), NOISE_FLOOR))
    K = dense.covariance(X, X, np.exp(theta[:d]), math.exp(theta[d]), n_categories)
    return K + np.diag(noise)


def _refitted_densities(K: FloatArray, y: FloatArray) -> FloatArray:
    """Return log p(y_i | y_-i) by conditioning on all the others, one at a time, (n,)."""
    densities = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        mean, variance = dense.posterior(
            K[np.ix_(rest, rest)], K[np.ix_([i], rest)], K[np.ix_([i], [i])], y[rest]
        )
        residual, spread = y[i] - float(mean[0]), float(variance[0, 0])
        densities[i] = -0.5 * (residual**2 / spread + math.log(2.0 * math.pi * spread))
    return densities


@given(
    counts=st.lists(st.sampled_from([0, 0, 1, 2, 5]), min_size=1, max_size=5).map(tuple),
    n=st.integers(1, 12),
    noise=st.sampled_from(["fitted", "floor", "partly known", "known"]),
    weighted=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_value_and_gradient_agree_with_refits(
    counts: tuple[int, ...], n: int, noise: str, weighted: bool, seed: int
) -> None:
    """Mixed kinds, every way to state the noise, any weights: the sum of n refits' densities."""
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
    weights = rng.uniform(0.0, 3.0, n) if weighted else np.ones(n)
    criterion = LeaveOneOut(X, y, features, weights, known_noise=known, fit_noise=noise != "floor")
    theta = _theta(rng, d)[: criterion.n_parameters]
    value, gradient = criterion(theta)
    expected = float(weights @ _refitted_densities(_covariance(X, theta, counts, known), y))
    # Without noise on the diagonal the matrix is badly conditioned, for both sides.
    tolerance = 1e-4 if noise == "floor" else 1e-8
    assert value == pytest.approx(expected, rel=tolerance, abs=tolerance)
    numeric = numeric_gradient(lambda t: criterion(t)[0], theta)
    scale = max(1.0, float(np.abs(numeric).max()))
    np.testing.assert_allclose(gradient, numeric, atol=10.0 * tolerance * scale)


@pytest.mark.parametrize("fit_noise", [True, False])
def test_gradient_agrees_with_differences_on_real_sizes(fit_noise: bool) -> None:
    """A hundred points of a smooth function in a mixed space of six dimensions."""
    rng = np.random.default_rng(7)
    counts = (0, 4, 0, 0, 2, 0)
    X = rng.random((100, len(counts)))
    y = np.sin(5.0 * X[:, 0]) + (X[:, 1] > 0.5) + X[:, 2] * X[:, 3]
    criterion = LeaveOneOut(
        X, y - y.mean(), FeatureMap(counts), rng.uniform(0.0, 3.0, 100), fit_noise=fit_noise
    )
    theta = _theta(rng, len(counts))[: criterion.n_parameters]
    numeric = numeric_gradient(lambda t: criterion(t)[0], theta)
    np.testing.assert_allclose(criterion(theta)[1], numeric, rtol=1e-6)


def test_single_observation_has_its_marginal_density() -> None:
    """With nothing to condition on, leaving one out is the marginal likelihood."""
    X, y, theta = np.array([[0.3, 0.8]]), np.array([1.7]), np.log([0.4, 0.9, 2.0, 0.1])
    features = FeatureMap((0, 0))
    ours = LeaveOneOut(X, y, features, np.ones(1))(theta)
    marginal = MarginalLikelihood(X, y, features)(theta)
    assert ours[0] == pytest.approx(marginal[0])
    np.testing.assert_allclose(ours[1], marginal[1], atol=1e-12)


def test_observation_of_no_weight_still_informs_the_others() -> None:
    """Its own density does not count, but the neighbors are predicted from it."""
    rng = np.random.default_rng(1)
    X, y, theta = rng.random((15, 2)), rng.standard_normal(15), np.log([0.5, 0.7, 1.0, 0.1])
    features, weights = FeatureMap((0, 0)), np.ones(15)
    weights[4] = 0.0
    densities = _refitted_densities(_covariance(X, theta, (0, 0), None), y)
    value, _ = LeaveOneOut(X, y, features, weights)(theta)
    assert value == pytest.approx(float(densities.sum() - densities[4]))
    without, rest = np.delete(X, 4, axis=0), np.delete(y, 4)
    assert LeaveOneOut(without, rest, features, np.ones(14))(theta)[0] != pytest.approx(value)


def test_evaluations_do_not_disturb_one_another() -> None:
    """Work arrays are shared between evaluations, results and inputs are not."""
    rng = np.random.default_rng(3)
    X, y, weights = rng.random((20, 3)), rng.standard_normal(20), rng.random(20)
    before = [array.copy() for array in (X, y, weights)]
    criterion = LeaveOneOut(X, y, FeatureMap((0, 3, 0)), weights)
    first, second = _theta(rng, 3), _theta(rng, 3)
    value, gradient = criterion(first)
    kept = gradient.copy()
    criterion(second)
    again, gradient_again = criterion(first)
    assert again == value
    assert np.array_equal(gradient, kept)
    assert np.array_equal(gradient_again, kept)
    for array, original in zip((X, y, weights), before, strict=True):
        assert np.array_equal(array, original)


def test_factor_is_that_of_the_observations() -> None:
    """The factor of the last evaluation is K's own, intact although K⁻¹ was formed from it."""
    rng = np.random.default_rng(0)
    X, y = rng.random((25, 3)), rng.standard_normal(25)
    criterion = LeaveOneOut(X, y, FeatureMap((0, 0, 0)), rng.random(25))
    theta = _theta(rng, 3)
    assert criterion.factor_at(theta) is None
    criterion(theta)
    factor = criterion.factor_at(theta)
    assert factor is not None
    expected = np.linalg.cholesky(_covariance(X, theta, (0, 0, 0), None))
    np.testing.assert_allclose(factor, expected, atol=1e-10)


@given(
    theta=st.lists(st.floats(-250.0, 250.0), min_size=4, max_size=4),
    fit_noise=st.booleans(),
    twins=st.booleans(),
)
@settings(max_examples=200)
def test_extreme_hyperparameters_give_a_value_or_minus_infinity(
    theta: list[float], fit_noise: bool, twins: bool
) -> None:
    """However far a line search goes, there is no exception, no warning and no NaN."""
    rng = np.random.default_rng(11)
    X = np.full((6, 2), 0.25) if twins else rng.random((6, 2))
    y, weights = rng.standard_normal(6), np.array([0.0, 0.5, 1.0, 1.0, 1.5, 2.0])
    criterion = LeaveOneOut(X, y, FeatureMap((0, 2)), weights, fit_noise=fit_noise)
    value, gradient = criterion(np.array(theta)[: criterion.n_parameters])
    if math.isfinite(value):
        assert np.isfinite(gradient).all()
    else:
        assert value == -math.inf
        assert not gradient.any()


@pytest.mark.parametrize("damage", ["X", "y"])
def test_data_that_is_not_finite_has_no_value(damage: str) -> None:
    """One NaN gives -inf with a zero gradient and leaves no factor behind."""
    rng = np.random.default_rng(13)
    X, y = rng.random((5, 2)), rng.standard_normal(5)
    (X if damage == "X" else y)[2] = np.nan
    criterion = LeaveOneOut(X, y, FeatureMap((0, 0)), np.ones(5))
    value, gradient = criterion(np.zeros(4))
    assert value == -math.inf
    assert gradient.tolist() == [0.0] * 4
    assert criterion.factor_at(np.zeros(4)) is None
