"""Algorithm 1 to the letter: its ball, sums, schedules, oracle and ascent, one by one."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from bbo_plugins.space.dimension import FloatArray
from benchmarks.highdim.literal import (
    DualBall,
    LiteralGOUCB,
    PlainNetwork,
    linear_targets,
    maximize_in_ball,
)
from tests.oracles.ball import ConfidenceBall
from tests.oracles.differences import numeric_gradient

BOUNDS = np.array([[-5.0, 5.0], [0.0, 2.0]])
N_STARTUP, T = 3, 16
LAMBDA, BETA = 0.3, 1.7


def _weights(seed: int) -> FloatArray:
    network = PlainNetwork(2, 3)
    return np.random.default_rng(seed).standard_normal(network.n_parameters)


def _history(t: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return gradients, parameters, outputs and values, every round at other parameters."""
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1.0, 1.0, (t, 2)), rng.standard_normal(t)
    W = np.array([_weights(10 + i) for i in range(t)])
    rounds = [PlainNetwork(2, 3).gradients(w, x) for w, x in zip(W, X, strict=True)]
    return np.array([g for _, g, _ in rounds]), W, np.array([f for f, _, _ in rounds]), y


def _ball(t: int, start: FloatArray) -> tuple[DualBall, ConfidenceBall]:
    """Return the ball after ``t`` rounds, and the same as it is printed."""
    history = _history(t)
    targets = linear_targets(*history)
    options = {"regularization": LAMBDA, "beta": BETA}
    return (
        DualBall.from_history(history[0], targets, start, **options),
        ConfidenceBall.from_history(history[0], targets, start, **options),
    )


@pytest.mark.parametrize("t", [1, 5, 60])
def test_dual_equals_primal(t: int) -> None:
    """Centers, widths and lengths agree with few and many observations; Σ is Eq. (3)'s."""
    start = _weights(5)
    dual, primal = _ball(t, start)
    matrix = LAMBDA * np.eye(len(start))
    for gradient in _history(t)[0]:
        matrix += np.outer(gradient, gradient)
    np.testing.assert_allclose(primal.matrix, matrix)
    gradients = np.random.default_rng(7).standard_normal((9, len(start)))
    np.testing.assert_allclose(dual.center, primal.center, atol=1e-8)
    widths = np.sqrt(np.einsum("ij,ji->i", gradients, dual.precondition(gradients)))
    np.testing.assert_allclose(widths, primal.widths(gradients), atol=1e-8)
    for ball in (dual, primal):
        length = ball.squared_length(gradients[0])
        assert length == pytest.approx(gradients[0] @ matrix @ gradients[0], rel=1e-10)


def test_maximum_over_the_ball() -> None:
    """A linear function has its closed form; a network's value is SciPy's and inside the ball."""
    start = _weights(5)
    ball, reference = _ball(6, start)
    direction = np.random.default_rng(0).standard_normal(len(start))
    value, _ = maximize_in_ball(lambda w: (float(direction @ w), direction), ball)
    expected = direction @ ball.center + np.sqrt(BETA) * reference.widths(direction[None, :])[0]
    assert value == pytest.approx(expected, rel=1e-9)

    network, x = PlainNetwork(2, 3), np.array([0.3, -0.7])

    def output(w: FloatArray) -> tuple[float, FloatArray]:
        return network.gradients(w, x)[:2]

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


def _value(x: FloatArray) -> float:
    return float(np.sin(x[0]) - (x[1] - 1.0) ** 2 + 0.5)


def _run(n: int, seed: int = 0, **arguments: Any) -> tuple[LiteralGOUCB, FloatArray, FloatArray]:
    """Return the optimizer after ``n`` rounds of both phases, its points and their values."""
    arguments = {"n_rounds": T, "n_startup": N_STARTUP, "hidden_units": 4, **arguments}
    optimizer = LiteralGOUCB(BOUNDS, rng=np.random.default_rng(seed), **arguments)
    X = np.empty((n, 2))
    for i in range(n):
        X[i] = optimizer.ask()
        optimizer.tell(X[i], _value(X[i]))
    return optimizer, X, np.array([_value(x) for x in X])


def _best_in_ball(x: FloatArray, ball: DualBall) -> FloatArray:
    """Return the parameters (d_w,) of the ball with the largest value at ``x``."""
    network = PlainNetwork(2, 4)
    return maximize_in_ball(lambda w: network.gradients(w, x)[:2], ball)[1]


