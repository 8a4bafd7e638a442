"""Values that are far worse than the others suggest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.gp.fit import fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods import outliers
from bbo_plugins.methods.outliers import outliers_of
from bbo_plugins.space import Dimension, SearchSpace, Split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.gp.fit import Fit, WarmStart
    from bbo_plugins.space.dimension import FloatArray

SPACE = SearchSpace({name: Dimension.floats(0.0, 1.0) for name in "ab"})
FEATURES = FeatureMap.of(SPACE, trend=True)
N = 40
BRANCHED = SearchSpace(
    {
        "a": Dimension.floats(0.0, 1.0),
        "b": Dimension.floats(0.0, 1.0),
        "c": Dimension.categorical(["p", "q"]),
    },
    {"b": Split("c", (0.5,), (False, True, False))},
)


def _bowl(seed: int, noise: float) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    X = rng.random((N, 2))
    y = -np.square(X - 0.4).sum(axis=1) + noise * rng.standard_normal(N)
    return X, y


def _found(X: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
    return outliers_of(SPACE, X, y[:, None])


def test_values_that_went_wrong_are_found() -> None:
    """Nine in ten, and hardly any other; they are no worse than the worst of the others."""
    n_found = n_others = 0
    for seed in range(10):
        X, y = _bowl(seed, noise=0.01)
        wrong = np.argsort(-y)[[0, 3, 6, 9]]
        y[wrong] = np.quantile(y, [0.0, 0.05, 0.1, 0.15])
        found = _found(X, y)
        n_found += int(found[wrong].sum())
        n_others += int(found.sum() - found[wrong].sum())
    assert n_found >= 36
    assert n_others <= 4


def test_most_values_are_kept() -> None:
    """Where half of them are far off, they are not exceptions."""
    X, y = _bowl(0, noise=0.01)
    y[::2] -= 1.0 + np.random.default_rng(1).random(N // 2)
    assert _found(X, y).sum() <= 0.3 * N


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_smooth_values_and_noise_have_none(seed: int, noise: float) -> None:
    """Noise has a spread that the model knows."""
    assert not _found(*_bowl(seed, noise)).any()


def test_what_is_better_than_expected_is_kept() -> None:
    """A search is after these."""
    X, y = _bowl(0, noise=0.01)
    y[np.argsort(y)[:4]] += 1.0
    found = _found(X, y)
    assert not found[np.argsort(-y)[:4]].any()


@pytest.mark.parametrize("seed", range(4))
def test_a_region_that_is_bad_is_none(seed: int) -> None:
    """Neighbors that agree say something of their place; a few at its wall may not."""
    X, y = _bowl(seed, noise=0.01)
    is_bad = X[:, 0] > 0.7
    y[is_bad] -= 0.5
    assert _found(X, y).sum() <= 0.3 * is_bad.sum()


def test_of_several_objectives_each_is_looked_at() -> None:
    """What is bad by one of them may be good by another, and neither goes wrong."""
    X, y = _bowl(0, noise=0.01)
    wrong = np.argsort(-y)[[0, 3]]
    Y = np.column_stack([y, -np.square(X - 0.8).sum(axis=1)])
    assert not outliers_of(SPACE, X, Y).any()
    Y[wrong, [0, 1]] = -1.0
    assert np.flatnonzero(outliers_of(SPACE, X, Y)).tolist() == sorted(wrong.tolist())


def test_a_search_starts_from_an_earlier_fit_of_its_objective(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And finds the same from there where it is clear what went wrong."""
    X, y = _bowl(0, noise=0.01)
    Y = np.column_stack([y, -np.square(X - 0.8).sum(axis=1)])
    earlier = [
        fit_map(X[:-4], OutputTransform.fit(one).forward(one)[:-4], FEATURES).warm_start
        for one in Y.T
    ]
    wrong = np.argsort(-y)[[0, 3]]
    Y[wrong, [0, 1]] = -1.0
    expected = outliers_of(SPACE, X, Y)
    starts: list[int] = []

    def watched(*data: Any, warm_start: WarmStart | None) -> Fit:
        starts.append(id(warm_start))
        return fit_map(*data, warm_start=warm_start)

    monkeypatch.setattr(outliers, "fit_map", watched)
    np.testing.assert_array_equal(outliers_of(SPACE, X, Y, warm_starts=earlier), expected)
    assert [start for start in starts if start in map(id, earlier)] == list(map(id, earlier))
    starts.clear()
    outliers_of(SPACE, X, Y, warm_starts=earlier[:1])
    assert starts[0] == id(earlier[0])
    assert starts.count(id(None)) == 1


