"""The benchmark ``papers``."""
