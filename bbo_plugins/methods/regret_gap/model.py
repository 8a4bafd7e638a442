"""The Gaussian process behind a stopping criterion: targets, hyperparameters, candidates.

The targets are standardized *affinely*, z = (clip(y) - mean) / std, so that a number that is linear
in z is in the objective's units after a multiplication by std. With rows in the order of completion
the posteriors before and after the newest observation come from one Cholesky factor, with the same
hyperparameters and the same standardization.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from bbo_plugins.acquisition.candidates import screening
from bbo_plugins.gp.fit import WarmStart, fit_map
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.space.search_space import keys_of

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.gp.likelihood import Hyperparameters
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

LEAST_NOISE = 1e-6  # of the variance of the standardized targets
_CLIP_FACTOR = 3.0
_SUSPECT_SHARE = 20  # one target in so many may be an outlier
_MAX_ENUMERATED = 512  # finite spaces up to this size are their own candidates
_N_CANDIDATES, _MIN_FRESH = 384, 128  # in all, and of them at least not observed
_LOCAL_SHARE = 0.375  # of those not observed
_N_ANCHORS = 4
_DEGENERATE = 1e-13  # largest distance, relative to the median, that is rounding error


@dataclass(frozen=True)
class StandardizedTargets:
    """Targets in units of their own standard deviation.

    Attributes:
        z: (clip(y) - mean) / std, shape (n,).
        std: Standard deviation of the clipped targets, in the objective's units; 0 if they are
            constant, and z is then 0.
    """

    z: FloatArray
    std: float

    @classmethod
    def of(cls, y: FloatArray) -> StandardizedTargets:
        """Clip and standardize values.

        Values further from the median than three times the k-th largest distance from it are moved
        to that limit, with k - 1 a twentieth of the values, at least one.

        Args:
            y: Finite values, shape (n,), n >= 1.
        """
        halves = 0.5 * y  # differences of halves do not overflow
        median = float(np.median(halves))
        deviations = halves - median
        distances = np.sort(np.abs(deviations))
        n_suspects = math.ceil(len(y) / _SUSPECT_SHARE)
        inlying = float(distances[max(len(y) - 1 - n_suspects, 0)])
        limit = min(_CLIP_FACTOR * inlying, float(distances[-1]))
        if limit <= _DEGENERATE * abs(median):
            return cls(np.zeros(len(y)), 0.0)
        u = np.clip(deviations, -limit, limit) / limit
        std = float(u.std())
        return cls((u - u.mean()) / std, 2.0 * (limit * std))


@dataclass(frozen=True)
class StoppingModel:
    """The posterior over z after the newest observation; :meth:`fit` builds one.

    Attributes:
        after: p_t.
        warm_start: State from which the next fit may start; None where the hyperparameters were
            shared.
        notes: Fallbacks taken while fitting, in words.
    """

    after: GaussianProcess
    warm_start: WarmStart | None
    notes: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        X: FloatArray,
        z: FloatArray,
        features: FeatureMap,
        *,
        minimum_noise: float = LEAST_NOISE,
        deterministic: bool = False,
        shared: Hyperparameters | None = None,
        warm_start: WarmStart | None = None,
    ) -> StoppingModel:
        """Condition on standardized targets.

        Args:
            X: Points of the unit cube in the order of completion, shape (n, d).
            z: Standardized targets, not all 0, shape (n,).
            features: The kernel's feature map.
            minimum_noise: Floor under the noise variance, applied after the fit.
            deterministic: Whether the noise variance is fixed at its smallest, ``LEAST_NOISE``.
            shared: Hyperparameters of a fit to the same points and other, transformed targets. Not
                used if they lack the noise variance, as where each observation's was known.
            warm_start: :attr:`warm_start` of an earlier fit; not used with ``shared``.

        Returns:
            The posterior over z.

        Raises:
            ValueError: The covariance matrix could not be factorized at all.
        """
        limits = (LEAST_NOISE, LEAST_NOISE) if deterministic else (minimum_noise, math.inf)
        if shared is not None and (deterministic or shared.has_noise_estimate):
            return cls(_taken_over(shared, X, z, features, limits), None, ())
        fit = fit_map(X, z, features, fit_noise=not deterministic, warm_start=warm_start)
        hyperparameters = _with_noise_in(limits, fit.hyperparameters)
        same = hyperparameters.noise_variance == fit.hyperparameters.noise_variance
        # Algorithm 1, lines 6-7: the factor from which μ_t and σ_t² are computed
        process = GaussianProcess.from_data(
            X, z, hyperparameters, features, cholesky=fit.cholesky if same else None
        )
        return cls(process, fit.warm_start, (fit.note,) if fit.note else ())

    def before(self) -> GaussianProcess:
        """Return p_{t-1}: the newest observation left out, all else equal; needs n >= 2."""
        after = self.after
        # Section 4.4: p_{t-1} has the hyperparameters of p_t, so its factor is the leading block
        L = np.asfortranarray(after.L[:-1, :-1])
        return replace(
            after,
            X=after.X[:-1],
            y=after.y[:-1],
            A=after.A[:-1],
            noise=after.noise[:-1],
            L=L,
            alpha=lapack.dpotrs(L, after.y[:-1], lower=1)[0],
        )


def _with_noise_in(
    limits: tuple[float, float], hyperparameters: Hyperparameters
) -> Hyperparameters:
    lowest, highest = limits
    noise = min(max(hyperparameters.noise_variance, lowest), highest)
    return replace(hyperparameters, noise_variance=noise)


def _taken_over(
    shared: Hyperparameters,
    X: FloatArray,
    z: FloatArray,
    features: FeatureMap,
    limits: tuple[float, float],
) -> GaussianProcess:
    """Condition on ``z``; signal and noise are those of ``shared`` times the most likely factor."""
    hyperparameters = _with_noise_in(limits, shared)
    process = GaussianProcess.from_data(X, z, hyperparameters, features)
    factor = float(z @ process.alpha) / len(z)  # maximizes N(z | 0, c K) over c
    scaled = replace(
        hyperparameters,
        signal_variance=factor * hyperparameters.signal_variance,
        noise_variance=factor * hyperparameters.noise_variance,
    )
    hyperparameters = _with_noise_in(limits, scaled)
    reusable = hyperparameters.noise_variance == scaled.noise_variance and process.jitter == 0.0
    cholesky = math.sqrt(factor) * process.L if reusable else None
    return GaussianProcess.from_data(X, z, hyperparameters, features, cholesky=cholesky)


def predict_with_observed(process: GaussianProcess, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return posterior means and variances at the observed points and at others, (n + m,) each.

    Args:
        process: The posterior, with n observations.
        X: The other points, shape (m, d).
    """
    mean, variance = process.predict(X)
    return (
        np.concatenate([process.mean_at_observations, mean]),
        np.concatenate([process.variance_at_observations, variance]),
    )


def candidates(
    space: SearchSpace,
    X: FloatArray,
    y: FloatArray,
    length_scales: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the points that stand for the search space beside the observed ones, (m, d).

    They are all other points of a small finite space; in another space, space-filling points and
    points near the best observed ones.

    Args:
        space: The search space.
        X: Observed points, shape (n, d).
        y: Their values, maximized, shape (n,).
        length_scales: Those of the model, shape (d,).
        rng: Source of the candidates.
    """
    if space.has_at_most(_MAX_ENUMERATED):
        points, observed = space.enumerate(), set(keys_of(X))
        return points[[key not in observed for key in keys_of(points)]]
    n_fresh = max(_N_CANDIDATES - len(X), _MIN_FRESH)
    n_local = int(_LOCAL_SHARE * n_fresh)
    anchors = X[np.argsort(-y, kind="stable")[:_N_ANCHORS]]
    return screening(space, anchors, length_scales, n_fresh - n_local, n_local, rng)
