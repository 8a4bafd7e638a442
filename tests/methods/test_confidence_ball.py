"""The ball of parameters: closed forms against minimizers, dual against primal, reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import optimize

from bbo_plugins.methods.go_ucb.ball import (
    ConfidenceBall,
    DualBall,
    NetworkBall,
    linear_targets,
    maximize_in_ball,
)
from bbo_plugins.methods.go_ucb.network import LinearizedNetwork, Network, Scales
from tests.oracles.differences import numeric_gradients

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


SCALES = Scales(constant=1.0, linear=0.7, quadratic=0.5, hill=0.4, output=2.0, hidden=1.5)
LAMBDA, BETA = 0.3, 1.7
KINDS: list[type[ConfidenceBall | DualBall]] = [ConfidenceBall, DualBall]


def _network(scales: Scales = SCALES, seed: int = 0) -> LinearizedNetwork:
    network = Network(2, 3, scales)
    return network.at(np.random.default_rng(seed).standard_normal(network.n_parameters))


def _history(t: int, seed: int = 1) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return gradients, parameters, outputs and values, every round at other parameters."""
    rng = np.random.default_rng(seed)
    U, y = rng.uniform(-1.0, 1.0, (t, 2)), rng.standard_normal(t)
    rounds = [_network(seed=10 + i) for i in range(t)]
    return (
        np.concatenate([model.jacobian(u[None, :]) for model, u in zip(rounds, U, strict=True)]),
        np.array([model.w for model in rounds]),
        np.array([float(model.outputs(u[None, :])[0]) for model, u in zip(rounds, U, strict=True)]),
        y,
    )


