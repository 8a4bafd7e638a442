"""BILBO in Optuna: whole studies, what is stored, resuming, running trials, bad input by name."""

from __future__ import annotations

import logging
import math
import pickle
from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from bbo_plugins.methods.bilbo import FunctionData, Query
from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna import PromotionCallback, RegretGapTerminator, bilbo_sampler
from bbo_plugins.optuna.bilbo_sampler import BILBOSampler
from bbo_plugins.optuna.bilevel.trials import BilevelTrials, conditions_of, distributions_of
from bbo_plugins.optuna.study.points import PlacedTrials
from bbo_plugins.optuna.study.trials import BILEVEL_KEY, TrialReader
from bbo_plugins.space import Split
from bbo_plugins.visualization import plot_lengthscales, plot_posterior, plot_regret_gap
from tests.optuna.bilevel_studies import (
    FUNCTIONS,
    HAS_SET_CONSTRAINT,
    coupled,
    decoupled,
    queries_of,
    sampler_of,
    study_of,
)
from tests.optuna.studies import add_begun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.study import Study
    from optuna.trial import Trial

needs_set_constraint = pytest.mark.skipif(
    not HAS_SET_CONSTRAINT, reason="this Optuna has no Trial.set_constraint"
)


@pytest.fixture(scope="module")
def solved() -> tuple[BILBOSampler, Study]:
    """Return a finished decoupled study."""
    sampler = sampler_of()
    return sampler, study_of(sampler, 26)


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


@pytest.mark.parametrize(
    "call",
    [
        lambda study: PromotionCallback(InnerHorizon(n_outer=5)).promote(study),
        plot_posterior,
        plot_lengthscales,
        plot_regret_gap,
    ],
)
def test_what_compares_all_values_refuses_a_decoupled_study(
    call: Callable[[Study], Any], solved: tuple[BILBOSampler, Study]
) -> None:
    """Its trials are values of different functions, of which none is better than another."""
    with pytest.raises(ValueError, match="several functions of BILBOSampler"):
        call(solved[1])


