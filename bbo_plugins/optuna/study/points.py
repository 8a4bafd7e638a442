"""Where trials are in the unit cube."""

from __future__ import annotations

import math
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import CategoricalDistribution

from bbo_plugins.optuna.study.parameters import (
    conditions_among,
    is_in_range,
    is_single,
    is_value_of,
    space_of,
)
from bbo_plugins.optuna.study.storage import enqueued_params
from bbo_plugins.optuna.study.trials import running_trials
from bbo_plugins.space.search_space import keys_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from bbo_plugins.optuna.study.trials import TrialRow
    from bbo_plugins.space import Condition, SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_MAX_PENDING = 512  # running trials, the latest ones: their covariance is factorized


class PlacedTrials:
    """The trials of one study as points of one search space.

    A complete trial that lacks a parameter with a condition has none there. If the condition holds
    there all the same, the coordinate is the proposed one: at any other, the next suggestion might
    be the same trial again. Another trial may have ended before it asked for all parameters: those
    it lacks are the proposed ones. If nothing was proposed, it has a place only if what it lacks is
    inactive there.

    Args:
        distributions: The parameters, each with the range that it is modeled with.
        conditions: Conditions of these and others.
        clips: Whether a value that only an earlier range had is placed at the nearest end of the
            latest one. Otherwise such a trial has no place: at the end it would be a false value.
    """

    def __init__(
        self,
        distributions: Mapping[str, BaseDistribution],
        conditions: Mapping[str, Condition] = MappingProxyType({}),
        *,
        clips: bool = False,
    ) -> None:
        """Start with no trial placed."""
        self._clips = clips
        self.distributions = dict(distributions)
        self.space = space_of(distributions, conditions)
        self._points: dict[int, FloatArray | None] = {}  # trial number -> point, None if nowhere
        # Of trials that lack a parameter: its coordinate as proposed, NaN where none is missing.
        self._proposed: dict[int, FloatArray] = {}
        self._failed: dict[int, FloatArray | None] = {}
        # As a model proposed what a trial did not get: parameters and point, None for nowhere.
        self._refused: dict[int, tuple[Mapping[str, Any], FloatArray | None]] = {}
        self._intended: dict[int, Mapping[str, Any]] = {}  # parameters of trials that ended early

    def over(
        self, distributions: Mapping[str, BaseDistribution], conditions: Mapping[str, Condition]
    ) -> PlacedTrials:
        """Return the trials placed by these parameters: this object, unless anything differs.

        Another one takes over what is known here of trials and still holds there.

        Args:
            distributions: The parameters.
            conditions: Conditions of these and others.
        """
        conditions = conditions_among(distributions, conditions)
        same = self.distributions == distributions
        if same and conditions == self.space.conditions:
            return self
        other = PlacedTrials(distributions, conditions, clips=self._clips)
        if same:
            other._intended = self._intended
            if conditions.keys() == self.space.conditions.keys():
                other._points, other._proposed = self._points, self._proposed
                other._failed, other._refused = self._failed, self._refused
        return other

    def at_the_time(self, ranges: Mapping[str, BaseDistribution]) -> PlacedTrials | None:
        """Return the trials placed by the ranges of an earlier time, None if they cannot be.

        A decision is made with these, as a range that moves on would change it. But the thresholds
        of conditions are in today's ranges, so with conditions these are taken.
        """
        if self.space.is_conditional:
            return self
        try:
            return PlacedTrials({name: ranges[name] for name in self.space.names})
        except (KeyError, ValueError):  # any program may have added trials of other ranges
            return None

    def can_hold(self, name: str, value: Any) -> bool:
        """Return whether ``value`` is a possible value of the parameter ``name``."""
        if name not in self.distributions:
            return False
        return is_value_of(self.space.dimensions[self.space.names.index(name)], value)

    def place(self, rows: Sequence[TrialRow]) -> tuple[list[TrialRow], FloatArray]:
        """Return the trials that have a value and a place in the space, and their X (n, d)."""
        self._note_points(rows)
        known, found = [], []
        for row in rows:
            point = self._points[row.number]
            if point is None or math.isnan(row.value):
                continue
            if row.complete or self._has_all(point, self._params_of(row)):
                known.append(row)
                found.append(point)
        flat = np.concatenate(found) if found else np.empty(0)
        X = flat.reshape(len(found), len(self.space))
        early = [index for index, row in enumerate(known) if row.number in self._intended]
        X[early] = self.space.with_inactive_set(X[early])
        lacking = [index for index, row in enumerate(known) if row.number in self._proposed]
        if lacking:
            proposed = np.array([self._proposed[known[index].number] for index in lacking])
            there = self.space.active(X[lacking]) & ~np.isnan(proposed)
            X[lacking] = np.where(there, proposed, X[lacking])
        return known, X

    def _note_points(self, rows: Sequence[TrialRow]) -> None:
        """Remember where those of the trials are that were not looked at before."""
        new = [row for row in rows if row.number not in self._points]
        ranges = [row.trial.distributions if self._clips else {} for row in new]
        points = _encoded(self.space, [self._params_of(row) for row in new], ranges)
        self._points.update(zip([row.number for row in new], points, strict=True))
        self._note_proposed(new)

    def _note_proposed(self, rows: Sequence[TrialRow]) -> None:
        """Remember what was proposed for complete trials of parameters that they then lacked."""
        for row in rows:
            missing = [name for name in self.space.conditions if name not in row.params]
            proposal = row.outline if missing and row.complete else None
            if proposal is None:
                continue
            values = proposal.values(self.distributions)
            point = np.full(len(self.space), np.nan)
            for name in missing:
                column = self.space.names.index(name)
                if name in values:
                    point[column] = self.space.dimensions[column].encode([values[name]])[0]
            if not np.isnan(point).all():
                self._proposed[row.number] = point

    @property
    def unconditional(self) -> set[str]:
        """Names of the parameters without a condition."""
        return set(self.space.names) - self.space.conditions.keys()

    def unplaced(self, rows: Sequence[TrialRow]) -> list[TrialRow]:
        """Return the complete ones of these trials that have no place in the space.

        Without those that left the range that they gave themselves.
        """
        self._note_points(rows)
        return [
            row
            for row in rows
            if row.complete and self._points[row.number] is None and row.is_inside
        ]

    def pending(
        self, rows: Sequence[TrialRow], asking: int, *, only_earlier: bool = False
    ) -> FloatArray:
        """Return the points (p, d) at which trials other than the asking one are running.

        Args:
            rows: The study's trials by number; later ones tell which workers are dead.
            asking: Number of the trial to leave out.
            only_earlier: Whether to leave out those with higher numbers, too.
        """
        running = running_trials([row for row in rows if row.number != asking])
        if only_earlier:
            running = [row for row in running if row.number < asking]
        params = [self._intended_params(row) for row in running[-_MAX_PENDING:]]
        return self._present(_encoded(self.space, params), params)

    def failed(self, rows: Sequence[TrialRow]) -> FloatArray:
        """Return the points (f, d) of these failed trials that have a place, in their order.

        In a finite space a trial that has parameters beside those of the space has none: they may
        be what failed, and the point must remain for others.
        """
        new = [row for row in rows if row.number not in self._failed]
        points = _encoded(self.space, [self._params_of(row) for row in new])
        for row, point in zip(new, points, strict=True):
            self._failed[row.number] = None if self._lacks_parameters_of(row.trial) else point
        found = [self._failed[row.number] for row in rows]
        return self._present(found, [self._params_of(row) for row in rows])

    def refused(self, rows: Sequence[TrialRow]) -> FloatArray:
        """Return the points (r, d) that a model proposed for these finished trials in vain.

        The objective then gave a parameter a range that does not have the proposed value.
        """
        new = [row for row in rows if row.number not in self._refused]
        self._refused.update((row.number, ({}, None)) for row in new)
        refused = {row.number: params for row in new if (params := self._refused_params(row))}
        points = _encoded(self.space, [*refused.values()])
        for (number, params), point in zip(refused.items(), points, strict=True):
            self._refused[number] = params, point
        found = [self._refused[row.number] for row in rows]
        return self._present([point for _, point in found], [params for params, _ in found])

    def _refused_params(self, row: TrialRow) -> dict[str, Any]:
        """Return a trial's parameters, as proposed where it got others; empty if there are none."""
        proposal = row.outline if row.has_proposal and not row.is_retry else None
        if proposal is None or not proposal.is_by_model:
            return {}
        given = enqueued_params(row.trial)
        others = {
            name: proposal.params[name]
            for name, range_ in row.trial.distributions.items()
            if name in self.distributions
            and name not in given
            and not isinstance(range_, CategoricalDistribution)
            and proposal.params.get(name, row.params[name]) != row.params[name]
        }
        return {**row.params, **others} if others else {}

    def _has_all(self, point: FloatArray, params: Mapping[str, Any]) -> bool:
        """Return whether no parameter is missing that is active at the point (d,)."""
        if all(name in params for name in self.space.conditions):
            return True
        active = self.space.active(point[None, :])[0].tolist()
        return all(
            name in params for name, is_ in zip(self.space.names, active, strict=True) if is_
        )

    def _lacks_parameters_of(self, trial: FrozenTrial) -> bool:
        """Return whether the space is finite, and ``trial`` has parameters that it has not."""
        if self.space.size is None:
            return False
        others = trial.distributions.keys() - self.distributions.keys()
        return not all(is_single(trial.distributions[name]) for name in others)

    def _present(
        self, points: Sequence[FloatArray | None], params: Sequence[Mapping[str, Any]]
    ) -> FloatArray:
        """Return those of the points (k, d) at which no parameter is missing that is active."""
        rows = [
            point
            for point, known in zip(points, params, strict=True)
            if point is not None and self._has_all(point, known)
        ]
        X = np.array(rows, dtype=np.float64).reshape(len(rows), len(self.space))
        return self.space.with_inactive_set(X)

    def _params_of(self, row: TrialRow) -> Mapping[str, Any]:
        """Return the parameters of a finished trial, with the proposed ones if it ended early.

        One that asked for none says nothing of the parameters.
        """
        if row.complete or not row.params or row.params.keys() >= self.distributions.keys():
            return row.params
        if row.number not in self._intended:
            self._intended[row.number] = self._intended_params(row)
        return self._intended[row.number]

    def _intended_params(self, row: TrialRow) -> dict[str, Any]:
        """Return a trial's parameters, also the proposed ones; the later source is the surer."""
        proposal = row.outline
        proposed = {} if proposal is None else proposal.values(self.distributions)
        return {**proposed, **fixed_params(row.trial, self.distributions), **row.params}


