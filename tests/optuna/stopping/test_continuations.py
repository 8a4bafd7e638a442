"""RegretGapTerminator where trials continue one another: each configuration counts once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna import PromotionCallback, RegretGapTerminator, UHEBOSampler, inner_steps
from bbo_plugins.optuna.stopping.cross_validation import report_cross_validation_scores
from bbo_plugins.optuna.stopping.progress import StoredRecords
from bbo_plugins.optuna.study.continuations import CONTINUED_FROM, first_trials
from tests.optuna.stopping.studies import (
    add,
    assert_same,
    completed_in,
    converging,
    new_study,
    records_of_steps,
)

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial

X, VALUES = converging(14)
# What completes, in order: a new configuration, or (configuration, value) of a continuation.
EVENTS: list[int | tuple[int, float]] = [
    *range(4),
    (1, 0.05),
    (3, 0.30),
    *range(4, 9),
    (1, 0.01),  # continues the continuation
    (5, 0.02),
    (5, 0.21),  # worse again, but trained longer
    *range(9, 14),
    (13, 0.001),  # nothing comes after it
]


def _add(study: Study, event: int | tuple[int, float], latest: dict[int, int]) -> None:
    """Add a trial; ``latest`` holds the number of each configuration's latest one."""
    index, value = event if isinstance(event, tuple) else (event, float(VALUES[event]))
    attributes = {CONTINUED_FROM: latest[index]} if isinstance(event, tuple) else {}
    params = dict(zip("xy", X[index].tolist(), strict=True))
    add(study, params, value, user_attrs=attributes)
    latest[index] = len(study.trials) - 1


@pytest.mark.parametrize("keeps_up", [True, False])
def test_records_are_of_configurations_with_the_values_they_had_by_then(*, keeps_up: bool) -> None:
    """One record for each of 14, made of the longest training so far, whenever it is asked."""
    terminator = RegretGapTerminator()
    study, latest = new_study(), dict[int, int]()
    values: dict[int, float] = {}
    steps = []
    for event in EVENTS:
        _add(study, event, latest)
        if keeps_up:
            terminator(study, study.trials[-1])
        if isinstance(event, tuple):
            values[event[0]] = event[1]
        else:
            values[event] = float(VALUES[event])
            steps.append(np.array([values[index] for index in range(event + 1)]))
    assert terminator.evaluate(study).n_trials == 14
    assert_same(terminator.history(study), records_of_steps(X, steps, terminator.settings.rule))
    stored = StoredRecords.read(study, terminator.settings)
    assert stored.values == tuple(values[index] for index in range(14))


def test_continuations_are_no_completions_in_a_row() -> None:
    """Patience, the least number of trials and the decision are about configurations."""
    study, latest = new_study(), dict[int, int]()
    for event in (*range(6), *((index, float(VALUES[index])) for index in range(6))):
        _add(study, event, latest)
    # Any value is at most this threshold from the second completion on.
    rule: dict[str, Any] = {"threshold": 1e9, "patience": 3, "min_n_trials": 7}
    assert not RegretGapTerminator(**rule).should_terminate(study)
    assert RegretGapTerminator(**{**rule, "min_n_trials": 6}).should_terminate(study)
    assert not RegretGapTerminator(**{**rule, "min_n_trials": 2, "patience": 6}).should_terminate(
        study
    )


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_scores_of_the_longest_training_count(direction: Any) -> None:
    """Cross-validation scores are those of the trial whose value is the best."""
    study = new_study(direction=direction)
    value = -1.0 if direction == "minimize" else 1.0
    for source, quality in ((None, 1.0), (0, 2.0), (None, 1.5)):
        attributes = {} if source is None else {CONTINUED_FROM: source}
        study.enqueue_trial({"x": 0.5}, user_attrs=attributes)
        trial = study.ask()
        trial.suggest_float("x", 0.0, 1.0)
        report_cross_validation_scores(trial, [0.1, 0.2 + trial.number])
        study.tell(trial, value * quality)
    completed = completed_in(study)
    assert completed.best_scores == (0.1, 1.2)
    assert completed.y.tolist() == [2.0, 1.5]


def test_growing_search_is_stopped_by_its_configurations() -> None:
    """Terminator and promotion together: a record per configuration, and one of them ends it."""
    horizon = InnerHorizon.growing(constant=1.0)

    def objective(trial: Trial) -> float:
        x, y = (trial.suggest_float(name, 0.0, 1.0) for name in "xy")
        return (x - 0.4) ** 2 + (y - 0.4) ** 2 + 1.0 / inner_steps(trial, horizon).stop

    terminator = RegretGapTerminator(threshold=0.05, min_n_trials=8)
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=5, seed=0))
    study.optimize(objective, n_trials=90, callbacks=[terminator, PromotionCallback(horizon)])
    trials = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
    n = len(trials) - sum(t.number in first_trials(study.trials) for t in trials)
    records = terminator.history(study)
    assert [record.n_trials for record in records] == list(range(1, n + 1))
    assert 8 <= n <= len(trials) < 90
    assert records[-1].terminate
