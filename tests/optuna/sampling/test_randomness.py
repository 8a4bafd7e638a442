"""Random numbers follow from seed, trial number and purpose, and from nothing else."""

from __future__ import annotations

import numpy as np

from bbo_plugins.optuna.sampling import randomness
from bbo_plugins.space import Dimension, SearchSpace

BOX = SearchSpace({"x": Dimension.float(0.0, 1.0), "y": Dimension.float(0.0, 1.0)})
UNIT = Dimension.float(0.0, 1.0)


def test_draws_differ_by_seed_trial_and_name() -> None:
    """Changing any one of the three changes the draw; repeating it does not."""
    keys = [(0, 0, "x"), (1, 0, "x"), (0, 1, "x"), (0, 0, "y"), (2**64, 0, "x"), (0, 0, "\udc80")]
    draws = [randomness.uniform_value(UNIT, *key) for key in keys]
    assert len(set(draws)) == len(keys)
    assert draws == [randomness.uniform_value(UNIT, *key) for key in keys]


def test_consecutive_trials_take_consecutive_points() -> None:
    """Any 16 trials from a multiple of 16 on have one point in each sixteenth of each axis."""
    for start in (0, 32, 4_096):
        X = np.array([randomness.design_point(BOX, 5, start + i, ()) for i in range(16)])
        for axis in range(2):
            shifted = np.sort(X[:, axis])
            assert np.diff(shifted).max() < 2.0 / 16.0 + 1e-9


def test_seeds_shift_the_design() -> None:
    """Two seeds place the same trial differently, beyond the length of one sequence too."""
    assert not np.allclose(
        randomness.design_point(BOX, 0, 3, ()), randomness.design_point(BOX, 1, 3, ())
    )
    assert not np.allclose(
        randomness.design_point(BOX, 0, 3, ()), randomness.design_point(BOX, 0, 3 + 4_096, ())
    )


def test_finite_spaces_are_used_up_first() -> None:
    """Points do not repeat while there are others; then they may."""
    for space, n in (
        (SearchSpace({"a": Dimension.int(0, 3), "b": Dimension.categorical("pq")}), 8),
        (SearchSpace({str(i): Dimension.int(0, 9) for i in range(6)}), 40),  # too large to list
    ):
        taken: list[np.ndarray] = []
        for number in range(n):
            x = randomness.design_point(space, 1, number, taken)
            np.testing.assert_array_equal(space.snap(x[None])[0], x)
            taken.append(x)
        assert len({tuple(x) for x in taken}) == n
        first = randomness.design_point(space, 1, 0, ())
        assert randomness.design_point(space, 1, 0, [first]).tolist() != first.tolist()
    small = SearchSpace({"a": Dimension.int(0, 1)})
    everything = list(small.enumerate())
    assert randomness.design_point(small, 0, 0, everything)[0] in {0.25, 0.75}
