"""UHEBOSampler in studies: start-up, model, odd trials, and what it tells the user."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.optuna.study.proposal import Proposal
from tests.optuna.studies import BOX, MIXED, points, quadratic, started, warnings_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.trial import FrozenTrial, Trial


# --------------------------------------------------------------------------------------- start-up


def test_startup_fills_the_space() -> None:
    """The trials after the first one are spread evenly: one in each eighth of each axis."""
    study = started(UHEBOSampler(n_startup_trials=100, seed=0), n=64)
    design = points(study.trials[1:])
    for axis in range(3):
        counts = np.histogram(design[:, axis], bins=8, range=(0.0, 1.0))[0]
        assert counts.min() >= 6  # independent draws would leave far emptier cells
        assert counts.max() <= 10


def test_startup_counts_usable_observations() -> None:
    """Complete trials and pruned ones with a value count; failed ones do not."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))

    def fits_stored() -> bool:
        trial = study.ask(BOX)
        frozen = study._storage.get_trial(trial._trial_id)
        outcome = next(outcomes)
        if outcome == "prune":
            trial.report(1.0, 0)
        study.tell(
            trial,
            quadratic(trial.params) if outcome == "complete" else None,
            state={"fail": TrialState.FAIL, "prune": TrialState.PRUNED}.get(outcome),
        )
        proposal = Proposal.from_attributes(frozen.system_attrs)
        return proposal is not None and bool(proposal.fits)

    outcomes = iter(["complete", "fail", "prune", "complete", "fail", "complete", "complete"])
    modeled = [fits_stored() for _ in range(7)]
    assert modeled == [False, False, False, False, False, False, True]


def test_users_sampler_does_the_startup() -> None:
    """With an independent sampler of the user's, the start-up is what that sampler alone does."""
    alone = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=5))
    given = optuna.create_study(
        sampler=UHEBOSampler(
            independent_sampler=optuna.samplers.RandomSampler(seed=5), n_startup_trials=4, seed=0
        )
    )
    for study in (alone, given):
        for _ in range(5):
            trial = study.ask(BOX)
            study.tell(trial, quadratic(trial.params))
    np.testing.assert_array_equal(points(given.trials[:4]), points(alone.trials[:4]))
    assert points(given.trials[4:]).tolist() != points(alone.trials[4:]).tolist()


def test_end_of_startup_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """One INFO line says when the model takes over, for each study."""
    caplog.set_level(logging.INFO, "bbo_plugins")
    sampler = UHEBOSampler(n_startup_trials=3, seed=0)
    for _ in range(2):
        started(sampler)
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert len([line for line in lines if "start-up is over, 3 observations" in line]) == 2
    assert not warnings_in(caplog)


def test_no_startup_at_all() -> None:
    """With n_startup_trials=0 the model suggests as soon as there is one observation."""
    study = started(UHEBOSampler(n_startup_trials=0, seed=0), n=2)
    proposal = Proposal.from_attributes(study.trials[1].system_attrs)
    assert proposal is not None
    assert proposal.fits


def test_reseeding_does_not_break_the_startup_design() -> None:
    """Optuna reseeds before every trial if n_jobs > 1; the points still belong to one design."""
    reseeded = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=100, seed=0))
    for number in range(33):
        if number == 20:  # a worker's own copy goes on with the same design
            reseeded.sampler = pickle.loads(pickle.dumps(copy.deepcopy(reseeded.sampler)))  # noqa: S301 - our own bytes
        reseeded.sampler.reseed_rng()
        trial = reseeded.ask(BOX)
        reseeded.tell(trial, quadratic(trial.params))
    plain = started(UHEBOSampler(n_startup_trials=100, seed=0), n=33)
    np.testing.assert_array_equal(points(reseeded.trials[1:]), points(plain.trials[1:]))


