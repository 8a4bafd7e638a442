"""How far the records of one study have come, as far as one terminator knows.

What terminators have stored with a study, read back: nothing is computed or written.
"""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.optuna.messages import Once
from bbo_plugins.optuna.stopping.completions import (
    Completion,
    Observed,
    StudyCompletions,
    continued,
    in_order,
)
from bbo_plugins.optuna.stopping.records import (
    CAPACITY,
    Settings,
    StoredRecord,
    attributes_of,
    n_unreadable,
    records_of,
    store_record,
    store_settings,
    store_warm_start,
    stored_settings,
    stored_warm_start,
)
from bbo_plugins.optuna.study.trials import sign_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study

    from bbo_plugins.methods.regret_gap.rule import StoppingRecord


@dataclass(frozen=True)
class StoppingHistory:
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


def history_of(study: Study, settings: Settings) -> StoppingHistory:
    """Return what a terminator with these settings has stored; there may be no records."""
    completions = StudyCompletions()
    complete, _ = completions.read(study)
    records = records_of(attributes_of(study), settings, complete)
    order = in_order(complete, {n: stored.number for n, stored in records.items()})
    sign = sign_of(study)  # the values are those of the objective
    values = tuple(sign * completion.trial.value for completion in completions.latest(order))
    return StoppingHistory(settings, tuple(records.values()), values)


def histories_of(study: Study) -> list[StoppingHistory]:
    """Return what each terminator has stored, the one that has come furthest last."""
    histories = [history_of(study, settings) for settings in stored_settings(attributes_of(study))]
    return sorted(
        (history for history in histories if history.records),
        key=lambda history: (history.records[-1].record.n_trials, len(history.records)),
    )


_logger = logging.getLogger(__name__)


_IN_THE_MAKING = 1.0  # seconds from a trial's end to its record, at most


class StudyProgress:
    """The completions of one study and the records that have been made of them.

    Only a cache: all of it is in the storage.

    Attributes:
        lock: To be held while anything else here is used.
        once: What has been said about this study.
        order: The completions in their order, continuations not among them.
        n_seen: How many of them a worker here has looked at; infinite before the first look.
        records: Records by the number of completions, in that order.
        warm_start: What the next fit may start from.
    """

    def __init__(self) -> None:
        """Start with nothing read."""
        self.lock = threading.Lock()
        self._completions = StudyCompletions()
        self._forget()

    def _forget(self) -> None:
        self.once = Once()
        self.order: tuple[Completion, ...] = ()
        self.n_seen = math.inf
        self.records: dict[int, StoredRecord] = {}
        self.warm_start: WarmStart | None = None
        self._stored_form: dict[str, Any] | None = None
        self._settings_are_stored = False

    def read_trials(self, study: Study) -> None:
        """Bring :attr:`order` up to date; forget all if this is another study by now."""
        complete, same = self._completions.read(study)
        if not same:
            self._forget()
        if len(complete) > len(self.order):
            self.order = continued(self.order, complete)

    def read_records(
        self, study: Study, settings: Settings, missing: Sequence[int] | None = None
    ) -> None:
        """Take over what other workers have recorded: what is ``missing``, or all that there is."""
        attributes = attributes_of(study)
        complete = {completion.number: completion for completion in self.order}
        n_known = len(self.records)
        if missing is None and (n_damaged := n_unreadable(attributes, settings)):
            _logger.warning(
                "RegretGapTerminator: %d of the study's attributes that it has stored cannot be "
                "read and are ignored; what is needed of them is made again.",
                n_damaged,
            )
        self._settings_are_stored = attributes.get(settings.key) == settings.content
        self.records = records_of(attributes, settings, complete, self.records, missing)
        if len(self.records) > n_known:
            self.warm_start = stored_warm_start(attributes, settings)
            places = {n: stored.number for n, stored in self.records.items()}
            self.order = in_order(complete, places)

    def observed(self, n: int) -> Observed | None:
        """Return the first ``n`` completions; None if they share no parameter."""
        return self._completions.observed(self.order[:n])

    def before(self, n: int) -> list[StoppingRecord]:
        """Return the records of earlier completions than the ``n``-th, the oldest first."""
        return [stored.record for m, stored in self.records.items() if m < n]

    def add(self, study: Study, settings: Settings, stored: StoredRecord) -> None:
        """Keep and store a record."""
        if not self._settings_are_stored:
            store_settings(study, settings)
            self._settings_are_stored = True
        store_record(study, settings, stored)
        is_latest = stored.record.n_trials > max(self.records, default=0)
        self.records[stored.record.n_trials] = stored
        self.records.pop(stored.record.n_trials - CAPACITY, None)  # as in the storage
        if not is_latest:
            self.records = dict(sorted(self.records.items()))

    def keep_warm_start(self, left: WarmStart) -> None:
        """Keep what a fit has left, just as another worker will read it, to be stored later on."""
        self._stored_form = left.to_json()
        self.warm_start = WarmStart.from_json(self._stored_form)

    def store_warm_start(self, study: Study, settings: Settings, n: int) -> None:
        """Store what has been kept, if anything, after the ``n``-th completion."""
        if self._stored_form is not None:
            store_warm_start(study, settings, n, self._stored_form)
            self._stored_form = None

    def final(self, number: int, started_at: float) -> StoredRecord | None:
        """Return the first record that ends the study for a worker.

        Args:
            number: The worker's trial.
            started_at: When it began: what was recorded of earlier completions did not keep the
                study from going on, so it is no reason to end it now. Of those that nobody here has
                seen, the record may still have been in the making by then, and does count.
        """
        for n, stored in self.records.items():
            since = started_at - _IN_THE_MAKING if n > self.n_seen else started_at
            if stored.record.terminate and (
                stored.number == number or self.order[n - 1].finished_at > since
            ):
                return stored
        return None
