"""The benchmark ``latency``."""
