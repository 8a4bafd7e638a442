"""Dimensions and search spaces: what is encoded comes back, and odd ranges do no harm."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.space import Dimension, SearchSpace
from bbo_plugins.space.search_space import keys_of

FLOATS = st.floats(-1e300, 1e300)
UNIT = st.floats(0.0, 1.0)
CHOICES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just((64, 32))
)


@st.composite
def continuous_floats(draw: st.DrawFn) -> Dimension:
    """Linear and log ranges, wide and narrow, single-valued ones included."""
    low, high = sorted((draw(FLOATS), draw(FLOATS)))
    if draw(st.booleans()):
        low = 10.0 ** draw(st.floats(-200.0, 200.0))
        return Dimension.floats(low, low * 10.0 ** draw(st.floats(0.0, 100.0)), log=True)
    return Dimension.floats(low, high)


@st.composite
def stepped_floats(draw: st.DrawFn) -> Dimension:
    """Decimal grids whose step need not divide the range."""
    scale = 10.0 ** draw(st.integers(-12, 12))
    low = draw(st.integers(-(10**6), 10**6)) * scale
    step = draw(st.integers(1, 10**4)) * scale
    return Dimension.floats(low, low + draw(st.floats(0.0, 1e5)) * step, step=step)


@st.composite
def integers(draw: st.DrawFn) -> Dimension:
    """Integer ranges within ±2**53, with steps; log ones as well."""
    if draw(st.booleans()):
        low = draw(st.integers(1, 2**44))
        return Dimension.integers(low, draw(st.integers(low, 2**44)), log=True)
    n_steps, step = draw(st.integers(0, 2**42)), draw(st.integers(1, 1000))
    low = draw(st.integers(-(2**52), 2**52))
    return Dimension.integers(low, low + n_steps * step, step=step)


@st.composite
def dense_integers(draw: st.DrawFn) -> Dimension:
    """Integers with more levels than coordinates can tell apart."""
    log = draw(st.booleans())
    low = draw(st.integers(1, 10**6) if log else st.integers(-(2**62), 0))
    return Dimension.integers(low, draw(st.integers(2**45, 2**62)), log=log)


CATEGORICAL = st.lists(CHOICES, min_size=1, max_size=8).map(Dimension.categorical)
ORDINAL = st.sets(st.integers() | FLOATS, min_size=1, max_size=8).map(Dimension.ordinal)
DISCRETE = st.one_of(stepped_floats(), integers(), ORDINAL, CATEGORICAL)
ANY = st.one_of(continuous_floats(), dense_integers(), DISCRETE)


def same(value: Any, other: Any) -> bool:
    """Return whether two values are equal and of the same type; NaN equals NaN."""
    if isinstance(value, float) and isinstance(other, float) and math.isnan(value):
        return math.isnan(other)
    return type(value) is type(other) and value == other


@given(DISCRETE, st.data())
def test_every_level_comes_back(dimension: Dimension, data: st.DataObject) -> None:
    """A level decodes to a value whose coordinate is the level's position again."""
    assert dimension.n_levels is not None
    level = data.draw(st.integers(0, dimension.n_levels - 1))
    u = dimension.position_of([level])
    assert dimension.level_of(u).tolist() == [level]
    value = dimension.decode(u[0])
    again = dimension.decode(dimension.encode([value])[0])
    assert same(again, value)
    if not dimension.is_categorical:  # equal choices, such as 'a' twice, share the first's level
        np.testing.assert_array_equal(dimension.encode([value]), u)


@given(ANY)
def test_bounds_come_back(dimension: Dimension) -> None:
    """The smallest and the largest value survive the round trip, exactly and with their type."""
    ends: tuple[Any, ...] = (dimension.low, dimension.high)
    if dimension.has_choices:
        ends = (dimension.choices[0], dimension.choices[-1])
    for value in ends:
        assert same(dimension.decode(dimension.encode([value])[0]), value)


@given(continuous_floats(), UNIT)
def test_continuous_values_come_back(dimension: Dimension, u: float) -> None:
    """Within the range, a value's coordinate decodes to a value with nearly the same coordinate."""
    value = dimension.decode(u)
    assert dimension.low <= value <= dimension.high
    there = dimension.encode([value])
    back = dimension.encode([dimension.decode(there[0])])
    # A few units in the last place, or the spacing of the values themselves if that is coarser.
    spacing = np.abs(np.diff(dimension.encode([math.nextafter(value, -math.inf), value])))
    assert abs(back - there) <= 2e-15 + 2.0 * spacing
    tolerance = 4e-16 * max(abs(dimension.low), abs(dimension.high))
    if not dimension.log:
        assert abs(dimension.decode(there[0]) - value) <= tolerance + math.ulp(0.0)


