"""Named dimensions together: points of the unit cube (see :mod:`bbo_plugins.space`)."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins import errors
from bbo_plugins.space.dimension import (
    Dimension,
    FloatArray,
    IntArray,
    grid_levels,
    grid_positions,
    log_levels,
    log_positions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

_MAX_ENUMERATED = 10**6
CLOSE = 0.05  # distance in the unit cube below which concurrent trials are too close together


class SearchSpace:
    """An ordered set of named dimensions: a box of points x (d,) in the unit cube.

    Instances never change; two are equal if names, order and dimensions are.

    Args:
        dimensions: Name of each parameter to its dimension; the order is kept.

    Attributes:
        names: Names of the parameters, in the order of the columns.
        dimensions: Their dimensions, in the same order.
        n_categories: (d,) number of choices of each dimension, 0 for a numeric one.
        is_continuous: (d,) whether the dimension has no levels.
        size: Number of distinct points; None if a dimension is continuous.
    """

    def __init__(self, dimensions: Mapping[str, Dimension]) -> None:
        """Keep the dimensions and group their columns by scale."""
        self.names: tuple[str, ...] = tuple(dimensions)
        self.dimensions: tuple[Dimension, ...] = tuple(dimensions.values())
        self.n_categories: IntArray = _read_only(
            [len(dimension.choices) for dimension in self.dimensions], np.int64
        )
        self.is_continuous: NDArray[np.bool_] = _read_only(
            [dimension.is_continuous for dimension in self.dimensions], np.bool_
        )
        levels = [dimension.n_levels for dimension in self.dimensions]
        self.size: int | None = math.prod(n or 0 for n in levels) if None not in levels else None
        held_at = [dimension.held_at for dimension in self.dimensions]
        self._held = _read_only([i for i, u in enumerate(held_at) if u is not None], np.int64)
        self._held_at = _read_only([u for u in held_at if u is not None], np.float64)
        # snap() works on all columns of one scale at a time.
        self._grid, self._grid_n, _, _ = self._columns("grid")
        self._log_grid, self._log_n, self._log_base, self._log_span = self._columns("log grid")

    def _columns(self, scale: str) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Return indices, level counts, bases and spans of the columns with this scale."""
        rows = [
            (column, dimension.n_levels, dimension._base, dimension._span)  # noqa: SLF001
            for column, dimension in enumerate(self.dimensions)
            if dimension._scale == scale and dimension.held_at is None  # noqa: SLF001
        ]
        index, n, base, span = zip(*rows, strict=True) if rows else ((), (), (), ())
        return (
            _read_only(index, np.int64),
            _read_only(n, np.float64),
            _read_only(base, np.float64),
            _read_only(span, np.float64),
        )

    def __len__(self) -> int:
        """Return the number of dimensions d."""
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        """Return whether names, order and dimensions are the same."""
        if not isinstance(other, SearchSpace):
            return NotImplemented
        return self.names == other.names and self.dimensions == other.dimensions

    def __hash__(self) -> int:
        """Hash by the names, which is enough to be consistent with equality."""
        return hash(self.names)

    def __repr__(self) -> str:
        """Show the mapping this space was made from."""
        return f"SearchSpace({dict(zip(self.names, self.dimensions, strict=True))!r})"

    def held(self, params: Mapping[str, Any]) -> SearchSpace:
        """Return this space with the given parameters held where they are (see Dimension.held).

        Raises:
            KeyError: There is no parameter of this name.
            ValueError: A value has no coordinate.
        """
        dimensions = dict(zip(self.names, self.dimensions, strict=True))
        for name, value in params.items():
            dimensions[name] = dimensions[name].held(value)
        return SearchSpace(dimensions)

    def encode(self, params: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Return the points X (n, d) of n sets of parameters; names beyond the space are ignored.

        Raises:
            KeyError: A parameter of the space is missing.
            ValueError: A value has no coordinate (see :meth:`Dimension.encode`).
        """
        points = np.empty((len(params), len(self)))
        for column, (name, dimension) in enumerate(zip(self.names, self.dimensions, strict=True)):
            points[:, column] = dimension.encode([row[name] for row in params])
        return points

    def decode(self, x: ArrayLike) -> dict[str, Any]:
        """Return the parameters at point x (d,) as Python values, never numpy scalars."""
        coordinates = np.asarray(x, dtype=np.float64).tolist()
        return {
            name: dimension.decode(u)
            for name, dimension, u in zip(self.names, self.dimensions, coordinates, strict=True)
        }

    def snap(self, X: ArrayLike) -> FloatArray:
        """Return for each row of X (n, d) the nearest point that has parameters, (n, d)."""
        points = np.clip(np.asarray(X, dtype=np.float64), 0.0, 1.0)
        if self._grid.size:
            n = self._grid_n
            points[:, self._grid] = grid_positions(grid_levels(points[:, self._grid], n), n)
        if self._log_grid.size:
            base, span = self._log_base, self._log_span
            levels = log_levels(points[:, self._log_grid], self._log_n, base, span)
            points[:, self._log_grid] = log_positions(levels, base, span)
        if self._held.size:
            points[:, self._held] = self._held_at
        return points

    def distances(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return distances (n, m) of points X (n, d), Y (m, d); two categories are 1 apart."""
        gaps = np.abs(X[:, None, :] - Y[None, :, :])
        categorical = self.n_categories > 0
        gaps[:, :, categorical] = gaps[:, :, categorical] > 0.0
        distances: FloatArray = np.sqrt(np.square(gaps).sum(axis=2))
        return distances

    def enumerate(self) -> FloatArray:
        """Return every point of a finite space, (size, d), the last dimension varying fastest.

        Raises:
            ValueError: The space is infinite or has more than a million points.
        """
        if self.size is None or self.size > _MAX_ENUMERATED:
            rule = f"a space of at most {_MAX_ENUMERATED} points to be enumerated"
            raise ValueError(errors.rule_message("space", rule, self.size))
        axes = [
            dimension.position_of(np.arange(dimension.n_levels or 0)).tolist()
            for dimension in self.dimensions
        ]
        rows = list(itertools.product(*axes))
        return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(self))


def _read_only(values: Sequence[Any], dtype: Any) -> NDArray[Any]:
    array = np.asarray(values, dtype=dtype)
    array.flags.writeable = False
    return array
