"""A fitted surrogate: units at its border, known noise, and targets of any size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bbo_plugins.gp.kernels import FeatureMap, FloatArray
from bbo_plugins.gp.likelihood import NOISE_FLOOR
from bbo_plugins.gp.regression import GaussianProcess
from bbo_plugins.gp.surrogate import Surrogate
from tests.oracles.problems import sample_prior

NUMERIC = FeatureMap((0, 0))


def _data(n: int = 30, seed: int = 0, noise: float = 0.01) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, 3.0 + 2.0 * sample_prior(X, np.array([0.4, 0.7]), rng, noise=noise)


def test_process_sees_transformed_targets() -> None:
    """The process is fitted to the transformed, standardized targets."""
    X, y = _data()
    surrogate = Surrogate.fit(X, y, NUMERIC)
    np.testing.assert_allclose(surrogate.process.y, surrogate.transform.forward(y))
    assert surrogate.process.y.std() == pytest.approx(1.0)
    assert surrogate.notes == ()


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_scale_of_the_targets_does_not_matter(scale: float) -> None:
    """The same posterior in z at any scale, to rounding."""
    X, y = _data()
    new = np.random.default_rng(1).random((10, 2))
    expected = Surrogate.fit(X, y, NUMERIC).process.predict(new)
    for ours, theirs in zip(
        Surrogate.fit(X, scale * y, NUMERIC).process.predict(new), expected, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_known_noise_is_scaled_like_the_targets() -> None:
    """A variance v at target y becomes v · (dz/dy)², here a numeric derivative; NaN is fitted."""
    X, y = _data()
    noise = np.linspace(0.01, 0.5, len(y))
    noise[::4] = np.nan
    before = noise.copy()
    surrogate = Surrogate.fit(X, y, NUMERIC, noise_variance=noise)
    assert np.array_equal(noise, before, equal_nan=True)
    forward = surrogate.transform.forward
    slope = (forward(y + 1e-6) - forward(y - 1e-6)) / 2e-6
    known = ~np.isnan(noise)
    np.testing.assert_allclose(surrogate.process.noise[known], (noise * slope**2)[known], rtol=1e-4)
    fitted = surrogate.process.hyperparameters.noise_variance
    np.testing.assert_allclose(surrogate.process.noise[~known], fitted)


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
def test_scale_does_not_matter_with_known_noise_either(scale: float) -> None:
    """Targets times a and variances times a² give the same posterior."""
    X, y = _data()
    noise = np.full(len(y), 0.04)
    new = np.random.default_rng(1).random((10, 2))
    expected = Surrogate.fit(X, y, NUMERIC, noise_variance=noise).process.predict(new)
    scaled = Surrogate.fit(X, scale * y, NUMERIC, noise_variance=scale * (scale * noise))
    for ours, theirs in zip(scaled.process.predict(new), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_no_noise_variance_breaks_a_fit(scale: float) -> None:
    """However little stated variances fit the targets, the posterior is finite; no warning."""
    X, y = _data(12)
    noise = np.array([0.0, 1e-320, 1e-9, 1.0, 1e9, 1e300, math.inf] + [math.nan] * 5)
    surrogate = Surrogate.fit(X, np.round(y) * scale, NUMERIC, noise_variance=noise)
    mean, variance = surrogate.process.predict(X)
    assert np.isfinite(mean).all()
    assert (variance > 0.0).all()


def test_large_known_noise_is_believed() -> None:
    """An outlier that is known to be noisy does not pull the mean; one that is not does."""
    X = np.linspace(0.0, 1.0, 21)[:, None] * np.ones(2)
    y = np.zeros(21)
    y[::2] = 0.1
    y[10] = 5.0
    noise = np.full(21, 0.01)
    trusted = Surrogate.fit(X, y, NUMERIC, noise_variance=noise)
    noise[10] = 1e4
    doubted = Surrogate.fit(X, y, NUMERIC, noise_variance=noise)
    assert doubted.process.predict_mean(X[10:11]) < trusted.process.predict_mean(X[10:11])
    assert doubted.process.noise[10] > 1e3 * doubted.process.noise[8]


def test_deterministic_objective_has_noise_at_the_floor() -> None:
    """Nothing is estimated, and the mean passes through the data."""
    X, y = _data(noise=0.0)
    surrogate = Surrogate.fit(X, y, NUMERIC, deterministic=True)
    assert surrogate.process.hyperparameters.noise_variance == NOISE_FLOOR
    np.testing.assert_allclose(surrogate.process.predict_mean(X), surrogate.process.y, atol=0.02)


@pytest.mark.parametrize(
    "y",
    [
        [4.0] * 6,
        [0.0] * 6,
        [1e300] * 6,
        [1e308, -1e308, 0.0, 1.0, 2.0, 3.0],
        [5e-324, 0.0, 1e-323, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        [1.0, 2.0, 3.0, 4.0, 5.0, -1e300],
    ],
)
@pytest.mark.parametrize("deterministic", [True, False])
def test_awkward_targets_give_a_finite_posterior(y: list[float], deterministic: bool) -> None:
    """Constant, opposite, subnormal and diverged targets, also at repeated points."""
    rng = np.random.default_rng(3)
    for X in (rng.random((6, 2)), np.full((6, 2), 0.5)):
        surrogate = Surrogate.fit(X, np.array(y), NUMERIC, deterministic=deterministic)
        mean, variance = surrogate.process.predict(rng.random((20, 2)))
        assert np.isfinite(mean).all()
        assert (variance > 0.0).all()


def test_one_observation() -> None:
    """With n = 1: the mean is the observed value, z = 0, and uncertainty grows away from it."""
    surrogate = Surrogate.fit(np.array([[0.5, 0.5]]), np.array([7.0]), NUMERIC)
    mean, variance = surrogate.process.predict(np.array([[0.5, 0.5], [0.0, 1.0]]))
    np.testing.assert_allclose(mean, surrogate.transform.forward(np.array([7.0, 7.0])), atol=1e-12)
    assert variance[1] > variance[0]


def test_warm_start_is_passed_on() -> None:
    """What one fit leaves shortens the next and leads to the same model."""
    X, y = _data(40)
    first = Surrogate.fit(X[:39], y[:39], NUMERIC)
    cold, warm = (
        Surrogate.fit(X, y, NUMERIC, warm_start=start) for start in (None, first.warm_start)
    )
    assert warm.warm_start.log_posterior_per_point == pytest.approx(
        cold.warm_start.log_posterior_per_point, abs=1e-3
    )
    assert not np.array_equal(warm.warm_start.theta, cold.warm_start.theta)


def test_points_that_are_not_finite_are_refused() -> None:
    """The documented ValueError, which the methods turn into a random point."""
    X, y = _data(5)
    X[2, 0] = math.nan
    with pytest.raises(ValueError, match="positive definite"):
        Surrogate.fit(X, y, NUMERIC)


@pytest.mark.parametrize("n", [20, 520])  # with the inverse factor and with triangular solves
def test_posterior_on_the_fits_factor_is_the_one_from_scratch(n: int) -> None:
    """Taking over the factor that the fit left changes nothing."""
    X, y = _data(n)
    process = Surrogate.fit(X, y, NUMERIC).process
    fresh = GaussianProcess.from_data(X, process.y, process.hyperparameters, NUMERIC)
    new = np.random.default_rng(1).random((10, 2))
    for ours, theirs in zip(
        process.predict_with_gradients(new), fresh.predict_with_gradients(new), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
