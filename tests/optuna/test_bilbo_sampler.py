"""BILBO in Optuna: whole studies, what is stored, resuming, pending trials, bad input by name."""

from __future__ import annotations

import logging
import math
import pickle
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna.bilevel.trials import REASON_KEY, BilevelTrials, distributions_of, doubt
from bbo_plugins.optuna.sampling.snapshot import PlacedTrials
from bbo_plugins.optuna.study.trials import TrialReader
from tests.optuna.bilevel_studies import (
    FUNCTIONS,
    HAS_SET_CONSTRAINT,
    coupled,
    decoupled,
    queries_of,
    sampler_of,
    study_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import Trial

    from bbo_plugins.optuna.bilbo_sampler import BILBOSampler

needs_set_constraint = pytest.mark.skipif(
    not HAS_SET_CONSTRAINT, reason="this Optuna has no Trial.set_constraint"
)


@pytest.fixture(scope="module")
def solved() -> tuple[BILBOSampler, Study]:
    """Return a finished decoupled study."""
    sampler = sampler_of()
    return sampler, study_of(sampler, 36)


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


def _pointers(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the lines for whoever watches that name the solution."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.INFO and "is sampler.solution(study), not" in record.message
    ]


def test_the_log_points_to_the_solution(caplog: pytest.LogCaptureFixture) -> None:
    """Once per study at the first suggestion of the models, and when the objective stops it."""
    sampler = sampler_of()
    objective = decoupled(sampler)

    def stopping(trial: Trial) -> float:
        if trial.number == 9:
            trial.study.stop()
        return objective(trial)

    for _ in range(2):
        caplog.clear()
        study = optuna.create_study(sampler=sampler)
        with caplog.at_level(logging.INFO, "bbo_plugins"):
            study.optimize(objective, n_trials=6)
            assert _pointers(caplog) == []
            study.optimize(objective, n_trials=2)
            (first,) = _pointers(caplog)
            assert "models suggest from trial 6 on" in first
            assert "not study.best_trial, a single evaluation" in first
            study.optimize(stopping, n_trials=9)
        assert len(study.trials) == 10
        last = _pointers(caplog)[-1]
        assert _pointers(caplog) == [first, last]
        assert "the study is stopped" in last


@needs_set_constraint
def test_the_log_of_a_coupled_study_names_its_front(caplog: pytest.LogCaptureFixture) -> None:
    """There, Optuna has no best trial."""
    sampler = sampler_of(lower_constraints=["C"])
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    with caplog.at_level(logging.INFO, "bbo_plugins"):
        study.optimize(coupled, n_trials=5)
    (line,) = _pointers(caplog)
    assert "not study.best_trials, a Pareto front" in line


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

    study.optimize(flipped, n_trials=30)
    solution = sampler.solution(study)
    assert solution.upper_params == pytest.approx({"x": 0.5}, abs=0.04)
    assert solution.upper_value == pytest.approx(-0.18, abs=0.01)


def test_a_constraint_holds_at_or_below_zero() -> None:
    """A queried constraint has Optuna's sign."""
    sampler = sampler_of(upper_constraints=["C"])
    solution = sampler.solution(study_of(sampler, 40))
    assert solution.upper_params == pytest.approx({"x": 0.6}, abs=0.05)
    assert solution.feasible


# -------------------------------------------------------------------------------------- the start


def test_the_start_shares_trials_among_functions() -> None:
    """n_startup_trials is spent evenly; only then do models speak."""
    sampler = sampler_of(n_startup_trials=8)
    study = study_of(sampler, 10)
    asked = [trial.params["query"] for trial in study.trials[:8]]
    assert (asked.count("upper"), asked.count("lower")) == (4, 4)
    reasons = [trial.system_attrs.get(REASON_KEY, {}).get("reason") for trial in study.trials]
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
        said = trial.system_attrs.get(REASON_KEY, {})
        trusted = trial.params["query"] == "upper" and said.get("reason") == "optimism"
        trusted = trusted and said["bounds"]["lower"] <= 0.2
        assert (max(trial.system_attrs["constraints"]) <= 0.0) == trusted


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


def test_running_trials_are_pending_queries() -> None:
    """Asked but unfinished trials are not asked again, and inform the function they are for."""
    sampler = sampler_of()
    study = study_of(sampler, 12)
    asked = [study.ask() for _ in range(3)]
    for trial in asked:
        trial.suggest_categorical("query", sampler.functions)
        trial.suggest_float("x", 0.0, 1.0)
    stored = TrialReader().read(study)
    distributions = distributions_of(stored.rows, sampler._roles, coupled=False)
    trials = BilevelTrials.read(stored, sampler._roles, PlacedTrials(distributions))
    pending = {name: len(of.pending) for name, of in trials.data.items()}
    assert sum(pending.values()) == 2  # the latest one stands for the asking one
    for trial in asked:
        trial.suggest_float("z", 0.0, 1.0)
    assert _smallest_distance([trial.params for trial in asked]) > 0.1


def test_enqueued_parameters_are_kept_and_the_rest_fits_them() -> None:
    """With x fixed the model chooses function and response; with all fixed it says nothing."""
    sampler = sampler_of()
    study = study_of(sampler, 12)
    study.enqueue_trial({"x": 0.25})
    study.enqueue_trial({"query": "upper", "x": 0.1, "z": 0.9})
    study.optimize(decoupled(sampler), n_trials=2)
    partly, wholly = study.trials[-2:]
    assert partly.params["x"] == 0.25
    assert partly.system_attrs[REASON_KEY]["reason"] != "start"
    assert wholly.params == {"query": "upper", "x": 0.1, "z": 0.9}
    assert REASON_KEY not in wholly.system_attrs
    assert max(wholly.system_attrs["constraints"]) > 0.0  # nothing is known of its answer


@pytest.mark.parametrize(
    "fixed, is_trusted", [({}, True), ({"x": 0.5}, True), ({"z": 0.5}, False), ({"w": 0.5}, True)]
)
def test_a_fixed_answer_is_not_trusted(
    solved: tuple[BILBOSampler, Study], fixed: dict[str, float], *, is_trusted: bool
) -> None:
    """Of one possible answer it is the best one, however well its value is known."""
    sampler, study = solved
    said = {"v": 1, "reason": "optimism", "infeasible": False, "bounds": {"lower": 0.01}}
    trial = optuna.trial.create_trial(
        params={"query": "upper", "x": 0.5, "z": 0.5},
        distributions=study.trials[0].distributions,
        value=0.18,
        system_attrs={REASON_KEY: said, "fixed_params": fixed},
    )
    chosen = sampler._fixed(study, trial, trial.distributions)
    assert (doubt(trial, sampler._roles, chosen) <= 0.0) == is_trusted
    said["near_failure"] = True
    trial.system_attrs[REASON_KEY] = said
    assert doubt(trial, sampler._roles, chosen) > 0.0


@pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")
def test_a_partial_fixed_sampler_holds_a_parameter() -> None:
    """The rest is chosen to go with it: the answer to x = 0.3 is z = 0.3."""
    sampler = sampler_of()
    study = study_of(sampler, 12)
    study.sampler = optuna.samplers.PartialFixedSampler({"x": 0.3}, sampler)
    study.optimize(decoupled(sampler), n_trials=8)
    held = study.trials[12:]
    assert {trial.params["x"] for trial in held} == {0.3}
    assert {trial.system_attrs[REASON_KEY]["reason"] for trial in held} != {"start"}
    assert min(abs(trial.params["z"] - 0.3) for trial in held) < 0.05


# ------------------------------------------------------------------------------ kinds of parameters

KINDS: dict[str, BaseDistribution] = {
    "float": FloatDistribution(-1e3, 1e3),
    "log float": FloatDistribution(1e-7, 10.0, log=True),
    "step": FloatDistribution(-0.3, 0.3, step=0.1),
    "int": IntDistribution(-5, 9),
    "log int": IntDistribution(1, 1000, log=True),
    "stepped int": IntDistribution(0, 12, step=4),
    "choices": CategoricalDistribution(["a", None, 3, True]),
    "one number": FloatDistribution(2.0, 2.0),
    "one choice": CategoricalDistribution(["only"]),
}


@pytest.mark.parametrize(
    "upper, lower",
    [*(("float", kind) for kind in KINDS), ("choices", "log int"), ("one number", "step")],
)
def test_every_kind_of_parameter_on_either_level(upper: str, lower: str) -> None:
    """Values are those of the distribution and of its type, and there is a solution."""
    sampler = sampler_of(n_startup_trials=4)
    study = optuna.create_study(sampler=sampler)
    kinds = {"x": KINDS[upper], "z": KINDS[lower]}
    query = CategoricalDistribution(sampler.functions)
    for _ in range(8):
        trial = study.ask({"query": query, **kinds})
        study.tell(trial, sum(map(hash, map(str, trial.params.values()))) % 97 / 97.0)
    solution = sampler.solution(study)
    asked = [trial.params for trial in study.trials]
    for params in [*asked, {**solution.upper_params, **solution.lower_params}]:
        for name, distribution in kinds.items():
            value = params[name]
            assert distribution._contains(distribution.to_internal_repr(value))
            if not isinstance(distribution, CategoricalDistribution):
                assert type(value) is (int if isinstance(distribution, IntDistribution) else float)


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


@pytest.mark.parametrize("state", [TrialState.FAIL, TrialState.RUNNING])
def test_trials_without_a_value_teach_nothing(state: TrialState) -> None:
    """They do not change what the models report; far from them the solution does not either."""
    sampler = sampler_of()
    study = study_of(sampler, 16)
    P = np.array([[0.95, 0.95], [0.9, 0.3]])
    before = sampler.posterior(study)
    for name in sampler.functions:
        for x, z in P.tolist():
            study.add_trial(
                optuna.trial.create_trial(
                    state=state,
                    params={"query": name, "x": x, "z": z},
                    distributions=study.trials[0].distributions,
                )
            )
    study.ask()  # which is the one that is asking
    after = sampler.posterior(study)
    for name in sampler.functions:
        assert len(after.trials.data[name].pending) == 2
        assert after.deviation(name, P) == pytest.approx(before.deviation(name, P), rel=1e-6)
    assert after.pair.point == pytest.approx(before.pair.point, abs=0.02)
    assert after.solution().feasible


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
    declared = [t.system_attrs.get(REASON_KEY, {}).get("infeasible", False) for t in study.trials]
    assert declared[-1]
    assert sum("looks infeasible" in record.message for record in caplog.records) == 1
    assert not sampler.solution(study).feasible
