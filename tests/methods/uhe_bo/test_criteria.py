"""The fit criteria of UHE-BO by reduction to the likelihood, duplicated data and brute force."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.fit import default_prior, fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import FitCriterion, Marginal, MarginalLikelihood
from bbo_plugins.methods.uhe_bo import criteria
from bbo_plugins.methods.uhe_bo.criteria import (
    LeaveOneOut,
    NearestNeighborPseudoData,
    WeightedLeaveOneOut,
    voronoi_volumes,
)
from tests.gp.random_data import Noise, random_data, random_theta
from tests.oracles import dense
from tests.oracles.differences import numeric_gradient
from tests.oracles.problems import sample_prior

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


LOSSES: tuple[FitCriterion, ...] = (Marginal(), NearestNeighborPseudoData(), WeightedLeaveOneOut())
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def _data(
    n: int, counts: tuple[int, ...], seed: int = 0, *, clustered: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Return points, the latter half of them close together if asked, and a sample of the model."""
    rng = np.random.default_rng([seed, n])
    X = rng.random((n, len(counts)))
    if clustered:
        X[n // 2 :] = np.clip(0.3 + 0.05 * rng.standard_normal((n - n // 2, len(counts))), 0.0, 1.0)
    y = sample_prior(X, np.full(len(counts), 0.4), rng, noise=1e-2, n_categories=counts)
    return X, (y - y.mean()) / y.std() if n > 1 else y


def _nearest(points: FloatArray, X: FloatArray, counts: tuple[int, ...]) -> list[int]:
    """Return the observation nearest to each point, one distance at a time."""
    unit = np.ones(len(counts))
    return [int(np.argmin([dense.scaled_distance(u, x, unit, counts) for x in X])) for u in points]


@every_loss
@pytest.mark.parametrize("fit_noise", [True, False])
def test_gradients_agree_with_differences(loss: FitCriterion, fit_noise: bool) -> None:
    """Every loss, partly known noise, a categorical dimension among numeric ones."""
    counts = (0, 3, 0)
    X, y = _data(30, counts, clustered=True)
    known = np.where(np.arange(30) % 3 == 0, 0.05, np.nan)
    criterion = loss.bind(X, y, FeatureMap(counts), known_noise=known, fit_noise=fit_noise)
    assert criterion.n_parameters == 4 + int(fit_noise)
    rng = np.random.default_rng(0)
    # Without noise on the diagonal the matrix is badly conditioned, for the differences too.
    for _ in range(3):
        theta = random_theta(rng, 3)[: criterion.n_parameters]
        K = dense.noisy_covariance(X, theta, counts, known)
        tolerance = 1e-6 + 1e4 * dense.rounding(K)
        assert tolerance < 0.1
        numeric = numeric_gradient(lambda t: criterion(t)[0], theta)
        scale = float(np.abs(numeric).max())
        np.testing.assert_allclose(criterion(theta)[1], numeric, atol=tolerance * scale)


@pytest.mark.parametrize("counts", [(0, 0), (0, 3, 0), (4, 2)])
def test_pseudo_data_carry_the_label_of_the_nearest(counts: tuple[int, ...]) -> None:
    """The likelihood of uniform points with their neighbor's target and its known noise."""
    X, y = _data(25, counts)
    known = np.where(np.arange(25) % 2 == 0, np.linspace(0.01, 0.3, 25), np.nan)
    features = FeatureMap(counts)
    points = criteria._uniform_points(2 * 25, X)
    nearest = _nearest(points, X, counts)
    if not features.all_numeric:  # ties in categories: any of the nearest, here the one chosen
        chosen = criteria._nearest(features.columns(points), features.columns(X))
        unit = np.ones(len(counts))
        for u, ours, first in zip(points, chosen, nearest, strict=True):
            distances = [dense.scaled_distance(u, X[i], unit, counts) for i in (ours, first)]
            assert distances[0] == pytest.approx(distances[1], abs=1e-12)
        nearest = chosen.tolist()
    theta = random_theta(np.random.default_rng(1), len(counts))
    expected = MarginalLikelihood(points, y[nearest], features, known_noise=known[nearest])(theta)
    loss = NearestNeighborPseudoData()
    value, gradient = loss.bind(X, y, features, known_noise=known)(theta)
    assert value == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10)


