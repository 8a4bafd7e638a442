"""The benchmark ``conditional``."""
