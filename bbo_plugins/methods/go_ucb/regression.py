r"""Regularized nonlinear least squares of a network, and the ball of parameters around the result.

The regression, Levenberg-Marquardt in the dual, minimizes over w, in units of its standard normal
prior,

    Φ(w) = ½ |w|² + ½ Σ_i (f_w(u_i) - y_i)² / N_i,

that is, maximizes the posterior density. A step δ damped by μ solves (m + JᵀN⁻¹J) δ = JᵀN⁻¹r - w
with m = 1 + μ and residuals r = y - f; with fewer observations than parameters its dual is cheaper:

    δ = -w/m + Jᵀz,     (K + m N) z = r + J w/m,     K = J Jᵀ (n, n).

The undamped step is Eq. (5) with all gradients taken at the current w and λ = N, so at convergence
w is the center of the ball:

    Σ_t = λI + Σ_i g_i g_iᵀ                                                            Eq. (3)
    ŵ_t = Σ_t⁻¹ Σ_i g_i z̄_i,     z̄_i = g_iᵀw̄ + z_i - f_i                              Eq. (5)
    Ball_t = {w : ‖w - ŵ_t‖²_Σ_t <= β_t}                                               Eq. (6)

The last term of Eq. (5), λΣ_t⁻¹ŵ_0, is zero: ŵ_0 is the prior mean.
Woodbury's identity gives the same from K, cheaper with fewer observations than parameters:

    ŵ_t = Jᵀ(K + λI)⁻¹ z̄,     λ ‖g‖²_Σ_t⁻¹ = |g|² - (J g)ᵀ(K + λI)⁻¹(J g) = σ²(g).

The linearized function has its largest value over the ball √(β_t/λ) standard deviations σ above its
value at ŵ_t. Every observation may have a noise variance N_i of its own in place of λ.

Source: Nocedal & Wright (2006), "Numerical Optimization", section 10.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

if TYPE_CHECKING:
    from bbo_plugins.gp.posterior import Pullback
    from bbo_plugins.methods.go_ucb.network import LinearizedNetwork, Network, Rows, Tangent
    from bbo_plugins.space.dimension import FloatArray

_SMALLEST_DAMPING, _FIRST_DAMPING, _LARGEST_DAMPING = 1e-6, 1e-2, 1e12
_WEAKER, _STRONGER, _AT_LEAST = 10.0, 8.0, 0.1  # how damping changes with success, and without
_TOLERANCE = 1e-3
_VARIANCE_FLOOR = 1e-12  # relative to the prior's: below it a variance is rounding error


def fit(
    network: Network,
    U: FloatArray,
    y: FloatArray,
    noise: FloatArray,
    start: FloatArray,
    *,
    max_iterations: int,
    tolerance: float = _TOLERANCE,
) -> FloatArray:
    """Return a local minimum of Φ near ``start``.

    Args:
        network: The family of functions.
        U: Inputs, shape (n, D), n >= 1.
        y: Targets, shape (n,).
        noise: N, noise variances, positive, shape (n,).
        start: w to start from, shape (d_w,).
        max_iterations: Most steps to be tried.
        tolerance: Decrease of Φ, in nats, at which the search ends.

    Returns:
        Its parameters w, shape (d_w,).

    Raises:
        ValueError: The Gram matrix could not be factorized.
    """
    w, damping = start, _FIRST_DAMPING
    f = network.at(w).outputs(U)
    loss = _loss(w, y - f, noise)  # Eq. (2), plus the prior
    tried = 0
    while tried < max_iterations:
        linear = network.at(w)
        rows = linear.rows(U)
        K = linear.gram(rows, rows)
        Jw = linear.times(rows, w)
        accepted = False
        while tried < max_iterations and not accepted and damping < _LARGEST_DAMPING:
            tried += 1
            m = 1.0 + damping
            z = solve(factorize(K, m * noise), y - f + Jw / m)
            moved = w * (damping / m) + linear.transposed_times(rows, z)
            f_moved = network.at(moved).outputs(U)
            loss_moved = _loss(moved, y - f_moved, noise)
            accepted = loss_moved <= loss
            damping = (
                max(damping / _WEAKER, _SMALLEST_DAMPING)
                if accepted
                else damping * _STRONGER + _AT_LEAST
            )
        if not accepted:
            break
        decrease = loss - loss_moved
        w, f, loss = moved, f_moved, loss_moved
        if decrease < tolerance:
            break
    return w


def factorize(K: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the lower Cholesky factor of K + diag(noise), shape (n, n), zeros above the diagonal.

    Raises:
        ValueError: The matrix is not numerically positive definite.
    """
    A = K.copy()
    if not len(A):
        return A  # which older versions of SciPy refuse
    A[np.diag_indices(len(A))] += noise
    L, info = lapack.dpotrf(A.T, lower=1, clean=1, overwrite_a=1)
    if info != 0 or not np.isfinite(L.diagonal()).all():
        raise ValueError("the Gram matrix of the gradients is not positive definite.")
    factor: FloatArray = L
    return factor


