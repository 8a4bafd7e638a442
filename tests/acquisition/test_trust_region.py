"""The trust region: its length, when it is exhausted, and the search away from it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.acquisition import maximize as module
from bbo_plugins.acquisition.maximize import region_history, second_search

FIRST = module._FIRST
SUCCESSES, FAILURES = module._N_SUCCESSES, module._N_FAILURES
HALVINGS = 7  # from 0.8 to below 1 / 128
TINY = HALVINGS * FAILURES  # failures in a row


def test_successes_lengthen_it_and_failures_shorten_it() -> None:
    """Enough of either in a row, after the start-up; another one in between counts anew."""
    better = np.concatenate([np.zeros(5), np.arange(1.0, 30.0)])
    assert region_history(better, len(better)).length == FIRST
    assert region_history(better[: 5 + SUCCESSES - 1], 5).length == FIRST
    assert region_history(better[: 5 + SUCCESSES], 5).length == 2.0 * FIRST
    assert region_history(better, 5).length == module._LONGEST
    worse = np.concatenate([[1.0, 0.0], np.zeros(FAILURES)])
    assert region_history(worse[:-1], 2).length == FIRST
    assert region_history(worse, 2).length == 0.5 * FIRST
    worse[-2] = 5.0
    assert region_history(worse, 2).length == FIRST


def test_running_trials_excuse_failures() -> None:
    """Failures of trials that ran at the same time count as one."""
    y = np.concatenate([[1.0, 0.0], np.zeros(4 * FAILURES)])
    beside = np.full(len(y), 3)
    assert region_history(y[:-1], 2, beside[:-1]).length == FIRST
    assert region_history(y, 2, beside).length == 0.5 * FIRST


@given(
    st.lists(st.floats(-100.0, 100.0), min_size=1, max_size=40),
    st.integers(1, 10),
    st.sampled_from([0.25, 1.0, 1024.0]),
)
def test_units_do_not_matter(values: list[float], n_startup: int, scale: float) -> None:
    """The length lies between its limits and does not change with the objective's scale."""
    y = np.round(np.array(values), 3)
    length = region_history(y, n_startup).length
    assert module._SHORTEST <= length <= module._LONGEST
    assert region_history(scale * y, n_startup).length == pytest.approx(length)


def test_region_is_exhausted_by_failures_only() -> None:
    """It is once it has become tiny twice in a row; a success revives it."""
    y = np.concatenate([[0.0, 1.0], np.zeros(2 * TINY)])
    history = region_history(y, 2)
    assert history.tiny_after == (2 + TINY, 2 + 2 * TINY)
    assert history.exhausted_after == 2 + 2 * TINY
    assert region_history(y[:-1], 2).exhausted_after is None
    assert region_history(np.append(y, 0.0), 2).exhausted_after == 2 + 2 * TINY
    assert region_history(np.append(y, 2.0), 2).exhausted_after is None
    y[2 + TINY] = 2.0  # a success after it became tiny once
    history = region_history(np.append(y, [0.0] * (TINY + 2)), 2)
    assert history.success_after == 3 + TINY
    assert len(history.tiny_after) == 3
    assert history.exhausted_after == history.tiny_after[-1]


def test_second_search_is_made_of_the_points_away_from_the_best_one() -> None:
    """Of those after the exhaustion, five of which are drawn; then it has a region of its own."""
    n = 2 + 2 * TINY
    X, y = np.full((n + 40, 2), 0.5), np.zeros(n + 40)
    y[1] = 1.0
    X[n::2, 1] = 0.9  # every second one later
    assert second_search(X[: n - 1], y[: n - 1], 2) is None
    for extra in range(10):  # with 0 to 5 points of its own
        rows, length = second_search(X[: n + extra], y[: n + extra], 2)  # type: ignore[misc]
        assert rows.tolist() == list(range(n, n + extra, 2))
        assert length == (FIRST if extra == 9 else 0.0)
    late = n + 2 * (5 + FAILURES) - 1  # its failures shorten its region
    rows, length = second_search(X[:late], y[:late], 2)  # type: ignore[misc]
    assert length == 0.5 * FIRST
    y[n + 2] = -np.inf  # of a pruned trial
    rows, _ = second_search(X[:late], y[:late], 2)  # type: ignore[misc]
    assert n + 2 not in rows
    y[n + 20] = 2.0  # it has found a better one: there is a region to be searched again
    assert second_search(X[: n + 21], y[: n + 21], 2) is None


def test_second_search_starts_over_elsewhere() -> None:
    """When its own region has become tiny, what came before no longer counts."""
    n = 2 + 2 * TINY
    n_second = module._N_DRAWN + 4 * FAILURES  # from 0.8 to 0.05, which is not below the least
    X = np.concatenate([np.full((n, 3), 0.5), np.full((n_second + FAILURES + 3, 3), 0.1)])
    y = np.concatenate([[0.0, 1.0], np.zeros(len(X) - 2)])
    rows, length = second_search(X[: n + n_second], y[: n + n_second], 2)  # type: ignore[misc]
    assert (len(rows), length) == (n_second, pytest.approx(0.05))
    rows, length = second_search(X, y, 2)  # type: ignore[misc]
    assert (rows.tolist(), length) == ([len(X) - 3, len(X) - 2, len(X) - 1], 0.0)
