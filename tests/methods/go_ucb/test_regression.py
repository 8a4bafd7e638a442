"""Minima against SciPy's and closed forms; the ball against the paper's, LinUCB and a GP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import optimize

from bbo_plugins.methods.go_ucb.network import LinearizedNetwork, Network, Scales
from bbo_plugins.methods.go_ucb.regression import NetworkBall, fit
from tests.oracles.ball import ConfidenceBall, jacobian
from tests.oracles.differences import numeric_gradients

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


SCALES = Scales(constant=1.0, linear=0.7, quadratic=0.5, hill=0.4, output=2.0, hidden=1.5)
LINEAR = Scales(constant=1.0, linear=0.7, quadratic=0.5, hill=0.4, output=0.0, hidden=1.0)
LAMBDA, BETA = 0.3, 1.7


def _data(n: int, n_inputs: int, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    U = rng.uniform(-1.0, 1.0, (n, n_inputs))
    y = np.sin(2.0 * U[:, 0]) - U[:, -1] ** 2 + 0.1 * rng.standard_normal(n)
    return U, y, rng.uniform(0.01, 0.1, n)


def _residuals(network: Network, w: FloatArray, data: tuple[FloatArray, ...]) -> FloatArray:
    U, y, noise = data
    return np.concatenate([w, (network.at(w).outputs(U) - y) / np.sqrt(noise)])


def _fit(scales: Scales, n: int, iterations: int = 200) -> tuple[Network, FloatArray]:
    network = Network(2, 3, scales)
    start = 0.5 * np.random.default_rng(1).standard_normal(network.n_parameters)
    return network, fit(network, *_data(n, 2), start, max_iterations=iterations, tolerance=1e-14)


@pytest.mark.parametrize("n", [1, 6, 60])
def test_minimum_is_the_one_that_scipy_finds(n: int) -> None:
    """SciPy's least squares, started at the result, finds nothing lower; gradients vanish."""
    network, w = _fit(SCALES, n)
    data = _data(n, 2)

    def residuals(w: FloatArray) -> FloatArray:
        return _residuals(network, w, data)

    best = optimize.least_squares(residuals, w)
    assert 0.5 * np.square(residuals(w)).sum() == pytest.approx(best.cost, rel=1e-6)
    assert np.abs(best.grad).max() < 1e-4


@pytest.mark.parametrize("n", [6, 60])
def test_linear_problems_are_solved_exactly(n: int) -> None:
    """Without hidden units the minimum is that of the normal equations."""
    network, w = _fit(LINEAR, n)
    U, y, noise = _data(n, 2)
    linear = network.at(np.zeros(network.n_parameters))
    J = jacobian(linear, U)
    scaled = J / noise[:, None]
    expected = np.linalg.solve(
        np.eye(J.shape[1]) + J.T @ scaled, scaled.T @ (y - linear.outputs(U))
    )
    np.testing.assert_allclose(w, expected, atol=1e-6)


def test_undamped_step_is_a_fixed_point_at_convergence() -> None:
    """At the minimum the closed form of Eq. (5) around the prior mean gives the same weights."""
    network, w = _fit(SCALES, 8, iterations=3000)
    U, y, noise = _data(8, 2)
    linear = network.at(w)
    J = jacobian(linear, U)
    z = y - linear.outputs(U) + J @ w
    step = J.T @ np.linalg.solve(J @ J.T + np.diag(noise), z)
    np.testing.assert_allclose(step, w, atol=1e-4)


# ---------------------------------------------------------------------------------------- the ball


def _network(scales: Scales = SCALES, seed: int = 0) -> LinearizedNetwork:
    network = Network(2, 3, scales)
    return network.at(np.random.default_rng(seed).standard_normal(network.n_parameters))


def test_linear_model_is_linucb() -> None:
    """Without hidden units the bound is LinUCB's: ridge regression plus √β ‖φ(x)‖ in A⁻¹."""
    linear = _network(Scales(1.0, 1.0, 0.0, 0.0, 0.0, 1.0))
    rng = np.random.default_rng(1)
    U, y, X = rng.uniform(-1.0, 1.0, (7, 2)), rng.standard_normal(7), rng.uniform(-1, 1, (5, 2))
    phi, phi_new = (np.column_stack([np.ones(len(V)), V / np.sqrt(2.0)]) for V in (U, X))
    A = LAMBDA * np.eye(3) + phi.T @ phi
    theta = np.linalg.solve(A, phi.T @ y)
    expected = phi_new @ theta
    expected += np.sqrt(BETA * np.einsum("ij,jk,ik->i", phi_new, np.linalg.inv(A), phi_new))
    model = linear.network.at(np.zeros_like(linear.w))
    mean, variance = NetworkBall.from_data(model, U, y, np.full(7, LAMBDA)).predict(X)
    bound = mean + np.sqrt(BETA / LAMBDA * variance)
    np.testing.assert_allclose(bound, expected, atol=1e-10)


