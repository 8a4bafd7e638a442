"""Tests of conditions and of search spaces that have them."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.space import Condition, Dimension, SearchSpace, Split

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

KIND = Dimension.categorical(["a", "b", "c"])
UNIT = Dimension.floats(0.0, 1.0)


def model_space() -> SearchSpace:
    """Return a category, an integer behind "a", a float behind "b", one behind a large integer."""
    return SearchSpace(
        {"deep": UNIT, "kind": KIND, "n": Dimension.integers(1, 4), "x": UNIT},
        {
            "n": Split("kind", (1 / 3, 2 / 3), (True, False, False, True)),
            "x": Split("kind", (1 / 3, 2 / 3), (False, True, False, True)),
            "deep": Split("n", (0.5,), (False, True, False)),
        },
    )


def test_activity_follows_the_parents() -> None:
    """Nested conditions are decided parents first, whatever the order of the columns."""
    space = model_space()
    X = space.snap(
        np.array([[0.9, 0.1, 0.9, 0.9], [0.9, 0.1, 0.1, 0.9], [0.9, 0.5, 0.9, 0.9], [0.9] * 4])
    )
    expected = [
        [True, True, True, False],
        [False, True, True, False],
        [False, True, False, True],
        [False, True, False, False],
    ]
    np.testing.assert_array_equal(space.active(X), expected)
    inactive = np.array([0.5, 0.5, 0.625, 0.5])
    np.testing.assert_array_equal(X[~space.active(X)], np.tile(inactive, (4, 1))[~space.active(X)])


def test_parameters_are_those_that_exist() -> None:
    """Decoding gives the active parameters, encoding takes them back."""
    space = model_space()
    for params in ({"kind": "a", "n": 4, "deep": 0.25}, {"kind": "b", "x": 0.75}, {"kind": "c"}):
        X = space.encode([params])
        assert space.decode(X[0]) == params
        np.testing.assert_array_equal(space.snap(X), X)


def test_a_parameter_without_a_condition_must_be_there() -> None:
    """Only what has a condition may be missing."""
    with pytest.raises(KeyError, match="kind"):
        model_space().encode([{"n": 1}])


def test_tree_over_two_parents() -> None:
    """A condition may look at several parameters."""
    inner = Split("size", (0.5,), (False, True, True))
    space = SearchSpace(
        {"share": UNIT, "size": UNIT, "use": Dimension.categorical([True, False])},
        {"share": Split("use", (0.5,), (inner, False, True))},
    )
    X = np.array([[0.1, 0.7, 0.25], [0.1, 0.3, 0.25], [0.1, 0.7, 0.75]])
    assert space.active(X)[:, 0].tolist() == [True, False, False]


def test_finite_space_lists_each_point_once() -> None:
    """Points that differ in an inactive parameter only are one."""
    space = SearchSpace(
        {"kind": KIND, "n": Dimension.integers(1, 4)},
        {"n": Split("kind", (1 / 3,), (True, False, True))},
    )
    points = [space.decode(x) for x in space.enumerate()]
    assert len(points) == 4 + 2
    assert [one for one in points if "n" not in one] == [{"kind": "b"}, {"kind": "c"}]


def test_spaces_with_other_conditions_differ() -> None:
    """Equality, pickling and holding a parameter keep the conditions."""
    space = model_space()
    assert pickle.loads(pickle.dumps(space)) == space  # noqa: S301
    plain = SearchSpace(dict(zip(space.names, space.dimensions, strict=True)))
    assert plain != space
    assert not plain.is_conditional
    assert space.held({"kind": "b"}).decode(np.full(4, 0.5)) == {"kind": "b", "x": 0.5}


@pytest.mark.parametrize(
    "conditions",
    [
        {"x": Split("nobody", (), (True, False))},
        {"nobody": True},
        {"x": Split("x", (), (True, False))},
        {"x": Split("kind", (), (True, False)), "kind": Split("x", (), (True, False))},
    ],
)
def test_impossible_conditions_are_refused(conditions: dict[str, Condition]) -> None:
    """A condition looks at other parameters of the space, without a circle."""
    with pytest.raises(ValueError, match="conditions must be trees over other parameters"):
        SearchSpace({"kind": KIND, "x": UNIT}, conditions)


@st.composite
def conditional_spaces(draw: DrawFn) -> SearchSpace:
    """Draw a space in which each parameter may depend on any before it."""
    names = [f"p{i}" for i in range(draw(st.integers(1, 6)))]
    steps = [
        Dimension.integers(1, 9),
        Dimension.floats(1.0, 9.0, step=2.0),
        Dimension.ordinal([1, 4, 9]),
    ]
    kinds = st.sampled_from([KIND, UNIT, *steps])
    conditions: dict[str, Condition] = {}

    def condition(before: list[str], depth: int) -> Condition:
        if not before or not depth or draw(st.booleans()):
            return draw(st.booleans())
        cuts = tuple(sorted(draw(st.sets(st.floats(0.01, 0.99), max_size=3))))
        cells = tuple(condition(before, depth - 1) for _ in range(len(cuts) + 2))
        return Split(draw(st.sampled_from(before)), cuts, cells)

    for place, name in enumerate(names):
        found = condition(names[:place], 2)
        if isinstance(found, Split):
            conditions[name] = found
    order = draw(st.permutations(names))
    return SearchSpace({name: draw(kinds) for name in order}, conditions)


@given(conditional_spaces(), st.integers(0, 2**32 - 1))
def test_any_point_becomes_one_that_exists(space: SearchSpace, seed: int) -> None:
    """Snapping is idempotent; decoding a snapped point and encoding it again changes nothing."""
    X = space.snap(np.random.default_rng(seed).random((8, len(space))))
    np.testing.assert_array_equal(space.snap(X), X)
    active = space.active(X)
    for row, exists in zip(X, active, strict=True):
        params = space.decode(row)
        assert set(params) == {space.names[column] for column in np.flatnonzero(exists)}
        known = {name: params[name] for name in space.names if name in params}
        missing = [n for n in space.names if n not in known and n not in space.conditions]
        assert not missing
        np.testing.assert_allclose(space.encode([known])[0], row, atol=1e-12)
