r"""GO-UCB: global optimization with a parametric surrogate and a ball of parameters around it.

A network (:mod:`bbo_plugins.methods.network`) is fitted to the observations by nonlinear least
squares; the next point maximizes the largest value that the network can take there as long as its
parameters stay in a ball around the fitted ones:

    x_t = argmax_x max_{w in Ball_t} f_x(w),

with f linearized in w at the weights w̄ of the regression, which has the inner maximum in closed
form: f_x at the ball's center plus √β_t ‖∇_w f_x‖ in the norm of Σ_t⁻¹. Everything is done in the
dual, from the Gram matrix of the gradients (:mod:`bbo_plugins.methods.confidence_ball`), so that a
step costs O(n²) per number of hidden units and inputs plus n³/3 for each of a few factorizations.

Source: Liu & Wang (2023), "Global Optimization with Parametric Function Approximation", Algorithm
1.

| the paper                                          | here                                        |
|----------------------------------------------------|---------------------------------------------|
| network with 25 hidden units                       | the same beside a quadratic, with priors    |
| oracle: 2,000 steps of gradient descent at 1e-11   | Levenberg-Marquardt, a few steps further at |
|                                                    | every trial, afresh ever more rarely        |
| gradients kept as they were made, at ŵ_i           | all taken anew at w̄                         |
| Eq. (4) regularized towards ŵ_0, λ = √T log² T     | towards the prior mean; scales and λ by     |
|                                                    | marginal likelihood                         |
| squared error of the values as they are            | of a transform, less exact far from the best|
| β_t = d_w³ F⁴ t/T                                  | β_t = λβ, i.e. √β posterior standard        |
|                                                    | deviations                                  |
| gradient ascent over x and w, 2,000 steps at 1e-4  | quasi-Newton ascent over x, in a trust      |
|                                                    | region, w in closed form                    |

Why: at the paper's learning rates the weights and the points hardly move from where they start, and
the ball's boundary is never reached. The paper's regret bound is for the left column.

Pending points shrink the ball as if they had been observed at the mean; points that failed are
evidence of a bad value. Constraints have networks of their own, and the bound is weighed
by the probability of feasibility as in :mod:`bbo_plugins.methods.constrained`. So it is by the
probability that a point is valid where some failed (:mod:`bbo_plugins.methods.validity`).

Too many observations for one model are left to :mod:`bbo_plugins.methods.active_set`; the trust
region follows all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.acquisition import functions
from bbo_plugins.acquisition.quasirandom import shifted_sobol
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods import active_set
from bbo_plugins.methods.network_surrogate import NetworkSurrogate, WarmNetwork, inputs
from bbo_plugins.methods.region_search import maximize_in_region
from bbo_plugins.methods.trust_region import TrustRegion, length_after
from bbo_plugins.methods.validity import LATEST_FAILED, Validity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbo_plugins.gp.kernels import FloatArray
    from bbo_plugins.methods.confidence_ball import NetworkBall
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space import SearchSpace

DEFAULT_BETA = 1.0
DEFAULT_HIDDEN_UNITS = 25


@dataclass(frozen=True)
class Suggestion:
    """The outcome of one step.

    Attributes:
        x: The suggested point, representable in the search space, shape (d,).
        warm_starts: For the objective and each constraint, what the next step's fits start from.
        notes: Fallbacks taken, in words; empty when all went well.
    """

    x: FloatArray
    warm_starts: tuple[WarmNetwork, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Optimism:
    """The acquisition function: an upper confidence bound, weighed by constraints if there are any.

    Attributes:
        features: The map to the networks' inputs.
        objective: Ball of the objective's network; None if nothing but feasibility is wanted.
        multiplier: √β, standard deviations in the bound.
        incumbent: Largest mean at points that may be the best; used with weights only.
        constraints: Balls of the slacks' networks, and the slack from which on a point is feasible.
        validity: Where an evaluation returns a value; None if none has failed.
    """

    features: FeatureMap
    objective: NetworkBall | None
    multiplier: float
    incumbent: float
    constraints: tuple[tuple[NetworkBall, float], ...] = ()
    validity: Validity | None = None

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values at ``X`` (m, d), shape (m,)."""
        U = inputs(X, self.features)
        value = np.zeros(len(X))
        if self.objective is not None:
            value += self._bound(*self.objective.predict(U)).value
        for ball, limit in self.constraints:
            value += functions.log_probability_of_feasibility(*ball.predict(U), limit).value
        if self.validity is not None:
            value += self.validity.log_probability(X)
        return value

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""
        U = inputs(X, self.features)
        value, by_input = np.zeros(len(X)), np.zeros(U.shape)
        if self.objective is not None:
            mean, variance, *gradients = self.objective.predict_with_gradients(U)
            bound = self._bound(mean, variance)
            value += bound.value
            by_input += functions.chain(bound, *gradients)
        for ball, limit in self.constraints:
            mean, variance, *gradients = ball.predict_with_gradients(U)
            feasible = functions.log_probability_of_feasibility(mean, variance, limit)
            value += feasible.value
            by_input += functions.chain(feasible, *gradients)
        gradient = np.zeros(X.shape)
        gradient[:, self.features.numeric] = 2.0 * by_input[:, self.features.numeric_columns]
        if self.validity is not None:
            log_probability, by_x = self.validity.log_probability_and_gradient(X)
            value += log_probability
            gradient += by_x
        return value, gradient

    def _bound(self, mean: FloatArray, variance: FloatArray) -> functions.Derivatives:
        bound = functions.upper_confidence_bound(mean, variance, self.multiplier)
        if not self.constraints and self.validity is None:
            return bound
        value, slope = functions.log_softplus(bound.value - self.incumbent)
        return functions.Derivatives(value, slope * bound.by_mean, slope * bound.by_variance)


