"""The benchmark ``picture``."""
