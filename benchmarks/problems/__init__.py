"""Test functions and tables of real models."""
