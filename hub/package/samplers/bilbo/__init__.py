"""BILBO: Bilevel Bayesian Optimization, from the package bbo-plugins."""

from bbo_plugins.optuna import BILBOSampler, BilevelSolution

__all__ = ["BILBOSampler", "BilevelSolution"]
