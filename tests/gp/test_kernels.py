"""The kernel against scikit-learn's and against its formula, entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import Matern

from bbo_plugins.gp.kernels import (
    FeatureMap,
    Trend,
    left_factor,
    matern52,
    matern52_and_slope,
    right_factor,
    squared_distances,
)
from tests.oracles import dense

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

COUNTS = st.lists(st.integers(0, 6), min_size=1, max_size=6).map(tuple)


def _squared_distances(
    X: FloatArray, Z: FloatArray, length_scales: FloatArray, n_categories: tuple[int, ...]
) -> FloatArray:
    """Return R² = 5 r² as the package computes it."""
    features = FeatureMap(n_categories)
    left = left_factor(features.scaled(X, length_scales))
    return squared_distances(left, right_factor(features.scaled(Z, length_scales)))


def _correlation(
    X: FloatArray, Z: FloatArray, length_scales: FloatArray, n_categories: tuple[int, ...]
) -> FloatArray:
    return matern52(_squared_distances(X, Z, length_scales, n_categories))


@pytest.mark.parametrize("d", [1, 3, 20])
def test_matern_agrees_with_scikit_learn(d: int) -> None:
    """On numeric dimensions this is scikit-learn's Matern(nu=2.5) with a scale per dimension."""
    rng = np.random.default_rng(d)
    X, Z = rng.random((30, d)), rng.random((17, d))
    length_scales = 10.0 ** rng.uniform(-1.3, 1.0, size=d)
    theirs = Matern(length_scale=length_scales, nu=2.5)(X, Z)
    np.testing.assert_allclose(_correlation(X, Z, length_scales, (0,) * d), theirs, atol=1e-12)


@given(counts=COUNTS, seed=st.integers(0, 2**32 - 1))
def test_mixed_dimensions_agree_with_the_formula(counts: tuple[int, ...], seed: int) -> None:
    """Numeric dimensions contribute |x - z|²/ℓ², categorical ones 1[x ≠ z]/ℓ², from any cell."""
    rng = np.random.default_rng(seed)
    X, Z = rng.random((5, len(counts))), rng.random((4, len(counts)))
    Z[0] = X[0]
    length_scales = 10.0 ** rng.uniform(-1.0, 1.0, size=len(counts))
    theirs = [[dense.scaled_distance(x, z, length_scales, counts) for z in Z] for x in X]
    ours = _squared_distances(X, Z, length_scales, counts) / 5.0
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(
        _correlation(X, Z, length_scales, counts),
        dense.covariance(X, Z, length_scales, 1.0, counts),
        atol=1e-11,
    )


def test_slope_is_the_derivative_by_squared_distance() -> None:
    """The second value is -2 dk/dR², here from the closed form, and 1/3 at R = 0."""
    R2 = np.array([0.0, 1e-16, 1e-8, 1e-3, 0.3, 1.0, 40.0, 1e4])
    correlation, slope = matern52_and_slope(R2.copy())
    R = np.sqrt(R2)
    np.testing.assert_allclose(correlation, [dense.matern(value / 5.0) for value in R2], rtol=1e-13)
    np.testing.assert_allclose(slope, (1.0 + R) * np.exp(-R) / 3.0, rtol=1e-13)
    np.testing.assert_allclose(matern52(R2.copy()), correlation, rtol=1e-14)
    for value in (1e-3, 0.3, 1.0, 40.0):
        step = 1e-4 * value
        rise = dense.matern((value + step) / 5.0) - dense.matern((value - step) / 5.0)
        expected = -2.0 * rise / (2.0 * step)
        assert matern52_and_slope(np.array([value]))[1][0] == pytest.approx(expected, rel=1e-6)


def test_trend_columns_are_those_of_numeric_dimensions() -> None:
    """From -1 to 1 over the range, 0 at the middle, where an inactive parameter is; no category."""
    X = np.array([[0.0, 0.9, 1.0], [0.5, 0.1, 0.25]])
    columns = FeatureMap((0, 3, 0)).trend_columns(X)
    np.testing.assert_allclose(columns, [[-1.0, 1.0], [0.0, -0.5]])


def test_trend_is_a_polynomial_and_its_slope_the_derivative() -> None:
    """τ₁² P + τ₂² P², entry by entry; the argument is left alone."""
    trend, P = Trend(0.3, 0.7), np.array([[-2.0, 0.0], [0.5, 3.0]])
    before = P.copy()
    np.testing.assert_allclose(trend.kernel(P), 0.3 * P + 0.7 * P**2)
    numeric = (trend.kernel(P + 1e-6) - trend.kernel(P - 1e-6)) / 2e-6
    np.testing.assert_allclose(trend.slope(P), numeric, rtol=1e-8)
    assert np.array_equal(P, before)