def test_failing_points_of_the_startup_are_not_repeated() -> None:
    """In a finite space, a point at which evaluation failed is taken."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=100, seed=0))
    space: dict[str, Any] = {"a": IntDistribution(0, 3), "b": CategoricalDistribution("xyz")}
    seen = []
    for number in range(12):
        trial = study.ask(space)
        seen.append((trial.params["a"], trial.params["b"]))
        if number % 2:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, 1.0)
    assert len(set(seen)) == 12


# ------------------------------------------------------------------------------------------ model


@pytest.mark.parametrize("acquisition", ["logei", "ei", "ucb"])
@pytest.mark.parametrize("direction, sign", [("minimize", 1.0), ("maximize", -1.0)])
@pytest.mark.parametrize("estimation", ["uhe", "map"])
def test_the_optimum_is_found(
    acquisition: Any, direction: Any, sign: float, estimation: Any
) -> None:
    """Twenty-five trials go far below what random search reaches, in either direction."""
    sampler = UHEBOSampler(
        acquisition=acquisition, estimation=estimation, n_startup_trials=6, seed=1
    )
    study = optuna.create_study(sampler=sampler, direction=direction)
    study.optimize(
        lambda trial: sign * quadratic({name: trial.suggest_float(name, 0.0, 1.0) for name in BOX}),
        n_trials=25,
    )
    assert abs(study.best_value) < 2e-3


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("n_startup_trials", [2, 10, 30])
@pytest.mark.parametrize("estimation", ["uhe", "map"])
def test_finite_space_is_exhausted_before_anything_repeats(
    deterministic: bool, n_startup_trials: int, estimation: Any
) -> None:
    """Twelve points take twelve trials if the objective is deterministic, then repeats are fine."""
    study = optuna.create_study(
        sampler=UHEBOSampler(
            deterministic_objective=deterministic,
            estimation=estimation,
            n_startup_trials=n_startup_trials,
            seed=0,
        )
    )
    seen = []
    for _ in range(15):
        trial = study.ask({"a": IntDistribution(0, 3), "b": CategoricalDistribution("xyz")})
        study.tell(trial, trial.params["a"] + (trial.params["b"] == "y"))
        seen.append((trial.params["a"], trial.params["b"]))
    n_distinct = len(set(seen[:12]))
    assert n_distinct == 12 if deterministic else n_distinct >= min(12, n_startup_trials)


def test_known_noise_changes_the_model() -> None:
    """A variance that says the best value is mere noise leads elsewhere than one that trusts it."""

    def last(noise: float) -> list[float]:
        sampler = UHEBOSampler(n_startup_trials=6, seed=0, noise_func=lambda _: noise)
        study = started(sampler, n=7)
        return points(study.trials)[-1].tolist()  # type: ignore[no-any-return]

    assert last(1e-8) != last(10.0)


@pytest.mark.parametrize("returned", [-1.0, 10**400])
def test_invalid_noise_warns_once(returned: float, caplog: pytest.LogCaptureFixture) -> None:
    """A noise function that returns nonsense is ignored, and said to be so, once."""
    started(UHEBOSampler(n_startup_trials=2, seed=0, noise_func=lambda _: returned), n=6)
    (warning,) = warnings_in(caplog)
    assert (
        "noise_func must return a finite non-negative variance, but did not for 1 trial " in warning
    )


def test_errors_of_the_noise_function_are_the_users() -> None:
    """A bug in the user's function is not swallowed."""

    def noise_func(trial: FrozenTrial) -> float:
        raise RuntimeError(f"bug at {trial.number}")

    with pytest.raises(RuntimeError, match="bug at 0"):
        started(UHEBOSampler(n_startup_trials=2, seed=0, noise_func=noise_func), n=4)


def test_one_sampler_serves_two_studies() -> None:
    """Two studies of different spaces, one sampler, taking turns: as if each had its own."""
    shared = UHEBOSampler(n_startup_trials=3, seed=0)
    boxes, mixed = optuna.create_study(sampler=shared), optuna.create_study(sampler=shared)
    for _ in range(5):
        trial = boxes.ask(BOX)
        boxes.tell(trial, quadratic(trial.params))
        trial = mixed.ask(MIXED)
        mixed.tell(trial, trial.params["s"])
    own = started(UHEBOSampler(n_startup_trials=3, seed=0), n=5)
    np.testing.assert_array_equal(points(boxes.trials), points(own.trials))
    assert all(set(trial.params) == set(MIXED) for trial in mixed.trials)


# ---------------------------------------------------------------------------------- odd trials


def test_infinite_values_warn_once_and_do_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """±inf is COMPLETE for Optuna; the model goes on, with one warning."""
    study = started(UHEBOSampler(n_startup_trials=3, seed=0), n=4)
    for value in (math.inf, -math.inf, math.inf):
        study.tell(study.ask(BOX), value)
    for _ in range(3):
        trial = study.ask(BOX)
        study.tell(trial, quadratic(trial.params))
    (warning,) = [line for line in warnings_in(caplog) if "infinite" in line]
    assert "largest or smallest finite" in warning
    assert len(study.trials) == 10


