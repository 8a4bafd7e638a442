"""The benchmark ``imports``."""
