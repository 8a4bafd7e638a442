"""A study's complete trials in the order of completion, as a terminator needs them.

The t-th observation of a stopping criterion is the t-th *completion*, by the time at which trials
completed, then by number. Only complete trials count: a pruned or failed one has no final value.
A trial with parameters outside of their own ranges, as an enqueued one may have, does not count
either. An infinite value counts as the worst or best finite one so far.

Trials that continue one another (:mod:`bbo_plugins.optuna.study.continuations`) are one
observation: its place is that of the first of them to complete, its value that of the one with the
longest training of those that had completed by the time of the t-th completion.

The t-th observation depends on the first t completions alone, the search space included
(:mod:`bbo_plugins.optuna.stopping.learned_space`).
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from optuna.distributions import FloatDistribution, IntDistribution

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.likelihood import MARGINAL, name_of
from bbo_plugins.methods.training_subset import MAX_MODELED
from bbo_plugins.optuna.stopping.cross_validation import scores_of
from bbo_plugins.optuna.stopping.learned_space import LearnedSpace
from bbo_plugins.optuna.study.trials import TrialReader, TrialRow, finite_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.gp.likelihood import Hyperparameters
    from bbo_plugins.optuna.study.proposal import Proposal
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_MIN_SHARE = 0.75  # of the observations, that a fit of the sampler's has to have been made on
_MAX_AGE = 32  # completions since it was used
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - Optuna's times have no zone


@dataclass(frozen=True)
class Estimate:
    """Hyperparameters that a sampler of this package estimated before it suggested a trial.

    Attributes:
        proposal: The trial's stored proposal, which knows the parameters of the model.
        fit: The fit in it.
    """

    proposal: Proposal
    fit: WarmStart

    def of(self, names: Sequence[str]) -> Hyperparameters | None:
        """Return the hyperparameters if the model had these parameters, else None."""
        return self.fit.hyperparameters(len(names)) if self.proposal.is_of(names) else None


@dataclass(frozen=True)
class Completion:
    """One complete trial.

    Attributes:
        number: Its number.
        started_at: When it started, in seconds; minus infinity if that is not known.
        finished_at: When it completed, in seconds.
        trial: Its parameters and value, the latter maximized.
        scores: Cross-validation scores reported for it; empty if there are none.
        estimate: Hyperparameters of the model that suggested it, if they are stored.
    """

    number: int
    started_at: float
    finished_at: float
    trial: TrialRow
    scores: tuple[float, ...]
    estimate: Estimate | None


@dataclass(frozen=True)
class CompletedTrials:
    """The first t completions as a stopping criterion sees them, with the values they had by then.

    Attributes:
        space: The parameters that any of them has, d of them.
        X: Their points in the order of completion, shape (t, d).
        y: Their values, maximized and finite, shape (t,).
        n_infinite: How many values were infinite.
        estimate: The sampler's hyperparameters for this space, if it left any of late.
        best_scores: Cross-validation scores of the best of these trials; empty if not reported.
    """

    space: SearchSpace
    X: FloatArray
    y: FloatArray
    n_infinite: int
    estimate: Hyperparameters | None
    best_scores: tuple[float, ...]


class StudyCompletions:
    """The complete trials of one study, each read once; of each configuration the first.

    Only a cache: all of it can be read from the study again. Not to be shared among threads.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self._reader = TrialReader()
        self._forget(0)

    def _forget(self, generation: int) -> None:
        self._generation = generation
        self._complete: dict[int, Completion] = {}
        self._read: set[int] = set()  # numbers of all complete trials
        # For each first trial of a configuration the first one that has completed; for each of
        # these the others, by number.
        self._counted: dict[int, int] = {}
        self._later: dict[int, list[Completion]] = {}
        self._space = LearnedSpace()

    def read(self, study: Study) -> tuple[Mapping[int, Completion], bool]:
        """Return the completions by number, and whether this is still the study read before.

        Of trials that continue one another only the first one to complete is among them. It is
        another study if a study was deleted and its identifier given to the next.
        """
        trials = self._reader.read(study)
        is_same = self._generation in {0, trials.generation}
        if self._generation != trials.generation:
            self._forget(trials.generation)
        first = trials.first
        for row in trials.rows:
            if row.complete and row.number not in self._read:
                self._read.add(row.number)
                completion = _completion(row)
                if completion is not None:
                    self._add(completion, first.get(row.number, row.number))
        return self._complete, is_same

    def _add(self, completion: Completion, first: int) -> None:
        """Add one of the configuration that trial ``first`` has begun."""
        counted = self._counted.setdefault(first, completion.number)
        if counted == completion.number:
            self._complete[completion.number] = completion
        else:
            later = self._later.setdefault(counted, [])
            insort(later, completion, key=_by_number)

    def latest(self, order: Sequence[Completion], until: float = math.inf) -> list[Completion]:
        """Return the completions with the longest training in place of the first ones.

        Args:
            order: The first ones.
            until: Those that completed after this time, in seconds, are left out.
        """
        if not self._later:
            return list(order)
        latest = []
        for first in order:
            others = self._later.get(first.number, ())
            known = (other for other in others if other.finished_at <= until)
            latest.append(max((first, *known), key=_by_number))
        return latest

    def completed(self, order: Sequence[Completion]) -> CompletedTrials | None:
        """Return the trials as a stopping criterion sees them; None if there is no parameter.

        Args:
            order: The completions in their order, at least one.
        """
        space, X = self._space.place([completion.trial for completion in order])
        if not len(space):
            return None
        latest = self.latest(order, max(completion.finished_at for completion in order))
        y, n_infinite = finite_values([completion.trial for completion in latest])
        return CompletedTrials(
            space=space,
            X=X,
            y=y,
            n_infinite=n_infinite,
            estimate=_latest_estimate(order, space.names),
            best_scores=latest[int(np.argmax(y))].scores,
        )