def test_frozen_features_are_a_gaussian_process() -> None:
    """With output weights only, mean and variance are a GP's with the features' kernel."""
    linear = _network(Scales(0.0, 0.0, 0.0, 0.0, 2.0, 1.5))
    w = linear.w.copy()
    w[linear.network.n_skip : linear.network.n_skip + 3] = 0.0  # the hidden layer has no effect
    rng = np.random.default_rng(1)
    U, y, X = rng.uniform(-1.0, 1.0, (7, 2)), rng.standard_normal(7), rng.uniform(-1, 1, (5, 2))
    model = linear.network.at(w)
    by = linear.network.parts(w)

    def features(V: FloatArray) -> FloatArray:
        z = 1.5 * (V @ by.hidden.T / np.sqrt(2.0) + by.bias)
        values: FloatArray = 2.0 / np.sqrt(3.0) / (1.0 + np.exp(-z))
        return values

    K, k, prior = (features(a) @ features(b).T for a, b in ((U, U), (X, U), (X, X)))
    solved = np.linalg.solve(K + LAMBDA * np.eye(7), np.column_stack([y, k.T]))
    variance = np.diag(prior - k @ solved[:, 1:])
    mean, predicted = NetworkBall.from_data(model, U, y, np.full(7, LAMBDA)).predict(X)
    np.testing.assert_allclose(mean, k @ solved[:, 0], atol=1e-10)
    np.testing.assert_allclose(predicted, variance, atol=1e-10)


def test_network_ball_is_the_reference_in_posterior_deviations() -> None:
    """Its center is Eq. (5) with ŵ_0 = 0, its variance λ ‖g‖² in the norm of Σ⁻¹."""
    linear = _network()
    rng = np.random.default_rng(1)
    U, X = rng.uniform(-1.0, 1.0, (6, 2)), rng.uniform(-1.0, 1.0, (5, 2))
    y = rng.standard_normal(6)
    J, J_new = jacobian(linear, U), jacobian(linear, X)
    targets = J @ linear.w + y - linear.outputs(U)
    reference = ConfidenceBall.from_history(
        J, targets, np.zeros_like(linear.w), regularization=LAMBDA, beta=BETA
    )
    ball = NetworkBall.from_data(linear, U, y, np.full(6, LAMBDA))
    np.testing.assert_allclose(linear.w + ball.step, reference.center, atol=1e-8)
    mean, variance = ball.predict(X)
    expected = linear.outputs(X) + J_new @ (reference.center - linear.w)
    np.testing.assert_allclose(mean, expected, atol=1e-8)
    np.testing.assert_allclose(ball.mean(X), mean, rtol=1e-12)
    np.testing.assert_allclose(variance, LAMBDA * np.square(reference.widths(J_new)), atol=1e-8)


def test_predictions_and_their_gradients_agree() -> None:
    """Both forms predict the same; gradients agree with numeric ones."""
    rng = np.random.default_rng(1)
    U, X = rng.uniform(-1.0, 1.0, (6, 2)), rng.uniform(-1.0, 1.0, (5, 2))
    ball = NetworkBall.from_data(_network(), U, rng.standard_normal(6), rng.uniform(0.1, 0.5, 6))
    outputs, variance, pullback = ball.predict_with_pullback(X)
    by_output, by_variance = pullback(np.ones(5), np.zeros(5)), pullback(np.zeros(5), np.ones(5))
    factors = rng.standard_normal((2, 5, 1))
    both = factors[0] * by_output + factors[1] * by_variance
    np.testing.assert_allclose(pullback(*factors[..., 0]), both, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(outputs, ball.predict(X)[0], rtol=1e-12)
    np.testing.assert_allclose(variance, ball.predict(X)[1], rtol=1e-10)
    numeric = numeric_gradients(lambda V: ball.predict(V)[0], X)
    np.testing.assert_allclose(by_output, numeric, rtol=1e-6, atol=1e-8)
    numeric = numeric_gradients(lambda V: ball.predict(V)[1], X)
    np.testing.assert_allclose(by_variance, numeric, rtol=1e-6, atol=1e-8)
