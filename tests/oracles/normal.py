"""Formulas of the normal distribution in arbitrary precision.

60 digits leave more than 40 after the cancellation in φ(z) + z Φ(z) at z = -1e4.
"""

from __future__ import annotations

from typing import Any

import mpmath

DIGITS = 60


def _pdf(z: Any) -> Any:
    return mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi)


def _cdf(z: Any) -> Any:
    return mpmath.erfc(-z / mpmath.sqrt(2)) / 2


def log_h(z: float) -> tuple[float, float]:
    """Return log(φ(z) + z Φ(z)) and its derivative."""
    with mpmath.workdps(DIGITS):
        x = mpmath.mpf(z)
        h = _pdf(x) + x * _cdf(x)
        return float(mpmath.log(h)), float(_cdf(x) / h)


def log_cdf(z: float) -> tuple[float, float]:
    """Return log Φ(z) and its derivative."""
    with mpmath.workdps(DIGITS):
        x = mpmath.mpf(z)
        return float(mpmath.log(_cdf(x))), float(_pdf(x) / _cdf(x))


def expected_improvement(mean: float, variance: float, incumbent: float) -> float:
    """Return E max(f - incumbent, 0) for f ~ N(mean, variance)."""
    with mpmath.workdps(DIGITS):
        sigma = mpmath.sqrt(mpmath.mpf(variance))
        z = (mpmath.mpf(mean) - mpmath.mpf(incumbent)) / sigma
        return float(sigma * (_pdf(z) + z * _cdf(z)))


def log_expected_improvement(mean: float, variance: float, incumbent: float) -> float:
    """Return the logarithm of :func:`expected_improvement`, also where that underflows."""
    with mpmath.workdps(DIGITS):
        sigma = mpmath.sqrt(mpmath.mpf(variance))
        z = (mpmath.mpf(mean) - mpmath.mpf(incumbent)) / sigma
        return float(mpmath.log(sigma * (_pdf(z) + z * _cdf(z))))


def log_softplus(value: float) -> tuple[float, float]:
    """Return log log(1 + exp(value)) and its derivative."""
    with mpmath.workdps(DIGITS):
        x = mpmath.mpf(value)
        softplus = mpmath.log1p(mpmath.exp(x))
        slope = 1 / (1 + mpmath.exp(-x)) / softplus
        return float(mpmath.log(softplus)), float(slope)
