"""Consistent estimation of hyperparameters (Ha et al. 2023)."""
