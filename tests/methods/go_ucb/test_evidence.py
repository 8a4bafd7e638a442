"""The scales' evidence: against dense densities and numeric gradients; what its maximum finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from bbo_plugins.gp.likelihood import NOISE_FLOOR, STATED_NOISE_FLOOR
from bbo_plugins.methods.go_ucb.evidence import (
    GROWTH,
    LOG_NOISE,
    N_THETA,
    TYPICAL,
    NoiseModel,
    ScaleEvidence,
    log_prior,
    maximize_evidence,
    network_with,
)
from tests.oracles.ball import jacobian
from tests.oracles.differences import numeric_gradient

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


N = 12


def _theta(seed: int = 1) -> FloatArray:
    theta = TYPICAL + 0.3 * np.random.default_rng(seed).standard_normal(N_THETA)
    theta[0], theta[LOG_NOISE] = 0.0, -2.0
    return theta


def _noise(U: FloatArray) -> NoiseModel:
    known = np.full(len(U), np.nan)
    known[2], known[5] = 0.1, 0.0
    return NoiseModel.around(3, U, known)


def _problem() -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    U, z = rng.uniform(-1.0, 1.0, (N, 3)), rng.standard_normal(N)
    return U, z, rng.standard_normal(network_with(TYPICAL, 3, 4).n_parameters)


def _evidence() -> ScaleEvidence:
    U, z, w = _problem()
    return ScaleEvidence(network_with(_theta(), 3, 4).at(w), _theta(), U, z, _noise(U))


def test_value_is_the_density_of_the_linearized_network() -> None:
    """At the present scales: a normal density with the Jacobian's Gram matrix, plus the prior."""
    U, z, w = _problem()
    linear = network_with(_theta(), 3, 4).at(w)
    J = jacobian(linear, U)
    covariance = J @ J.T + np.diag(_noise(U).variances(_theta()))
    density = stats.multivariate_normal(np.zeros(N), covariance)
    expected = density.logpdf(z - linear.outputs(U) + J @ w) + log_prior(_theta())
    assert _evidence()(_theta())[0] == pytest.approx(expected, rel=1e-10)


def test_value_elsewhere_is_that_of_the_rescaled_network() -> None:
    """The evidence of other scales is that of the same function written with those."""
    U, z, w = _problem()
    other = _theta(seed=2)
    network = network_with(_theta(), 3, 4)
    rescaled = network_with(other, 3, 4)
    moved = network.rescaled(w, np.exp((_theta() - other)[:LOG_NOISE]))
    np.testing.assert_allclose(
        rescaled.at(moved).outputs(U), network.at(w).outputs(U), rtol=1e-10, atol=1e-12
    )
    there = ScaleEvidence(rescaled.at(moved), other, U, z, _noise(U))
    assert there(other)[0] == pytest.approx(_evidence()(other)[0], rel=1e-10)


def test_gradient_agrees_with_a_numeric_one() -> None:
    """All entries of θ but the constant's scale, which is fixed."""
    evidence, theta = _evidence(), _theta(seed=2)
    value, gradient = evidence(theta)
    numeric = numeric_gradient(lambda t: evidence(t)[0], theta)
    assert np.isfinite(value)
    assert gradient[0] == 0.0
    np.testing.assert_allclose(gradient[1:], numeric[1:], rtol=1e-6, atol=1e-8)
    theta[LOG_NOISE], theta[GROWTH] = np.log(NOISE_FLOOR) - 0.1, 1.0  # some are at the floor
    by_variance = np.random.default_rng(0).standard_normal(N)
    noise = _noise(_problem()[0])
    there = noise.variances(theta)
    slopes = noise.gradient(there, by_variance)

    def in_floors(t: FloatArray) -> float:
        return float((noise.variances(t) - there) @ by_variance) / NOISE_FLOOR

    numeric = numeric_gradient(in_floors, theta)
    assert 0 < (noise.variances(theta) > NOISE_FLOOR).sum() < N
    np.testing.assert_allclose(slopes / NOISE_FLOOR, numeric[LOG_NOISE:], rtol=1e-6, atol=1e-8)


def test_maximum_is_stationary_and_higher() -> None:
    """With enough evaluations the gradient vanishes in what is free, inside the bounds."""
    evidence, start = _evidence(), _theta()
    before = evidence(start)[0]
    theta = maximize_evidence(evidence, start, fixed_noise=False, max_evaluations=500)
    value, gradient = evidence(theta)
    assert value > before
    assert np.abs(gradient[:GROWTH]).max() < 0.05
    assert theta[GROWTH] == 0.0  # at its bound, which it would like to pass
    assert gradient[GROWTH] < 0.0
    settled = maximize_evidence(evidence, start, fixed_noise=True, max_evaluations=500)
    np.testing.assert_array_equal(settled[LOG_NOISE:], start[LOG_NOISE:])
    assert before < evidence(settled)[0] <= value + 1e-6


def test_noise_grows_with_the_distance_from_the_best() -> None:
    """Known variances are kept, the floor holds; q = 0 makes all unknown ones equal."""
    U = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 2))
    known = np.full(30, np.nan)
    known[4], known[5] = 7.0, 0.0
    model = NoiseModel.around(0, U, known)
    theta = TYPICAL.copy()
    theta[GROWTH] = 0.0
    flat = model.variances(theta)
    assert flat[4] == 7.0
    assert flat[5] == STATED_NOISE_FLOOR
    np.testing.assert_allclose(np.delete(flat, [4, 5]), np.exp(theta[LOG_NOISE]))
    theta[GROWTH] = 1.0
    growing = np.delete(model.variances(theta), [4, 5])
    distances = np.delete(np.linalg.norm(U - U[0], axis=1), [4, 5])
    assert (np.diff(growing[np.argsort(distances)]) >= 0.0).all()
    assert growing[0] == growing.min()
