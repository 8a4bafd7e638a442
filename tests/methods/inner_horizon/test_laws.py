"""Theorem 4: the multiplier of σ, by hand and against the bound of Lemma 2."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.methods.inner_horizon.laws import bilevel_beta

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


def test_weight_by_hand() -> None:
    """√(B² + t φ² / (σ² N)) with round numbers: √(9 + 8 · 4 / (0.5 · 4)) = 5."""
    beta = bilevel_beta([4 / 4] * 8, norm_bound=3.0, noise_variance=0.5)
    assert beta == pytest.approx(math.sqrt(9.0 + 8 * 4 / (0.5 * 4)), rel=1e-15)
    assert beta == pytest.approx(5.0, rel=1e-15)


def test_weight_of_a_growing_horizon_is_lemma_2s_sum() -> None:
    """N_t = 4 t²: the squared errors add up to 0.399 at t = 20, not to t / N_t = 0.0125.

    The independent computation is the quantity that (C.8) bounds: ‖ε‖² where every ε_i is as large
    as Theorem 1 allows, |ε_i| = 1 / √N_i.
    """
    horizon = InnerHorizon.growing(constant=4.0, phi=1.0)
    variances = [horizon.noise_variance(horizon.steps(i)) for i in range(20)]
    epsilon = np.array([1.0 / math.sqrt(4.0 * t * t) for t in range(1, 21)])
    assert float(epsilon @ epsilon) == pytest.approx(0.399, abs=5e-4)
    expected = math.sqrt(1.0 + float(epsilon @ epsilon) / 0.1)
    assert bilevel_beta([v for v in variances if v is not None]) == pytest.approx(expected)


def test_confidence_bound_of_lemma_2_holds_where_the_horizon_grows() -> None:
    """|μ_t - f| <= √(B² + ‖ε‖²/σ²) σ_t for a function of norm B and errors at Theorem 1's limit.

    With t φ²/N_t in place of the sum of all errors, which early ones dominate, it is broken.
    """
    rng = np.random.default_rng(3)
    steps = np.array([4 * t * t for t in range(1, 21)])
    X, grid = rng.random((20, 1)), np.linspace(0.0, 1.0, 201)[:, None]
    sigma2, scale, phi = 0.1, 0.1, 3.0

    def kernel(A: FloatArray, B: FloatArray) -> FloatArray:
        gaps: FloatArray = np.exp(-0.5 * np.square((A - B.T) / scale))
        return gaps

    weight = 1.0  # f = k(·, 0.5), of norm 1
    f = weight * kernel(grid, np.array([[0.5]]))[:, 0]
    errors = phi / np.sqrt(steps)
    y = weight * kernel(X, np.array([[0.5]]))[:, 0] + errors
    inverse = np.linalg.inv(kernel(X, X) + sigma2 * np.eye(20))
    cross = kernel(grid, X)
    mean = cross @ inverse @ y
    deviation = np.sqrt(1.0 - np.einsum("ij,jk,ik->i", cross, inverse, cross))
    ratio = float((np.abs(mean - f) / deviation).max())
    assert ratio <= bilevel_beta(np.square(errors), noise_variance=sigma2)
    assert ratio > bilevel_beta(np.full(20, phi**2 / steps[-1]), noise_variance=sigma2)


def test_weight_is_bounded_for_equal_orders_and_not_for_fewer_steps() -> None:
    """Section 4.2: constant in T with N ≍ T, towards B with more steps, T^(1/4) with N ≍ √T."""

    def at(n_outer: int, loss: Any) -> float:
        n_inner = InnerHorizon(n_outer=n_outer, loss=loss, constant=1.0).n_inner
        return bilevel_beta(np.full(n_outer, 1.0 / n_inner))

    assert at(100, "convex") == pytest.approx(at(10_000, "convex"), rel=1e-12)
    assert at(10_000, "nonconvex") == pytest.approx(1.0, abs=1e-3)
    assert at(160_000, "ucb-lean") / at(10_000, "ucb-lean") == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"squared_errors": [-1.0]}, "squared_errors must be finite numbers of at least 0, but"),
        ({"squared_errors": [math.inf]}, "squared_errors must be finite numbers of at least 0"),
        ({"norm_bound": 0.0}, "norm_bound must be a positive number"),
        ({"noise_variance": 0.0}, "noise_variance must be a positive number"),
    ],
)
def test_impossible_weights_are_refused(arguments: dict[str, Any], message: str) -> None:
    """By name, with the rule."""
    with pytest.raises(ValueError, match=message):
        bilevel_beta(**{"squared_errors": [1.0], **arguments})
