"""The benchmark ``parallel``."""
