"""What a terminator stores: bounded, and keyed by its settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule
from bbo_plugins.optuna import RegretGapTerminator
from bbo_plugins.optuna.stopping.progress import StoredRecords
from bbo_plugins.optuna.stopping.records import (
    CAPACITY,
    Settings,
    StoredRecord,
    records_of,
    store_record,
)
from bbo_plugins.optuna.study.storage import study_attributes
from tests.optuna.stopping.studies import (
    PLANE,
    add_all,
    assert_same,
    converging,
    expected_records,
    new_study,
)

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.storages import BaseStorage
    from optuna.study import Study

SETTINGS = Settings(StoppingRule(), 0)
STORAGES = ("memory", "sqlite", "journal")


def _storage(kind: str, folder: Path) -> BaseStorage | str | None:
    if kind == "journal":
        return JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    return f"sqlite:///{folder / 'study.db'}" if kind == "sqlite" else None


def _set(study: Study, key: str, value: Any) -> None:
    study._storage.set_study_system_attr(study._study_id, key, value)


# ------------------------------------------------------------------------------------- round trips
@pytest.mark.parametrize("kind", STORAGES)
def test_restart_changes_nothing(kind: str, tmp_path: Path) -> None:
    """A new terminator on a reopened storage goes on just as the first would have."""
    X, values = converging(18)
    study = new_study(_storage(kind, tmp_path), study_name="s")
    for start in (0, 7, 11):
        storage = _storage(kind, tmp_path)
        if storage is not None:
            study = optuna.load_study(study_name="s", storage=storage)
        terminator = RegretGapTerminator()
        for index in range(start, {0: 7, 7: 11, 11: 18}[start]):
            add_all(study, X[[index]], values[[index]])
            terminator.evaluate(study)
    assert_same(terminator.history(study), expected_records(X, values))
    assert RegretGapTerminator().evaluate(study) == terminator.history(study)[-1]


# -------------------------------------------------------------------------------------------- size
@pytest.mark.parametrize("threshold", ["relative", "median"])
def test_size_is_bounded(threshold: Any) -> None:
    """The last 1,024 records are kept, each short; those that gave way are not made again."""
    study = new_study()
    add_all(study, np.full((1_030, 2), 0.5), np.ones(1_030))
    terminator = RegretGapTerminator(threshold=threshold)
    for n in range(1, 1_030):
        store_record(study, terminator.settings, StoredRecord(n - 1, StoppingRecord(n_trials=n)))
    assert terminator.evaluate(study).n_trials == 1_030
    assert [record.n_trials for record in terminator.history(study)] == list(range(7, 1_031))
    attributes = study_attributes(study)
    assert len(attributes) == CAPACITY + 1
    assert max(len(json.dumps(value)) for value in attributes.values()) < 1_000


@pytest.mark.parametrize(
    "slots, expected",
    [
        ([(1, 2), (2, 0)], {1: 2, 2: 0}),
        ([(1, 7), (4, 0)], {}),
        ([(3, 1), (2, 1), (1, 0)], {1: 0, 2: 1}),
    ],
)
def test_a_complete_trial_has_one_record(
    slots: list[tuple[int, int]], expected: dict[int, int]
) -> None:
    """Others do not count: of other trials, of more completions than there are, or a second one."""
    attributes = {
        f"{SETTINGS.key}:{slot}": StoredRecord(number, StoppingRecord(n_trials=n)).to_json()
        for slot, (n, number) in enumerate(slots)
    }
    found = records_of(attributes, SETTINGS, [0, 1, 2])
    assert {n: stored.number for n, stored in found.items()} == expected


# ---------------------------------------------------------------------------------------- settings
def test_other_settings_have_other_records() -> None:
    """Terminators share records only if all that the records depend on is the same."""
    X, values = converging(6)
    study = new_study()
    add_all(study, X, values)
    variants: list[dict[str, Any]] = [
        {},
        {"threshold": "median"},
        {"threshold": 1.0},
        {"threshold": 2.0},
        {"criterion": "regret-bound"},
        {"eta": 0.3},
        {"patience": 2},
        {"n_initial": 5},
        {"delta": 0.2},
        {"min_n_trials": 9},
        {"deterministic_objective": True},
        {"seed": 1},
    ]
    terminators = [RegretGapTerminator(**variant) for variant in variants]
    assert len({terminator.settings.key for terminator in terminators}) == len(variants)
    terminators[0].evaluate(study)
    assert [bool(terminator.history(study)) for terminator in terminators] == [True] + [False] * 11
    terminators[1].evaluate(study)
    assert len(terminators[0].history(study)) == len(terminators[1].history(study)) == 6
    assert len(StoredRecords.read_all(study)) == 2


def test_next_study_under_the_same_identifier(tmp_path: Path) -> None:
    """SQLite gives the identifier of a deleted study to the next: nothing of it is carried over."""
    X, values = converging(10)
    terminator = RegretGapTerminator()
    storage = optuna.storages.get_storage(f"sqlite:///{tmp_path / 'study.db'}")
    study = new_study(storage, study_name="s")
    add_all(study, X, values)
    terminator.evaluate(study)
    identifier = study._study_id
    optuna.delete_study(study_name="s", storage=storage)
    study = new_study(storage, study_name="s")
    assert study._study_id == identifier
    X, values = X[::-1], values[::-1] + 1.0
    for index in range(10):
        study.enqueue_trial(dict(zip("xy", X[index].tolist(), strict=True)))
        study.tell(study.ask(PLANE), float(values[index]))
        terminator.evaluate(study)
    assert_same(terminator.history(study), expected_records(X, values))