def test_the_terminator_cannot_stop_a_decoupled_study(
    solved: tuple[BILBOSampler, Study], caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it would make of the values of different functions; and it says so once."""
    terminator = RegretGapTerminator(threshold=1e9, patience=1, min_n_trials=2)
    assert not terminator.should_terminate(solved[1])
    assert not terminator.should_terminate(solved[1])
    (said,) = (one.getMessage() for one in caplog.records)  # nothing of constraints
    assert "cannot stop this study: its trials are values of the several functions" in said
    caplog.clear()
    sampler = sampler_of()
    study = optuna.create_study(sampler=sampler)
    study.optimize(decoupled(sampler), 3, callbacks=[RegretGapTerminator(min_n_trials=2)])
    (said,) = (one.getMessage() for one in caplog.records if "Terminator" in one.getMessage())
    assert "several functions" in said


@needs_set_constraint
def test_a_coupled_study_is_solved() -> None:
    """Two directions: a trial returns both objectives and reports the constraint."""
    sampler = sampler_of(upper_constraints=["C"])
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)

    study.optimize(coupled, n_trials=20)
    solution = sampler.solution(study)
    assert solution.upper_params == pytest.approx({"x": 0.6}, abs=0.04)
    assert solution.lower_params == pytest.approx({"z": 0.6}, abs=0.04)
    assert solution.feasible
    assert "query" not in study.trials[-1].params


def test_directions_are_those_of_the_levels() -> None:
    """A maximized lower level answers with its maximum, whatever the upper level's direction."""
    sampler = sampler_of(upper_direction="maximize", lower_direction="minimize")
    study = optuna.create_study(direction="maximize", sampler=sampler)
    objective = decoupled(sampler)

    def flipped(trial: Trial) -> float:
        value = objective(trial)
        return -value if trial.params["query"] == "upper" else value

    study.optimize(flipped, n_trials=22)
    solution = sampler.solution(study)
    assert solution.upper_params == pytest.approx({"x": 0.5}, abs=0.04)
    assert solution.upper_value == pytest.approx(-0.18, abs=0.01)


def test_a_constraint_holds_at_or_below_zero() -> None:
    """A queried constraint has Optuna's sign."""
    sampler = sampler_of(upper_constraints=["C"])
    solution = sampler.solution(study_of(sampler, 28))
    assert solution.upper_params == pytest.approx({"x": 0.6}, abs=0.05)
    assert solution.feasible


def test_the_log_points_to_the_solution(caplog: pytest.LogCaptureFixture) -> None:
    """Once at the first suggestion of the models, and once when the objective stops the study."""
    sampler = sampler_of()
    objective = decoupled(sampler)

    def stopping(trial: Trial) -> float:
        if trial.number == 8:
            trial.study.stop()
        return objective(trial)

    with caplog.at_level(logging.INFO, "bbo_plugins"):
        optuna.create_study(sampler=sampler).optimize(stopping, n_trials=12)
    pointers = [r.message for r in caplog.records if "is sampler.solution(study)" in r.message]
    first, last = pointers
    assert "models suggest from trial 6 on" in first
    assert "the study is stopped" in last
    assert all("not study.best_trial, a single evaluation" in line for line in pointers)


# -------------------------------------------------------------------------------------- the start


def test_the_start_shares_trials_among_functions() -> None:
    """n_startup_trials is spent evenly; only then do models speak."""
    study = study_of(sampler_of(n_startup_trials=8), 10)
    asked = [trial.params["query"] for trial in study.trials[:8]]
    assert (asked.count("upper"), asked.count("lower")) == (4, 4)
    reasons = [trial.system_attrs.get(BILEVEL_KEY, {}).get("reason") for trial in study.trials]
    assert set(reasons[1:8]) == {"start"}
    assert "start" not in reasons[8:]


# ----------------------------------------------------------------- what is stored, what it is for


def test_best_trial_takes_well_known_upper_queries_only(solved: tuple[BILBOSampler, Study]) -> None:
    """The raw best value belongs to another function; best_trial is an answered upper query."""
    _, study = solved
    raw_best = min(study.trials, key=lambda trial: trial.value or 0.0)
    best = study.best_trial
    assert raw_best.params["query"] == "lower"
    assert best.params["query"] == "upper"
    assert best.params["z"] == pytest.approx(best.params["x"], abs=0.15)
    for trial in study.trials:
        said = trial.system_attrs.get(BILEVEL_KEY, {})
        trusted = trial.params["query"] == "upper" and said.get("reason") == "optimism"
        trusted = trusted and said["bounds"]["lower"] <= 0.2
        assert (max(trial.system_attrs["constraints"]) <= 0.0) == trusted


def test_best_trial_breaks_no_constraint_that_is_known_well() -> None:
    """Where each answer of the lower level breaks the upper one's, no trial is feasible."""
    sampler = BILBOSampler(["x"], ["z"], upper_constraints=["c"], seed=0)

    def objective(trial: Trial) -> float:
        query = trial.suggest_categorical("query", sampler.functions)
        x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
        values = {"upper": (x - 0.3) ** 2 + z, "lower": (z - 0.9) ** 2, "c": z - 0.5}
        return values[query]

    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=32)
    known = [
        trial.number
        for trial in study.trials
        if trial.system_attrs.get(BILEVEL_KEY, {}).get("bounds", {}).get("c", math.inf) < 0.1
        and trial.params["query"] == "upper"
    ]
    assert known
    for number in known:
        assert max(study.trials[number].system_attrs["constraints"]) > 0.0


def test_a_resumed_study_continues_as_if_uninterrupted() -> None:
    """A fresh sampler, or a pickled one, on the same storage makes the same suggestions."""
    whole = queries_of(study_of(sampler_of(3), 16))
    for revive in (lambda _: sampler_of(3), lambda s: pickle.loads(pickle.dumps(s))):  # noqa: S301
        sampler = sampler_of(3)
        study = study_of(sampler, 9)
        study.sampler = revive(sampler)
        study.optimize(decoupled(sampler), n_trials=7)
        assert queries_of(study) == whole


