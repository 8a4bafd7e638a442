"""UHEBOSampler with constraints, enqueued parameters and parameters that are held."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState, create_trial

from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.optuna.study.proposal import Proposal
from bbo_plugins.optuna.study.trials import TrialRow
from tests.optuna.studies import BOX, constrained, quadratic, started, violation

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


# ------------------------------------------------------------------------------------ constraints


@pytest.mark.parametrize("form", ["constraints_func", "set_constraint"])
def test_constraints_are_honored(form: str) -> None:
    """The best trial is feasible and near the border, most of the late ones are feasible."""
    study = constrained(partial(UHEBOSampler, n_startup_trials=6, seed=0), form)
    best = study.best_trial
    assert violation(best.params) <= 0.0
    assert best.values[0] < 0.045  # 0.04 at the border
    late = [violation(trial.params) <= 0.02 for trial in study.trials[12:]]
    assert sum(late) >= 0.6 * len(late)


def test_missing_constraints_are_tolerated() -> None:
    """Trials from before the constraints existed do not stop the study."""
    study = started(UHEBOSampler(n_startup_trials=2, seed=0), n=5)
    study.sampler = UHEBOSampler(
        n_startup_trials=2, seed=0, constraints_func=lambda trial: (trial.params["x"] - 0.5,)
    )
    for _ in range(4):
        trial = study.ask(BOX)
        study.tell(trial, quadratic(trial.params))
    stored = [trial.system_attrs.get("constraints") for trial in study.trials]
    assert stored[:5] == [None] * 5
    assert all(isinstance(values, list) and len(values) == 1 for values in stored[5:])


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
        (None, TypeError),
        ("ab", TypeError),
        ("1", TypeError),
        (b"1", TypeError),
        ([None], TypeError),
        (["a"], TypeError),
        (["1"], TypeError),
        ([b"1"], TypeError),
        ({"a": 1.0}, TypeError),
        ({1: 1.0}, TypeError),
        ({1.0}, TypeError),
        ([1j], TypeError),
        ([[1.0]], TypeError),
        (np.ones((1, 1)), TypeError),
        ([10**400], ValueError),
    ],
)
def test_bad_constraints_are_errors(returned: Any, error: type[Exception]) -> None:
    """NaN and what is no sequence of numbers is refused, and no value is stored."""
    study = optuna.create_study(sampler=UHEBOSampler(constraints_func=lambda _: returned))
    rule = (
        r"^constraints must be a sequence of numbers to be returned by constraints_func.*, but got "
    )
    with pytest.raises(error, match=rf"{rule}{re.escape(repr(returned))}\.$"):
        study.tell(study.ask(), 1.0)
    assert study.trials[0].system_attrs["constraints"] is None


def test_errors_of_the_constraints_function_are_the_users() -> None:
    """As in Optuna, the error propagates and the trial is stored."""

    def constraints_func(trial: FrozenTrial) -> list[float]:
        raise RuntimeError(f"bug at {trial.number}")

    study = optuna.create_study(sampler=UHEBOSampler(constraints_func=constraints_func))
    with pytest.raises(RuntimeError, match="bug at 0"):
        study.tell(study.ask(), 1.0)
    assert study.trials[0].state == TrialState.COMPLETE


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


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_partial_fixed_sampler_keeps_the_model() -> None:
    """Held parameters stay in the model: their effect on old trials is not taken for noise."""
    sampler = UHEBOSampler(n_startup_trials=5, seed=2)

    def value(params: dict[str, Any]) -> float:
        # The best x depends on y, and y has a large effect of its own.
        return float((params["x"] - params["y"]) ** 2 + 10.0 * params["y"] + params["z"] ** 2)

    study = optuna.create_study(sampler=sampler)
    for _ in range(20):
        trial = study.ask(BOX)
        study.tell(trial, value(trial.params))
    study.sampler = optuna.samplers.PartialFixedSampler({"y": 0.75}, sampler)
    for _ in range(8):
        trial = study.ask(BOX)
        assert trial.params["y"] == 0.75
        study.tell(trial, value(trial.params))
    held = [trial for trial in study.trials if trial.params["y"] == 0.75]
    assert len(held) == 8
    assert min(trial.value or math.inf for trial in held) < 7.5 + 0.01
    proposal = Proposal.from_attributes(held[-1].system_attrs)
    assert proposal is not None
    assert proposal.params["y"] == 0.75


def test_stored_constraints_may_be_whole_numbers() -> None:
    """As other programs may write them; what is beyond the floats, NaN or a text is left out."""
    stored = {"a": 1, "b": True, "c": 10**400, "d": "0.5", "e": math.nan, "f": -math.inf}
    attributes = {f"constraints:{name}": value for name, value in stored.items()}
    trial = create_trial(value=1.0, system_attrs=attributes)
    assert TrialRow.read(trial).constraints == {"a": 1.0, "b": 1.0, "f": -math.inf}
