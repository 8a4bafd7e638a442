"""BILBO in Optuna: whole studies, what is stored, resuming, pending trials, bad input by name."""

from __future__ import annotations

import logging
import math
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from bbo_plugins.optuna.bilbo_sampler import REASON_KEY, BILBOSampler
from bbo_plugins.optuna.bilevel_trials import BilevelTrials, shared_distributions

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

PAIR = (["x"], ["z"])


def _sampler(seed: int = 0, **options: Any) -> BILBOSampler:
    return BILBOSampler(*PAIR, seed=seed, **options)


def _decoupled(sampler: BILBOSampler) -> Callable[[Trial], float]:
    """Return an objective whose solution is x = z = 0.5; with a constraint, x = z = 0.6."""

    def objective(trial: Trial) -> float:
        query = trial.suggest_categorical("query", sampler.functions)
        x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
        return {"upper": (x - 0.8) ** 2 + (z - 0.2) ** 2, "lower": (z - x) ** 2, "C": 0.6 - x}[
            query
        ]

    return objective


def _study(sampler: BILBOSampler, n_trials: int, **options: Any) -> Study:
    study = optuna.create_study(sampler=sampler, **{"direction": "minimize", **options})
    study.optimize(_decoupled(sampler), n_trials=n_trials)
    return study


needs_set_constraint = pytest.mark.skipif(
    not hasattr(optuna.Trial, "set_constraint"), reason="this Optuna has no Trial.set_constraint"
)


@pytest.fixture(scope="module")
def solved() -> tuple[BILBOSampler, Study]:
    """Return a finished decoupled study."""
    sampler = _sampler()
    return sampler, _study(sampler, 36)


def _queries(study: Study) -> list[tuple[Any, ...]]:
    return [tuple(trial.params.values()) for trial in study.trials]


# ------------------------------------------------------------------------------------ whole studies


def test_a_decoupled_study_is_solved(solved: tuple[BILBOSampler, Study]) -> None:
    """One function per trial: the solution is the best answered point, not the best point."""
    sampler, study = solved
    solution = sampler.solution(study)
    assert solution.upper_params == pytest.approx({"x": 0.5}, abs=0.04)
    assert solution.lower_params == pytest.approx({"z": 0.5}, abs=0.04)
    assert solution.upper_value == pytest.approx(0.18, abs=0.01)
    assert solution.lower_value == pytest.approx(0.0, abs=0.005)
    assert 0.0 <= solution.regret_bound < 0.05
    assert solution.feasible
    assert {trial.params["query"] for trial in study.trials} == {"upper", "lower"}


@needs_set_constraint
def test_a_coupled_study_is_solved() -> None:
    """Two directions: a trial returns both objectives and reports the constraint."""
    sampler = _sampler(upper_constraints=["C"])
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)

    def objective(trial: Trial) -> tuple[float, float]:
        x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
        trial.set_constraint("C", 0.6 - x)
        return (x - 0.8) ** 2 + (z - 0.2) ** 2, (z - x) ** 2

    study.optimize(objective, n_trials=20)
    solution = sampler.solution(study)
    assert solution.upper_params == pytest.approx({"x": 0.6}, abs=0.04)
    assert solution.lower_params == pytest.approx({"z": 0.6}, abs=0.04)
    assert solution.feasible
    assert "query" not in study.trials[-1].params


def test_directions_are_those_of_the_levels() -> None:
    """A maximized lower level answers with its maximum, whatever the upper level's direction."""
    sampler = _sampler(upper_direction="maximize", lower_direction="minimize")
    study = optuna.create_study(direction="maximize", sampler=sampler)
    objective = _decoupled(sampler)

    def flipped(trial: Trial) -> float:
        value = objective(trial)
        return -value if trial.params["query"] == "upper" else value

    study.optimize(flipped, n_trials=30)
    solution = sampler.solution(study)
    assert solution.upper_params == pytest.approx({"x": 0.5}, abs=0.04)
    assert solution.upper_value == pytest.approx(-0.18, abs=0.01)


def test_a_constraint_holds_at_or_below_zero() -> None:
    """A queried constraint has Optuna's sign."""
    sampler = _sampler(upper_constraints=["C"])
    solution = sampler.solution(_study(sampler, 40))
    assert solution.upper_params == pytest.approx({"x": 0.6}, abs=0.05)
    assert solution.feasible


