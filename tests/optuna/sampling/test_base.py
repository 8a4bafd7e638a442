"""UHEBOSampler in studies: start-up, model, odd trials, and what it tells the user."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna import BBOSampler, GOUCBSampler, UHEBOSampler
from bbo_plugins.optuna.study.points import PlacedTrials
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.optuna.study.trials import Once, TrialReader
from tests.optuna.studies import BOX, MIXED, points, quadratic, started, warnings_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.trial import FrozenTrial

    from bbo_plugins.optuna.sampling.base import ModelSampler

# --------------------------------------------------------------------------------------- start-up


@pytest.mark.parametrize(
    "first",
    [["complete", "fail", "prune", "complete"], ["fail", "fail", "fail", "fail", "fail", "prune"]],
    ids=["mixed", "late value"],
)
def test_startup_counts_trials_but_needs_a_value(first: list[str]) -> None:
    """Complete, pruned and failed trials count, as soon as one of them has a value."""
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

    outcomes = iter([*first, "complete"])
    modeled = [fits_stored() for _ in range(len(first) + 1)]
    assert modeled == [*([False] * len(first)), True]


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


@pytest.mark.parametrize("make", [UHEBOSampler, GOUCBSampler])
def test_a_study_that_goes_on_has_no_second_end_of_startup(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A new sampler, as in a script that adds trials, says that the model goes on."""
    study = started(make(n_startup_trials=3, seed=0))
    n = len(study.trials)
    caplog.set_level(logging.INFO, "bbo_plugins")
    study.sampler = make(n_startup_trials=3, seed=0)
    for _ in range(2):
        trial = study.ask(BOX)
        study.tell(trial, quadratic(trial.params))
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert [line for line in lines if "start-up" in line] == []
    assert len([line for line in lines if f"a model goes on from {n} observations" in line]) == 1


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


# ------------------------------------------------------------------------------------------ model


@pytest.mark.parametrize(
    "acquisition, direction, sign, estimation",
    [
        ("logei", "minimize", 1.0, "uhe"),
        ("ei", "maximize", -1.0, "uhe"),
        ("ucb", "minimize", 1.0, "uhe"),
        ("logei", "maximize", -1.0, "map"),
    ],
)
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


def test_invalid_noise_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    """A noise function that returns nonsense is ignored, and said to be so, once."""
    started(UHEBOSampler(n_startup_trials=2, seed=0, noise_func=lambda _: -1.0), n=6)
    (warning,) = warnings_in(caplog)
    assert (
        "noise_func must return a finite non-negative variance, but did not for 1 trial " in warning
    )