def _ball(
    kind: type[ConfidenceBall | DualBall], t: int, start: FloatArray
) -> ConfidenceBall | DualBall:
    history = _history(t)
    return kind.from_history(
        history[0], linear_targets(*history), start, regularization=LAMBDA, beta=BETA
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("t", [1, 5, 60])
def test_center_minimizes_equation_4(kind: type[ConfidenceBall | DualBall], t: int) -> None:
    """Eq. (5) is where SciPy finds the minimum of Eq. (4) as it is printed."""
    gradients, parameters, outputs, y = _history(t)
    start = _network(seed=5).w

    def residuals(w: FloatArray) -> FloatArray:
        linear = np.einsum("ij,ij->i", w - parameters, gradients) + outputs - y
        return np.concatenate([np.sqrt(LAMBDA) * (w - start), linear])

    slopes = np.concatenate([np.sqrt(LAMBDA) * np.eye(len(start)), gradients])

    def slope(_: FloatArray) -> FloatArray:
        return slopes

    best = optimize.least_squares(residuals, start, jac=slope, xtol=1e-15, ftol=1e-15, gtol=1e-14)
    np.testing.assert_allclose(_ball(kind, t, start).center, best.x, atol=1e-8)


@pytest.mark.parametrize("t", [1, 5, 60])
def test_dual_equals_primal(t: int) -> None:
    """Centers, widths and preconditioned gradients agree, with few and many observations."""
    start = _network(seed=5).w
    primal, dual = (_ball(kind, t, start) for kind in KINDS)
    gradients = _network(seed=6).jacobian(np.random.default_rng(7).uniform(-1.0, 1.0, (9, 2)))
    np.testing.assert_allclose(dual.center, primal.center, atol=1e-8)
    np.testing.assert_allclose(dual.widths(gradients), primal.widths(gradients), atol=1e-8)
    np.testing.assert_allclose(
        dual.precondition(gradients), primal.precondition(gradients), atol=1e-8
    )


def test_matrix_and_length_are_equations_3_and_6() -> None:
    """Σ is λI plus outer products; lengths are measured in its norm, primal and dual."""
    start = _network(seed=5).w
    ball = _ball(ConfidenceBall, 4, start)
    assert isinstance(ball, ConfidenceBall)
    matrix = LAMBDA * np.eye(len(start))
    for gradient in _history(4)[0]:
        matrix += np.outer(gradient, gradient)
    np.testing.assert_allclose(ball.matrix, matrix)
    step = np.random.default_rng(0).standard_normal(len(start))
    for kind in KINDS:
        length = _ball(kind, 4, start).squared_length(step)
        assert length == pytest.approx(step @ matrix @ step, rel=1e-10)


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
    zero = np.zeros_like(linear.w)
    model = linear.network.at(zero)
    for kind in KINDS:
        J = model.jacobian(U)
        targets = linear_targets(J, np.zeros_like(J), model.outputs(U), y)
        ball = kind.from_history(J, targets, zero, regularization=LAMBDA, beta=BETA)
        fitted = linear.network.at(ball.center)
        bound = fitted.outputs(X) + np.sqrt(BETA) * ball.widths(fitted.jacobian(X))
        np.testing.assert_allclose(bound, expected, atol=1e-10)
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
    J = model.jacobian(U)
    start = np.zeros_like(w)
    targets = linear_targets(J, np.tile(w, (7, 1)), model.outputs(U), y)
    ball = DualBall.from_history(J, targets, start, regularization=LAMBDA, beta=BETA)
    np.testing.assert_allclose(model.jacobian(X) @ ball.center, k @ solved[:, 0], atol=1e-10)
    variance = np.diag(prior - k @ solved[:, 1:])
    np.testing.assert_allclose(
        LAMBDA * np.square(ball.widths(model.jacobian(X))), variance, atol=1e-10
    )
    mean, predicted = NetworkBall.from_data(model, U, y, np.full(7, LAMBDA)).predict(X)
    np.testing.assert_allclose(mean, k @ solved[:, 0], atol=1e-10)
    np.testing.assert_allclose(predicted, variance, atol=1e-10)


def test_network_ball_is_the_reference_in_posterior_deviations() -> None:
    """Its center is Eq. (5) with ŵ_0 = 0, its variance λ ‖g‖² in the norm of Σ⁻¹."""
    linear = _network()
    rng = np.random.default_rng(1)
    U, X = rng.uniform(-1.0, 1.0, (6, 2)), rng.uniform(-1.0, 1.0, (5, 2))
    y = rng.standard_normal(6)
    J, J_new = linear.jacobian(U), linear.jacobian(X)
    targets = linear_targets(J, np.tile(linear.w, (6, 1)), linear.outputs(U), y)
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
    outputs, variance, by_output, by_variance = ball.predict_with_gradients(X)
    np.testing.assert_allclose(outputs, ball.predict(X)[0], rtol=1e-12)
    np.testing.assert_allclose(variance, ball.predict(X)[1], rtol=1e-10)
    numeric = numeric_gradients(lambda V: ball.predict(V)[0], X)
    np.testing.assert_allclose(by_output, numeric, rtol=1e-6, atol=1e-8)
    numeric = numeric_gradients(lambda V: ball.predict(V)[1], X)
    np.testing.assert_allclose(by_variance, numeric, rtol=1e-6, atol=1e-8)


def test_more_observations_shrink_the_ball_where_they_are() -> None:
    """The variance falls everywhere, most at the new point; none at all changes nothing."""
    rng = np.random.default_rng(1)
    U, new = rng.uniform(-1.0, 1.0, (6, 2)), np.array([[0.9, -0.8]])
    ball = NetworkBall.from_data(_network(), U, rng.standard_normal(6), np.full(6, 0.1))
    more = ball.with_more(new, np.array([0.1]))
    X = np.concatenate([new, rng.uniform(-1.0, 1.0, (20, 2))])
    ratio = more.predict(X)[1] / ball.predict(X)[1]
    assert (ratio < 1.0).all()
    assert ratio.argmin() == 0
    np.testing.assert_array_equal(more.predict(X)[0], ball.predict(X)[0])
    assert ball.with_more(new[:0], np.empty(0)) is ball


@pytest.mark.parametrize("kind", KINDS)
def test_maximum_over_the_ball(kind: type[ConfidenceBall | DualBall]) -> None:
    """A linear function has its closed form; a network's value is SciPy's and inside the ball."""
    start = _network(seed=5).w
    ball = _ball(kind, 6, start)
    reference = _ball(ConfidenceBall, 6, start)
    assert isinstance(reference, ConfidenceBall)
    direction = np.random.default_rng(0).standard_normal(len(start))
    value, _ = maximize_in_ball(lambda w: (float(direction @ w), direction), ball)
    expected = direction @ ball.center + np.sqrt(BETA) * ball.widths(direction[None, :])[0]
    assert value == pytest.approx(expected, rel=1e-9)

    network, u = _network().network, np.array([[0.3, -0.7]])

    def output(w: FloatArray) -> tuple[float, FloatArray]:
        model = network.at(w)
        return float(model.outputs(u)[0]), model.jacobian(u)[0]

    value, w = maximize_in_ball(output, ball)
    step = w - reference.center
    assert step @ reference.matrix @ step <= BETA * (1.0 + 1e-6)
    # A point of the ball is its center plus a step of a length up to √β in whitened coordinates.
    root = np.sqrt(BETA) * np.linalg.inv(np.linalg.cholesky(reference.matrix)).T

    def loss(v: FloatArray) -> float:
        return -output(reference.center + root @ v / max(1.0, float(np.linalg.norm(v))))[0]

    inside = np.linalg.solve(root, step)
    found = optimize.minimize(loss, inside, method="BFGS", options={"maxiter": 50})
    assert value == pytest.approx(-found.fun, rel=1e-4)
    assert value == pytest.approx(output(w)[0])
    assert value >= output(ball.center)[0]