def test_weighted_criteria_are_bound_to_the_volumes() -> None:
    """Leave-one-out weighs by the Voronoi volumes of the points."""
    X, y = _data(30, (0, 3), clustered=True)
    features, theta = FeatureMap((0, 3)), np.log([0.3, 0.8, 1.2, 0.01])
    weights = voronoi_volumes(X, features)
    assert weights.max() > 3.0 * weights.min()
    centered = y - weights @ y / 30.0
    value, _ = WeightedLeaveOneOut().bind(X, y, features)(theta)
    expected, _ = LeaveOneOut(X, centered, features, weights)(theta)
    assert value == pytest.approx(expected, rel=1e-12)
    assert value != pytest.approx(LeaveOneOut(X, centered, features, np.ones(30))(theta)[0])


@pytest.mark.parametrize("counts", [(0, 0, 0), (0, 4)])
@pytest.mark.parametrize("n", [3, 30])
def test_volumes_are_counts_of_nearest_points(counts: tuple[int, ...], n: int) -> None:
    """Brute force over 200 or 10 n uniform points, at least half a point each, scaled to n."""
    X, _ = _data(n, counts)
    points = criteria._uniform_points(max(200, 10 * n), X)
    counted = np.bincount(_nearest(points, X, counts), minlength=n).astype(np.float64)
    counted = np.maximum(counted, 0.5)
    np.testing.assert_allclose(voronoi_volumes(X, FeatureMap(counts)), counted * n / counted.sum())


@every_loss
@pytest.mark.parametrize("counts", [(0,), (0, 3, 0), (2, 2)])
@pytest.mark.parametrize("n", [1, 2, 12])
@pytest.mark.parametrize("twins", [False, True])
@pytest.mark.parametrize("fit_noise", [True, False])
def test_fits_of_few_observations_succeed(
    loss: FitCriterion, counts: tuple[int, ...], n: int, twins: bool, fit_noise: bool
) -> None:
    """One observation, coinciding ones, categories only: a finite optimum without a note."""
    X, y = _data(n, counts)
    if twins:
        X[:] = X[0]
    fit = fit_map(X, y, FeatureMap(counts), fit_noise=fit_noise, criterion=loss)
    assert fit.note is None
    assert math.isfinite(fit.log_posterior)
    assert np.isfinite(fit.hyperparameters.length_scales).all()
    assert len(fit.warm_start.theta) == len(counts) + 1 + int(fit_noise)


@every_loss
@pytest.mark.parametrize("n", [40, 130])
def test_fit_is_a_local_optimum_of_its_loss(loss: FitCriterion, n: int) -> None:
    """The reported value is loss plus prior, and no step in any coordinate improves on it."""
    X, y = _data(n, (0, 0), clustered=True)
    features = FeatureMap((0, 0))
    fit = fit_map(X, y, features, criterion=loss)
    criterion, prior = loss.bind(X, y, features), default_prior(2)

    def objective(theta: FloatArray) -> float:
        return criterion(theta)[0] + prior.value_and_gradient(theta)[0]

    theta = fit.warm_start.theta
    assert fit.log_posterior == pytest.approx(objective(theta), rel=1e-9)
    for i in range(4):
        for step in (-0.1, 0.1):
            assert objective(theta + step * np.eye(4)[i]) < fit.log_posterior + 1e-2


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
@settings(max_examples=30)
def test_value_and_gradient_agree_with_refits(
    counts: tuple[int, ...], n: int, noise: Noise, weighted: bool, seed: int
) -> None:
    """Mixed kinds, every way to state the noise, any weights: the sum of n refits' densities."""
    rng = np.random.default_rng(seed)
    d = len(counts)
    features = FeatureMap(counts)
    X, y, known = random_data(rng, features, n, noise)
    weights = rng.uniform(0.0, 3.0, n) if weighted else np.ones(n)
    criterion = LeaveOneOut(X, y, features, weights, known_noise=known, fit_noise=noise != "floor")
    theta = random_theta(rng, d)[: criterion.n_parameters]
    value, gradient = criterion(theta)
    K = dense.noisy_covariance(X, theta, counts, known)
    expected = float(weights @ _refitted_densities(K, y))
    # Without noise on the diagonal the matrix is badly conditioned, for both sides.
    rounding = dense.rounding(K)
    assume(rounding < 1e-5)  # beyond that, differences say nothing
    tolerance = 1e-8 + 10.0 * rounding
    assert value == pytest.approx(expected, rel=tolerance, abs=tolerance)
    numeric = numeric_gradient(lambda t: criterion(t)[0], theta)
    scale = max(1.0, float(np.abs(numeric).max()))
    np.testing.assert_allclose(gradient, numeric, atol=(1e-7 + 1e4 * rounding) * scale)
