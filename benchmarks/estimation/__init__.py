"""The benchmark ``estimation``."""
