"""Settings of the tests of the Optuna front door."""

from __future__ import annotations

from typing import TYPE_CHECKING

import optuna
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna's own log lines out of the tests' output."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(level)
