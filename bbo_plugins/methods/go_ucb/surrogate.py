r"""A network fitted to observations, with scales chosen by marginal likelihood.

A fit alternates between the weights (:mod:`~bbo_plugins.methods.go_ucb.regression`) and the scales
and the noise (:mod:`~bbo_plugins.methods.go_ucb.evidence`). The same marginal likelihood chooses
between the continued fit and new ones, and among powers of the targets' transform. Beyond 300
observations the scales are chosen on that many of them. Predictions are those of the network
linearized at the weights.

A fit is cold (from a random network for each power) when there is no earlier one or the number of
observations has grown by a third since the last cold one; otherwise it is warm and continues the
earlier one. The state of a warm fit (:class:`WarmNetwork`) is stored with the study, so that a
fresh process repeats the fit exactly. It holds the hidden units only: the function is linear in all
other parameters, which the first step of the regression finds.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins.gp.likelihood import NOISE_FLOOR, STATED_NOISE_FLOOR
from bbo_plugins.gp.targets import BoxCoxTransform, transformed_noise
from bbo_plugins.methods.go_ucb.evidence import (
    GROWTH,
    LOG_NOISE,
    TYPICAL,
    NoiseModel,
    ScaleEvidence,
    maximize_evidence,
    network_with,
)
from bbo_plugins.methods.go_ucb.regression import NetworkBall, fit

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.gp.posterior import Pullback
    from bbo_plugins.methods.go_ucb.network import Network
    from bbo_plugins.space.dimension import FloatArray, IntArray

POWERS = (1.0, 0.5, 0.0)  # of the targets' transform
_COLD_ROUNDS = ((12, 25), (6, 15))  # iterations for the weights, evaluations for the scales
_WARM_ROUNDS = ((4, 10),)
_OTHER_POWER = 0.25  # share of warm fits that try another power
_START_OUTPUT = 0.3  # of its prior standard deviation: the output layer's weights at the start
_MAX_THETA = 50.0  # a stored value beyond is damage
_FARTHEST = 1e6  # standard deviations from a constraint's border
_LARGEST_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class WarmNetwork:
    """The state from which the next fit starts.

    Attributes:
        theta: Scales and noise, see :mod:`bbo_plugins.methods.go_ucb.evidence`, shape (8,).
        hidden: Parameters of the hidden units, the end of w, in half precision.
        n_cold: Number of observations of the latest cold fit.
        power: Power of the targets' transform, one of :data:`POWERS`.
    """

    theta: FloatArray
    power: float
    hidden: FloatArray
    n_cold: int

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-ready form; the parameters are packed as base64 of float16."""
        hidden = np.clip(self.hidden, -_LARGEST_HALF, _LARGEST_HALF)
        return {
            "theta": np.clip(self.theta, -_MAX_THETA, _MAX_THETA).tolist(),
            "power": self.power,
            "hidden": base64.b64encode(hidden.astype("<f2").tobytes()).decode("ascii"),
            "n_cold": self.n_cold,
        }

    @classmethod
    def from_json(cls, stored: object) -> WarmNetwork | None:
        """Read :meth:`to_json`'s form back; None if it is malformed, as shared storage may be."""
        if not isinstance(stored, Mapping):
            return None
        try:
            theta = np.array(stored["theta"], dtype=np.float64)
            hidden = np.frombuffer(base64.b64decode(stored["hidden"], validate=True), "<f2")
            power, n_cold = float(stored["power"]), int(stored["n_cold"])
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        sane = (
            theta.shape == TYPICAL.shape
            and bool((np.abs(theta) <= _MAX_THETA).all())
            and bool(np.isfinite(hidden).all())
            and power in POWERS
            and n_cold > 0
        )
        return cls(theta, power, hidden.astype(np.float64), n_cold) if sane else None


