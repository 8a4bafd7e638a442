"""One suggestion runs through few files, so that a reader can follow it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
import pytest

import bbo_plugins
from bbo_plugins.optuna import BBOSampler, BILBOSampler, GOUCBSampler, UHEBOSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler
    from optuna.trial import Trial

PACKAGE = str(Path(bbo_plugins.__file__).parent)
MOST = 23


def plain(trial: Trial) -> float:
    """Suggest a parameter of each kind."""
    kind = trial.suggest_categorical("kind", ["a", "b"])
    x, n = trial.suggest_float("x", 0.0, 1.0), trial.suggest_int("n", 1, 5)
    return (x - 0.3) ** 2 + (n - 2) ** 2 + 0.1 * (kind == "a")


def bilevel(trial: Trial) -> float:
    """Return the function that is asked for."""
    query = trial.suggest_categorical("query", ["upper", "lower"])
    x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
    return (x - 0.3) ** 2 + (z - 0.5) ** 2 if query == "upper" else (z - x) ** 2


@pytest.mark.parametrize(
    "sampler, objective",
    [
        (UHEBOSampler(n_startup_trials=6, seed=1), plain),
        (GOUCBSampler(n_startup_trials=6, hidden_units=5, seed=1), plain),
        (BBOSampler(n_startup_trials=6, seed=1), plain),
        (BILBOSampler(["x"], ["z"], n_startup_trials=6, seed=1), bilevel),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_suggestion_runs_through_few_files(
    sampler: BaseSampler, objective: Callable[[Trial], float]
) -> None:
    """In a study with nothing special about it; both models of BBOSampler have a turn."""
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=9)  # which has imported all
    for _ in range(3):
        files: set[str] = set()

        def note(frame: Any, event: str, _: Any, files: set[str] = files) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
                files.add(frame.f_code.co_filename)

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            trial = study.ask()
            value = objective(trial)
        finally:
            sys.setprofile(before)
        study.tell(trial, value)
        assert 1 < len(files) <= MOST, sorted(files)