def test_mixed_parameters_on_both_levels() -> None:
    """Logarithms, integers, steps and categories come back as Optuna has them."""
    sampler = BILBOSampler(["rate", "level"], ["amount", "kind"], seed=0)

    def objective(trial: Trial) -> float:
        query = trial.suggest_categorical("query", sampler.functions)
        rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
        level = trial.suggest_int("level", 1, 9, step=2)
        amount = trial.suggest_float("amount", 0.0, 1.0, step=0.125)
        kind = trial.suggest_categorical("kind", ["a", None])
        if query == "lower":
            return (amount - level / 10.0) ** 2 + (0.3 if kind is None else 0.0)
        return (math.log10(rate) + 2.0) ** 2 + amount + (0.5 if level == 1 else 0.0)

    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=44)
    solution = sampler.solution(study)
    assert solution.upper_params["level"] == 3
    assert solution.upper_params["rate"] == pytest.approx(1e-2, rel=0.5)
    assert solution.lower_params == {"amount": pytest.approx(0.3, abs=0.08), "kind": "a"}


# -------------------------------------------------------------------------------------- the start


def test_the_start_shares_trials_among_functions() -> None:
    """n_startup_trials is spent evenly; only then do models speak."""
    sampler = _sampler(n_startup_trials=8)
    study = _study(sampler, 10)
    asked = [trial.params["query"] for trial in study.trials[:8]]
    assert (asked.count("upper"), asked.count("lower")) == (4, 4)
    reasons = [trial.system_attrs.get(REASON_KEY, {}).get("reason") for trial in study.trials]
    assert set(reasons[1:8]) == {"start"}
    assert "start" not in reasons[8:]


# ----------------------------------------------------------------- what is stored, what it is for


@needs_set_constraint
def test_best_trial_takes_well_known_upper_queries_only(solved: tuple[BILBOSampler, Study]) -> None:
    """The raw best value belongs to another function; best_trial is an answered upper query."""
    _, study = solved
    raw_best = min(study.trials, key=lambda trial: trial.value or 0.0)
    best = study.best_trial
    assert raw_best.params["query"] == "lower"
    assert best.params["query"] == "upper"
    assert best.params["z"] == pytest.approx(best.params["x"], abs=0.15)
    for trial in study.trials:
        said = trial.system_attrs.get(REASON_KEY, {})
        trusted = trial.params["query"] == "upper" and said.get("reason") == "optimism"
        trusted = trusted and said["bounds"]["lower"] <= 0.2
        assert (max(trial.constraints.values()) <= 0.0) == trusted


def test_a_study_without_a_trusted_trial_has_no_best_trial() -> None:
    """As long as nothing is known well, Optuna says that no trial is feasible."""
    study = _study(_sampler(), 4)
    with pytest.raises(ValueError, match="No feasible trials"):
        _ = study.best_trial


