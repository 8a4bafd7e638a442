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
from dataclasses import replace
from types import MappingProxyType

from bbo_plugins.gp.likelihood import MARGINAL
from bbo_plugins.methods.gp_bo import Options
from bbo_plugins.methods.uhe_bo.algorithm import Variant
from bbo_plugins.optuna import UHEBOSampler
from benchmarks.common.criteria import LiteralLoss

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
