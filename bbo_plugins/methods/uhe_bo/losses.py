r"""What the kernel's hyperparameters maximize: the marginal likelihood, or a loss of UHE-BO.

An optimizer observes mostly where the objective is good, so the marginal likelihood mostly says how
the objective behaves there. UHE-BO estimates the hyperparameters from data that stand for the whole
unit cube, and predicts from the real data as ever. Its loss and three alternatives to it, each with
an aim of its own:

* :class:`NearestNeighborPseudoData`, the paper's: log p(ŷ' | X', θ) of M uniform points x'_j with
  ŷ'_j = y of the observation nearest to x'_j.                                              Eq. (2)
* :class:`ImportanceWeighted`: the same with every x'_j moved to the observation that it took its
  label from and M → ∞: observation i occurs w_i times. N(y | f, σ²)^w = (2πσ²)^(-(w-1)/2) w^(-1/2)
  N(y | f, σ²/w), so for any real w_i > 0 this is

      log p(y | X, θ; noise σ_i²/w_i) - Σ_i ½ (w_i - 1) log 2πσ_i² - ½ Σ_i log w_i,

  the likelihood of the duplicated data if the weights are whole numbers. For w_i → 0 the three
  terms of observation i diverge but their sum vanishes; a floor on w_i keeps them finite.
* :class:`Thinned`: log p(y_S | X_S, θ) of a subset S, the first m in farthest-point order.
* :class:`WeightedLeaveOneOut`: Σ_i w_i log p(y_i - m | X, y_-i - m, θ), where y_-i is all of y but
  y_i and m = Σ_i w_i y_i / n.

| symbol  | shape  | meaning                                                                     |
|---------|--------|-----------------------------------------------------------------------------|
| X, y    | (n, d) | observations D; y (n,)                                                      |
| X', ŷ'  | (M, d) | uniform points of the cube and their borrowed labels; ŷ' (M,), M = 2 n      |
| V_i     | -      | Voronoi cell: where x_i is the nearest observation (in feature columns)     |
| w       | (n,)   | n · volume of V_i, estimated with uniform points; Σ w_i = n                 |
| σ_i²    | -      | noise variance of one observation i, known or estimated                     |
| h       | -      | fill distance: the longest way from a point of the cube to an observation   |
| δ       | -      | distance of the m-th point in farthest-point order to the m - 1 before it   |

Consistency, what is shown. Let a fixed share of the observations be uniform (start-up points, the
random arm), so that h → 0 as n grows, whatever the sampler does with the rest.

* Σ_i vol(V_i) g(x_i) is a Riemann sum: V_i lies within h of x_i, so it converges to ∫ g over the
  cube for every continuous g, whatever distribution the points came from. A loss that adds up terms
  g(x_i, y_i, θ) of single observations (the paper's Assumption 6.1), weighted by w, thus has the
  limit that it has on uniform points; this is Proposition 6.4 without its random points. (Noise in
  y averages out as the largest cell shrinks if the design does not depend on it; a sampler that
  crowds around lucky observations makes their cells small.)
* The m points of :class:`Thinned` are at least δ apart and each observation is within δ of one of
  them (Gonzalez 1985). Hence they leave no hole larger than δ + h, and δ → 0 as m grows because
  the cube holds finitely many points δ apart: S becomes dense, and while h is at most a multiple of
  δ it is evenly spread up to that factor. That ends where m exceeds the number of observations
  outside of clusters by much: keeping half of them asks that about half are not in clusters.
* Leaving one out with a design fixed beforehand and y drawn from the model: E log p(y_i | X, y_-i,
  θ) is largest at the true θ for each i (Gibbs' inequality), so with any weights >= 0 the expected
  loss is too. Weighting costs variance there, not correctness.

And what is not shown:

* Terms of a leave-one-out sum are no functions of (x_i, y_i): they depend on how near the other
  observations are. The weights settle how much a region counts, not how hard its predictions are,
  so the limit may still depend on the sampler. The likelihoods are not even sums, in the paper
  neither: its Assumption 6.1 excludes them.
* A design that was chosen by looking at y is not fixed beforehand. (The marginal likelihood of a
  model that is right does not mind: the rule by which the next point follows from the data cancels.
  All of these losses are insurance against a stationary model that is wrong, at a price in
  efficiency if it is right.)
* Uniform points do not make everything identifiable: on ever denser points of a bounded domain of
  up to three dimensions no estimator separates s² from ℓ of a Matérn kernel (Zhang 2004), which the
  paper's Assumption 6.3 takes for granted. "Consistent" means "with the limit of uniform points".
* Volumes are estimated with at most 2,000 points and never as 0: their error stops falling there.
* Two of the losses misjudge the noise variance. A borrowed label is wrong by the variation of f
  within a cell, which the paper's loss takes for noise. Weights divide the noise, so that
  :class:`ImportanceWeighted` finds about w_i σ² with the weight w_i of the most crowded
  observations, which say most about noise.

Deviations from the paper. The uniform points depend on d alone, those for n observations being the
first of those for n + 1: data determine the result in any process, and a fit can start from the one
before; points drawn afresh (Algorithm 1, line 14) move the loss by more per trial than the new
observation does. "Nearest" is meant in the kernel's feature columns, which is the paper's Euclidean
distance unless there are categorical dimensions; a known noise variance comes along with its label.

Sources: Ha et al. (2023), "Provably Efficient Bayesian Optimization with Unknown Gaussian Process
Hyperparameter Estimation", sections 4-6 and Algorithm 1; Gonzalez (1985), "Clustering to minimize
the maximum intercluster distance"; Zhang (2004), "Inconsistent estimation and asymptotically equal
interpolations in model-based geostatistics". The last three losses are this project's.

Weighted leave-one-out predictive density of a Gaussian process and its gradient.

    L(θ)   = Σ_i w_i log p(y_i | X, y_-i, θ)                              R&W Eq. (5.11) for w = 1
    log p_i = ½ log k_i - α_i² / (2 k_i) - ½ log 2π                      R&W Eqs. (5.10), (5.12)

because leaving observation i out predicts it with mean y_i - α_i/k_i and variance 1/k_i. All n
leave-one-out predictions come from one inverse; nothing is fitted n times.

Gradient. From dk_i = -(K⁻¹ dK K⁻¹)_ii and dα = -K⁻¹ dK α, with

    c_i = ∂L/∂k_i = w_i (1 + α_i²/k_i) / (2 k_i),     e_i = ∂L/∂α_i = -w_i α_i / k_i,     u = K⁻¹ e,

dL = -tr(K⁻¹ diag(c) K⁻¹ dK) - uᵀ dK α. As dK is symmetric this is -½ tr(M dK) with

    M = 2 K⁻¹ diag(c) K⁻¹ + u α^T + α u^T,     tr(M K) = Σ_i w_i (1 - α_i²/k_i),

the form in which :class:`bbo_plugins.gp.likelihood.BoundCriterion` takes it. It agrees with R&W Eq.
(5.13) without the n × n product Z_j = K⁻¹ ∂K/∂θ_j that they form for every hyperparameter: one
symmetric rank-n update (dsyrk) per evaluation, whatever the number of hyperparameters.

| symbol | shape  | meaning                                                    |
|--------|--------|------------------------------------------------------------|
| K      | (n, n) | covariance matrix of the targets, noise included           |
| k, α   | (n,)   | diagonal of K⁻¹; K⁻¹ y                                      |
| w      | (n,)   | weights, >= 0                                              |

Source: Rasmussen & Williams (2006), "Gaussian Processes for Machine Learning", section 5.4.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import blas, lapack

from bbo_plugins import errors
from bbo_plugins.gp.kernels import FeatureMap, left_factor, right_factor, squared_distances
from bbo_plugins.gp.likelihood import (
    LOG_2PI,
    NOISE_FLOOR,
    BoundCriterion,
    MarginalLikelihood,
    noise_diagonal,
)

if TYPE_CHECKING:
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


_MIN_VOLUME_POINTS = 200


_VOLUME_POINTS_PER_OBSERVATION = 10


_MAX_VOLUME_POINTS = 2000


_LEAST_COUNT = 0.5  # uniform points that an empty Voronoi cell is credited with


_MIN_THINNED = 10  # observations that thinning keeps at least, if there are as many


_STREAM = 20231  # sets the uniform points apart from other uses of a seed


@dataclass(frozen=True)
class NearestNeighborPseudoData:
    """The paper's loss, Eq. (2): the likelihood of uniform points that carry their neighbor's y.

    Attributes:
        multiple: Pseudo-observations per observation, M_t / |D|; the paper takes 2 (Appendix C).
    """

    multiple: int = 2
    covers_observations: ClassVar[bool] = False
    borrows_noise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the field."""
        errors.check_int("multiple", self.multiple, minimum=1)

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
        points = _uniform_points(self.multiple * len(X), X)
        nearest = _nearest(features.columns(points), features.columns(X))  # Algorithm 1, line 14
        known = None if known_noise is None else known_noise[nearest]
        return MarginalLikelihood(
            points, y[nearest], features, known_noise=known, fit_noise=fit_noise
        )


