"""Values so bad that the good ones are predicted better without them."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.methods.penalties import cutoff_of
from bbo_plugins.space import Dimension, SearchSpace

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

SPACE = SearchSpace({name: Dimension.floats(0.0, 1.0) for name in "ab"})
N = 40


def _values(seed: int, *, limit: float = 0.8) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return points, the values of a bowl there, and how far they violate a limit at its top."""
    X = np.random.default_rng(seed).random((N, 2))
    y = -np.square(X - 0.4).sum(axis=1)
    return X, y, np.maximum(X.sum(axis=1) - limit, 0.0)


def _n_cut(X: FloatArray, y: FloatArray) -> int:
    """Return how many values are below the cutoff."""
    return int((y < cutoff_of(SPACE, X, y)).sum())


@pytest.mark.parametrize("factor", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("power", [1, 2])
def test_penalties_that_grow_are_cut_off(factor: float, power: int) -> None:
    """None of the better half of the valid values is, and most penalties are, half of all."""
    n_cut = n_penalties = 0
    for seed in range(5):
        X, y, violation = _values(seed)
        penalized = y - factor * violation**power
        valid = violation == 0.0
        assert np.median(penalized[valid]) > cutoff_of(SPACE, X, penalized)
        n_cut += _n_cut(X, penalized)
        n_penalties += int((~valid).sum())
    assert n_penalties > 0.5 * 5 * N
    assert n_cut > 0.5 * n_penalties


def test_the_better_half_of_what_is_kept_decides() -> None:
    """The others are near the mild penalties, and hardly predicted better without them."""
    found = []
    for seed in range(6):
        X, y, violation = _values(seed, limit=1.2)
        found.append(_n_cut(X, y - 3.0 * violation**2))
    assert np.count_nonzero(found) >= 4


def test_the_cutoff_that_gains_most_is_taken() -> None:
    """Where few are penalized, one that leaves out three quarters would be enough of a gain too."""
    for seed in range(6):
        X, y, violation = _values(seed, limit=1.4)
        assert 0 < _n_cut(X, y - 1e4 * violation) <= N / 2


def test_a_plateau_is_no_reason_for_a_cutoff() -> None:
    """If the better half of what is kept are all as good as the best, they are not predicted."""
    for seed in range(6):
        X, _, violation = _values(seed, limit=1.0)
        assert cutoff_of(SPACE, X, -1e4 * violation) == -math.inf


def test_ordinary_values_are_kept() -> None:
    """Of a slope, a bowl with noise, of waves, of noise alone, and if all are the same."""
    for seed in range(5):
        X, y, _ = _values(seed)
        noise, slope = np.random.default_rng(seed).standard_normal(N), X @ (1.0, 2.0)
        waves = np.sin(9.0 * X).sum(axis=1)
        for values in (slope, y + 0.02 * noise, y + 0.3 * noise, waves, noise, np.ones(N)):
            assert cutoff_of(SPACE, X, values) == -math.inf


def test_accidents_are_no_penalties() -> None:
    """Values that are bad by chance say nothing of their places; outliers of the model are."""
    n_cut = 0
    for seed in range(10):
        X, y, _ = _values(seed)
        rng = np.random.default_rng(seed)
        wrong = rng.random(N) < 0.15
        values = y + 0.01 * rng.standard_normal(N) - wrong * (0.3 + 0.3 * rng.random(N))
        n_cut += _n_cut(X, values) > 0
    assert n_cut <= 1


def test_a_cutoff_keeps_as_many_values_as_are_asked_for() -> None:
    """Ten at least."""
    X, y, violation = _values(0)
    y -= 1e4 * violation
    kept = int((y >= cutoff_of(SPACE, X, y)).sum())
    assert kept < N
    assert cutoff_of(SPACE, X, y, least_kept=kept) > -math.inf
    for least in (N - 9, N):
        assert cutoff_of(SPACE, X, y, least_kept=least) == -math.inf
    assert cutoff_of(SPACE, X[:13], y[:13]) == -math.inf


def test_units_do_not_matter() -> None:
    """The same values are cut off in others, however large or small they are."""
    X, y, violation = _values(1)
    y -= 1e3 * violation
    is_below = y < cutoff_of(SPACE, X, y)
    assert is_below.any()
    for factor, shift in ((1e-200, 0.0), (3.0, 5.0), (1e200, 0.0)):
        values = factor * y + shift
        np.testing.assert_array_equal(values < cutoff_of(SPACE, X, values), is_below)


def test_values_that_are_shared_stay_together() -> None:
    """The worst that is kept may be that of several points; the cutoff is below all of them."""
    X, y, violation = _values(2)
    y = np.where(violation > 0.0, -1e4 * np.ceil(10.0 * violation), y)
    cutoff = cutoff_of(SPACE, X, y)
    assert y.min() < cutoff < y.max()
    assert cutoff not in y


def test_values_near_the_largest_float_are_no_error() -> None:
    """Sums of them would overflow, which a program may have made an error."""
    X, _, _ = _values(2)
    y = np.sign(X[:, 0] - 0.5) * np.linspace(1e307, 1e308, len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cutoff = cutoff_of(SPACE, X, y)
    assert cutoff == -math.inf or cutoff in {*y}
