"""UHE-BO with the paper's literal settings, which the public sampler does not offer.

It is our sampler with another variant, so that everything else (space, start-up, search) is the
same: nearest-neighbor pseudo-data with its Gamma priors and the uniform arm in every pair, reward
scaled by the start-up data, the rate of a known T, GP-UCB with multiplier 1.96.

``LiteralLoss`` is the loss of Ha et al. with its own priors in place of the default one: the fit
adds the log density of the default prior to every loss; this one takes it off again and adds those
of the Gamma distributions.

What is not reproduced: targets go through the package's output transform, inputs are in the unit
cube (the paper does not say in which units its priors are), and the optimizer of the
hyperparameters is ours.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from bbo_plugins.gp.fit import default_prior
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import BoundCriterion
from bbo_plugins.methods.gp_bo import Options
from bbo_plugins.methods.uhe_bo.algorithm import AS_IN_THE_PAPER, Variant
from bbo_plugins.methods.uhe_bo.criteria import NearestNeighborPseudoData
from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common.plain_gp import GammaPrior

GAMMA_SHAPE, GAMMA_RATE = 1e-3, 10.0  # of every hyperparameter, appendix C


@dataclass(frozen=True)
class LiteralLoss:
    """The likelihood of the paper's pseudo-data times the ratio of the priors."""

    name: ClassVar[str] = "LiteralLoss"
    covers_observations: ClassVar[bool] = False
    borrows_noise: ClassVar[bool] = False

    def bind(
        self, X: FloatArray, y: FloatArray, features: FeatureMap, **noise: Any
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
        self._gamma = GammaPrior(n_dimensions, GAMMA_SHAPE, GAMMA_RATE)
        self.n_parameters = likelihood.n_parameters

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return log likelihood + log Gamma priors - log default prior, and the gradient."""
        q = len(theta)
        value, gradient = self._likelihood(theta)
        full = np.array(self._default.location)
        full[:q] = theta
        default_value, default_gradient = self._default.value_and_gradient(full)
        gamma_value, gamma_gradient = self._gamma.value_and_gradient(theta)
        return value + gamma_value - default_value, (
            gradient + gamma_gradient - default_gradient[:q]
        )


class LiteralUHEBOSampler(UHEBOSampler):
    """Our sampler with the paper's settings and budget."""

    def __init__(self, *, seed: int, budget: int, n_startup_trials: int = 10) -> None:
        """Choose the paper's acquisition function."""
        super().__init__(
            acquisition="ucb", n_trials=budget, n_startup_trials=n_startup_trials, seed=seed
        )

    @property
    def model_options(self) -> Options:
        """The sampler's; the paper's kernel has no trend."""
        return replace(super().model_options, trend=False)

    def _variant(self) -> Variant:
        return replace(AS_IN_THE_PAPER, criterion=LiteralLoss())
