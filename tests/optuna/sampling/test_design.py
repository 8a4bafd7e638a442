"""The design of the start-up fills the space, and repeats no point while there are others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution

from bbo_plugins.optuna.sampling.design import design_point, has_choice_without_value
from bbo_plugins.space import Dimension, SearchSpace
from tests.optuna.snapshots import look, study_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution

    from bbo_plugins.space.dimension import FloatArray

BOX = SearchSpace({"x": Dimension.floats(0.0, 1.0), "y": Dimension.floats(0.0, 1.0)})


def point(space: SearchSpace, seed: int, number: int, taken: Sequence[FloatArray]) -> FloatArray:
    """Return the point of a trial's number."""
    shift, rng = np.random.default_rng(seed), np.random.default_rng([seed, number])
    return design_point(space, number, taken, shift=shift, rng=rng)


def test_consecutive_trials_take_consecutive_points() -> None:
    """Any 16 trials from a multiple of 16 on have one point in each sixteenth of each axis."""
    for start in (0, 32):
        X = np.array([point(BOX, 5, start + i, ()) for i in range(16)])
        for axis in range(2):
            shifted = np.sort(X[:, axis])
            assert np.diff(shifted).max() < 2.0 / 16.0 + 1e-9


def test_seeds_shift_the_design() -> None:
    """Two seeds place the same trial differently."""
    assert not np.allclose(point(BOX, 0, 3, ()), point(BOX, 1, 3, ()))


def test_irregular_points_are_apart_but_not_at_the_borders() -> None:
    """A fifth of the coordinates of random points are within a tenth of a border."""
    space = SearchSpace({str(i): Dimension.floats(0.0, 1.0) for i in range(6)})
    taken = [*np.random.default_rng(0).random((10, 6))]
    for i in range(60):
        shift, rng = np.random.default_rng(0), np.random.default_rng([1, i])
        taken.append(design_point(space, i, taken, shift=shift, rng=rng, irregular=True))
    X = np.array(taken[10:])
    assert np.mean((X < 0.1) | (X > 0.9)) < 0.25
    gaps = space.distances(X, X) + np.eye(60)
    drawn = np.random.default_rng(2).random((60, 6))
    assert gaps.min() > (space.distances(drawn, drawn) + np.eye(60)).min()


def test_finite_spaces_are_used_up_first() -> None:
    """Points do not repeat while there are others; then they may."""
    for space, n in (
        (SearchSpace({"a": Dimension.integers(0, 3), "b": Dimension.categorical("pq")}), 8),
        (
            SearchSpace({str(i): Dimension.integers(0, 9) for i in range(6)}),
            40,
        ),  # too large to list
    ):
        taken: list[np.ndarray] = []
        for number in range(n):
            x = point(space, 1, number, taken)
            np.testing.assert_array_equal(space.snap(x[None])[0], x)
            taken.append(x)
        assert len({tuple(x) for x in taken}) == n
        first = point(space, 1, 0, ())
        assert point(space, 1, 0, [first]).tolist() != first.tolist()
    small = SearchSpace({"a": Dimension.integers(0, 1)})
    everything = list(small.enumerate())
    assert point(small, 0, 0, everything)[0] in {0.25, 0.75}


@pytest.mark.parametrize("n, counts", [(16, True), (17, False)])
def test_a_category_of_very_many_choices_does_not_hold_up_the_model(
    n: int, *, counts: bool
) -> None:
    """A start-up that has each of them would never end."""
    space: dict[str, BaseDistribution] = {"c": CategoricalDistribution([str(i) for i in range(n)])}
    study = study_of(
        *[optuna.create_trial(value=1.0, params={"c": c}, distributions=space) for c in "01"]
    )
    assert has_choice_without_value(look(study, space)) == counts
