"""Studies with a pruner: most trials are cut off, and their reports are no final values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.pruners import MedianPruner
from optuna.trial import TrialState

from bbo_plugins.optuna import BBOSampler, GOUCBSampler, UHEBOSampler
from bbo_plugins.optuna.sampling.snapshot import StudyReader
from bbo_plugins.optuna.study.storage import Proposal
from tests.optuna.snapshots import Direction, X, finished, look, study_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial, Trial

MAKERS: dict[str, Callable[..., BaseSampler]] = {
    "bbo": BBOSampler,
    "uhe": UHEBOSampler,
    "go_ucb": GOUCBSampler,
}
N_STEPS = 9


def _trained(x: float, final: float, sign: float, *, stop: int | None = None) -> FrozenTrial:
    """Return a trial whose distance from a value of 5 shrinks to a half, and to a fifth."""
    reports = {1: 5.0 - 5.0 * (5.0 - final), 2: 5.0 - 2.5 * (5.0 - final), 3: final}
    if stop is None:
        values = {step: sign * value for step, value in reports.items()}
        return finished(x, sign * final, reported=values)
    values = {step: sign * value for step, value in reports.items() if step <= stop}
    return finished(x, None, TrialState.PRUNED, values)


@pytest.mark.parametrize("direction, sign", [("maximize", 1.0), ("minimize", -1.0)])
def test_a_pruned_trial_counts_with_what_it_would_have_come_to(
    direction: Direction, sign: float
) -> None:
    """In either direction, better than the median if so, and not as what may be the best."""
    ended = [_trained(x, final, sign) for x, final in enumerate([0.0, 1.0, 2.0, 3.0])]
    stopped = [_trained(7.0, -4.0, sign, stop=1), _trained(8.0, 2.5, sign, stop=2)]
    known = look(study_of(*ended, *stopped, direction=direction)).observations
    # The best value is 3 and the median distance of the others 2: this is the regression's scale.
    np.testing.assert_allclose(known.y, [0.0, 1.0, 2.0, 3.0, -4.0, 2.5], atol=1e-4)
    assert known.complete.tolist() == [True] * 4 + [False] * 2
    assert known.noise_variance is not None
    assert np.isnan(known.noise_variance).tolist() == [True] * 4 + [False] * 2
    assert not known.has_known_noise


def test_reports_without_a_comparison_are_no_better_than_the_median() -> None:
    """Two trials that ended are too few."""
    ended = [_trained(x, final, 1.0) for x, final in enumerate([0.0, 1.0])]
    stopped = finished(8.0, None, TrialState.PRUNED, {1: 9.0})
    known = look(study_of(*ended, stopped)).observations
    np.testing.assert_array_equal(known.y, [0.0, 1.0, 0.0])
    assert known.noise_variance is None


def test_a_pruned_trial_is_never_better_than_all_that_ended() -> None:
    """By its report it would be; but then it would not have been cut off."""
    ended = [_trained(x, final, 1.0) for x, final in enumerate([0.0, 1.0, 2.0])]
    known = look(study_of(*ended, finished(8.0, None, TrialState.PRUNED, {1: 9.0}))).observations
    np.testing.assert_array_equal(known.y, [0.0, 1.0, 2.0, 2.0])


@pytest.mark.parametrize("make", MAKERS.values())
def test_reports_are_a_direction_where_a_constraint_is_met(make: Callable[..., Any]) -> None:
    """Without a complete trial the feasible ones that were cut off may be the best."""
    sampler = make(seed=0, n_startup_trials=4, constraints_func=lambda _: [-1.0])
    study = optuna.create_study(sampler=sampler)
    for _ in range(12):
        trial = study.ask({"x": X})
        trial.report((trial.params["x"] - 3.0) ** 2, 1)
        study.tell(trial, state=TrialState.PRUNED)
    proposals = [Proposal.from_attributes(trial.system_attrs) for trial in study.trials]
    assert [bool(one and one.criterion) for one in proposals[:5]] == [False] * 4 + [True]
    assert min(abs(trial.params["x"] - 3.0) for trial in study.trials) < 0.1


def test_how_far_each_came() -> None:
    """The share of all that came less far; whoever ended came all the way."""
    ended = [_trained(x, final, 1.0) for x, final in enumerate([0.0, 1.0])]
    stopped = [_trained(7.0, 0.0, 1.0, stop=stop) for stop in (2, 1, 1)]
    known = look(study_of(ended[0], *stopped, ended[1])).observations
    assert known.progress is not None
    np.testing.assert_allclose(known.progress, [1.0, 0.4, 0.0, 0.0, 1.0])
    assert not known.are_final
    assert look(study_of(*ended)).observations.are_final


def test_an_infinite_value_stays_that_of_a_complete_trial() -> None:
    """It counts as the best finite one, also beside a pruned trial, and is no prediction."""
    ended = [_trained(x, final, 1.0) for x, final in enumerate([0.0, 1.0, 2.0, 3.0])]
    ended.append(finished(5.0, math.inf, reported={1: -3.0, 2: 0.0, 3: 2.0}))
    known = look(study_of(*ended, _trained(7.0, -4.0, 1.0, stop=1))).observations
    assert known.y[4] == 3.0
    assert known.noise_variance is not None
    assert np.isnan(known.noise_variance[4])


def test_known_noise_of_a_report_is_no_less_than_that_of_its_prediction() -> None:
    """The larger variance counts; complete trials have that of the user."""
    ended = [_trained(x, final, 1.0) for x, final in enumerate([0.0, 1.0, 2.0, 3.0])]
    study = study_of(*ended, _trained(7.0, -4.0, 1.0, stop=1))
    reader = StudyReader(noise_func=lambda _: 0.25)
    noise = look(study, reader=reader).observations.noise_variance
    np.testing.assert_array_equal(noise, np.full(5, 0.25))  # the prediction has next to none
    tiny = StudyReader(noise_func=lambda _: 1e-30)
    noise = look(study, reader=tiny).observations.noise_variance
    assert noise is not None
    assert noise[4] > 1e-20


def test_odd_reports_are_read() -> None:
    """Infinite ones on the way, steps below zero, and steps beyond what an array can hold."""
    ended = [
        finished(x, final, reported={-5: final - 2.0, 2: math.inf, 2**64: final})
        for x, final in enumerate([0.0, 1.0, 2.0, 3.0])
    ]
    stopped = finished(8.0, None, TrialState.PRUNED, {-5: 0.5})
    huge = finished(8.5, None, TrialState.PRUNED, {-5: 0.0, 10**400: 1.0})
    known = look(study_of(*ended, stopped, huge)).observations
    assert known.noise_variance is not None
    assert not np.isnan(known.noise_variance[4:]).any()
    assert 1.0 < known.y[4] <= 3.0
    assert known.progress is not None
    np.testing.assert_allclose(known.progress, [1.0, 1.0, 1.0, 1.0, 0.0, 1.0 / 6.0])


def test_a_diverged_training_says_nothing_of_others_and_is_failed_itself() -> None:
    """Complete or pruned, at a loss of 1e9: the other predictions are those without them."""
    ended = [_trained(0.5 * x, math.sin(x), 1.0) for x in range(12)]
    diverged = [finished(9.0, -1e9, reported={1: -20.0, 2: -1e8, 3: -1e9})]
    diverged += [finished(9.5, None, TrialState.PRUNED, {1: -1e9})]
    stopped = _trained(7.0, -1.5, 1.0, stop=1)
    known = look(study_of(*ended, *diverged, stopped)).observations
    np.testing.assert_array_equal(known.y, look(study_of(*ended, stopped)).observations.y)
    assert known.y[-1] == pytest.approx(-1.5, abs=0.5)
    assert known.failed[:, 0].tolist() == [0.9, 0.95]
    assert known.progress is not None
    assert known.progress.tolist() == [1.0] * 12 + [0.0]


def _slow(trial: Trial) -> float:
    """A loss that falls by 2 to 4 in the course of a training, by more where it begins higher."""
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    final = math.log10(1e-3 + (x - 0.3) ** 2 + (y - 0.6) ** 2)
    for step in range(1, N_STEPS + 1):
        loss = final + (2.0 + 2.0 * x) * (1.0 / step - 1.0 / N_STEPS)
        trial.report(loss, step)
        if step < N_STEPS and trial.should_prune():
            raise optuna.TrialPruned
    return loss


@pytest.mark.parametrize("name, least", [("bbo", 12), ("go_ucb", 3)])
def test_the_minimum_is_found_among_pruned_trials(name: str, least: int) -> None:
    """Some trials are pruned, of the default sampler a quarter or more."""
    study = optuna.create_study(
        sampler=MAKERS[name](seed=0), pruner=MedianPruner(n_startup_trials=5)
    )
    study.optimize(_slow, n_trials=45)
    assert sum(trial.state is TrialState.PRUNED for trial in study.trials) >= least
    assert study.best_value < -2.3


def _hopeless(trial: Trial) -> float:
    """The best values are where every training is cut off at its first step."""
    x, y = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("y", 0.0, 1.0)
    final = (x - 0.8) ** 2 + (y - 0.5) ** 2
    trial.report(final + 1.0, 1)
    if x > 0.55:
        raise optuna.TrialPruned
    return final


@pytest.mark.parametrize("name", ["bbo", "go_ucb"])
def test_a_region_where_all_trials_are_cut_off_is_left(name: str) -> None:
    """By their predicted values alone all of the latest twenty would go there."""
    study = optuna.create_study(sampler=MAKERS[name](seed=0))
    study.optimize(_hopeless, n_trials=20)

    def is_left() -> bool:
        latest = [trial.state for trial in study.trials[20:]]
        # At the border the value is 0.0625.
        return latest.count(TrialState.COMPLETE) >= 3 and study.best_value < 0.075

    while not is_left() and len(study.trials) < 40:
        study.optimize(_hopeless, n_trials=1)
    assert is_left()
