r"""Log marginal likelihood of a Gaussian process and its gradient in log hyperparameters.

    log p(y | θ) = -½ yᵀ K⁻¹ y - ½ log |K| - n/2 log 2π,            R&W Eq. (5.8)
    ∂/∂θ_i       = ½ tr((αα^T - K⁻¹) ∂K/∂θ_i),   α = K⁻¹ y          R&W Eq. (5.9)

with K = s² C(ℓ) + diag(σ²). One Cholesky factorization (dpotrf) and one inversion from it (dpotri)
per evaluation; everything else is O(n² D): with M = K⁻¹ - αα^T restricted to its lower triangle, G
= M ∘ slope, the derivative by log ℓ_i is a difference of two quadratic forms in G (one dsymm), and
those by log s² and the noise need only tr M and αᵀK α = αᵀy. A trend's matrices P, P∘P and Φ Φᵀ do
not depend on θ and are formed once; its three derivatives are their inner products with M. No array
larger than n × n is formed and the n × n ones are allocated once. Other functions of K differ in
the two formulas only; what is left is in the common base, :class:`BoundCriterion`.

θ = (log ℓ_1, ..., log ℓ_d, log s², log τ₁², log τ₂², log τ₃², log ν) where the noise variance is
σ_n² = floor + ν: the floor bounds σ_n² from below without a constraint for the optimizer. Without a
trend its three entries are absent; with ``fit_noise=False`` the last one is, and σ_n² is the floor
of stated noise, which is larger.

Source: Rasmussen & Williams (2006), "Gaussian Processes for Machine Learning", section 5.4.1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import numpy as np
from scipy.linalg import blas, lapack

from bbo_plugins.gp.kernels import (
    SQRT_5,
    FeatureMap,
    Trend,
    left_factor,
    matern52_and_slope,
    right_factor,
    squared_distances,
)

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

NOISE_FLOOR = 1e-10  # of an estimate
STATED_NOISE_FLOOR = 1e-8  # of noise that is stated, which cannot rise where the model is inexact
_LARGEST_LOG = 700.0  # whose exponential does not overflow
LOG_2PI = math.log(2.0 * math.pi)
N_TREND: Final = len(fields(Trend))  # hyperparameters of a trend


@dataclass(frozen=True)
class Hyperparameters:
    """Kernel hyperparameters in natural units (unit-cube inputs, standardized targets).

    Attributes:
        length_scales: ℓ, shape (d,).
        signal_variance: s².
        noise_variance: σ_n², applied where an observation's noise is not known.
        trend: The kernel's trend, None for a kernel without one.
        has_noise_estimate: Whether the noise variance is an estimate; where all noise is stated
            there is none.
    """

    length_scales: FloatArray
    signal_variance: float
    noise_variance: float
    trend: Trend | None = None
    has_noise_estimate: bool = True

    @classmethod
    def from_theta(cls, theta: FloatArray, n_dimensions: int) -> Hyperparameters:
        """Return the hyperparameters whose logarithms are given.

        Args:
            theta: Log hyperparameters, shape (d + 2,), or (d + 1,) for noise at the floor; with
                three more of a trend.
            n_dimensions: d.
        """
        d, n_others = n_dimensions, len(theta) - n_dimensions - 1
        has_trend = n_others >= N_TREND
        has_noise = n_others > N_TREND * has_trend
        return cls(
            length_scales=np.exp(theta[:d]),
            signal_variance=math.exp(theta[d]),
            noise_variance=NOISE_FLOOR + math.exp(theta[-1]) if has_noise else STATED_NOISE_FLOOR,
            trend=Trend(*np.exp(theta[d + 1 : d + 1 + N_TREND]).tolist()) if has_trend else None,
            has_noise_estimate=has_noise,
        )


def noise_diagonal(n: int, noise_variance: float, known: FloatArray | None) -> FloatArray:
    """Return the noise variance of each observation, shape (n,).

    Args:
        n: Number of observations.
        noise_variance: Noise variance where it is unknown, in squared units of the targets.
        known: Known noise variances in the same units, NaN where unknown, shape (n,), or None.
    """
    if known is None:
        return np.full(n, noise_variance)
    return np.where(np.isnan(known), noise_variance, np.maximum(known, STATED_NOISE_FLOOR))


def is_noise_estimated(known: FloatArray | None, *, fit_noise: bool) -> bool:
    """Return whether there is an observation of unknown noise, and that is not at its floor.

    Args:
        known: Known noise variances, NaN where unknown, shape (n,), or None.
        fit_noise: Whether unknown noise is estimated.
    """
    return fit_noise and (known is None or bool(np.isnan(known).any()))


class BoundCriterion(ABC):
    """A function of θ that depends on it through K = s² C(ℓ) + diag(σ²) of one data set only.

    A subclass computes its value and derivative from K's Cholesky factor
    (:meth:`_value_and_contraction`).

    Args:
        X: Points of the unit cube, shape (n, d).
        y: Standardized targets, shape (n,).
        features: The kernel's feature map.
        known_noise: Known noise variances in squared units of ``y``, NaN where unknown, shape (n,),
            or None.
        fit_noise: Whether θ has an entry for the unknown noise variance; without one it is at its
            floor.
    """

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        *,
        known_noise: FloatArray | None = None,
        fit_noise: bool = True,
    ) -> None:
        """Bind the data; see the class."""
        n = len(y)
        self.n_dimensions: int = X.shape[1]
        self._y = y
        self._features = features
        self._columns = features.columns(X)
        self._known_noise = known_noise
        self._noise_is_unknown = (
            np.ones(n, dtype=bool) if known_noise is None else np.isnan(known_noise)
        )
        self.fit_noise = is_noise_estimated(known_noise, fit_noise=fit_noise)
        self._factorized: tuple[FloatArray, FloatArray] | None = None
        self._R2, *self._buffers = (np.empty((n, n)) for _ in range(3))
        self._trend_matrices: tuple[FloatArray, ...] = ()  # ∂(K/s²)/∂τ² of each of its parts
        if features.trend:
            self._trend_matrices = features.trend_columns(X).parts()

    @property
    def n_parameters(self) -> int:
        """Number of entries of θ."""
        return self.n_dimensions + 1 + len(self._trend_matrices) + int(self.fit_noise)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its gradient at ``theta``, shape (n_parameters,).

        Where K is not numerically positive definite the value is -inf and the gradient zero.
        """
        d, n = self.n_dimensions, len(self._y)
        self._factorized = None  # what it refers to is about to be overwritten
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            signal = math.exp(min(float(theta[d]), _LARGEST_LOG))
            excess_noise = math.exp(min(float(theta[-1]), _LARGEST_LOG)) if self.fit_noise else 0.0
            floor = NOISE_FLOOR if self.fit_noise else STATED_NOISE_FLOOR
            A = self._columns * (SQRT_5 * np.exp(-theta[:d]))[self._features.dimension_of_column]
            variances = np.exp(theta[d + 1 : d + 1 + len(self._trend_matrices)])
            correlation, slope = self._correlation_and_slope(A)
            for variance, matrix in zip(variances, self._trend_matrices, strict=True):
                correlation += np.multiply(matrix, variance, out=self._buffers[0])
            K = np.multiply(correlation, signal, out=correlation)
        noise = noise_diagonal(n, floor + excess_noise, self._known_noise)
        K[np.diag_indices(n)] = (K.diagonal() if self._trend_matrices else signal) + noise
        # K is symmetric, so its transpose is the Fortran-ordered array that LAPACK can overwrite.
        L, info = lapack.dpotrf(K.T, lower=1, clean=1, overwrite_a=1)
        outcome = self._value_and_contraction(L) if info == 0 else None
        if outcome is None:
            return -math.inf, np.zeros(self.n_parameters)
        value, M, trace = outcome
        self._factorized = (theta.copy(), L)
        M_diagonal = M.diagonal().copy()  # M itself is overwritten below
        gradient = np.empty(self.n_parameters)
        gradient[d + 1 : d + 1 + len(variances)] = [
            -0.5 * signal * variance * _trace_of_product(M, matrix)
            for variance, matrix in zip(variances, self._trend_matrices, strict=True)
        ]
        gradient[:d] = self._length_scale_gradient(M, slope, A, signal)
        gradient[d] = -0.5 * (trace - float(M_diagonal @ noise))  # tr(M (K - diag σ²))
        if self.fit_noise:
            gradient[-1] = -0.5 * excess_noise * float(M_diagonal[self._noise_is_unknown].sum())
        return value, gradient

    @abstractmethod
    def _value_and_contraction(self, L: FloatArray) -> tuple[float, FloatArray, float] | None:
        """Return the value, the matrix M with ∂value/∂θ_i = -½ tr(M ∂K/∂θ_i), and tr(M K).

        Args:
            L: Lower Cholesky factor of K, shape (n, n), zeros above the diagonal; to be kept.

        Returns:
            The finite value, the lower triangle of M (n, n), Fortran-ordered with zeros above, and
            the trace; None where the value is not finite.
        """

    def factor_at(self, theta: FloatArray) -> FloatArray | None:
        """Return the Cholesky factor of K (n, n) if ``theta`` was evaluated last, else None.

        It is overwritten by the next evaluation.
        """
        if self._factorized is None or not np.array_equal(self._factorized[0], theta):
            return None
        return self._factorized[1]

    def _inverse(self, L: FloatArray) -> FloatArray:
        """Return the lower triangle of K⁻¹ (n, n), zeros above; the next call overwrites it."""
        inverse = self._buffers[0].T  # its content, a root of the distances, has served
        inverse[...] = L
        lower: FloatArray = lapack.dpotri(inverse, lower=1, overwrite_c=1)[0]
        return lower

    def _correlation_and_slope(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        R2 = squared_distances(left_factor(A), right_factor(A), out=self._R2)
        R2[np.diag_indices(len(A))] = 0.0
        return matern52_and_slope(R2, (self._buffers[0], self._buffers[1]))

    def _length_scale_gradient(
        self, M: FloatArray, slope: FloatArray, A: FloatArray, signal: float
    ) -> FloatArray:
        """Return ½ tr(-M ∂K/∂log ℓ_i) for every i, from the lower triangle of ``M``."""
        G = np.multiply(M, slope.T, out=M)
        with_ones = np.column_stack([A, np.ones(len(A))])
        products = blas.dsymm(1.0, G, with_ones, lower=1)
        row_sums = products[:, -1]
        per_column = row_sums @ (A * A) - np.einsum("ij,ij->j", A, products[:, :-1])
        return -signal * self._features.sum_by_dimension(per_column)


def _trace_of_product(M: FloatArray, S: FloatArray) -> float:
    """Return tr(M S) from the lower triangle of M (n, n), zeros above, and a symmetric S (n, n)."""
    lower = float(np.vdot(M.T, S))  # M.T has the memory order of S
    return 2.0 * lower - float(M.diagonal() @ S.diagonal())


class MarginalLikelihood(BoundCriterion):
    """The log marginal likelihood of one data set as a function of θ."""

    def _value_and_contraction(self, L: FloatArray) -> tuple[float, FloatArray, float] | None:
        """Return log p(y | θ), K⁻¹ - αα^T and n - yᵀα; see the base class."""
        y, n = self._y, len(self._y)
        diagonal = L.diagonal()
        alpha = lapack.dpotrs(L, y, lower=1)[0]
        fit = float(y @ alpha)
        value = -0.5 * fit - float(np.log(diagonal).sum()) - 0.5 * n * LOG_2PI
        if not math.isfinite(value):
            return None
        M = blas.dsyr(-1.0, alpha, lower=1, a=self._inverse(L), overwrite_a=1)
        return value, M, n - fit


class FitCriterion(Protocol):
    """The criterion that is maximized, with the log prior, to estimate the hyperparameters.

    Attributes:
        name: The name under which fits by it are stored; another one would orphan those of stored
            studies.
        covers_observations: Whether the criterion's covariance matrix is that of all observations,
            so that its Cholesky factor can serve the posterior.
        borrows_noise: Whether the unknown noise variance is estimated by the marginal likelihood
            instead, before the rest.
    """

    name: ClassVar[str]
    covers_observations: ClassVar[bool]
    borrows_noise: ClassVar[bool]

    def bind(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        *,
        known_noise: FloatArray | None = None,
        fit_noise: bool = True,
    ) -> BoundCriterion:
        """Return the function of θ for one data set.

        Args:
            X: Points of the unit cube, shape (n, d), n >= 1.
            y: Standardized targets, shape (n,).
            features: The kernel's feature map.
            known_noise: Known noise variances in squared units of ``y``, NaN where unknown, shape
                (n,), or None.
            fit_noise: Whether θ has an entry for the unknown noise variance. Where none of the data
                that the criterion looks at has unknown noise, it has none all the same.
        """


@dataclass(frozen=True)
class Marginal:
    """The log marginal likelihood of the observations: the ordinary MAP estimate, the default."""

    name: ClassVar[str] = "Marginal"
    covers_observations: ClassVar[bool] = True
    borrows_noise: ClassVar[bool] = False

    def bind(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        *,
        known_noise: FloatArray | None = None,
        fit_noise: bool = True,
    ) -> BoundCriterion:
        """Return the likelihood of the data as they are."""
        return MarginalLikelihood(X, y, features, known_noise=known_noise, fit_noise=fit_noise)


MARGINAL: Final = Marginal()
