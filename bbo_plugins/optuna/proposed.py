"""What a study's stored proposals say together: the fits to continue, and the arms pulled."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState

from bbo_plugins.methods.exp3 import NO_ARM, TrialTable
from bbo_plugins.methods.past import Past
from bbo_plugins.optuna.proposals import ARMS, Proposal, is_stored

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from optuna.trial import FrozenTrial

_MAX_RECORDS = 64  # stored proposals that are searched for a fit to continue


class Proposed:
    """The proposals of one study's trials; that of a finished trial is read once.

    Only a cache: all of it can be read from the study again. Not to be shared among threads.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self._known: dict[int, tuple[datetime, Proposal | None]] = {}

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
        for trial in reversed(trials):
            if trial.number == asking.number or not is_stored(trial.system_attrs):
                continue
            n_read += 1
            if n_read > _MAX_RECORDS:
                break
            proposal = self._of(trial)
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
        return sum(
            trial.state.is_finished() and is_stored(trial.system_attrs) and self._of(trial) is None
            for trial in trials
        )

    def past(
        self, trials: Sequence[FrozenTrial], asking: FrozenTrial, values: Mapping[int, float]
    ) -> Past:
        """Return the arms, values and expectations of all trials but the asking one.

        Args:
            trials: The study's trials by number.
            asking: The trial to leave out.
            values: Maximized value by trial number, where there is one that counts.
        """
        others = [
            trial
            for trial in trials
            if trial.number != asking.number and trial.state is not TrialState.WAITING
        ]
        # A retried trial inherits the record of the one it repeats, which counts already.
        proposals = [None if "retry_history" in t.system_attrs else self._of(t) for t in others]
        arms = [NO_ARM if p is None or p.arm is None else ARMS.index(p.arm) for p in proposals]
        gains = [
            math.nan if p is None or p.expected_gain is None else p.expected_gain for p in proposals
        ]
        table = TrialTable(
            numbers=np.array([trial.number for trial in others], dtype=np.int64),
            arms=np.array(arms, dtype=np.int64),
            finished=np.array([trial.state.is_finished() for trial in others], dtype=np.bool_),
            values=np.array([values.get(t.number, math.nan) for t in others], dtype=np.float64),
        )
        return Past(trials=table, expected_gains=np.array(gains, dtype=np.float64))

    def _of(self, trial: FrozenTrial) -> Proposal | None:
        known = self._known.get(trial.number)
        if known is not None and known[0] == trial.datetime_complete:
            return known[1]
        proposal = Proposal.from_attributes(trial.system_attrs)
        if trial.datetime_complete is not None:
            self._known[trial.number] = (trial.datetime_complete, proposal)
        return proposal
