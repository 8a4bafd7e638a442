"""The completions of a study and the records of them: read back, and kept up to date.

:class:`StoredRecords` holds the records that a terminator has stored with a study;
:class:`StudyProgress` holds the part of them that one terminator knows already.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bbo_plugins.optuna.stopping.completions import (
    CompletedTrials,
    Completion,
    LearnedSpace,
    completions_of,
    in_order,
    latest_of,
)
from bbo_plugins.optuna.stopping.records import (
    CAPACITY,
    Settings,
    StoredRecord,
    records_of,
    store_record,
    store_settings,
    stored_settings,
    stored_warm_start,
)
from bbo_plugins.optuna.study.storage import study_attributes
from bbo_plugins.optuna.study.trials import Once, TrialReader, signs_of

if TYPE_CHECKING:
    from optuna.study import Study

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.methods.regret_gap.rule import StoppingRecord


@dataclass(frozen=True)
class StoredRecords:
    """The records that a terminator has left, and the values they are about.

    Attributes:
        settings: The terminator's.
        records: Its records, the oldest first.
        values: Values of all complete trials in the order of completion, as the objective returned
            them: a record of n trials is about the first n. Trials that continue one another are
            one of these trials, with the value after the longest training: a record made before
            that knew an earlier one.
    """

    settings: Settings
    records: tuple[StoredRecord, ...]
    values: tuple[float, ...]

    @classmethod
    def read(cls, study: Study, settings: Settings) -> StoredRecords:
        """Read the records of a terminator with these settings; there may be none."""
        progress = StudyProgress(settings)
        progress.read_trials(study)
        progress.read_records(study)
        (sign,) = signs_of(study)  # the values are those of the objective
        values = tuple(sign * latest_of(completion).value for completion in progress.order)
        return cls(settings, tuple(progress.records.values()), values)

    @classmethod
    def read_all(cls, study: Study) -> list[StoredRecords]:
        """Read the records of each terminator, those of the one that has come furthest last."""
        found = [cls.read(study, settings) for settings in stored_settings(study_attributes(study))]
        return sorted(
            (stored for stored in found if stored.records),
            key=lambda stored: (stored.records[-1].record.n_trials, len(stored.records)),
        )


class StudyProgress:
    """The completions of one study and the records that have been made of them.

    Only a cache: all of it is in the storage.

    Args:
        settings: The terminator's.
        once: The messages about this study that have been given; None for none.

    Attributes:
        lock: To be held while anything else here is used.
        once: The messages about this study that have been given.
        order: The completions in their order.
        n_seen: How many of them a worker here had looked at before; infinite at the first look.
        n_latest: How many there were at the latest look; infinite before the first one.
        records: Records by the number of completions, in that order.
        warm_start: State from which the next fit may start.
        has_read_records: Whether those that are stored have been read.
    """

    def __init__(self, settings: Settings, *, once: Once | None = None) -> None:
        """Start with nothing read."""
        self.lock = threading.Lock()
        self.once = once or Once()
        self._settings = settings
        self._reader = TrialReader()
        self._forget(0)

    def _forget(self, generation: int) -> None:
        self._generation = generation
        self._space = LearnedSpace()
        self._n_complete = 0
        self.order: tuple[Completion, ...] = ()
        self.n_seen = self.n_latest = math.inf
        self.records: dict[int, StoredRecord] = {}
        self.warm_start: WarmStart | None = None
        self.has_read_records = False
        self._settings_are_stored = False

    def read_trials(self, study: Study) -> None:
        """Bring :attr:`order` up to date; forget all if this is another study by now."""
        trials = self._reader.read(study)
        if self._generation != trials.generation:
            if self._generation:  # another study by now
                self.once.forget()
            self._forget(trials.generation)
        n_complete = sum(row.complete for row in trials.rows)
        if n_complete != self._n_complete:
            self._n_complete = n_complete
            self._put_in_order(completions_of(trials))

    def _put_in_order(self, complete: dict[int, Completion]) -> None:
        places = {n: stored.number for n, stored in self.records.items()}
        self.order = in_order(complete, places)

    def read_records(self, study: Study) -> None:
        """Take over the records that workers have stored."""
        attributes = study_attributes(study)
        self.has_read_records = True
        self._settings_are_stored = attributes.get(self._settings.key) == self._settings.content
        complete = {completion[0].number: completion for completion in self.order}
        self.records = records_of(attributes, self._settings, complete)
        self.warm_start = stored_warm_start(attributes, self._settings) or self.warm_start
        self._put_in_order(complete)

    def completed(self, n: int) -> CompletedTrials | None:
        """Return the first ``n`` completions; None if there is no parameter."""
        return CompletedTrials.of(self.order[:n], self._space)

    def before(self, n: int) -> list[StoppingRecord]:
        """Return the records of earlier completions than the ``n``-th, the oldest first."""
        return [stored.record for m, stored in self.records.items() if m < n]

    def add(self, study: Study, stored: StoredRecord) -> None:
        """Keep and store a record."""
        if not self._settings_are_stored:
            store_settings(study, self._settings)
            self._settings_are_stored = True
        store_record(study, self._settings, stored)
        n = stored.record.n_trials
        self.records.pop(n - CAPACITY, None)  # as in the storage
        self.records = dict(sorted({**self.records, n: stored}.items()))

    def final(self, number: int, started: float) -> StoredRecord | None:
        """Return the first record that ends the study for a worker.

        Args:
            number: The worker's trial.
            started: When it began, in seconds. Records of earlier completions did not keep the
                study from going on, so they are no reason to end it now. Those of completions that
                nobody here has seen are: they may be of the time between the last look and this
                trial's beginning.
        """
        for n, stored in self.records.items():
            is_since = n > self.n_seen or self.order[n - 1][0].finished_at > started
            if stored.record.terminate and (is_since or stored.number == number):
                return stored
        return None