@dataclass(frozen=True)
class NetworkSurrogate:
    """A fitted network over transformed targets; :meth:`fit` builds one.

    Attributes:
        ball: The ball of parameters, in transformed units.
        z: Transformed targets, shape (n,).
        transform: The map between the targets' own units and the network's.
        features: The map from the unit cube to the network's inputs.
        warm_start: What the next fit may start from.
        noise_variance: λ, of an observation whose noise is not known, in transformed units.
    """

    ball: NetworkBall
    z: FloatArray
    transform: BoxCoxTransform
    features: FeatureMap
    warm_start: WarmNetwork
    noise_variance: float

    @classmethod
    def fit(
        cls,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        *,
        rng: np.random.Generator,
        hidden_units: int,
        regularization: float | None = None,
        noise_variance: FloatArray | None = None,
        deterministic: bool = False,
        warm_start: WarmNetwork | None = None,
        best: int | None = None,
        powers: Sequence[float] = POWERS,
    ) -> NetworkSurrogate:
        """Fit to maximized targets.

        Args:
            X: Points of the unit cube, shape (n, d), n >= 1.
            y: Targets in their own units, finite, shape (n,).
            features: The map to the network's inputs.
            rng: Source of the random network, and of which other power a warm fit tries.
            hidden_units: h.
            regularization: λ; None to choose it by marginal likelihood.
            noise_variance: Known noise variances in squared units of ``y``, NaN where unknown.
            deterministic: Whether unknown noise is fixed at its floor instead of estimated.
            warm_start: What an earlier fit on nearly the same data left.
            best: Index of the observation around which the fit matters, None for that with the
                largest target: the best feasible one, say.
            powers: The powers of the targets' transform among which the likelihood chooses.

        Returns:
            The surrogate, with the ball of these observations.

        Raises:
            ValueError: A Gram matrix could not be factorized.
        """
        stated = STATED_NOISE_FLOOR if deterministic else None
        stated = stated if regularization is None else regularization
        fixed = None if stated is None else math.log(stated)
        U = inputs(X, features)
        best_one = int(np.argmax(y)) if best is None else best
        by_power = {power: _Targets.of(U, y, power, noise_variance, best_one) for power in powers}
        search = _Search(U, by_power, hidden_units, fixed, rng)
        found, n_cold = search.run(warm_start)
        # Algorithm 1, lines 2-4 (Phase II)
        network, targets = search.network(found.theta), found.targets
        noise = targets.noise.variances(found.theta)
        return cls(
            ball=NetworkBall.from_data(network.at(found.w), U, targets.z, noise),
            z=targets.z,
            transform=targets.transform,
            features=features,
            warm_start=WarmNetwork(
                found.theta, targets.transform.power, found.w[network.n_skip :], n_cold
            ),
            noise_variance=max(math.exp(found.theta[LOG_NOISE]), NOISE_FLOOR),
        )

    def penalize_failures(self, failed: FloatArray) -> NetworkBall:
        """Return the ball after evidence that points ``failed`` (f, d) are at most the median.

        The noise of that evidence is the posterior variance: one failure moves the mean halfway,
        further ones at the same place move it further.
        """
        if not len(failed):
            return self.ball
        U = inputs(failed, self.features)
        mean, variance = self.ball.predict(U)
        return NetworkBall.from_data(
            self.ball.linear,
            np.concatenate([self.ball.rows.U, U]),
            np.concatenate([self.z, np.minimum(mean, np.median(self.z))]),
            np.concatenate([self.ball.noise, variance]),
        )

    def posterior_after(
        self, pending: FloatArray, presumed_bad: FloatArray | None = None
    ) -> NetworkPosterior:
        """Return the posterior given pending points, as if observed at their means.

        Args:
            pending: The pending points, shape (p, d).
            presumed_bad: Failed points that count as no better than the median, shape (f, d), or
                None.
        """
        noise = np.full(len(pending), self.noise_variance)
        ball = self.ball if presumed_bad is None else self.penalize_failures(presumed_bad)
        ball = ball.condition_on(inputs(pending, self.features), noise)
        return NetworkPosterior(ball, self.features)

    @property
    def limit(self) -> float:
        """0 in transformed units: from there on the slack of a constraint is feasible.

        One that never varies has no spread to be far from 0 by; there is a largest distance.
        """
        limit = float(self.transform.forward(np.zeros(1))[0])
        return min(max(limit, -_FARTHEST), _FARTHEST)

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,) at ``X`` (m, d), in transformed units."""
        return self.ball.predict(inputs(X, self.features))

    def predict_mean(self, X: FloatArray) -> FloatArray:
        """Return the mean (m,) at ``X`` (m, d), in transformed units."""
        return self.ball.mean(inputs(X, self.features))


@dataclass(frozen=True)
class NetworkPosterior:
    """What a ball says of points of the unit cube.

    Attributes:
        ball: The ball.
        features: The map to the network's inputs.
        factor: What variances are multiplied by.
    """

    ball: NetworkBall
    features: FeatureMap
    factor: float = 1.0

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,) at ``X`` (m, d)."""
        mean, variance = self.ball.predict(inputs(X, self.features))
        return mean, self.factor * variance

    def predict_with_pullback(self, X: FloatArray) -> tuple[FloatArray, FloatArray, Pullback]:
        """Return mean (m,) and variance (m,) at ``X`` (m, d), and their pullback."""
        U = inputs(X, self.features)
        mean, variance, to_inputs = self.ball.predict_with_pullback(U)

        def pullback(by_mean: FloatArray, by_variance: FloatArray) -> FloatArray:
            by_input = to_inputs(by_mean, self.factor * by_variance)
            return self.features.by_all_dimensions(2.0 * by_input[:, self.features.numeric_columns])

        return mean, self.factor * variance, pullback


