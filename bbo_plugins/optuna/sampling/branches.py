"""Visits to the branches of a study: each in turn at the start-up, later those a search has left.

Which branch is best can look decided after a few trials of each, when the others had bad values of
their own parameters. In every fifth trial, therefore, one parent that exists everywhere is held at
the value that was tried least, as a user may hold it, if that is clearly less than its share. The
model then suggests the other parameters, and what counts is the best that is known in that branch.
With five values or more it is a model of the branch alone: where branches share parameters, one may
be far sharper than another, and a model of both has one scale. A value all of whose trials have
failed or are infeasible is not visited again, if chance hardly explains that. Nor is one of which
all points have been tried, if no point is to be tried twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.acquisition.maximize import keys_inside, unseen_point

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from bbo_plugins.optuna.sampling.snapshot import Snapshot
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_EVERY = 5  # trials; prime to the turns of models, so that all of them make visits
_LEAST_SHARE = 0.5  # of an even share of the trials, below which a value is visited
_MAX_VISITED = 16  # values of a parent that are visited, at the start-up and later
_LEAST_ALONE = 5  # values in a branch that are modeled without the others
_LEAST_FUTILE = 3  # trials of a value, none of them feasible with a value, before it is given up
_FUTILE_CHANCE = 0.05  # that so many have none, at the rate of all trials, below which it is


def with_balanced_parents(space: SearchSpace, point: FloatArray, taken: FloatArray) -> FloatArray:
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
        for column, n in _with_few_levels(space, {*categories, *space.parents.tolist()})
    )


def visiting(snapshot: Snapshot, *, deterministic: bool) -> Snapshot:
    """Return the snapshot, with a parent held at its least tried value if it is the turn.

    With enough values in that branch, these trials are all that the snapshot has, and no fits.

    Args:
        snapshot: The study, of a conditional space.
        deterministic: Whether the objective is known to be free of noise.
    """
    visited = _branch_of_turn(snapshot, deterministic=deterministic)
    if visited is None:
        return snapshot
    column, level = visited
    dimension = snapshot.space.dimensions[column]

    def is_inside(points: FloatArray) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = dimension.level_of(points[:, column]) == level
        return found

    branch = _held(snapshot.space, column, level)
    alone = tuple(one.part(is_inside, snapshot.space) for one in snapshot.objectives)
    if len(alone[0].valued.y) < _LEAST_ALONE:
        return replace(snapshot, space=branch)
    return replace(snapshot, space=branch, objectives=alone, fits={}, whole=snapshot)


def _with_few_levels(space: SearchSpace, columns: Iterable[int]) -> list[tuple[int, int]]:
    """Return which of ``columns`` exist everywhere and have few levels, and how many."""
    levels = [
        (column, space.dimensions[column].n_levels or 0)
        for column in columns
        if space.names[column] not in space.conditions
    ]
    return [(column, n) for column, n in levels if 1 < n <= _MAX_VISITED]


def _held(space: SearchSpace, column: int, level: int) -> SearchSpace:
    """Return the space with a parent held at a level."""
    dimension = space.dimensions[column]
    position = dimension.position_of(np.array([level]))[0]
    return space.held({space.names[column]: dimension.decode(position)})


def _branch_of_turn(snapshot: Snapshot, *, deterministic: bool) -> tuple[int, int] | None:
    """Return the column of a parent and its least tried level; None if no branch is visited."""
    space, observations = snapshot.space, snapshot.observations
    if snapshot.configuration % _EVERY:
        return None
    X = np.concatenate([observations.X, observations.pending, observations.still_failed])
    useful = observations.X[observations.eligible & observations.is_valued]
    unrepeated = deterministic or all(one.repeats_agree(space) for one in snapshot.objectives)
    least, visited = _LEAST_SHARE, None
    rate = (len(useful) + 1.0) / (len(X) + 2.0)
    for column, n in _with_few_levels(space, space.parents.tolist()):
        dimension = space.dimensions[column]
        counts, successes = (
            np.bincount(dimension.level_of(points[:, column]), minlength=n)
            for points in (X, useful)
        )
        is_futile = (successes == 0) & (counts >= _LEAST_FUTILE)
        is_futile &= (1.0 - rate) ** counts < _FUTILE_CHANCE
        for level in np.argsort(np.where(is_futile, len(X), counts), kind="stable").tolist():
            share = n * float(counts[level]) / len(X)
            if share >= least or is_futile[level]:
                break
            branch = _held(space, column, level)
            if not (unrepeated and _is_exhausted(branch, X, snapshot.configuration)):
                least, visited = share, (column, level)
                break
    return visited


def _is_exhausted(branch: SearchSpace, X: FloatArray, seed: int) -> bool:
    """Return whether all points of the branch are among X (n, d), as far as can be seen."""
    taken = keys_inside(X, branch)
    return unseen_point(branch, taken, np.random.default_rng(seed)) is None