@given(ANY, UNIT)
def test_decoded_values_are_inside_and_plain(dimension: Dimension, u: float) -> None:
    """Whatever is decoded lies in the range, on the grid, and is a plain Python value."""
    value: Any = dimension.decode(float(u))
    if dimension.has_choices:
        assert any(value is choice for choice in dimension.choices)
        return
    assert type(value).__name__ == dimension.kind
    assert dimension.low <= value <= dimension.high
    if dimension.kind == "int":
        assert (value - dimension.low) % (dimension.step or 1) == 0


@given(ANY, st.lists(UNIT, min_size=1, max_size=20))
def test_snap_is_idempotent_and_agrees_with_decode(dimension: Dimension, u: list[float]) -> None:
    """Snapping twice is snapping once, and it leads where decode leads."""
    snapped = dimension.snap(u)
    assert ((snapped >= 0.0) & (snapped <= 1.0)).all()
    np.testing.assert_array_equal(dimension.snap(snapped), snapped)
    for before, after in zip(u, snapped, strict=True):
        assert same(dimension.decode(after), dimension.decode(before))


@pytest.mark.parametrize("warp", [0.0, 50.0, -50.0])
def test_a_small_integer_has_one_place_among_many(warp: float) -> None:
    """Also where there are too many for levels: a wide cell of a log scale is one known point."""
    dimension = Dimension.integers(1, 10**14, log=True).warped(warp)
    space = SearchSpace({"n": dimension, "x": Dimension.floats(0.0, 1.0)})
    u = np.linspace(0.0, 0.2, 4001)
    snapped = space.snap(np.column_stack([u, np.full(len(u), 0.5)]))
    values = [dimension.decode(float(one)) for one in u]
    assert len(set(values)) < len(u), "some values are those of several points"
    assert len(set(keys_of(snapped))) == len(set(values))
    np.testing.assert_array_equal(snapped[:, 0], dimension.encode(values))


@given(
    st.one_of(continuous_floats(), dense_integers(), stepped_floats(), integers(), ORDINAL),
    st.data(),
)
def test_encoding_is_monotone(dimension: Dimension, data: st.DataObject) -> None:
    """A larger value never has a smaller coordinate, and the reverse."""
    first, second = sorted(data.draw(st.tuples(UNIT, UNIT)))
    low, high = dimension.decode(first), dimension.decode(second)
    # The logarithm and its inverse are monotone only up to rounding.
    slack = 1e-12 * abs(high) if dimension.log and dimension.kind == "float" else 0
    slack = 2**10 if dimension.log and dimension.n_levels is None and not slack else slack
    assert low <= high + slack
    coordinates = dimension.encode([min(low, high), max(low, high)])
    assert coordinates[0] <= coordinates[1] + 1e-15


def _has_room(dimension: Dimension) -> bool:
    n = dimension.n_levels
    if dimension.has_choices or (n is not None and not 16 < n <= 2**32):
        return False
    return bool(dimension.high - dimension.low > 1e-3 * max(abs(dimension.low), dimension.high))


