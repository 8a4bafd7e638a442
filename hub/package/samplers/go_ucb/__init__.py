"""GO-UCB: Parametric Surrogate for Many Dimensions, from the package bbo-plugins."""

from bbo_plugins.optuna import GOUCBSampler

__all__ = ["GOUCBSampler"]
