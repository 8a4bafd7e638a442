"""The Optuna front door: samplers to pass to :func:`optuna.create_study`."""

from bbo_plugins.optuna.samplers import UHEBOSampler

__all__ = ["UHEBOSampler"]
