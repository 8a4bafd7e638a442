"""Named dimensions together: points of the unit cube (see :mod:`bbo_plugins.space`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins import errors
from bbo_plugins.space.conditions import Condition, Split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from bbo_plugins.space.dimension import Dimension, FloatArray, IntArray

_LARGEST_LISTING = 10**6  # points of a finite space: what memory and time allow
_N_AVERAGED = 256
_N_UNSEEN_DRAWS = 1024  # random points tried first when a point not seen yet is needed
_MAX_LISTED = 200_000  # finite spaces up to this size are listed to find a point not seen yet
_MATCH_DECIMALS = 10  # coordinates that agree to this many digits are the same point


class SearchSpace:
    """An ordered set of named dimensions: a box of points x (d,) in the unit cube.

    A parameter with a condition exists at some points only. Where it does not, it is *inactive*:
    its coordinate is the middle of the range, so that two points do not differ in it.

    Instances never change; two are equal if names, order, dimensions and conditions are.

    Args:
        dimensions: Name of each parameter to its dimension; the order is kept.
        conditions: Where a parameter is active, of those that a trial may lack. True stands for one
            of which it is not known where: it counts as active everywhere.

    Attributes:
        names: Names of the parameters, in the order of the columns.
        dimensions: Their dimensions, in the same order.
        conditions: Their conditions by name.
        inactive_at: (d,) coordinates where they are inactive; without conditions shape (0,).
        n_categories: (d,) number of choices of each categorical dimension, 0 for another one.
        is_continuous: (d,) whether the dimension has no levels.
        size: Number of distinct points, with conditions an upper bound; None if a dimension is
            continuous.

    Raises:
        ValueError: A condition is of a parameter that there is not, looks at one, or at itself.
    """

    def __init__(
        self,
        dimensions: Mapping[str, Dimension],
        conditions: Mapping[str, Condition] = MappingProxyType({}),
    ) -> None:
        """Keep the dimensions, put conditions in order."""
        self.names: tuple[str, ...] = tuple(dimensions)
        self.dimensions: tuple[Dimension, ...] = tuple(dimensions.values())
        self.n_categories: IntArray = _read_only(
            [len(one.choices) if one.is_categorical else 0 for one in self.dimensions], np.int64
        )
        self.is_continuous: NDArray[np.bool_] = _read_only(
            [dimension.is_continuous for dimension in self.dimensions], np.bool_
        )
        self._is_snapped: NDArray[np.bool_] = ~self.is_continuous | np.array(
            [dimension.has_wide_cells for dimension in self.dimensions], dtype=np.bool_
        )
        levels = [dimension.n_levels for dimension in self.dimensions]
        self.size: int | None = math.prod(n or 0 for n in levels) if None not in levels else None
        self.conditions: Mapping[str, Condition] = dict(conditions)
        self._depth = _depths(self.names, self.conditions)
        self._steps = _steps(self.names, self.conditions, self._depth)
        middle = [float(one.snap(0.5)) for one in self.dimensions] if conditions else []
        self.inactive_at: FloatArray = _read_only(middle, np.float64)

    def __len__(self) -> int:
        """Return the number of dimensions d."""
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        """Return whether names, order, dimensions and conditions are the same."""
        if not isinstance(other, SearchSpace):
            return NotImplemented
        return (
            self.names == other.names
            and self.dimensions == other.dimensions
            and self.conditions == other.conditions
        )

    def __hash__(self) -> int:
        """Hash by the names, which is enough to be consistent with equality."""
        return hash(self.names)

    def __repr__(self) -> str:
        """Show the mappings this space was made from."""
        shown = repr(dict(zip(self.names, self.dimensions, strict=True)))
        if self.conditions:
            shown += f", {dict(self.conditions)!r}"
        return f"SearchSpace({shown})"

    @property
    def is_conditional(self) -> bool:
        """Whether a parameter is missing at some points."""
        return bool(self.conditions)

    def held(self, params: Mapping[str, Any]) -> SearchSpace:
        """Return this space with the given parameters held where they are (see Dimension.held).

        Raises:
            KeyError: There is no parameter of this name.
            ValueError: A value has no coordinate.
        """
        dimensions = dict(zip(self.names, self.dimensions, strict=True))
        for name, value in params.items():
            dimensions[name] = dimensions[name].held(value)
        return SearchSpace(dimensions, self.conditions)

    def warped(self, warps: Mapping[str, float]) -> SearchSpace:
        """Return this space with input warping of some parameters.

        Args:
            warps: :attr:`Dimension.warp` by name; of no effect on a parameter that may not have
                one (:attr:`may_warp`).
        """
        dimensions = dict(zip(self.names, self.dimensions, strict=True))
        for name, may in zip(self.names, self.may_warp.tolist(), strict=True):
            if may and name in warps:
                dimensions[name] = dimensions[name].warped(warps[name])
        return SearchSpace(dimensions, self.conditions)

    @property
    def warps(self) -> dict[str, float]:
        """The warps of the parameters that have one."""
        axes = zip(self.names, self.dimensions, strict=True)
        return {name: dimension.warp for name, dimension in axes if dimension.warp}

    @property
    def may_warp(self) -> NDArray[np.bool_]:
        """Which are not categorical, and no condition's threshold looks at them, shape (d,)."""
        numeric: NDArray[np.bool_] = self.n_categories == 0
        numeric[self.parents] = False
        return numeric

    def stretched(self, X: FloatArray) -> FloatArray:
        """Return points X (n, d) of this space without its warps as points of this one."""
        moved = X.copy()
        for column, dimension in enumerate(self.dimensions):
            if dimension.warp:
                moved[:, column] = dimension.stretched(X[:, column])
        return self.with_inactive_set(moved)

    def encode(self, params: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Return the points X (n, d) of n sets of parameters; names beyond the space are ignored.

        A parameter with a condition may be missing: it is inactive.

        Raises:
            KeyError: A parameter without a condition is missing.
            ValueError: A value has no coordinate (see :meth:`Dimension.encode`).
        """
        points = np.empty((len(params), len(self)))
        if self.conditions:
            points[:] = self.inactive_at
        for column, (name, dimension) in enumerate(zip(self.names, self.dimensions, strict=True)):
            if name in self.conditions:
                known = [index for index, row in enumerate(params) if name in row]
                if known:
                    values = [params[index][name] for index in known]
                    points[known, column] = dimension.encode(values)
            else:
                points[:, column] = dimension.encode([row[name] for row in params])
        return points

    def decode(self, x: ArrayLike) -> dict[str, Any]:
        """Return the active parameters at point x (d,) as Python values, never numpy scalars."""
        point = np.asarray(x, dtype=np.float64)
        active = self.active(point[None, :])[0].tolist() if self.conditions else [True] * len(self)
        columns = zip(self.names, self.dimensions, point.tolist(), active, strict=True)
        return {name: dimension.decode(u) for name, dimension, u, exists in columns if exists}

    def active(self, X: FloatArray) -> NDArray[np.bool_]:
        """Return which parameters exist at points X (m, d), shape (m, d)."""
        active = np.ones(X.shape, dtype=np.bool_)
        for step in self._steps:
            active[:, step.columns] = step.holds(X, active)
        return active

    @property
    def parents(self) -> IntArray:
        """Columns of the parameters that conditions look at, before those of their children."""
        splits = (one for one in self.conditions.values() if isinstance(one, Split))
        columns = {self.names.index(name) for one in splits for name in one.parents()}
        return np.array(sorted(columns, key=lambda c: (self._depth[self.names[c]], c)), np.int64)

    @cached_property
    def mean_n_active(self) -> float:
        """Number of active parameters, averaged over random points."""
        points = np.random.default_rng(0).random((_N_AVERAGED, len(self)))
        return float(self.active(self.snap(points)).sum(axis=1).mean())

    def with_inactive_set(self, X: FloatArray) -> FloatArray:
        """Return the points X (m, d) with inactive coordinates where they belong, shape (m, d)."""
        return np.where(self.active(X), X, self.inactive_at) if self.conditions else X

    def snap(self, X: ArrayLike) -> FloatArray:
        """Return for each row of X (n, d) the nearest point that has parameters, (n, d)."""
        points = np.clip(np.asarray(X, dtype=np.float64), 0.0, 1.0)
        for column in np.flatnonzero(self._is_snapped).tolist():
            points[:, column] = self.dimensions[column].snap(points[:, column])
        return self.with_inactive_set(points)

    def distances(self, X: FloatArray, Y: FloatArray, *, periodic: bool = False) -> FloatArray:
        """Return distances (n, m) of points X (n, d), Y (m, d); two categories are 1 apart.

        Periodic ones take the two ends of a numeric parameter's range for one place.
        """
        squares = np.zeros((len(X), len(Y)))  # no array of n x m x d numbers
        for x, y, n_categories in zip(X.T, Y.T, self.n_categories.tolist(), strict=True):
            gaps = np.abs(x[:, None] - y)
            if periodic and not n_categories:
                gaps = np.minimum(gaps, 1.0 - gaps)
            squares += gaps != 0.0 if n_categories else np.square(gaps, out=gaps)
        return np.sqrt(squares)

    def has_at_most(self, n: int) -> bool:
        """Return whether the space is finite and :attr:`size`, an upper bound, is at most n."""
        return self.size is not None and self.size <= n

    def keys_inside(self, X: FloatArray) -> set[bytes]:
        """Return the keys of those points X (m, d) that the space can represent as they are."""
        inside = (rounded(X) == rounded(self.snap(X))).all(axis=1)
        return set(keys_of(X[inside]))

    def unseen_point(self, taken: set[bytes], rng: np.random.Generator) -> FloatArray | None:
        """Return a random point (d,) with a key that is not ``taken``, None if there is none.

        None may also be returned in a large finite space of which nearly all is taken.
        """
        if self.size is not None and len(taken) >= self.size:
            return None
        drawn = self.snap(rng.random((_N_UNSEEN_DRAWS, len(self))))
        found = _first_unseen(drawn, taken)
        if found is None and self.has_at_most(_MAX_LISTED):
            points = self.enumerate()
            found = _first_unseen(points[rng.permutation(len(points))], taken)
        return found

    def enumerate(self) -> FloatArray:
        """Return every point of a finite space, (size, d), the last dimension varying fastest.

        Raises:
            ValueError: The space is infinite or has more than a million points.
        """
        if not self.has_at_most(_LARGEST_LISTING):
            rule = f"a space of at most {_LARGEST_LISTING} points to be enumerated"
            raise ValueError(errors.rule_message("space", rule, self.size))
        axes = [
            dimension.position_of(np.arange(dimension.n_levels or 0))
            for dimension in self.dimensions
        ]
        if not axes:
            return np.empty((1, 0))
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return np.unique(self.with_inactive_set(points), axis=0) if self.conditions else points


@dataclass(frozen=True)
class _FlatStep:
    """Columns whose conditions are single splits of the same cells, decided at once.

    Attributes:
        columns: Their indices, shape (k,).
        parent: Index of the parameter that they look at.
        split: One of the splits: where the cells are.
        table: Activity in each cell, last for an inactive parent, shape (c + 2, k).
    """

    columns: IntArray
    parent: int
    split: Split
    table: NDArray[np.bool_]

    @classmethod
    def of(cls, conditions: Mapping[str, Split], column_of: Mapping[str, int]) -> _FlatStep:
        """Return the step of these conditions."""
        splits = [*conditions.values()]
        table = np.array([split.cells for split in splits], dtype=np.bool_).T
        columns = _read_only([column_of[name] for name in conditions], np.int64)
        return cls(columns, column_of[splits[0].parent], splits[0], table)

    def holds(self, X: FloatArray, active: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the activity (m, k) at points X (m, d) whose parents' activity (m, d) is known."""
        cells = self.split.cell_of(X[:, self.parent], active[:, self.parent])
        holds: NDArray[np.bool_] = self.table[cells]
        return holds


@dataclass(frozen=True)
class _TreeStep:
    """Columns with the same tree as their condition.

    Attributes:
        columns: Their indices, shape (k,).
        condition: The tree.
        column_of: Index of each parameter by name.
    """

    columns: IntArray
    condition: Condition
    column_of: Mapping[str, int]

    def holds(self, X: FloatArray, active: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the activity (m, 1) at points X (m, d) whose parents' activity (m, d) is known."""
        return self._holds(self.condition, X, active)[:, None]

    def _holds(
        self, condition: Condition, X: FloatArray, active: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        if not isinstance(condition, Split):
            return np.full(len(X), condition)
        parent = self.column_of[condition.parent]
        cell = condition.cell_of(X[:, parent], active[:, parent])
        holds = np.empty(len(X), dtype=np.bool_)
        for index, inner in enumerate(condition.cells):
            rows = cell == index
            holds[rows] = self._holds(inner, X[rows], active[rows])
        return holds


def keys_of(X: FloatArray) -> Iterator[bytes]:
    """Return a key of each point of X (m, d); points that differ by rounding have the same."""
    return (row.tobytes() for row in rounded(X))


def rounded(X: FloatArray) -> FloatArray:
    """Return points X (m, d) without rounding errors."""
    return np.round(X, _MATCH_DECIMALS) + 0.0  # turns -0.0 into 0.0


def _first_unseen(X: FloatArray, taken: set[bytes]) -> FloatArray | None:
    return next((x for x, key in zip(X, keys_of(X), strict=True) if key not in taken), None)


def _depths(names: tuple[str, ...], conditions: Mapping[str, Condition]) -> dict[str, int]:
    """Return how many conditions follow one another up to each parameter."""
    depths: dict[str, int] = {}

    def depth_of(name: str, below: tuple[str, ...]) -> int:
        if name not in names or name in below:
            rule = "trees over other parameters of the space, without a circle"
            raise ValueError(errors.rule_message("conditions", rule, (*below, name)))
        condition = conditions.get(name, True)
        if name not in depths:
            parents = condition.parents() if isinstance(condition, Split) else ()
            depths[name] = max((1 + depth_of(one, (*below, name)) for one in parents), default=0)
        return depths[name]

    for name in (*names, *conditions) if conditions else ():
        depth_of(name, ())
    return depths


def _steps(
    names: tuple[str, ...], conditions: Mapping[str, Condition], depths: Mapping[str, int]
) -> list[_FlatStep | _TreeStep]:
    """Return how to decide what is active, parents before their children."""
    column_of = {name: column for column, name in enumerate(names)}
    flat: dict[tuple[int, str, tuple[float, ...]], dict[str, Split]] = {}
    trees: dict[tuple[int, str], list[int]] = {}
    for name in conditions:
        same = _exists_with(name, conditions)
        condition, depth = conditions[same], depths[same]
        if not isinstance(condition, Split):
            continue
        if condition.is_flat:
            flat.setdefault((depth, condition.parent, condition.cuts), {})[name] = condition
        else:
            trees.setdefault((depth, same), []).append(column_of[name])
    steps: list[tuple[int, _FlatStep | _TreeStep]] = [
        (depth, _FlatStep.of(together, column_of)) for (depth, _, _), together in flat.items()
    ]
    for (depth, name), columns in trees.items():
        tree = _TreeStep(_read_only(columns, np.int64), conditions[name], column_of)
        steps.append((depth, tree))
    return [step for _, step in sorted(steps, key=lambda one: one[0])]


def _exists_with(name: str, conditions: Mapping[str, Condition]) -> str:
    """Return the first parameter that this one exists together with, mostly itself."""
    condition = conditions[name]
    while isinstance(condition, Split) and not condition.cuts and condition.cells == (True, False):
        if condition.parent not in conditions:
            break
        name = condition.parent
        condition = conditions[name]
    return name


def _read_only(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
    array = np.asarray(values, dtype=dtype)
    array.flags.writeable = False
    return array
