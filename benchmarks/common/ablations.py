"""Parts of UHE-BO alone, and the paper's literal settings: what the public sampler does not offer.

The entrants ``uhe-*`` of ``benchmarks.common.samplers`` are built here. Each is our sampler with
another variant, so that everything else (space, start-up, search) is the same:

- ``uhe-loss-only``: the consistent loss for every trial, and no random ones.
- ``uhe-arm-only``: the bandit as in the default, but the MAP estimate throughout.
- ``uhe-both``: both in every pair, as in the paper, instead of only while the search has stagnated.
- ``uhe-literal``: the paper's settings: nearest-neighbor pseudo-data with its Gamma priors, reward
  scaled by the start-up data, the rate of a known T, GP-UCB with multiplier 1.96.

What ``uhe-literal`` does not reproduce: targets go through the package's output transform, inputs
are in the unit cube (the paper does not say in which units its priors are), and the optimizer of
the hyperparameters is ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, cast

import numpy as np
from optuna.samplers import BaseSampler

from bbo_plugins.gp.fit import default_prior
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import MARGINAL, BoundCriterion
from bbo_plugins.methods.uhe_bo.algorithm import Variant
from bbo_plugins.methods.uhe_bo.losses import NearestNeighborPseudoData
from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.space.dimension import FloatArray

GAMMA_SHAPE, GAMMA_RATE = 1e-3, 10.0  # of every hyperparameter, appendix C


@dataclass(frozen=True)
class LiteralLoss:
    """The paper's loss with its own priors in place of the default one.

    The fit adds the log density of the default prior to every loss; this one takes it off again and
    adds those of the Gamma distributions.
    """

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
        """Return the likelihood of the pseudo-data times the ratio of the priors."""
        likelihood = NearestNeighborPseudoData().bind(
            X, y, features, known_noise=known_noise, fit_noise=fit_noise
        )
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
    """Our sampler with a variant of ``VARIANTS``."""

    def __init__(
        self,
        variant: Variant,
        *,
        acquisition: Literal["logei", "ei", "ucb"],
        n_trials: int | None,
        n_startup_trials: int,
        seed: int,
    ) -> None:
        """Keep the variant; the rest is the sampler's."""
        super().__init__(
            acquisition=acquisition, n_trials=n_trials, n_startup_trials=n_startup_trials, seed=seed
        )
        self._chosen_variant = variant

    def _variant(self) -> Variant:
        return self._chosen_variant


def build(
    name: str, *, seed: int, budget: int | None = None, n_startup_trials: int = 10
) -> BaseSampler:
    """Return the entrant of that name; only the literal one is told the number of trials."""
    literal = name == "uhe-literal"
    return VariantSampler(
        VARIANTS[name],
        acquisition="ucb" if literal else "logei",
        n_trials=budget if literal else None,
        n_startup_trials=n_startup_trials,
        seed=seed,
    )
