r"""The posterior of a Gaussian process, already factorized and immutable.

    mean(x) = k(x, X) α,                 α = K⁻¹ y                  R&W Eq. (2.25)
    var(x)  = k(x, x) - |L⁻¹ k(X, x)|²,  L Lᵀ = K = s² C + diag σ²  R&W Eq. (2.26)

The prior variance k(x, x) is s², and more with a trend. The gradient of a function with the
derivatives a by the mean and b by the variance, its pullback or vector-Jacobian product, is

    Σ_j w_j ∇k(x, x_j) + b ∇k(x, x),     w = a α - 2 b K⁻¹ k(X, x).

All values are those of the latent function (no observation noise added), in the units of ``y``.
Up to a few hundred observations L⁻¹ is formed once, on first use: multiplying by it is about twice
as fast as solving with L, and a search multiplies many times. Its error grows with the condition of
L, the root of that of K.

Source: Rasmussen & Williams (2006), "Gaussian Processes for Machine Learning", Algorithm 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.linalg import blas, lapack

from bbo_plugins.gp.kernels import (
    SQRT_5,
    FeatureMap,
    TrendColumns,
    left_factor,
    matern52,
    matern52_and_slope,
    right_factor,
    squared_distances,
)
from bbo_plugins.gp.likelihood import Hyperparameters, noise_diagonal

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.gp.fit import Fit
    from bbo_plugins.space.dimension import FloatArray

# Takes the derivatives of a function by the means and variances at m points, shape (m,) each.
# Returns its gradients by the points' coordinates, shape (m, d).
Pullback: TypeAlias = "Callable[[FloatArray, FloatArray], FloatArray]"

_VARIANCE_FLOOR = 1e-12  # relative to the prior's: below it a variance is rounding error
_MAX_INVERTED = 500  # observations up to which forming L⁻¹ pays
_BLOCK = 256  # points predicted at a time: their n columns should stay in the processor's cache
_JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)  # relative to s², tried in turn


@dataclass(frozen=True)
class GaussianProcess:
    """A posterior over functions on the unit cube; build one with :meth:`from_data`.

    Attributes:
        X: Observed points, shape (n, d).
        y: Observed targets, shape (n,).
        hyperparameters: Kernel hyperparameters.
        features: The kernel's feature map.
        A: Scaled feature columns of ``X``, shape (n, D).
        noise: Variance added to each observation's diagonal entry, jitter included, shape (n,).
        L: Lower Cholesky factor of K, Fortran-ordered with zeros above the diagonal, shape (n, n).
        alpha: K⁻¹ y, shape (n,).
        jitter: Variance that had to be added to the diagonal to factorize K (0 when none).
    """

    X: FloatArray
    y: FloatArray
    hyperparameters: Hyperparameters
    features: FeatureMap
    A: FloatArray
    noise: FloatArray
    L: FloatArray
    alpha: FloatArray
    jitter: float

    @classmethod
    def from_data(
        cls,
        X: FloatArray,
        y: FloatArray,
        hyperparameters: Hyperparameters,
        features: FeatureMap,
        *,
        known_noise: FloatArray | None = None,
        cholesky: FloatArray | None = None,
    ) -> GaussianProcess:
        """Condition the prior process on observations.

        Args:
            X: Points of the unit cube, shape (n, d).
            y: Targets, shape (n,).
            hyperparameters: Kernel hyperparameters, in the units of ``y``.
            features: The kernel's feature map.
            known_noise: Known noise variances, NaN where unknown, shape (n,), or None.
            cholesky: The lower Cholesky factor of K for exactly these arguments, where a fit has
                left it, shape (n, n).

        Raises:
            ValueError: No jitter makes the covariance matrix positive definite (non-finite input).
        """
        A = features.scaled(X, hyperparameters.length_scales)
        noise = noise_diagonal(len(y), hyperparameters.noise_variance, known_noise)
        L, jitter = cholesky, 0.0
        if L is None:
            K = _prior_covariance(A, features.trend_columns(X), hyperparameters)
            L, jitter = _factorize(K, noise, hyperparameters.signal_variance)
        alpha = lapack.dpotrs(L, y, lower=1)[0]
        return cls(X, y, hyperparameters, features, A, noise + jitter, L, alpha, jitter)

    @classmethod
    def of_fit(
        cls,
        X: FloatArray,
        y: FloatArray,
        fit: Fit,
        features: FeatureMap,
        *,
        known_noise: FloatArray | None = None,
    ) -> GaussianProcess:
        """Condition the prior process on the observations that its hyperparameters were fitted to.

        Args:
            X: Points of the unit cube, shape (n, d).
            y: Targets, shape (n,).
            fit: The fit to exactly these.
            features: The kernel's feature map.
            known_noise: Known noise variances, NaN where unknown, shape (n,), or None.

        Raises:
            ValueError: As :meth:`from_data`.
        """
        return cls.from_data(
            X, y, fit.hyperparameters, features, known_noise=known_noise, cholesky=fit.cholesky
        )

    @property
    def mean_at_observations(self) -> FloatArray:
        """Posterior mean at ``X``, shape (n,): y - diag(σ²) α, without any product with K."""
        return self.y - self.noise * self.alpha

    @property
    def variance_at_observations(self) -> FloatArray:
        """Posterior variance at ``X``, shape (n,): diag(σ² - σ⁴ K⁻¹)."""
        variance: FloatArray = self.noise - self.noise**2 * self._precision
        of_prior = _prior_variance(self._trend_columns, self.hyperparameters)
        return np.maximum(variance, _VARIANCE_FLOOR * of_prior, out=variance)

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and variance at ``X`` (m, d), each of shape (m,)."""
        left, T = left_factor(self._scaled(X)), self.features.trend_columns(X)
        mean, squared_norms = np.empty((2, len(X)))
        for start in range(0, len(X), _BLOCK):
            block = slice(start, start + _BLOCK)
            C = self._with_trend(
                matern52(squared_distances(left[block], self._right_factor)), T[block]
            )
            np.matmul(C, self.alpha, out=mean[block])
            V = self._multiply_inverse(C.T)
            squared_norms[block] = np.einsum("ij,ij->j", V, V)
        return self._signal * mean, self._variance(squared_norms, T)

    def predict_mean(self, X: FloatArray) -> FloatArray:
        """Return the posterior mean at ``X`` (m, d), shape (m,)."""
        return self._signal * (self.scaled_covariances(X) @ self.alpha)

    def predict_joint(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean (m,) and covariance (m, m) at ``X`` (m, d)."""
        A, T = self._scaled(X), self.features.trend_columns(X)
        C = self.scaled_covariances(X)
        V = self._multiply_inverse(C.T)
        covariance = _prior_covariance(A, T, self.hyperparameters) - self._signal**2 * (V.T @ V)
        np.fill_diagonal(covariance, self._variance(np.einsum("ij,ij->j", V, V), T))
        return self._signal * (C @ self.alpha), covariance

    def predict_with_pullback(self, X: FloatArray) -> tuple[FloatArray, FloatArray, Pullback]:
        """Return mean (m,) and variance (m,) at ``X`` (m, d), and their :data:`Pullback`.

        Gradients are zero in categorical dimensions.
        """
        signal, trend = self._signal, self.hyperparameters.trend
        B, T = self._scaled(X), self.features.trend_columns(X)
        C, slope = matern52_and_slope(self._squared_distances(B))
        C = self._with_trend(C, T)
        V = self._multiply_inverse(C.T)
        W = self._multiply_inverse(V, transposed=True)  # K⁻¹ k / s², shape (n, m)

        def pullback(by_mean: FloatArray, by_variance: FloatArray) -> FloatArray:
            weights = by_variance[:, None] * W.T  # of the scaled covariances with the observations
            weights *= -2.0 * signal**2
            weights += np.multiply.outer(signal * by_mean, self.alpha)
            gradient = self._numeric_gradient(B, slope * weights)
            if trend is not None:  # dt/dx = 2
                gradient += 2.0 * trend.gradient(T, self._trend_columns, weights)
                factor = (2.0 * signal) * by_variance
                gradient += factor[:, None] * trend.variance_gradient(T)
            return self.features.by_all_dimensions(gradient)

        variance = self._variance(np.einsum("ij,ij->j", V, V), T)
        return signal * (C @ self.alpha), variance, pullback

    def _numeric_gradient(self, B: FloatArray, weights: FloatArray) -> FloatArray:
        """Return gradients of Σ_j w_ij k(x_i, x_j), without a trend, by numeric dimensions (m, c).

        Args:
            B: Scaled columns of m points, shape (m, D).
            weights: w times the slopes of the correlations, shape (m, n).
        """
        features, A = self.features, self.A
        if not features.all_numeric:
            A, B = A[:, features.numeric_columns], B[:, features.numeric_columns]
        gradient: FloatArray = weights.sum(axis=1)[:, None] * B
        gradient -= weights @ A
        # d correlation / dx_i = -slope · √5/ℓ_i · (difference of scaled columns)
        gradient *= -SQRT_5 / self.hyperparameters.length_scales[features.numeric]
        return gradient

    def condition_on(
        self, X: FloatArray, y: FloatArray, *, known_noise: FloatArray | None = None
    ) -> GaussianProcess:
        """Return the posterior after m more observations; extends the Cholesky factor in O(n² m).

        Args:
            X: New points, shape (m, d).
            y: Their targets, shape (m,).
            known_noise: Known noise variances of the new targets, NaN where unknown, shape (m,), or
                None.

        Raises:
            ValueError: As :meth:`from_data`.
        """
        n, m = len(self.y), len(y)
        A = self._scaled(X)
        cross = self.scaled_covariances(X) * self._signal
        V = self._multiply_inverse(cross.T)
        noise = noise_diagonal(m, self.hyperparameters.noise_variance, known_noise) + self.jitter
        K = _prior_covariance(A, self.features.trend_columns(X), self.hyperparameters)
        L = np.zeros((n + m, n + m), order="F")
        L[:n, :n] = self.L
        L[n:, :n] = V.T
        L[n:, n:], extra = _factorize(K - V.T @ V, noise, self._signal)
        targets = np.concatenate([self.y, y])
        return replace(
            self,
            X=np.concatenate([self.X, X]),
            y=targets,
            A=np.concatenate([self.A, A]),
            noise=np.concatenate([self.noise, noise + extra]),
            L=L,
            alpha=lapack.dpotrs(L, targets, lower=1)[0],
            jitter=max(self.jitter, extra),
        )

    def condition_on_means(self, X: FloatArray) -> GaussianProcess:
        """Return the posterior given its own mean at each pending point ("Kriging believer").

        The variance shrinks around these points, the mean stays.

        Args:
            X: The pending points, shape (p, d).
        """
        return self.condition_on(X, self.predict_mean(X)) if len(X) else self

    def penalize_failures(self, failed: FloatArray) -> GaussianProcess:
        """Return the posterior given that failed points are no better than the median.

        The noise of this evidence is the posterior variance there: one failure moves the mean
        halfway, as it may have been an accident, and further ones at the same place move it
        further.

        Args:
            failed: The points, shape (f, d).
        """
        if not len(failed):
            return self
        mean, variance = self.predict(failed)
        targets = np.minimum(mean, np.median(self.y))
        return self.condition_on(failed, targets, known_noise=variance)

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance, noise included, of each target given the others, (n,) each."""
        precision = self._precision
        return self.y - self.alpha / precision, 1.0 / precision  # R&W Eq. (5.12)

    def scaled_covariances(self, X: FloatArray) -> FloatArray:
        """Return k(x, x_i) / s² of ``X`` (m, d) and the observations, shape (m, n)."""
        C = matern52(self._squared_distances(self._scaled(X)))
        return self._with_trend(C, self.features.trend_columns(X))

    def prior_variance(self, X: FloatArray) -> FloatArray:
        """Return k(x, x) at ``X`` (m, d), shape (m,)."""
        return _prior_variance(self.features.trend_columns(X), self.hyperparameters)

    def prior_correlation(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the correlation before any data of each point of ``X`` with that of ``Y``.

        Args:
            X: Points of the unit cube, shape (m, d).
            Y: As many others.

        Returns:
            Shape (m,).
        """
        correlation = matern52(np.square(self._scaled(X) - self._scaled(Y)).sum(axis=1))
        trend = self.hyperparameters.trend
        if trend is not None:
            T, S = map(self.features.trend_columns, (X, Y))
            correlation += trend.kernel_of_pairs(T, S)
            variances = self.prior_variance(X) * self.prior_variance(Y)
            correlation *= self._signal / np.sqrt(variances)
        return np.minimum(correlation, 1.0, out=correlation)

    @property
    def _signal(self) -> float:
        return self.hyperparameters.signal_variance

    @cached_property
    def _right_factor(self) -> FloatArray:
        return right_factor(self.A)

    @cached_property
    def _trend_columns(self) -> TrendColumns:
        return self.features.trend_columns(self.X)

    @cached_property
    def _inverse_factor(self) -> FloatArray:
        inverse: FloatArray = lapack.dtrtri(self.L, lower=1)[0]
        return inverse

    @property
    def _precision(self) -> FloatArray:
        """The diagonal of K⁻¹, shape (n,)."""
        precision: FloatArray = np.einsum("ij,ij->j", self._inverse_factor, self._inverse_factor)
        return precision

    def _scaled(self, X: FloatArray) -> FloatArray:
        return self.features.scaled(X, self.hyperparameters.length_scales)

    def _squared_distances(self, A: FloatArray) -> FloatArray:
        return squared_distances(left_factor(A), self._right_factor)

    def _with_trend(self, C: FloatArray, T: TrendColumns) -> FloatArray:
        """Add the trend, if there is one, between m points and the observations to C (m, n)."""
        if self.hyperparameters.trend is not None:
            C += self.hyperparameters.trend.kernel(T, self._trend_columns)
        return C

    def _multiply_inverse(self, B: FloatArray, *, transposed: bool = False) -> FloatArray:
        """Return L⁻¹ B, or L⁻ᵀ B, for Fortran-ordered ``B`` (n, m), which is left intact."""
        invert = len(self.y) <= _MAX_INVERTED
        multiply, factor = (blas.dtrmm, self._inverse_factor) if invert else (blas.dtrsm, self.L)
        product: FloatArray = multiply(1.0, factor, B, lower=1, trans_a=int(transposed))
        return product

    def _variance(self, squared_norms: FloatArray, T: TrendColumns) -> FloatArray:
        """Return the variances (m,) from |L⁻¹ k(X, x) / s²|² (m,) and the trend's columns."""
        of_prior = _prior_variance(T, self.hyperparameters)
        variance: FloatArray = of_prior - self._signal**2 * squared_norms
        np.maximum(variance, _VARIANCE_FLOOR * of_prior, out=variance)
        return variance


def _prior_variance(T: TrendColumns, hyperparameters: Hyperparameters) -> FloatArray:
    """Return k(x, x) of m points, from their trend's columns, shape (m,)."""
    signal, trend = hyperparameters.signal_variance, hyperparameters.trend
    if trend is None:
        return np.full(len(T), signal)
    variance: FloatArray = signal * (1.0 + trend.variance(T))
    return variance


def _prior_covariance(
    A: FloatArray, T: TrendColumns, hyperparameters: Hyperparameters
) -> FloatArray:
    """Return k(x, x') of n points, from their scaled (n, D) and trend's columns, (n, n)."""
    K = matern52(squared_distances(left_factor(A), right_factor(A)))
    if hyperparameters.trend is not None:
        K += hyperparameters.trend.kernel(T, T)
    K *= hyperparameters.signal_variance
    np.fill_diagonal(K, _prior_variance(T, hyperparameters))
    return K


def _factorize(K: FloatArray, noise: FloatArray, signal: float) -> tuple[FloatArray, float]:
    """Return the lower Cholesky factor of K + diag(noise) and the jitter it took."""
    diagonal = K.diagonal().copy()
    for relative_jitter in _JITTERS:
        jitter = relative_jitter * signal
        np.fill_diagonal(K, diagonal + noise + jitter)
        L, info = lapack.dpotrf(K.T, lower=1, clean=1)
        if info == 0 and np.isfinite(L.diagonal()).all():
            return L, jitter
    message = "the covariance matrix must be positive definite, but could not be factorized"
    raise ValueError(message)
