"""The lock on a study: one worker at a time, whatever the storage."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from bbo_plugins.optuna.study import lock
from bbo_plugins.optuna.study.lock import LIFETIME, PREFIX, StudyLock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up after the second attempt."""
    monkeypatch.setattr(lock, "_N_ATTEMPTS", 2)


def _set(study: optuna.Study, name: str, value: Any) -> None:
    study._storage.set_study_system_attr(study._study_id, PREFIX + name, value)


@pytest.mark.usefixtures("impatient")
def test_lock_is_held_by_one_and_given_back() -> None:
    """A second worker does not get it until the first is done; an exception gives it back too."""
    study, first, second = optuna.create_study(), StudyLock(), StudyLock()
    with first.held(study) as got:
        assert got
        with second.held(study) as got_too, StudyLock().held(optuna.create_study()) as got_other:
            assert not got_too
            assert got_other  # another study, another lock
    with pytest.raises(KeyError), second.held(study) as got:
        raise KeyError(got)
    assert got
    with first.held(study) as got:
        assert got


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("claim, free", [(0.0, False), (-LIFETIME, True), (10 * LIFETIME, True)])
def test_claim_of_a_dead_worker_runs_out(claim: float, free: bool) -> None:
    """After a minute it counts no more; nor does one from a clock that is far ahead."""
    study = optuna.create_study()
    _set(study, "4711:dead", time.time() + claim)
    with StudyLock().held(study) as got:
        assert got == free


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("claim", ["soon", None, [1.0]])
def test_a_claim_that_is_no_time_is_none(claim: Any) -> None:
    """A storage may hold anything under a name."""
    study = optuna.create_study()
    _set(study, "4711:odd", claim)
    with StudyLock().held(study) as got:
        assert got


def test_a_dead_worker_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later attempts give up at once, unless it claims again."""
    monkeypatch.setattr(lock, "_PAUSE", 1e-6)
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    study, ours, began = optuna.create_study(), StudyLock(), time.time()
    _set(study, "4711:dead", began)
    for n_pauses in (11, 11):
        with ours.held(study) as got:
            assert not got
        assert len(pauses) == n_pauses
    _set(study, "4711:dead", began + 1.0)
    with ours.held(study) as got:
        assert not got
    assert len(pauses) == 22
    _set(study, "4711:dead", 0.0)
    with ours.held(study) as got:
        assert got


@pytest.mark.parametrize("kind", ["memory", "journal"])
def test_no_two_workers_are_inside_at_once(tmp_path: Path, kind: str) -> None:
    """Six workers, each with its own lock, count up a number that is read before it is written."""
    journal = JournalStorage(JournalFileBackend(str(tmp_path / "j.log")))
    study = optuna.create_study(storage=journal if kind == "journal" else None)
    entered: list[int] = []
    counter = [0]

    def work() -> None:
        lock = StudyLock()
        for _ in range(5):
            with lock.held(study) as got:
                if got:
                    before = counter[0]
                    time.sleep(0.002)
                    counter[0] = before + 1
                    entered.append(1)

    with ThreadPoolExecutor(6) as pool:
        pool.map(lambda _: work(), range(6))
    assert counter[0] == len(entered) >= 5