def solve(L: FloatArray, b: FloatArray) -> FloatArray:
    """Return (L Lᵀ)⁻¹ b for b (n,) or (n, k)."""
    x: FloatArray = lapack.dpotrs(L, b, lower=1)[0] if len(L) else b
    return x


def _loss(w: FloatArray, residuals: FloatArray, noise: FloatArray) -> float:
    return 0.5 * float(w @ w) + 0.5 * float(np.square(residuals) @ (1.0 / noise))


@dataclass(frozen=True)
class NetworkBall:
    """The ball of a network's parameters, linearized; build one with :meth:`from_data`.

    Attributes:
        linear: The network at w̄, where all gradients are taken.
        step: ŵ - w̄, from there to the center, shape (d_w,).
        rows: Gradients at what was observed, t of them.
        noise: N, shape (t,).
        L: Lower Cholesky factor of K + N, shape (t, t).
    """

    linear: LinearizedNetwork
    step: FloatArray
    rows: Rows
    noise: FloatArray
    L: FloatArray

    @classmethod
    def from_data(
        cls, linear: LinearizedNetwork, U: FloatArray, z: FloatArray, noise: FloatArray
    ) -> NetworkBall:
        """Build the ball of the prior mean 0 and what was observed.

        Args:
            linear: The network at w̄.
            U: Inputs, shape (t, D).
            z: Targets, shape (t,).
            noise: N, shape (t,).

        Raises:
            ValueError: The Gram matrix could not be factorized.
        """
        rows = linear.rows(U)
        L = factorize(linear.gram(rows, rows), noise)  # Eq. (3)
        targets = z - linear.outputs(U) + linear.times(rows, linear.w)  # Eq. (4)
        center = linear.transposed_times(rows, solve(L, targets))  # Eq. (5)
        return cls(linear, center - linear.w, rows, noise, L)

    def condition_on(self, U: FloatArray, noise: FloatArray) -> NetworkBall:
        """Return the ball with the same center after more observations.

        Args:
            U: Their inputs, shape (p, D).
            noise: Their noise variances, shape (p,).
        """
        if not len(U):
            return self
        rows = self.linear.rows(np.concatenate([self.rows.U, U]))
        noise = np.concatenate([self.noise, noise])
        L = factorize(self.linear.gram(rows, rows), noise)
        return NetworkBall(self.linear, self.step, rows, noise, L)

    def mean(self, U: FloatArray) -> FloatArray:
        """Return the linearized f at ŵ (m,) at ``U`` (m, D)."""
        return self._tangent.outputs(self.linear.rows(U))

    def predict(self, U: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the linearized f at ŵ (m,) and σ² (m,) at ``U`` (m, D)."""
        at = self.linear.rows(U)
        return self._tangent.outputs(at), self.variance(at)[0]

    def predict_with_pullback(self, U: FloatArray) -> tuple[FloatArray, FloatArray, Pullback]:
        """Return f at ŵ (m,) and σ² (m,) at ``U`` (m, D), and their pullback, of shape (m, D)."""
        at = self.linear.rows(U)
        variance, half = self.variance(at)

        def pullback(by_mean: FloatArray, by_variance: FloatArray) -> FloatArray:
            weights = lapack.dtrtrs(self.L, half, lower=1, trans=1)[0]
            of_mean = self._tangent.partials(at)
            of_variance = self.linear.variance_partials(at, self.rows, weights.T)
            by = of_mean.combined(by_mean, of_variance, by_variance)
            return self.linear.gradients(at, by)

        return self._tangent.outputs(at), variance, pullback

    @cached_property
    def _tangent(self) -> Tangent:
        return self.linear.tangent(self.step)

    def variance(self, at: Rows) -> tuple[FloatArray, FloatArray]:
        """Return σ² (m,) of m gradients, positive, and L⁻¹ J gᵀ (t, m)."""
        half = lapack.dtrtrs(self.L, self.linear.gram(self.rows, at), lower=1)[0]
        prior = self.linear.squared_norms(at)
        variance = prior - np.einsum("ij,ij->j", half, half)  # Eq. (6): the radius along g
        floor = np.maximum(_VARIANCE_FLOOR * prior, np.finfo(np.float64).tiny)
        return np.maximum(variance, floor), half
