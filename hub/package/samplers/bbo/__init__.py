"""BBO: Gaussian Process and Network by Turns, from the package bbo-plugins."""

from bbo_plugins.optuna import BBOSampler

__all__ = ["BBOSampler"]
