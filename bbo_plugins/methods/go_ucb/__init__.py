"""A parametric surrogate (Liu & Wang 2023)."""
