r"""Fit criteria for biased data: Eq. (2) of the paper, and weighted leave-one-out.

* :class:`NearestNeighborPseudoData`, the paper's: log p(ŷ' | X', θ) of M uniform points x'_j with
  ŷ'_j = y of the observation nearest to x'_j.
* :class:`WeightedLeaveOneOut`, the default's: Σ_i w_i log p(y_i - m | X, y_-i - m, θ), where y_-i
  is all of y but y_i and m = Σ_i w_i y_i / n.

| symbol  | shape  | meaning                                                                     |
|---------|--------|-----------------------------------------------------------------------------|
| X, y    | (n, d) | observations D; y (n,)                                                      |
| X', ŷ'  | (M, d) | uniform points of the cube and their borrowed labels; ŷ' (M,), M = 2 n      |
| V_i     | -      | Voronoi cell: where x_i is the nearest observation (in feature columns)     |
| w       | (n,)   | n · volume of V_i, estimated with uniform points; Σ w_i = n                 |
| K       | (n, n) | covariance matrix of the targets, noise included                            |
| k, α    | (n,)   | diagonal of K⁻¹; K⁻¹ y                                                      |

The leave-one-out density and its gradient, from one inverse (R&W Eqs. 5.10 to 5.13):

    L(θ)    = Σ_i w_i log p(y_i | X, y_-i, θ)
    log p_i = ½ log k_i - α_i² / (2 k_i) - ½ log 2π
    c_i     = ∂L/∂k_i = w_i (1 + α_i²/k_i) / (2 k_i),     e_i = ∂L/∂α_i = -w_i α_i / k_i
    dL      = -½ tr(M dK),     M = 2 K⁻¹ diag(c) K⁻¹ + u α^T + α u^T,     u = K⁻¹ e
    tr(M K) = Σ_i w_i (1 - α_i²/k_i)

Sources: Ha et al., sections 4-6 and Algorithm 1; Rasmussen & Williams (2006), "Gaussian Processes
for Machine Learning", section 5.4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import blas, lapack

from bbo_plugins.gp.likelihood import LOG_2PI, BoundCriterion, MarginalLikelihood

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.space.dimension import FloatArray, IntArray


class LeaveOneOut(BoundCriterion):
    """Σ_i w_i log p(y_i | X, y_-i, θ) of one data set as a function of θ.

    Args:
        X: Points of the unit cube, shape (n, d).
        y: Standardized targets, shape (n,).
        features: The kernel's feature map.
        weights: w, finite and >= 0, shape (n,).
        known_noise: As in :class:`BoundCriterion`; a target is predicted with its own noise.
        fit_noise: As in :class:`BoundCriterion`.
    """

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        weights: FloatArray,
        *,
        known_noise: FloatArray | None = None,
        fit_noise: bool = True,
    ) -> None:
        """Bind the data; see the class."""
        super().__init__(X, y, features, known_noise=known_noise, fit_noise=fit_noise)
        self._weights = weights
        self._scaled_inverse = np.empty((len(y), len(y)), order="F")

    def _value_and_contraction(self, L: FloatArray) -> tuple[float, FloatArray, float] | None:
        """Return L(θ), M and tr(M K) of the module docstring; see the base class."""
        w = self._weights
        inverse = self._inverse(L)
        alpha = lapack.dpotrs(L, self._y, lower=1)[0]
        k = inverse.diagonal().copy()
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            squared_error = alpha * alpha / k  # z_i², the squared standardized residual
            log_density = 0.5 * (np.log(k) - squared_error - LOG_2PI)  # R&W Eq. (5.10)
            value = float(w @ log_density)
            c = 0.5 * w * (1.0 + squared_error) / k
            e = -w * alpha / k
        if not (math.isfinite(value) and np.isfinite(c).all()):
            return None
        u = lapack.dpotrs(L, e, lower=1)[0]
        S = np.add(inverse, inverse.T, out=self._scaled_inverse)
        S[np.diag_indices(len(k))] = k
        S *= np.sqrt(c)
        M = blas.dsyrk(2.0, S, lower=1, c=inverse, overwrite_c=1)
        M = blas.dsyr2(1.0, u, alpha, lower=1, a=M, overwrite_a=1)
        return value, M, float(w @ (1.0 - squared_error))


_MULTIPLE = 2  # M / n, as in Appendix C of the paper
_MIN_VOLUME_POINTS = 200
_VOLUME_POINTS_PER_OBSERVATION = 10
_MAX_VOLUME_POINTS = 2000
_LEAST_COUNT = 0.5  # uniform points that an empty Voronoi cell is credited with
_STREAM = 20231  # sets the uniform points apart from other uses of a seed


@dataclass(frozen=True)
class NearestNeighborPseudoData:
    """The paper's criterion, Eq. (2): the likelihood of uniform points with their neighbor's y."""

    name: ClassVar[str] = "NearestNeighborPseudoData"
    covers_observations: ClassVar[bool] = False
    borrows_noise: ClassVar[bool] = False

    def bind(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        *,
        known_noise: FloatArray | None = None,
        fit_noise: bool = True,
    ) -> BoundCriterion:
        """Return the likelihood of the pseudo-data; a known noise variance comes with its label."""
        points = _uniform_points(_MULTIPLE * len(X), X)  # Algorithm 1, line 14
        nearest = _nearest(features.columns(points), features.columns(X))
        known = None if known_noise is None else known_noise[nearest]
        # Eq. (2)
        return MarginalLikelihood(
            points, y[nearest], features, known_noise=known, fit_noise=fit_noise
        )


@dataclass(frozen=True)
class WeightedLeaveOneOut:
    """The log predictive density of each observation given the others, weighted by its volume.

    The noise is borrowed from the marginal likelihood: only observations close to each other tell
    noise from variation, and those have the smallest weights. The targets are centered by their
    weighted mean: the plain mean of targets that were sampled where they are large is too large.
    """

    name: ClassVar[str] = "WeightedLeaveOneOut"
    covers_observations: ClassVar[bool] = True
    borrows_noise: ClassVar[bool] = True

    def bind(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        *,
        known_noise: FloatArray | None = None,
        fit_noise: bool = True,
    ) -> BoundCriterion:
        """Return the leave-one-out density weighted by Voronoi volumes."""
        weights = voronoi_volumes(X, features)
        with np.errstate(invalid="ignore"):  # what is not finite is the fit's to refuse
            centered = y - float(np.average(y, weights=weights))
        return LeaveOneOut(
            X, centered, features, weights, known_noise=known_noise, fit_noise=fit_noise
        )


def voronoi_volumes(X: FloatArray, features: FeatureMap) -> FloatArray:
    """Return n times the share of the unit cube that is nearest to each point of ``X``, shape (n,).

    Estimated with uniform points, 10 n of them but at least 200 and at most 2,000, the same ones in
    every call of the same shape; from n = 100 on that is no more work than one evaluation of the
    likelihood. Points that coincide share their cell; a cell that no uniform point fell into is
    credited with half a point. The sum is n.
    """
    n = len(X)
    count = min(max(_MIN_VOLUME_POINTS, _VOLUME_POINTS_PER_OBSERVATION * n), _MAX_VOLUME_POINTS)
    columns = features.columns(X)
    hits = np.bincount(_nearest(features.columns(_uniform_points(count, X)), columns), minlength=n)
    _, twins, n_twins = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    twins = twins.reshape(-1)  # some releases of numpy return a column
    shared = (np.bincount(twins, weights=hits) / n_twins)[twins]
    weights = np.maximum(shared, _LEAST_COUNT)
    volumes: FloatArray = weights * (n / weights.sum())
    return volumes


def _uniform_points(count: int, X: FloatArray) -> FloatArray:
    """Return ``count`` uniform points of the cube that ``X`` (n, d) lives in, (count, d)."""
    return np.random.default_rng([_STREAM, X.shape[1]]).random((count, X.shape[1]))


def _nearest(points: FloatArray, columns: FloatArray) -> IntArray:
    """Return the index of the row of ``columns`` (n, D) nearest to each of ``points`` (m, D)."""
    ones = np.ones((len(points), 1))
    norms = np.einsum("ij,ij->i", columns, columns)
    with np.errstate(over="ignore", invalid="ignore"):
        # |b|² - 2ab: the squared distance but for |a|², which is the same for every b.
        distances = np.hstack([points, ones]) @ np.column_stack([-2.0 * columns, norms]).T
    nearest: IntArray = distances.argmin(axis=1)
    return nearest
