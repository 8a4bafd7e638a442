"""What a sampler makes of a horizon, and of trials that continue one another."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.gp_bo import DEFAULT_OPTIONS
from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.optuna.sampling.branches import visiting
from bbo_plugins.optuna.study.continuations import CONTINUED_FROM, STEPS, STEPS_MADE
from bbo_plugins.optuna.study.storage import Proposal
from tests.optuna.snapshots import ask
from tests.optuna.studies import BOX, points, quadratic, started

if TYPE_CHECKING:
    from optuna.study import Study

    from bbo_plugins.optuna.sampling.snapshot import Snapshot

HORIZON = InnerHorizon(n_outer=20)
GROWING = InnerHorizon.growing(constant=1.0)


def _add(study: Study, params: dict[str, float], value: float | None, **rest: Any) -> int:
    study.add_trial(create_trial(params=params, distributions=BOX, value=value, **rest))
    return len(study.trials) - 1


def _continue(study: Study, source: int, value: float | None, **rest: Any) -> int:
    params = study.trials[source].params
    return _add(study, params, value, user_attrs={CONTINUED_FROM: source}, **rest)


def _configurations(n: int) -> list[dict[str, float]]:
    rng = np.random.default_rng(5)
    return [dict(zip(BOX, rng.random(3).tolist(), strict=True)) for _ in range(n)]


def _snapshot(study: Study) -> Snapshot:
    """Return what a sampler would see of ``study`` if it were to suggest another trial."""
    sampler = study.sampler
    assert isinstance(sampler, UHEBOSampler)
    trial = study._storage.get_trial(study.ask()._trial_id)
    return sampler._readers.of(study).snapshot(study, trial, BOX, {})


def _assert_same(one: Snapshot, other: Snapshot) -> None:
    assert one.index == other.index
    order, other_order = (np.lexsort(s.observations.X.T) for s in (one, other))
    np.testing.assert_array_equal(one.observations.X[order], other.observations.X[other_order])
    np.testing.assert_array_equal(one.observations.y[order], other.observations.y[other_order])
    np.testing.assert_array_equal(one.observations.pending, other.observations.pending)
    np.testing.assert_array_equal(one.observations.failed, other.observations.failed)
    for name in ("indices", "arms", "finished", "values"):
        np.testing.assert_array_equal(getattr(one.history, name), getattr(other.history, name))
    np.testing.assert_array_equal(one.history.expected_gains, other.history.expected_gains)


@pytest.mark.parametrize("direction", [StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE])
def test_each_configuration_is_one_observation(direction: StudyDirection) -> None:
    """A study with continuations looks like one whose trials have the latest values at once."""
    params = _configurations(5)
    continued = optuna.create_study(direction=direction, sampler=UHEBOSampler(seed=0))
    _add(continued, params[0], 3.0)
    _add(continued, params[1], 2.0)
    first = _continue(continued, 1, 1.5)
    _add(continued, params[2], 2.5)
    _continue(continued, first, 1.7)  # longer training has made it worse: still what counts
    _continue(continued, 0, 2.9)
    _add(continued, params[3], 0.5)
    _add(continued, params[4], None, state=TrialState.FAIL)
    plain = optuna.create_study(direction=direction, sampler=UHEBOSampler(seed=0))
    for row, value in zip(params, [2.9, 1.7, 2.5, 0.5], strict=False):
        _add(plain, row, value)
    _add(plain, params[4], None, state=TrialState.FAIL)
    _assert_same(_snapshot(continued), _snapshot(plain))


def test_continuations_do_not_count_towards_the_start_up() -> None:
    """Ten start-up configurations at the points of a study without any continuation."""
    plain = started(UHEBOSampler(seed=3), 10)
    sampler = UHEBOSampler(seed=3)
    study = optuna.create_study(sampler=sampler)
    for _ in range(10):
        trial = study.ask(BOX)
        study.tell(trial, quadratic(trial.params))
        _continue(study, trial.number, quadratic(trial.params) - 0.01)
    new = [trial for trial in study.trials if CONTINUED_FROM not in trial.user_attrs]
    np.testing.assert_array_equal(points(new), points(plain.trials))
    assert _snapshot(study).index == 10
    observed = sampler._readers.of(study).read(study).observed
    assert len(observed) == 10


# --- beta="bilevel" -------------------------------------------------------------------------------


def test_the_log_names_the_trial_and_not_the_configuration(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With a continuation before it, the model's first trial is not of that number."""
    caplog.set_level(logging.INFO)
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=3, seed=0))
    for number, params in enumerate(_configurations(3)):
        _add(study, params, float(number))
    _continue(study, 0, 0.5)
    trial = study.ask(BOX)
    assert trial.number == 4
    assert [one for one in caplog.records if "suggests from trial 4 on" in one.getMessage()]


