"""The space-filling design of the start-up, in which each trial takes the point of its number.

With conditional parameters each value of a parent is visited in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.acquisition.candidates import shifted_sobol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bbo_plugins.optuna.sampling.snapshot import Snapshot
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

SEQUENCE_LENGTH = 2**12  # trials that share one space-filling sequence
_MAX_VISITED = 16  # values of a parent that are visited, at the start-up and later
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
        x = _with_balanced_parents(space, point, np.array([*taken]).reshape(-1, len(space)))
    known = space.keys_inside(np.array([*taken]).reshape(-1, len(space)))
    if not space.keys_inside(x[None, :]) <= known:
        return x
    found = space.unseen_point(known, rng)
    return x if found is None else found


def _with_balanced_parents(space: SearchSpace, point: FloatArray, taken: FloatArray) -> FloatArray:
    """Return the point (1, d), snapped, (d,), with its parents at the levels taken (n, d) least."""
    point, active = point.copy(), space.active(taken)
    for column in space.parents.tolist():
        dimension, x = space.dimensions[column], space.snap(point)
        if not 1 < (dimension.n_levels or 0) <= _MAX_VISITED or not space.active(x)[0, column]:
            continue
        levels = dimension.level_of(taken[active[:, column], column])
        counts = np.bincount(levels, minlength=dimension.n_levels)
        if counts[dimension.level_of(x[0, column])] > counts.min():
            point[0, column] = dimension.position_of(np.argmin(counts))
    snapped: FloatArray = space.snap(point)[0]
    return snapped


def has_choice_without_value(snapshot: Snapshot) -> bool:
    """Return whether no trial has a value at some choice of a category or a parent.

    Not counted are those that do not exist everywhere or have more than 16 choices.
    """
    space, X = snapshot.space, snapshot.observations.valued.X
    categories = np.flatnonzero([axis.is_categorical for axis in space.dimensions]).tolist()
    return any(
        len(np.unique(space.dimensions[column].level_of(X[:, column]))) < n
        for column, n in with_few_levels(space, {*categories, *space.parents.tolist()})
    )


def with_few_levels(space: SearchSpace, columns: Iterable[int]) -> list[tuple[int, int]]:
    """Return which of ``columns`` exist everywhere and have few levels, and how many."""
    levels = [
        (column, space.dimensions[column].n_levels or 0)
        for column in columns
        if space.names[column] not in space.conditions
    ]
    return [(column, n) for column, n in levels if 1 < n <= _MAX_VISITED]
