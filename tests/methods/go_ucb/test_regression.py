"""The regression oracle: minima against SciPy's and closed forms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import optimize

from bbo_plugins.methods.go_ucb.network import Network, Scales
from bbo_plugins.methods.go_ucb.regression import fit
from tests.oracles.ball import jacobian

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


SCALES = Scales(constant=1.0, linear=0.7, quadratic=0.5, hill=0.4, output=2.0, hidden=1.5)
LINEAR = Scales(constant=1.0, linear=0.7, quadratic=0.5, hill=0.4, output=0.0, hidden=1.0)


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