def test_the_same_seed_gives_the_same_study() -> None:
    """Suggestions follow from the seed and the storage."""
    first, again, other = (_queries(_study(_sampler(seed), 14)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_a_resumed_study_continues_as_if_uninterrupted() -> None:
    """A fresh sampler, or a pickled one, on the same storage makes the same suggestions."""
    whole = _queries(_study(_sampler(3), 16))
    for revive in (lambda _: _sampler(3), lambda s: pickle.loads(pickle.dumps(s))):  # noqa: S301
        sampler = _sampler(3)
        study = _study(sampler, 9)
        study.sampler = revive(sampler)
        study.optimize(_decoupled(sampler), n_trials=7)
        assert _queries(study) == whole


def test_running_trials_are_pending_queries() -> None:
    """Asked but unfinished trials are not asked again, and inform the function they are for."""
    sampler = _sampler()
    study = _study(sampler, 12)
    asked = [study.ask() for _ in range(3)]
    for trial in asked:
        trial.suggest_categorical("query", sampler.functions)
        trial.suggest_float("x", 0.0, 1.0)
    distributions = shared_distributions(study, sampler._roles, coupled=False)
    assert distributions is not None
    trials = BilevelTrials.read(study, sampler._roles, distributions)
    pending = {name: len(of.pending) for name, of in trials.data.items()}
    assert sum(pending.values()) >= 2  # the latest one stands for the asking one
    points = [(t.params["query"], t.params["x"], t.suggest_float("z", 0.0, 1.0)) for t in asked]
    assert len(set(points)) == 3


def test_several_threads_share_a_sampler() -> None:
    """With n_jobs = 2 every trial is a query of its own."""
    sampler = _sampler()
    study = optuna.create_study(sampler=sampler)
    study.optimize(_decoupled(sampler), n_trials=14, n_jobs=2)
    assert len(set(_queries(study))) == 14
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


@needs_set_constraint
def test_enqueued_parameters_are_kept_and_the_rest_fits_them() -> None:
    """With x fixed the model chooses function and response; with all fixed it says nothing."""
    sampler = _sampler()
    study = _study(sampler, 12)
    study.enqueue_trial({"x": 0.25})
    study.enqueue_trial({"query": "upper", "x": 0.1, "z": 0.9})
    study.optimize(_decoupled(sampler), n_trials=2)
    partly, wholly = study.trials[-2:]
    assert partly.params["x"] == 0.25
    assert partly.system_attrs[REASON_KEY]["reason"] != "start"
    assert wholly.params == {"query": "upper", "x": 0.1, "z": 0.9}
    assert REASON_KEY not in wholly.system_attrs
    assert max(wholly.constraints.values()) > 0.0  # nothing is known of its answer


# ------------------------------------------------------------------------ odd values, infeasibility


def test_a_query_that_returns_nan_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """NaN is no observation; the log names the query once, and later trials go elsewhere."""
    sampler = _sampler()
    objective = _decoupled(sampler)

    def broken(trial: Trial) -> float:
        value = objective(trial)
        return math.nan if trial.params["query"] == "lower" and trial.number > 8 else value

    study = optuna.create_study(sampler=sampler)
    with caplog.at_level(logging.WARNING, "bbo_plugins"):
        study.optimize(broken, n_trials=20)
    failed = [trial for trial in study.trials if trial.state is TrialState.FAIL]
    assert failed
    assert len({tuple(trial.params.values()) for trial in failed}) == len(failed)
    messages = [record.message for record in caplog.records if "NaN" in record.message]
    assert len(messages) == 1
    assert "'lower'" in messages[0]


def test_infinite_values_count_as_the_worst() -> None:
    """A lower level that diverges somewhere is learned as bad there."""
    sampler = _sampler()
    objective = _decoupled(sampler)

    def diverging(trial: Trial) -> float:
        value = objective(trial)
        return math.inf if trial.params["query"] == "lower" and value > 0.3 else value

    study = optuna.create_study(sampler=sampler)
    study.optimize(diverging, n_trials=30)
    solution = sampler.solution(study)
    assert solution.upper_params == pytest.approx({"x": 0.5}, abs=0.06)


def test_infeasibility_is_declared_in_log_and_storage(caplog: pytest.LogCaptureFixture) -> None:
    """A constraint violated everywhere is declared once in the log, with each trial stored."""
    sampler = _sampler(upper_constraints=["C"])
    study = optuna.create_study(sampler=sampler)
    objective = _decoupled(sampler)

    def infeasible(trial: Trial) -> float:
        value = objective(trial)
        return 1.0 + trial.params["x"] if trial.params["query"] == "C" else value

    with caplog.at_level(logging.WARNING, "bbo_plugins"):
        study.optimize(infeasible, n_trials=30)
    declared = [t.system_attrs.get(REASON_KEY, {}).get("infeasible", False) for t in study.trials]
    assert declared[-1]
    assert sum("looks infeasible" in record.message for record in caplog.records) == 1
    assert not sampler.solution(study).feasible


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "arguments, options, error, message",
    [
        ((["x"], ["x"]), {}, ValueError, r"parameters must have different names, but \['x'\]"),
        ((["x", "x"], ["z"]), {}, ValueError, r"parameters must have different names"),
        ((["x"], ["query"]), {}, ValueError, r"\['query'\] are used twice"),
        (([], ["z"]), {}, ValueError, "upper_params must be a sequence of at least one name"),
        ((["x"], []), {}, ValueError, "lower_params must be a sequence of at least one name"),
        (("x", ["z"]), {}, TypeError, "upper_params must be a sequence of at least one name"),
        ((["x"], [1]), {}, TypeError, "an entry of lower_params must be a non-empty name"),
        (PAIR, {"upper": "f", "lower": "f"}, ValueError, "functions must have different names"),
        (PAIR, {"upper_constraints": ["lower"]}, ValueError, "functions must have different names"),
        (PAIR, {"query_param": ""}, ValueError, "query_param must be a non-empty name"),
        (PAIR, {"upper_direction": "min"}, ValueError, "upper_direction must be one of"),
        (PAIR, {"lower_direction": None}, TypeError, "lower_direction must be one of"),
        (PAIR, {"beta": -1.0}, ValueError, "beta must be a positive number, but got -1.0"),
        (PAIR, {"epsilon": 0.1}, ValueError, "epsilon must be 0 unless many_responses is True"),
        (PAIR, {"n_startup_trials": 0}, ValueError, "n_startup_trials must be an integer"),
        (PAIR, {"seed": -1}, ValueError, "seed must be an integer of at least 0"),
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
    sampler = _sampler()
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


FUNCTIONS = ["upper", "lower"]


@pytest.mark.parametrize(
    "objective, message",
    [
        (_suggesting(query=FUNCTIONS, x=1.0, z=1.0, w=1.0), "but got 'w'"),
        (_suggesting(query=FUNCTIONS, x=1.0), r"one without \['z'\]: conditional"),
        (_suggesting(x=1.0, z=1.0), r"one without \['query'\]"),
        (_suggesting(query=["upper", "f"], x=1.0, z=1.0), "'query' must be categorical"),
        (_suggesting(query=["upper"], x=1.0, z=1.0), "'query' must be categorical"),
        (_suggesting(query=1.0, x=1.0, z=1.0), "'query' must be categorical"),
    ],
)
def test_parameters_that_do_not_fit_are_named_at_the_first_trial(
    objective: Callable[[Trial], float], message: str
) -> None:
    """A missing, an unknown parameter and a wrong query stop the study at once."""
    study = optuna.create_study(sampler=_sampler())
    with pytest.raises(ValueError, match=message):
        study.optimize(objective, n_trials=3)
    assert len(study.trials) == 1


def test_a_conditional_parameter_is_refused_when_it_is_missing_first() -> None:
    """The trial that leaves a parameter out ends the study with its name."""
    sampler = _sampler()
    study = _study(sampler, 3)
    with pytest.raises(ValueError, match=r"one without \['z'\]"):
        study.optimize(_suggesting(query=FUNCTIONS, x=1.0), n_trials=1)


@needs_set_constraint
def test_a_coupled_trial_without_its_constraint_is_refused() -> None:
    """A constraint that is never reported would leave the model without data for ever."""
    sampler = _sampler(upper_constraints=["C"], lower_constraints=["c"])
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)

    def objective(trial: Trial) -> tuple[float, float]:
        trial.set_constraint("C", trial.suggest_float("x", 0.0, 1.0))
        return trial.suggest_float("z", 0.0, 1.0), 0.0

    with pytest.raises(ValueError, match=r"with set_constraint, but got one without \['c'\]"):
        study.optimize(objective, n_trials=3)
    assert len(study.trials) == 1


def test_there_is_no_solution_without_values() -> None:
    """What is missing for a solution is named."""
    sampler = _sampler()
    with pytest.raises(ValueError, match="must have a complete trial"):
        sampler.solution(optuna.create_study(sampler=sampler))
    study = _study(sampler, 1)
    with pytest.raises(ValueError, match=r"but has none of \['lower'\]"):
        sampler.solution(study)


def test_trials_of_other_origin_are_read() -> None:
    """Observations that were added to the study by hand count like others."""
    sampler = _sampler()
    study = _study(sampler, 2)
    rng = np.random.default_rng(0)
    template: FrozenTrial = study.trials[0]
    for name in ("upper", "lower") * 12:
        x, z = rng.random(2).tolist()
        value = (x - 0.8) ** 2 + (z - 0.2) ** 2 if name == "upper" else (z - x) ** 2
        study.add_trial(
            optuna.trial.create_trial(
                params={"query": name, "x": x, "z": z},
                distributions=template.distributions,
                value=value,
            )
        )
    solution = sampler.solution(study)
    assert solution.upper_params == pytest.approx({"x": 0.5}, abs=0.1)