@given(
    ANY.filter(_has_room),
    st.sampled_from([30.0, -30.0, 1e3, -1e3, 3e4, -3e4]),
    st.lists(UNIT, min_size=1, max_size=20),
)
def test_a_warp_moves_coordinates_but_no_value(
    dimension: Dimension, w: float, u: list[float]
) -> None:
    """What a point stands for is the same in both coordinates, and so is the order."""
    warped = dimension.warped(w)
    values = [dimension.decode(one) for one in np.sort(u)]
    plain = dimension.encode(values)
    moved = warped.stretched(plain)
    assert (np.diff(moved) >= 0.0).all()
    if dimension.n_levels is None:
        np.testing.assert_allclose(warped.encode(values), moved, atol=1e-9)
        again = dimension.encode([warped.decode(one) for one in moved])
        np.testing.assert_allclose(again, plain, atol=1e-11)
        assert warped.stretched(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    else:
        assert all(
            same(warped.decode(one), value) for one, value in zip(moved, values, strict=True)
        )
        np.testing.assert_array_equal(warped.encode(values), moved)
        np.testing.assert_array_equal(warped.snap(moved), moved)


def test_a_warp_is_a_logarithm_from_one_end() -> None:
    """By hand; the high end is the mirror image of the low one, and points follow by name."""
    box = SearchSpace({name: Dimension.floats(-1.0, 1.0) for name in "abc"})
    warped = box.warped({"a": 30.0, "c": -30.0})
    moved = warped.stretched(np.array([[0.5, 0.5, 0.5], [0.1, 0.1, 0.9]]))
    near, middle = math.log(4.0) / math.log(31.0), math.log(16.0) / math.log(31.0)
    np.testing.assert_allclose(moved, [[middle, 0.5, 1.0 - middle], [near, 0.1, 1.0 - near]])
    assert warped.decode(moved[0]) == pytest.approx({"a": 0.0, "b": 0.0, "c": 0.0}, abs=1e-12)
    np.testing.assert_allclose(warped.encode([{"a": 0.0, "b": 0.0, "c": 0.0}]), moved[:1])


@pytest.mark.parametrize(
    "dimension",
    [
        Dimension.floats(3.0, 3.0),
        Dimension.floats(3.0, 3.0, log=True),
        Dimension.floats(0.0, 0.3, step=1.0),
        Dimension.integers(7, 7),
        Dimension.integers(7, 7, log=True),
        Dimension.integers(7, 9, step=5),
        Dimension.categorical(["only"]),
    ],
)
def test_single_value_sits_in_the_middle(dimension: Dimension) -> None:
    """A dimension with one value has one level, at 0.5, wherever it is asked."""
    assert dimension.n_levels == 1
    value = dimension.decode(0.0)
    assert same(dimension.decode(1.0), value)
    assert dimension.encode([value]).tolist() == [0.5]
    assert dimension.snap([0.0, 1.0]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "dimension, n_levels, high",
    [
        (Dimension.floats(0.0, 0.3, step=0.1), 4, 0.3),
        (Dimension.floats(0.0, 1.0, step=0.3), 4, 0.9),
        (Dimension.floats(-10.2, 10.2, step=0.1), 205, 10.2),
        (Dimension.floats(0.0018700000000000001, 0.0019, step=1e-05), 4, 0.0019),
        (Dimension.integers(0, 10, step=4), 3, 8),
        (Dimension.integers(1, 100, log=True), 100, 100),
        (Dimension.integers(0, 2**44 - 1), 2**44, 2**44 - 1),
        (Dimension.integers(-(2**62), 2**62), None, 2**62),
        (Dimension.floats(0.0, 1.0), None, 1.0),
    ],
)
def test_levels_are_counted(dimension: Dimension, n_levels: int | None, high: float) -> None:
    """Counting is exact decimal arithmetic; high is lowered to a level; too many are no levels."""
    assert dimension.n_levels == n_levels
    assert dimension.is_continuous is (n_levels is None)
    assert dimension.high == high


def test_stepped_floats_are_decimal() -> None:
    """Values are what a user would write, not sums of rounded steps."""
    dimension = Dimension.floats(0.0, 1.0, step=0.1)
    values = [dimension.decode(u) for u in dimension.position_of(np.arange(11))]
    assert values == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    # What other samplers computed by addition falls on the same level.
    assert dimension.encode([3 * 0.1]) == dimension.encode([0.3])


@pytest.mark.parametrize(
    "dimension, value",
    [
        (Dimension.integers(2**53 + 1, 2**53 + 3), 2**53 + 3),
        (Dimension.floats(1e5, 1e5 + 1e-10, step=1e-15), 1e5 + 1e-10),
    ],
)
def test_steps_that_floats_cannot_tell_stay_inside(dimension: Dimension, value: float) -> None:
    """Between neighboring floats there are more such steps than the range has."""
    assert 0.0 <= float(dimension.encode([value])[0]) <= 1.0


def test_choices_are_told_apart_by_type() -> None:
    """1, 1.0 and True are three choices; every NaN is one; None is a choice like any other."""
    choices = [None, True, 1, 1.0, math.nan, "1", (64, 32)]
    dimension = Dimension.categorical(choices)
    decoded = [dimension.decode(u) for u in dimension.encode(choices)]
    assert all(same(a, b) for a, b in zip(decoded, choices, strict=True))
    assert dimension.level_of(dimension.encode([float("nan"), np.float64("nan")])).tolist() == [
        4,
        4,
    ]
    # A value of another type is found where it is equal to a choice.
    assert Dimension.categorical([1, 2]).encode([np.int64(2), 2.0]).tolist() == [0.75, 0.75]


@pytest.mark.parametrize(
    "arguments, keywords, message",
    [
        (("0", 1.0), {}, "low must be a finite number, but got '0'."),
        ((0.0, math.nan), {}, "high must be a finite number, but got nan."),
        ((0.0, math.inf), {}, "high must be a finite number, but got inf."),
        ((2.0, 1.0), {}, "low must be at most high (1.0), but got 2.0."),
        ((0.0, 1.0), {"log": True}, "low must be positive on a log scale, but got 0.0."),
        (
            (1e-310, 1.0),
            {"log": True},
            "high must be so near to low (1e-310) that the range does not overflow, but got 1.0.",
        ),
        ((0.0, 1.0), {"step": -0.1}, "step must be a positive number, but got -0.1."),
        (
            (1.0, 2.0),
            {"log": True, "step": 0.5},
            "step must be left out on a log scale, but got 0.5.",
        ),
    ],
)
def test_bad_float_ranges_are_refused(
    arguments: tuple[Any, Any], keywords: dict[str, Any], message: str
) -> None:
    """The error says which argument breaks which rule with which value."""
    with pytest.raises((TypeError, ValueError)) as caught:
        Dimension.floats(*arguments, **keywords)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "arguments, keywords, argument",
    [
        ((0.5, 1), {}, "low"),
        ((0, True), {}, "high"),
        ((0, 10**400), {}, "high"),
        ((3, 2), {}, "low"),
        ((0, 5), {"log": True}, "low"),
        ((1, 5), {"log": True, "step": 2}, "step"),
        ((0, 5), {"step": 0}, "step"),
    ],
)
def test_bad_int_ranges_are_refused(
    arguments: tuple[Any, Any], keywords: dict[str, Any], argument: str
) -> None:
    """The error begins with the argument at fault."""
    with pytest.raises((TypeError, ValueError), match=f"^{argument} must be .*, but got "):
        Dimension.integers(*arguments, **keywords)


