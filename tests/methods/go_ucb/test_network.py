"""The network: its gradients against numeric ones, its structure against the full Jacobian."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.methods.go_ucb.network import LinearizedNetwork, Network, Scales
from tests.oracles.ball import jacobian
from tests.oracles.differences import numeric_gradient, numeric_gradients

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.space.dimension import FloatArray


SCALES = Scales(constant=1.0, linear=0.7, quadratic=1.2, hill=1.1, output=2.0, hidden=1.5)
SIZES = [(1, 3), (3, 4), (5, 1)]


def _random(n_inputs: int, hidden_units: int, scales: Scales = SCALES) -> LinearizedNetwork:
    network = Network(n_inputs, hidden_units, scales)
    return network.at(np.random.default_rng(0).standard_normal(network.n_parameters))


def _inputs(n: int, n_inputs: int, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, n_inputs))


def test_output_is_the_documented_formula() -> None:
    """One output, written out with sums over entries."""
    linear = _random(3, 4)
    s, by = SCALES, linear.network.parts(linear.w)
    B = linear.network.matrix(linear.w)
    u = _inputs(1, 3)[0]
    value = s.constant * by.constant + s.linear * float(by.linear @ u) / np.sqrt(3.0)
    value += s.quadratic * sum(B[i, j] * u[i] * u[j] for i in range(3) for j in range(3)) / 3.0
    value += s.hill * (by.hill - 2.0) * np.sqrt(3.0) * (float(u @ u) / 3.0 - 1.0 / 3.0)
    for k in range(4):
        z = s.hidden * (float(by.hidden[k] @ u) / np.sqrt(3.0) + by.bias[k])
        value += s.output / 2.0 * by.output[k] / (1.0 + np.exp(-z))
    np.testing.assert_allclose(linear.outputs(u[None, :]), [value], rtol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_parameter_gradients_agree_with_numeric_ones(size: tuple[int, int]) -> None:
    """The Jacobian's rows are the outputs' gradients by the parameters."""
    linear = _random(*size)
    U = _inputs(4, size[0])

    def output(u: FloatArray) -> Callable[[FloatArray], float]:
        return lambda w: float(linear.network.at(w).outputs(u[None, :])[0])

    numeric = [numeric_gradient(output(u), linear.w) for u in U]
    np.testing.assert_allclose(jacobian(linear, U), numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scales", [SCALES, Scales(1.0, 1.0, 0.0, 0.0, 0.0, 1.0)])
def test_products_are_those_of_the_jacobian(size: tuple[int, int], scales: Scales) -> None:
    """J J'ᵀ, |g|², J w and Jᵀz without J equal those with it, also with parts left out."""
    linear = _random(*size, scales)
    U, V = _inputs(4, size[0]), _inputs(6, size[0], seed=2)
    J, J_other = jacobian(linear, U), jacobian(linear, V)
    rows, others = linear.rows(U), linear.rows(V)
    w = np.random.default_rng(3).standard_normal(linear.network.n_parameters)
    z = np.random.default_rng(4).standard_normal(4)
    np.testing.assert_allclose(linear.gram(rows, others), J @ J_other.T, atol=1e-12)
    np.testing.assert_allclose(linear.squared_norms(rows), np.square(J).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(linear.times(rows, w), J @ w, atol=1e-12)
    np.testing.assert_allclose(linear.transposed_times(rows, z), J.T @ z, atol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_input_gradients_of_products_agree_with_numeric_ones(size: tuple[int, int]) -> None:
    """Of |g|² less twice a weighted sum of products with other gradients."""
    linear = _random(*size)
    U, others = _inputs(4, size[0]), linear.rows(_inputs(6, size[0], seed=2))
    weights = np.random.default_rng(3).standard_normal((4, 6))

    def quantity(row: FloatArray) -> Callable[[FloatArray], float]:
        def at(u: FloatArray) -> float:
            rows = linear.rows(u[None, :])
            products = row @ linear.gram(rows, others)[0]
            return float(linear.squared_norms(rows)[0] - 2.0 * products)

        return at

    numeric = [numeric_gradient(quantity(row), u) for u, row in zip(U, weights, strict=True)]
    rows = linear.rows(U)
    gradients = linear.gradients(rows, linear.variance_partials(rows, others, weights))
    np.testing.assert_allclose(gradients, numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", SIZES)
def test_tangent_is_the_output_and_a_product_of_its_gradient(size: tuple[int, int]) -> None:
    """That is f + J w, as a function of the inputs, and its gradients by them."""
    linear = _random(*size)
    U = _inputs(4, size[0])
    w = np.random.default_rng(3).standard_normal(linear.network.n_parameters)
    tangent, rows = linear.tangent(w), linear.rows(U)
    expected = linear.outputs(U) + jacobian(linear, U) @ w
    np.testing.assert_allclose(tangent.outputs(rows), expected, rtol=1e-10, atol=1e-12)
    numeric = numeric_gradients(lambda X: tangent.outputs(linear.rows(X)), U)
    gradients = linear.gradients(rows, tangent.partials(rows))
    np.testing.assert_allclose(gradients, numeric, rtol=1e-6, atol=1e-8)
