"""The benchmark ``memory``."""
