"""The search in a trust region: maxima, what is inside, levels, points not to be repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.acquisition.maximize import TrustRegion, clearance_of, maximize_in_region
from bbo_plugins.space import CLOSE, Dimension, SearchSpace
from tests.oracles.problems import mixed_space, unit_box
from tests.oracles.search import Hill

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


def _search(
    space: SearchSpace,
    top: FloatArray,
    region: TrustRegion,
    *,
    excluded: FloatArray | None = None,
    pending: FloatArray | None = None,
    clearance: FloatArray | float = CLOSE,
    seed: int = 0,
) -> FloatArray:
    nothing = np.empty((0, len(space)))
    x = maximize_in_region(
        Hill(top),
        space,
        region,
        rng=np.random.default_rng(seed),
        excluded=nothing if excluded is None else excluded,
        pending=nothing if pending is None else pending,
        clearance=clearance,
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
    x = _search(unit_box(d), top, TrustRegion(center, 0.3))
    np.testing.assert_allclose(x, top, atol=1e-3)


def test_levels_inside_the_region_are_searched() -> None:
    """In a mixed space the best representable point of the box is found, categories free."""
    space = mixed_space()
    center = space.snap(np.full((1, len(space)), 0.45))[0]
    target = space.snap(np.clip(center + 0.1, 0.0, 1.0)[None, :])[0]
    target[space.names.index("choice")] = 5.0 / 6.0
    x = _search(space, target, TrustRegion(center, 0.3))
    np.testing.assert_allclose(x, target, atol=1e-2)


def test_neighboring_levels_are_inside_the_smallest_region() -> None:
    """However short the region, the next level of a dimension is in reach, the one after not."""
    space = SearchSpace({"a": Dimension.int(0, 9), "b": Dimension.int(0, 9)})
    center = space.encode([{"a": 4, "b": 4}])[0]
    top = space.encode([{"a": 9, "b": 0}])[0]
    x = _search(space, top, TrustRegion(center, 0.01))
    assert space.decode(x) == {"a": 5, "b": 3}


def test_known_points_are_not_repeated() -> None:
    """An excluded optimum is not returned again; nothing near a pending point is."""
    space = SearchSpace({"a": Dimension.int(0, 9), "b": Dimension.int(0, 9)})
    top = space.encode([{"a": 4, "b": 4}])[0]
    region = TrustRegion(top, 0.8)
    assert not np.array_equal(_search(space, top, region, excluded=top[None, :]), top)
    box, center = unit_box(3), np.full(3, 0.5)
    x = _search(box, center, TrustRegion(center, 0.8), pending=center[None, :])
    assert np.linalg.norm(x - center) >= CLOSE


def test_what_is_near_a_pending_point_follows_from_the_evaluated_ones() -> None:
    """Half of the distance to the next evaluated point is kept from it, if that is less."""
    box, center = unit_box(3), np.full((1, 3), 0.5)
    evaluated = np.array([[0.5, 0.5, 0.54], [0.1, 0.5, 0.5]])
    near = clearance_of(center, evaluated, box)
    np.testing.assert_allclose(near, [0.02])
    np.testing.assert_array_equal(clearance_of(center, evaluated[1:], box), [CLOSE])
    np.testing.assert_array_equal(clearance_of(center, evaluated[:0], box), [CLOSE])
    x = _search(box, center[0], TrustRegion(center[0], 0.2), pending=center, clearance=near)
    assert 0.02 <= np.linalg.norm(x - center) < CLOSE