def _bilevel(horizon: InnerHorizon = HORIZON, **options: Any) -> UHEBOSampler:
    options = {"acquisition": "ucb", "beta": "bilevel", "n_startup_trials": 5, "seed": 2, **options}
    return UHEBOSampler(horizon=horizon, **options)


@pytest.mark.parametrize("horizon", [HORIZON, GROWING])
def test_beta_is_that_of_theorem_4(horizon: InnerHorizon) -> None:
    """√(1 + 10 t s²), s² read off the latest stored fit; and the suggestion is that of this β."""
    study = optuna.create_study(sampler=_bilevel(horizon))
    for _ in range(9):
        trial = study.ask(BOX)
        study.tell(trial, quadratic(trial.params) + 0.3 * math.sin(1e3 * trial.params["x"]))
    proposal = Proposal.from_attributes(study.trials[-1].system_attrs)
    assert proposal is not None
    fit = WarmStart.from_json(proposal.fits["Marginal"])
    assert fit is not None
    noise = math.exp(fit.theta[-1])  # log ℓ (3), log s², log τ₁², log τ₂², log σ²
    beta = math.sqrt(1.0 + 10.0 * 10 * noise)  # the tenth configuration
    by_theorem = study.ask(BOX)
    snapshot = _snapshot_for(study, by_theorem)
    assert _bilevel(horizon)._beta_of(snapshot) == pytest.approx(beta, rel=1e-4)
    twin = optuna.create_study(
        sampler=UHEBOSampler(
            acquisition="ucb", beta=_bilevel(horizon)._beta_of(snapshot), n_startup_trials=5, seed=2
        )
    )
    for finished in study.trials[:-1]:
        twin.add_trial(finished)
    by_number = twin.ask(BOX)
    np.testing.assert_array_equal(points([by_theorem]), points([by_number]))


def test_values_that_teach_a_constraint_only_change_no_beta() -> None:
    """A penalty where one is violated counts for β as a failed trial does."""
    params = _configurations(16)
    sampler = _bilevel(InnerHorizon(n_outer=30, phi=0.1))
    betas = []
    for kept in (True, False):
        study = optuna.create_study(sampler=sampler)
        for i, row in enumerate(params):
            violated = i >= 12
            _add(
                study,
                row,
                None if violated and not kept else 1e6 if violated else quadratic(row),
                state=TrialState.FAIL if violated and not kept else TrialState.COMPLETE,
                system_attrs={"constraints": [1.0 if violated else -1.0]},
            )
        betas.append(sampler._beta_of(_snapshot_for(study, study.ask(BOX))))
    assert betas[0] == betas[1]


