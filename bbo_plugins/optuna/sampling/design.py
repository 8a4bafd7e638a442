"""The space-filling design of the start-up, in which each trial takes the point of its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.acquisition.maximize import keys_inside, unseen_point
from bbo_plugins.optuna.sampling.branches import with_balanced_parents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

SEQUENCE_LENGTH = 2**12  # trials that share one space-filling sequence
_N_DRAWS = 16  # random points of which an irregular one is taken


def design_point(
    space: SearchSpace,
    index: int,
    taken: Sequence[FloatArray],
    *,
    shift: np.random.Generator,
    rng: np.random.Generator,
    irregular: bool = False,
) -> FloatArray:
    """Return a point of a shifted Sobol sequence, or one in its place.

    A discrete parameter that decides whether others exist takes the value that was taken least. A
    point that is taken is replaced by one that is not, as long as there is one.

    The first points of the sequence lie on a few lines, between which all that is valid may lie. An
    irregular point is the one of several random points that is furthest from those taken. Its
    distances are periodic: otherwise it would be near the ends of most ranges.

    Args:
        space: The d parameters.
        index: The place in the sequence.
        taken: Points (d,) not to repeat.
        shift: Source of the shift, the same for the whole sequence.
        rng: Source of what is drawn in place of the point.
        irregular: Whether the point is to be irregular; in a finite space none is.

    Returns:
        (d,) a snapped point.
    """
    if irregular and space.size is None and len(taken):
        draws = space.snap(rng.random((_N_DRAWS, len(space))))
        gaps = space.distances(draws, np.stack(taken), periodic=True).min(axis=1)
        furthest: FloatArray = draws[np.argmax(gaps)]
        return furthest
    point = shifted_sobol(index + 1, len(space), shift)[index:]
    x: FloatArray = space.snap(point)[0]
    if space.is_conditional:
        x = with_balanced_parents(space, point, np.array([*taken]).reshape(-1, len(space)))
    known = keys_inside(np.array([*taken]).reshape(-1, len(space)), space)
    if not keys_inside(x[None, :], space) <= known:
        return x
    found = unseen_point(space, known, rng)
    return x if found is None else found
