"""Fit criteria that only benchmarks compare: the paper's literal loss, weighted and thinned data.

``LiteralLoss`` is the loss of Ha et al. with its own priors in place of the default one: the fit
adds the log density of the default prior to every loss; this one takes it off again and adds those
of the Gamma distributions.

``ImportanceWeighted`` is the limit of the pseudo-data of Ha et al., Eq. (2), with every uniform
point moved to the observation that it took its label from: observation i occurs w_i times.
N(y | f, σ²)^w = (2πσ²)^(-(w-1)/2) w^(-1/2) N(y | f, σ²/w), so for any real w_i > 0 this is

    log p(y | X, θ; noise σ_i²/w_i) - Σ_i ½ (w_i - 1) log 2πσ_i² - ½ Σ_i log w_i,

the likelihood of the duplicated data if the weights are whole numbers. ``Thinned`` is the
likelihood of the first m observations in farthest-point order (Gonzalez 1985, "Clustering to
minimize the maximum intercluster distance").
"""

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from bbo_plugins import errors
from bbo_plugins.gp.fit import default_prior
from bbo_plugins.gp.kernels import FeatureMap, left_factor, right_factor, squared_distances
from bbo_plugins.gp.likelihood import (
    LOG_2PI,
    NOISE_FLOOR,
    BoundCriterion,
    MarginalLikelihood,
    noise_diagonal,
)
from bbo_plugins.methods.uhe_bo.losses import NearestNeighborPseudoData, voronoi_volumes

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

GAMMA_SHAPE, GAMMA_RATE = 1e-3, 10.0  # of every hyperparameter, appendix C
_MIN_THINNED = 10  # observations that thinning keeps at least, if there are as many


class _Noise(TypedDict, total=False):
    """Options of a likelihood that every criterion passes on."""

    known_noise: FloatArray | None
    fit_noise: bool


class _Criterion:
    """A criterion that is not the likelihood of the observations with their own noise."""

    covers_observations: ClassVar[bool] = False
    borrows_noise: ClassVar[bool] = False


@dataclass(frozen=True)
class LiteralLoss(_Criterion):
    """The likelihood of the paper's pseudo-data times the ratio of the priors."""

    def bind(
        self, X: FloatArray, y: FloatArray, features: FeatureMap, **noise: Unpack[_Noise]
    ) -> BoundCriterion:
        """Return the likelihood of the pseudo-data times the ratio of the priors."""
        likelihood = NearestNeighborPseudoData().bind(X, y, features, **noise)
        # Not a subclass: it has no covariance matrix of its own, only one likelihood's.
        return cast("BoundCriterion", _PaperPosterior(likelihood, X.shape[1]))


class _PaperPosterior:
    """The value and gradient of a likelihood with the paper's priors, less the default prior."""

    def __init__(self, likelihood: BoundCriterion, n_dimensions: int) -> None:
        """Wrap a likelihood of θ, see ``bbo_plugins.gp.likelihood``."""
        self._likelihood = likelihood
        self._default = default_prior(n_dimensions)
        self.n_parameters = likelihood.n_parameters

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return log likelihood + log Gamma priors - log default prior, and the gradient."""
        q = len(theta)
        value, gradient = self._likelihood(theta)
        full = np.array(self._default.location)
        full[:q] = theta
        default_value, default_gradient = self._default.value_and_gradient(full)
        with np.errstate(over="ignore"):  # an overflow makes the density zero, as it should
            pull = GAMMA_RATE * np.exp(theta)
        # Gamma(a, b) of e^θ as a density of θ: aθ - b e^θ, up to a constant.
        value += GAMMA_SHAPE * float(theta.sum()) - float(pull.sum()) - default_value
        return value, gradient + GAMMA_SHAPE - pull - default_gradient[:q]


@dataclass(frozen=True)
class ImportanceWeighted(_Criterion):
    """The likelihood in which every observation counts as often as its Voronoi cell is large."""

    def bind(
        self, X: FloatArray, y: FloatArray, features: FeatureMap, **noise: Unpack[_Noise]
    ) -> BoundCriterion:
        """Return the likelihood weighted by Voronoi volumes."""
        return WeightedLikelihood(X, y, features, voronoi_volumes(X, features), **noise)


@dataclass(frozen=True)
class Thinned(_Criterion):
    """The likelihood of a space-filling subset: the first points in farthest-point order.

    Attributes:
        fraction: Share of the observations that is kept, in (0, 1]; ten are kept if there are ten.
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        """Check the field."""
        errors.check_real("fraction", self.fraction, "in (0, 1]", lambda share: 0.0 < share <= 1.0)

    def bind(
        self, X: FloatArray, y: FloatArray, features: FeatureMap, **noise: Unpack[_Noise]
    ) -> BoundCriterion:
        """Return the likelihood of the subset, in the order of the observations."""
        n = len(X)
        n_kept = max(min(n, _MIN_THINNED), math.ceil(self.fraction * n))
        kept = np.sort(farthest_point_order(features.columns(X), n_kept))
        known = noise.get("known_noise")
        if known is not None:
            noise["known_noise"] = known[kept]
        return MarginalLikelihood(X[kept], y[kept], features, **noise)


class WeightedLikelihood(MarginalLikelihood):
    """The marginal likelihood of data in which observation i occurs w_i times; see the module.

    Args:
        X: Points of the unit cube, shape (n, d).
        y: Standardized targets, shape (n,).
        features: The kernel's feature map.
        weights: w, positive, not necessarily whole numbers, shape (n,).
        **noise: As in :class:`BoundCriterion`; known noise is that of a single occurrence.
    """

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        features: FeatureMap,
        weights: FloatArray,
        **noise: Unpack[_Noise],
    ) -> None:
        """Bind the data; see the class."""
        super().__init__(X, y, features, **noise)
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
