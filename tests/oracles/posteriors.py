"""What a stopping criterion is made of, the slow way: exact matrices, quadrature, sampling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
from scipy import integrate, stats

if TYPE_CHECKING:
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

DIGITS = 60


def kl_of_posteriors(K: FloatArray, noise: float, y: FloatArray) -> float:
    """Return KL[p_t ‖ p_{t-1}] of the joint posteriors at all t points, in arbitrary precision.

    Args:
        K: Prior covariance at the points, the newest last, shape (t, t).
        noise: Noise variance.
        y: Observed values, shape (t,).
    """
    t = len(y)
    with mpmath.workdps(DIGITS):
        prior, targets = mpmath.matrix(K.tolist()), mpmath.matrix(y.tolist())
        new_mean, new = _posterior(prior, targets, t, noise)
        old_mean, old = _posterior(prior, targets, t - 1, noise)
        precision = old**-1
        shift = old_mean - new_mean
        product = precision * new
        trace = sum(product[i, i] for i in range(t))
        quadratic = (shift.T * precision * shift)[0]
        log_ratio = mpmath.log(mpmath.det(old) / mpmath.det(new))
        return float((trace + quadratic - t + log_ratio) / 2)


def _posterior(prior: Any, targets: Any, n: int, noise: float) -> tuple[Any, Any]:
    """Return mean and covariance at all points given the first ``n`` targets."""
    if n == 0:
        return mpmath.zeros(prior.rows, 1), prior
    cross = prior[:, :n]
    inverse = (prior[:n, :n] + mpmath.mpf(noise) * mpmath.eye(n)) ** -1
    return cross * inverse * targets[:n, 0], prior - cross * inverse * cross.T


def expected_excess_by_quadrature(
    mean: tuple[float, float], covariance: FloatArray
) -> tuple[float, float]:
    """Return E[max(x - y, 0)] for a bivariate normal (x, y) and a bound of the error.

    Integrates over both variables, without using that their difference is normal.
    """
    density = stats.multivariate_normal(mean, covariance).pdf
    spread = 9.0 * np.sqrt(np.diag(covariance))
    low, high = mean - spread, mean + spread
    value, error = integrate.dblquad(
        lambda y, x: (x - y) * density([x, y]),
        low[0],
        high[0],
        lambda _: low[1],
        lambda x: min(max(x, low[1]), high[1]),
        epsabs=1e-10,
        epsrel=1e-10,
    )
    return float(value), float(error)


def change_of_expected_maximum(
    mean: FloatArray,
    covariance: FloatArray,
    *,
    new: int,
    target: float,
    noise: float,
    n_samples: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return E_t[max f] - E_{t-1}[max f] on finitely many points, and its standard error.

    Draws from the posterior before an observation are turned into draws after it by conditioning
    each on the observation (Matheron's rule), so that the two maxima vary together.

    Args:
        mean: Mean of p_{t-1} at all points, shape (m,).
        covariance: Its covariance, shape (m, m).
        new: Index of the point that is observed.
        target: Its observed value.
        noise: Noise variance.
        n_samples: Number of draws.
        rng: Source of the draws.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    f = mean + rng.standard_normal((n_samples, len(mean))) @ root.T
    heard = f[:, new] + math.sqrt(noise) * rng.standard_normal(n_samples)
    gain = covariance[:, new] / (covariance[new, new] + noise)
    after = f + np.outer(target - heard, gain)
    change = after.max(axis=1) - f.max(axis=1)
    return float(change.mean()), float(change.std() / math.sqrt(n_samples))
