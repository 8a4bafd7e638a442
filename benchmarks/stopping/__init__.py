"""The benchmark ``stopping``."""
