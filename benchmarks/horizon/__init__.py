"""The benchmark ``horizon``."""
