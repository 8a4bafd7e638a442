"""Gaussian-process optimization as the papers run it: z-scores, one fit, one acquisition function.

No output transform, no trust region, no bandit: what this package's samplers add is left out, so
that a paper's figure is rerun with the paper's model. The kernel is Matérn-5/2 with a length-scale
per dimension, the search is the package's (:func:`bbo_plugins.acquisition.maximize.maximize`).
Values are maximized.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias

import numpy as np

from bbo_plugins.acquisition import functions
from bbo_plugins.acquisition.maximize import maximize
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.fit import LogPrior, WarmStart, default_prior, fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import MARGINAL, FitCriterion
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.space import Dimension, SearchSpace
from bbo_plugins.space.dimension import FloatArray

Acquisition: TypeAlias = Literal["ucb", "ei", "pi"]
_N_ANCHORS = 5
_WALL = 10.0  # in scales of the default prior: so far a hyperparameter goes nearly for free


@dataclass(frozen=True)
class _StartedAsOurs:
    """A prior whose fits start where those of the package's default prior do.

    Attributes:
        n_dimensions: Number of length-scales, d.
    """

    n_dimensions: int

    @property
    def location(self) -> FloatArray:
        """Where a fit starts, shape (d + 2,)."""
        return default_prior(self.n_dimensions).location

    @property
    def scale(self) -> FloatArray:
        """How far from there its other starts are, shape (d + 2,)."""
        return default_prior(self.n_dimensions).scale


@dataclass(frozen=True)
class GammaPrior(_StartedAsOurs):
    """Independent Gamma(shape, rate) distributions of all hyperparameters.

    Attributes:
        shape: Shape of each.
        rate: Rate of each.
    """

    shape: float
    rate: float

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density of θ, but for a constant, and its gradient (d + 2,)."""
        # of e^θ the density is Gamma's, of θ therefore aθ - b e^θ
        pull = self.rate * np.exp(np.minimum(theta, 700.0))
        return self.shape * float(theta.sum()) - float(pull.sum()), self.shape - pull


@dataclass(frozen=True)
class Uninformative(_StartedAsOurs):
    """A prior so wide that the marginal likelihood alone decides wherever it can."""

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density of θ, but for a constant, and its gradient (d + 2,)."""
        width = _WALL * self.scale
        z = (theta - self.location) / width
        return -0.5 * float(z @ z), -z / width


@dataclass(frozen=True)
class Model:
    """A Gaussian process over z-scores.

    Attributes:
        process: The posterior.
        mean: Mean of the values.
        std: Their standard deviation, the unit of the z-scores; 1 if they are all equal.
        warm_start: What the next fit may start from.
    """

    process: GaussianProcess
    mean: float
    std: float
    warm_start: WarmStart

    @classmethod
    def fit(
        cls,
        X: FloatArray,
        y: FloatArray,
        prior: LogPrior,
        *,
        criterion: FitCriterion = MARGINAL,
        warm_start: WarmStart | None = None,
    ) -> Self:
        """Fit to the values ``y`` (n,) at the points ``X`` (n, d) of the unit cube."""
        std = float(y.std()) or 1.0
        z, features = (y - y.mean()) / std, FeatureMap((0,) * X.shape[1])
        found = fit_map(X, z, features, prior=prior, criterion=criterion, warm_start=warm_start)
        process = GaussianProcess.from_data(
            X, z, found.hyperparameters, features, cholesky=found.cholesky
        )
        return cls(process, float(y.mean()), std, found.warm_start)

    def with_length_scales(self, factor: float) -> Self:
        """Return the posterior with all length-scales multiplied by ``factor``."""
        at = self.process.hyperparameters
        scaled = replace(at, length_scales=factor * at.length_scales)
        process = GaussianProcess.from_data(
            self.process.X, self.process.y, scaled, self.process.features
        )
        return replace(self, process=process)


@dataclass(frozen=True)
class PlainAcquisition:
    """One acquisition function of one posterior.

    Attributes:
        process: The posterior.
        name: Which function.
        parameter: β, the multiplier of σ, of "ucb"; ξ, the improvement asked for, of the others.
    """

    process: GaussianProcess
    name: Acquisition
    parameter: float

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values at ``X`` (m, d), shape (m,); logarithms of "ei" and "pi"."""
        return self._of(*self.process.predict(X)).value

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""
        mean, variance, pullback = self.process.predict_with_pullback(X)
        found = self._of(mean, variance)
        return found.value, pullback(found.by_mean, found.by_variance)

    def _of(self, mean: FloatArray, variance: FloatArray) -> functions.Derivatives:
        if self.name == "ucb":
            return functions.upper_confidence_bound(mean, variance, self.parameter)
        threshold = float(self.process.y.max()) + self.parameter
        if self.name == "ei":
            return functions.log_expected_improvement(mean, variance, threshold)
        return functions.log_probability_of_feasibility(mean, variance, threshold)


def cube(n_dimensions: int) -> SearchSpace:
    """Return the unit cube as a search space."""
    return SearchSpace({f"x{i}": Dimension.floats(0.0, 1.0) for i in range(n_dimensions)})


@one_blas_thread()
def next_point(
    process: GaussianProcess, name: Acquisition, parameter: float, rng: np.random.Generator
) -> FloatArray:
    """Return the maximizer (d,) of an acquisition function over the unit cube."""
    best = np.argsort(-process.mean_at_observations, kind="stable")[:_N_ANCHORS]
    return maximize(
        PlainAcquisition(process, name, parameter),
        cube(process.X.shape[1]),
        rng=rng,
        length_scales=process.hyperparameters.length_scales,
        anchors=process.X[best],
    )
