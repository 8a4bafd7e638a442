"""An acquisition function of the objective, weighted by the probability of feasibility.

Where evaluations failed, it is weighted by the probability of validity in the same way, to a power:
expected improvement falls by many orders of magnitude where the search has converged, and a plain
probability would not keep it off a border behind which nothing is valid.

Source: the product of expected improvement and probability of feasibility after Gardner et al.
(2014), "Bayesian Optimization with Inequality Constraints".

Deviation: with such weights, the upper confidence bound is replaced by log softplus(UCB - μ⁺) +
Σ log PoF, which is increasing in UCB and needs no sign convention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bbo_plugins.acquisition import functions

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FloatArray
    from bbo_plugins.gp.regression import GaussianProcess
    from bbo_plugins.methods.validity import Validity

AcquisitionName = Literal["logei", "ei", "ucb"]


@dataclass(frozen=True)
class ConstraintModel:
    """The posterior of one constraint's slack -c.

    Attributes:
        process: Posterior of the transformed slack.
        limit: t, the transformed slack from which on a point is feasible.
    """

    process: GaussianProcess
    limit: float


@dataclass(frozen=True)
class ConstrainedAcquisition:
    """An acquisition function of the objective, weighted by the probability of feasibility.

    Attributes:
        kind: Which acquisition function; None for the probability of feasibility alone.
        objective: Posterior of the transformed objective.
        incumbent: μ⁺ in transformed units.
        beta: Multiplier of σ, used by "ucb".
        constraints: Models of the constraints.
        validity: Where an evaluation returns a value; None if none has failed.
    """

    kind: AcquisitionName | None
    objective: GaussianProcess
    incumbent: float
    beta: float
    constraints: tuple[ConstraintModel, ...] = ()
    validity: Validity | None = None

    def value(self, X: FloatArray) -> FloatArray:
        """Return the acquisition values at ``X`` (m, d), shape (m,)."""
        log_feasibility = np.zeros(len(X))
        for constraint in self.constraints:
            mean, variance = constraint.process.predict(X)
            log_feasibility += functions.log_probability_of_feasibility(
                mean, variance, constraint.limit
            ).value
        if self.validity is not None:
            log_feasibility += self.validity.exponent * self.validity.log_probability(X)
        if self.kind is None:
            return log_feasibility
        return self._combine(self._of_objective(*self.objective.predict(X)).value, log_feasibility)

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""
        log_feasibility, feasibility_gradient = np.zeros(len(X)), np.zeros(X.shape)
        for constraint in self.constraints:
            mean, variance, *gradients = constraint.process.predict_with_gradients(X)
            derivatives = functions.log_probability_of_feasibility(mean, variance, constraint.limit)
            log_feasibility += derivatives.value
            feasibility_gradient += functions.chain(derivatives, *gradients)
        if self.validity is not None:
            log_probability, gradient = self.validity.log_probability_and_gradient(X)
            log_feasibility += self.validity.exponent * log_probability
            feasibility_gradient += self.validity.exponent * gradient
        if self.kind is None:
            return log_feasibility, feasibility_gradient
        mean, variance, *gradients = self.objective.predict_with_gradients(X)
        derivatives = self._of_objective(mean, variance)
        gradient = functions.chain(derivatives, *gradients)
        value = self._combine(derivatives.value, log_feasibility)
        if self.kind == "ei" and self._is_weighted:
            weight = np.exp(log_feasibility)[:, None]
            return value, weight * gradient + value[:, None] * feasibility_gradient
        return value, gradient + feasibility_gradient

    @property
    def _is_weighted(self) -> bool:
        return bool(self.constraints) or self.validity is not None

    def expected_gain(self, x: FloatArray) -> float:
        """Return expected improvement times probability of feasibility at ``x`` (d,).

        In transformed units, in which good targets have a standard deviation of about one. Where
        no observed point is feasible, so that ``kind`` is None, the probability of feasibility.
        """
        if self.kind is None:
            return math.exp(float(self.value(x[None, :])[0]))
        return float(replace(self, kind="ei").value(x[None, :])[0])

    def _of_objective(self, mean: FloatArray, variance: FloatArray) -> functions.Derivatives:
        if self.kind == "logei":
            return functions.log_expected_improvement(mean, variance, self.incumbent)
        if self.kind == "ei":
            return functions.expected_improvement(mean, variance, self.incumbent)
        bound = functions.upper_confidence_bound(mean, variance, self.beta)
        if not self._is_weighted:
            return bound
        value, slope = functions.log_softplus(bound.value - self.incumbent)
        return functions.Derivatives(value, slope * bound.by_mean, slope * bound.by_variance)

    def _combine(self, value: FloatArray, log_feasibility: FloatArray) -> FloatArray:
        if self.kind == "ei":
            return value * np.exp(log_feasibility)
        return value + log_feasibility
