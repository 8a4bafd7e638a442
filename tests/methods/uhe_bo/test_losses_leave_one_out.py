"""The leave-one-out density against refits without each observation, and numeric gradients."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods.uhe_bo.losses import LeaveOneOut
from tests.gp.random_data import Noise, random_data, random_theta
from tests.oracles import dense
from tests.oracles.differences import numeric_gradient

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


def _refitted_densities(K: FloatArray, y: FloatArray) -> FloatArray:
    """Return log p(y_i | y_-i) by conditioning on all the others, one at a time, (n,)."""
    densities = np.empty(len(y))
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        mean, variance = dense.posterior(
            K[np.ix_(rest, rest)], K[np.ix_([i], rest)], K[np.ix_([i], [i])], y[rest]
        )
        residual, spread = y[i] - float(mean[0]), float(variance[0, 0])
        densities[i] = -0.5 * (residual**2 / spread + math.log(2.0 * math.pi * spread))
    return densities


@given(
    counts=st.lists(st.sampled_from([0, 0, 1, 2, 5]), min_size=1, max_size=5).map(tuple),
    n=st.integers(1, 12),
    noise=st.sampled_from(["fitted", "floor", "partly known", "known"]),
    weighted=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_value_and_gradient_agree_with_refits(
    counts: tuple[int, ...], n: int, noise: Noise, weighted: bool, seed: int
) -> None:
    """Mixed kinds, every way to state the noise, any weights: the sum of n refits' densities."""
    rng = np.random.default_rng(seed)
    d = len(counts)
    features = FeatureMap(counts)
    X, y, known = random_data(rng, features, n, noise)
    weights = rng.uniform(0.0, 3.0, n) if weighted else np.ones(n)
    criterion = LeaveOneOut(X, y, features, weights, known_noise=known, fit_noise=noise != "floor")
    theta = random_theta(rng, d)[: criterion.n_parameters]
    value, gradient = criterion(theta)
    K = dense.noisy_covariance(X, theta, counts, known)
    expected = float(weights @ _refitted_densities(K, y))
    # Without noise on the diagonal the matrix is badly conditioned, for both sides.
    tolerance = 1e-4 if noise == "floor" else 1e-8
    assert value == pytest.approx(expected, rel=tolerance, abs=tolerance)
    numeric = numeric_gradient(lambda t: criterion(t)[0], theta)
    scale = max(1.0, float(np.abs(numeric).max()))
    np.testing.assert_allclose(gradient, numeric, atol=10.0 * tolerance * scale)
