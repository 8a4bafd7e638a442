"""How long each trial trains (Fu et al. 2024)."""