def test_what_no_other_point_dominates_is_kept() -> None:
    """A trade-off's best value of one objective may be far worse than usual in the other."""
    X, y = _bowl(3, noise=0.0)
    other = X[:, 0] + X[:, 1]
    wrong = int(np.argsort(-y)[4])
    y[wrong] = -1.0
    assert np.flatnonzero(outliers_of(SPACE, X, np.column_stack([y, other]))).tolist() == [wrong]
    other[wrong] = other.max() + 0.01
    assert not outliers_of(SPACE, X, np.column_stack([y, other])).any()


def test_of_several_objectives_most_points_are_kept() -> None:
    """Also where none of them has too many outliers, but they are at different points."""
    X, y = _bowl(0, noise=0.01)
    Y = np.column_stack([y, -np.square(X - 0.5).sum(axis=1), -np.square(X - 0.3).sum(axis=1)])
    wrong = np.random.default_rng(1).permutation(N)[:22]
    Y[wrong, np.repeat([0, 1, 2], [9, 4, 9])] -= 2.0
    found = outliers_of(SPACE, X, Y)
    assert found[wrong[9:13]].all()
    assert 4 < found.sum() <= 0.3 * N


def test_in_a_branch_that_is_worse_only_its_own_values_go_wrong() -> None:
    """The coordinate b exists in half of the space, where all values are worse."""
    X = BRANCHED.with_inactive_set(BRANCHED.snap(np.random.default_rng(0).random((N, 3))))
    y = -np.square(X[:, 0] - 0.4) - BRANCHED.active(X)[:, 1] * (1.0 + np.square(X[:, 1] - 0.6))
    assert not outliers_of(BRANCHED, X, y[:, None]).any()
    wrong = np.argsort(-y)[[0, N - 5]]
    y[wrong] -= 1.0
    assert np.flatnonzero(outliers_of(BRANCHED, X, y[:, None])).tolist() == sorted(wrong.tolist())


def _young_branch(n: int) -> tuple[FloatArray, FloatArray]:
    """Return points of which the first ``n`` alone have the coordinate b, and values as usual."""
    X = np.random.default_rng(0).random((N, 3))
    X[:, 2] = np.where(np.arange(N) < n, 0.75, 0.25)
    X = BRANCHED.with_inactive_set(X)
    return X, -np.square(X[:, 0] - 0.4)


@pytest.mark.parametrize("size", [1.0, 10.0, 1000.0])
def test_the_first_values_of_a_branch_are_none(size: float) -> None:
    """It may be far worse until it is tuned; then it is known what is usual there."""
    for n in (1, 2, 3):
        X, y = _young_branch(n)
        y[n - 1] -= size
        assert not outliers_of(BRANCHED, X, y[:, None]).any()
    for n in (1, 2, 3, 4, 5):
        X, y = _young_branch(n)
        y[:n] -= size * 0.5 ** np.arange(n)
        assert not outliers_of(BRANCHED, X, y[:, None]).any()
    X, y = _young_branch(6)
    y[2] -= size
    found = np.flatnonzero(outliers_of(BRANCHED, X, y[:, None])).tolist()
    assert found == ([2] if size > 1.0 else [])


@pytest.mark.parametrize(
    "y",
    [
        np.zeros(N),
        np.full(N, 1e308),
        np.where(np.arange(N) % 2, 1e300, -1e300),
        np.where(np.arange(N) == 7, -1e308, 0.0),
    ],
)
def test_odd_values_raise_nothing(y: FloatArray) -> None:
    """Whatever is found, most values are kept."""
    X, _ = _bowl(2, noise=0.0)
    assert _found(X, y).sum() <= 0.3 * N
