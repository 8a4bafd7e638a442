"""The kernel against scikit-learn's and against its formula, entry by entry."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import Matern

from bbo_plugins.gp.kernels import (
    FeatureMap,
    Trend,
    TrendColumns,
    left_factor,
    matern52,
    matern52_and_slope,
    right_factor,
    squared_distances,
)
from tests.oracles import dense
from tests.oracles.differences import numeric_gradients

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
    np.testing.assert_allclose(columns.t, [[-1.0, 1.0], [0.0, -0.5]])


@given(
    n=st.integers(1, 4),
    m=st.integers(1, 4),
    c=st.integers(0, 5),
    n_cosines=st.sampled_from([0, 1, 3, 20]),
    seed=st.integers(0, 2**32 - 1),
)
def test_trend_is_that_of_its_terms(n: int, m: int, c: int, n_cosines: int, seed: int) -> None:
    """The inner product of t_i, of all t_i t_j, and of the functions of each, by their weights."""
    rng = np.random.default_rng(seed)
    linear, quadratic, separable = weights = rng.uniform(0.1, 2.0, 3)
    T, S = rng.uniform(-1.0, 1.0, (n, c)), rng.uniform(-1.0, 1.0, (m, c))

    def product(t: FloatArray, s: FloatArray) -> float:
        polynomial = linear * (t @ s) + quadratic * np.sum(np.outer(t, t) * np.outer(s, s))
        pairs = zip(0.5 * (t + 1.0), 0.5 * (s + 1.0), strict=True)
        functions = sum(dense.separable_part(x, z, n_cosines) for x, z in pairs)
        return float(polynomial + separable * functions)

    trend = Trend(*weights.tolist())
    left, right = TrendColumns(T, n_cosines), TrendColumns(S, n_cosines)
    expected = np.array([[product(t, s) for s in S] for t in T])
    np.testing.assert_allclose(trend.kernel(left, right), expected, atol=1e-12)
    k = min(n, m)
    pairs = trend.kernel_of_pairs(left[:k], right[:k])
    np.testing.assert_allclose(pairs, np.diag(expected), atol=1e-12)
    np.testing.assert_allclose(trend.variance(left), [product(t, t) for t in T], atol=1e-12)
    parts = sum(weight * part for weight, part in zip(weights, left.parts(), strict=True))
    np.testing.assert_allclose(parts, trend.kernel(left, left), atol=1e-12)


def _weighted_sum(trend: Trend, S: TrendColumns, weights: FloatArray, T: FloatArray) -> FloatArray:
    return trend.kernel(TrendColumns(T, S.n_cosines), S) @ weights


@pytest.mark.parametrize("n_cosines", [0, 20])
def test_gradients_of_a_trend_agree_with_differences(n_cosines: int) -> None:
    """Of a weighted sum over other points, and of k(t, t)."""
    rng = np.random.default_rng(0)
    trend, columns = Trend(0.3, 0.7, 1.9), partial(TrendColumns, n_cosines=n_cosines)
    T, W = rng.uniform(-1.0, 1.0, (4, 3)), rng.normal(size=(4, 5))
    left, right = columns(T), columns(rng.uniform(-1.0, 1.0, (5, 3)))
    by_row = trend.gradient(left, right, W)
    for i, weights in enumerate(W):
        numeric = numeric_gradients(partial(_weighted_sum, trend, right, weights), T)
        np.testing.assert_allclose(by_row[i], numeric[i], atol=1e-7)
    numeric = numeric_gradients(lambda T: trend.variance(columns(T)), T)
    np.testing.assert_allclose(trend.variance_gradient(left), numeric, atol=1e-7)
