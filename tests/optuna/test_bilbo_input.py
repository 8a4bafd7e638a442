"""BILBO in Optuna: what does not fit is refused by name, or left out and said."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from bbo_plugins.optuna.bilbo_sampler import BILBOSampler
from bbo_plugins.optuna.study.storage import PREFIX
from tests.optuna.bilevel_studies import (
    FUNCTIONS,
    HAS_SET_CONSTRAINT,
    PAIR,
    coupled,
    decoupled,
    sampler_of,
    study_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.trial import Trial

needs_set_constraint = pytest.mark.skipif(
    not HAS_SET_CONSTRAINT, reason="this Optuna has no Trial.set_constraint"
)


@pytest.mark.parametrize(
    "arguments, options, error, message",
    [
        ((["x"], ["x"]), {}, ValueError, r"parameters must have different names, but \['x'\]"),
        ((["x"], ["query"]), {}, ValueError, r"\['query'\] are used twice"),
        (([], ["z"]), {}, ValueError, "upper_params must be a sequence of at least one name"),
        (("x", ["z"]), {}, TypeError, "upper_params must be a sequence of at least one name"),
        ((["x"], [1]), {}, TypeError, "an entry of lower_params must be a non-empty name"),
        (PAIR, {"upper": "f", "lower": "f"}, ValueError, "functions must have different names"),
        (PAIR, {"query_param": ""}, ValueError, "query_param must be a non-empty name"),
        (PAIR, {"upper_direction": "min"}, ValueError, "upper_direction must be one of"),
        (PAIR, {"beta": -1.0}, ValueError, "beta must be a positive number, but got -1.0"),
        (PAIR, {"epsilon": 0.1}, ValueError, "epsilon must be 0 unless many_responses is True"),
        (PAIR, {"n_startup_trials": 0}, ValueError, "n_startup_trials must be an integer"),
        (PAIR, {"lower_constraints": "c"}, TypeError, "lower_constraints must be a sequence"),
    ],
)
def test_arguments_are_checked(
    arguments: tuple[Any, Any], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """What makes no sense is refused by name when the sampler is made."""
    with pytest.raises(error, match=message):
        BILBOSampler(*arguments, **options)


@pytest.mark.parametrize(
    "directions", [["maximize"], ["minimize", "maximize"], ["minimize", "minimize", "minimize"]]
)
def test_a_study_with_other_directions_is_refused(directions: list[Any]) -> None:
    """Nothing is evaluated if the study's directions are not the levels'."""
    sampler = sampler_of()
    study = optuna.create_study(directions=directions, sampler=sampler)
    with pytest.raises(ValueError, match="study must have the direction 'minimize'"):
        study.optimize(lambda _: pytest.fail("was evaluated"), n_trials=1)
    with pytest.raises(ValueError, match="study must have the direction 'minimize'"):
        sampler.solution(study)


def _suggesting(**choices: Any) -> Callable[[Trial], float]:
    """Return an objective that suggests the named floats, and a query of the given choices."""

    def objective(trial: Trial) -> float:
        for name, value in choices.items():
            if isinstance(value, list):
                trial.suggest_categorical(name, value)
            else:
                trial.suggest_float(name, 0.0, value)
        return 0.0

    return objective


@pytest.mark.parametrize(
    "objective, message",
    [
        (
            _suggesting(query=FUNCTIONS, x=1.0, z=1.0, w=1.0),
            r"in upper_params \['x'\] or lower_params \['z'\].*but got 'w'",
        ),
        (_suggesting(query=FUNCTIONS), r"at least one parameter of \['x', 'z'\]"),
        (_suggesting(x=1.0, z=1.0), r"'query', but got one without it: suggest_categorical"),
        (_suggesting(query=["upper", "f"], x=1.0, z=1.0), "'query' must be categorical"),
        (_suggesting(query=1.0, x=1.0, z=1.0), "'query' must be categorical"),
    ],
)
def test_parameters_that_do_not_fit_are_named_at_the_first_trial(
    objective: Callable[[Trial], float], message: str
) -> None:
    """A missing, an unknown parameter and a wrong query stop the study at once."""
    study = optuna.create_study(sampler=sampler_of())
    with pytest.raises(ValueError, match=message):
        study.optimize(objective, n_trials=3)
    assert len(study.trials) == 1


@needs_set_constraint
def test_a_coupled_trial_without_its_constraint_is_refused() -> None:
    """A constraint that is never reported would leave the model without data for ever."""
    sampler = sampler_of(upper_constraints=["C"], lower_constraints=["c"])
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)

    def objective(trial: Trial) -> tuple[float, float]:
        trial.set_constraint("C", trial.suggest_float("x", 0.0, 1.0))
        return trial.suggest_float("z", 0.0, 1.0), 0.0

    with pytest.raises(ValueError, match=r"constraints \['C', 'c'\] .*one that reported \['C'\]"):
        study.optimize(objective, n_trials=3)
    assert len(study.trials) == 1


def test_there_is_no_solution_without_values() -> None:
    """What is missing for a solution is named."""
    sampler = sampler_of()
    with pytest.raises(ValueError, match="must have a complete trial"):
        sampler.solution(optuna.create_study(sampler=sampler))
    study = study_of(sampler, 1)
    with pytest.raises(ValueError, match=r"but has none of \['lower'\]"):
        sampler.solution(study)


def test_a_level_without_parameters_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """It may come to have some, so the study goes on; without any there is no solution."""
    sampler = sampler_of()
    study = optuna.create_study(sampler=sampler)
    with caplog.at_level(logging.WARNING, "bbo_plugins"):
        study.optimize(_suggesting(query=FUNCTIONS, x=1.0), n_trials=3)
    told = "no trial has had a parameter of lower_params ['z'] by now"
    assert [told in text for text in caplog.messages] == [True]
    with pytest.raises(ValueError, match=r"at least one parameter of lower_params \['z'\]"):
        sampler.solution(study)
    study.optimize(decoupled(sampler), n_trials=2)
    assert set(sampler.solution(study).lower_params) <= {"z"}


@pytest.mark.parametrize("extra", [{"z": 1.0, "w": 1.0}, {"x": 1.0, "z": 1.0, "w": 1.0}])
def test_misfits_are_refused_once_and_left_out(
    extra: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    """A trial of other parameters raises; the study goes on without it once that is mended."""
    sampler = sampler_of()
    study = study_of(sampler, 8)
    before = sampler.solution(study)
    query = {"query": optuna.distributions.CategoricalDistribution(FUNCTIONS)}
    study.add_trial(
        create_trial(
            params={"query": "upper", **extra},
            distributions={
                **query,
                **{name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in extra},
            },
            value=-1e6,
        )
    )
    assert sampler.solution(study).upper_value == pytest.approx(before.upper_value, abs=1.0)
    with caplog.at_level(logging.WARNING, "bbo_plugins"):
        study.optimize(decoupled(sampler), n_trials=2)
    assert sum("1 trial left out: without a parameter" in text for text in caplog.messages) == 1


def test_all_unreadable_proposals_are_counted() -> None:
    """As many as other samplers count: the fits of a few are used, but the note is of all."""
    sampler = sampler_of()
    study = study_of(sampler, 2)
    template = study.trials[0]
    template.system_attrs = {f"{PREFIX}0": "damaged"}
    study.add_trials([template] * 70)
    number = study.ask().number
    asking = study.trials[number]
    snapshot = sampler._read_in(study, asking, sampler._modeled_distributions(study))
    assert "with 70 trials cannot be read" in snapshot.notes["unreadable"]


@needs_set_constraint
def test_an_unknown_constraint_is_refused() -> None:
    """A misspelled or forgotten name would be a constraint that nobody heeds."""
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler_of())
    with pytest.raises(ValueError, match=r"constraints \[\] .*one that reported \['C'\]"):
        study.optimize(coupled, n_trials=3)
    assert len(study.trials) == 1


def test_a_query_in_a_coupled_study_is_refused() -> None:
    """Each trial gives all functions, so an objective that asks for one is mistaken."""
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler_of())
    with pytest.raises(ValueError, match="in a study with two directions, but got 'query'"):
        study.optimize(decoupled(sampler_of()), n_trials=1)
    assert study.trials[0].state is TrialState.FAIL


@needs_set_constraint
def test_a_constraint_set_in_a_decoupled_trial_is_refused() -> None:
    """There it is one of the functions that the query asks for."""
    sampler = sampler_of(upper_constraints=["C"])

    def objective(trial: Trial) -> float:
        trial.set_constraint("C", 0.1)
        return decoupled(sampler)(trial)

    with pytest.raises(ValueError, match=r"query 'query' asks for it, .* set \['C'\]"):
        optuna.create_study(sampler=sampler).optimize(objective, n_trials=3)
