"""Trials of bilevel studies."""