def _smallest_distance(queries: Sequence[Mapping[str, Any]]) -> float:
    """Return the smallest distance of two queries of the same function."""
    return min(
        (
            math.dist((a["x"], a["z"]), (b["x"], b["z"]))
            for a, b in combinations(queries, 2)
            if a["query"] == b["query"]
        ),
        default=math.inf,
    )


def test_running_trials_are_unanswered_queries() -> None:
    """Asked but unfinished trials are not asked again, and inform the function they are for."""
    sampler = sampler_of()
    study = study_of(sampler, 12)
    asked = [study.ask() for _ in range(3)]
    for trial in asked:
        trial.suggest_categorical("query", sampler.functions)
        trial.suggest_float("x", 0.0, 1.0)
    stored = TrialReader().read(study)
    distributions = distributions_of(stored.rows, sampler._roles)
    trials = BilevelTrials.read(stored, sampler._roles, PlacedTrials(distributions))
    unanswered = {name: len(of.unanswered) for name, of in trials.data.items()}
    assert sum(unanswered.values()) == 3
    for trial in asked:
        trial.suggest_float("z", 0.0, 1.0)
    assert _smallest_distance([trial.params for trial in asked]) > 0.1


@pytest.mark.parametrize("only_earlier", [False, True])
def test_an_overtaken_query_is_dead(only_earlier: bool) -> None:
    """Also for a look at earlier trials, among which those that overtook it are not."""
    sampler = sampler_of()
    study = study_of(sampler, 2)
    study.enqueue_trial({"query": "upper", "x": 0.1, "z": 0.9})
    asked = [study.ask() for _ in range(2)]
    asking = study.trials[asked[-1].number]

    def n_unanswered() -> int:
        space = sampler._modeled_distributions(study)
        snapshot = sampler._read_in(study, asking, space, only_earlier=only_earlier)
        return sum(len(data.unanswered) for data in snapshot.data.values())

    study.add_trials([study.trials[0]] * 31)
    assert n_unanswered() == 1
    study.add_trial(study.trials[0])
    assert n_unanswered() == 0


def test_enqueued_parameters_are_kept_and_the_rest_fits_them() -> None:
    """With x fixed the model chooses function and response; with all fixed it says nothing."""
    sampler = sampler_of()
    study = study_of(sampler, 12)
    study.enqueue_trial({"x": 0.25})
    study.enqueue_trial({"query": "upper", "x": 0.1, "z": 0.9})
    study.optimize(decoupled(sampler), n_trials=2)
    partly, wholly = study.trials[-2:]
    assert partly.params["x"] == 0.25
    assert partly.system_attrs[BILEVEL_KEY]["reason"] != "start"
    assert wholly.params == {"query": "upper", "x": 0.1, "z": 0.9}
    assert "reason" not in wholly.system_attrs[BILEVEL_KEY]
    assert max(wholly.system_attrs["constraints"]) > 0.0  # nothing is known of its answer


