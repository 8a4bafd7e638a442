"""UHE-BO: Gaussian-Process Sampler That Doubts Its Model, from the package bbo-plugins."""

from bbo_plugins.optuna import UHEBOSampler

__all__ = ["UHEBOSampler"]
