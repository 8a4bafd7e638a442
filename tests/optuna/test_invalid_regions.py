"""Objectives that reject a part of the search space: pruned without a value, or by a penalty."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.trial import TrialState

from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.optuna import BBOSampler, BILBOSampler, GOUCBSampler, UHEBOSampler
from bbo_plugins.optuna.study.storage import Proposal
from tests.optuna.snapshots import look
from tests.optuna.studies import stop_below
from tests.reliability.front_door import is_modeled

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial

MAKERS: dict[str, Callable[..., BaseSampler]] = {
    "bbo": BBOSampler,
    "uhe": UHEBOSampler,
    "go_ucb": GOUCBSampler,
}


def _n_pruned(study: Study) -> int:
    return sum(trial.state is TrialState.PRUNED for trial in study.trials)


def _n_different(study: Study) -> int:
    return len({tuple(trial.params.values()) for trial in study.trials})


def _corner(trial: Trial) -> float:
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    if x < 0.15 and y < 0.15:
        if trial.number % 2:
            trial.report(math.nan, 1)
        raise optuna.TrialPruned
    return x + y


@pytest.mark.parametrize("name, most", [("bbo", 16), ("go_ucb", 12), ("uhe", 30)])
def test_forbidden_corner(name: str, most: int) -> None:
    """The unconstrained optimum is forbidden: the search closes in on the border, none twice."""
    study = optuna.create_study(sampler=MAKERS[name](seed=1))
    study.optimize(_corner, n_trials=40)
    assert _n_pruned(study) <= most
    assert _n_different(study) == 40
    assert study.best_value < 0.165  # 0.15 at the border


@pytest.mark.parametrize("name", ["bbo", "uhe", "go_ucb"])
def test_models_of_failures_go_on_from_stored_ones(name: str) -> None:
    """And those of pruned trials, to the last bit; fits from nothing end elsewhere."""

    def objective(trial: Trial) -> float:
        value = _corner(trial)
        trial.report(value, 1)
        if trial.number % 3 == 0:
            raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=RandomSampler(seed=0))
    study.enqueue_trial({"x": 0.1, "y": 0.1})  # which fails
    study.optimize(objective, n_trials=27)
    study.sampler = MAKERS[name](seed=1)
    study.optimize(objective, n_trials=3)
    space: dict[str, BaseDistribution] = dict.fromkeys("xy", FloatDistribution(0.0, 1.0))
    features, warm = FeatureMap.of(look(study, space).space), set()
    for _ in range(3):  # at some numbers of points a warm fit is compared with one from nothing
        seen, trial = look(study, space), study.ask(space)
        proposal = Proposal.from_attributes(study.trials[-1].system_attrs)
        assert proposal is not None
        with one_blas_thread():
            fits, cold = (
                seen.observations.validities(features, starts).warm_starts
                for starts in (seen.warm_starts, {})
            )
        stored = {model: proposal.fits[model] for model in ("Failures", "Completion")}
        assert stored == {model: fit.to_json() for model, fit in fits.items()}
        warm |= {
            model for model in fits if not np.array_equal(fits[model].theta, cold[model].theta)
        }
        study.tell(trial, sum(trial.params.values()))
    assert warm == {"Failures", "Completion"}


def _valley(trial: Trial, what: str) -> float:
    """A valley, with a penalty in half of the square, or with trainings that diverge at random."""
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    if what == "penalty" and x + y > 1.1:
        return 1e6
    if what == "accidents" and trial.number % 7 == 5:
        return 10.0 ** (3 + trial.number % 5)
    return (x - 0.6) ** 2 + (y - 0.3) ** 2 + 0.5 * (x - 0.6) * (y - 0.3)


@pytest.mark.parametrize("what", ["penalty", "accidents"])
@pytest.mark.parametrize("name", MAKERS)
def test_far_worse_values_do_not_bend_the_model(name: str, what: str) -> None:
    """They count as failures; as values they left all of these studies above 1e-5, most 1e-3."""
    study = optuna.create_study(sampler=MAKERS[name](seed=0))
    study.optimize(lambda trial: _valley(trial, what), n_trials=30, callbacks=[stop_below(1e-6)])
    assert study.best_value < 1e-6


@pytest.mark.parametrize("name", MAKERS)
def test_a_diverged_training_may_be_pruned(name: str) -> None:
    """Its last report is no observation either; as one it left these studies above 1e-5."""

    def objective(trial: Trial) -> float:
        value = _valley(trial, "penalty")
        if value == 1e6:
            trial.report(10.0 ** (3 + trial.number % 20), 1)
            raise optuna.TrialPruned
        return value

    study = optuna.create_study(sampler=MAKERS[name](seed=0))
    study.optimize(objective, n_trials=30, callbacks=[stop_below(1e-6)])
    assert _n_pruned(study) > 0
    assert study.best_value < 1e-6


def _cut_off(trial: Trial, how: str) -> float:
    """Half of the square is invalid, which is known before the second parameter."""
    x = trial.suggest_float("x", 0.0, 1.0)
    if how == "reported":
        trial.report(5.0 + x, 1)
    if x > 0.5:
        if how == "failed":
            raise RuntimeError("too large")
        raise optuna.TrialPruned
    return (x - 0.7) ** 2 + (trial.suggest_float("y", 0.0, 1.0) - 0.6) ** 2


@pytest.mark.parametrize(
    "name, how", [("bbo", "pruned"), ("bbo", "reported"), ("bbo", "failed"), ("go_ucb", "reported")]
)
def test_trials_that_end_before_their_last_parameter(name: str, how: str) -> None:
    """They teach as much as others: the proposed values stand for what they did not ask for."""
    study = optuna.create_study(sampler=MAKERS[name](seed=0))
    study.optimize(lambda trial: _cut_off(trial, how), n_trials=28, catch=RuntimeError)
    later = [trial.state is TrialState.COMPLETE for trial in study.trials[16:]]
    assert sum(later) >= 9


def test_queries_that_end_before_their_last_parameter() -> None:
    """So do those of a bilevel study."""
    sampler = BILBOSampler(["x"], ["y"], seed=0)
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler)

    def objective(trial: Trial) -> tuple[float, float]:
        x = trial.suggest_float("x", 0.0, 1.0)
        if x > 0.5:
            raise optuna.TrialPruned
        y = trial.suggest_float("y", 0.0, 1.0)
        return (x - 0.7) ** 2 + y, (y - x) ** 2

    study.optimize(objective, n_trials=20)
    later = [trial.state is TrialState.COMPLETE for trial in study.trials[10:]]
    assert sum(later) >= 7


@pytest.mark.parametrize("name", MAKERS)
def test_all_trials_pruned_with_a_report(name: str) -> None:
    """Without a complete trial their last values teach the model."""
    study = optuna.create_study(sampler=MAKERS[name](seed=0, deterministic_objective=True))

    def objective(trial: Trial) -> float:
        value = trial.suggest_int("n", 0, 5) + trial.suggest_categorical("c", [0, 1, 2])
        trial.report(value, 0)
        raise optuna.TrialPruned

    study.optimize(objective, n_trials=18)
    assert _n_different(study) == 18
    assert is_modeled(study.trials[-1])


def _strip(x: float, y: float) -> bool:
    """A band of a tenth of the square is allowed, across the diagonal."""
    return abs(x + y - 1.2) < 0.06


@pytest.mark.parametrize("seed", [100, 102])
def test_a_strip_along_the_design_is_found(seed: int) -> None:
    """The lines on which the start-up's points lie run beside this one, as far as they go."""
    study = optuna.create_study(sampler=UHEBOSampler(seed=seed))

    def objective(trial: Trial) -> float:
        x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
        if not _strip(x, y):
            raise optuna.TrialPruned
        return (x - 0.25) ** 2 + (y - 0.75) ** 2

    study.optimize(objective, n_trials=40)
    assert _n_different(study) == 40
    assert 40 - _n_pruned(study) >= 2


