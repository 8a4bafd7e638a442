"""A fitted surrogate: units at its border, known noise, and targets of any size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import NOISE_FLOOR
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.methods.uhe_bo.criteria import WeightedLeaveOneOut
from tests.oracles.problems import sample_prior

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

NUMERIC = FeatureMap((0, 0))
LEAVE_ONE_OUT = WeightedLeaveOneOut()


def _data(n: int = 30, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, 3.0 + 2.0 * sample_prior(X, np.array([0.4, 0.7]), rng, noise=0.01)


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


def test_points_that_are_not_finite_are_refused() -> None:
    """The documented ValueError, which the methods turn into a random point."""
    X, y = _data(5)
    X[2, 0] = math.nan
    with pytest.raises(ValueError, match="positive definite"):
        Surrogate.fit(X, y, NUMERIC)


# ---------------------------------------------------------------------------------- borrowed noise


def _partly_known(y: FloatArray, unknown: str) -> FloatArray | None:
    """Return noise variances in the units of ``y``, unknown for all, every third or no target."""
    noise = np.linspace(0.01, 0.5, len(y))
    noise[::3] = math.nan
    return {"all": None, "some": noise, "none": np.linspace(0.01, 0.5, len(y))}[unknown]


@pytest.mark.parametrize("unknown", ["all", "some"])
@pytest.mark.parametrize("warm", [False, True])
def test_borrowed_noise_is_the_marginal_likelihoods(unknown: str, warm: bool) -> None:
    """To the last bit that of a fit of its own, from the same start, where noise is not known."""
    X, y = _data()
    noise = _partly_known(y, unknown)
    start = Surrogate.fit(X[:25], y[:25], NUMERIC).warm_start if warm else None
    marginal = Surrogate.fit(X, y, NUMERIC, noise_variance=noise, warm_start=start).process
    process = Surrogate.fit(
        X, y, NUMERIC, noise_variance=noise, criterion=LEAVE_ONE_OUT, marginal_start=start
    ).process
    expected = marginal.hyperparameters
    assert process.hyperparameters.noise_variance == expected.noise_variance > 100.0 * NOISE_FLOOR
    np.testing.assert_allclose(process.noise, marginal.noise, rtol=1e-9)
    scales = process.hyperparameters.length_scales
    assert not np.allclose(scales, expected.length_scales, rtol=1e-3)


@pytest.mark.parametrize("unknown", ["all", "some", "none"])
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("warm", [False, True])
def test_the_factor_of_such_a_fit_is_the_posteriors(
    unknown: str, deterministic: bool, warm: bool
) -> None:
    """A posterior from scratch, with the hyperparameters it tells, predicts the same."""
    X, y = _data()
    noise = _partly_known(y, unknown)
    # The search may end on a step that it rejects; a warm fit ends, with a factor, where it began.
    first: Surrogate | None = None
    for _ in range(1 + warm):
        first = Surrogate.fit(
            X,
            y,
            NUMERIC,
            noise_variance=noise,
            deterministic=deterministic,
            criterion=LEAVE_ONE_OUT,
            warm_start=first.warm_start if first else None,
        )
    assert first is not None
    process = first.process
    known = None
    if noise is not None:
        known = np.where(np.isnan(noise), math.nan, noise * first.transform.derivative(y) ** 2)
    fresh = GaussianProcess.from_data(
        X, process.y, process.hyperparameters, NUMERIC, known_noise=known
    )
    new = np.random.default_rng(1).random((10, 2))
    for ours, theirs in zip(process.predict(new), fresh.predict(new), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("deterministic, least, most", [(False, 1e-10, 1e-7), (True, 1e-8, 1e-8)])
def test_a_smooth_objective_has_next_to_no_noise(
    deterministic: bool, least: float, most: float
) -> None:
    """An estimate gets small enough to tell values near the best apart; without one it is fixed."""
    X = np.random.default_rng(0).random((40, 2))
    X[20:] = 0.4 + 0.05 * (X[20:] - 0.5)
    y = -np.square(X - 0.4).sum(axis=1)
    process = Surrogate.fit(X, y, NUMERIC, deterministic=deterministic).process
    assert least <= process.hyperparameters.noise_variance <= most


def test_borrowed_noise_below_the_floor_of_what_is_stated() -> None:
    """It is raised for the fit, so the posterior says so too: its factor is of that matrix."""
    X = np.random.default_rng(0).random((150, 2))
    y = X[:, 0] ** 2 + 0.5 * X[:, 1] - X[:, 0] * X[:, 1]
    features = FeatureMap((0, 0), trend=True)
    assert Surrogate.fit(X, y, features).process.hyperparameters.noise_variance < 1e-8
    process = Surrogate.fit(X, y, features, criterion=LEAVE_ONE_OUT).process
    fresh = GaussianProcess.from_data(X, process.y, process.hyperparameters, features)
    np.testing.assert_allclose(process.L, fresh.L, rtol=0.0, atol=1e-9)
    means = process.predict_mean(X)
    np.testing.assert_allclose(process.mean_at_observations, means, rtol=0.0, atol=1e-8)
    assert process.hyperparameters.has_noise_estimate