def test_bad_values_are_refused() -> None:
    """NaN, words and unknown choices have no coordinate; no choices make no dimension."""
    with pytest.raises(ValueError, match="without NaN"):
        Dimension.floats(0.0, 1.0).encode([0.5, math.nan])
    with pytest.raises(ValueError, match="could not convert"):
        Dimension.integers(0, 5).encode(["many"])
    with pytest.raises(ValueError, match=r"one of \('a', 'b'\), but got 'c'"):
        Dimension.categorical("ab").encode(["c"])
    with pytest.raises(ValueError, match="choices must be non-empty"):
        Dimension.categorical([])
    with pytest.raises(ValueError, match="discrete"):
        Dimension.floats(0.0, 1.0).level_of(0.5)
    with pytest.raises(ValueError, match="discrete"):
        Dimension.floats(0.0, 1.0).position_of(0)


# ------------------------------------------------------------------------------------ SearchSpace


SPACES = st.lists(ANY, min_size=1, max_size=6).map(
    lambda dimensions: SearchSpace({f"p{i}": dimension for i, dimension in enumerate(dimensions)})
)
MIXED = SearchSpace(
    {
        "lr": Dimension.floats(1e-5, 1e-1, log=True),
        "momentum": Dimension.floats(0.0, 1.0, step=0.25),
        "layers": Dimension.integers(1, 4),
        "units": Dimension.integers(16, 256, log=True),
        "kernel": Dimension.categorical(["a", None, True]),
    }
)
FINITE = SearchSpace({"a": Dimension.integers(0, 2), "b": Dimension.categorical("xy")})


@given(SPACES, st.data())
def test_space_agrees_with_its_dimensions(space: SearchSpace, data: st.DataObject) -> None:
    """Whole points are snapped, encoded and decoded like their coordinates one by one."""
    row = st.lists(UNIT, min_size=len(space), max_size=len(space))
    X = np.array(data.draw(st.lists(row, min_size=1, max_size=5)))
    snapped = space.snap(X)
    for column, dimension in enumerate(space.dimensions):
        np.testing.assert_array_equal(snapped[:, column], dimension.snap(X[:, column]))
    params = [space.decode(x) for x in snapped]
    encoded = space.encode(params)
    assert encoded.shape == X.shape
    for x, decoded, back in zip(X, params, encoded, strict=True):
        assert tuple(decoded) == space.names
        for name, u, dimension in zip(space.names, x, space.dimensions, strict=True):
            assert same(decoded[name], dimension.decode(u))
        assert np.isfinite(back).all()


