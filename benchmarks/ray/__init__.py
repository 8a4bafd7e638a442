"""The benchmark ``ray``."""
