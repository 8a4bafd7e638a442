"""Settings of the tests of reliability."""

from __future__ import annotations

from tests.optuna.conftest import quiet_optuna

__all__ = ["quiet_optuna"]  # a fixture of every test here