@dataclass(frozen=True)
class ImportanceWeighted:
    """The likelihood in which every observation counts as often as its Voronoi cell is large."""

    covers_observations: ClassVar[bool] = False  # its noise is divided by the weights
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
        """Return the likelihood weighted by Voronoi volumes."""
        weights = voronoi_volumes(X, features)
        return WeightedLikelihood(
            X, y, features, weights, known_noise=known_noise, fit_noise=fit_noise
        )


@dataclass(frozen=True)
class Thinned:
    """The likelihood of a space-filling subset: the first points in farthest-point order.

    Attributes:
        fraction: Share of the observations that is kept, in (0, 1]; ten are kept if there are ten.
    """

    fraction: float = 0.5
    covers_observations: ClassVar[bool] = False
    borrows_noise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the field."""
        errors.check_real("fraction", self.fraction, "in (0, 1]", lambda share: 0.0 < share <= 1.0)

    def bind(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        *,
        known_noise: FloatArray | None = None,
        fit_noise: bool = True,
    ) -> BoundCriterion:
        """Return the likelihood of the subset, in the order of the observations."""
        n = len(X)
        n_kept = max(min(n, _MIN_THINNED), math.ceil(self.fraction * n))
        kept = np.sort(farthest_point_order(features.columns(X), n_kept))
        known = None if known_noise is None else known_noise[kept]
        return MarginalLikelihood(
            X[kept], y[kept], features, known_noise=known, fit_noise=fit_noise
        )


@dataclass(frozen=True)
class WeightedLeaveOneOut:
    """The log predictive density of each observation given the others, weighted by its volume.

    The noise is borrowed: what tells noise from variation is observations close to each other, and
    those have the smallest volumes. Left to estimate it, this loss takes a surprise at a lone point
    for noise, where the length-scales are wrong. And the targets are centered by their weighted
    mean: the plain mean of targets that were sampled where they are large lies above the process's,
    which alone makes length-scales come out long by a quarter.
    """

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


class WeightedLikelihood(MarginalLikelihood):
    """The marginal likelihood of data in which observation i occurs w_i times; see the module.

    Args:
        X: Points of the unit cube, shape (n, d).
        y: Standardized targets, shape (n,).
        features: The kernel's feature map.
        weights: w, positive, not necessarily whole numbers, shape (n,).
        known_noise: As in :class:`BoundCriterion`, the variance of a single occurrence.
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
        self._relative_noise = 1.0 / weights
        self._surplus = weights - 1.0
        self._log_weights = float(np.log(weights).sum())

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the weighted log likelihood and its gradient at ``theta`` (n_parameters,)."""
        value, gradient = super().__call__(theta)
        if not math.isfinite(value):
            return value, gradient
        excess = math.exp(min(float(theta[-1]), 700.0)) if self.fit_noise else 0.0
        noise = noise_diagonal(len(self._y), NOISE_FLOOR + excess, self._known_noise)
        normalizer = float(self._surplus @ (LOG_2PI + np.log(noise))) + self._log_weights
        if self.fit_noise:
            surplus = float(self._surplus[self._noise_is_fitted].sum())
            gradient[-1] -= 0.5 * surplus * excess / (NOISE_FLOOR + excess)
        return value - 0.5 * normalizer, gradient


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


def farthest_point_order(columns: FloatArray, count: int) -> IntArray:
    """Return ``count`` indices of points, each the farthest from all before it, shape (count,).

    The first index is 0. Coinciding points come last; no index occurs twice.

    Args:
        columns: Feature columns of the points, shape (n, D).
        count: How many of the n points to order.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        distances = squared_distances(left_factor(columns), right_factor(columns))
    order = np.empty(count, dtype=np.int64)
    to_nearest = np.full(len(columns), np.inf)
    farthest = 0
    for i in range(count):
        order[i] = farthest
        np.minimum(to_nearest, distances[farthest], out=to_nearest)
        to_nearest[farthest] = -1.0
        farthest = int(to_nearest.argmax())
    return order


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
