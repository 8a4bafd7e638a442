r"""The ball of parameters that GO-UCB is optimistic over: as in the paper, and in the dual.

    Σ_t = λI + Σ_i g_i g_iᵀ,     g_i = ∇_w f at x_i and ŵ_i                            Eq. (3)
    ŵ_t = Σ_t⁻¹ (Σ_i g_i z_i + λ ŵ_0),     z_i = g_iᵀŵ_i + y_i - f_i                   Eq. (5)
    Ball_t = {w : ‖w - ŵ_t‖²_Σ_t <= β_t}                                               Eq. (6)

With fewer observations than parameters Woodbury's identity is cheaper, J (t, d_w) being the rows
g_iᵀ and K = J Jᵀ:

    ŵ_t = ŵ_0 + Jᵀ(K + λI)⁻¹(z - J ŵ_0),
    λ ‖g‖²_Σ_t⁻¹ = |g|² - (J g)ᵀ(K + λI)⁻¹(J g) = σ²(g).

σ²(g) is the variance of gᵀw for a standard normal prior on w and noise of variance λ. So the
largest value of the linearized function over the ball, f_ŵ + √β_t ‖g‖_Σ_t⁻¹, is an upper
confidence bound with √(β_t/λ) standard deviations, and this is the unit in which
:class:`NetworkBall` measures the ball. There every observation may have a noise variance N_i of its
own in place of λ.

:class:`ConfidenceBall` is the paper's, in the parameters' own space, where every observation keeps
the gradient from the time when it was made; :class:`DualBall` the same from t x t matrices;
:class:`NetworkBall` the one in use: gradients are all taken at one w̄ and ŵ_0 is 0, the prior mean.

Source: Liu & Wang (2023), "Global Optimization with Parametric Function Approximation", section
4.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from bbo_plugins.methods.go_ucb.regression import factorize, solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.methods.go_ucb.network import LinearizedNetwork, Rows
    from bbo_plugins.space.dimension import FloatArray

_VARIANCE_FLOOR = 1e-12  # relative to the prior's: below it a variance is rounding error


_TOLERANCE = 1e-12  # relative rise at which the search in the ball ends


_MAX_ASCENT = 200


_SHORTEST_STEP = 1e-6


@dataclass(frozen=True)
class ConfidenceBall:
    """The ball in the space of the parameters; :meth:`from_history` builds one.

    Attributes:
        center: ŵ_t, shape (d_w,).
        matrix: Σ_t, shape (d_w, d_w).
        beta: β_t, the squared radius.
    """

    center: FloatArray
    matrix: FloatArray
    beta: float

    @classmethod
    def from_history(
        cls,
        gradients: FloatArray,
        targets: FloatArray,
        start: FloatArray,
        *,
        regularization: float,
        beta: float,
    ) -> ConfidenceBall:
        """Build the ball from what was seen.

        Args:
            gradients: J, shape (t, d_w).
            targets: z, see :func:`linear_targets`, shape (t,).
            start: ŵ_0, shape (d_w,).
            regularization: λ.
            beta: β_t.
        """
        matrix = gradients.T @ gradients + regularization * np.eye(len(start))  # Eq. (3)
        right = gradients.T @ targets + regularization * start
        center: FloatArray = linalg.solve(matrix, right, assume_a="pos")  # Eq. (5)
        return cls(center, matrix, beta)

    def widths(self, gradients: FloatArray) -> FloatArray:
        """Return ‖g‖ in the norm of Σ_t⁻¹ of ``gradients`` (m, d_w), shape (m,)."""
        squared = np.einsum("ij,ji->i", gradients, self.precondition(gradients))
        widths: FloatArray = np.sqrt(squared)
        return widths

    def precondition(self, gradients: FloatArray) -> FloatArray:
        """Return Σ_t⁻¹ g of ``gradients`` (m, d_w) as columns, shape (d_w, m)."""
        columns: FloatArray = linalg.solve(self.matrix, gradients.T, assume_a="pos")
        return columns

    def squared_length(self, step: FloatArray) -> float:
        """Return ‖step‖² in the norm of Σ_t of ``step`` (d_w,): up to β_t in the ball, Eq. (6)."""
        return float(step @ self.matrix @ step)


@dataclass(frozen=True)
class DualBall:
    """The same ball from the gradients' Gram matrix; :meth:`from_history` builds one.

    Attributes:
        center: ŵ_t, shape (d_w,).
        gradients: J, shape (t, d_w).
        L: Lower Cholesky factor of K + λI, shape (t, t).
        regularization: λ.
        beta: β_t, the squared radius.
    """

    center: FloatArray
    gradients: FloatArray
    L: FloatArray
    regularization: float
    beta: float

    @classmethod
    def from_history(
        cls,
        gradients: FloatArray,
        targets: FloatArray,
        start: FloatArray,
        *,
        regularization: float,
        beta: float,
    ) -> DualBall:
        """Build the ball; the arguments are those of :meth:`ConfidenceBall.from_history`."""
        L = factorize(gradients @ gradients.T, np.full(len(targets), regularization))
        center = start + gradients.T @ solve(L, targets - gradients @ start)
        return cls(center, gradients, L, regularization, beta)

    def widths(self, gradients: FloatArray) -> FloatArray:
        """Return ‖g‖ in the norm of Σ_t⁻¹ of ``gradients`` (m, d_w), shape (m,)."""
        squared = np.einsum("ij,ji->i", gradients, self.precondition(gradients))
        widths: FloatArray = np.sqrt(np.maximum(squared, 0.0))
        return widths

    def precondition(self, gradients: FloatArray) -> FloatArray:
        """Return Σ_t⁻¹ g of ``gradients`` (m, d_w) as columns, shape (d_w, m)."""
        J = self.gradients
        return (gradients.T - J.T @ solve(self.L, J @ gradients.T)) / self.regularization

    def squared_length(self, step: FloatArray) -> float:
        """Return ‖step‖² in the norm of Σ_t of ``step`` (d_w,): up to β_t in the ball, Eq. (6)."""
        along = self.gradients @ step
        return float(along @ along + self.regularization * (step @ step))


def linear_targets(
    gradients: FloatArray, parameters: FloatArray, outputs: FloatArray, y: FloatArray
) -> FloatArray:
    """Return z (t,), what Eq. (4) asks the linear function of w to be.

    Args:
        gradients: g_i, shape (t, d_w).
        parameters: ŵ_i, at which they were taken, shape (t, d_w).
        outputs: f_i, the model's values there, shape (t,).
        y: The values that were observed, shape (t,).
    """
    targets: FloatArray = np.einsum("ij,ij->i", gradients, parameters) + y - outputs
    return targets


def maximize_in_ball(
    function: Callable[[FloatArray], tuple[float, FloatArray]], ball: ConfidenceBall | DualBall
) -> tuple[float, FloatArray]:
    """Return a maximum of a nonlinear function over the ball, and the parameters (d_w,) of it.

    Frank & Wolfe's method: over a ball the linearized function has its maximum in closed form, and
    each step goes as far towards that point as it gains. From the linearized solution it rises to a
    stationary point; never below that solution or the center.

    Args:
        function: Returns the value at w (d_w,) and its gradient there (d_w,).
        ball: The ball.
    """

    def furthest(gradient: FloatArray) -> FloatArray:
        direction = ball.precondition(gradient[None, :])[:, 0]
        width = math.sqrt(max(float(gradient @ direction), 0.0))
        return ball.center + direction * (math.sqrt(ball.beta) / width if width > 0.0 else 0.0)

    w = ball.center
    value, gradient = function(w)
    for _ in range(_MAX_ASCENT):
        towards, step, before = furthest(gradient) - w, 1.0, value
        while step > _SHORTEST_STEP:
            moved_value, moved_gradient = function(w + step * towards)
            if moved_value > value:
                w, value, gradient = w + step * towards, moved_value, moved_gradient
                break
            step *= 0.5
        if value - before <= _TOLERANCE * max(abs(value), 1.0):
            break
    return value, w


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
        L = factorize(linear.gram(rows, rows), noise)
        targets = z - linear.outputs(U) + linear.times(rows, linear.w)
        center = linear.transposed_times(rows, solve(L, targets))  # Eq. (5)
        return cls(linear, center - linear.w, rows, noise, L)

    def with_more(self, U: FloatArray, noise: FloatArray) -> NetworkBall:
        """Return the ball with the same center after more observations at ``U`` (p, D)."""
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
        half = lapack.dtrtrs(self.L, self.linear.gram(self.rows, at), lower=1)[0]
        prior = self.linear.squared_norms(at)
        explained = np.einsum("ij,ij->j", half, half)
        mean = self.linear.outputs(U) + self.linear.times(at, self.step)
        return mean, _positive(prior - explained, prior)

    def predict_with_gradients(
        self, U: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return what :meth:`predict` does, and the gradients by ``U``, both (m, D)."""
        linear = self.linear
        at = linear.rows(U)
        half = lapack.dtrtrs(self.L, linear.gram(self.rows, at), lower=1)[0]
        weights = lapack.dtrtrs(self.L, half, lower=1, trans=1)[0]
        prior = linear.squared_norms(at)
        variance = _positive(prior - np.einsum("ij,ij->j", half, half), prior)
        mean, by_input = linear.outputs_and_gradients(U)
        mean += linear.times(at, self.step)
        by_input += linear.times_gradients(at, self.step)
        by_variance = linear.squared_norm_gradients(at)
        by_variance -= 2.0 * linear.gram_gradients(at, self.rows, weights.T)
        return mean, variance, by_input, by_variance


def _positive(variance: FloatArray, prior: FloatArray) -> FloatArray:
    floor = np.maximum(_VARIANCE_FLOOR * prior, np.finfo(np.float64).tiny)
    return np.maximum(variance, floor)
