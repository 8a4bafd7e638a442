"""The common base of the samplers."""
