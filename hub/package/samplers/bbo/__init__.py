"""BBO: a Gaussian Process and a Network Take Turns, from the package bbo-plugins."""

from bbo_plugins.optuna import BBOSampler

__all__ = ["BBOSampler"]
