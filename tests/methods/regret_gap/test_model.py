"""The model behind the criteria: robust units, one factor for two posteriors, its candidates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from bbo_plugins.gp.fit import fit_map
from bbo_plugins.gp.kernels import FeatureMap, Trend
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.methods.regret_gap.model import (
    LEAST_NOISE,
    StandardizedTargets,
    StoppingModel,
    candidates,
    predict_with_observed,
)
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles.problems import categories_of, mixed_space, random_points, unit_box

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

FLOOR = 1e-2


def _data(seed: int, n: int = 15, d: int = 2) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    z = np.sin(5.0 * X[:, 0]) + X[:, -1] + 0.1 * rng.standard_normal(n)
    return X, (z - z.mean()) / z.std()


# --------------------------------------------------------------------------------- standardization


@pytest.mark.parametrize("outlier", [1e6, -1e6])
def test_a_lone_outlier_does_not_set_the_scale(outlier: float) -> None:
    """Good or bad, the deviation stays within a factor of two and the other targets distinct."""
    y = np.random.default_rng(1).standard_normal(25)
    y[7] = outlier
    targets = StandardizedTargets.of(y)
    others = np.delete(np.arange(25), 7)
    assert targets.std < 2.0 * float(y[others].std())
    assert abs(targets.z[7]) < 6.0
    assert len(set(targets.z[others].tolist())) == 24
    assert int(np.argmax(targets.z * math.copysign(1.0, outlier))) == 7


@pytest.mark.parametrize(
    "values", [[3.0], [7.0] * 30, [0.0] * 5, [0.1 + 0.2, 0.3] * 9, [5.0] * 29 + [1e6]]
)
def test_constant_targets_have_no_deviation(values: list[float]) -> None:
    """Also if they differ by rounding, and if the only other value is a lone outlier."""
    targets = StandardizedTargets.of(np.array(values))
    assert targets.std == 0.0
    assert not targets.z.any()


# --------------------------------------------------------------------------------------- posterior
@pytest.mark.parametrize("deterministic", [True, False])
def test_noise_has_a_floor_after_the_fit(deterministic: bool) -> None:
    """The other hyperparameters are those of the fit; a smooth objective's noise is raised."""
    X = np.random.default_rng(3).random((30, 1))
    z = np.sin(3.0 * X[:, 0])
    z = (z - z.mean()) / z.std()
    features = FeatureMap((0,))
    first = fit_map(X, z, features, fit_noise=not deterministic)
    warm = first.warm_start
    fit = fit_map(X, z, features, fit_noise=not deterministic, warm_start=warm)
    assert fit.cholesky is not None  # which is that of the noise before it was raised
    assert fit.hyperparameters.noise_variance < FLOOR
    model = StoppingModel.fit(
        X, z, features, minimum_noise=FLOOR, deterministic=deterministic, warm_start=warm
    )
    found = model.after.hyperparameters
    assert found.noise_variance == (LEAST_NOISE if deterministic else FLOOR)
    assert found.signal_variance == fit.hyperparameters.signal_variance
    assert found.length_scales.tolist() == fit.hyperparameters.length_scales.tolist()
    again = GaussianProcess.from_data(X, z, found, features)
    np.testing.assert_allclose(model.after.L, again.L, atol=1e-9)


def test_posterior_before_is_a_refit_without_the_newest_observation() -> None:
    """The leading block of the factor gives what scikit-learn gets from t - 1 observations."""
    X, z = _data(6)
    shared = Hyperparameters(np.array([0.4, 0.9]), 1.0, 0.2)
    model = StoppingModel.fit(X, z, FeatureMap((0, 0)), shared=shared)
    found = model.after.hyperparameters
    kernel = ConstantKernel(found.signal_variance) * Matern([0.4, 0.9], nu=2.5)
    new = np.random.default_rng(7).random((6, 2))
    for process, n in ((model.before(), 14), (model.after, 15)):
        theirs = GaussianProcessRegressor(kernel, alpha=found.noise_variance, optimizer=None)
        mean, covariance = theirs.fit(X[:n], z[:n]).predict(new, return_cov=True)
        our_mean, our_covariance = process.predict_joint(new)
        np.testing.assert_allclose(our_mean, mean, atol=1e-9)
        np.testing.assert_allclose(our_covariance, covariance, atol=1e-9)


@pytest.mark.parametrize("noise", [1e-6, 0.1])
@pytest.mark.parametrize("trend", [None, Trend(0.2, 0.1, 0.4)])
def test_prediction_covers_observed_and_new_points(noise: float, trend: Trend | None) -> None:
    """Mean and variance equal those of the plain prediction, the observed points first."""
    space = mixed_space()
    rng = np.random.default_rng(8)
    X, new = random_points(space, 40, rng), random_points(space, 30, rng)
    hyperparameters = Hyperparameters(np.full(len(space), 0.7), 1.3, noise, trend)
    process = GaussianProcess.from_data(
        X, rng.standard_normal(40), hyperparameters, FeatureMap(categories_of(space))
    )
    mean, variance = predict_with_observed(process, new)
    their_mean, their_variance = process.predict(np.concatenate([X, new]))
    np.testing.assert_allclose(mean, their_mean, atol=1e-7)
    np.testing.assert_allclose(variance, their_variance, atol=1e-9)
    assert (variance > 0.0).all()


# -------------------------------------------------------------------------------------- candidates
def test_candidates_fill_the_space_and_surround_the_best() -> None:
    """With the observed ones there are 384; some are within a hundredth of the best point."""
    X = np.random.default_rng(9).random((60, 3))
    y = -np.square(X - 0.4).sum(axis=1)
    fresh = candidates(unit_box(3), X, y, np.full(3, 0.5), np.random.default_rng(0))
    assert fresh.shape == (324, 3)
    assert fresh.min() >= 0.0
    assert fresh.max() <= 1.0
    distance = np.linalg.norm(fresh - X[np.argmax(y)], axis=1)
    assert (distance < 0.02).sum() >= 3
    filling = np.array([[np.linalg.norm(fresh - corner, axis=1).min()] for corner in X])
    assert filling.max() < 0.35
    many = np.random.default_rng(10).random((1000, 3))
    more = candidates(unit_box(3), many, many[:, 0], np.ones(3), np.random.default_rng(0))
    assert len(more) == 128


def test_small_finite_space_is_its_own_set_of_candidates() -> None:
    """Observed and fresh points together are the whole space; in the end none is left."""
    space = SearchSpace({"n": Dimension.integers(1, 9), "c": Dimension.categorical("ab")})
    points = space.enumerate()
    rng = np.random.default_rng(12)
    X = points[rng.permutation(18)[:7]]
    fresh = candidates(space, X, np.arange(7.0), np.ones(2), rng)
    together = {row.tobytes() for row in np.concatenate([X, fresh])}
    assert together == {row.tobytes() for row in points}
    assert len(fresh) == 11
    assert candidates(space, points, np.arange(18.0), np.ones(2), rng).shape == (0, 2)
