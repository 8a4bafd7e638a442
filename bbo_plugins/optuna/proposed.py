"""What a study's stored proposals say together: the fits to continue, and the arms pulled."""

from __future__ import annotations

import math
from itertools import chain
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from optuna.trial import TrialState

from bbo_plugins.methods.exp3 import NO_ARM, TrialTable
from bbo_plugins.methods.past import Past
from bbo_plugins.optuna.proposals import ARMS, Proposal, is_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from optuna.trial import FrozenTrial

_MAX_RECORDS = 64  # stored proposals that are searched for a fit to continue


class _Said(NamedTuple):
    """What is kept of a finished trial's proposal: not its fits, which are long."""

    finished_at: datetime | None
    arm: int = NO_ARM
    expected_gain: float = math.nan
    is_stored: bool = False
    is_readable: bool = False


class _Settled:
    """The trials up to the first unfinished one, and what they say: nothing in there can change.

    So that looking at ten thousand of them again costs next to nothing.

    Args:
        read: Reads one finished trial.
    """

    def __init__(self, read: Callable[[FrozenTrial], _Said]) -> None:
        """Start with no trial."""
        self._read = read
        self._forget()

    def _forget(self) -> None:
        self._trials: list[FrozenTrial] = []
        self.numbers: list[int] = []
        self.said: list[_Said] = []
        self.stored: list[FrozenTrial] = []  # those of them with a proposal
        self.n_unreadable = 0

    def rest(self, trials: Sequence[FrozenTrial]) -> Sequence[FrozenTrial]:
        """Take in the trials that have settled since, and return those that have not."""
        if len(self._trials) > len(trials) or not all(map(is_, trials, self._trials)):
            self._forget()
        for trial in trials[len(self._trials) :]:
            if not trial.state.is_finished():
                break
            said = self._read(trial)
            self._trials.append(trial)
            self.numbers.append(trial.number)
            self.said.append(said)
            if said.is_stored:
                self.stored.append(trial)
                self.n_unreadable += not said.is_readable
        return trials[len(self._trials) :]


class Proposed:
    """The proposals of one study's trials; that of a finished trial is read once.

    Only a cache: all of it can be read from the study again. Not to be shared among threads.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self._known: dict[int, _Said] = {}
        self._all = _Settled(self._said)
        self._counted = _Settled(self._said)  # of the trials that the bandit counts

    def fits(
        self,
        trials: Sequence[FrozenTrial],
        asking: FrozenTrial,
        *,
        names: set[str],
        constraints: tuple[str, ...],
    ) -> dict[str, tuple[Any, ...]]:
        """Return, for each loss, the fits that the highest-numbered other trial stored with it.

        Args:
            trials: The study's trials by number.
            asking: The trial to leave out.
            names: Parameters that a proposal must have for its fits to be of use.
            constraints: Names of the constraints; only with the same ones are their fits of use.
        """
        latest: dict[str, tuple[Any, ...]] = {}
        n_read = 0
        rest = self._all.rest(trials)
        for trial in chain(reversed(rest), reversed(self._all.stored)):
            if trial.number == asking.number or not is_stored(trial.system_attrs):
                continue
            n_read += 1
            if n_read > _MAX_RECORDS:
                break
            proposal = Proposal.from_attributes(trial.system_attrs)
            if proposal is None or proposal.loss is None or proposal.loss in latest:
                continue
            if proposal.fits and set(proposal.params) == names:
                same = proposal.constraints == constraints
                latest[proposal.loss] = proposal.fits if same else proposal.fits[:1]
        return latest

    def n_unreadable(self, trials: Sequence[FrozenTrial]) -> int:
        """Return how many finished trials have a proposal that cannot be read.

        That of a trial that is running may be half written.
        """
        rest = self._all.rest(trials)
        said = [self._said(trial) for trial in rest if trial.state.is_finished()]
        return self._all.n_unreadable + sum(row.is_stored and not row.is_readable for row in said)

    def past(
        self, trials: Sequence[FrozenTrial], asking: FrozenTrial, values: Mapping[int, float]
    ) -> Past:
        """Return the arms, values and expectations of all trials but the asking one.

        Args:
            trials: The study's trials by number.
            asking: The trial to leave out.
            values: Maximized value by trial number, where there is one that counts.
        """
        rest = [
            trial
            for trial in self._counted.rest(trials)
            if trial.number != asking.number and trial.state is not TrialState.WAITING
        ]
        n_settled = len(self._counted.numbers)
        numbers = [*self._counted.numbers, *(trial.number for trial in rest)]
        said = [*self._counted.said, *map(self._said, rest)]
        finished = [True] * n_settled + [trial.state.is_finished() for trial in rest]
        table = TrialTable(
            numbers=np.array(numbers, dtype=np.int64),
            arms=np.array([row.arm for row in said], dtype=np.int64),
            finished=np.array(finished, dtype=np.bool_),
            values=np.array([values.get(n, math.nan) for n in numbers], dtype=np.float64),
        )
        gains = np.array([row.expected_gain for row in said], dtype=np.float64)
        return Past(trials=table, expected_gains=gains)

    def _said(self, trial: FrozenTrial) -> _Said:
        known = self._known.get(trial.number)
        if known is not None and known.finished_at == trial.datetime_complete:
            return known
        said = _read(trial)
        if trial.datetime_complete is not None:
            self._known[trial.number] = said
        return said


def _read(trial: FrozenTrial) -> _Said:
    proposal = Proposal.from_attributes(trial.system_attrs)
    stored, readable = is_stored(trial.system_attrs), proposal is not None
    # A retried trial inherits the record of the one it repeats, which counts already.
    if proposal is None or "retry_history" in trial.system_attrs:
        return _Said(trial.datetime_complete, is_stored=stored, is_readable=readable)
    return _Said(
        trial.datetime_complete,
        NO_ARM if proposal.arm is None else ARMS.index(proposal.arm),
        math.nan if proposal.expected_gain is None else float(proposal.expected_gain),
        stored,
        readable,
    )