def test_network_is_the_formula_and_has_the_size_of_the_paper() -> None:
    """The function is w_2 sigmoid(W_1 x + b_1) + b_2; 25 units, 20 inputs: 551 parameters."""
    assert PlainNetwork(20, 25).n_parameters == 551
    network = PlainNetwork(3, 2)
    w, x = np.random.default_rng(0).standard_normal(11), np.array([0.3, -1.0, 2.0])
    z = w[:6].reshape(2, 3) @ x + w[6:8]
    expected = w[8:10] @ (1.0 / (1.0 + np.exp(-z))) + w[10]
    value, by_w, by_x = network.gradients(w, x)
    assert value == pytest.approx(expected, rel=1e-12)
    numeric = numeric_gradient(lambda v: network.gradients(v, x)[0], w)
    np.testing.assert_allclose(by_w, numeric, rtol=1e-6, atol=1e-9)
    numeric = numeric_gradient(lambda v: network.gradients(w, v)[0], x)
    np.testing.assert_allclose(by_x, numeric, rtol=1e-6, atol=1e-9)


def test_balls_are_the_equations_of_the_paper() -> None:
    """Round by round, Σ, ŵ, and β with their schedules, each round's gradient at its own ŵ."""
    _, X, y = _run(N_STARTUP + 4)
    network = PlainNetwork(2, 4)
    bound = np.abs(y[:N_STARTUP]).max()
    start = _run(N_STARTUP)[0].ball().center
    lam = math.sqrt(T) * math.log(T) ** 2
    sigma: FloatArray = lam * np.eye(len(start))
    right: FloatArray = lam * start
    for t in range(1, 6):
        ball = _run(N_STARTUP + t - 1)[0].ball()
        center = np.asarray(np.linalg.solve(sigma, right), dtype=np.float64)
        np.testing.assert_allclose(ball.center, center, atol=1e-8)
        assert ball.beta == pytest.approx(len(start) ** 3 * bound**4 * t / T, rel=1e-12)
        step = np.random.default_rng(t).standard_normal(len(start))
        assert ball.squared_length(step) == pytest.approx(step @ sigma @ step, rel=1e-10)
        if t < 5:
            i = N_STARTUP + t - 1
            f, gradient, _ = network.gradients(center, X[i])
            sigma = sigma + np.outer(gradient, gradient)
            right = right + gradient * (gradient @ center + y[i] - f)


def test_oracle_takes_the_steps_of_the_paper() -> None:
    """2,000 steps at 1e-11 are one of 2e-8, as the slope of the squared error does not change."""
    optimizer, X, y = _run(N_STARTUP)
    network, rng = PlainNetwork(2, 4), np.random.default_rng(0)
    rng.uniform(size=2 * N_STARTUP)
    w = network.initial(rng)

    def loss(v: FloatArray) -> float:
        outputs = np.array([network.gradients(v, x)[0] for x in X])
        return float(np.square(outputs - y).mean())

    step = optimizer.ball().center - w
    np.testing.assert_allclose(step, -2e-8 * numeric_gradient(loss, w), rtol=1e-4, atol=1e-14)
    exact = _run(N_STARTUP, exact=True)[0].ball().center
    assert loss(exact) < 1e-6 < loss(w)


@pytest.mark.parametrize("bound", [1e-6, 0.03, 30.0])
def test_ascent_takes_the_steps_of_the_paper_within_the_ball(bound: float) -> None:
    """Up x and w together, both clipped; w is stuck in a tiny ball, free in a large one."""
    optimizer, _, _ = _run(N_STARTUP + 1, value_bound=bound, n_rounds=2)
    ball, network = optimizer.ball(), PlainNetwork(2, 4)
    rng = np.random.default_rng(0)
    rng.uniform(size=2 * N_STARTUP)
    network.initial(rng)
    rng.uniform(size=2)
    x, w = rng.uniform(BOUNDS[:, 0], BOUNDS[:, 1]), ball.center
    for _ in range(2000):
        _, by_w, by_x = network.gradients(w, x)
        x, w = np.clip(x + 1e-4 * by_x, BOUNDS[:, 0], BOUNDS[:, 1]), w + 1e-4 * by_w
        length = math.sqrt(ball.squared_length(w - ball.center))
        radius = math.sqrt(ball.beta)
        if length > radius:
            w = ball.center + (w - ball.center) * radius / length
    np.testing.assert_allclose(optimizer.ask(), x, rtol=1e-12)


def test_exact_step_cannot_be_improved_by_moving_the_point() -> None:
    """With the parameters that are best for it, the point is where f is stationary in the box."""
    for seed in range(3):
        optimizer, _, _ = _run(N_STARTUP + 2, seed, value_bound=0.1, exact=True)
        ball, x = optimizer.ball(), optimizer.ask()
        w = _best_in_ball(x, ball)
        by_x = PlainNetwork(2, 4).gradients(w, x)[2]
        moved = np.clip(x + by_x, BOUNDS[:, 0], BOUNDS[:, 1])
        np.testing.assert_allclose(moved, x, atol=2e-3)
