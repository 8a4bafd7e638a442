"""Maximization over the mixed cube against many starts of L-BFGS-B and against brute force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.acquisition import maximize as module
from bbo_plugins.acquisition.functions import AcquisitionName, ConstrainedAcquisition
from bbo_plugins.acquisition.maximize import (
    CLOSE,
    Exclusions,
    TrustRegion,
    best_allowed,
    clearance_of,
    length_after,
    maximize,
    maximize_in_region,
)
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.space import Dimension, SearchSpace, Split
from tests.oracles.problems import mixed_space, random_process, unit_box
from tests.oracles.search import Hill, multi_start_maximum

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

FIRST = module._FIRST
SUCCESSES, FAILURES = module._N_SUCCESSES, module._N_FAILURES


def of_process(process: GaussianProcess, kind: AcquisitionName) -> ConstrainedAcquisition:
    """Return log EI over the best mean, or UCB, of a posterior."""
    incumbent = float(process.predict_mean(process.X).max())
    return ConstrainedAcquisition(kind, process, incumbent, 1.96)


def _exclusions(
    space: SearchSpace,
    known: FloatArray | None = None,
    avoided: FloatArray | None = None,
    clearance: FloatArray | float = CLOSE,
) -> Exclusions:
    nothing = np.empty((0, len(space)))
    avoided = nothing if avoided is None else avoided
    return Exclusions(
        known=nothing if known is None else known,
        avoided=avoided,
        clearance=np.broadcast_to(clearance, len(avoided)),
    )


def _search(
    acquisition: ConstrainedAcquisition | Hill | Separable | Counted,
    space: SearchSpace,
    *,
    seed: int = 0,
    excluded: FloatArray | None = None,
) -> tuple[FloatArray, float]:
    """Call :func:`maximize` as the methods do."""
    length_scales, anchors = np.full(len(space), 0.5), np.empty((0, len(space)))
    if isinstance(acquisition, ConstrainedAcquisition):
        process = acquisition.objective
        assert isinstance(process, GaussianProcess)
        length_scales = process.hyperparameters.length_scales
        anchors = process.X[np.argsort(-process.predict_mean(process.X))[:5]]
    x = maximize(
        acquisition,
        space,
        rng=np.random.default_rng(seed),
        length_scales=length_scales,
        anchors=anchors,
        exclusions=_exclusions(space, known=excluded),
    )
    return x, float(acquisition.value(x[None, :])[0])


def _assert_representable(x: FloatArray, space: SearchSpace) -> None:
    assert x.shape == (len(space),)
    assert np.array_equal(space.snap(x[None, :])[0], x)
    again = space.encode([space.decode(x)])[0]
    # Integers too many to be levels are rounded by decoding (see bbo_plugins.space).
    kept = [dim.n_levels is not None or dim.kind == "float" for dim in space.dimensions]
    np.testing.assert_allclose(again[kept], x[kept], atol=1e-12)


@pytest.mark.parametrize("kind, tolerance", [("ucb", 1e-2), ("logei", 5e-2)])
@pytest.mark.parametrize("d", [1, 2, 4, 6])
def test_continuous_search_reaches_the_optimum_of_many_starts(
    kind: AcquisitionName, tolerance: float, d: int
) -> None:
    """In at least 9 of 10 random processes, within 0.01 of UCB or 5% of EI.

    The reference is L-BFGS-B from the best 20 of 3,000 random points.
    """
    reached = 0
    for seed in range(10):
        process = random_process(unit_box(d), 10 + 5 * d, seed, length_scale=(0.15, 0.6))
        acquisition = of_process(process, kind)
        x, value = _search(acquisition, unit_box(d), seed=seed)
        assert value == pytest.approx(float(acquisition.value(x[None, :])[0]), abs=1e-6)
        _assert_representable(x, unit_box(d))
        screened = np.random.default_rng(seed).random((3000, d))
        starts = screened[np.argsort(-acquisition.value(screened))[:20]]

        def single(
            point: FloatArray, acquisition: ConstrainedAcquisition = acquisition
        ) -> tuple[float, FloatArray]:
            values, gradients = acquisition.value_and_gradient(point[None, :])
            return float(values[0]), gradients[0]

        best = multi_start_maximum(single, starts, [(0.0, 1.0)] * d)
        reached += value > best - tolerance
    assert reached >= 9


FINITE_SPACES = {
    "ints": SearchSpace({"a": Dimension.integers(0, 31), "b": Dimension.integers(1, 32, log=True)}),
    "categories": SearchSpace(
        {
            name: Dimension.categorical(range(count))
            for name, count in zip("abc", (5, 7, 11), strict=True)
        }
    ),
    "mixed": SearchSpace(
        {
            "a": Dimension.floats(0.0, 1.0, step=0.125),
            "b": Dimension.categorical("xyz"),
            "c": Dimension.integers(0, 20),
            "d": Dimension.integers(4, 4),
        }
    ),
    "one": SearchSpace({"a": Dimension.integers(3, 3), "b": Dimension.categorical(["x"])}),
}


@pytest.mark.parametrize("name", FINITE_SPACES)
@pytest.mark.parametrize("kind", ["logei", "ucb"])
def test_small_finite_spaces_are_searched_exactly(name: str, kind: AcquisitionName) -> None:
    """Up to 1,024 points the result is the best of them all, and of those that are left."""
    space = FINITE_SPACES[name]
    for seed in range(4):
        acquisition = of_process(random_process(space, 8, seed), kind)
        everything = space.enumerate()
        values = acquisition.value(everything)
        x, value = _search(acquisition, space, seed=seed)
        assert value == pytest.approx(values.max(), rel=1e-12)
        assert np.array_equal(x, everything[np.argmax(values)])
        order = np.argsort(-values)
        excluded = everything[order[: len(order) // 2]]
        x, value = _search(acquisition, space, seed=seed, excluded=excluded)
        assert value == pytest.approx(values[order[len(order) // 2]], rel=1e-12)


@dataclass(frozen=True)
class Separable:
    """A sum of one table per discrete dimension and one parabola per continuous one."""

    space: SearchSpace
    tables: list[FloatArray]
    centers: FloatArray

    def best(self) -> float:
        """Return the maximum, attained where every table has its own."""
        return sum(float(table.max()) for table in self.tables if len(table))

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values at ``X`` (m, d), shape (m,)."""
        return self.value_and_gradient(X)[0]

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d)."""
        values, gradients = np.zeros(len(X)), np.zeros(X.shape)
        for i, (dimension, table) in enumerate(
            zip(self.space.dimensions, self.tables, strict=True)
        ):
            if len(table):
                values += table[dimension.level_of(X[:, i])]
            else:
                values -= np.square(X[:, i] - self.centers[i])
                gradients[:, i] = -2.0 * (X[:, i] - self.centers[i])
        return values, gradients


@pytest.mark.parametrize("seed", range(5))
def test_many_discrete_dimensions_are_searched_one_by_one(seed: int) -> None:
    """Six dimensions of 5 to 16 unrelated levels beside two floats: no candidate is near the best.

    There are 11 million combinations, of which a search coordinate by coordinate finds the best.
    """
    space = SearchSpace(
        {
            "a": Dimension.categorical("pqrst"),
            "b": Dimension.floats(0.0, 1.0),
            "c": Dimension.integers(1, 16),
            "d": Dimension.categorical(range(12)),
            "e": Dimension.floats(0.0, 1.0, step=0.125),
            "f": Dimension.integers(1, 16, log=True),
            "g": Dimension.floats(0.0, 1.0),
            "h": Dimension.categorical(range(10)),
        }
    )
    rng = np.random.default_rng(seed)
    tables = [rng.random(dimension.n_levels or 0) for dimension in space.dimensions]
    acquisition = Separable(space, tables, rng.random(len(space)))
    x, value = _search(acquisition, space, seed=seed)
    _assert_representable(x, space)
    assert value == pytest.approx(acquisition.best(), abs=1e-3)


@dataclass
class Counted:
    """A hill that is higher by rounding in larger batches, and counts what it is asked for."""

    hill: Hill
    unit: float
    n_evaluations: int = 0

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values at ``X`` (m, d), shape (m,)."""
        return self.value_and_gradient(X)[0]

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d)."""
        self.n_evaluations += len(X)
        values, gradients = self.hill.value_and_gradient(X)
        return values + self.unit * len(X), gradients


@pytest.mark.parametrize("inside_region", [False, True])
def test_rounding_that_differs_between_batches_is_no_improvement(*, inside_region: bool) -> None:
    """A search of levels ends where none is better, not where the same one seems to be."""
    space = SearchSpace(
        {
            "x": Dimension.floats(0.0, 1.0),
            "k": Dimension.integers(0, 7),
            "c": Dimension.categorical("abc"),
            "z": Dimension.integers(0, 3),
        },
        {"z": Split("c", (1.0 / 3.0,), (True, False, False))},
    )
    top = space.snap(np.array([[0.3, 0.4, 0.9, 0.5]]))[0]
    counts = []
    for unit in (0.0, 1e-15):
        counted = Counted(Hill(top), unit)
        if inside_region:
            _search_in_region(space, counted, TrustRegion(top, 0.8))
        else:
            _search(counted, space)
        counts.append(counted.n_evaluations)
    assert counts[0] == counts[1]


DIMENSIONS = st.one_of(
    st.just(Dimension.floats(-2.0, 5.0)),
    st.just(Dimension.floats(1e-8, 1e3, log=True)),
    st.just(Dimension.floats(0.0, 1.0, step=0.1)),
    st.just(Dimension.floats(1.5, 1.5)),
    st.integers(0, 3000).map(lambda high: Dimension.integers(0, high)),
    st.integers(1, 3000).map(lambda high: Dimension.integers(1, high, log=True)),
    st.just(Dimension.integers(-(2**60), 2**60)),
    st.just(Dimension.integers(1, 2**50, log=True)),
    st.integers(1, 100).map(lambda n: Dimension.categorical(range(n))),
)


@given(dimensions=st.lists(DIMENSIONS, min_size=1, max_size=5), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_any_space_can_be_searched(dimensions: list[Dimension], seed: int) -> None:
    """Whatever the dimensions: representable, better than random, repeatable, never excluded."""
    space = SearchSpace({f"x{i}": dimension for i, dimension in enumerate(dimensions)})
    target = space.snap(np.random.default_rng(seed).random((1, len(space))))
    acquisition = Hill(target[0])
    x, value = _search(acquisition, space, seed=seed % 1000)
    _assert_representable(x, space)
    again, _ = _search(acquisition, space, seed=seed % 1000)
    assert np.array_equal(x, again)
    random = space.snap(np.random.default_rng(seed + 1).random((500, len(space))))
    assert value >= acquisition.value(random).max() - 1e-4
    other, _ = _search(acquisition, space, seed=seed % 1000, excluded=x[None, :])
    assert np.array_equal(other, x) == (space.size == 1)


@pytest.mark.parametrize("n_levels", [(4, 5), (40, 40)])
def test_excluded_points_return_only_when_the_space_is_exhausted(n_levels: tuple[int, int]) -> None:
    """Below and above the size that is enumerated: every other point first, then a repeat."""
    space = SearchSpace(
        {"a": Dimension.integers(1, n_levels[0]), "b": Dimension.integers(1, n_levels[1])}
    )
    everything = space.enumerate()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(everything))
    target = everything[order[0]]
    for n_left in (2, 1):
        excluded = everything[order[: len(order) - n_left]]
        x, _ = _search(Hill(target), space, excluded=excluded)
        left = everything[order[len(order) - n_left :]]
        assert x.tolist() in left.tolist()
    x, value = _search(Hill(target), space, excluded=everything)
    assert np.array_equal(x, target)
    assert value == 0.0


def test_anchors_help_where_the_optimum_is_narrow() -> None:
    """A narrow peak beside an anchor in ten dimensions, which no space-filling point would hit."""
    d = 10

    class Peak:
        def value(self, X: FloatArray) -> FloatArray:
            return self.value_and_gradient(X)[0]

        def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
            gaps = (X - 0.37) / 0.01
            values = np.exp(-0.5 * np.square(gaps).sum(axis=1))
            return values, -values[:, None] * gaps / 0.01

    anchor = np.full((1, d), 0.37) + 0.01 * np.random.default_rng(0).standard_normal((1, d))
    found = [
        Peak().value(
            maximize(
                Peak(),
                unit_box(d),
                rng=np.random.default_rng(1),
                length_scales=np.full(d, 0.1),
                anchors=anchors,
            )[None, :]
        )[0]
        for anchors in (np.empty((0, d)), anchor)
    ]
    assert found[1] > 0.99
    assert found[0] < found[1]


@dataclass(frozen=True)
class Wells:
    """Σ_i of a function of each coordinate, with peaks at 0.2 and, the higher one, at ``top``."""

    top: FloatArray
    sharpness: float = 200.0  # of the higher ones

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values (m,)."""
        return self.value_and_gradient(X)[0]

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the values (m,) and their gradients (m, d)."""
        near, sharp = np.exp(-200.0 * (X - 0.2) ** 2), self.sharpness
        far = 2.0 * np.exp(-sharp * (X - self.top) ** 2)
        slopes = -2.0 * (200.0 * (X - 0.2) * near + sharp * (X - self.top) * far)
        return (near + far).sum(axis=1), slopes


def _search_in_region(
    space: SearchSpace,
    target: FloatArray | Wells | Counted,
    region: TrustRegion,
    *,
    across: bool = False,
    excluded: FloatArray | None = None,
    avoided: FloatArray | None = None,
    clearance: FloatArray | float = CLOSE,
) -> FloatArray:
    x = maximize_in_region(
        Hill(target) if isinstance(target, np.ndarray) else target,
        space,
        region,
        rng=np.random.default_rng(0),
        exclusions=_exclusions(space, excluded, avoided, clearance),
        across=across,
    )
    assert x.shape == (len(space),)
    np.testing.assert_array_equal(space.snap(x[None, :])[0], x)
    return x


@pytest.mark.parametrize("d", [1, 5, 40])
def test_maximum_inside_the_region_is_found(d: int) -> None:
    """A hill whose top is inside is climbed to the top."""
    rng = np.random.default_rng(0)
    center = rng.uniform(0.3, 0.7, d)
    top = center + rng.uniform(-0.1, 0.1, d)
    x = _search_in_region(unit_box(d), top, TrustRegion(center, 0.3))
    np.testing.assert_allclose(x, top, atol=1e-3)


def test_levels_inside_the_region_are_searched() -> None:
    """In a mixed space the best representable point of the box is found, categories free."""
    space = mixed_space()
    center = space.snap(np.full((1, len(space)), 0.45))[0]
    target = space.snap(np.clip(center + 0.1, 0.0, 1.0)[None, :])[0]
    target[space.names.index("choice")] = 5.0 / 6.0
    x = _search_in_region(space, target, TrustRegion(center, 0.3))
    np.testing.assert_allclose(x, target, atol=1e-2)


def test_neighboring_levels_are_inside_the_smallest_region() -> None:
    """However short the region, the next level of a dimension is in reach, the one after not."""
    space = SearchSpace({"a": Dimension.integers(0, 9), "b": Dimension.integers(0, 9)})
    center = space.encode([{"a": 4, "b": 4}])[0]
    top = space.encode([{"a": 9, "b": 0}])[0]
    x = _search_in_region(space, top, TrustRegion(center, 0.01))
    assert space.decode(x) == {"a": 5, "b": 3}


def test_known_points_are_not_repeated() -> None:
    """An excluded optimum is not returned again; nothing near a point to avoid is."""
    space = SearchSpace({"a": Dimension.integers(0, 9), "b": Dimension.integers(0, 9)})
    top = space.encode([{"a": 4, "b": 4}])[0]
    region = TrustRegion(top, 0.8)
    assert not np.array_equal(_search_in_region(space, top, region, excluded=top[None, :]), top)
    box, center = unit_box(3), np.full(3, 0.5)
    x = _search_in_region(box, center, TrustRegion(center, 0.8), avoided=center[None, :])
    assert np.linalg.norm(x - center) >= CLOSE


def test_what_is_near_a_point_to_avoid_follows_from_the_evaluated_ones() -> None:
    """Half or a tenth of the distance to the nearest one is kept from it, 0.05 at most."""
    box, center = unit_box(3), np.full((1, 3), 0.5)
    evaluated = np.array([[0.5, 0.5, 0.54], [0.1, 0.5, 0.5]])
    near = clearance_of(center, evaluated, box, noisy=True)
    np.testing.assert_allclose(near, [0.02])
    np.testing.assert_allclose(clearance_of(center, evaluated, box, noisy=False), [0.004])
    np.testing.assert_allclose(clearance_of(center, evaluated[1:], box, noisy=False), [0.04])
    np.testing.assert_array_equal(clearance_of(center, evaluated[1:], box, noisy=True), [CLOSE])
    np.testing.assert_array_equal(clearance_of(center, evaluated[:0], box, noisy=True), [CLOSE])
    x = _search_in_region(
        box, center[0], TrustRegion(center[0], 0.2), avoided=center, clearance=near
    )
    assert 0.02 <= np.linalg.norm(x - center) < CLOSE


@pytest.mark.parametrize("value, expected", [(-np.inf, 0.5), (-1.0, 0.9)])
def test_a_point_without_a_finite_value_is_not_preferred_to_one_near_others(
    value: float, expected: float
) -> None:
    """It may be anywhere; what is near a running trial is known to be good."""
    space, points = unit_box(1), np.array([[0.5], [0.9]])
    exclusions = _exclusions(space, avoided=np.array([[0.51]]))
    values, rng = np.array([1.0, value]), np.random.default_rng(0)
    assert best_allowed(points, values, exclusions, space, rng) == [expected]


def test_a_region_reaches_into_another_branch_from_the_best_known_there() -> None:
    """The center has the best point's coordinates where they exist at it."""
    unit = Dimension.floats(0.0, 1.0)
    space = SearchSpace(
        {"kind": Dimension.categorical(["a", "b"]), "x": unit, "y": unit},
        {"x": Split("kind", (0.5,), (True, False)), "y": Split("kind", (0.5,), (False, True))},
    )
    rows = [("a", 0.2, 1.0), ("a", 0.6, 3.0), ("b", 0.1, 0.0), ("b", 0.9, 2.0)]
    points = space.encode([{"kind": kind, "x" if kind == "a" else "y": at} for kind, at, _ in rows])
    worth = np.array([value for *_, value in rows])
    region = TrustRegion.around_best(space, points, worth, 0.1)
    np.testing.assert_allclose(region.center, [points[1, 0], 0.6, 0.9])
    for target, column in ([0.0, 0.62, 0.5], 1), ([1.0, 0.5, 0.93], 2):
        x = _search_in_region(space, np.array(target), region)
        assert space.active(x[None, :])[0, 1:].tolist() == [column == 1, column == 2]
        assert x[column] == pytest.approx(target[column], abs=1e-3)