@pytest.mark.parametrize("phi", [0.3, None])
def test_beta_of_a_branch_is_that_of_the_study(phi: float | None) -> None:
    """Also where a visit models the branch alone, which has fewer values and no fits."""
    sampler = _bilevel(InnerHorizon(n_outer=30, phi=phi))
    study = optuna.create_study(sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        kind = trial.suggest_categorical("kind", ["a", "b"])
        value = trial.suggest_float("x", 0.0, 1.0) ** 2
        return value if kind == "a" else value + trial.suggest_float("y", 0.0, 1.0)

    for kind in "a" * 6 + "b" * 19:
        study.enqueue_trial({"kind": kind})
    study.optimize(objective, n_trials=25)
    trial = ask(study)
    snapshot = sampler._read(study, trial, sampler.reader_of(study).distributions(study))
    visit = visiting(snapshot, deterministic=False)
    assert len(visit.observations.y) == 6
    assert sampler._beta_of(visit) == sampler._beta_of(snapshot) != DEFAULT_OPTIONS.beta


def _snapshot_for(study: Study, trial: optuna.Trial) -> Snapshot:
    frozen = study._storage.get_trial(trial._trial_id)
    sampler = UHEBOSampler(seed=0)
    return sampler._readers.of(study).snapshot(study, frozen, BOX, {})


# --- known noise ----------------------------------------------------------------------------------

KNOWN = InnerHorizon.growing(constant=1.0, phi=0.6)


def _study_of_steps(sampler: UHEBOSampler) -> tuple[Study, list[int]]:
    """Return a study and the steps behind the value of each configuration."""
    study = optuna.create_study(sampler=sampler)
    params = _configurations(6)
    for row, n in zip(params[:3], (1, 4, 9), strict=True):
        _add(study, row, quadratic(row), user_attrs={STEPS: [0, n]})
    attributes = {CONTINUED_FROM: 1, STEPS: [4, 25]}
    _add(study, params[1], quadratic(params[1]) - 0.01, user_attrs=attributes)
    _add(study, params[3], quadratic(params[3]))  # trial 4, by the horizon
    _add(
        study,
        params[4],
        None,
        state=TrialState.PRUNED,
        intermediate_values={6: quadratic(params[4])},
        user_attrs={STEPS: [0, 36]},
    )
    _add(
        study,
        params[5],
        None,
        state=TrialState.PRUNED,
        intermediate_values={3: quadratic(params[5])},  # of an iteration of several steps
        user_attrs={STEPS: [0, 36], STEPS_MADE: 27},
    )
    return study, [1, 9, 25, 25, 7, 27]


def test_noise_of_a_horizon_is_known() -> None:
    """φ² over all steps that a value has behind it, of a pruned trial those it made or reported."""
    study, steps = _study_of_steps(UHEBOSampler(seed=0, horizon=KNOWN))
    snapshot = _snapshot(study)
    assert not snapshot.notes
    noise = snapshot.observations.noise_variance
    assert noise is not None
    np.testing.assert_allclose(noise, [0.36 / n for n in steps])


@pytest.mark.parametrize("phi", [600.0, None])
def test_beta_leaves_pruned_trials_out(phi: float | None) -> None:
    """What their training would have come to is no error of the inner level."""
    betas = []
    for reports in ({}, {1: 5e3}):
        study = optuna.create_study()
        for row, value in zip(_configurations(4), (1e3, 2e3, 4e3, 9e3), strict=True):
            _add(study, row, value, intermediate_values={1: value + 1e3, 2: value})
        row = _configurations(5)[4]
        _add(study, row, None, state=TrialState.PRUNED, intermediate_values=reports)
        sampler = _bilevel(InnerHorizon.growing(constant=1.0, phi=phi))
        betas.append(sampler._beta_of(_snapshot_for(study, study.ask())))
    assert betas[0] == betas[1]


@pytest.mark.parametrize("by_sampler", [False, True])
def test_beta_takes_known_noise_in_units_of_the_values(by_sampler: bool) -> None:
    """√(1 + 10 Σ (φ² / Nᵢ) / var y), whatever the fits say; the unit of the objective cancels."""
    study = optuna.create_study()
    for row, value in zip(_configurations(4), (1e3, 2e3, 4e3, 9e3), strict=True):
        _add(study, row, value)
    for state in (TrialState.FAIL, TrialState.RUNNING):  # without a value, no evaluation
        _add(study, _configurations(5)[4], None, state=state)
    horizon = InnerHorizon.growing(constant=1.0, phi=600.0)
    trial = study.ask()
    sampler = _bilevel(horizon)
    frozen = study._storage.get_trial(trial._trial_id)
    by = sampler._readers.of(study).snapshot(study, frozen, BOX, {})
    snapshot = by if by_sampler else _snapshot_for(study, trial)
    noise = sum(0.36 / t**2 for t in (1, 2, 3, 4, 7)) / np.var([1.0, 2.0, 4.0, 9.0])
    expected = math.sqrt(1.0 + 10.0 * noise)  # the seventh configuration has 49 steps
    assert sampler._beta_of(snapshot) == pytest.approx(expected, rel=1e-12)