@pytest.mark.parametrize("name", [*MAKERS, "bilbo"])
def test_all_first_trials_pruned(name: str) -> None:
    """The search neither raises nor repeats a point of a small space, and ends up with a model."""
    sampler: BaseSampler = BILBOSampler(["x"], ["y"], seed=1, n_startup_trials=4)
    if name in MAKERS:
        sampler = MAKERS[name](seed=1, n_startup_trials=4)
    n_directions = 2 if name == "bilbo" else 1
    study = optuna.create_study(directions=["minimize"] * n_directions, sampler=sampler)

    def objective(trial: Trial) -> float | tuple[float, float]:
        if trial.number == 0:
            raise optuna.TrialPruned  # before it has any parameter
        x, y = trial.suggest_int("x", 0, 7), trial.suggest_int("y", 0, 7)
        if trial.number < 30:
            raise optuna.TrialPruned
        value = float((x - 3) ** 2 + (y - 5) ** 2)
        return (value, value) if n_directions == 2 else value

    study.optimize(objective, n_trials=30)
    assert _n_different(study) == 30
    study.optimize(objective, n_trials=6)
    pruned = {tuple(trial.params.values()) for trial in study.trials[:30]}
    assert not pruned & {tuple(trial.params.values()) for trial in study.trials[30:]}


