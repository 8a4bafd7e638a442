"""RegretGapTerminator when several workers run at once, in threads or processes."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from bbo_plugins.methods.regret_gap import algorithm as stopping
from bbo_plugins.optuna import RegretGapTerminator, UHEBOSampler
from bbo_plugins.optuna.stopping.progress import StoredRecords
from tests.optuna.stopping.studies import add_all, converging, expected_records, new_study

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.study import Study
    from optuna.trial import Trial


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List the numbers of completions that records are made of, in any thread of this process."""
    numbers: list[int] = []
    evaluate = stopping.evaluate

    def counted(space: Any, X: Any, y: Any, **options: Any) -> stopping.Evaluation:
        numbers.append(len(y))
        return evaluate(space, X, y, **options)

    monkeypatch.setattr(stopping, "evaluate", counted)
    return numbers


def _objective(trial: Trial) -> float:
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    time.sleep(0.001 * (trial.number % 4))  # so that trials do not finish in their order
    return (x - 0.4) ** 2 + (y - 0.7) ** 2


def _places(study: Study, terminator: RegretGapTerminator) -> list[int]:
    """Return the trials in the order in which they have been recorded."""
    return [stored.number for stored in StoredRecords.read(study, terminator.settings).records]


@pytest.mark.parametrize("sampler", [None, UHEBOSampler(n_startup_trials=6, seed=0)])
def test_threads_share_a_terminator(sampler: Any, made: list[int]) -> None:
    """Each completion gets one record, made once, in an order in which they may have completed."""
    study = new_study(sampler=sampler or optuna.samplers.RandomSampler(seed=1))
    terminator = RegretGapTerminator(min_n_trials=1_000)
    study.optimize(_objective, n_trials=24, n_jobs=4, callbacks=[terminator])
    assert [record.n_trials for record in terminator.history(study)] == list(range(1, 25))
    assert made == list(range(1, 25))
    assert sorted(_places(study, terminator)) == list(range(24))


def test_others_read_what_one_has_recorded(made: list[int]) -> None:
    """A second worker makes no record that is there already, and gets the very same."""
    X, values = converging(12)
    study = new_study()
    first, second = RegretGapTerminator(), RegretGapTerminator()
    for index in range(12):
        add_all(study, X[[index]], values[[index]])
        (first if index % 2 else second).evaluate(study)
    history = first.history(study)
    assert first.evaluate(study) == second.evaluate(study) == history[-1]
    assert made == list(range(1, 13))
    assert history == expected_records(X, values)


WORKER = """
import sys, warnings
warnings.simplefilter("ignore")
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from bbo_plugins.optuna import RegretGapTerminator
optuna.logging.set_verbosity(optuna.logging.ERROR)
path, seed = sys.argv[1:]
study = optuna.load_study(
    study_name="s",
    storage=JournalStorage(JournalFileBackend(path)),
    sampler=optuna.samplers.TPESampler(seed=int(seed)),
)
def objective(trial):
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    return (x - 0.4) ** 2 + (y - 0.7) ** 2
terminator = RegretGapTerminator(min_n_trials=20, patience=2, eta=0.6)
study.optimize(objective, n_trials=200, callbacks=[terminator])
"""


def test_processes_share_a_storage(tmp_path: Path) -> None:
    """Two processes: one record per completion, and the stop that one finds ends both."""
    path = str(tmp_path / "journal.log")
    study = new_study(JournalStorage(JournalFileBackend(path)), study_name="s")
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, path, seed]) for seed in "12"]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    terminator = RegretGapTerminator(min_n_trials=20, patience=2, eta=0.6)
    terminator.evaluate(study)  # what one has overwritten of the other is made again
    history = terminator.history(study)
    n = len(study.get_trials(deepcopy=False))
    assert 20 <= n < 200  # each of them would have run 200
    assert [record.n_trials for record in history] == list(range(1, n + 1))
    assert sorted(_places(study, terminator)) == list(range(n))
    assert any(record.terminate for record in history)
