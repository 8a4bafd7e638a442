r"""Acquisition functions (maximization), and the acquisition of a constrained objective.

With z = (μ - μ⁺) / σ and h(z) = φ(z) + z Φ(z):

    EI(x)      = σ h(z)               expected improvement over the incumbent μ⁺
    log EI(x)  = log σ + log h(z)     usable where EI underflows
    UCB(x)     = μ + β σ              upper confidence bound; β multiplies σ, without a root
    log PoF(x) = log Φ((μ - t) / σ)   log probability that a constrained quantity is at least t

Each is a pure function of the posterior mean and variance, with its partial derivatives by both;
the model's pullback turns those into a gradient by x. All arrays have the shape of ``mean``.

log h has three regimes, because φ(z) + z Φ(z) cancels for negative z: the formula itself for
z > -1; log φ(z) + log1p(z R(z)) with R(z) = Φ(z)/φ(z) by the scaled complementary error function
down to z = -25; the asymptotic series h(z) = φ(z) z⁻² (1 - 3 z⁻² + 15 z⁻⁴ - ...) below.

:class:`ConstrainedAcquisition` multiplies the objective's acquisition by the probability of
feasibility and, where evaluations have failed or were cut off, by a power of the probability that
they are not: a plain one would not keep expected improvement off a border once the search has
converged.

Deviation: with such weights log softplus(UCB - μ⁺) + Σ log PoF takes the place of UCB; it increases
with UCB and needs no sign convention.

Sources: log EI after Ament et al. (2023), "Unexpected Improvements to Expected Improvement for
Bayesian Optimization", section 4; UCB and the incumbent, the largest posterior mean at observed
points, after Fu et al. (2024), "Convergence of Bayesian Bilevel Optimization", Algorithm 1 and
section 3.2 (there for minimization); the product with the probability of feasibility after Gardner
et al. (2014), "Bayesian Optimization with Inequality Constraints".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, assert_never

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from bbo_plugins.gp.posterior import Pullback
    from bbo_plugins.space.dimension import FloatArray

AcquisitionName = Literal["logei", "ei", "ucb"]
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_HALF_PI = math.sqrt(0.5 * math.pi)
_MIDDLE = -1.0  # z below which φ(z) + z Φ(z) is no longer computed directly
_TAIL = -25.0  # z below which the asymptotic series is more accurate than log1p
# Coefficients of the asymptotic series Φ(z)/φ(z) = |z|⁻¹ Σ a_k z⁻²ᵏ and h(z)/φ(z) = z⁻² Σ b_k z⁻²ᵏ,
# the highest power first.
_RATIO_SERIES = (10395.0, -945.0, 105.0, -15.0, 3.0, -1.0, 1.0)
_H_SERIES = (135135.0, -10395.0, 945.0, -105.0, 15.0, -3.0, 1.0)


class Derivatives(NamedTuple):
    """An acquisition value (m,), and its derivatives by posterior means and variances.

    They have shape (m,), or (m, k) for k objectives.
    """

    value: FloatArray
    by_mean: FloatArray
    by_variance: FloatArray


def log_h(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log(φ(z) + z Φ(z)) and its derivative Φ(z) / (φ(z) + z Φ(z)), shaped like ``z``."""
    z = np.asarray(z, dtype=np.float64)
    lowest, highest = float(z.min(initial=np.inf)), float(z.max(initial=-np.inf))
    for low, high, regime in _REGIMES:
        if low < lowest and highest <= high:  # the common case: all in one regime
            return regime(z)
    value, slope = np.full_like(z, np.nan), np.full_like(z, np.nan)
    for low, high, regime in _REGIMES:
        inside = (z > low) & (z <= high)
        value[inside], slope[inside] = regime(z[inside])
    return value, slope


