"""What is recorded of trials that continue one another, and how it is read."""

from __future__ import annotations

import math
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial

from bbo_plugins.optuna.study.continuations import (
    CONTINUED_FROM,
    STEPS,
    STEPS_MADE,
    continued_from,
    first_trials,
    steps_of,
    steps_taken,
)


@pytest.mark.parametrize(
    "attributes, source, steps, taken",
    [
        ({CONTINUED_FROM: 0, STEPS: [2, 5]}, 0, range(2, 5), 3),
        ({CONTINUED_FROM: 1, STEPS: [2]}, None, None, 0),  # itself
        ({CONTINUED_FROM: 7, STEPS: [2, 5, 8]}, None, None, 0),  # a later one
        ({CONTINUED_FROM: False, STEPS: [False, 5]}, None, None, 0),
        ({CONTINUED_FROM: "0", STEPS: "25"}, None, None, 0),
        ({CONTINUED_FROM: -1, STEPS: [-2, 5]}, None, None, 0),
        ({CONTINUED_FROM: 2**60, STEPS: [2, 10**400]}, None, None, 0),
        ({STEPS: [2, "5"]}, None, None, 0),
        ({STEPS: [2, 5], STEPS_MADE: 4}, None, range(2, 5), 2),
        ({STEPS: [2, 5], STEPS_MADE: 1}, None, range(2, 5), 0),
    ],
)
def test_what_is_malformed_is_not_there(
    attributes: dict[str, Any], source: int | None, steps: range | None, taken: int
) -> None:
    """Any program may write attributes of these names."""
    study = optuna.create_study()
    for one in ({}, attributes):
        study.add_trial(
            create_trial(
                value=1.0,
                params={"x": 0.5},
                distributions={"x": FloatDistribution(0.0, 1.0)},
                user_attrs=one,
            )
        )
    trial = study.trials[1]
    assert continued_from(trial) == source
    assert steps_of(trial) == steps
    assert steps_taken(trial) == taken
    assert first_trials(study.trials) == ({} if source is None else {1: source})


@pytest.mark.parametrize("state", [TrialState.PRUNED, TrialState.FAIL])
@pytest.mark.parametrize("last, taken", [(None, 3), (3, 2), (0, 0), (9, 3)])
def test_one_that_was_cut_off_has_made_the_steps_that_it_reported(
    state: TrialState, last: int | None, taken: int
) -> None:
    """No fewer than none, and no more than it was to make."""
    reported = {} if last is None else {last: 1.0}
    trial = create_trial(state=state, intermediate_values=reported, user_attrs={STEPS: [2, 5]})
    assert steps_taken(trial) == taken


def test_steps_that_a_retried_trial_inherits_are_not_its_own() -> None:
    """It runs and will make all of its steps, where the failed one had made one."""
    study = optuna.create_study()
    inherited = {STEPS: [2, 5], STEPS_MADE: 3}
    study.add_trial(create_trial(state=TrialState.WAITING, user_attrs=inherited))
    assert steps_taken(study.trials[0]) == 0
    study.ask()
    assert steps_taken(study.trials[0]) == 3


def test_a_choice_may_be_nan() -> None:
    """NaN is not equal to itself, but it is the same choice."""
    study = optuna.create_study()
    for attributes in ({}, {CONTINUED_FROM: 0}):
        study.add_trial(
            create_trial(
                value=1.0,
                params={"c": float("nan")},
                distributions={"c": CategoricalDistribution([math.nan, 1.0])},
                user_attrs=attributes,
            )
        )
    assert first_trials(study.trials) == {1: 0}
