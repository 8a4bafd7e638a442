"""Shifted Sobol points: uniform, reproducible, and safe to ask for from several threads."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from bbo_plugins.acquisition.candidates import along_lines, screening, shifted_sobol
from bbo_plugins.space import Dimension, SearchSpace


@pytest.mark.parametrize("n, d", [(1, 1), (2, 3), (100, 2), (1024, 6), (64, 100)])
def test_points_are_a_shifted_sobol_sequence(n: int, d: int) -> None:
    """Modulo 1 all points differ from SciPy's sequence by one and the same vector."""
    points = shifted_sobol(n, d, np.random.default_rng(0))
    assert points.shape == (n, d)
    assert ((points >= 0.0) & (points < 1.0)).all()
    plain = qmc.Sobol(d, scramble=False).random(1 << (n - 1).bit_length())[:n]
    shift = (points - plain) % 1.0
    np.testing.assert_allclose((shift - shift[0] + 0.5) % 1.0, 0.5, atol=1e-12)
    assert len(np.unique(points.round(12), axis=0)) == n


def test_shift_comes_from_the_generator() -> None:
    """The same state gives the same points, the next draw others; the cached sequence is kept."""
    rng = np.random.default_rng(2)
    first, second = shifted_sobol(32, 2, rng), shifted_sobol(32, 2, rng)
    assert not np.array_equal(first, second)
    first[:] = 0.0
    again = np.random.default_rng(2)
    assert shifted_sobol(32, 2, again).any()
    assert np.array_equal(shifted_sobol(32, 2, again), second)


def test_no_dimension_is_too_many() -> None:
    """Beyond the table of direction numbers the points are random, still of the right shape."""
    points = shifted_sobol(2, 21202, np.random.default_rng(3))
    assert points.shape == (2, 21202)
    assert ((points >= 0.0) & (points < 1.0)).all()


def test_screening_fills_the_space_and_surrounds_the_anchors() -> None:
    """Near an anchor about 20 of many coordinates move, a category in three of ten points."""
    dimensions = {f"x{i}": Dimension.floats(0.0, 1.0) for i in range(80)}
    space = SearchSpace(dimensions | {"c": Dimension.categorical("abcdefgh")})
    rng = np.random.default_rng(4)
    anchors = space.snap(rng.uniform(0.3, 0.7, size=(2, 81)))
    points = screening(space, anchors, np.full(81, 0.1), 64, 400, rng)
    assert points.shape == (464, 81)
    np.testing.assert_array_equal(points, space.snap(points))
    np.testing.assert_allclose(points[:64, :80].mean(axis=0), 0.5, atol=0.05)
    moved = points[64:] != np.tile(anchors, (200, 1))
    assert moved[:, :80].mean() == pytest.approx(0.25, abs=0.02)
    assert moved[:, 80].mean() == pytest.approx(0.3 * 7 / 8, abs=0.07)
    gaps = np.abs(points[64:, :80] - np.tile(anchors[:, :80], (200, 1)))[moved[:, :80]]
    assert 1e-4 < np.median(gaps) < 0.01
    without = screening(space, anchors[:0], np.full(81, 0.1), 64, 400, rng)
    assert without.shape == (64, 81)


def test_places_along_a_line_are_one_in_each_part_of_it() -> None:
    """Each copy differs in one coordinate; those of a coordinate are in n equal parts."""
    x = np.array([0.2, 0.9, 0.5])
    points = along_lines(x, 8, np.random.default_rng(0)).reshape(3, 8, 3)
    for i, line in enumerate(points):
        np.testing.assert_array_equal(np.delete(line, i, axis=1), np.tile(np.delete(x, i), (8, 1)))
        np.testing.assert_array_equal(np.floor(8.0 * line[:, i]), np.arange(8))