@pytest.mark.parametrize("across", [False, True])
def test_a_search_across_the_space_leaves_the_region_by_one_coordinate_after_another(
    across: bool,
) -> None:
    """Each of three coordinates is moved to its higher peak; without it none is."""
    top, region = np.array([0.7, 0.9, 0.5]), TrustRegion(np.full(3, 0.22), 0.1)
    x = _search_in_region(unit_box(3), Wells(top), region, across=across)
    np.testing.assert_allclose(x, top if across else np.full(3, 0.2), atol=1e-3)


def test_a_search_across_the_space_stays_where_no_coordinate_is_better() -> None:
    """The top of a hill inside the region: the same point as without it."""
    top, region = np.array([0.3, 0.35, 0.25, 0.3]), TrustRegion(np.full(4, 0.3), 0.2)
    within, across = (_search_in_region(unit_box(4), top, region, across=a) for a in (False, True))
    np.testing.assert_array_equal(across, within)
    np.testing.assert_allclose(within, top, atol=1e-3)


def test_a_search_across_the_space_keeps_what_it_had_if_the_better_point_is_excluded() -> None:
    """Around the excluded one are worse points than in the region."""
    space = SearchSpace({"a": Dimension.integers(0, 10)})
    center, top = space.encode([{"a": 2}, {"a": 8}])
    wells, region = Wells(top, sharpness=1e5), TrustRegion(center, 0.1)
    assert wells.value(center[None]) < wells.value(top[None])
    np.testing.assert_array_equal(_search_in_region(space, wells, region, across=True), top)
    kept = _search_in_region(space, wells, region, across=True, excluded=top[None])
    within = _search_in_region(space, wells, region, excluded=top[None])
    np.testing.assert_array_equal(kept, within)


