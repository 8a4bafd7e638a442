"""Search dimensions and their encoding in the unit cube.

A :class:`Dimension` says which values one parameter may take; a :class:`SearchSpace` is an ordered
set of named dimensions. Everything below the front doors works on points of the unit cube; this
module is the only one that knows what the coordinates mean.

====================  ============================================================================
kind                  coordinate u of a value v
====================  ============================================================================
float                 ``(v - low) / (high - low)``
float, log            ``(log v - log low) / (log high - log low)``
float, step / int     ``(k + 1/2) / n`` for level k of n, ``v = low + k * step``
int, log              ``(log v - log(low - 1/2)) / (log(high + 1/2) - log(low - 1/2))``
ordinal, categorical  ``(k + 1/2) / n`` for choice k of n
single value          ``1/2``
====================  ============================================================================

A dimension with a warp has the coordinate that :func:`~bbo_plugins.space.dimension.stretch` makes
of this one.

The half-step padding gives each level of a discrete dimension a cell of the same width (on a log
scale: of its natural width), so that a uniform u is a uniform level. Values outside the range are
clipped.

``decode(encode(v)) == v`` holds for every value of a discrete dimension and for the bounds of every
dimension; other values of a continuous dimension come back within a few units in the last place
*of the coordinate*. More than 2**44 levels count as continuous, though decoded values still lie on
the grid, and on a log scale points are snapped to integers below 2**36; integers beyond 2**53 are
told apart as far as floats are. Level k of a stepped float is the float nearest to the decimal
number ``low + k * step``: 0.3, not 0.1 * 3.

Shapes: X (n, d) points, x (d,) one point, u any shape (coordinates of one dimension).
"""

from bbo_plugins.space.conditions import Condition, Split
from bbo_plugins.space.dimension import Dimension
from bbo_plugins.space.search_space import SearchSpace

__all__ = ["Condition", "Dimension", "SearchSpace", "Split"]
