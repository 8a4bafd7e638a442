r"""Matérn-5/2 covariance with one length-scale per dimension (ARD), and a trend on request.

    k(x, x') = s² · (1 + √5 r + 5/3 r²) · exp(-√5 r),      r² = Σ_i d_i(x_i, x'_i)² / ℓ_i²

where ``d_i`` is ``|x_i - x'_i|`` for a numeric dimension and ``1[x_i ≠ x'_i]`` (Hamming) for a
categorical one.

Columns are scaled by √5/ℓ, so that R² = 5 r² is their squared Euclidean distance.

A categorical dimension is expanded to one-hot columns scaled by 1/√2, which turns its Hamming
distance into a Euclidean one. Every R² is then a single matrix product in scaled coordinates,
whatever the kinds of the dimensions.

The trend is a polynomial of the second degree in the numeric dimensions with a random weight of
each term, with t = 2x - 1 there, and squares have a second weight of their own:

    k(x, x') = s² · (Matérn + τ₁² t·t' + τ₂² (t·t')² + τ₃² q·q'),      q_i = t_i² - 1/3

It reaches as far as the space does, where the Matérn part forgets beyond a length-scale. (t·t')²
has a term for each pair of dimensions, q·q' one for each dimension: few observations teach those.
q_i has mean 0 over the range. A categorical dimension has no part in the trend. A conditional space
has no trend: one made results no better there.

| symbol | shape   | meaning                                                       |
|--------|---------|---------------------------------------------------------------|
| X      | (n, d)  | points of the unit cube                                       |
| F      | (n, D)  | their feature columns; D = d when no dimension is categorical |
| T      | (n, c)  | t of the c numeric dimensions, in [-1, 1]                     |
| P      | (n, m)  | t·t'                                                          |
| Q      | (n, c)  | q of the c numeric dimensions                                 |
| τ      | (3,)    | scales of the trend's linear, quadratic and separable part    |
| ℓ      | (d,)    | length-scales, in units of the unit cube                      |
| r²     | (n, m)  | scaled squared distances                                      |

Source: Rasmussen & Williams (2006), Eq. (4.17), section 5.1 (ARD), and section 4.2.2 (the trend).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray, IntArray

_SQRT_5 = math.sqrt(5.0)
# Distances are computed from centered columns: less cancellation in |a|² + |b|² - 2ab.
_CENTER = 0.5


@dataclass(frozen=True)
class FeatureMap:
    """Maps points of the unit cube to the Euclidean feature columns of the kernel.

    Attributes:
        n_categories: Per dimension, the number of categories, or 0 for a numeric dimension.
        n_together: Per dimension, how many vary together with it: the priors of the length-scales
            depend on that; None if all d do.
        trend: Whether the kernel that is fitted has a trend.
    """

    n_categories: tuple[int, ...]
    n_together: tuple[float, ...] | None = None
    trend: bool = False

    @classmethod
    def of(cls, space: SearchSpace, *, trend: bool = False) -> FeatureMap:
        """Return the feature map of a search space.

        With a parameter that has a condition vary those that are active beside it, on average over
        the space. In a space with conditions there is no trend, also if one is asked for.
        """
        n_categories = tuple(space.n_categories.tolist())
        if not space.is_conditional:
            return cls(n_categories, trend=trend)
        together = (
            space.mean_n_active if n in space.conditions else len(space) for n in space.names
        )
        return cls(n_categories, tuple(map(float, together)))

    @cached_property
    def dimension_of_column(self) -> IntArray:
        """Index of the dimension, hence of the length-scale, behind each column, shape (D,)."""
        widths = [max(1, count) for count in self.n_categories]
        return np.repeat(np.arange(len(widths)), widths)

    @cached_property
    def numeric(self) -> IntArray:
        """Indices of the numeric dimensions."""
        return np.flatnonzero(np.asarray(self.n_categories) == 0)

    @cached_property
    def numeric_columns(self) -> IntArray:
        """Feature columns of the numeric dimensions, in the order of :attr:`numeric`."""
        return np.flatnonzero(np.asarray(self.n_categories)[self.dimension_of_column] == 0)

    @cached_property
    def _categorical(self) -> list[tuple[int, int]]:
        """Index of each categorical dimension, and its first feature column."""
        indices = np.flatnonzero(self.n_categories)
        firsts = np.searchsorted(self.dimension_of_column, indices)
        return [*zip(indices.tolist(), firsts.tolist(), strict=True)]

    @property
    def n_in_trend(self) -> int | None:
        """Number of dimensions that have a part in the trend, None without a trend."""
        return len(self.numeric) if self.trend else None

    @property
    def all_numeric(self) -> bool:
        """Whether no dimension is categorical."""
        return not any(self.n_categories)

    def columns(self, X: FloatArray) -> FloatArray:
        """Return the feature columns of ``X`` (n, d), shape (n, D).

        Category ``k`` of ``c`` is read from anywhere inside its cell ``[k/c, (k+1)/c)``.
        """
        if self.all_numeric:
            return X - _CENTER
        F = np.zeros((len(X), len(self.dimension_of_column)))
        F[:, self.numeric_columns] = X[:, self.numeric] - _CENTER
        rows = np.arange(len(X))
        for i, first in self._categorical:
            count = self.n_categories[i]
            category = np.clip((X[:, i] * count).astype(np.int64), 0, count - 1)
            F[rows, first + category] = math.sqrt(0.5)
        return F

    def scaled(self, X: FloatArray, length_scales: FloatArray) -> FloatArray:
        """Return the feature columns times √5 over their length-scales, shape (n, D)."""
        scaled: FloatArray = self.columns(X) * (_SQRT_5 / length_scales)[self.dimension_of_column]
        return scaled

    def trend_columns(self, X: FloatArray) -> FloatArray:
        """Return t = 2x - 1 of the numeric dimensions of ``X`` (n, d), shape (n, c)."""
        columns: FloatArray = 2.0 * (X[:, self.numeric] - _CENTER)
        return columns

    def sum_by_dimension(self, per_column: FloatArray) -> FloatArray:
        """Add up a quantity per feature column (D,) to one per dimension (d,)."""
        if self.all_numeric:
            return per_column
        summed = np.zeros(len(self.n_categories))
        np.add.at(summed, self.dimension_of_column, per_column)
        return summed


@dataclass(frozen=True)
class Trend:
    """The trend's kernel relative to s², between points that are given by their t.

    Attributes:
        linear: τ₁².
        quadratic: τ₂².
        separable: τ₃².
    """

    linear: float
    quadratic: float
    separable: float

    def kernel(self, T: FloatArray, S: FloatArray) -> FloatArray:
        """Return the kernel between ``T`` (n, c) and ``S`` (m, c), shape (n, m)."""
        P = T @ S.T
        K = self.quadratic * P
        K += self.linear
        K *= P
        K += (self.separable * centered_squares(T)) @ centered_squares(S).T
        return K

    def kernel_of_pairs(self, T: FloatArray, S: FloatArray) -> FloatArray:
        """Return the kernel between each row of ``T`` (n, c) and that of ``S`` (n, c), (n,)."""
        p = np.einsum("ij,ij->i", T, S)
        separable = np.einsum("ij,ij->i", centered_squares(T), centered_squares(S))
        kernel: FloatArray = (self.quadratic * p + self.linear) * p + self.separable * separable
        return kernel

    def variance(self, T: FloatArray) -> FloatArray:
        """Return k(t, t) of each row of ``T`` (n, c), shape (n,)."""
        return self.kernel_of_pairs(T, T)

    def gradient(self, T: FloatArray, S: FloatArray, weights: FloatArray) -> FloatArray:
        """Return Σ_j w_ij ∂k(t_i, s_j)/∂t_i for each row of ``T`` (n, c), shape (n, c).

        Args:
            T: The points t, shape (n, c).
            S: The points s, shape (m, c).
            weights: w, shape (n, m), or (m,) for the same ones in every row.
        """
        slope = T @ S.T
        slope *= 2.0 * self.quadratic
        slope += self.linear
        slope *= weights
        gradient: FloatArray = slope @ S
        gradient += (2.0 * self.separable) * T * (weights @ centered_squares(S))
        return gradient

    def variance_gradient(self, T: FloatArray) -> FloatArray:
        """Return ∂k(t, t)/∂t for each row of ``T`` (n, c), shape (n, c)."""
        p = np.einsum("ij,ij->i", T, T)[:, None]
        along_t = 2.0 * self.quadratic * p + self.linear
        gradient: FloatArray = 2.0 * T * (along_t + 2.0 * self.separable * centered_squares(T))
        return gradient


def centered_squares(T: FloatArray) -> FloatArray:
    """Return t² - 1/3, whose mean over the range is 0, for t of any shape."""
    squares: FloatArray = np.square(T)
    squares -= 1.0 / 3.0
    return squares


def left_factor(A: FloatArray) -> FloatArray:
    """Return columns (n, D + 2) whose product with :func:`right_factor` is |a_i - b_j|²."""
    norms = np.einsum("ij,ij->i", A, A)
    return np.concatenate([-2.0 * A, norms[:, None], np.ones((len(A), 1))], axis=1)


def right_factor(B: FloatArray) -> FloatArray:
    """Return the counterpart (m, D + 2) of :func:`left_factor`."""
    norms = np.einsum("ij,ij->i", B, B)
    return np.concatenate([B, np.ones((len(B), 1)), norms[:, None]], axis=1)


def squared_distances(
    left: FloatArray, right: FloatArray, out: FloatArray | None = None
) -> FloatArray:
    """Return |a_i - b_j|², never negative, by one matrix product.

    Args:
        left: :func:`left_factor` of n points, shape (n, D + 2).
        right: :func:`right_factor` of m points, shape (m, D + 2).
        out: Array (n, m) for the result, or None.

    Returns:
        Shape (n, m).
    """
    R2 = np.matmul(left, right.T, out=out)
    return np.maximum(R2, 0.0, out=R2)


def matern52(R2: FloatArray) -> FloatArray:
    """Return the correlation at R² = 5 r² (any shape), the squared distance of scaled columns.

    ``R2`` is overwritten.
    """
    R = np.sqrt(R2)
    R2 *= 1.0 / 3.0
    R2 += R
    R2 += 1.0
    np.negative(R, out=R)
    R2 *= np.exp(R, out=R)
    return R2


def matern52_and_slope(
    R2: FloatArray, buffers: tuple[FloatArray, FloatArray] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the correlation and -2 · its derivative with respect to R² = 5 r².

    The second, (1 + R) exp(-R) / 3, is the factor that every gradient of the kernel shares; it is
    finite at R = 0.

    Args:
        R2: Squared distances of scaled columns, any shape; overwritten.
        buffers: Two arrays of that shape to be overwritten, or None for new ones.

    Returns:
        Two arrays of that shape.
    """
    R, slope = buffers or (np.empty_like(R2), np.empty_like(R2))
    np.sqrt(R2, out=R)
    np.negative(R, out=slope)
    np.exp(slope, out=slope)
    R += 1.0
    R2 *= 1.0 / 3.0
    R2 += R
    R2 *= slope
    slope *= R
    slope *= 1.0 / 3.0
    return R2, slope