def test_failed_and_nan_trials_are_passed_over() -> None:
    """Exceptions and NaN fail the trial and leave the study usable."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=2, seed=0))

    def objective(trial: Trial) -> float:
        value = quadratic({name: trial.suggest_float(name, 0.0, 1.0) for name in BOX})
        if trial.number % 3 == 1:
            raise ValueError
        return math.nan if trial.number % 3 == 2 else value

    study.optimize(objective, n_trials=12, catch=ValueError)
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.COMPLETE, TrialState.FAIL, TrialState.FAIL] * 4


def test_pruning_pays() -> None:
    """With half the trials pruned, the study still gets close to the optimum."""
    study = optuna.create_study(
        sampler=UHEBOSampler(n_startup_trials=5, seed=0), pruner=optuna.pruners.MedianPruner(3)
    )

    def objective(trial: Trial) -> float:
        value = quadratic({name: trial.suggest_float(name, 0.0, 1.0) for name in BOX})
        for step in range(4):
            trial.report(value + 1.0 / (step + 1), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study.optimize(objective, n_trials=30)
    assert any(trial.state == TrialState.PRUNED for trial in study.trials)
    assert study.best_value < 5e-3


def test_several_objectives_are_refused() -> None:
    """The error names the samplers that can, at every entry, before a parameter is sampled."""
    sampler = UHEBOSampler(seed=0)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    trial = study._storage.get_trial(study._storage.create_new_trial(study._study_id))
    entries: list[Callable[[], object]] = [
        study.ask,
        lambda: sampler.before_trial(study, trial),
        lambda: sampler.infer_relative_search_space(study, trial),
        lambda: sampler.sample_relative(study, trial, dict(BOX)),
        lambda: sampler.sample_independent(study, trial, "x", BOX["x"]),
    ]
    for entry in entries:
        with pytest.raises(
            ValueError, match=r"one objective for UHEBOSampler, but got 2.*BBOSampler"
        ):
            entry()
    assert all(not trial.params for trial in study.trials)


# ---------------------------------------------------------------------------------- equal choices


@pytest.mark.parametrize("n_startup_trials", [2, 100])
def test_equal_choices_are_one_choice(n_startup_trials: int) -> None:
    """All that can be observed is, and what is stored and proposed is the index Optuna uses."""
    space: dict[str, Any] = {
        "c": CategoricalDistribution([1, 1.0, True, 0, False, "a"]),
        "n": IntDistribution(0, 1),
    }
    study = optuna.create_study(
        sampler=UHEBOSampler(
            n_startup_trials=n_startup_trials, deterministic_objective=True, seed=0
        )
    )
    seen = []
    for _ in range(6):
        trial = study.ask(space)
        study.tell(trial, float(trial.params["c"] == "a") + trial.params["n"])
        seen.append((repr(trial.params["c"]), trial.params["n"]))
        proposal = Proposal.from_attributes(study.trials[-1].system_attrs)
        if proposal is not None:
            assert proposal.params["c"] in {0, 3, 5}
            assert proposal.values(space) == trial.params
    assert set(seen) == {(c, n) for c in ("1", "0", "'a'") for n in (0, 1)}


# ---------------------------------------------------------------------------- conditional params


def conditional(trial: Trial) -> float:
    """Ask for one parameter always and for one of two others."""
    x = trial.suggest_float("x", 0.0, 1.0)
    other = "even" if trial.number % 2 == 0 else "odd"
    return x + trial.suggest_float(other, 0.0, 1.0)


def test_conditional_parameters_do_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    """The model covers what any finished trial has had."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))
    study.optimize(conditional, n_trials=12)
    assert not warnings_in(caplog)


def test_a_new_parameter_does_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    """It is drawn once; the next model knows it."""

    def objective(trial: optuna.Trial) -> float:
        value = trial.suggest_float("x", 0.0, 1.0)
        return value + (trial.suggest_float("new", 0.0, 1.0) if trial.number >= 6 else 0.5)

    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))
    study.optimize(objective, n_trials=12)
    assert not warnings_in(caplog)


def test_a_value_outside_the_range_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    """A range that depends on another parameter: which, why, and how to silence it."""

    def objective(trial: optuna.Trial) -> float:
        high = trial.suggest_float("high", 0.1, 1.0)
        return -trial.suggest_float("low", 0.0, high)

    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))
    study.optimize(objective, n_trials=30)
    (warning,) = warnings_in(caplog)
    assert warning.startswith("Parameter 'low' of trial")
    for part in ("its range was FloatDistribution(high=", "warn_independent_sampling=False"):
        assert part in warning


def test_notes_of_the_model_are_logged_once_per_kind(caplog: pytest.LogCaptureFixture) -> None:
    """A fallback is told at WARNING, and again only if it is of another kind."""
    sampler = UHEBOSampler(seed=0)
    for note in ("fit failed after 3 steps", "fit failed after 14 steps", "no fit at 1e-3"):
        sampler._log_notes([note])
    assert warnings_in(caplog) == [
        "UHEBOSampler: fit failed after 3 steps",
        "UHEBOSampler: no fit at 1e-3",
    ]


# ----------------------------------------------------------------------------------------- import


def test_import_is_light() -> None:
    """Importing the front door loads neither SciPy nor a database layer; suggesting may."""
    program = "import sys, bbo_plugins.optuna; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert "bbo_plugins.optuna.uhe_bo_sampler" in loaded
    assert not loaded & {"scipy", "sqlalchemy", "pandas", "torch"}
