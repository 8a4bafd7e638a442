"""Trials as points of a search space."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState

from bbo_plugins.optuna.dimensions import is_single, space_of
from bbo_plugins.optuna.proposals import Proposal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from bbo_plugins.optuna.finished import FinishedTrial
    from bbo_plugins.space import Dimension, SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_MAX_PENDING = 64  # only so many running trials, the latest ones: older ones are probably dead
# A running trial that so many later ones have overtaken counts as dead: its worker cannot tell. For
# each later trial that still runs, hence for each worker, it takes a few more. That is more than
# workers overtake by chance, and few enough that a crash does not block a region for most of a
# study. A trial that is merely slow loses nothing but the distance that others keep from it. Only
# the storage is asked, not the clock, so a resumed study decides the same.
_MAX_OVERTAKEN, _MORE_PER_RUNNING = 32, 4


class PlacedTrials:
    """The trials of one study as points of one search space."""

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        """Start with no trial placed."""
        self.distributions = dict(distributions)
        self.space = space_of(distributions)
        self._points: dict[int, FloatArray | None] = {}  # trial number -> point, None if nowhere
        self._failed: dict[tuple[int, datetime | None], FloatArray | None] = {}

    def can_hold(self, name: str, value: Any) -> bool:
        """Return whether ``value`` is a possible value of the parameter ``name``."""
        if name not in self.distributions:
            return False
        return is_value_of(self.space.dimensions[self.space.names.index(name)], value)

    def place(
        self, finished: Mapping[int, FinishedTrial]
    ) -> tuple[list[FinishedTrial], FloatArray]:
        """Return the trials that have a value and a place in the space, and their X (n, d)."""
        new = [number for number in finished if number not in self._points]
        if new:
            points = _points(self.space, [finished[number].params for number in new])
            self._points.update(zip(new, points, strict=True))
        known, rows = [], []
        for number, trial in finished.items():
            point = self._points[number]
            if point is not None and not math.isnan(trial.value):
                known.append(trial)
                rows.append(point)
        flat = np.concatenate(rows) if rows else np.empty(0)
        return known, flat.reshape(len(rows), len(self.space))

    def pending(self, trials: Sequence[FrozenTrial], asking: FrozenTrial) -> FloatArray:
        """Return the points (p, d) at which trials other than the asking one are running.

        Args:
            trials: The study's trials by number, from the first unfinished one on at least.
            asking: The trial to leave out.
        """
        running: list[FrozenTrial] = []
        n_overtaking = 0
        for trial in reversed(trials):
            patience = _MAX_OVERTAKEN + _MORE_PER_RUNNING * len(running)
            if n_overtaking >= patience or len(running) >= _MAX_PENDING:
                break
            n_overtaking += trial.state.is_finished()
            if trial.state is TrialState.RUNNING and trial.number != asking.number:
                running.append(trial)
        return self._present([self._params_of_running(trial) for trial in reversed(running)])

    def failed(self, trials: Sequence[FrozenTrial]) -> FloatArray:
        """Return the points (f, d) of these failed trials that have a place, in their order.

        In a finite space a trial that has parameters beside those of the space has none: they may
        be what failed, and the point must remain for others.
        """
        keys = [(trial.number, trial.datetime_complete) for trial in trials]
        new = {
            key: trial for key, trial in zip(keys, trials, strict=True) if key not in self._failed
        }
        points = _points(self.space, [trial.params for trial in new.values()])
        for (key, trial), point in zip(new.items(), points, strict=True):
            self._failed[key] = None if self._is_part_of(trial) else point
        rows = [point for key in keys if (point := self._failed[key]) is not None]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.space))

    def _is_part_of(self, trial: FrozenTrial) -> bool:
        """Return whether the space is finite and ``trial`` has parameters beside it."""
        if self.space.size is None:
            return False
        others = trial.distributions.keys() - self.distributions.keys()
        return not all(is_single(trial.distributions[name]) for name in others)

    def _present(self, params: Sequence[Mapping[str, Any]]) -> FloatArray:
        """Return the points (k, d) of those sets of parameters that have a place."""
        points = [point for point in _points(self.space, params) if point is not None]
        return np.array(points, dtype=np.float64).reshape(len(points), len(self.space))

    def _params_of_running(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return the parameters of a running trial; the later source is the surer one."""
        proposal = Proposal.from_attributes(trial.system_attrs)
        proposed = {} if proposal is None else proposal.values(self.distributions)
        return {**proposed, **fixed_params(trial, self.distributions), **trial.params}


def fixed_params(
    trial: FrozenTrial, distributions: Mapping[str, BaseDistribution]
) -> dict[str, Any]:
    """Return the parameters that ``enqueue_trial`` fixed, those of ``distributions`` only."""
    fixed = trial.system_attrs.get("fixed_params")
    if not isinstance(fixed, dict):
        return {}
    return {name: fixed[name] for name in distributions if name in fixed}


def _points(space: SearchSpace, params: Sequence[Mapping[str, Any]]) -> list[FloatArray | None]:
    """Return the point (d,) of each set of parameters, None for one outside the space."""
    try:
        X = space.encode(params)
        dimensions = dict(zip(space.names, space.dimensions, strict=True))
        inside = [
            all(_is_in_range(dimension, row[name]) for name, dimension in dimensions.items())
            for row in params
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        if len(params) <= 1:
            return [None] * len(params)
        return [point for row in params for point in _points(space, [row])]
    return [point if ok else None for point, ok in zip(X, inside, strict=True)]


def is_value_of(dimension: Dimension, value: Any) -> bool:
    """Return whether ``value`` is a choice of ``dimension`` or a number in its range."""
    try:
        dimension.encode([value])
    except (TypeError, ValueError, OverflowError):
        return False
    return _is_in_range(dimension, value)


def _is_in_range(dimension: Dimension, value: Any) -> bool:
    return dimension.is_categorical or bool(dimension.low <= value <= dimension.high)
