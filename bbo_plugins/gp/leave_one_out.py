r"""Weighted leave-one-out predictive density of a Gaussian process and its gradient.

    L(θ)   = Σ_i w_i log p(y_i | X, y_-i, θ)                              R&W Eq. (5.11) for w = 1
    log p_i = ½ log k_i - α_i² / (2 k_i) - ½ log 2π                      R&W Eqs. (5.10), (5.12)

because leaving observation i out predicts it with mean y_i - α_i/k_i and variance 1/k_i. All n
leave-one-out predictions come from one inverse; nothing is fitted n times.

Gradient. From dk_i = -(K⁻¹ dK K⁻¹)_ii and dα = -K⁻¹ dK α, with

    c_i = ∂L/∂k_i = w_i (1 + α_i²/k_i) / (2 k_i),     e_i = ∂L/∂α_i = -w_i α_i / k_i,     u = K⁻¹ e,

dL = -tr(K⁻¹ diag(c) K⁻¹ dK) - uᵀ dK α. As dK is symmetric this is -½ tr(M dK) with

    M = 2 K⁻¹ diag(c) K⁻¹ + u α^T + α u^T,     tr(M K) = Σ_i w_i (1 - α_i²/k_i),

the form in which :class:`bbo_plugins.gp.likelihood.Criterion` takes it. It agrees with R&W Eq.
(5.13) without the n × n product Z_j = K⁻¹ ∂K/∂θ_j that they form for every hyperparameter: one
symmetric rank-n update (dsyrk) per evaluation, whatever the number of hyperparameters.

| symbol | shape  | meaning                                                    |
|--------|--------|------------------------------------------------------------|
| K      | (n, n) | covariance matrix of the targets, noise included           |
| k, α   | (n,)   | diagonal of K⁻¹; K⁻¹ y                                      |
| w      | (n,)   | weights, >= 0                                              |

Source: Rasmussen & Williams (2006), "Gaussian Processes for Machine Learning", section 5.4.2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas, lapack

from bbo_plugins.gp.likelihood import LOG_2PI, Criterion

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FeatureMap, FloatArray


class LeaveOneOut(Criterion):
    """Σ_i w_i log p(y_i | X, y_-i, θ) of one data set as a function of θ.

    Args:
        X: Points of the unit cube, shape (n, d).
        y: Standardized targets, shape (n,).
        features: The kernel's feature map.
        weights: w, finite and >= 0, shape (n,).
        known_noise: As in :class:`Criterion`; a target is predicted with its own noise.
        fit_noise: As in :class:`Criterion`.
    """

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        weights: FloatArray,
        *,
        known_noise: FloatArray | None = None,
        fit_noise: bool = True,
    ) -> None:
        """Bind the data; see the class."""
        super().__init__(X, y, features, known_noise=known_noise, fit_noise=fit_noise)
        self._weights = weights
        self._scaled_inverse = np.empty((len(y), len(y)), order="F")

    def _value_and_contraction(self, L: FloatArray) -> tuple[float, FloatArray, float] | None:
        """Return L(θ), M and tr(M K) of the module docstring; see the base class."""
        w = self._weights
        inverse = self._inverse(L)
        alpha = lapack.dpotrs(L, self._y, lower=1)[0]
        k = inverse.diagonal().copy()
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            squared_error = alpha * alpha / k  # z_i², the squared standardized residual
            log_density = 0.5 * (np.log(k) - squared_error - LOG_2PI)  # R&W Eq. (5.10)
            value = float(w @ log_density)
            c = 0.5 * w * (1.0 + squared_error) / k
            e = -w * alpha / k
        if not (math.isfinite(value) and np.isfinite(c).all()):
            return None
        u = lapack.dpotrs(L, e, lower=1)[0]
        S = np.add(inverse, inverse.T, out=self._scaled_inverse)
        S[np.diag_indices(len(k))] = k
        S *= np.sqrt(c)
        M = blas.dsyrk(2.0, S, lower=1, c=inverse, overwrite_c=1)
        M = blas.dsyr2(1.0, u, alpha, lower=1, a=M, overwrite_a=1)
        return value, M, float(w @ (1.0 - squared_error))
