"""Formulas of the regret gap and its rivals, over numbers or arrays in one common unit.

The unit is that of the targets of the Gaussian process; a probability and a KL divergence have
none. Values are maximized. :mod:`bbo_plugins.methods.regret_gap` lists symbols and deviations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.acquisition import functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.space.dimension import FloatArray

_SQRT_2, _SQRT_2PI = math.sqrt(2.0), math.sqrt(2.0 * math.pi)


@dataclass(frozen=True, kw_only=True)
class Update:
    """An observation, and the moments under p_{t-1} of the two points that Eq. (2) compares.

    Attributes:
        mean_best: μ_{t-1}(θ*_{t-1}).
        mean_new: μ_{t-1}(θ_t).
        variance_best: σ²_{t-1}(θ*_{t-1}).
        variance_new: σ²_{t-1}(θ_t).
        covariance: σ²_{t-1}(θ*_{t-1}, θ_t).
        target: y_t.
        noise_variance: λ⁻¹, positive.
        improved: Whether y_t is the best value so far, hence θ*_t = θ_t; if not, θ*_t = θ*_{t-1}.
    """

    mean_best: float
    mean_new: float
    variance_best: float
    variance_new: float
    covariance: float
    target: float
    noise_variance: float
    improved: bool

    @property
    def innovation(self) -> float:
        """y_t - μ_{t-1}(θ_t)."""
        return self.target - self.mean_new

    @property
    def target_variance(self) -> float:
        """Variance of y_t under p_{t-1}."""
        return self.variance_new + self.noise_variance


@dataclass(frozen=True, kw_only=True)
class GapTerms:
    """The bound ΔR̃_t and its terms, in the order of Algorithm 1.

    Attributes:
        mean_change: |Δμ*|, the first term.
        incumbent_change: v (φ(g) + g Φ(g)), the second; 0 where the best point stayed the same.
        information: κ_{t-1} √(KL/2), the third.
        kappa: κ_{t-1}.
        kl: KL[p_t ‖ p_{t-1}] in nats.
        v: Standard deviation of f(θ*_{t-1}) - f(θ*_t) under p_t.
        g: Its mean divided by v; 0 where v is.
        auto_threshold: s_t of Eq. (7).
    """

    mean_change: float
    incumbent_change: float
    information: float
    kappa: float
    kl: float
    v: float
    g: float
    auto_threshold: float

    @property
    def value(self) -> float:
        """ΔR̃_t."""
        # Eq. (2), the sum of its terms
        return self.mean_change + self.incumbent_change + self.information

    def times(self, unit: float) -> GapTerms:
        """Return the terms in other units, of which one of these is ``unit``."""
        return replace(
            self,
            mean_change=unit * self.mean_change,
            incumbent_change=unit * self.incumbent_change,
            information=unit * self.information,
            kappa=unit * self.kappa,
            v=unit * self.v,
            auto_threshold=unit * self.auto_threshold,
        )


def gap_terms(update: Update, kappa: float, delta: float) -> GapTerms:
    """Return the bound for one observation.

    Args:
        update: The observation.
        kappa: κ_{t-1}, from :func:`regret_bound` under p_{t-1}.
        delta: δ of Eq. (7), in (0, 1).

    Returns:
        The terms in the unit of the targets.
    """
    share = update.innovation / update.target_variance
    best_after = update.mean_best + update.covariance * share  # μ_t(θ*_{t-1})
    v = g = incumbent_change = 0.0
    mean_change = abs(best_after - update.mean_best)
    if update.improved:
        new_after = update.mean_new + update.variance_new * share  # μ_t(θ*_t)
        mean_change = abs(new_after - update.mean_best)
        v = math.sqrt(difference_variance(update))
        g = (best_after - new_after) / v if v > 0.0 else 0.0
        incumbent_change = expected_excess(best_after - new_after, v)  # Eq. (3), second term
    kl = kl_divergence(update.variance_new, update.noise_variance, update.innovation)
    # Algorithm 1, line 8
    return GapTerms(
        mean_change=mean_change,
        incumbent_change=incumbent_change,
        information=kappa * math.sqrt(0.5 * kl),  # Eq. (2), third term
        kappa=kappa,
        kl=kl,
        v=v,
        g=g,
        auto_threshold=auto_threshold(update, kappa, delta),
    )


def difference_variance(update: Update) -> float:
    """Return v², the variance of f(θ*_{t-1}) - f(θ_t) after the observation; not below 0.

    Args:
        update: The observation.
    """
    # Theorem 1, v²
    before = update.variance_best - 2.0 * update.covariance + update.variance_new
    explained = (update.variance_new - update.covariance) ** 2 / update.target_variance
    return max(before - explained, 0.0)


def kl_divergence(variance: float, noise_variance: float, innovation: float) -> float:
    """Return KL[p_t ‖ p_{t-1}] in nats.

    Args:
        variance: σ²_{t-1}(θ_t).
        noise_variance: λ⁻¹.
        innovation: y_t - μ_{t-1}(θ_t).
    """
    target_variance = variance + noise_variance
    reduction = variance / target_variance
    surprise = innovation * innovation / target_variance
    # Eq. (4)
    kl = 0.5 * (math.log1p(variance / noise_variance) - reduction + reduction * surprise)
    return max(kl, 0.0)


def expected_excess(mean: float, std: float) -> float:
    """Return E[max(z, 0)] of a normal z.

    Args:
        mean: Mean of z.
        std: Standard deviation of z, at least 0.
    """
    if std == 0.0:
        return max(mean, 0.0)
    g = mean / std
    density = math.exp(-0.5 * g * g) / _SQRT_2PI
    # Lemma 3; rounding can make it negative where it is next to nothing
    return max(std * density + mean * 0.5 * math.erfc(-g / _SQRT_2), 0.0)


def auto_threshold(update: Update, kappa: float, delta: float) -> float:
    """Return s_t, the part of the bound of Eq. (6) that vanishes most slowly.

    Args:
        update: The observation.
        kappa: κ_{t-1}.
        delta: δ, in (0, 1).
    """
    incumbent_variance = update.variance_new if update.improved else update.variance_best
    c = math.sqrt(-2.0 * math.log(delta))  # as in Eq. (6)
    # Eq. (7), with 1/√λ = √(λ⁻¹)
    numerator = (math.sqrt(incumbent_variance) + 0.5 * kappa) * math.sqrt(update.variance_new) * c
    return numerator * math.sqrt(update.noise_variance) / update.target_variance


def confidence_multiplier(n_candidates: int, t: int, delta: float) -> float:
    """Return √β_t.

    Args:
        n_candidates: Number m of points of Θ.
        t: Number of observations, at least 1.
        delta: δ, in (0, 1).
    """
    # Section 5.1, β_t
    return math.sqrt(2.0 * math.log(n_candidates * t * t * math.pi**2 / (6.0 * delta)))


def regret_bound(
    mean: FloatArray, variance: FloatArray, n_observed: int, multiplier: float
) -> tuple[float, float]:
    """Return the largest upper bound over Θ and the largest lower bound over observed points.

    Their difference, never negative, bounds the simple regret with high probability: under p_t it
    is the criterion of Makarova et al. (2022), under p_{t-1} it is κ_{t-1}.

    Args:
        mean: Posterior means over Θ, the observed points first, shape (m,).
        variance: Posterior variances there, shape (m,).
        n_observed: How many of the points are observed, at least one.
        multiplier: √β.
    """
    width = multiplier * np.sqrt(variance)
    # Eq. (1), both terms
    return float((mean + width).max()), float((mean - width)[:n_observed].max())


def improvement(mean: FloatArray, variance: FloatArray, incumbent: float) -> tuple[float, float]:
    """Return expected improvement and its probability where the former is largest.

    Args:
        mean: Posterior means over Θ, shape (m,).
        variance: Posterior variances there, positive, shape (m,).
        incumbent: The value to improve on.
    """
    # In log space the largest is found also where all of them underflow.
    logarithms = functions.log_expected_improvement(mean, variance, incumbent).value
    best = int(np.argmax(logarithms))
    at_best = slice(best, best + 1)
    log_probability = functions.log_probability_of_feasibility(
        mean[at_best], variance[at_best], incumbent
    ).value
    return math.exp(float(logarithms[best])), math.exp(float(log_probability[0]))


def cross_validation_threshold(scores: Sequence[float]) -> float:
    """Return the estimated standard deviation of a cross-validated value, Eq. (5).

    Args:
        scores: The value on each of K >= 2 folds, for the hyperparameters of the incumbent.
    """
    values = np.asarray(scores, dtype=np.float64)
    n_folds = values.size
    # Of K folds one validates and K - 1 train: |D_val| / |D_tr| = 1 / (K - 1).
    factor = 1.0 / n_folds + 1.0 / (n_folds - 1.0)
    # Eq. (5)
    return math.sqrt(factor * float(values.var(ddof=1)))