def seconds_of(time: datetime | None, *, unknown: float) -> float:
    """Return a time of Optuna's in seconds.

    Args:
        time: The time, without a zone.
        unknown: Returned for None.
    """
    return unknown if time is None else (time.replace(tzinfo=None) - _EPOCH).total_seconds()


def in_order(
    complete: Mapping[int, Completion], recorded: Mapping[int, int]
) -> tuple[Completion, ...]:
    """Return the complete trials in the order of completion.

    Args:
        complete: The trials by number.
        recorded: Numbers of trials by the place, from 1 on, that they have been given already.
            They keep it even if a trial with an earlier time of completion has appeared since; the
            others fill the remaining places.
    """
    taken = set(recorded.values())
    rest = iter(sorted((c for n, c in complete.items() if n not in taken), key=_by_completion))
    places = range(1, len(complete) + 1)
    return tuple(complete[recorded[place]] if place in recorded else next(rest) for place in places)


def appended(
    order: tuple[Completion, ...], complete: Mapping[int, Completion]
) -> tuple[Completion, ...]:
    """Return ``order`` with the trials that were read since, the last ones of ``complete``."""
    return (*order, *sorted(islice(complete.values(), len(order), None), key=_by_completion))


def _by_number(completion: Completion) -> int:
    return completion.number


def _by_completion(completion: Completion) -> tuple[float, int]:
    return completion.finished_at, completion.number


def _completion(row: TrialRow) -> Completion | None:
    """Read a complete trial; None if it is outside of its own search space."""
    trial = row.trial
    if math.isnan(row.value) or not _is_inside(trial):
        return None
    return Completion(
        number=trial.number,
        started_at=seconds_of(trial.datetime_start, unknown=-math.inf),
        finished_at=seconds_of(trial.datetime_complete, unknown=math.inf),
        trial=row,
        scores=scores_of(trial.system_attrs),
        estimate=_estimate(row.proposal),
    )


def _is_inside(trial: FrozenTrial) -> bool:
    for name, distribution in trial.distributions.items():
        # A choice that is none could not have been stored.
        if isinstance(distribution, FloatDistribution | IntDistribution):
            value = trial.params[name]
            if not distribution.low <= value <= distribution.high:
                return False
    return True


def _estimate(proposal: Proposal | None) -> Estimate | None:
    """Read the fit of a model, if it was fitted by maximum a posteriori."""
    if proposal is None or not proposal.fits or proposal.loss != name_of(MARGINAL):
        return None
    fit = WarmStart.from_json(proposal.fits[0])
    return None if fit is None else Estimate(proposal, fit)


def _latest_estimate(order: Sequence[Completion], names: tuple[str, ...]) -> Hyperparameters | None:
    """Return the estimate that the highest-numbered trial came from, unless it is out of date."""
    n_modeled = min(len(order), MAX_MODELED)
    for completion in sorted(order[-_MAX_AGE:], key=_by_number, reverse=True):
        estimate = completion.estimate
        hyperparameters = None if estimate is None else estimate.of(names)
        if estimate is not None and hyperparameters is not None:
            is_recent = estimate.fit.n_points >= _MIN_SHARE * n_modeled
            return hyperparameters if is_recent else None
    return None
