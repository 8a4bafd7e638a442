"""The benchmark ``regret``."""
