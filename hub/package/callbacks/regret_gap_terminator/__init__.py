"""Regret-Gap Terminator, from the package bbo-plugins."""

from bbo_plugins.optuna import RegretGapTerminator, report_cross_validation_scores

__all__ = ["RegretGapTerminator", "report_cross_validation_scores"]