def test_a_search_across_the_space_does_not_end_near_a_point_to_avoid() -> None:
    """All of the small box around the better place is too close to a running trial."""
    top, region = np.array([0.9, 0.2, 0.2]), TrustRegion(np.full(3, 0.22), 0.02)
    wells, running = Wells(top), top[None]
    x = _search_in_region(unit_box(3), wells, region, across=True)
    kept = _search_in_region(
        unit_box(3), wells, region, across=True, avoided=running, clearance=0.1
    )
    assert np.linalg.norm(x - top) < 0.1 < np.linalg.norm(kept - top)
    np.testing.assert_allclose(kept, np.full(3, 0.22), atol=0.011)


def test_a_search_across_a_mixed_space_reaches_far_levels() -> None:
    """Levels and categories are on the lines too; an excluded point is not returned."""
    space = SearchSpace({"a": Dimension.integers(0, 9), "b": Dimension.categorical("xyz")})
    center, top = space.encode([{"a": 1, "b": "x"}, {"a": 8, "b": "z"}])
    region = TrustRegion(center, 0.01)
    np.testing.assert_array_equal(_search_in_region(space, top, region, across=True), top)
    other = _search_in_region(space, top, region, across=True, excluded=top[None])
    assert space.decode(other)["a"] in {7, 9}


