"""When a parameter exists: conditions on the coordinates of other parameters.

A define-by-run objective asks for some parameters only where others have certain values: a model's
own parameters, the width of a layer that there is. A condition is a small decision tree. Each
:class:`Split` looks at one other parameter, the parent, which may have a condition itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bbo_plugins.space.dimension import FloatArray, IntArray


@dataclass(frozen=True)
class Split:
    """A node of the tree: which condition holds depends on the cell that the parent lies in.

    Attributes:
        parent: Name of the parameter that is looked at.
        cuts: Its coordinates at which the cells end, increasing, shape (c,). A point on a cut is in
            the upper cell.
        cells: The condition in each of the c + 1 cells, and last the one for an inactive parent.
    """

    parent: str
    cuts: tuple[float, ...]
    cells: tuple[Condition, ...]

    @cached_property
    def is_flat(self) -> bool:
        """Whether no cell has a split of its own."""
        return all(isinstance(cell, bool) for cell in self.cells)

    @cached_property
    def _cut_array(self) -> FloatArray:
        return np.array(self.cuts, dtype=np.float64)

    def parents(self) -> Iterator[str]:
        """Yield the names of all parameters that the tree looks at."""
        yield self.parent
        for cell in self.cells:
            if isinstance(cell, Split):
                yield from cell.parents()

    def cell_of(self, u: FloatArray, active: NDArray[np.bool_]) -> IntArray:
        """Return the cells (m,) for the parent's coordinates and activity, both (m,)."""
        cells = self._cut_array.searchsorted(u, side="right")
        return np.where(active, cells, len(self.cuts) + 1)


Condition: TypeAlias = bool | Split
