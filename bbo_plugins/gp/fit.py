"""Maximum a posteriori estimate of the kernel's hyperparameters.

:func:`fit_map` maximizes the log marginal likelihood plus a log prior over the log hyperparameters
θ by a dense BFGS. Another :class:`bbo_plugins.gp.likelihood.FitCriterion` may take the place of the
marginal likelihood; "log posterior" then means that criterion plus the log prior.

A warm fit starts from the optimum and the inverse Hessian of an earlier one (:class:`WarmStart`),
which the caller stores. The result depends on the data and on that value alone, so that a fresh
process repeats it. A cold fit compares several starts, on a subset of many observations, and
continues the best one on all of them. A search ends early where it leads to an optimum that an
earlier one has found, or to a far lower one. A fit is cold without an earlier one, if the number of
parameters has changed, if the number of observations has passed a milestone, or if the warm fit's
log posterior per observation is clearly below the earlier one's. A fit that fails returns the
prior's location and says so in :attr:`Fit.note`; nothing here raises.

The default prior is an independent normal distribution of each log hyperparameter,

    log ℓ_i ~ N(log(0.35 √d), 1),    log s² ~ N(0, 1),    log σ_n² ~ N(log 1e-3, 3²),
    log τ₁² ~ N(log(0.3/c), 1.5²),    log τ₂² ~ N(log(0.9/c²), 1.5²),
    log τ₃² ~ N(log(11.25/c), 1.5²),

for standardized targets and inputs in the unit cube, with c dimensions in the trend. The location
of the length-scales grows with √d, as distances in the cube do (Hvarfner, Hellsten & Nardi 2024,
"Vanilla Bayesian Optimization Performs Great in High Dimensions"). For a parameter that exists at
some points only, d is the mean number of parameters that do. Over the cube |t|² is c/3 on average
and Σ (t_i² - 1/3)² is 4c/45, so that at the modes the parts of the trend have about 0.1, 0.1 and 1
times the variance s², however many dimensions there are. With cosines in place of the squares,
log τ₃² ~ N(log(0.2/c), 3²): a tenth of s², with a wide prior, as many functions are not sums over
the dimensions. The constants are a choice of this project.

Beside a trend, parameters may be without effect: above its mode, the log density of log ℓ_i is that
of a Cauchy distribution of scale 1, up to a constant, so that the far longer length-scale of such a
parameter costs little. From five parameters on, the mode is then that of 2 √d of them. Without a
trend the length-scales would follow any slope: they and s² would grow together, until the
covariance matrix is singular.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bbo_plugins.gp.likelihood import (
    MARGINAL,
    N_TREND,
    BoundCriterion,
    FitCriterion,
    Hyperparameters,
    is_noise_estimated,
)
from bbo_plugins.space.dimension import FloatArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.space.dimension import IntArray

_LENGTH_SCALE_LOCATION = 0.35
NOISE_LOCATION = 1e-3
# Of a part of the trend: its variance on average over the cube, in units of s², and the standard
# deviation of its logarithm.
_POLYNOMIAL, _SQUARES, _COSINES = (0.1, 1.5), (1.0, 1.5), (0.1, 3.0)
_MAX_EVALUATIONS = 100
_MAX_LOG_STEP = 2.0  # longest step per parameter: a factor of e² in a length-scale
_TOLERANCE = 5e-4  # predicted gain in nats below which the search ends
# A search ends early if an earlier one has ended higher than its next step is predicted to end, and
# one of two things holds. The earlier end is near to that of the step, in the prior's scales. Or,
# after a few evaluations, it is higher by more than this many predicted gains.
_SAME_OPTIMUM = 0.5
_FAR_BELOW, _FEW_EVALUATIONS = 9.0, 5
_SHORTEST_LOG_STEP = 1e-8
_ARMIJO = 1e-4
_LEAST_CURVATURE = 1e-10  # cosine of a step and the change of the gradient
_MAX_DROP = 0.1  # nats per observation by which a warm fit may fall behind the earlier one
_COARSE_SIZE = 100  # observations on which the starts of a cold fit are compared
_MAX_POINTS = 10**9  # more observations than a stored fit can have come from
_MAX_ABS_THETA = 50.0  # stored values beyond e^±50 are not hyperparameters but damage
# Multiples of the prior's scale added to its location for the starts of a cold fit: the location
# itself, then short length-scales with little noise (wiggly function), then long ones with much
# noise (slope).
_COLD_STARTS = ((0.0, 0.0), (-1.0, -1.0), (1.0, 1.0))
_Objective = Callable[[FloatArray], tuple[float, FloatArray]]


@dataclass(frozen=True)
class WarmStart:
    """The state from which the next fit starts.

    Attributes:
        theta: Log hyperparameters at the optimum, shape (p,).
        inverse_hessian: Approximate inverse of minus the log posterior's Hessian there, shape (p,
            p).
        log_posterior_per_point: Log posterior at the optimum divided by the number of observations.
        n_points: Number of observations of that fit.
    """

    theta: FloatArray
    inverse_hessian: FloatArray
    log_posterior_per_point: float
    n_points: int

    def hyperparameters(self, d: int) -> Hyperparameters | None:
        """Return the estimate, None if it is not one of ``d`` length-scales."""
        n_others = len(self.theta) - d - 1  # with or without trend and noise
        is_fit = n_others in {0, 1, N_TREND, N_TREND + 1}
        return Hyperparameters.from_theta(self.theta, d) if is_fit else None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready form; the inverse Hessian is packed as base64 of float32.

        Longer length-scales than any that is read back are as flat as the longest of these.
        """
        triangle = self.inverse_hessian[np.tril_indices(len(self.theta))]
        return {
            "log_hyperparameters": np.clip(self.theta, -_MAX_ABS_THETA, _MAX_ABS_THETA).tolist(),
            "inverse_hessian": base64.b64encode(triangle.astype("<f4").tobytes()).decode("ascii"),
            "log_posterior_per_point": self.log_posterior_per_point,
            "n_points": self.n_points,
        }

    @classmethod
    def from_json(cls, stored: object) -> WarmStart | None:
        """Read :meth:`to_json`'s form back; None if it is malformed, as shared storage may be."""
        if not isinstance(stored, Mapping):
            return None
        try:
            theta = np.array(stored["log_hyperparameters"], dtype=np.float64)
            per_point = float(stored["log_posterior_per_point"])
            n_points = int(stored["n_points"])
            packed = np.frombuffer(
                base64.b64decode(stored["inverse_hessian"], validate=True), "<f4"
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        p = len(theta) if theta.ndim == 1 else 0
        sane = (
            p > 0
            and packed.shape == (p * (p + 1) // 2,)
            and bool(np.isfinite(packed).all())
            and bool((np.abs(theta) <= _MAX_ABS_THETA).all())
            and math.isfinite(per_point)
            and 0 < n_points <= _MAX_POINTS
        )
        if not sane:
            return None
        inverse_hessian = np.zeros((p, p))
        inverse_hessian[np.tril_indices(p)] = packed
        inverse_hessian += np.tril(inverse_hessian, -1).T
        return cls(theta, inverse_hessian, per_point, n_points)


@dataclass(frozen=True)
class Fit:
    """The result of :func:`fit_map`.

    Attributes:
        hyperparameters: The estimate, in natural units.
        warm_start: State from which the next fit may start.
        log_posterior: Log marginal likelihood, or other criterion, plus log prior at the estimate;
            -inf if it is nowhere finite.
        criterion_value: The same without the log prior.
        n_evaluations: Evaluations of it on all observations.
        cholesky: Lower Cholesky factor of the observations' covariance matrix at the estimate,
            shape (n, n), if the last evaluation was there and the criterion has that matrix, or
            None.
        note: Why something weaker than a converged fit was returned, or None.
    """

    hyperparameters: Hyperparameters
    warm_start: WarmStart
    log_posterior: float
    criterion_value: float
    n_evaluations: int
    cholesky: FloatArray | None
    note: str | None


@dataclass(frozen=True)
class _Optimum:
    theta: FloatArray
    inverse_hessian: FloatArray
    value: float
    n_evaluations: int


def fit_map(
    X: FloatArray,
    y: FloatArray,
    features: FeatureMap,
    *,
    known_noise: FloatArray | None = None,
    fit_noise: bool = True,
    prior: LogPrior | None = None,
    warm_start: WarmStart | None = None,
    criterion: FitCriterion = MARGINAL,
) -> Fit:
    """Estimate the kernel's hyperparameters by their maximum a posteriori.

    Args:
        X: Points of the unit cube, shape (n, d), n >= 1.
        y: Standardized targets, finite, shape (n,).
        features: The kernel's feature map for the d dimensions.
        known_noise: Known noise variances in squared units of ``y``, NaN where unknown, shape (n,).
        fit_noise: False fixes the unknown noise variance at its floor (deterministic objective).
        prior: Log prior over θ; None for :func:`default_prior`.
        warm_start: State of an earlier fit by the same criterion, on nearly the same data.
        criterion: The criterion that is maximized together with the log prior.

    Returns:
        The estimate, and the state from which the next fit starts.
    """
    prior = prior or _prior_of(features)
    n, d = X.shape

    def bind(rows: slice | IntArray) -> BoundCriterion:
        known = None if known_noise is None else known_noise[rows]
        return criterion.bind(X[rows], y[rows], features, known_noise=known, fit_noise=fit_noise)

    bound = bind(slice(None))
    p = len(prior.location) - int(not is_noise_estimated(known_noise, fit_noise=fit_noise))
    searches = _Searches(_log_posterior(bound, prior), prior.scale[:p])
    if warm_start is not None and len(warm_start.theta) == p:
        searches.run(warm_start.theta, warm_start.inverse_hessian)
    if not searches.optima or warm_start is None or _is_poor(searches.best.value, warm_start, n):
        if n > _COARSE_SIZE:
            start = _coarse_optimum(bind, prior, n, p, d)
            searches.run(start.theta, start.inverse_hessian)
        # The coarse optimum may be singular with all points.
        if n <= _COARSE_SIZE or not math.isfinite(searches.optima[-1].value):
            _run_cold_searches(searches, prior, d)
    best = searches.best
    note = None
    if not math.isfinite(best.value):
        note = "no kernel hyperparameters gave a finite likelihood, so the prior's were used"
        location, H = np.array(prior.location[:p]), _first_inverse_hessian(prior, p)
        best = _Optimum(location, H, -math.inf, 0)
    return Fit(
        hyperparameters=Hyperparameters.from_theta(best.theta, d),
        warm_start=WarmStart(best.theta, best.inverse_hessian, 0.0 if note else best.value / n, n),
        log_posterior=best.value,
        criterion_value=best.value - _log_prior(prior, best.theta)[0],
        n_evaluations=sum(optimum.n_evaluations for optimum in searches.optima),
        cholesky=bound.factor_at(best.theta) if criterion.covers_observations else None,
        note=note,
    )


def log_posterior(
    X: FloatArray, y: FloatArray, features: FeatureMap, *, prior: LogPrior
) -> Callable[[FloatArray], tuple[float, FloatArray]]:
    """Return what :func:`fit_map` maximizes: θ (p,) to the value and the gradient (p,).

    Args:
        X: Points of the unit cube, shape (n, d), n >= 1.
        y: Standardized targets, finite, with unknown noise, shape (n,).
        features: The kernel's feature map for the d dimensions.
        prior: Log prior over θ.
    """
    return _log_posterior(MARGINAL.bind(X, y, features), prior)


def _coarse_optimum(
    bind: Callable[[IntArray], BoundCriterion], prior: LogPrior, n: int, p: int, d: int
) -> _Optimum:
    """Return the best cold optimum of a subset of the n observations, to start from with all."""
    subset = np.linspace(0, n - 1, _COARSE_SIZE).astype(np.int64)
    searches = _Searches(_log_posterior(bind(subset), prior), prior.scale[:p])
    _run_cold_searches(searches, prior, d)
    # the Hessian grows with the number of observations
    H = searches.best.inverse_hessian * (_COARSE_SIZE / n)
    return replace(searches.best, inverse_hessian=H)


def _log_posterior(bound: BoundCriterion, prior: LogPrior) -> _Objective:
    """Return θ (p,) -> (bound criterion + log prior, gradient), with or without a noise entry in θ.

    Where the criterion looks at data of known noise only, it has no entry for it even if other
    observations need one, and the prior alone decides about that.
    """
    q = bound.n_parameters

    def value_and_gradient(theta: FloatArray) -> tuple[float, FloatArray]:
        prior_value, gradient = _log_prior(prior, theta)
        value, criterion_gradient = bound(theta[:q])
        gradient[:q] += criterion_gradient
        return value + prior_value, gradient

    return value_and_gradient


def _log_prior(prior: LogPrior, theta: FloatArray) -> tuple[float, FloatArray]:
    """Return log prior and gradient (p,) at θ (p,), with or without an entry of the noise."""
    p = len(theta)
    full = np.array(prior.location, dtype=np.float64)
    full[:p] = theta
    value, gradient = prior.value_and_gradient(full)
    return value, gradient[:p].copy()


def _first_inverse_hessian(prior: LogPrior, p: int) -> FloatArray:
    """Return the inverse Hessian (p, p) that a search begins with: that of the prior alone."""
    return np.diag(np.square(prior.scale[:p]))


def _run_cold_searches(searches: _Searches, prior: LogPrior, d: int) -> None:
    """Search from every cold start."""
    p = len(searches.scale)
    for length_scale_shift, noise_shift in _COLD_STARTS:
        start = np.array(prior.location)
        start[:d] += length_scale_shift * prior.scale[:d]
        start[-1] += noise_shift * prior.scale[-1]
        searches.run(start[:p], _first_inverse_hessian(prior, p))


def _is_poor(value: float, warm_start: WarmStart, n: int) -> bool:
    """Whether a cold fit should check a warm one: it fell behind, or passed ``n`` = 8 · 2^(k/2)."""
    if not math.isfinite(value) or value / n < warm_start.log_posterior_per_point - _MAX_DROP:
        return True
    return _milestone(n) != _milestone(warm_start.n_points)


def _milestone(n: int) -> int:
    return math.floor(2.0 * math.log2(max(n, 8) / 8.0))


@dataclass
class _Searches:
    """Searches for the maximum of one objective, each of which knows where earlier ones have ended.

    Attributes:
        objective: What is maximized.
        scale: A typical distance in each parameter, shape (p,).
        optima: Where they have ended. One that has ended early is below the optimum it led to.
    """

    objective: _Objective
    scale: FloatArray
    optima: list[_Optimum] = field(default_factory=list)

    @property
    def best(self) -> _Optimum:
        """The highest of the optima."""
        return max(self.optima, key=lambda optimum: optimum.value)

    def run(self, theta: FloatArray, inverse_hessian: FloatArray) -> None:
        """Search from θ (p,) by BFGS with backtracking until the next gain is too small.

        It ends early where an earlier search has found more.
        """
        H = inverse_hessian
        value, gradient = self.objective(theta)
        n_evaluations = 1
        while n_evaluations < _MAX_EVALUATIONS and math.isfinite(value):
            step = H @ gradient
            slope = float(gradient @ step)
            if not math.isfinite(slope) or slope <= 0.0:
                H = np.eye(len(theta))
                step, slope = gradient, float(gradient @ gradient)
            gain = 0.5 * slope  # of the step, by the quadratic that has this slope and H
            if gain < _TOLERANCE or self._is_needless(
                theta + step, value + gain, gain, n_evaluations
            ):
                break
            longest = float(np.abs(step).max())
            t = min(1.0, _MAX_LOG_STEP / longest)
            accepted = False
            while n_evaluations < _MAX_EVALUATIONS:
                candidate = theta + t * step
                new_value, new_gradient = self.objective(candidate)
                n_evaluations += 1
                if new_value >= value + _ARMIJO * t * slope:
                    accepted = True
                    break
                t *= _backtrack(value, slope * t, new_value)
                if t * longest < _SHORTEST_LOG_STEP:
                    break
            if not accepted:
                break
            H = _bfgs_update(H, candidate - theta, gradient - new_gradient)
            theta, value, gradient = candidate, new_value, new_gradient
        self.optima.append(_Optimum(theta, H, value, n_evaluations))

    def _is_needless(
        self, theta: FloatArray, value: float, gain: float, n_evaluations: int
    ) -> bool:
        """Tell whether a search seems to lead to a known optimum, or to a lower one.

        Args:
            theta: Where its next step ends, shape (p,).
            value: What is predicted there.
            gain: How much more that is than now.
            n_evaluations: How many evaluations it has had.
        """
        reach = value + _FAR_BELOW * gain if n_evaluations >= _FEW_EVALUATIONS else math.inf
        return any(
            other.value > reach or np.abs((theta - other.theta) / self.scale).max() < _SAME_OPTIMUM
            for other in self.optima
            if other.value > value
        )


def _backtrack(value: float, slope: float, new_value: float) -> float:
    """Return the next step's factor: the maximum of the interpolating parabola, in [0.1, 0.5]."""
    shortfall = value + slope - new_value
    if not math.isfinite(shortfall) or shortfall <= 0.0:
        return 0.1
    return min(0.5, max(0.1, 0.5 * slope / shortfall))


def _bfgs_update(H: FloatArray, s: FloatArray, y: FloatArray) -> FloatArray:
    """Return the inverse Hessian ``H`` after a step ``s`` that changed minus the gradient by ``y``.

    A pair without positive curvature is skipped, which keeps ``H`` positive definite.
    """
    curvature = float(s @ y)
    if curvature <= _LEAST_CURVATURE * float(np.linalg.norm(s) * np.linalg.norm(y)):
        return H
    rho = 1.0 / curvature
    Hy = H @ y
    updated: FloatArray = (
        H
        - rho * (np.outer(s, Hy) + np.outer(Hy, s))
        + rho * (rho * float(y @ Hy) + 1.0) * np.outer(s, s)
    )
    return updated


class LogPrior(Protocol):
    """A log density over the q log hyperparameters θ of :mod:`bbo_plugins.gp.likelihood`.

    The noise is always among them, so that q = d + 2, and d + 5 with a trend.
    """

    @property
    def location(self) -> FloatArray:
        """A point of high density, where a cold fit starts, shape (q,)."""

    @property
    def scale(self) -> FloatArray:
        """A typical distance from the location, shape (q,)."""

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density (up to a constant) and its gradient at ``theta`` (q,)."""


@dataclass(frozen=True)
class TailedPrior:
    """Independent normal distributions over θ, of which some have a heavy upper tail.

    Attributes:
        location: Modes, shape (q,).
        scale: Standard deviations, and scales of the tails, shape (q,).
        has_tail: Which are, above the mode, as a Cauchy distribution, shape (q,).
    """

    location: FloatArray
    scale: FloatArray
    has_tail: NDArray[np.bool_]

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density (without its constant) and its gradient at ``theta`` (q,)."""
        z = (theta - self.location) / self.scale
        square = np.square(z)
        is_tail = self.has_tail & (z > 0.0)
        value = -np.where(is_tail, np.log1p(square), 0.5 * square)
        slope = -z * np.where(is_tail, 2.0 / (1.0 + square), 1.0)
        return float(value.sum()), slope / self.scale


def _prior_of(features: FeatureMap) -> TailedPrior:
    n, cosines = len(features.n_categories), features.cosines
    return default_prior(n, features.n_together, n_in_trend=features.n_in_trend, cosines=cosines)


def default_prior(
    n_dimensions: int,
    n_together: Sequence[float] | None = None,
    *,
    n_in_trend: int | None = None,
    cosines: bool = False,
) -> TailedPrior:
    """Return the prior of this module's docstring.

    Args:
        n_dimensions: Number of length-scales d.
        n_together: In place of d for each length-scale, how many dimensions vary together with it,
            shape (d,); None for d.
        n_in_trend: Number of dimensions c in the kernel's trend, None without a trend.
        cosines: Whether the separable part of the trend is made of cosines, not of squares.
    """
    has_trend = n_in_trend is not None
    c = max(n_in_trend or 0, 1)  # without a numeric dimension the trend is 0, whatever its weights
    norms = (c / 3.0, (c / 3.0) ** 2, c / 2.0 if cosines else 4.0 * c / 45.0)  # parts at t = t'
    parts = (_POLYNOMIAL, _POLYNOMIAL, _COSINES if cosines else _SQUARES) if has_trend else ()
    trend_locations = [math.log(part[0] / norm) for part, norm in zip(parts, norms, strict=False)]
    trend_scales = [part[1] for part in parts]
    together = [n_dimensions] * n_dimensions if n_together is None else n_together
    relevant = [min(n, 2.0 * math.sqrt(n)) if has_trend else n for n in together]
    length_scales = [math.log(_LENGTH_SCALE_LOCATION * math.sqrt(n)) for n in relevant]
    location = np.array([*length_scales, 0.0, *trend_locations, math.log(NOISE_LOCATION)])
    scale = np.array([*[1.0] * (n_dimensions + 1), *trend_scales, 3.0])
    has_tail = np.array([has_trend] * n_dimensions + [False] * (len(parts) + 2))
    return TailedPrior(location, scale, has_tail)
