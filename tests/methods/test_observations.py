"""What counts as a valid set of observations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.methods.observations import Observations, failures_with_value
from bbo_plugins.space import Dimension, SearchSpace, Split
from tests.oracles.problems import observe, unit_box

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbo_plugins.space.dimension import FloatArray

VALID: dict[str, Any] = {
    "X": np.full((3, 2), 0.5),
    "y": np.array([1.0, 2.0, 3.0]),
    "complete": np.ones(3, dtype=bool),
    "pending": np.empty((0, 2)),
    "failed": np.empty((0, 2)),
    "has_value": np.ones(3, dtype=bool),
    "noise_variance": np.array([0.1, math.nan, 0.0]),
    "constraints": np.array([[0.0], [math.nan], [math.inf]]),
}


@pytest.mark.parametrize(
    "name, value",
    [
        ("y", np.zeros(2)),
        ("y", np.zeros((3, 1))),
        ("complete", np.ones(4, dtype=bool)),
        ("pending", np.empty((1, 3))),
        ("pending", np.empty(0)),
        ("noise_variance", np.zeros(2)),
        ("noise_variance", np.zeros((3, 1))),
        ("constraints", np.zeros(3)),
        ("constraints", np.zeros((2, 1))),
    ],
)
def test_shapes_that_disagree_are_refused_by_name(name: str, value: object) -> None:
    """The message says which array, what shape it must have and which it has."""
    with pytest.raises(ValueError, match=rf"^{name} must have shape .*, but got "):
        Observations(**(VALID | {name: value}))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_targets_must_be_finite(value: float) -> None:
    """The front doors decide what an infinite objective means, not the method."""
    with pytest.raises(ValueError, match=r"^y must be finite"):
        Observations(**(VALID | {"y": np.array([1.0, value, 2.0])}))


def test_what_matters_under_constraints() -> None:
    """The best feasible value, and the median of the feasible ones if they are the worse ones."""
    y = np.array([5.0, 1.0, 9.0, 2.0, 8.0])
    fields = VALID | {"X": np.full((5, 2), 0.5), "y": y, "complete": np.ones(5, dtype=bool)}
    fields["has_value"] = fields["complete"]
    fields["noise_variance"] = None
    for worst_feasible, center in ((True, 1.5), (False, 5.0)):
        infeasible = (y > 4.0) if worst_feasible else (y < 4.0)
        known = Observations(**(fields | {"constraints": np.where(infeasible, 1.0, -1.0)[:, None]}))
        assert known.best_feasible == (3 if worst_feasible else 2)
        assert known.center == center
    for feasible in (np.ones(5, dtype=bool), y == 1.0):  # in the end an outlier alone
        constraints = np.where(feasible, -1.0, 1.0)[:, None]
        outlier = fields | {"constraints": constraints, "has_value": y != 1.0}
        assert Observations(**outlier).center == 6.5
    nowhere = Observations(**(fields | {"constraints": np.ones((5, 1))}))
    free = Observations(**(fields | {"constraints": None}))
    for none in (nowhere, free):
        assert none.best_feasible is None
        assert none.center is None


def test_whether_most_failed_is_a_matter_of_all_points() -> None:
    """Also of those that are too many to be modeled; failed points then count as bad ones."""
    X = np.linspace(0.0, 1.0, 10)[:, None]
    known = observe(X[:6], np.arange(6.0), failed=X[6:])
    for rows in (np.arange(6), np.arange(2)):
        part = known.take(rows)
        assert not part.mostly_failed
        assert len(part.presumed_bad) == 0
    assert known.with_failures(np.arange(6) < 2).take(np.arange(2)).mostly_failed


def test_repeats_agree_once_three_had_the_same_value() -> None:
    """One is enough under conditions; a pruned trial is no repeat, and known noise is noise."""
    box, kind = unit_box(1), Dimension.categorical(["a", "b"])
    branches = SearchSpace(
        {"kind": kind, "x": Dimension.floats(0.0, 1.0)}, {"x": Split("kind", (0.5,), (True, False))}
    )

    def agree(
        values: Sequence[float], points: Sequence[int], space: SearchSpace = box, **known: Any
    ) -> bool:
        X = np.tile(np.array(points, dtype=np.float64)[:, None] / 9, (1, len(space)))
        return observe(X, values, **known).repeats_agree(space)

    assert agree([1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0])
    assert agree([1.0, 2.0, 1.0, 2.0, 2.0], [0, 1, 0, 1, 1])
    assert not agree([1.0, 1.0, 1.0], [0, 0, 0])
    assert not agree([1.0, 1.0, 1.0, 1.0, 2.0], [0, 0, 0, 0, 0])
    assert agree([1.0, 1.0], [0, 0], branches)
    assert not agree([1.0, 2.0], [0, 1], branches)
    pruned = np.array([True, True, True, False])
    assert not agree([1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0], complete=pruned)
    assert agree([1.0, 1.0, 1.0, 1.0, 7.0], [0, 0, 0, 0, 0], complete=np.arange(5) < 4)
    assert not agree([1.0] * 4, [0] * 4, noise_variance=np.array([math.nan, 0.1, 0.0, 0.0]))
    assert agree([1.0] * 4, [0] * 4, noise_variance=np.zeros(4))


def test_a_part_has_its_own_points_and_the_repeats_of_all() -> None:
    """Evaluated, pending and failed points of the part; repeats elsewhere tell of noise there."""
    box = unit_box(1)

    def part(points: Sequence[float], values: Sequence[float]) -> Observations:
        X = np.array(points)[:, None]
        pending, failed = np.array([[0.3], [0.8]]), np.array([[0.9], [0.4]])
        known = observe(X, values, pending=pending, failed=failed)
        return known.part(lambda places: places[:, 0] < 0.5, box)

    agreed = part([0.1, 0.7, 0.7, 0.7, 0.7, 0.2], [1.0, 2.0, 2.0, 2.0, 2.0, 3.0])
    assert agreed.X.tolist() == [[0.1], [0.2]]
    assert agreed.y.tolist() == [1.0, 3.0]
    assert agreed.pending.tolist() == [[0.3]]
    assert agreed.still_failed.tolist() == [[0.4]]
    assert agreed.n_left_out == 0
    assert agreed.repeats_agree(box)
    noisy = part([0.1, 0.1, 0.1, 0.1, 0.7, 0.7], [1.0, 1.0, 1.0, 1.0, 2.0, 3.0])
    assert not noisy.repeats_agree(box)


# ------------------------------------------------------------------------ values that are failures

ORDINARY = np.random.default_rng(3).normal(size=(30, 1))  # nothing beyond 3 standard deviations
PLACES = np.random.default_rng(4).random((30, 2))


def _failures(values: FloatArray, X: FloatArray = PLACES) -> NDArray[np.bool_]:
    X = X[: len(values)]
    return failures_with_value(X, values, np.ones(X.shape, dtype=bool))


@pytest.mark.parametrize("n_feasible", [1, 4, 8, 15])
def test_feasible_values_far_worse_than_the_others_are_no_failures(n_feasible: int) -> None:
    """What is better may be out of reach; a penalty among the feasible ones is still one."""
    values = ORDINARY.copy()
    values[:n_feasible] -= 1000.0
    violated, active = np.arange(30) >= n_feasible, np.ones(PLACES.shape, dtype=bool)
    assert not failures_with_value(PLACES, values, active, violated).any()
    values[0] = -1e6
    expected = (np.arange(30) == 0) & (n_feasible > 4)
    np.testing.assert_array_equal(failures_with_value(PLACES, values, active, violated), expected)
    values[-1] = -1e6  # where a constraint is violated
    expected[-1] = True
    np.testing.assert_array_equal(failures_with_value(PLACES, values, active, violated), expected)


@pytest.mark.parametrize(
    "at, value, is_failure",
    [
        ([25], -100.0, True),
        ([3], -100.0, True),
        ([25], 100.0, False),
        ([25], -20.0, False),
        ([25], -math.inf, True),
        (range(1, 30, 2), -1e6, True),  # a penalty in half of the space
        (range(1, 20), -1e6, True),
        (range(5), -math.inf, True),
    ],
)
def test_far_worse_values_are_failures(at: Sequence[int], value: float, is_failure: bool) -> None:
    """Penalties and diverged trainings are, far better values and ordinary ones are not."""
    values = ORDINARY.copy()
    values[at] = value
    expected = np.zeros(30, dtype=bool)
    expected[at] = is_failure
    np.testing.assert_array_equal(_failures(values), expected)


def test_each_branch_says_what_is_usual_in_it() -> None:
    """A branch that is far worse altogether has no failures but its own; a small one has none."""
    active = np.ones((30, 2), dtype=bool)
    active[:12, 1] = False
    active[12:20, 0] = False
    values = ORDINARY.copy()
    values[:12] -= 1e5
    values[[3, 15, 25]] = -1e6
    expected = np.isin(np.arange(30), [3, 25])  # of twelve and of ten; the other branch has eight
    np.testing.assert_array_equal(failures_with_value(PLACES, values, active), expected)


def test_penalties_of_two_sizes_are_failures() -> None:
    """A single larger one does not make the others usual."""
    values = ORDINARY.copy()
    values[:15], values[20] = -1e6, -1e7
    np.testing.assert_array_equal(
        _failures(values), [True] * 15 + [False] * 5 + [True] + [False] * 9
    )


@pytest.mark.parametrize(
    "at, value, is_failure",
    [
        ((3, 7, 20), -4.5, True),
        ((3, 7), -4.5, False),  # it may be chance
        ((3, 7, 20), -2.5, False),  # no gap
        ((3, 7, 20), 4.5, False),
    ],
)
def test_a_smaller_penalty_is_a_failure(at: list[int], value: float, is_failure: bool) -> None:
    """It is if three points share it, if all others are better, and by a gap."""
    values = np.clip(ORDINARY, -2.2, 2.2)
    values[[11, 12, 13]] = values[11]
    values[list(at)] = value
    expected = np.zeros(30, dtype=bool)
    expected[list(at)] = is_failure
    np.testing.assert_array_equal(_failures(values), expected)
    X = PLACES.copy()
    X[20] = X[7]
    assert not _failures(values, X).any()  # no three points
    values[25], expected[25] = -1e6, True
    np.testing.assert_array_equal(_failures(values), expected)


def test_few_values_do_not_say_what_is_usual() -> None:
    """Below ten that are finite and not shared, only an infinitely bad one is a failure."""
    values = np.concatenate([ORDINARY[:9], [[-1e6]]])
    assert not _failures(values[1:]).any()
    np.testing.assert_array_equal(_failures(values), [False] * 9 + [True])
    once_again = np.concatenate([values[1:], values[1:2]])
    np.testing.assert_array_equal(_failures(once_again), once_again[:, 0] == -1e6)
    assert not _failures(np.concatenate([once_again, values[1:2]])).any()


def test_where_points_gather_does_not_say_what_is_usual() -> None:
    """Ordinary values do not become failures as a search narrows down, or began at a good point."""
    gathered = np.concatenate([ORDINARY[:20], 3.0 + 1e-6 * ORDINARY])
    near = 0.5 + 1e-3 * PLACES
    assert not _failures(gathered, np.concatenate([PLACES[:20], near])).any()
    assert not _failures(gathered[::-1], np.concatenate([near, PLACES[:20]])).any()


def test_largest_values_are_no_failures() -> None:
    """No overflow makes them infinitely far from one another."""
    assert not _failures(ORDINARY * 5e307).any()


def test_the_ends_of_a_front_are_no_failures() -> None:
    """With several objectives all values must be far worse, or one of them infinitely bad."""
    values = np.column_stack([ORDINARY, ORDINARY[::-1]])
    values[20:24] = [(-1e3, 2.0), (2.0, -1e3), (-1e3, -1e3), (1.0, -math.inf)]
    expected = np.zeros(30, dtype=bool)
    expected[[22, 23]] = True
    np.testing.assert_array_equal(_failures(values), expected)
