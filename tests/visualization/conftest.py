"""Settings of the tests of the plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import optuna
import pytest
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Iterator

mpl.use("Agg")


@pytest.fixture(autouse=True)
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna's own log lines out of the tests' output."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(level)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Close what a test has drawn."""
    yield
    plt.close("all")
