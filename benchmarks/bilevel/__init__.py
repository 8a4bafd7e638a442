"""The benchmark ``bilevel``."""