@pytest.mark.parametrize(
    "given, is_near_failure, is_trusted",
    [({"x": 0.5}, False, True), ({"z": 0.5}, False, False), ({"x": 0.5}, True, False)],
)
@pytest.mark.parametrize("way", ["enqueued", "begun"])
def test_best_trial_takes_no_given_answer_and_none_near_a_failure(
    way: str,
    given: dict[str, float],
    *,
    is_near_failure: bool,
    is_trusted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However well the lower level's value is known there."""
    sampler = sampler_of()
    study = study_of(sampler, 8)
    params = {"query": "upper", **given}
    if way == "enqueued":
        study.enqueue_trial(params)
    else:
        add_begun(study, params)
    query = Query(np.zeros(2), reason="optimism", function="upper", regret_bounds={"lower": 0.01})
    query = replace(query, near_failure=is_near_failure)
    monkeypatch.setattr(bilbo_sampler, "suggest", lambda *_, **__: query)
    study.optimize(decoupled(sampler), n_trials=1)
    assert study.trials[-1].params == {"x": 0.0, "z": 0.0, **params}
    assert (max(study.trials[-1].system_attrs["constraints"]) <= 0.0) == is_trusted


def test_a_trial_begun_by_another_worker_is_completed_around_what_it_has() -> None:
    """With x suggested before that worker died, the answer is one to that x."""
    sampler = sampler_of()
    study = study_of(sampler, 20)
    add_begun(study, {"query": "upper", "x": 0.3})
    study.optimize(decoupled(sampler), n_trials=1)
    assert study.trials[-1].params == {"query": "upper", "x": 0.3, "z": pytest.approx(0.3, abs=0.1)}


@pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")
def test_a_partial_fixed_sampler_holds_a_parameter() -> None:
    """The rest is chosen to go with it: the answer to x = 0.3 is z = 0.3."""
    sampler = sampler_of()
    study = study_of(sampler, 12)
    study.sampler = optuna.samplers.PartialFixedSampler({"x": 0.3}, sampler)
    study.optimize(decoupled(sampler), n_trials=8)
    held = study.trials[12:]
    assert {trial.params["x"] for trial in held} == {0.3}
    assert {trial.system_attrs[BILEVEL_KEY]["reason"] for trial in held} != {"start"}
    assert min(abs(trial.params["z"] - 0.3) for trial in held) < 0.05


# ------------------------------------------------------------------------------ kinds of parameters

# ------------------------------------------------------------------------ odd values, infeasibility


def test_a_query_that_returns_nan_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """NaN is no observation; the log names the query once, and later trials go elsewhere."""
    sampler = sampler_of()
    objective = decoupled(sampler)

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


def _data_of(functions: dict[str, list[float]]) -> dict[str, FunctionData]:
    """Return how values of functions are read that were told at x = 0.1, 0.2, ..."""
    sampler = sampler_of(upper_constraints=["C"])
    study = optuna.create_study(sampler=sampler)
    told = [(name, i, value) for name, of in functions.items() for i, value in enumerate(of, 1)]
    for name, i, _ in told:
        study.enqueue_trial({"query": name, "x": 0.1 * i, "z": 0.5})
    objective = decoupled(sampler)
    study.optimize(lambda trial: told[trial.number][2] + 0.0 * objective(trial), len(told))
    stored = TrialReader().read(study)
    distributions = distributions_of(stored.rows, sampler._roles)
    data = BilevelTrials.read(stored, sampler._roles, PlacedTrials(distributions)).data
    return dict(data)


def test_infinite_values_keep_their_sense() -> None:
    """A bad objective is a failed query; a constraint has its sign, even if all are infinite."""
    inf = math.inf
    upper = [1.0, inf, 3.0, -inf]  # minimized
    data = _data_of({"upper": upper, "lower": [inf, inf, 0.5], "C": [inf, -2.0, -inf]})
    assert data["upper"].y.tolist() == [-1.0, -3.0, -1.0]
    assert data["upper"].failed[:, 0].tolist() == pytest.approx([0.2])
    assert data["lower"].y.tolist() == [-0.5]
    assert data["lower"].failed[:, 0].tolist() == pytest.approx([0.1, 0.2])
    assert data["lower"].unanswered[:, 0].tolist() == pytest.approx([0.1, 0.2])
    assert data["C"].y.tolist() == [-2.0, 2.0, 2.0]  # holds where it is at least 0
    assert len(data["C"].failed) == 0
    data = _data_of({"upper": [inf], "lower": [-inf], "C": [inf, -inf]})
    assert data["C"].y.tolist() == [-1.0, 1.0]
    assert len(data["upper"].y) == len(data["lower"].y) == 0
    assert (len(data["upper"].failed), len(data["lower"].failed)) == (1, 0)


def test_a_constraint_that_says_yes_or_no_leaves_turns_to_the_objectives() -> None:
    """Its border is never known, so it would be asked for nearly always."""
    sampler = sampler_of(upper_constraints=["C"])
    study = optuna.create_study(sampler=sampler)

    def objective(trial: Trial) -> float:
        value = decoupled(sampler)(trial)
        return math.copysign(1.0, value) if trial.params["query"] == "C" else value

    study.optimize(objective, n_trials=50)
    asked = Counter(trial.params["query"] for trial in study.trials)
    assert asked["C"] <= 32
    solution = sampler.solution(study)
    assert solution.feasible
    assert solution.upper_params["x"] == pytest.approx(0.6, abs=0.05)


def test_the_regret_bound_is_that_of_the_trusted_set() -> None:
    """On a grid: the pessimistic value of the solution against the most optimistic of P⁺."""
    sampler = sampler_of(many_responses=True)
    study = optuna.create_study(sampler=sampler)
    levels = [0.05 * i for i in range(21)]

    def objective(trial: Trial) -> float:
        name = trial.suggest_categorical("query", sampler.functions)
        x, z = (trial.suggest_float(key, 0.0, 1.0, step=0.05) for key in "xz")
        return (x - 0.8) ** 2 + (z - 0.2) ** 2 if name == "upper" else (z - x) ** 2

    for _ in range(3):
        study.optimize(objective, n_trials=8)
        posterior = sampler.posterior(study)
        space = posterior.trials.problem.space
        P = space.encode([{"x": x, "z": z} for x in levels for z in levels])
        low, high = {}, {}
        for name in FUNCTIONS:
            mean, sd = posterior.mean(name, P), posterior.deviation(name, P)
            low[name], high[name] = ((mean + k * sd).reshape(21, 21) for k in (-2.0, 2.0))
        answer = low["lower"].argmin(axis=1)[:, None]  # Eq. (4.5); the lower level is minimized
        trusted = low["lower"] <= np.take_along_axis(high["lower"], answer, axis=1)  # Eq. (4.4)
        solution = sampler.solution(study)
        at = (round(solution.upper_params["x"] / 0.05), round(solution.lower_params["z"] / 0.05))
        expected = high["upper"][at] - low["upper"][trusted].min()
        assert solution.regret_bound == pytest.approx(expected, rel=1e-9)


def test_infeasibility_is_declared_in_log_and_storage(caplog: pytest.LogCaptureFixture) -> None:
    """A constraint violated everywhere is declared once in the log, with each trial stored."""
    sampler = sampler_of(upper_constraints=["C"])
    study = optuna.create_study(sampler=sampler)
    objective = decoupled(sampler)

    def infeasible(trial: Trial) -> float:
        value = objective(trial)
        return 1.0 + trial.params["x"] if trial.params["query"] == "C" else value

    with caplog.at_level(logging.WARNING, "bbo_plugins"):
        study.optimize(infeasible, n_trials=30)
    declared = [t.system_attrs.get(BILEVEL_KEY, {}).get("infeasible", False) for t in study.trials]
    assert declared[-1]
    assert sum("looks infeasible" in record.message for record in caplog.records) == 1
    assert not sampler.solution(study).feasible


def test_the_solution_does_not_depend_on_reseeding() -> None:
    """Optuna reseeds a sampler for n_jobs > 1; only what is drawn for trials may change by that."""
    sampler = sampler_of()
    study = optuna.create_study(sampler=sampler)
    study.optimize(decoupled(sampler), n_trials=12)
    before = sampler.solution(study)
    sampler.reseed_rng()
    assert sampler.solution(study) == before


def test_a_condition_that_looks_at_a_dependent_range_is_not_known() -> None:
    """Its thresholds are in the range that holds all, and the models have the latest one."""
    sampler = BILBOSampler(["u"], ["v", "w", "z"], seed=0)

    def objective(trial: optuna.Trial) -> float:
        trial.suggest_categorical("query", sampler.functions)
        u = trial.suggest_float("u", 0.5, 10.0)
        v = trial.suggest_float("v", 0.0, u)
        w = trial.suggest_float("w", 0.0, 1.0) if u > 5.0 else 0.5
        return u + v + w + (trial.suggest_float("z", 0.0, 1.0) if v > 3.0 else 0.5)

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=80)
    trials = TrialReader().read(study)
    assert isinstance(trials.parameters.conditions["z"], Split)
    found = conditions_of(trials, sampler._roles)
    assert found == {"w": trials.parameters.conditions["w"], "z": True}
