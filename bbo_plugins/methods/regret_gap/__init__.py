"""When to stop (Ishibashi et al. 2023)."""
