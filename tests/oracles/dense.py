"""Gaussian-process formulas written down directly: no Cholesky factor, no BLAS, no shortcuts.

Slow and obvious on purpose. ``n_categories`` holds 0 for a numeric dimension, as in the package.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.gp.likelihood import NOISE_FLOOR, STATED_NOISE_FLOOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


def scaled_distance(
    x: FloatArray, z: FloatArray, length_scales: FloatArray, n_categories: Sequence[int]
) -> float:
    """Return r² of two points, Hamming in the categorical dimensions."""
    total = 0.0
    for a, b, scale, count in zip(x, z, length_scales, n_categories, strict=True):
        if count:
            differ = min(int(a * count), count - 1) != min(int(b * count), count - 1)
            total += float(differ) / scale**2
        else:
            total += ((a - b) / scale) ** 2
    return total


def matern(r2: float) -> float:
    """Return the Matérn-5/2 correlation, Rasmussen & Williams (2006), Eq. (4.17)."""
    r = math.sqrt(5.0 * r2)
    return (1.0 + r + r * r / 3.0) * math.exp(-r)


def covariance(
    X: FloatArray,
    Z: FloatArray,
    length_scales: FloatArray,
    signal_variance: float,
    n_categories: Sequence[int] | None = None,
    trend: Sequence[float] = (0.0, 0.0, 0.0),
    n_cosines: int = 0,
) -> FloatArray:
    """Return the kernel matrix between ``X`` (n, d) and ``Z`` (m, d), entry by entry, (n, m).

    ``trend`` has the weights τ₁², τ₂² and τ₃² of its linear, quadratic and separable part, which
    is made of ``n_cosines`` for each dimension, or of its square.
    """
    counts = [0] * X.shape[1] if n_categories is None else n_categories

    def kernel(x: FloatArray, z: FloatArray) -> float:
        product = separable = 0.0
        for a, b, count in zip(x, z, counts, strict=True):
            t, s = 2.0 * a - 1.0, 2.0 * b - 1.0
            product += 0.0 if count else t * s
            separable += 0.0 if count else separable_part(a, b, n_cosines)
        polynomial = trend[0] * product + trend[1] * product**2 + trend[2] * separable
        return signal_variance * (matern(scaled_distance(x, z, length_scales, counts)) + polynomial)

    return np.array([[kernel(x, z) for z in Z] for x in X]).reshape(len(X), len(Z))


def separable_part(a: float, b: float, n_cosines: int) -> float:
    """Return the product of centered squares, or Σ_k w_k² cos(π k a) cos(π k b), as documented."""
    if not n_cosines:
        return ((2.0 * a - 1.0) ** 2 - 1.0 / 3.0) * ((2.0 * b - 1.0) ** 2 - 1.0 / 3.0)
    frequencies = [math.pi * k for k in range(1, n_cosines + 1)]
    densities = [(1.0 + (0.12 * frequency) ** 2 / 5.0) ** -3 for frequency in frequencies]
    products = [math.cos(frequency * a) * math.cos(frequency * b) for frequency in frequencies]
    return sum(w * p for w, p in zip(densities, products, strict=True)) / sum(densities)


def noisy_covariance(
    X: FloatArray,
    theta: FloatArray,
    n_categories: Sequence[int] | None = None,
    known_noise: FloatArray | None = None,
    n_cosines: int = 0,
) -> FloatArray:
    """Return the covariance matrix (n, n) of noisy targets at ``X`` (n, d).

    ``theta`` has log length-scales, log signal variance, with a trend the logarithms of its three
    weights and, if noise is estimated, log excess noise; ``known_noise`` (n,) is NaN where it is
    unknown.
    """
    n, d = X.shape
    is_estimated = len(theta) in {d + 2, d + 5}
    trend = np.exp(theta[d + 1 : d + 4]).tolist() if len(theta) >= d + 4 else (0.0, 0.0, 0.0)
    noise = np.full(n, NOISE_FLOOR + math.exp(theta[-1]) if is_estimated else STATED_NOISE_FLOOR)
    if known_noise is not None:
        known = np.maximum(np.nan_to_num(known_noise), STATED_NOISE_FLOOR)
        noise = np.where(np.isnan(known_noise), noise, known)
    K = covariance(X, X, np.exp(theta[:d]), math.exp(theta[d]), n_categories, trend, n_cosines)
    return K + np.diag(noise)


def rounding(K: FloatArray) -> float:
    """Return the relative error that rounding may bring into a solution with ``K`` (n, n)."""
    return float(np.finfo(float).eps * np.linalg.cond(K))


def log_likelihood(K: FloatArray, y: FloatArray) -> float:
    """Return log N(y | 0, K) for the covariance matrix ``K`` (n, n) of the noisy targets."""
    _, log_determinant = np.linalg.slogdet(K)
    quadratic = float(y @ np.linalg.solve(K, y))
    return -0.5 * quadratic - 0.5 * float(log_determinant) - 0.5 * len(y) * math.log(2 * math.pi)


def posterior(
    K: FloatArray, K_cross: FloatArray, K_new: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return mean (m,) and covariance (m, m), Rasmussen & Williams (2006), Eqs. (2.25)-(2.26).

    ``K`` (n, n) contains the noise, ``K_cross`` is (m, n), ``K_new`` (m, m) is free of noise.
    """
    return K_cross @ np.linalg.solve(K, y), K_new - K_cross @ np.linalg.solve(K, K_cross.T)
