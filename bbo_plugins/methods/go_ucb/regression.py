r"""Regularized nonlinear least squares of a network: Levenberg-Marquardt in the dual.

Minimizes over w, in units of its standard normal prior,

    Φ(w) = ½ |w|² + ½ Σ_i (f_w(u_i) - y_i)² / N_i,

that is, maximizes the posterior density. A step δ damped by μ solves (m + JᵀN⁻¹J) δ = JᵀN⁻¹r - w
with m = 1 + μ and residuals r = y - f; with fewer observations than parameters its dual is cheaper:

    δ = -w/m + Jᵀz,     (K + m N) z = r + J w/m,     K = J Jᵀ (n, n).

The undamped step is Eq. (5) with all gradients taken at the current w and λ = N, so at convergence
w is the center of the confidence ball.

Source: Nocedal & Wright (2006), "Numerical Optimization", section 10.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

if TYPE_CHECKING:
    from bbo_plugins.methods.go_ucb.network import Network
    from bbo_plugins.space.dimension import FloatArray

_SMALLEST_DAMPING, _FIRST_DAMPING, _LARGEST_DAMPING = 1e-6, 1e-2, 1e12
_TOLERANCE = 1e-3


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
            damping = max(damping / 10.0, _SMALLEST_DAMPING) if accepted else damping * 8.0 + 0.1
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
