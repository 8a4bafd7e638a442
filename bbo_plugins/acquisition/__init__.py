"""Acquisition functions and their maximization over the mixed unit cube."""