# --------------------------------------------------------------------- the trust region's length


def test_successes_lengthen_it_and_failures_shorten_it() -> None:
    """Enough of either in a row, after the start-up; another one in between counts anew."""
    better = np.concatenate([np.zeros(5), np.arange(1.0, 30.0)])
    assert length_after(better, len(better)) == FIRST
    assert length_after(better[: 5 + SUCCESSES - 1], 5) == FIRST
    assert length_after(better[: 5 + SUCCESSES], 5) == 2.0 * FIRST
    assert length_after(better, 5) == module._LONGEST
    worse = np.concatenate([[1.0, 0.0], np.zeros(FAILURES)])
    assert length_after(worse[:-1], 2) == FIRST
    assert length_after(worse, 2) == 0.5 * FIRST
    worse[-2] = 5.0
    assert length_after(worse, 2) == FIRST


def test_running_trials_excuse_failures() -> None:
    """Failures of trials that ran at the same time count as one."""
    y = np.concatenate([[1.0, 0.0], np.zeros(4 * FAILURES)])
    beside = np.full(len(y), 3)
    assert length_after(y[:-1], 2, beside[:-1]) == FIRST
    assert length_after(y, 2, beside) == 0.5 * FIRST


@given(
    st.lists(st.floats(-100.0, 100.0), min_size=1, max_size=40),
    st.integers(1, 10),
    st.sampled_from([0.25, 1.0, 1024.0]),
)
def test_units_do_not_matter(values: list[float], n_startup: int, scale: float) -> None:
    """The length lies between its limits and does not change with the objective's scale."""
    y = np.round(np.array(values), 3)
    length = length_after(y, n_startup)
    assert module._SHORTEST <= length <= module._LONGEST
    assert length_after(scale * y, n_startup) == pytest.approx(length)
