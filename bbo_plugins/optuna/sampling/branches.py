"""Visits to the branches of a study that a search has left.

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

from bbo_plugins.optuna.sampling.design import with_few_levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.optuna.sampling.snapshot import Snapshot
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_EVERY = 5  # trials; prime to the turns of models, so that all of them make visits
_LEAST_SHARE = 0.5  # of an even share of the trials, below which a value is visited
_LEAST_ALONE = 5  # values in a branch that are modeled without the others
_LEAST_FUTILE = 3  # trials of a value, none of them feasible with a value, before it is given up
_FUTILE_CHANCE = 0.05  # that so many have none, at the rate of all trials, below which it is


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


def _held(space: SearchSpace, column: int, level: int) -> SearchSpace:
    """Return the space with a parent held at a level."""
    dimension = space.dimensions[column]
    position = dimension.position_of(np.array([level]))[0]
    return space.held({space.names[column]: dimension.decode(position)})


def _branch_of_turn(snapshot: Snapshot, *, deterministic: bool) -> tuple[int, int] | None:
    """Return the column of a parent and its least tried level; None if no branch is visited."""
    space, observations = snapshot.space, snapshot.observations
    if snapshot.index % _EVERY:
        return None
    X = np.concatenate([observations.X, observations.pending, observations.still_failed])
    useful = observations.X[observations.eligible & observations.has_value]
    unrepeated = deterministic or all(one.repeats_agree(space) for one in snapshot.objectives)
    least, visited = _LEAST_SHARE, None
    rate = (len(useful) + 1.0) / (len(X) + 2.0)
    for column, n in with_few_levels(space, space.parents.tolist()):
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
            if not (unrepeated and _is_exhausted(branch, X, snapshot.index)):
                least, visited = share, (column, level)
                break
    return visited


def _is_exhausted(branch: SearchSpace, X: FloatArray, seed: int) -> bool:
    """Return whether all points of the branch are among X (n, d), as far as can be seen."""
    return branch.unseen_point(branch.keys_inside(X), np.random.default_rng(seed)) is None
