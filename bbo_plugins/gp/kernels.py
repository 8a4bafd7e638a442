r"""Matérn-5/2 covariance with one length-scale per dimension (ARD), and a trend on request.

    k(x, x') = s² · (1 + √5 r + 5/3 r²) · exp(-√5 r),      r² = Σ_i d_i(x_i, x'_i)² / ℓ_i²

where ``d_i`` is ``|x_i - x'_i|`` for a numeric dimension and ``1[x_i ≠ x'_i]`` (Hamming) for a
categorical one.

Columns are scaled by √5/ℓ, so that R² = 5 r² is their squared Euclidean distance.

A categorical dimension is expanded to one-hot columns scaled by 1/√2, which turns its Hamming
distance into a Euclidean one. Every R² is then a single matrix product in scaled coordinates,
whatever the kinds of the dimensions.

The trend is a polynomial of the second degree in the numeric dimensions with a random weight of
each term, with t = 2x - 1 there, and a separable part, a sum of functions of one dimension each:

    k(x, x') = s² · (Matérn + τ₁² t·t' + τ₂² (t·t')² + τ₃² φ·φ')

    φ_i = t_i² - 1/3,    or, for several minima along a dimension,
    φ_ik = w_k cos(π k x_i),    k = 1, ..., 20,    w_k² ∝ (1 + (0.12 π k)² / 5)^-3,    Σ_k w_k² = 1

It reaches as far as the space does, where the Matérn part forgets beyond a length-scale. (t·t')²
has a term for each pair of dimensions, φ·φ' is a sum over the dimensions: few observations teach
that. φ has mean 0 over the range. The cosines' weights have the spectrum of a Matérn-5/2 covariance
of length-scale 0.12: each dimension has a random function of its own. A categorical dimension has
no part in the trend. A conditional space has no trend: one made results no better there.

| symbol | shape   | meaning                                                          |
|--------|---------|------------------------------------------------------------------|
| X      | (n, d)  | points of the unit cube                                          |
| F      | (n, D)  | their feature columns; D = d when no dimension is categorical    |
| T      | (n, c)  | t of the c numeric dimensions, in [-1, 1]                        |
| P      | (n, m)  | t·t'                                                             |
| Φ      | (n, bc) | φ of the c numeric dimensions, b of each: a square or 20 cosines |
| τ      | (3,)    | scales of the trend's linear, quadratic and separable part       |
| ℓ      | (d,)    | length-scales, in units of the unit cube                         |
| r²     | (n, m)  | scaled squared distances                                         |

Sources: Rasmussen & Williams (2006), Eq. (4.17), section 5.1 (ARD), and section 4.2.2 (the
polynomial); Duvenaud, Nickisch & Rasmussen (2011), "Additive Gaussian processes"; Solin & Särkkä
(2020), "Hilbert space methods for reduced-rank Gaussian process regression" (the cosines).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray, IntArray

SQRT_5 = math.sqrt(5.0)
# Distances are computed from centered columns: less cancellation in |a|² + |b|² - 2ab.
_CENTER = 0.5
_N_COSINES = 20
_COSINE_LENGTH_SCALE = 0.12


@dataclass(frozen=True)
class FeatureMap:
    """Maps points of the unit cube to the Euclidean feature columns of the kernel.

    Attributes:
        n_categories: Per dimension, the number of categories, or 0 for a numeric dimension.
        n_together: Per dimension, how many vary together with it: the priors of the length-scales
            depend on that; None if all d do.
        trend: Whether the kernel that is fitted has a trend.
        cosines: Whether the separable part of the trend is made of cosines, not of squares.
    """

    n_categories: tuple[int, ...]
    n_together: tuple[float, ...] | None = None
    trend: bool = False
    cosines: bool = False

    @classmethod
    def of(cls, space: SearchSpace, *, trend: bool = False, cosines: bool = False) -> FeatureMap:
        """Return the feature map of a search space.

        With a parameter that has a condition vary those that are active beside it, on average over
        the space. In a space with conditions there is no trend, also if one is asked for.
        """
        n_categories = tuple(space.n_categories.tolist())
        if not space.is_conditional:
            return cls(n_categories, trend=trend, cosines=cosines)
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
        scaled: FloatArray = self.columns(X) * (SQRT_5 / length_scales)[self.dimension_of_column]
        return scaled

    def trend_columns(self, X: FloatArray) -> TrendColumns:
        """Return what the trend's kernel is made of at ``X`` (n, d)."""
        T = 2.0 * (X[:, self.numeric] - _CENTER)
        return TrendColumns(T, _N_COSINES if self.cosines else 0)

    def by_all_dimensions(self, by_numeric: FloatArray) -> FloatArray:
        """Return gradients by all dimensions (n, d) from those by the numeric ones (n, c)."""
        if self.all_numeric:
            return by_numeric
        gradient = np.zeros((len(by_numeric), len(self.n_categories)))
        gradient[:, self.numeric] = by_numeric
        return gradient

    def sum_by_dimension(self, per_column: FloatArray) -> FloatArray:
        """Add up a quantity per feature column (D,) to one per dimension (d,)."""
        if self.all_numeric:
            return per_column
        summed = np.zeros(len(self.n_categories))
        np.add.at(summed, self.dimension_of_column, per_column)
        return summed