@one_blas_thread()
def suggest(
    space: SearchSpace,
    observations: Observations,
    *,
    rng: np.random.Generator,
    n_startup: int,
    hidden_units: int = DEFAULT_HIDDEN_UNITS,
    beta: float = DEFAULT_BETA,
    regularization: float | None = None,
    deterministic: bool = False,
    warm_starts: Sequence[WarmNetwork | None] = (),
) -> Suggestion:
    """Return the next point to evaluate.

    A pure function of its arguments (``rng`` counts by its state). Where no model can be fitted it
    returns a random point and says so in the notes; it does not raise for odd data.

    Args:
        space: The search space, d dimensions.
        observations: What is known of the study; at least one evaluated point, in their order.
        rng: Source of randomness of the networks and the candidate points.
        n_startup: How many of the observations were not suggested by this method.
        hidden_units: h, size of the network.
        beta: β, squared number of posterior standard deviations in the bound.
        regularization: λ, noise variance of standardized targets; None to estimate it.
        deterministic: Whether the objective is free of noise; then no evaluated point is suggested
            again before the space is exhausted. In a space with a continuous parameter none is
            in either case.
        warm_starts: The :attr:`Suggestion.warm_starts` of the previous step.
    """
    try:
        return _suggest_by_model(
            space,
            observations,
            rng=rng,
            n_startup=n_startup,
            hidden_units=hidden_units,
            beta=beta,
            regularization=regularization,
            deterministic=deterministic,
            warm_starts=warm_starts,
        )
    except (ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
        x = space.snap(shifted_sobol(1, len(space), rng))[0]
        reason = str(error) or type(error).__name__
        return Suggestion(x, (), (f"no network could be used ({reason}), so the point is random",))


def _suggest_by_model(
    space: SearchSpace,
    observations: Observations,
    *,
    rng: np.random.Generator,
    n_startup: int,
    hidden_units: int,
    beta: float,
    regularization: float | None,
    deterministic: bool,
    warm_starts: Sequence[WarmNetwork | None],
) -> Suggestion:
    """Fit the networks and maximize the bound in the trust region; may raise on unusable data."""
    features = FeatureMap(tuple(space.n_categories.tolist()))
    failed = _failed(observations)
    told = active_set.modeled(observations, features)
    slacks = _slacks(told)
    starts = [*warm_starts, *([None] * (1 + len(slacks)))]
    surrogate = NetworkSurrogate.fit(
        told.X,
        told.y,
        features,
        rng=rng,
        hidden_units=hidden_units,
        regularization=regularization,
        noise_variance=told.noise_variance,
        deterministic=deterministic,
        warm_start=starts[0],
    )
    constraints = []
    for slack, start in zip(slacks, starts[1:], strict=False):
        known = np.isfinite(slack)
        constraints.append(
            NetworkSurrogate.fit(
                told.X[known],
                slack[known],
                features,
                rng=rng,
                hidden_units=hidden_units,
                warm_start=start,
            )
        )
    eligible = _eligible(observations, _slacks(observations))
    region, incumbent = _region(space, observations, surrogate, constraints, eligible, n_startup)
    pending = inputs(observations.pending, features)
    objective = _believing(surrogate.doubting(failed[-LATEST_FAILED:]), surrogate, pending)
    # Among infinitely many points, one close by teaches as much as a repeat, and more.
    unrepeated = deterministic or space.size is None
    x = maximize_in_region(
        Optimism(
            features,
            objective if eligible.any() or not constraints else None,
            math.sqrt(beta),
            incumbent,
            tuple((_believing(one.ball, one, pending), _limit(one)) for one in constraints),
            Validity.of(told.X, failed, features),
        ),
        space,
        region,
        rng=rng,
        excluded=np.concatenate([observations.X, failed]) if unrepeated else failed,
        pending=observations.pending,
    )
    models = [surrogate, *constraints]
    return Suggestion(x, tuple(model.warm_start for model in models), ())


def _failed(observations: Observations) -> FloatArray:
    """Return the points (f, d) that failed and have not been evaluated since."""
    if observations.failed is None:
        return observations.X[:0]
    evaluated = {row.tobytes() for row in observations.X}
    still = [row for row in observations.failed if row.tobytes() not in evaluated]
    return np.array(still).reshape(len(still), observations.X.shape[1])


def _slacks(observations: Observations) -> list[FloatArray]:
    """Return -c (n,) of each constraint that at least one trial reports, NaN where unknown."""
    if observations.constraints is None:
        return []
    return [-column for column in observations.constraints.T if np.isfinite(column).any()]


def _eligible(observations: Observations, slacks: Sequence[FloatArray]) -> NDArray[np.bool_]:
    """Return which observed points (n,) may be the best: complete and, if so asked, feasible.

    A trial that reports some constraints is judged by those, one that reports none is not feasible.
    """
    eligible = observations.complete.copy()
    if slacks:
        values = np.column_stack(slacks)
        eligible &= ~np.isnan(values).all(axis=1)
        eligible &= ~(values < 0.0).any(axis=1)  # NaN, not reported, is no violation
    return eligible


def _limit(constraint: NetworkSurrogate) -> float:
    """Return the transformed slack from which on a point is feasible."""
    return float(constraint.transform.forward(np.zeros(1))[0])


def _believing(ball: NetworkBall, model: NetworkSurrogate, pending: FloatArray) -> NetworkBall:
    """Return ``ball`` after inputs ``pending`` (p, D), as if observed at their means."""
    return ball.with_more(pending, np.full(len(pending), model.noise_variance))


def _region(
    space: SearchSpace,
    observations: Observations,
    surrogate: NetworkSurrogate,
    constraints: Sequence[NetworkSurrogate],
    eligible: NDArray[np.bool_],
    n_startup: int,
) -> tuple[TrustRegion, float]:
    """Return the trust region, and the mean at its center.

    Its center is the observed point with the best mean; as long as none may be the best, the one
    that the constraints' models like most.
    """
    points = space.snap(observations.X)
    mean = surrogate.predict_mean(points)
    if eligible.any():
        worth = np.where(eligible, mean, -np.inf)
        values = np.where(eligible, observations.y, -np.inf)
    elif constraints:
        worth = np.zeros(len(points))
        for model in constraints:
            prediction = model.predict(points)
            worth += functions.log_probability_of_feasibility(*prediction, _limit(model)).value
        values = np.full(len(points), -np.inf)
    else:
        worth, values = mean, observations.y
    best = int(np.argmax(worth))
    return TrustRegion(points[best], length_after(values, n_startup)), float(mean[best])
