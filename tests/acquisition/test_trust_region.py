"""The trust region: its box, and the length that follows from the history."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.acquisition.maximize import TrustRegion
from bbo_plugins.methods.go_ucb import algorithm as go_ucb
from bbo_plugins.methods.go_ucb.algorithm import length_after

FIRST = go_ucb._FIRST
SUCCESSES, FAILURES = go_ucb._N_SUCCESSES, go_ucb._N_FAILURES


def test_box_is_cut_off_at_the_cube() -> None:
    """Half a length to each side of the center, but not beyond the walls."""
    region = TrustRegion(np.array([0.5, 0.1, 0.95]), 0.4)
    np.testing.assert_allclose(region.low, [0.3, 0.0, 0.75])
    np.testing.assert_allclose(region.high, [0.7, 0.3, 1.0])


def test_startup_does_not_count() -> None:
    """Nothing but values suggested from within a region changes its length."""
    y = np.zeros(50)
    assert length_after(y, 50) == FIRST
    assert length_after(y[:1], 0) == FIRST
    assert length_after(y[:0], 10) == FIRST
    assert length_after(y, 10) != FIRST


def test_improvements_in_a_row_lengthen_it() -> None:
    """The length doubles after enough of them, up to a limit."""
    y = np.concatenate([np.zeros(5), np.arange(1.0, 30.0)])
    assert length_after(y[: 5 + SUCCESSES - 1], 5) == FIRST
    assert length_after(y[: 5 + SUCCESSES], 5) == 2.0 * FIRST
    assert length_after(y, 5) == go_ucb._LONGEST


def test_failures_in_a_row_shorten_it() -> None:
    """The length halves after enough of them; a success in between starts the count anew."""
    y = np.concatenate([[1.0, 0.0], np.zeros(FAILURES)])
    assert length_after(y[:-1], 2) == FIRST
    assert length_after(y, 2) == 0.5 * FIRST
    interrupted = y.copy()
    interrupted[-2] = 5.0
    assert length_after(interrupted, 2) == FIRST


def test_improvements_are_on_the_best_value() -> None:
    """Better than the previous value but not than the best one is a failure."""
    y = np.array([10.0, *[0.0, 5.0] * FAILURES])
    assert length_after(y[: 1 + FAILURES], 1) == 0.5 * FIRST


@given(
    st.lists(st.floats(-100.0, 100.0), min_size=1, max_size=40),
    st.integers(1, 10),
    st.sampled_from([0.25, 1.0, 1024.0]),
)
def test_units_do_not_matter(values: list[float], n_startup: int, scale: float) -> None:
    """The length lies between its limits and does not change with the objective's scale."""
    y = np.round(np.array(values), 3)
    length = length_after(y, n_startup)
    assert go_ucb._SHORTEST <= length <= go_ucb._LONGEST
    assert length_after(scale * y, n_startup) == pytest.approx(length)