def test_an_exception_in_noise_func_does_not_end_the_study(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The noise of those trials is unknown; the first exception is logged with its traceback."""

    def noise(trial: FrozenTrial) -> float:
        if trial.number in {2, 4}:
            return float(trial.user_attrs["forgotten"])
        return 0.01

    def unknown(trial: FrozenTrial) -> float:
        return math.nan if trial.number in {2, 4} else 0.01

    raising = started(UHEBOSampler(n_startup_trials=2, seed=0, noise_func=noise), n=8)
    (record,) = (one for one in caplog.records if one.exc_info)
    assert "noise_func raised an exception for trial 2" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
    same = started(UHEBOSampler(n_startup_trials=2, seed=0, noise_func=unknown), n=8)
    np.testing.assert_array_equal(points(raising.trials), points(same.trials))


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


# ------------------------------------------------------------------------------ what is not modeled


def test_a_new_parameter_does_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    """It is drawn once; the next model knows it."""

    def objective(trial: optuna.Trial) -> float:
        value = trial.suggest_float("x", 0.0, 1.0)
        return value + (trial.suggest_float("new", 0.0, 1.0) if trial.number >= 6 else 0.5)

    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))
    study.optimize(objective, n_trials=12)
    assert not warnings_in(caplog)


def within(trial: optuna.Trial) -> float:
    """Return a bowl over two whole numbers, the second at most the first; its best value is 0."""
    most = trial.suggest_int("most", 2, 30)
    number = trial.suggest_int("number", 1, most)
    return (most / 15 + (number - 20) ** 2 / 100) - 1.2233333


RATES = {"adam": (1e-5, 1e-3, 1e-4, 0.0), "sgd": (1e-2, 1.0, 0.1, 0.3)}


def one_name(trial: optuna.Trial) -> float:
    """Return a bowl over a rate whose range, of the same name, is that of a category's choice."""
    low, high, best, more = RATES[trial.suggest_categorical("optimizer", list(RATES))]
    rate = trial.suggest_float("rate", low, high, log=True)
    x = trial.suggest_float("x", 0.0, 1.0)
    return more + math.log10(rate / best) ** 2 + 4.0 * (x - 0.3) ** 2


@pytest.mark.parametrize(
    "objective, least, make",
    [
        (within, 0.005, GOUCBSampler),
        (within, 0.005, BBOSampler),
        (one_name, 1e-3, UHEBOSampler),
        (one_name, 1e-3, BBOSampler),
    ],
)
def test_a_range_may_depend_on_other_parameters(
    objective: Callable[[optuna.Trial], float],
    least: float,
    make: Callable[..., ModelSampler],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The minimum is found, at a border of the ranges too, without a warning."""
    study = optuna.create_study(sampler=make(seed=1))
    study.optimize(objective, n_trials=50)
    assert study.best_value < least
    assert not warnings_in(caplog)
    refused = 0
    for trial in study.trials[12:]:
        proposal = Proposal.from_attributes(trial.system_attrs)
        assert proposal is not None
        for name, value in proposal.params.items():
            given: Any = trial.distributions[name]
            if isinstance(given, FloatDistribution | IntDistribution):
                nearest = min(max(value, given.low), given.high)
                assert trial.params[name] == pytest.approx(nearest)
                refused += nearest != value
    assert refused > 0


def test_such_a_range_is_not_warned_of_after_a_short_start_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The models may suggest after five trials; what the range depends on is known after ten."""
    study = optuna.create_study(sampler=BBOSampler(n_trials=20, seed=0))
    study.optimize(one_name, n_trials=14)
    assert not warnings_in(caplog)


@pytest.mark.filterwarnings("ignore:Fixed parameter number with value 29 is out of range")
def test_a_value_that_was_given_is_not_refused() -> None:
    """An enqueued one outside the range that a trial then has is evaluated as it is."""
    study = optuna.create_study(sampler=UHEBOSampler(seed=1))
    study.optimize(within, n_trials=14)
    for _ in range(3):
        study.enqueue_trial({"number": 29})
    study.optimize(within, n_trials=3)
    given = study.trials[14:]
    assert all(trial.params["number"] == 29 for trial in given)
    assert any(trial.params["most"] < 29 for trial in given)
    space: dict[str, Any] = {"most": IntDistribution(2, 30), "number": IntDistribution(1, 30)}
    rows = TrialReader().read(study).rows
    assert len(PlacedTrials(space).refused(rows[:14])) > 0
    assert not len(PlacedTrials(space).refused(rows[14:]))


def test_a_step_may_depend_on_other_parameters() -> None:
    """What is off the grid that a trial gives was not evaluated, so it is not asked for again."""

    def objective(trial: optuna.Trial) -> float:
        heads = trial.suggest_categorical("heads", [4, 6, 8])
        last = 96 - 96 % heads
        width = trial.suggest_int("width", 2 * heads, last, step=heads)
        return abs(width - 52) / 10 + 0.05 * (heads == 4)

    study = optuna.create_study(sampler=UHEBOSampler(seed=1))
    study.optimize(objective, n_trials=50)
    assert study.best_value < 0.21
    counts = Counter(tuple(sorted(trial.params.items())) for trial in study.trials)
    assert max(counts.values()) <= 12, "the same trial again and again"


def test_the_value_nearest_to_a_proposed_one_is_on_the_grid() -> None:
    """And in the range, for each kind of number."""
    for given, nearest in (
        (FloatDistribution(2.0, 3.0), 2.0),
        (FloatDistribution(-2.0, -1.2, step=0.4), -1.2),
        (FloatDistribution(-9.0, -3.0), -3.0),
    ):
        study = started(UHEBOSampler(n_startup_trials=4, seed=0), 6)
        trial = study.ask()
        assert trial.suggest_float("z", given.low, given.high, step=given.step) == nearest


def test_a_range_that_moves_gets_the_nearest_value(caplog: pytest.LogCaptureFixture) -> None:
    """And one warning that earlier trials are left out. Where no model has suggested, at random."""

    def objective(trial: optuna.Trial) -> float:
        low = 0.0 if trial.number < 9 else 2.0
        x = trial.suggest_float("x", low, low + 1.0)
        return math.nan if trial.number < 4 else x

    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=6, seed=0))
    study.optimize(objective, n_trials=12)
    assert study.trials[9].params == {"x": 2.0}
    (warning,) = warnings_in(caplog)
    assert "left out: a parameter had a value that its latest range" in warning
    assert warning.endswith("or type does not have, such as 'x' in trial 8.")


def test_a_parameter_that_comes_back_warns_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ten trials in a row did not have it, so the model had forgotten it."""

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        has_both = trial.number < 4 or trial.number >= 20
        return x + (trial.suggest_float("z", 0.0, 1.0) if has_both else 0.5)

    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))
    study.optimize(objective, n_trials=22)
    (warning,) = (text for text in warnings_in(caplog) if text.startswith("Parameter 'z'"))
    assert "the latest trials did not have it" in warning


def test_a_parameter_that_had_one_value_warns_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The model has nothing to suggest then, so it knows the range one trial later."""

    def objective(trial: optuna.Trial) -> float:
        high = 0.4 if trial.number < 8 else 1.0
        return trial.suggest_float("x", 0.0, 1.0) + trial.suggest_float("z", 0.4, high)

    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))
    study.optimize(objective, n_trials=10)
    (warning,) = (text for text in warnings_in(caplog) if text.startswith("Parameter 'z'"))
    assert "of trial 8 is sampled by a uniform draw" in warning
    assert "it had one possible value until now" in warning