def test_space_is_a_value() -> None:
    """Equal spaces are equal and hash alike; copies and pickles are equal and work."""
    twin = SearchSpace(dict(zip(MIXED.names, MIXED.dimensions, strict=True)))
    assert twin == MIXED
    assert hash(twin) == hash(MIXED)
    assert twin != FINITE
    assert MIXED != "a space"
    params = {"lr": 1e-3, "momentum": 0.5, "layers": 2, "units": 32, "kernel": None}
    for other in (copy.deepcopy(MIXED), pickle.loads(pickle.dumps(MIXED))):  # noqa: S301 - ours
        assert other == MIXED
        np.testing.assert_array_equal(other.encode([params]), MIXED.encode([params]))
    with_nan = pickle.loads(pickle.dumps(Dimension.categorical([1.0, math.nan])))  # noqa: S301 - ours
    assert with_nan.encode([math.nan]).tolist() == [0.75]


@given(SPACES, st.data())
def test_held_parameters_stay(space: SearchSpace, data: st.DataObject) -> None:
    """A held parameter has one value to suggest; other values keep their coordinates."""
    name = data.draw(st.sampled_from(space.names))
    column = space.names.index(name)
    dimension = space.dimensions[column]
    value = dimension.decode(data.draw(UNIT))
    held = space.held({name: value})
    X = np.array(data.draw(st.lists(st.lists(UNIT, min_size=len(space), max_size=len(space)))))
    X = X.reshape(-1, len(space))
    snapped = held.snap(X)
    position = dimension.encode([value])[0]
    assert (snapped[:, column] == position).all()
    others = [i for i in range(len(space)) if i != column]
    np.testing.assert_array_equal(snapped[:, others], space.snap(X)[:, others])
    one = held.dimensions[column]
    assert one.n_levels == 1
    assert not held.is_continuous[column]
    assert one.level_of([0.0, 1.0]).tolist() == [0, 0]
    assert one.position_of([0]).tolist() == [position]
    assert same(one.decode(0.0), dimension.decode(position))
    params = [space.decode(x) for x in X]
    np.testing.assert_array_equal(held.encode(params), space.encode(params))


def test_holding_needs_a_parameter_and_a_value_of_it() -> None:
    """Unknown names and choices are refused."""
    with pytest.raises(KeyError, match="c"):
        FINITE.held({"c": 1})
    with pytest.raises(ValueError, match="one of"):
        FINITE.held({"b": "z"})
    assert FINITE.held({"b": "y"}).enumerate().tolist() == [
        [1 / 6, 0.75],
        [0.5, 0.75],
        [5 / 6, 0.75],
    ]


def test_enumerate_lists_every_point_once() -> None:
    """A finite space is listed completely, and the list decodes to all combinations."""
    points = FINITE.enumerate()
    assert points.shape == (6, 2)
    decoded = [tuple(FINITE.decode(x).values()) for x in points]
    assert decoded == list(itertools.product([0, 1, 2], "xy"))
    np.testing.assert_array_equal(FINITE.snap(points), points)


@pytest.mark.parametrize(
    "space", [MIXED, SearchSpace({str(i): Dimension.integers(0, 9) for i in range(7)})]
)
def test_enumerate_refuses_what_it_cannot_list(space: SearchSpace) -> None:
    """Infinite and huge spaces are refused instead of filling the memory."""
    with pytest.raises(ValueError, match="to be enumerated"):
        space.enumerate()


def test_distances_are_euclidean_with_categories_one_apart() -> None:
    """Against the formula, entry by entry; a category of another name is at distance 1."""
    space = SearchSpace(
        {"x": Dimension.floats(0.0, 1.0), "c": Dimension.categorical(("a", "b", "c"))}
    )
    X = space.encode([{"x": 0.1, "c": "a"}, {"x": 0.5, "c": "b"}])
    Y = space.encode([{"x": 0.4, "c": "a"}])
    np.testing.assert_allclose(space.distances(X, Y), [[0.3], [math.hypot(0.1, 1.0)]])
    assert space.distances(X, np.empty((0, 2))).shape == (2, 0)
    Y = space.encode([{"x": 0.95, "c": "a"}])
    periodic = space.distances(X, Y, periodic=True)
    np.testing.assert_allclose(periodic, [[0.15], [math.hypot(0.45, 1.0)]])
