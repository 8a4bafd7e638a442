"""Parts of UHE-BO alone, and the paper's literal settings: what the public sampler does not offer.

The entrants ``uhe-*`` of ``benchmarks.common.samplers`` are built here. Each is our sampler with
another variant, so that everything else (space, start-up, search) is the same:

- ``uhe-loss-only``: the consistent loss for every trial, and no random ones.
- ``uhe-arm-only``: the bandit as in the default, but the MAP estimate throughout.
- ``uhe-both``: both in every pair, as in the paper, instead of only while the search has stagnated.
- ``uhe-literal``: the paper's settings: nearest-neighbor pseudo-data with its Gamma priors, reward
  scaled by the start-up data, the rate of a known T, GP-UCB with multiplier 1.96.

``LiteralLoss`` is the loss of Ha et al. with its own priors in place of the default one: the fit
adds the log density of the default prior to every loss; this one takes it off again and adds those
of the Gamma distributions.

What ``uhe-literal`` does not reproduce: targets go through the package's output transform, inputs
are in the unit cube (the paper does not say in which units its priors are), and the optimizer of
the hyperparameters is ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, cast

import numpy as np

from bbo_plugins.gp.fit import default_prior
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import MARGINAL, BoundCriterion
from bbo_plugins.methods.gp_bo import Options
from bbo_plugins.methods.uhe_bo.algorithm import Variant
from bbo_plugins.methods.uhe_bo.losses import NearestNeighborPseudoData
from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common.plain_gp import GammaPrior

GAMMA_SHAPE, GAMMA_RATE = 1e-3, 10.0  # of every hyperparameter, appendix C


@dataclass(frozen=True)
class LiteralLoss:
    """The likelihood of the paper's pseudo-data times the ratio of the priors."""

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


VARIANTS: Mapping[str, Variant] = MappingProxyType(
    {
        "uhe-loss-only": Variant(explores=False, on_stagnation=False),
        "uhe-arm-only": Variant(criterion=MARGINAL),
        "uhe-both": Variant(on_stagnation=False),
        "uhe-literal": Variant(
            criterion=LiteralLoss(), on_stagnation=False, n_draws=1, reward="scaled"
        ),
    }
)


class VariantSampler(UHEBOSampler):
    """Our sampler with a variant of ``VARIANTS``; only the literal one is told the budget."""

    def __init__(
        self, name: str, *, seed: int, budget: int | None = None, n_startup_trials: int = 10
    ) -> None:
        """Keep the variant; the rest is the sampler's."""
        literal = name == "uhe-literal"
        super().__init__(
            acquisition="ucb" if literal else "logei",
            n_trials=budget if literal else None,
            n_startup_trials=n_startup_trials,
            seed=seed,
        )
        self._chosen_variant = VARIANTS[name]
        self._is_literal = literal

    @property
    def model_options(self) -> Options:
        """The sampler's; the paper's kernel has no trend."""
        options = super().model_options
        return replace(options, trend=False) if self._is_literal else options

    def _variant(self) -> Variant:
        return self._chosen_variant
