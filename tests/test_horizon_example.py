"""The example of the growing horizon, run the way a user runs it: as a script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import optuna
import pytest

from bbo_plugins.optuna import continued_from
from bbo_plugins.optuna.continuations import steps_of
from tests.example_scripts import run_example

if TYPE_CHECKING:
    from pathlib import Path


def test_second_run_goes_on_with_the_first(tmp_path: Path) -> None:
    """Stopped after some trials, the study spends the rest of its steps, and then is finished."""
    arguments = ("--total-steps", "120", "--seed", "4")
    first = run_example("horizon_optuna", tmp_path, "--n-trials", "7", *arguments)
    assert first.returncode == 0, first.stderr
    assert "0 trials stored" in first.stdout
    assert "is to be continued to" in first.stderr
    assert (tmp_path / "result" / "horizon.png").stat().st_size > 10_000
    second = run_example("horizon_optuna", tmp_path, *arguments)
    assert second.returncode == 0, second.stderr
    assert "7 trials stored" in second.stdout
    storage = f"sqlite:///{tmp_path / 'result' / 'horizon.db'}"
    study = optuna.load_study(study_name="digits, seed 4", storage=storage)
    trials = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    assert sum(len(steps_of(trial) or ()) for trial in trials) == 120
    n_continued = sum(continued_from(trial) is not None for trial in trials)
    assert n_continued > 0
    counts = f"{len(trials) - n_continued} configurations, {n_continued} continuations"
    assert counts in second.stdout
    (images,) = re.findall(r"Best: trial \d+, (\d+) images in all", second.stdout)
    best = steps_of(study.best_trial)
    assert best is not None
    assert int(images) == 16 * best.stop


@pytest.mark.parametrize("number", ["0", "many"])
def test_impossible_budget_is_refused(tmp_path: Path, number: str) -> None:
    """A budget without steps is a usage error, and nothing is written."""
    run = run_example("horizon_optuna", tmp_path, "--total-steps", number)
    assert run.returncode == 2
    assert "--total-steps" in run.stderr
    assert not (tmp_path / "result").exists()