def test_choices_that_are_one_are_drawn_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Optuna takes 1 and True for the same, so there is nothing for a model to suggest."""

    def objective(trial: optuna.Trial) -> float:
        return trial.suggest_float("x", 0.0, 1.0) + trial.suggest_categorical("c", [1, True])

    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=2, seed=0))
    study.optimize(objective, n_trials=5)
    assert {trial.params["c"] for trial in study.trials} == {1}
    assert not warnings_in(caplog)


def test_a_range_that_overflows_is_drawn_uniformly_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """On a log scale its ends may be any floats; the other parameter is modeled."""

    def objective(trial: optuna.Trial) -> float:
        scale = trial.suggest_float("scale", 1e-300, 1e300, log=True)
        return (trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2 + 1e-9 * abs(math.log10(scale))

    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=4, seed=0))
    study.optimize(objective, n_trials=14)
    exponents = [math.log10(trial.params["scale"]) for trial in study.trials]
    assert len(set(exponents)) == 14
    assert min(exponents) < -50.0
    assert max(exponents) > 50.0
    assert abs(study.best_params["x"] - 0.3) < 0.01
    (warning,) = warnings_in(caplog)
    assert "Parameter 'scale'" in warning
    assert "overflows" in warning


def test_a_range_without_a_finite_width_is_drawn_uniformly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where Optuna's own samplers raise an exception."""
    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=4, seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", -1.7e308, 1.7e308) / 1e300, n_trials=12)
    x = [trial.params["x"] for trial in study.trials]
    assert min(x) < -1e307
    assert max(x) > 1e307
    (warning,) = warnings_in(caplog)
    assert "overflows" in warning


@pytest.mark.parametrize("name", ["uhe", "go-ucb", "bbo"])
def test_a_range_may_be_narrowed(name: str) -> None:
    """Trials beyond it are nothing: at its ends they would be false values."""
    sampler = {"uhe": UHEBOSampler, "go-ucb": GOUCBSampler, "bbo": BBOSampler}[name](seed=0)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))

    def objective(trial: optuna.Trial, low: float, high: float) -> float:
        return sum((trial.suggest_float(x, low, high) - 0.4) ** 2 for x in "xy")

    study.optimize(lambda trial: objective(trial, -10.0, 10.0), n_trials=30)
    study.sampler = sampler
    study.optimize(lambda trial: objective(trial, -1.0, 0.5), n_trials=15)
    least = min(trial.values[0] for trial in study.trials[30:])
    assert least < (1e-4 if name == "uhe" else 1e-5)


@pytest.mark.parametrize(
    "make, n_objectives", [(UHEBOSampler, 1), (GOUCBSampler, 1), (BBOSampler, 1), (BBOSampler, 2)]
)
def test_start_up_goes_on_while_all_values_are_the_same(
    make: Callable[..., ModelSampler], n_objectives: int
) -> None:
    """Models would go to the corners; they take over once two values differ."""
    study = optuna.create_study(
        directions=["minimize"] * n_objectives, sampler=make(n_startup_trials=4, seed=0)
    )
    for number in range(24):
        trial = study.ask({name: FloatDistribution(0.0, 1.0) for name in "xyz"})
        study.tell(trial, [*[1.0] * (n_objectives - 1), 0.0 if number == 20 else 1.0])
    proposals = [Proposal.from_attributes(trial.system_attrs) for trial in study.trials]
    assert [bool(one and one.fits) for one in proposals] == [False] * 21 + [True] * 3
    points = [tuple(trial.params.values()) for trial in study.trials[:21]]
    assert all(0.0 < coordinate < 1.0 for x in points for coordinate in x)
    assert len(set(points)) == 21


def test_notes_of_the_model_are_logged_once_per_kind(caplog: pytest.LogCaptureFixture) -> None:
    """A fallback is told at WARNING, and again only if it is of another kind."""
    sampler, once = UHEBOSampler(seed=0), Once()
    for note in ("fit failed after 3 steps", "fit failed after 14 steps", "no fit at 1e-3"):
        sampler._log_notes([note], once)
    assert warnings_in(caplog) == [
        "UHEBOSampler: fit failed after 3 steps",
        "UHEBOSampler: no fit at 1e-3",
    ]


# ----------------------------------------------------------------------------------------- import


def test_import_is_light() -> None:
    """Importing the front door loads neither SciPy nor a database layer; a sampler's name may."""
    program = "import sys, bbo_plugins.optuna; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(run.stdout.split())
    assert "bbo_plugins.optuna.promotion" in loaded
    assert not loaded & {"scipy", "sqlalchemy", "pandas", "torch"}


def test_each_study_of_a_sampler_has_its_own_messages(caplog: pytest.LogCaptureFixture) -> None:
    """What was said of one is said of the next, too, and once of each."""
    sampler = BBOSampler(n_startup_trials=3, seed=0)
    for _ in range(2):
        caplog.clear()
        study = optuna.create_study(sampler=sampler)
        with caplog.at_level(logging.WARNING, "bbo_plugins"):
            study.optimize(
                lambda trial: math.inf if trial.number == 1 else trial.suggest_float("x", 0.0, 1.0),
                n_trials=6,
            )
        assert sum("1 infinite value" in record.message for record in caplog.records) == 1
