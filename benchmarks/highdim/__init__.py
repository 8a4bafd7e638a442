"""The benchmark ``highdim``."""
