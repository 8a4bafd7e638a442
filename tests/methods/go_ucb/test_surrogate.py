"""The fitted network: quality of its predictions, determinism, state, known noise, odd data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import STATED_NOISE_FLOOR
from bbo_plugins.methods.go_ucb.regression import NetworkBall
from bbo_plugins.methods.go_ucb.surrogate import NetworkSurrogate, WarmNetwork, inputs

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


def _quadratic(X: FloatArray) -> FloatArray:
    """Return a concave quadratic with an interaction, (n,)."""
    values: FloatArray = -np.square(X - 0.6).sum(axis=1) + X[:, 0] * X[:, -1]
    return values


def _fit(X: FloatArray, y: FloatArray, seed: int = 0, **options: Any) -> NetworkSurrogate:
    features = options.pop("features", FeatureMap((0,) * X.shape[1]))
    return NetworkSurrogate.fit(
        X, y, features, rng=np.random.default_rng(seed), hidden_units=8, **options
    )


def test_quadratic_is_learned() -> None:
    """From 60 points in six dimensions nearly all of the variance elsewhere is explained."""
    rng = np.random.default_rng(0)
    X, X_new = rng.random((60, 6)), rng.random((200, 6))
    model = _fit(X, _quadratic(X))
    z = model.transform.forward(_quadratic(X_new))
    mean, variance = model.predict(X_new)
    assert np.square(z - mean).mean() < 0.02
    assert (variance > 0.0).all()
    np.testing.assert_allclose(model.predict_mean(X_new), mean)


def test_one_failure_moves_the_mean_halfway_to_the_median() -> None:
    """As in the Gaussian process; at most the median is what a failed point is worth."""
    X, P = np.random.default_rng(0).random((12, 2)), np.random.default_rng(1).random((20, 2))
    model = _fit(X, _quadratic(X))
    before, median = model.predict_mean(P), np.median(model.z)
    after = [model.penalize_failures(x[None]).mean(inputs(x[None], model.features))[0] for x in P]
    assert 0 < (before > median).sum() < len(P)
    np.testing.assert_allclose(after, 0.5 * (before + np.minimum(before, median)), atol=1e-6)


@pytest.mark.parametrize("n_bad", [0, 3])
def test_pending_points_count_as_observed_at_their_means(n_bad: int) -> None:
    """As if these had been observed with all others, with the noise of the fit; the mean stays."""
    rng = np.random.default_rng(2)
    X, pending, bad = rng.random((12, 2)), rng.random((2, 2)), rng.random((n_bad, 2))
    model = _fit(X, _quadratic(X))
    before = model.penalize_failures(bad)
    U, W = (inputs(rows, model.features) for rows in (pending, bad))
    worth = np.minimum(model.ball.mean(W), np.median(model.z))
    together = NetworkBall.from_data(
        model.ball.linear,
        np.concatenate([before.rows.U, U]),
        np.concatenate([model.z, worth, before.mean(U)]),
        np.concatenate([before.noise, np.full(2, model.noise_variance)]),
    )
    P = rng.random((9, 2))
    at = inputs(P, model.features)
    mean, variance = model.posterior_after(pending, bad).predict(P)
    np.testing.assert_allclose(mean, before.mean(at), atol=1e-8)
    np.testing.assert_allclose(variance, together.predict(at)[1], rtol=1e-6)
    assert (variance < before.predict(at)[1]).all()


def test_noise_can_be_known_or_none() -> None:
    """Known variances are used as they are; a deterministic fit has the floor; λ can be given."""
    rng = np.random.default_rng(0)
    X = rng.random((10, 2))
    y = _quadratic(X)
    variances = np.full(10, np.nan)
    variances[3] = 0.01
    model = _fit(X, y, noise_variance=variances)
    expected = 0.01 * model.transform.derivative(y[3:4])[0] ** 2
    assert model.ball.noise[3] == pytest.approx(expected)
    assert _fit(X, y, deterministic=True).noise_variance == pytest.approx(STATED_NOISE_FLOOR)
    assert _fit(X, y, regularization=0.07).noise_variance == pytest.approx(0.07)


def test_warm_fits_continue() -> None:
    """A warm fit is not worse than the cold one it continues, and remembers when that was."""
    X = np.random.default_rng(0).random((20, 3))
    y = _quadratic(X)
    cold = _fit(X, y)
    stored = WarmNetwork.from_json(json.loads(json.dumps(cold.warm_start.to_json())))
    assert stored is not None
    warm = _fit(X, y, warm_start=stored)
    assert warm.warm_start.n_cold == cold.warm_start.n_cold == 20
    more = np.random.default_rng(1).random((8, 3))
    X, y = np.concatenate([X, more]), np.concatenate([y, _quadratic(more)])
    assert _fit(X[:26], y[:26], warm_start=stored).warm_start.n_cold == 20
    assert _fit(X, y, warm_start=stored).warm_start.n_cold == 28


def test_a_tiny_regularization_can_be_stored_and_extended() -> None:
    """Pending points beside observed ones have a positive definite Gram matrix."""
    X = np.random.default_rng(0).random((12, 2))
    surrogate = _fit(X, _quadratic(X), regularization=1e-25)
    assert WarmNetwork.from_json(surrogate.warm_start.to_json()) is not None
    pending = X[:3] + 1e-7
    mean, variance = surrogate.posterior_after(pending).predict(pending)
    np.testing.assert_allclose(mean, surrogate.predict_mean(pending), atol=1e-4)
    assert (variance >= 0.0).all()


@pytest.mark.parametrize(
    "change", [{"theta": [0.0]}, {"power": 0.3}, {"hidden": "~"}, {"n_cold": 0}]
)
def test_malformed_state_is_refused(change: dict[str, Any]) -> None:
    """Whatever shared storage holds in its place, it is no state, and reading does not raise."""
    X = np.random.default_rng(0).random((5, 2))
    state = _fit(X, _quadratic(X)).warm_start.to_json()
    assert WarmNetwork.from_json(state) is not None
    assert WarmNetwork.from_json({**state, **change}) is None
    assert WarmNetwork.from_json([1, 2]) is None
