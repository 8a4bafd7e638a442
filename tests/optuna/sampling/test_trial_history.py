"""What the stored proposals of a study say together: fits to continue, arms, expectations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from bbo_plugins.methods.observations import NO_ARM
from bbo_plugins.optuna.sampling.snapshot import StudyReader, latest_fits, trial_history
from bbo_plugins.optuna.study.constraints import store_constraints
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.optuna.study.trials import TrialReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.observations import TrialHistory

X = FloatDistribution(0.0, 10.0)
RANDOM, MODEL = "random", "model"


def record(**fields: Any) -> dict[str, str]:
    """Return the attributes of a proposal of one parameter."""
    return Proposal({"x": 1.0}, **fields).to_attributes()


def add(
    study: Study,
    attributes: Mapping[str, Any],
    state: TrialState = TrialState.RUNNING,
    value: float = 1.0,
) -> FrozenTrial:
    """Add a trial with these attributes, running unless told otherwise; return it."""
    study.add_trial(
        optuna.create_trial(
            state=state,
            value=value if state is TrialState.COMPLETE else None,
            params={"x": 1.0},
            distributions={"x": X},
            system_attrs=dict(attributes),
        )
    )
    return study.trials[-1]


def fits(study: Study) -> dict[str, Any]:
    """Return the fits that a new trial would continue."""
    return latest_fits(reversed(TrialReader().read(study).rows), ("x",))


def past(study: Study) -> TrialHistory:
    """Return what a new trial would be told."""
    asking = add(study, {})
    return trial_history(TrialReader().read(study), asking.number)


# -------------------------------------------------------------------------------------------- fits


def test_the_latest_fit_of_each_model_is_continued() -> None:
    """That of the highest-numbered trial, whether it has finished or not, whatever suggested it."""
    study = optuna.create_study()
    for criterion, stored, state in [
        ("A", {"A": "a1", "Failures": "f1"}, TrialState.COMPLETE),
        ("B", {"B": "b1", "Failures": "f2"}, TrialState.COMPLETE),
        ("A", {"A": "a2"}, TrialState.FAIL),
        ("A", {"A": "a3"}, TrialState.RUNNING),
        ("C", {"C": "c1"}, TrialState.PRUNED),
        (None, {}, TrialState.COMPLETE),
    ]:
        add(study, record(fits=stored, criterion=criterion), state)
    assert fits(study) == {"A": "a3", "B": "b1", "C": "c1", "Failures": "f2"}


def test_a_fit_that_a_retried_trial_inherits_is_not_the_latest() -> None:
    """It is as old as the trial that failed."""
    study = optuna.create_study()
    old = record(fits={"A": "old", "B": "b"}, criterion="A")
    add(study, old, TrialState.FAIL)
    add(study, record(fits={"A": "new"}, criterion="A"))
    add(study, {**old, "retry_history": [0], "failed_trial": 0})
    assert fits(study) == {"A": "new", "B": "b"}


def test_fits_of_long_ago_are_not_continued() -> None:
    """They are of other data by now."""
    study = optuna.create_study()
    add(study, record(fits={"A": "a", "B": "b"}, criterion="A"))
    for n in range(63):
        add(study, record(fits={"A": n}, criterion="A"))
    assert fits(study) == {"A": 62, "B": "b"}
    add(study, record(fits={"A": 63}, criterion="A"))
    assert fits(study) == {"A": 63}


# ------------------------------------------------------------------------------ arms, expectations


# Experimental in the oldest supported Optuna, deprecated (renamed) in the newest.
@pytest.mark.filterwarnings(
    "ignore::optuna.exceptions.ExperimentalWarning", "ignore::FutureWarning"
)
@pytest.mark.parametrize("n_retries", [1, 3])
def test_what_a_retried_trial_inherits_is_not_counted_twice(n_retries: int) -> None:
    """The arm and the expectation belong to the trial that failed, the value to its repetition."""
    study = optuna.create_study(direction="maximize")
    add(study, record(criterion="A", expected_gain=0.25), TrialState.COMPLETE, 3.0)
    failed = add(study, record(criterion="A", arm=RANDOM, expected_gain=0.5), TrialState.FAIL)
    retry = optuna.storages.RetryFailedTrialCallback()
    for _ in range(n_retries):
        retry(study, failed)
        number = study.ask().number
        failed = study.trials[number]
        assert Proposal.from_attributes(failed.system_attrs) is not None  # inherited indeed
    study.tell(number, 7.0)
    table = past(study)
    n, nan = n_retries, math.nan
    np.testing.assert_array_equal(table.indices, range(2 + n))
    np.testing.assert_array_equal(table.arms, [NO_ARM, 0] + [NO_ARM] * n)
    np.testing.assert_array_equal(table.expected_gains, [0.25, 0.5] + [nan] * n)
    assert table.criteria.tolist() == ["A", "A", *[""] * n]
    np.testing.assert_array_equal(table.values, [3.0] + [nan] * n + [7.0])


# ------------------------------------------------------------------------------------------- cache


# ------------------------------------------------------------------------- together with the values


@pytest.mark.parametrize("direction, sign", [("maximize", 1.0), ("minimize", -1.0)])
def test_values_that_count_are_maximized_feasible_and_complete(direction: Any, sign: float) -> None:
    """Infeasible, pruned and failed trials have finished without a value; infinite ones remain.

    The first trial reports no constraint, so where others do it is not known to be feasible.
    """
    study = optuna.create_study(direction=direction)

    def tell(value: float | None, constraint: float | None, state: TrialState) -> None:
        trial = study.ask({"x": X})
        if constraint is not None:
            store_constraints(study, study.trials[-1], [constraint])
        if state is TrialState.PRUNED:
            trial.report(5.0, 0)
        study.tell(trial, value, state=state)

    tell(1.0, None, TrialState.COMPLETE)
    tell(2.0, 0.0, TrialState.COMPLETE)
    tell(3.0, 1e-9, TrialState.COMPLETE)
    tell(4.0, math.inf, TrialState.COMPLETE)
    tell(math.inf, -math.inf, TrialState.COMPLETE)
    tell(None, None, TrialState.PRUNED)
    tell(None, None, TrialState.FAIL)
    asking = study._storage.get_trial(study.ask()._trial_id)
    table = StudyReader().snapshot(study, asking, {"x": X}, {}).history
    nan = math.nan
    expected = [nan, 2.0 * sign, nan, nan, sign * math.inf, nan, nan]
    np.testing.assert_array_equal(table.values, expected)
    assert table.finished.all()
    assert table.improvements(np.ones(7, dtype=np.bool_)) == (1, 7)


def test_an_improvement_is_better_than_all_finished_trials_before_it() -> None:
    """A running one is none, has none behind it, and is not counted."""
    study = optuna.create_study(direction="maximize")
    trials = [study.ask({"x": X}) for _ in range(6)]
    for number, value in [(0, 1.0), (1, 3.0), (3, 3.0), (4, 2.0), (5, 4.0)]:
        study.tell(trials[number], value)
    table = past(study)
    assert table.improvements(table.indices < 6) == (3, 5)
    assert table.improvements(table.indices > 2) == (1, 3)
    assert table.improvements(table.indices == 2) == (0, 0)


def test_an_infinitely_good_value_ends_no_improvements() -> None:
    """Later trials are compared with the best finite value."""
    study = optuna.create_study(direction="maximize")
    for value in (1.0, math.inf, 2.0, 1.5, 3.0):
        study.tell(study.ask({"x": X}), value)
    table = past(study)
    assert table.improvements(table.indices >= 1) == (2, 4)
