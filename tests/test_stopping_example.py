"""The example of stopping, run the way a user runs it: as a script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import optuna
import pytest

from bbo_plugins.methods.stopping import StoppingRecord
from bbo_plugins.optuna import RegretGapTerminator
from bbo_plugins.optuna.stopping_records import StoredRecord, store_record, store_settings
from tests.example_scripts import run_example

if TYPE_CHECKING:
    from pathlib import Path

SPACE: dict[str, optuna.distributions.BaseDistribution] = {
    "alpha": optuna.distributions.FloatDistribution(1e-6, 1e-1, log=True),
    "eta0": optuna.distributions.FloatDistribution(1e-2, 10.0, log=True),
    "power_t": optuna.distributions.FloatDistribution(0.0, 0.75),
}


def test_second_run_resumes_the_first(tmp_path: Path) -> None:
    """Too small a budget for a stop: the study says so, is stored with its records, and resumed."""
    first = run_example("stopping", tmp_path, "--n-trials", "3", "--seed", "4")
    assert first.returncode == 0, first.stderr
    assert "0 trials stored, 3 to run" in first.stdout
    assert "did not stop by itself within 3 trials" in first.stdout
    assert (tmp_path / "result" / "regret_gap.png").stat().st_size > 10_000
    second = run_example("stopping", tmp_path, "--n-trials", "4", "--seed", "4")
    assert second.returncode == 0, second.stderr
    assert "3 trials stored, 1 to run" in second.stdout
    storage = f"sqlite:///{tmp_path / 'result' / 'stopping.db'}"
    study = optuna.load_study(study_name="digits, seed 4", storage=storage)
    assert len(RegretGapTerminator().history(study)) == len(study.trials) == 4


def test_stop_is_reported_and_what_it_cost(tmp_path: Path) -> None:
    """A stored study that stopped after 2 of 3 trials: the third is run to compare with."""
    folder = tmp_path / "result"
    folder.mkdir()
    storage = f"sqlite:///{folder / 'stopping.db'}"
    study = optuna.create_study(study_name="digits, seed 0", storage=storage, direction="maximize")
    settings = RegretGapTerminator().settings
    store_settings(study, settings)
    for n, value in ((1, 0.5), (2, 0.4)):
        params = {"alpha": 1e-4, "eta0": 0.1 * n, "power_t": 0.3}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=SPACE, value=value))
        record = StoppingRecord(n_trials=n, value=0.1, threshold=0.2, terms={}, terminate=n == 2)
        store_record(study, settings, StoredRecord(n - 1, record))
    run = run_example("stopping", tmp_path, "--n-trials", "3")
    assert run.returncode == 0, run.stderr
    assert "Spending the other 1 trials" in run.stdout
    assert "Stopped by itself after 2 of 3 trials." in run.stdout
    assert "Trials saved: 1 (33%)" in run.stdout
    rows = dict(re.findall(r"^(best of .*?)  +\S+ +(0\.\d{4})$", run.stdout, flags=re.MULTILINE))
    (regret,) = re.findall(r"Regret against the full budget, on fresh folds: (\S+)", run.stdout)
    assert set(rows) == {"best of all 3 trials", "best of the first 2"}
    difference = float(rows["best of all 3 trials"]) - float(rows["best of the first 2"])
    assert float(regret) == pytest.approx(difference, abs=2e-4)


@pytest.mark.parametrize("number", ["0", "many"])
def test_impossible_budget_is_refused(tmp_path: Path, number: str) -> None:
    """A budget without trials is a usage error, and nothing is written."""
    run = run_example("stopping", tmp_path, "--n-trials", number)
    assert run.returncode == 2
    assert "--n-trials" in run.stderr
    assert not (tmp_path / "result").exists()