def _log_h_direct(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    cdf = special.ndtr(z)
    h = np.exp(-0.5 * z * z - _LOG_SQRT_2PI) + z * cdf
    return np.log(h), cdf / h


def _log_h_scaled(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    ratio = _SQRT_HALF_PI * special.erfcx(-_SQRT_HALF * z)  # Φ(z) / φ(z)
    relative = z * ratio
    return -0.5 * z * z - _LOG_SQRT_2PI + np.log1p(relative), ratio / (1.0 + relative)


def _log_h_series(z: FloatArray) -> tuple[FloatArray, FloatArray]:
    inverse_square = 1.0 / (z * z)
    series = np.polyval(_H_SERIES, inverse_square)
    value = -0.5 * z * z - _LOG_SQRT_2PI - 2.0 * np.log(-z) + np.log(series)
    return value, -z * np.polyval(_RATIO_SERIES, inverse_square) / series


# z is in (low, high] where the third entry applies.
_REGIMES = (
    (_MIDDLE, math.inf, _log_h_direct),
    (_TAIL, _MIDDLE, _log_h_scaled),
    (-math.inf, _TAIL, _log_h_series),
)


def log_expected_improvement(
    mean: FloatArray, variance: FloatArray, incumbent: float | FloatArray
) -> Derivatives:
    """Return log EI.

    Args:
        mean: Posterior means, any shape.
        variance: Posterior variances, positive, same shape.
        incumbent: μ⁺, in the units of ``mean``; an array of them is broadcast with ``mean``.
    """
    sigma = np.sqrt(variance)
    z = (mean - incumbent) / sigma
    log_value, slope = log_h(z)
    # ∂/∂σ² = (1 - z h'(z)/h(z)) / 2σ², which is φ(z) / (2σ² h(z)): the form that does not cancel
    density_ratio = np.where(
        z > _MIDDLE, np.exp(-0.5 * z * z - _LOG_SQRT_2PI - log_value), 1.0 - slope * z
    )
    return Derivatives(np.log(sigma) + log_value, slope / sigma, 0.5 * density_ratio / variance)


def expected_improvement(mean: FloatArray, variance: FloatArray, incumbent: float) -> Derivatives:
    """Return EI; zero, with its derivatives, where it underflows.

    Args:
        mean: Posterior means, any shape.
        variance: Posterior variances, positive, same shape.
        incumbent: μ⁺, in the units of ``mean``.
    """
    sigma = np.sqrt(variance)
    z = (mean - incumbent) / sigma
    cdf = special.ndtr(z)
    pdf = np.exp(-0.5 * z * z - _LOG_SQRT_2PI)
    value = np.maximum((mean - incumbent) * cdf + sigma * pdf, 0.0)
    return Derivatives(value, cdf, 0.5 * pdf / sigma)


def upper_confidence_bound(mean: FloatArray, variance: FloatArray, beta: float) -> Derivatives:
    """Return μ + βσ.

    Args:
        mean: Posterior means, any shape.
        variance: Posterior variances, positive, same shape.
        beta: β, multiplier of σ.
    """
    sigma = np.sqrt(variance)
    return Derivatives(mean + beta * sigma, np.ones_like(mean), 0.5 * beta / sigma)


def log_probability_of_feasibility(
    mean: FloatArray, variance: FloatArray, threshold: float
) -> Derivatives:
    """Return log Φ((μ - t)/σ).

    Args:
        mean: Posterior means, any shape.
        variance: Posterior variances, positive, same shape.
        threshold: t, in the units of ``mean``.
    """
    sigma = np.sqrt(variance)
    z = (mean - threshold) / sigma
    value = special.log_ndtr(z)
    # φ/Φ through the scaled complementary error function, which neither cancels nor underflows
    slope = (1.0 / _SQRT_HALF_PI) / special.erfcx(-_SQRT_HALF * z)
    return Derivatives(value, slope / sigma, -0.5 * slope * z / variance)


def log_softplus(value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log(log(1 + exp(value))), which is about ``value`` far below 0, and its derivative."""
    softplus = np.logaddexp(0.0, value)
    # below -30 softplus(v) = exp(v) to double precision
    log_value = np.where(value < -30.0, value, np.log(np.maximum(softplus, 1e-300)))
    return log_value, np.exp(-np.logaddexp(0.0, -value) - log_value)


class Posterior(Protocol):
    """What a model predicts over the unit cube: a Gaussian of independent points."""

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance at ``X`` (m, d), each of shape (m,)."""

    def predict_with_pullback(self, X: FloatArray) -> tuple[FloatArray, FloatArray, Pullback]:
        """Return mean (m,) and variance (m,) at ``X`` (m, d), and their pullback."""


class Weight(Protocol):
    """A probability p by which an acquisition function is multiplied, as p to ``exponent``."""

    @property
    def exponent(self) -> float:
        """Power of the probability."""

    def log_probability(self, X: FloatArray) -> FloatArray:
        """Return log p at ``X`` (m, d), shape (m,)."""

    def log_probability_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log p (m,) and its gradient (m, d) at ``X`` (m, d)."""


@dataclass(frozen=True)
class ConstraintModel:
    """The posterior of one constraint's slack -c.

    Attributes:
        process: Posterior of the transformed slack.
        limit: t, the transformed slack from which on a point is feasible.
    """

    process: Posterior
    limit: float


@dataclass(frozen=True)
class Feasibility:
    """The probability that a point is feasible and that its evaluation returns a value, in logs.

    It weights other acquisition functions. By itself it is the one to maximize where no observed
    point is feasible.

    Attributes:
        constraints: Models of the constraints.
        weights: Probabilities that an evaluation returns a value, and that it is not cut off, where
            there is a model of it.
    """

    constraints: tuple[ConstraintModel, ...] = ()
    weights: tuple[Weight, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether the probability is one everywhere, as there is no model."""
        return not (self.constraints or self.weights)

    def value(self, X: FloatArray) -> FloatArray:
        """Return the log probabilities at ``X`` (m, d), to the weights' powers, shape (m,)."""
        value = self._of_constraints(X)
        for weight in self.weights:
            value += weight.exponent * weight.log_probability(X)
        return value

    def _of_constraints(self, X: FloatArray) -> FloatArray:
        value = np.zeros(len(X))
        for constraint in self.constraints:
            mean, variance = constraint.process.predict(X)
            value += log_probability_of_feasibility(mean, variance, constraint.limit).value
        return value

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""
        value, gradient = np.zeros(len(X)), np.zeros(X.shape)
        for constraint in self.constraints:
            mean, variance, pullback = constraint.process.predict_with_pullback(X)
            found = log_probability_of_feasibility(mean, variance, constraint.limit)
            value += found.value
            gradient += pullback(found.by_mean, found.by_variance)
        for weight in self.weights:
            log_probability, slope = weight.log_probability_and_gradient(X)
            value += weight.exponent * log_probability
            gradient += weight.exponent * slope
        return value, gradient

    def expected_gain(self, x: FloatArray) -> float:
        """Return the probability at ``x`` (d,); the weights' powers rank, but are no part of it."""
        X = x[None, :]
        log_probability = float(self._of_constraints(X)[0])
        for weight in self.weights:
            log_probability += float(weight.log_probability(X)[0])
        return math.exp(log_probability)


@dataclass(frozen=True)
class ConstrainedAcquisition:
    """An acquisition function of the objective, weighted by the probability of feasibility.

    Attributes:
        kind: Which acquisition function.
        objective: Posterior of the transformed objective.
        incumbent: μ⁺ in transformed units.
        beta: Multiplier of σ, used by "ucb".
        feasibility: The probability of feasibility.
    """

    kind: AcquisitionName
    objective: Posterior
    incumbent: float
    beta: float
    feasibility: Feasibility = field(default_factory=Feasibility)

    def value(self, X: FloatArray) -> FloatArray:
        """Return the acquisition values at ``X`` (m, d), shape (m,)."""
        value = self._of_objective(*self.objective.predict(X)).value
        return self._combine(value, self.feasibility.value(X))

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""
        mean, variance, pullback = self.objective.predict_with_pullback(X)
        derivatives = self._of_objective(mean, variance)
        gradient = pullback(derivatives.by_mean, derivatives.by_variance)
        if self.feasibility.is_certain:
            return derivatives.value, gradient
        log_feasibility, feasibility_gradient = self.feasibility.value_and_gradient(X)
        value = self._combine(derivatives.value, log_feasibility)
        if self.kind == "ei":
            feasibility = np.exp(log_feasibility)[:, None]
            return value, feasibility * gradient + value[:, None] * feasibility_gradient
        return value, gradient + feasibility_gradient

    def expected_gain(self, x: FloatArray) -> float:
        """Return expected improvement times the probability of feasibility.

        That is what an evaluation at ``x`` (d,) can be expected to bring, in transformed units, in
        which good targets have a standard deviation of about one.
        """
        mean, variance = self.objective.predict(x[None, :])
        gain = expected_improvement(mean, variance, self.incumbent).value
        return float(gain[0]) * self.feasibility.expected_gain(x)

    def _of_objective(self, mean: FloatArray, variance: FloatArray) -> Derivatives:
        if self.kind == "logei":
            return log_expected_improvement(mean, variance, self.incumbent)
        if self.kind == "ei":
            return expected_improvement(mean, variance, self.incumbent)
        if self.kind != "ucb":
            assert_never(self.kind)
        bound = upper_confidence_bound(mean, variance, self.beta)
        if self.feasibility.is_certain:
            return bound
        value, slope = log_softplus(bound.value - self.incumbent)
        return Derivatives(value, slope * bound.by_mean, slope * bound.by_variance)

    def _combine(self, value: FloatArray, log_feasibility: FloatArray) -> FloatArray:
        if self.kind == "ei":
            return value * np.exp(log_feasibility)
        return value + log_feasibility
