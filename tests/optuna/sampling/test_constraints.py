"""UHEBOSampler with constraints, enqueued parameters and parameters that are held."""

from __future__ import annotations

import math
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from bbo_plugins.optuna import BBOSampler, GOUCBSampler, UHEBOSampler
from bbo_plugins.optuna.study.storage import Proposal
from tests.optuna.studies import BOX, add_begun, constrained, started, stop_below, violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.optuna.sampling.base import ModelSampler


# ------------------------------------------------------------------------------------ constraints


@pytest.mark.parametrize(
    "make, form",
    [
        (partial(UHEBOSampler, n_startup_trials=6, seed=0), "set_constraint"),
        (partial(GOUCBSampler, n_startup_trials=4, hidden_units=5, seed=7), "constraints_func"),
        (partial(BBOSampler, n_startup_trials=6, seed=0), "constraints_func"),
    ],
    ids=["uhe, single values", "go-ucb", "bbo"],
)
def test_constraints_are_honored(make: Callable[..., ModelSampler], form: str) -> None:
    """The best trial is feasible and near the border, most of the late ones are feasible."""
    study = constrained(make, form)
    best = study.best_trial
    assert violation(best.params) <= 0.0
    assert best.values[0] < 0.045  # 0.04 at the border
    late = [violation(trial.params) <= 0.02 for trial in study.trials[12:]]
    assert sum(late) >= 0.6 * len(late)


def test_a_constraint_may_be_reported_only_where_it_is_violated() -> None:
    """As Optuna does, a trial that reports none is taken for feasible then."""
    if not hasattr(optuna.Trial, "set_constraint"):
        pytest.skip("this Optuna has no Trial.set_constraint")
    study = optuna.create_study(sampler=BBOSampler(seed=0))

    def objective(trial: optuna.Trial) -> float:
        x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
        if x + y < 0.6:
            trial.set_constraint("sum", 0.6 - x - y)
        return (x - 0.2) ** 2 + (y - 0.2) ** 2

    study.optimize(objective, n_trials=30, callbacks=[stop_below(0.0215)])
    assert study.best_value < 0.0215  # 0.02 at the border


def test_a_constraint_may_be_reported_in_some_branches_only() -> None:
    """A branch without constraints, here that of the optimum, is searched like any other."""
    if not hasattr(optuna.Trial, "set_constraint"):
        pytest.skip("this Optuna has no Trial.set_constraint")

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        if trial.suggest_categorical("branch", ["free", "bound"]) == "free":
            return (x - 0.31) ** 2 + (trial.suggest_float("u", 0.0, 1.0) - 0.62) ** 2
        y = trial.suggest_float("y", 0.0, 1.0)
        trial.set_constraint("y is large", 0.5 - y)
        return 0.1 + (x - 0.7) ** 2 + y**2

    study = optuna.create_study(sampler=BBOSampler(seed=0))
    study.optimize(objective, n_trials=30, callbacks=[stop_below(1e-6)])
    assert study.best_value < 1e-6


def test_all_trials_violate_a_constraint_by_the_same_value() -> None:
    """The search goes on with the start-up's points until one is feasible; none is a corner."""
    value = [1.0]
    study = optuna.create_study(sampler=BBOSampler(constraints_func=lambda _: value, seed=0))

    def tell(n: int) -> list[list[float]]:
        for _ in range(n):
            study.tell(trial := study.ask(), sum(trial.suggest_float(x, 0.0, 1.0) for x in "xyz"))
        return [list(trial.params.values()) for trial in study.trials[-n:]]

    points = tell(16)
    assert all(0.0 < coordinate < 1.0 for x in points for coordinate in x)
    assert len({tuple(x) for x in points}) == 16
    value[0] = -1.0
    tell(2)
    proposals = [Proposal.from_attributes(trial.system_attrs) for trial in study.trials]
    assert [bool(one and one.fits) for one in proposals] == [False] * 17 + [True]


@pytest.mark.parametrize("marker", [1e100, sys.float_info.max])
def test_a_marker_in_place_of_a_violation(marker: float) -> None:
    """A constraint that is the same huge number everywhere is of no use, and no obstacle."""
    if not hasattr(optuna.Trial, "set_constraint"):
        pytest.skip("this Optuna has no Trial.set_constraint")
    study = optuna.create_study(sampler=BBOSampler(seed=0, n_startup_trials=6))

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        trial.set_constraint("varies", x - 0.1)
        trial.set_constraint("marker", marker)
        return x

    study.optimize(objective, n_trials=14)
    late = [trial.params["x"] for trial in study.trials[6:]]
    assert sum(x <= 0.1 for x in late) >= 2  # where the other one is kept


def test_constraints_of_pruned_and_failed_trials() -> None:
    """Pruned trials have constraints, failed ones do not."""
    study = optuna.create_study(sampler=UHEBOSampler(constraints_func=lambda _: [1]))
    for state in (TrialState.PRUNED, TrialState.FAIL):
        study.tell(study.ask(), state=state)
    assert [trial.system_attrs.get("constraints") for trial in study.trials] == [[1.0], None]


@pytest.mark.parametrize(
    "returned, error",
    [
        ([math.nan], ValueError),
        (1.0, TypeError),
        ("1", TypeError),
        ([10**400], ValueError),
        (["1"], TypeError),
        ([b"1"], TypeError),
        ([np.array([1.0])], TypeError),
        ({1.0: 2.0}, TypeError),
    ],
)
def test_bad_constraints_are_errors(returned: Any, error: type[Exception]) -> None:
    """NaN and what is no sequence of numbers is refused, and no value is stored."""
    study = optuna.create_study(sampler=UHEBOSampler(constraints_func=lambda _: returned))
    rule = "^what constraints_func returns must be a sequence of numbers.*, but got "
    with pytest.raises(error, match=rf"{rule}{re.escape(repr(returned))}\.$"):
        study.tell(study.ask(), 1.0)
    assert study.trials[0].system_attrs["constraints"] is None


# ------------------------------------------------------------------- enqueued and held parameters


def test_partly_enqueued_trial_is_completed_around_what_is_given() -> None:
    """The rest is suggested for the given values, and the proposal tells the others so."""
    study = started(UHEBOSampler(n_startup_trials=3, seed=0))
    study.enqueue_trial({"y": 0.875})
    trial = study.ask()
    trial.suggest_float("x", 0.0, 1.0)  # y is not asked for yet
    proposal = Proposal.from_attributes(study.trials[-1].system_attrs)
    assert proposal is not None
    assert proposal.params["y"] == 0.875
    assert trial.suggest_float("y", 0.0, 1.0) == 0.875


@pytest.mark.parametrize("sampler", [BBOSampler, GOUCBSampler, UHEBOSampler])
def test_a_trial_that_a_dead_worker_began_is_completed_as_an_enqueued_one(
    sampler: type[BBOSampler | GOUCBSampler | UHEBOSampler],
) -> None:
    """What was suggested before goes into the next suggestion; nothing is suggested if all was."""
    asked = []
    for way in ("enqueued", "begun"):
        study = started(sampler(n_startup_trials=3, seed=0))
        for params in ({"x": 0.875}, {"x": 0.875, "y": 0.75, "z": 0.125}):
            study.enqueue_trial(params) if way == "enqueued" else add_begun(study, params)
        partly, wholly = study.ask(BOX), study.ask(BOX)
        asked.append(partly.params)
        assert wholly.params == {"x": 0.875, "y": 0.75, "z": 0.125}
        assert Proposal.from_attributes(study.trials[-1].system_attrs) is None
    assert asked[0] == asked[1]
    assert asked[0]["x"] == 0.875
