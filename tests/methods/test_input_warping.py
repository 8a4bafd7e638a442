"""Which parameters are seen stretched at one end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.methods.input_warping import warps_of
from bbo_plugins.space import Dimension, SearchSpace, Split
from tests.oracles.problems import observe, random_points, unit_box

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


def _decades(u: FloatArray) -> FloatArray:
    """Return a log distance that changes by as much near 1e-4 as between 0.1 and 1."""
    distances: FloatArray = np.abs(np.log10(1e-4 + u) + 2.0)
    return distances


def _points(n: int, d: int, seed: int) -> FloatArray:
    """Return points of which half gather at the low end of the first coordinate."""
    X = np.random.default_rng(seed).random((n, d))
    X[::2, 0] = 10.0 ** (-4.0 * X[::2, 0])
    return X


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_high", [False, True])
def test_the_end_where_all_happens_is_stretched(seed: int, is_high: bool) -> None:
    """And no other parameter is, whichever end it is."""
    X = _points(30, 3, seed)
    y = -_decades(X[:, 0]) - np.square(X[:, 1] - 0.4)
    X = np.column_stack([1.0 - X[:, 0], X[:, 1:]]) if is_high else X
    warps = warps_of(unit_box(3), [observe(X, y)])
    (name,) = warps
    assert name == unit_box(3).names[0]
    assert (warps[name] < 0.0) == is_high


@pytest.mark.parametrize("kind", ["quadratic", "waves", "noise"])
def test_what_needs_no_warp_has_none(kind: str) -> None:
    """Ten functions that change everywhere alike; one may look otherwise by chance."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 6))
        X, rotation = rng.random((30, d)), np.linalg.qr(rng.standard_normal((d, d)))[0]
        q = np.square((X - rng.uniform(0.3, 0.7, d)) @ rotation) @ rng.uniform(1.0, 9.0, d)
        waves = np.sin(4.0 * X @ rotation).sum(axis=1)
        noise = rng.standard_normal(30)
        y = {"quadratic": -q, "waves": waves - q, "noise": noise}[kind]
        found.append(warps_of(unit_box(d), [observe(X, y)]))
    assert sum(map(bool, found)) <= 1


def test_only_numbers_with_many_values_that_no_condition_looks_at_are_stretched() -> None:
    """A few levels can be told apart as they are; a condition's threshold is a coordinate."""
    dimensions = {
        "few": Dimension.integers(1, 16),
        "many": Dimension.integers(1, 10_000),
        "parent": Dimension.floats(0.0, 1.0),
        "child": Dimension.floats(0.0, 1.0),
    }
    space = SearchSpace(dimensions, {"child": Split("parent", (0.5,), (True, True))})
    plain = np.repeat(_points(40, 1, 0), 4, axis=1)
    for column, name in enumerate(space.names):
        X = space.snap(random_points(space, 40, np.random.default_rng(column)))
        X[:, column] = space.dimensions[column].snap(plain[:, column])
        warps = warps_of(space, [observe(X, -_decades(X[:, column]))])
        assert list(warps) == ([name] if name in {"many", "child"} else []), name


def test_a_parameter_keeps_its_place_where_it_does_not_exist() -> None:
    """The middle of its range stands for that, before and after."""
    space = SearchSpace(
        {"kind": Dimension.categorical(["a", "b"]), "x": Dimension.floats(0.0, 1.0)},
        {"x": Split("kind", (0.5,), (True, False))},
    )
    x = _points(40, 1, 0)[:, 0]
    rows = [{"kind": "a", "x": one} if i % 2 else {"kind": "b"} for i, one in enumerate(x.tolist())]
    rows += [{"kind": "a", "x": one} for one in x[::2].tolist()]
    X = space.encode(rows)
    is_a = space.active(X)[:, space.names.index("x")]
    y = np.where(is_a, -_decades(X[:, space.names.index("x")]), -1.0)
    warps = warps_of(space, [observe(X, y)])
    assert list(warps) == ["x"]
    moved = space.warped(warps).stretched(X)
    assert (moved[~is_a, space.names.index("x")] == 0.5).all()
    assert (moved[is_a, space.names.index("x")] > X[is_a, space.names.index("x")]).all()


def test_constraints_and_all_objectives_count() -> None:
    """What matters to one of the models only, is enough if it matters to that much."""
    X = _points(30, 2, 0)
    plain, decades = -np.square(X[:, 1] - 0.4), _decades(X[:, 0])
    box = unit_box(2)
    name = box.names[0]
    reported = np.where(np.arange(30) == 3, np.nan, decades - 1.0)
    assert warps_of(box, [observe(X, plain)]) == {}
    assert list(warps_of(box, [observe(X, plain, constraints=reported[:, None])])) == [name]
    assert list(warps_of(box, [observe(X, plain), observe(X, -decades)])) == [name]


def test_fewer_than_twelve_values_decide_nothing() -> None:
    """Points that teach constraints only have none, however many there are."""
    X = _points(30, 1, 0)
    known = observe(X, -_decades(X[:, 0]))
    assert warps_of(unit_box(1), [known])
    assert warps_of(unit_box(1), [replace(known, has_value=np.arange(30) < 11)]) == {}


def test_small_gains_of_many_constraints_make_no_warp() -> None:
    """Sixteen quadratics that need none do not add up to one."""
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.random((16, 4))
        centers, weights = rng.random((17, 4)), rng.uniform(1.0, 9.0, (17, 4))
        q = (np.square(X[:, None] - centers) * weights).sum(axis=2)
        found.append(warps_of(unit_box(4), [observe(X, -q[:, 0], constraints=q[:, 1:] - 1.0)]))
    assert sum(map(bool, found)) <= 1


@pytest.mark.parametrize("value", [0.0, 1e300, -1e-300])
def test_equal_values_say_nothing(value: float) -> None:
    """Neither does a single one."""
    X = _points(12, 2, 0)
    assert warps_of(unit_box(2), [observe(X, np.full(12, value))]) == {}
    assert warps_of(unit_box(2), [observe(X[:1], [value])]) == {}
    assert warps_of(unit_box(2), [observe(X[:0], [])]) == {}