@dataclass(frozen=True)
class TrendColumns:
    """What the trend's kernel is made of at n points; computed once, where it is asked for.

    Attributes:
        t: Twice the distances from the middle of the numeric dimensions, shape (n, c).
        n_cosines: How many functions each dimension has in the separable part; 0 for its square.
    """

    t: FloatArray
    n_cosines: int = 0

    def __len__(self) -> int:
        """Return n."""
        return len(self.t)

    def __getitem__(self, rows: slice) -> TrendColumns:
        """Return those of some of the points."""
        some = TrendColumns(self.t[rows], self.n_cosines)
        if "functions" in vars(self):
            vars(some)["functions"] = self.functions[rows]
        return some

    @cached_property
    def functions(self) -> FloatArray:
        """Φ, shape (n, bc)."""
        if not self.n_cosines:
            squares: FloatArray = np.square(self.t)
            squares -= 1.0 / 3.0
            return squares
        cosines = np.empty((self.n_cosines, *self.t.shape))
        cosines[0] = np.cos(self._angles)
        twice, before = 2.0 * cosines[0], np.ones(self.t.shape)
        for k in range(1, self.n_cosines):  # cos (k+1)a = 2 cos a cos ka - cos (k-1)a
            np.multiply(twice, cosines[k - 1], out=cosines[k])
            cosines[k] -= before
            before = cosines[k - 1]
        return self._weighted(cosines, _cosine_weights(self.n_cosines))

    def slopes_along(self, weights: FloatArray) -> FloatArray:
        """Return the derivative of Σ w φ by each t, shape (n, c).

        Args:
            weights: w, of each function at each point, shape (n, bc).
        """
        if not self.n_cosines:
            slopes: FloatArray = 2.0 * self.t * weights
        else:
            shape = (len(self), self.n_cosines, self.t.shape[1])
            slopes = (self._cosine_slopes * weights).reshape(shape).sum(axis=1)
        return slopes

    @cached_property
    def _cosine_slopes(self) -> FloatArray:
        """Derivatives of the cosines by t, shape (n, bc)."""
        multiples = np.arange(1, self.n_cosines + 1)
        sines = np.sin(multiples[:, None, None] * self._angles)
        return self._weighted(sines, -0.5 * math.pi * multiples * _cosine_weights(self.n_cosines))

    @property
    def _angles(self) -> FloatArray:
        """π x of the numeric dimensions, shape (n, c)."""
        return (0.5 * math.pi) * (self.t + 1.0)

    def _weighted(self, waves: FloatArray, weights: FloatArray) -> FloatArray:
        """Return waves (b, n, c) times a weight of each of the b, as columns (n, bc)."""
        waves *= weights[:, None, None]
        return waves.transpose(1, 0, 2).reshape(len(self), waves.shape[0] * waves.shape[2])

    def parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the kernel of each part of the trend, without its τ², between these points."""
        P = self.t @ self.t.T
        return P, P * P, self.functions @ self.functions.T


@cache
def _cosine_weights(n: int) -> FloatArray:
    """Return w_k of the first n cosines, whose squares add up to 1, shape (n,)."""
    frequencies = math.pi * _COSINE_LENGTH_SCALE * np.arange(1, n + 1)
    densities = (1.0 + np.square(frequencies) / 5.0) ** -3
    weights: FloatArray = np.sqrt(densities / densities.sum())
    weights.flags.writeable = False  # the result is shared
    return weights


@dataclass(frozen=True)
class Trend:
    """The trend's kernel relative to s².

    Attributes:
        linear: τ₁².
        quadratic: τ₂².
        separable: τ₃².
    """

    linear: float
    quadratic: float
    separable: float

    def kernel(self, T: TrendColumns, S: TrendColumns) -> FloatArray:
        """Return the kernel between the n points of ``T`` and the m of ``S``, shape (n, m)."""
        P = T.t @ S.t.T
        K = self.quadratic * P
        K += self.linear
        K *= P
        K += (self.separable * T.functions) @ S.functions.T
        return K

    def kernel_of_pairs(self, T: TrendColumns, S: TrendColumns) -> FloatArray:
        """Return the kernel between each of the n points of ``T`` and that of ``S``, (n,)."""
        p = np.einsum("ij,ij->i", T.t, S.t)
        separable = np.einsum("ij,ij->i", T.functions, S.functions)
        kernel: FloatArray = (self.quadratic * p + self.linear) * p + self.separable * separable
        return kernel

    def variance(self, T: TrendColumns) -> FloatArray:
        """Return the variance at each of the n points of ``T``, shape (n,)."""
        return self.kernel_of_pairs(T, T)

    def gradient(self, T: TrendColumns, S: TrendColumns, weights: FloatArray) -> FloatArray:
        """Return Σ_j w_ij ∂k(t_i, s_j)/∂t_i for each of the n points of ``T``, shape (n, c).

        Args:
            T: n points.
            S: m points.
            weights: w, shape (n, m).
        """
        slope = T.t @ S.t.T
        slope *= 2.0 * self.quadratic
        slope += self.linear
        slope *= weights
        gradient: FloatArray = slope @ S.t
        gradient += self.separable * T.slopes_along(weights @ S.functions)
        return gradient

    def variance_gradient(self, T: TrendColumns) -> FloatArray:
        """Return the derivative of the variance by t at each of the n points, shape (n, c)."""
        p = np.einsum("ij,ij->i", T.t, T.t)[:, None]
        along_t = 2.0 * self.quadratic * p + self.linear
        gradient: FloatArray = 2.0 * T.t * along_t
        gradient += (2.0 * self.separable) * T.slopes_along(T.functions)
        return gradient


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
