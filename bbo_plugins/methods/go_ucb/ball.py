r"""The ball of parameters around a fit, in the dual.

    Σ_t = λI + Σ_i g_i g_iᵀ                                                            Eq. (3)
    ŵ_t = Σ_t⁻¹ Σ_i g_i z̄_i,     z̄_i = g_iᵀw̄ + z_i - f_i                              Eq. (5)
    Ball_t = {w : ‖w - ŵ_t‖²_Σ_t <= β_t}                                               Eq. (6)

Woodbury's identity gives the same from K = J Jᵀ, cheaper with fewer observations than parameters:

    ŵ_t = Jᵀ(K + λI)⁻¹ z̄,     λ ‖g‖²_Σ_t⁻¹ = |g|² - (J g)ᵀ(K + λI)⁻¹(J g) = σ²(g).

The linearized function has its largest value over the ball √(β_t/λ) standard deviations σ above its
value at ŵ_t. Every observation may have a noise variance N_i of its own in place of λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from bbo_plugins.methods.go_ucb.regression import factorize, solve

if TYPE_CHECKING:
    from bbo_plugins.methods.go_ucb.network import LinearizedNetwork, Rows
    from bbo_plugins.space.dimension import FloatArray

_VARIANCE_FLOOR = 1e-12  # relative to the prior's: below it a variance is rounding error


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
        return self.linear.outputs(U) + self.linear.times(self.linear.rows(U), self.step)

    def predict(self, U: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the linearized f at ŵ (m,) and σ² (m,) at ``U`` (m, D)."""
        at = self.linear.rows(U)
        mean = self.linear.outputs(U) + self.linear.times(at, self.step)
        return mean, self.variance(at)[0]

    def predict_with_gradients(
        self, U: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return f at ŵ (m,), σ² (m,), and the gradients of both by ``U`` (m, D), each (m, D)."""
        linear = self.linear
        at = linear.rows(U)
        variance, half = self.variance(at)
        weights = lapack.dtrtrs(self.L, half, lower=1, trans=1)[0]
        mean, by_input = linear.outputs_and_gradients(U)
        mean += linear.times(at, self.step)
        by_input += linear.times_gradients(at, self.step)
        by_variance = linear.squared_norm_gradients(at)
        by_variance -= 2.0 * linear.gram_gradients(at, self.rows, weights.T)
        return mean, variance, by_input, by_variance

    def variance(self, at: Rows) -> tuple[FloatArray, FloatArray]:
        """Return σ² (m,) of m gradients, positive, and L⁻¹ J gᵀ (t, m)."""
        half = lapack.dtrtrs(self.L, self.linear.gram(self.rows, at), lower=1)[0]
        prior = self.linear.squared_norms(at)
        variance = prior - np.einsum("ij,ij->j", half, half)  # Eq. (6): the radius along g
        floor = np.maximum(_VARIANCE_FLOOR * prior, np.finfo(np.float64).tiny)
        return np.maximum(variance, floor), half
