"""A study's trials as the arrays a method works on, and the few things written back.

This is where the storage of a study is touched for a sampler. What leaves this file is maximized;
:mod:`bbo_plugins.optuna.values` flips the sign.

What becomes of a trial:

========  ========================================================================================
COMPLETE  an observation; an infinite value counts as the worst or best finite one
PRUNED    its last intermediate value, if finite, is an observation that is not complete and not
          better than the lower median of the complete ones: it was cut off for being bad; without a
          report or with one that is not finite, as FAIL
RUNNING   a pending point if its parameters are known: proposed, enqueued, or suggested already; no
          more once some tens of later trials have finished, as its worker is probably dead
FAIL      a failed point if it got as far as all its parameters: no observation, but not a point to
          suggest again
WAITING   nothing
========  ========================================================================================

Of trials that continue one another (:mod:`bbo_plugins.optuna.continuations`) only the complete one
with the longest training counts, as one observation; a continuation in any other state is nothing,
as the point is known from the trial it is to continue.

A trial that lacks a parameter of the search space, or has it outside the current range, cannot be
placed in the space and is left out. Constraint values are read in both of Optuna's forms: the list
of ``constraints_func`` and the single values of ``Trial.set_constraint``; an infinite one keeps its
sign and gets the largest finite magnitude, so that it stays violated or satisfied.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import PartialFixedSampler
from optuna.trial import TrialState

from bbo_plugins.methods.observations import Observations
from bbo_plugins.optuna.continuations import Continuations
from bbo_plugins.optuna.dimensions import dimension_of, is_single
from bbo_plugins.optuna.finished import CONSTRAINTS_KEY, FinishedTrial, value_of
from bbo_plugins.optuna.once import Once
from bbo_plugins.optuna.per_study import PerStudy
from bbo_plugins.optuna.placement import PlacedTrials, fixed_params, is_value_of
from bbo_plugins.optuna.proposals import PREFIX
from bbo_plugins.optuna.proposed import Proposed
from bbo_plugins.optuna.values import (
    constraint_names,
    constraint_table,
    feasible_values,
    lower_median,
    maximized,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.past import Past
    from bbo_plugins.optuna.proposals import Proposal
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_MAX_SPACES = 4  # search spaces of one study that are remembered


@dataclass(frozen=True)
class Snapshot:
    """What the storage held when trial ``number`` was to be suggested.

    Attributes:
        number: The trial's number.
        configuration: Its number among the trials that continue no other one.
        space: The parameters of the model, those held whose values are fixed for this trial.
        distributions: Their distributions.
        fixed: The fixed values.
        observations: Finished and pending trials in the unit cube, maximized.
        constraints: Names of the constraints, one per column of ``observations.constraints``.
        fits: JSON forms of the fits to continue, by the name of the loss they minimized: objective
            first, then the constraints.
        past: Which arms were pulled for the other configurations, and what came of it.
        n_infinite: How many values were infinite and have been clipped.
        n_invalid_noise: How many trials ``noise_func`` returned no variance for.
        n_unreadable: How many trials have a proposal stored that cannot be read.
    """

    number: int
    configuration: int
    space: SearchSpace
    distributions: Mapping[str, BaseDistribution]
    fixed: Mapping[str, Any]
    observations: Observations
    constraints: tuple[str, ...]
    fits: Mapping[str, tuple[Any, ...]]
    past: Past
    n_infinite: int
    n_invalid_noise: int
    n_unreadable: int

    def params_at(self, x: FloatArray) -> dict[str, Any]:
        """Return the parameters at point x (d,), with the fixed ones exactly as fixed."""
        return {**self.space.decode(x), **self.fixed}

    def with_pending(self, points: FloatArray) -> Snapshot:
        """Return this snapshot with more pending points (p, d)."""
        pending = np.concatenate([self.observations.pending, points])
        return replace(self, observations=replace(self.observations, pending=pending))


class StudyHistory:
    """What is known of one study's trials; each finished trial is read once.

    Only a cache: everything in it can be read from the study again. Safe to share among threads.

    Args:
        noise_func: Known noise variance of a finished trial's value; called once per trial.

    Attributes:
        once: What has been said about this study.
        suggesting: Held while a suggestion is made, from reading the trials to storing it.
    """

    def __init__(self, noise_func: Callable[[FrozenTrial], float] | None = None) -> None:
        """Start with nothing read."""
        self.once = Once()
        self.suggesting = threading.Lock()
        self._noise_func = noise_func
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._finished: dict[int, FinishedTrial] = {}  # trial number -> trial
        self._shared: dict[str, BaseDistribution] | None = None
        self._spaces: list[PlacedTrials] = []  # the most recently used one last
        self._proposed = Proposed()
        # The trials up to the first unfinished one, and what was read of them: nothing in there
        # can change, so that looking again costs next to nothing.
        self._settled: list[FrozenTrial] = []
        self._settled_finished: dict[int, FinishedTrial] = {}
        self._settled_failed: list[FrozenTrial] = []
        self._continuations = Continuations({})

    def shared_distributions(self, study: Study) -> dict[str, BaseDistribution]:
        """Return the parameters all complete trials share, with one and the same distribution.

        As long as no trial is complete, those that all failed trials share. Parameters with a
        single possible value are left out: there is nothing to suggest.
        """
        with self._lock:
            trials = _trials(study)
            self._read(trials)
            shared = self._shared
            if shared is None:
                shared = _shared_by(filter(_has_failed, trials))
        return {name: shared[name] for name in sorted(shared) if not is_single(shared[name])}

    def n_finished(self) -> int:
        """Return how many of the configurations read so far have a value."""
        with self._lock:
            finished = self._continuations.latest(self._finished)
            return sum(not math.isnan(trial.value) for trial in finished.values())

    def snapshot(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: Mapping[str, BaseDistribution],
        held: Mapping[str, Any],
    ) -> Snapshot:
        """Return all that may influence what is suggested for ``trial``.

        Args:
            study: The study.
            trial: The trial to suggest for, which is left out.
            search_space: The parameters to suggest.
            held: Values at which other parameters are held. The model has a part in them too: it
                learns from trials where they were different.
        """
        trials = _trials(study)
        with self._lock:
            finished = self._read(trials)
            continuations = self._continuations
            finished = continuations.latest(finished)
            placed = self._placed(self._with_held(search_space, held))
            known, X = placed.place(finished)
            unsettled = continuations.without(trials[len(self._settled) :])
            settled_failed = continuations.without(self._settled_failed)
            failed = placed.failed([*settled_failed, *filter(_has_failed, unsettled)])
            fits = self._proposed.fits(
                trials, trial, names=set(placed.distributions), constraints=constraint_names(known)
            )
            n_unreadable = self._proposed.n_unreadable(trials)
            values = feasible_values(study, finished)
            first = continuations.first
            past = self._proposed.past(
                continuations.without(trials),
                trial,
                {first.get(number, number): value for number, value in values.items()},
            )
        fixed = {**held, **fixed_params(trial, search_space)}
        fixed = {name: value for name, value in fixed.items() if placed.can_hold(name, value)}
        y, n_infinite = maximized(study, [row.value for row in known])
        complete = np.array([row.complete for row in known], dtype=np.bool_)
        if complete.any() and not complete.all():
            y[~complete] = np.minimum(y[~complete], lower_median(y[complete]))
        if continuations.first:
            numbers = np.array([continuations.index(n) for n in past.trials.numbers.tolist()])
            past = replace(past, trials=replace(past.trials, numbers=numbers))
        names, constraints = constraint_table(known)
        noise = np.array([row.noise_variance for row in known], dtype=np.float64)
        observations = Observations(
            X=X,
            y=y,
            complete=complete,
            noise_variance=None if self._noise_func is None else noise,
            constraints=constraints if names else None,
            pending=placed.pending(unsettled, trial),
            failed=failed if len(failed) else None,
        )
        n_invalid = 0 if self._noise_func is None else int(np.isnan(noise).sum())
        return Snapshot(
            number=trial.number,
            configuration=continuations.index(trial.number),
            space=placed.space.held(fixed) if fixed else placed.space,
            distributions=placed.distributions,
            fixed=fixed,
            observations=observations,
            constraints=names,
            fits=fits,
            past=past,
            n_infinite=n_infinite,
            n_invalid_noise=n_invalid,
            n_unreadable=n_unreadable,
        )

    def appeared(self, study: Study, trial: FrozenTrial, snapshot: Snapshot) -> FloatArray:
        """Return the points (p, d) that have become pending since ``snapshot`` was taken.

        Those of trials that have finished by now are among them.
        """
        trials = _trials(study)
        with self._lock:
            finished = self._read(trials)
            placed = self._placed(snapshot.distributions)
            _, X = placed.place(self._continuations.latest(finished))
            unsettled = self._continuations.without(trials[len(self._settled) :])
            points = np.concatenate([placed.pending(unsettled, trial), X])
        before = (*snapshot.observations.pending, *snapshot.observations.X)
        known = {point.tobytes() for point in before}
        return points[[point.tobytes() not in known for point in points]]

    def _read(self, trials: Sequence[FrozenTrial]) -> dict[int, FinishedTrial]:
        """Return the finished ones by number, reading those not read before."""
        same = len(self._settled) <= len(trials) and all(map(is_, trials, self._settled))
        if not same:
            self._settled, self._settled_finished, self._settled_failed = [], {}, []
        finished = self._settled_finished.copy()
        for trial in trials[len(self._settled) :]:
            if trial.state is not TrialState.COMPLETE and trial.state is not TrialState.PRUNED:
                continue
            known = self._finished.get(trial.number)
            if known is None:
                known = self._finished[trial.number] = self._read_one(trial)
            elif known.finished_at != trial.datetime_complete:
                # Another study under an identifier that was used before.
                self._forget()
                return self._read(trials)
            finished[trial.number] = known
        self._settle(trials, finished)
        self._continuations = Continuations.of(trials)
        return finished

    def _settle(self, trials: Sequence[FrozenTrial], finished: Mapping[int, FinishedTrial]) -> None:
        for trial in trials[len(self._settled) :]:
            if not trial.state.is_finished():
                break
            self._settled.append(trial)
            if trial.number in finished:
                self._settled_finished[trial.number] = finished[trial.number]
            if _has_failed(trial):
                self._settled_failed.append(trial)

    def _read_one(self, trial: FrozenTrial) -> FinishedTrial:
        complete = trial.state is TrialState.COMPLETE
        if complete:
            shared = trial.distributions if self._shared is None else self._shared
            self._shared = {
                name: distribution
                for name, distribution in shared.items()
                if trial.distributions.get(name) == distribution
            }
        return FinishedTrial.read(trial, self._noise_func)

    def _with_held(
        self, search_space: Mapping[str, BaseDistribution], held: Mapping[str, Any]
    ) -> dict[str, BaseDistribution]:
        """Return the search space with the held parameters that the trials share."""
        shared = self._shared or {}
        extra = {
            name: shared[name]
            for name, value in held.items()
            if name in shared
            and not is_single(shared[name])
            and is_value_of(dimension_of(shared[name]), value)
        }
        return {**extra, **search_space}

    def _placed(self, distributions: Mapping[str, BaseDistribution]) -> PlacedTrials:
        for index, placed in enumerate(self._spaces):
            if placed.distributions == distributions:
                self._spaces.append(self._spaces.pop(index))
                return placed
        self._spaces = [*self._spaces[1 - _MAX_SPACES :], PlacedTrials(distributions)]
        return self._spaces[-1]


class Histories(PerStudy[StudyHistory]):
    """The histories of the studies a sampler works on, the latest few of each storage.

    Args:
        noise_func: See :class:`StudyHistory`.
    """

    def __init__(self, noise_func: Callable[[FrozenTrial], float] | None = None) -> None:
        """Start without any study."""
        super().__init__(lambda: StudyHistory(noise_func))


def store_proposal(
    study: Study, trial: FrozenTrial, proposal: Proposal, *, replacing: int = 0
) -> int:
    """Write ``proposal`` to the system attributes of ``trial``.

    Args:
        study: The study.
        trial: The trial, which a longer proposal may have been inherited by.
        proposal: What to write.
        replacing: Number of chunks that have been written for this trial before.

    Returns:
        The number of chunks.
    """
    attributes = proposal.to_attributes()
    n_chunks = len(attributes)
    following = f"{PREFIX}{n_chunks}"
    if n_chunks < replacing or following in trial.system_attrs:
        attributes[following] = ""  # the end
    for key, chunk in attributes.items():
        study._storage.set_trial_system_attr(trial._trial_id, key, chunk)
    return n_chunks


def store_constraints(study: Study, trial: FrozenTrial, values: Sequence[float] | None) -> None:
    """Write constraint values where Optuna looks for them, None if there are none to be had."""
    stored = None if values is None else list(values)
    study._storage.set_trial_system_attr(trial._trial_id, CONSTRAINTS_KEY, stored)


@contextmanager
def failing_if_refused(study: Study, trial: FrozenTrial) -> Iterator[None]:
    """End ``trial`` as FAIL if its study is refused, with a ValueError, before anything is sampled.

    Optuna creates a trial before it asks the sampler, and leaves it RUNNING after an error there.
    """
    try:
        yield
    except ValueError:
        if not study._storage.get_trial(trial._trial_id).state.is_finished():
            study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        raise


def held_params(study: Study, sampler: BaseSampler) -> dict[str, Any]:
    """Return the values at which a PartialFixedSampler around ``sampler`` holds parameters."""
    held: dict[str, Any] = {}
    outer: Any = study.sampler
    while isinstance(outer, PartialFixedSampler):
        fixed = getattr(outer, "_fixed_params", None)
        held = {**(fixed if isinstance(fixed, dict) else {}), **held}
        outer = getattr(outer, "_base_sampler", None)
    return held if outer is sampler else {}


def _trials(study: Study) -> list[FrozenTrial]:
    return study._get_trials(deepcopy=False, use_cache=False)


def _shared_by(trials: Iterable[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Return the parameters that all of ``trials`` have with the same distribution."""
    shared: dict[str, BaseDistribution] | None = None
    for trial in trials:
        items = (trial.distributions if shared is None else shared).items()
        shared = {name: one for name, one in items if trial.distributions.get(name) == one}
    return shared or {}


def _has_failed(trial: FrozenTrial) -> bool:
    if trial.state is TrialState.PRUNED:
        return math.isnan(value_of(trial))
    return trial.state is TrialState.FAIL
