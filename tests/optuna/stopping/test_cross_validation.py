"""Reported cross-validation scores: as Optuna's function reports them, and safe to read."""

from __future__ import annotations

import json
import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.trial import FixedTrial

from bbo_plugins.optuna import RegretGapTerminator, report_cross_validation_scores
from bbo_plugins.optuna.stopping.cross_validation import scores_of

if TYPE_CHECKING:
    from pathlib import Path


def _stored(trial: optuna.Trial) -> tuple[float, ...]:
    return scores_of(trial.study._storage.get_trial(trial._trial_id).system_attrs)


@pytest.mark.parametrize("url", [None, "sqlite"])
@pytest.mark.parametrize(
    "scores",
    [[0.5, 0.25], (1, 2, 3), np.array([0.1, 0.7, 0.3], dtype=np.float32), np.linspace(0, 1, 1000)],
)
def test_scores_come_back(scores: Any, url: str | None, tmp_path: Path) -> None:
    """Lists, tuples and arrays, in every storage, in attributes of at most 2,045 characters."""
    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 'study.db'}" if url else None)
    trial = study.ask()
    report_cross_validation_scores(trial, scores)
    assert _stored(trial) == tuple(float(score) for score in scores)
    attributes = study.trials[0].system_attrs.values()
    assert max(len(json.dumps(value)) for value in attributes) <= 2_045


def test_optunas_own_scores_are_read(tmp_path: Path) -> None:
    """Studies written with Optuna's function work, in memory (where arrays stay) and in SQLite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        terminator = pytest.importorskip("optuna.terminator")
        for storage in (None, f"sqlite:///{tmp_path / 'study.db'}"):
            study = optuna.create_study(storage=storage)
            trial = study.ask()
            scores = [0.5, 0.75, 1.0]
            terminator.report_cross_validation_scores(
                trial, np.array(scores) if storage is None else scores
            )
            assert _stored(trial) == (0.5, 0.75, 1.0)
    report_cross_validation_scores(trial, [1.0, 2.0])
    assert _stored(trial) == (1.0, 2.0)


def test_threshold_is_optunas_up_to_the_variance(tmp_path: Path) -> None:
    """Theirs divides by K instead of K - 1: ours is larger by the square root of their ratio."""
    del tmp_path
    study = optuna.create_study()
    scores = [0.5, 0.75, 1.0, 0.4]
    for value, reported in ((1.0, [5.0, 6.0]), (0.0, scores)):
        trial = study.ask()
        trial.suggest_float("x", 0.0, 1.0)
        report_cross_validation_scores(trial, reported)
        trial.study._storage.set_trial_system_attr(
            trial._trial_id, "terminator:cv_scores", reported
        )
        study.tell(trial, value)
    ours = RegretGapTerminator(threshold="cross-validation").evaluate(study).threshold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        terminator = pytest.importorskip("optuna.terminator")
        theirs = terminator.CrossValidationErrorEvaluator().evaluate(study.trials, study.direction)
    assert ours == pytest.approx(theirs * math.sqrt(4 / 3), rel=1e-12)


def test_finished_and_fixed_trials_are_left_alone() -> None:
    """An objective can be called again with its best trial, or with fixed parameters."""
    study = optuna.create_study()

    def objective(trial: Any) -> float:
        x = float(trial.suggest_float("x", 0.0, 1.0))
        report_cross_validation_scores(trial, [x, x + 1.0])
        return x

    study.optimize(objective, n_trials=1)
    before = study.best_trial.system_attrs
    assert objective(study.best_trial) == study.best_value
    assert objective(FixedTrial({"x": 0.5})) == 0.5
    assert study.best_trial.system_attrs == before


@pytest.mark.parametrize(
    "scores, error",
    [
        ([1.0], ValueError),
        ([1.0, math.nan], ValueError),
        ([1.0] * 4_097, ValueError),
        ([1.0, "2.0"], TypeError),
        ([[1.0, 2.0], [3.0, 4.0]], TypeError),
        (3.0, TypeError),
        ("12", TypeError),
        (b"12", TypeError),
    ],
)
def test_bad_scores_are_refused(scores: Any, error: type[Exception]) -> None:
    """With the argument and the rule; nothing is stored."""
    trial = optuna.create_study().ask()
    with pytest.raises(error, match="scores must be two to 4096 finite numbers, but got"):
        report_cross_validation_scores(trial, scores)
    assert trial.study.trials[0].system_attrs == {}


def test_a_number_is_no_trial() -> None:
    """The objective has to pass on the trial that it was called with."""
    not_a_trial: Any = 1
    with pytest.raises(TypeError, match="trial must be an Optuna trial, but got 1"):
        report_cross_validation_scores(not_a_trial, [1.0, 2.0])


@pytest.mark.parametrize(
    "stored", [[1.0], [1.0] * 4_097, np.ones(4_097), [1.0, "2"], [1.0, math.nan], "12", 3, None]
)
def test_what_is_no_scores_is_not_read(stored: Any) -> None:
    """Optuna's function checks nothing, and any program may write the attribute."""
    assert scores_of({"terminator:cv_scores": stored}) == ()