def fixed_params(
    trial: FrozenTrial, distributions: Mapping[str, BaseDistribution]
) -> dict[str, Any]:
    """Return the parameters of ``distributions`` that are no longer open in a trial.

    Those are the ones that ``enqueue_trial`` fixed, and those that a trial has from the start: one
    that repeats a trial whose worker died has what was suggested before.
    """
    fixed = {**enqueued_params(trial), **trial.params}
    return {name: fixed[name] for name in distributions if name in fixed}


def _encoded(
    space: SearchSpace,
    params: Sequence[Mapping[str, Any]],
    ranges: Sequence[Mapping[str, BaseDistribution]] | None = None,
) -> list[FloatArray | None]:
    """Return the point (d,) of each set of parameters, None for one without a place.

    Args:
        space: The search space.
        params: The sets of parameters.
        ranges: The distributions within which each set has to lie, in place of the space's: a value
            outside the space is then placed at its nearest end.
    """
    if not params:
        return []
    ranges = [{}] * len(params) if ranges is None else ranges
    try:
        X = space.encode(params)
        inside = [
            all(
                is_in_range(own.get(name, dimension), row[name])
                for name, dimension in zip(space.names, space.dimensions, strict=True)
                if name in row
            )
            for row, own in zip(params, ranges, strict=True)
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        if len(params) <= 1:
            return [None] * len(params)
        rows = zip(params, ranges, strict=True)
        return [point for row, own in rows for point in _encoded(space, [row], [own])]
    return [point if ok else None for point, ok in zip(X, inside, strict=True)]


def not_among(points: FloatArray, before: FloatArray) -> FloatArray:
    """Return those of ``points`` (p, d) that are not among ``before`` (b, d), or not as often.

    A repeat counts: another worker may evaluate a known point once more.
    """
    known = Counter(keys_of(before))
    new = np.zeros(len(points), dtype=bool)
    for i, key in enumerate(keys_of(points)):
        new[i] = known[key] <= 0
        known[key] -= 1
    return points[new]
