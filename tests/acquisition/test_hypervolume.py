"""Boxes, hypervolume and log EHVI: against counting, Monte Carlo and numeric derivatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bbo_plugins.acquisition.functions import log_expected_improvement
from bbo_plugins.acquisition.hypervolume import (
    ExpectedHypervolumeImprovement,
    boxes_above,
    front_of,
    n_dominating,
    proper_front_of,
)
from benchmarks.problems.hypervolume import hypervolume
from tests.oracles.differences import numeric_gradient

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

SEVERAL = (2, 3, 4)
_LEVELS = 4
# Points that often agree in a coordinate, or in all: of 1 to 5 objectives.
POINTS = st.tuples(st.integers(0, 7), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, _LEVELS - 1).map(float))
)


def _cells(k: int) -> FloatArray:
    """Return the middles of all unit cells between -1 and the largest level + 1, (m, k)."""
    middles = np.arange(-1.0, _LEVELS) + 0.5
    return np.stack(np.meshgrid(*[middles] * k), axis=-1).reshape(-1, k)


def _is_dominated(X: FloatArray, points: FloatArray) -> FloatArray:
    """Return by definition which of ``X`` (m, k) are below one of ``points`` (n, k), (m,)."""
    below = np.asarray((X[:, None, :] <= points).all(axis=2))
    return np.asarray(below.any(axis=1), dtype=np.float64)


def _case(k: int, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return points (8, k), a reference point (k,), means (5, k) and variances (5, k)."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.uniform(-0.2, 1.3, (5, k)), rng.uniform(0.01, 0.2, (5, k))
    return rng.random((8, k)), np.full(k, -0.2), mean, variance


@given(points=POINTS)
def test_boxes_fill_what_is_not_dominated_and_hypervolume_is_the_rest(points: FloatArray) -> None:
    """Each cell above the reference point is in one box if it is not dominated, else in none."""
    k = points.shape[1]
    cells, reference = _cells(k), np.full(k, -1.0)
    boxes = boxes_above(points, reference)
    inside = (cells[:, None] > boxes.low) & (cells[:, None] < boxes.high)
    dominated = _is_dominated(cells, points)
    assert (inside.all(axis=2).sum(axis=1) == 1.0 - dominated).all()
    assert hypervolume(points, reference) == pytest.approx(dominated.sum())


@pytest.mark.parametrize("k", [3, 4])
def test_boxes_of_a_long_front_fill_what_is_not_dominated(k: int) -> None:
    """Also where there are many more boxes than there is room for at first."""
    rng = np.random.default_rng(k)
    points = np.abs(rng.standard_normal((200, k)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    X = rng.uniform(0.0, 1.1, (2000, k))
    boxes = boxes_above(points, np.zeros(k))
    assert len(boxes.low) > 256
    inside = ((X[:, None] > boxes.low) & (X[:, None] < boxes.high)).all(axis=2)
    assert (inside.sum(axis=1) == 1.0 - _is_dominated(X, points)).all()


@given(points=POINTS)
def test_the_front_is_what_nobody_dominates(points: FloatArray) -> None:
    """By definition, and each point once."""
    at_least = (points[:, None] <= points).all(axis=2)
    larger = (points[:, None] < points).any(axis=2)
    counts = (at_least & larger).sum(axis=1)
    assert n_dominating(points).tolist() == counts.tolist()
    expected = {tuple(point) for point, count in zip(points, counts, strict=True) if not count}
    assert sorted(map(tuple, front_of(points))) == sorted(expected)


@given(points=POINTS.filter(len))
def test_without_a_rate_the_proper_front_is_the_front(points: FloatArray) -> None:
    """With its copies."""
    kept = proper_front_of(points, 0.0)
    assert sorted(set(map(tuple, kept))) == sorted(map(tuple, front_of(points)))
    assert len(kept) == (n_dominating(points) == 0).sum()


@pytest.mark.parametrize("unit", [1.0, 1e-9, 1e9])
def test_a_point_that_is_best_by_a_hair_is_not_in_the_proper_front(unit: float) -> None:
    """Whatever the units; the ends of a round front stay."""
    angles = np.linspace(0.0, 0.5 * np.pi, 5)
    round_front = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(5)])
    bad = np.array([1.001, -1.0, -1.0])
    points = np.vstack([round_front, bad]) * [1.0, unit, 1.0]
    assert len(front_of(points)) == 6
    np.testing.assert_array_equal(proper_front_of(points, 0.05), points[:5])


def test_points_beyond_the_reference_point_do_not_count() -> None:
    """Neither for the hypervolume nor for what is to be improved upon."""
    points = np.array([[0.5, 0.5], [2.0, -0.1], [0.0, 3.0]])
    reference = np.zeros(2)
    assert hypervolume(points, reference) == pytest.approx(0.25)
    for found, expected in zip(
        boxes_above(points, reference), boxes_above(points[:1], reference), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("k", SEVERAL)
def test_ehvi_agrees_with_monte_carlo(k: int) -> None:
    """Within four standard errors of 20,000 draws of the improvement by :func:`hypervolume`."""
    points, reference, mean, variance = _case(k)
    rng = np.random.default_rng(1)
    found = np.exp(ExpectedHypervolumeImprovement.of(points, reference).log_value(mean, variance))
    boxes = boxes_above(points, reference)
    for i in range(len(mean)):
        draws = mean[i] + np.sqrt(variance[i]) * rng.standard_normal((20_000, k))
        lengths = np.minimum(draws[:, None], boxes.high) - boxes.low
        added = np.maximum(lengths, 0.0).prod(axis=2).sum(axis=1)
        one = hypervolume(np.vstack([points, draws[:1]]), reference)
        assert added[0] == pytest.approx(one - hypervolume(points, reference), abs=1e-9)
        error = float(added.std()) / math.sqrt(len(added))
        assert found[i] == pytest.approx(float(added.mean()), abs=4.0 * error)


@pytest.mark.parametrize("k", SEVERAL)
def test_gradients_agree_with_differences(k: int) -> None:
    """By means and by variances, to 1e-6 of the largest."""
    points, reference, mean, variance = _case(k)
    ehvi = ExpectedHypervolumeImprovement.of(points, reference)
    value, by_mean, by_variance = ehvi.derivatives(mean, variance)
    assert value == pytest.approx(ehvi.log_value(mean, variance))
    for i in range(len(mean)):

        def at(both: FloatArray) -> float:
            m, v = both[None, :].reshape(2, 1, k)
            return float(ehvi.log_value(m, v)[0])

        expected = numeric_gradient(at, np.concatenate([mean[i], variance[i]]), step=1e-4)
        found = np.concatenate([by_mean[i], by_variance[i]])
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6 * np.abs(expected).max())


def test_with_one_objective_it_is_log_expected_improvement() -> None:
    """With the same derivatives."""
    points, reference, mean, variance = _case(1)
    found = ExpectedHypervolumeImprovement.of(points, reference).derivatives(mean, variance)
    expected = log_expected_improvement(mean[:, 0], variance[:, 0], float(points.max()))
    for one, other in zip(found, expected, strict=True):
        assert one.reshape(-1) == pytest.approx(other)