def test_start_up_ends_where_most_points_are_invalid() -> None:
    """One observation is enough for a model; the failed points count for the start-up."""
    study = optuna.create_study(sampler=UHEBOSampler(seed=1, n_startup_trials=5))

    def objective(trial: Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        if trial.number != 7:
            raise optuna.TrialPruned
        return x

    study.optimize(objective, n_trials=9)
    assert [is_modeled(trial) for trial in study.trials] == [False] * 8 + [True]


@pytest.mark.parametrize("n_invalid, n_startup", [(2, 6), (20, 8)])
@pytest.mark.parametrize("name", ["x_{}", "x"], ids=["branch", "category"])
def test_start_up_goes_on_for_a_choice_without_a_value(
    name: str, n_invalid: int, n_startup: int
) -> None:
    """With four trials, it ends when both choices have a value, or after eight."""
    study = optuna.create_study(sampler=UHEBOSampler(seed=1, n_startup_trials=4))
    n_failed = 0

    def objective(trial: Trial) -> float:
        nonlocal n_failed
        kind = trial.suggest_categorical("kind", ["a", "b"])
        x = trial.suggest_float(name.format(kind), 0.0, 1.0)
        if trial.number == 4 or (kind == "a" and n_failed < n_invalid):
            n_failed += kind == "a"
            raise optuna.TrialPruned
        return x

    study.optimize(objective, n_trials=10)
    modeled = [is_modeled(trial) for trial in study.trials]
    assert modeled.index(True) == n_startup


def test_a_choice_is_not_given_up_for_what_else_failed() -> None:
    """Where other parameters are conditional, a choice with which a trial failed comes again."""
    study = optuna.create_study(
        sampler=UHEBOSampler(seed=1, n_startup_trials=4, warn_independent_sampling=False)
    )

    def objective(trial: Trial) -> float:
        kind = trial.suggest_categorical("kind", ["a", "b"])
        x = trial.suggest_float(f"x_{kind}", 0.0, 1.0)
        if kind == "a" and x > 0.8:
            raise optuna.TrialPruned
        return 1.0 - x if kind == "a" else 5.0 + x

    study.enqueue_trial({"kind": "a", "x_a": 0.9})
    study.optimize(objective, n_trials=25)
    first = next(trial.number for trial in study.trials if trial.state is TrialState.PRUNED)
    later = [trial.params["kind"] for trial in study.trials[first + 1 :]]
    assert later.count("a") > len(later) // 2


@pytest.mark.parametrize("where", ["violated", "elsewhere"])
@pytest.mark.parametrize("name", MAKERS)
def test_penalties_beside_a_constraint(name: str, where: str) -> None:
    """They bend no model; as values they left all six studies above 1e-4."""

    def objective(trial: Trial) -> float:
        value, (x, y) = _valley(trial, "penalty"), trial.params.values()
        trial.set_user_attr("c", x + y - 1.1 if where == "violated" else x - 0.9)
        return value

    sampler = MAKERS[name](seed=1, constraints_func=lambda trial: [trial.user_attrs["c"]])
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=30, callbacks=[stop_below(1e-6)])
    feasible = [trial.values[0] for trial in study.trials if trial.user_attrs["c"] <= 0.0]
    assert min(feasible) < 1e-6
