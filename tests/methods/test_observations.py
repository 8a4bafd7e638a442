"""What counts as a valid set of observations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.methods.observations import Observations
from bbo_plugins.space import Dimension, SearchSpace, Split
from tests.oracles.problems import observe, unit_box

if TYPE_CHECKING:
    from collections.abc import Sequence

VALID: dict[str, Any] = {
    "X": np.full((3, 2), 0.5),
    "y": np.array([1.0, 2.0, 3.0]),
    "complete": np.ones(3, dtype=bool),
    "pending": np.empty((0, 2)),
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
    fields["noise_variance"] = None
    for worst_feasible, center in ((True, 1.5), (False, 5.0)):
        infeasible = (y > 4.0) if worst_feasible else (y < 4.0)
        known = Observations(**(fields | {"constraints": np.where(infeasible, 1.0, -1.0)[:, None]}))
        assert known.best_feasible == (3 if worst_feasible else 2)
        assert known.center == center
    nowhere = Observations(**(fields | {"constraints": np.ones((5, 1))}))
    free = Observations(**(fields | {"constraints": None}))
    for none in (nowhere, free):
        assert none.best_feasible is None
        assert none.center is None


def test_repeats_agree_once_three_had_the_same_value() -> None:
    """One is enough under conditions; a pruned trial is no repeat, and known noise is noise."""
    box, kind = unit_box(1), Dimension.categorical(["a", "b"])
    branches = SearchSpace(
        {"kind": kind, "x": Dimension.float(0.0, 1.0)}, {"x": Split("kind", (0.5,), (True, False))}
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