def inputs(X: FloatArray, features: FeatureMap) -> FloatArray:
    """Return the network's inputs (m, D) at ``X`` (m, d), numbers in [-1, 1]."""
    return 2.0 * features.columns(X)


@dataclass(frozen=True)
class _Targets:
    """The targets in the units of one transform."""

    transform: BoxCoxTransform
    z: FloatArray  # (n,)
    noise: NoiseModel
    chosen: IntArray  # (k,) observations that the scales are chosen on
    log_jacobian: float  # of those

    @classmethod
    def of(
        cls,
        U: FloatArray,
        y: FloatArray,
        power: float,
        noise_variance: FloatArray | None,
        best: int,
    ) -> _Targets:
        transform = BoxCoxTransform.fit(y, power, best=float(y[best]))
        known = np.full(len(y), np.nan)
        if noise_variance is not None:
            known = transformed_noise(noise_variance, transform.derivative(y))
        noise = NoiseModel.around(best, U, known)
        chosen = noise.representative()
        log_jacobian = transform.log_jacobian(y[chosen])
        return cls(transform, transform.forward(y), noise, chosen, log_jacobian)


@dataclass(frozen=True)
class _Candidate:
    """A fit with one transform."""

    targets: _Targets
    theta: FloatArray
    w: FloatArray
    score: float


@dataclass(frozen=True)
class _Search:
    """Fits to one data set, from different starts."""

    U: FloatArray
    targets: Mapping[float, _Targets]
    hidden_units: int
    fixed: float | None  # log λ if it is not to be chosen
    rng: np.random.Generator

    def network(self, theta: FloatArray) -> Network:
        return network_with(theta, self.U.shape[1], self.hidden_units)

    def run(self, warm_start: WarmNetwork | None) -> tuple[_Candidate, int]:
        """Return the best fit, and the number of observations of the latest cold one."""
        n, size = len(self.U), self.hidden_units * (self.U.shape[1] + 2)
        if warm_start is not None and not (
            len(warm_start.hidden) == size and warm_start.power in self.targets
        ):
            warm_start = None
        candidates, n_cold = [], n
        if warm_start is not None:
            candidates = self._warm_fits(warm_start)
        if warm_start is None or not candidates or 3 * n >= 4 * warm_start.n_cold:
            hidden = self.rng.standard_normal(size)
            hidden[: self.hidden_units] *= _START_OUTPUT
            powers = self.targets
            candidates += [self._fit(power, TYPICAL, hidden, _COLD_ROUNDS) for power in powers]
        else:
            n_cold = warm_start.n_cold
        return max(candidates, key=lambda candidate: candidate.score), n_cold

    def _warm_fits(self, warm_start: WarmNetwork) -> list[_Candidate]:
        """Return the fits that continue an earlier one; none if that cannot be continued."""
        theta, hidden, power = warm_start.theta, warm_start.hidden, warm_start.power
        powers, others = [power], [other for other in self.targets if other != power]
        if others and self.rng.random() < _OTHER_POWER:
            powers.append(float(self.rng.choice(others)))
        try:
            fits = [self._fit(each, theta, hidden, _WARM_ROUNDS) for each in powers]
        except (ArithmeticError, ValueError):  # what was stored is damaged
            return []
        return [one for one in fits if math.isfinite(one.score)]

    def _fit(
        self, power: float, theta: FloatArray, hidden: FloatArray, rounds: Sequence[tuple[int, int]]
    ) -> _Candidate:
        """Alternate between weights and scales, from ``theta`` (8,) and hidden units' weights."""
        targets = self.targets[power]
        if self.fixed is not None:
            theta = theta.copy()
            theta[LOG_NOISE], theta[GROWTH] = self.fixed, 0.0
        network = self.network(theta)
        w = np.concatenate([np.zeros(network.n_skip), hidden])
        for iterations, evaluations in rounds:
            noise = targets.noise.variances(theta)
            w = fit(network, self.U, targets.z, noise, w, max_iterations=iterations)
            part = targets.chosen
            evidence = ScaleEvidence(
                network.at(w), theta, self.U[part], targets.z[part], targets.noise.of(part)
            )
            found = maximize_evidence(
                evidence, theta, fixed_noise=self.fixed is not None, max_evaluations=evaluations
            )
            w = network.rescaled(w, np.exp((theta - found)[:LOG_NOISE]))
            theta, network = found, self.network(found)
        return _Candidate(targets, theta, w, evidence(theta)[0] + targets.log_jacobian)
