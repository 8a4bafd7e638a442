"""Bilevel problems (Chew et al. 2025)."""
