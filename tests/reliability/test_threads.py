"""Sixty-four threads in one process, with one sampler and one terminator."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import TrialState

from tests.reliability.cases import ONE_QUICK, QUICK_SINGLE
from tests.reliability.front_door import (
    BILEVEL,
    assert_valid,
    is_modeled,
    sampler_of,
    space_in,
    terminator_of,
)
from tests.reliability.workers import objective

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.study import Study
    from optuna.trial import Trial

_PATIENCE = 280.0  # seconds until threads that wait for each other count as deadlocked
# Threads and trials.
SIZES = [(16, 32), pytest.param((64, 320), marks=pytest.mark.slow)]


def optimize(study: Study, function: Callable[[Trial], float], size: tuple[int, int]) -> None:
    """Run so many threads and trials; fail if they never end."""
    n_threads, n_trials = size
    terminator = terminator_of(threshold=1e-300)

    def work() -> None:
        study.optimize(function, n_trials=n_trials, n_jobs=n_threads, callbacks=[terminator])

    runner = threading.Thread(target=work, daemon=True)
    runner.start()
    runner.join(_PATIENCE)
    assert not runner.is_alive()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ONE_QUICK)
def test_many_threads(name: str, size: tuple[int, int]) -> None:
    """Every trial is complete and valid, no two are the same, and every record is there.

    The first one of each thread knows of no value, so that only the others can be modeled, all but
    a few of them.
    """
    n_threads, n_trials = size
    study = optuna.create_study(sampler=sampler_of(name))
    optimize(study, objective, size)
    trials = study.trials
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * n_trials
    for trial in trials:
        assert_valid(trial.params, space_in(study))
    # BILBO's best point is often a corner of the space, to which two of 64 may come at once.
    n_repeated = n_trials - len({tuple(trial.params.values()) for trial in trials})
    assert n_repeated <= (n_trials // 100 if name == BILEVEL else 0)
    assert sum(map(is_modeled, trials)) >= (n_trials - n_threads) // 2
    history = terminator_of(threshold=1e-300).history(study)
    assert len({record.n_trials for record in history}) == len(history) == n_trials


CHOICES = CategoricalDistribution(["a", "b", "c"])


@pytest.mark.parametrize("size", [(16, 12), pytest.param((64, 30), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", QUICK_SINGLE)
def test_many_threads_in_a_small_space(name: str, size: tuple[int, int]) -> None:
    """With a deterministic objective no point is tried twice before all have been tried."""
    n_threads, n_levels = size
    study = optuna.create_study(sampler=sampler_of(name, deterministic_objective=True))

    def value(trial: Trial) -> float:
        choice = trial._suggest("c", CHOICES)
        return float((trial.suggest_int("n", 1, n_levels) - 7) ** 2 + len(choice))

    n_points = 3 * n_levels
    optimize(study, value, (n_threads, n_points))
    assert len({tuple(trial.params.values()) for trial in study.trials}) == n_points
