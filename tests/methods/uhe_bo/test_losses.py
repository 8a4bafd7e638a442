"""The losses of UHE-BO by reduction to the likelihood, duplicated data and brute force."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.gp.fit import default_prior, fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import FitCriterion, Marginal, MarginalLikelihood
from bbo_plugins.methods.uhe_bo import losses
from bbo_plugins.methods.uhe_bo.losses import (
    LeaveOneOut,
    NearestNeighborPseudoData,
    WeightedLeaveOneOut,
    voronoi_volumes,
)
from tests.gp.random_data import random_theta
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
    tolerance = 1e-6 if fit_noise else 1e-4
    for _ in range(3):
        theta = random_theta(rng, 3)[: criterion.n_parameters]
        numeric = numeric_gradient(lambda t: criterion(t)[0], theta)
        scale = float(np.abs(numeric).max())
        np.testing.assert_allclose(criterion(theta)[1], numeric, atol=tolerance * scale)


@pytest.mark.parametrize("counts", [(0, 0), (0, 3, 0), (4, 2)])
@pytest.mark.parametrize("multiple", [1, 2])
def test_pseudo_data_carry_the_label_of_the_nearest(counts: tuple[int, ...], multiple: int) -> None:
    """The likelihood of uniform points with their neighbor's target and its known noise."""
    X, y = _data(25, counts)
    known = np.where(np.arange(25) % 2 == 0, np.linspace(0.01, 0.3, 25), np.nan)
    features = FeatureMap(counts)
    points = losses._uniform_points(multiple * 25, X)
    nearest = _nearest(points, X, counts)
    if not features.all_numeric:  # ties in categories: any of the nearest, here the one chosen
        chosen = losses._nearest(features.columns(points), features.columns(X))
        unit = np.ones(len(counts))
        for u, ours, first in zip(points, chosen, nearest, strict=True):
            distances = [dense.scaled_distance(u, X[i], unit, counts) for i in (ours, first)]
            assert distances[0] == pytest.approx(distances[1], abs=1e-12)
        nearest = chosen.tolist()
    theta = random_theta(np.random.default_rng(1), len(counts))
    expected = MarginalLikelihood(points, y[nearest], features, known_noise=known[nearest])(theta)
    loss = NearestNeighborPseudoData(multiple)
    value, gradient = loss.bind(X, y, features, known_noise=known)(theta)
    assert value == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-10)


def test_weighted_losses_are_bound_to_the_volumes() -> None:
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


def test_leave_one_out_estimates_do_not_depend_on_the_offset_of_the_targets() -> None:
    """The targets are centered by their weighted mean, whatever they were centered by before."""
    X, y = _data(30, (0, 3), clustered=True)
    features, theta = FeatureMap((0, 3)), np.log([0.3, 0.8, 1.2, 0.01])
    value, gradient = WeightedLeaveOneOut().bind(X, y, features)(theta)
    moved = WeightedLeaveOneOut().bind(X, y + 3.0, features)(theta)
    assert moved[0] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(moved[1], gradient, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("counts", [(0, 0, 0), (0, 4)])
@pytest.mark.parametrize("n", [3, 30])
def test_volumes_are_counts_of_nearest_points(counts: tuple[int, ...], n: int) -> None:
    """Brute force over 200 or 10 n uniform points, at least half a point each, scaled to n."""
    X, _ = _data(n, counts)
    points = losses._uniform_points(max(200, 10 * n), X)
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


@every_loss
def test_factor_is_handed_over_only_if_it_is_the_observations(loss: FitCriterion) -> None:
    """A factor left by a fit is that of K of all observations; otherwise there is none."""
    X, y = _data(30, (0, 0), clustered=True)
    fit = fit_map(X, y, FeatureMap((0, 0)), criterion=loss)
    if not isinstance(loss, Marginal | WeightedLeaveOneOut):
        assert fit.cholesky is None
        return
    estimate = fit.hyperparameters
    # The search may end on a step that it rejects; a warm fit ends where it began.
    fit = fit_map(X, y, FeatureMap((0, 0)), criterion=loss, warm_start=fit.warm_start)
    assert fit.cholesky is not None
    estimate = fit.hyperparameters
    K = dense.covariance(X, X, estimate.length_scales, estimate.signal_variance, (0, 0))
    K += estimate.noise_variance * np.eye(30)
    np.testing.assert_allclose(fit.cholesky @ fit.cholesky.T, K, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES[2:], ids=lambda loss: type(loss).__name__)
def test_length_scales_survive_a_crowded_design(loss: FitCriterion) -> None:
    """Samples of the model, half of the points in a hundredth of the square: right in the median.

    The literal loss is not asked: its labels are wrong within cells, which shortens length-scales.
    """
    ratios: list[float] = []
    for seed in range(6):
        rng = np.random.default_rng([seed, 7])
        X = rng.random((60, 2))
        X[30:] = 0.45 + 0.1 * X[30:]
        y = sample_prior(X, np.array([0.3, 0.3]), rng, noise=1e-4)
        fit = fit_map(X, y / y.std(), FeatureMap((0, 0)), criterion=loss)
        ratios.extend((fit.hyperparameters.length_scales / 0.3).tolist())
    assert 1.0 / 1.6 < np.median(ratios) < 1.6
