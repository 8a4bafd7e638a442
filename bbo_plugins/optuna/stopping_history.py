"""What terminators have stored with a study, read back: nothing is computed or written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bbo_plugins.optuna.completions import StudyCompletions, in_order
from bbo_plugins.optuna.stopping_records import attributes_of, records_of, stored_settings

if TYPE_CHECKING:
    from optuna.study import Study

    from bbo_plugins.optuna.stopping_records import Settings, StoredRecord


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
    values = tuple(completion.trial.value for completion in completions.latest(order))
    return StoppingHistory(settings, tuple(records.values()), values)


def histories_of(study: Study) -> list[StoppingHistory]:
    """Return what each terminator has stored, the one that has come furthest last."""
    histories = [history_of(study, settings) for settings in stored_settings(attributes_of(study))]
    return sorted(
        (history for history in histories if history.records),
        key=lambda history: (history.records[-1].record.n_trials, len(history.records)),
    )
