"""BBOSampler in studies: which of its two models suggests, and how."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution

from bbo_plugins import InnerHorizon, UHEBOSampler
from bbo_plugins.acquisition.maximize import length_after
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.go_ucb.algorithm import FIT_NAME
from bbo_plugins.methods.observations import NO_ARM, TrialHistory
from bbo_plugins.optuna import BBOSampler, GOUCBSampler
from bbo_plugins.optuna.bbo_sampler import _is_by_network
from bbo_plugins.optuna.study.parameters import space_of
from bbo_plugins.optuna.study.storage import Proposal
from bbo_plugins.space import Split
from tests.oracles.problems import unit_box

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.trial import FrozenTrial

    from bbo_plugins.methods.observations import Suggestion

N_STARTUP = 4


def box(trial: optuna.Trial) -> float:
    """Return a quadratic function, and set its constraint."""
    x, y = (trial.suggest_float(name, 0.0, 1.0) for name in "xy")
    trial.set_user_attr("c", [0.6 - x])
    return (x - 0.4) ** 2 + (y - 0.7) ** 2


def large_box(trial: optuna.Trial) -> float:
    """Return a quadratic function of five parameters."""
    x = np.array([trial.suggest_float(f"x{i}", 0.0, 1.0) for i in range(5)])
    return float(np.arange(1, 6) @ (x - 0.4) ** 2)


def labeled_box(trial: optuna.Trial) -> float:
    """Return :func:`large_box`, with a category that changes little."""
    return large_box(trial) + 1e-3 * (trial.suggest_categorical("k", "ab") == "a")


def limit(trial: FrozenTrial) -> list[float]:
    """Return the constraint of :func:`box`."""
    values: list[float] = trial.user_attrs["c"]
    return values


def noise(trial: FrozenTrial) -> float:
    """Return a known noise variance."""
    return 1e-4 * (1 + trial.number % 3)


USED, TRIED = "MarginalCosinesUsed", "MarginalCosinesNotUsed"  # a kernel with cosines
BY_PROCESS = {"Marginal", USED, TRIED}


def losses(study: optuna.Study) -> list[str | None]:
    """Return by what the model of each trial was fitted."""
    proposals = [Proposal.from_attributes(trial.system_attrs) for trial in study.trials]
    return [one.criterion if one else None for one in proposals]


def noisy_box(trial: optuna.Trial) -> float:
    """Return :func:`box` with noise of a size that nobody knows."""
    return box(trial) + 0.3 * float(np.random.default_rng(trial.number).standard_normal())


def categories(trial: optuna.Trial) -> float:
    """Return :func:`box` beside a category, which adds to it."""
    return box(trial) + 0.1 * (trial.suggest_categorical("kind", ["a", "b"]) == "a")


def waves(trial: optuna.Trial) -> float:
    """Return a function with many local minima."""
    x, y = (trial.suggest_float(name, 0.0, 1.0) for name in "xy")
    return float(np.cos(12.0 * x) * np.cos(9.0 * y)) + (x - 0.4) ** 2 + (y - 0.7) ** 2


def keeps_its_turn(study: optuna.Study, number: int, owner: str = FIT_NAME) -> bool:
    """Return whether ``owner``'s trials have improved as often as the other model's."""
    is_feasible = [
        all(value <= 0.0 for value in trial.system_attrs.get("constraints", ()))
        for trial in study.trials
    ]
    values = np.where(is_feasible, [trial.value or 0.0 for trial in study.trials], np.inf)
    counts = {FIT_NAME: [0.0, 2.0], "Marginal": [0.0, 2.0]}  # improvements and others, at first
    counts[owner][0] = 2.0
    for n, loss in enumerate(losses(study)[:number]):
        if loss is not None:
            model = FIT_NAME if loss == FIT_NAME else "Marginal"
            counts[model][0 if values[n] < values[:n].min() else 1] += 1.0
    rates = {name: better / (better + other) for name, (better, other) in counts.items()}
    return rates[owner] == max(rates.values())


def suggests_network(study: optuna.Study, number: int) -> bool:
    """Return whether the network suggests the trial, by the rule."""
    if number % 6 == 0:
        params = study.trials[0].params.values()
        is_large = sum(isinstance(value, float) for value in params) >= 5
        is_local = is_large or len({len(trial.params) for trial in study.trials}) > 1
        return is_local and number % 36 != 0 and not keeps_its_turn(study, number, "Marginal")
    return number % 9 == 8 or (number % 3 == 2 and keeps_its_turn(study, number))


def branches(trial: optuna.Trial) -> float:
    """Return a quadratic function of one parameter or of two."""
    x = trial.suggest_float("x", 0.0, 1.0)
    y = trial.suggest_float("y", 0.0, 1.0) if trial.suggest_categorical("k", "ab") == "a" else 0.2
    return (x - 0.4) ** 2 + (y - 0.7) ** 2


@pytest.mark.parametrize(
    "objective, given, beta",
    [
        (box, {}, 0.5),
        (noisy_box, {}, 2.0),
        (box, {"noise_func": noise}, 2.0),
        (box, {"constraints_func": limit}, None),
        (categories, {}, None),
    ],
)
def test_each_turn_is_what_a_sampler_of_its_own_suggests(
    objective: Callable[[optuna.Trial], float],
    given: dict[str, Any],
    beta: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next trial of the same study by the model whose turn it is is the same, bit for bit.

    Three of six turns go by an upper confidence bound with this β, if there is one. A turn that
    tries a kernel with cosines and does not use it is as usual.
    """
    monkeypatch.setattr(gp_bo, "_LEAST_GAIN", math.inf)
    known = {"n_startup_trials": N_STARTUP, "seed": 3, **given}
    # The first ones are of a start-up: no model has to be fitted for them.
    study = optuna.create_study(sampler=BBOSampler(**{**known, "n_startup_trials": 20}))
    study.optimize(objective, n_trials=N_STARTUP + 7)
    study.sampler = BBOSampler(**known)
    study.optimize(objective, n_trials=6)
    process = UHEBOSampler(estimation="map", **known)
    by_bound = process
    if beta is not None:
        by_bound = UHEBOSampler(estimation="map", acquisition="ucb", beta=beta, **known)
    for number in range(N_STARTUP + 13, N_STARTUP + 18):
        sampler: optuna.samplers.BaseSampler = GOUCBSampler(**known)
        if not suggests_network(study, number):
            sampler = by_bound if number % 6 in {1, 2, 4} else process
        alone = next_by(sampler, study, objective)
        study.optimize(objective, n_trials=1)
        assert study.trials[-1].params == alone
        assert (losses(study)[-1] == TRIED) is (number % 6 == 3)


@pytest.mark.parametrize(
    "arguments, n",
    [
        ({}, 10),
        ({"n_trials": 20}, 5),
        ({"n_trials": 1}, 1),
        ({"n_trials": np.int64(26)}, 6),
        ({"n_trials": 81}, 9),
        ({"n_trials": 82}, 10),
        ({"n_trials": 500}, 10),
        ({"n_trials": 20, "n_startup_trials": 7}, 7),
    ],
)
def test_a_short_study_has_a_short_start_up(arguments: dict[str, Any], n: int) -> None:
    """The root of the planned trials, never more than ten, unless the user says how many."""
    study = optuna.create_study(sampler=BBOSampler(seed=0, **arguments))
    study.optimize(box, n_trials=n + 1)
    assert [one is not None for one in losses(study)] == [False] * n + [True]


def next_by(
    sampler: optuna.samplers.BaseSampler,
    study: optuna.Study,
    objective: Callable[[optuna.Trial], float],
) -> dict[str, Any]:
    """Return the parameters of the next trial if this sampler suggests it."""
    copy = optuna.create_study(sampler=sampler)
    copy.add_trials(study.trials)
    copy.optimize(objective, n_trials=1)
    return copy.trials[-1].params


def test_the_process_has_the_turn_of_a_network_that_is_behind() -> None:
    """It goes by the bound if the number is two more than a multiple of six."""
    known: dict[str, Any] = {"n_startup_trials": N_STARTUP, "seed": 3}
    study = optuna.create_study(sampler=BBOSampler(**known))
    for number, is_by_bound in ((32, True), (41, False)):
        study.optimize(waves, n_trials=number - len(study.trials))
        assert not keeps_its_turn(study, number)
        usual = next_by(UHEBOSampler(estimation="map", **known), study, waves)
        by_bound = next_by(
            UHEBOSampler(estimation="map", acquisition="ucb", beta=0.5, **known), study, waves
        )
        study.optimize(waves, n_trials=1)
        assert usual != by_bound
        assert study.trials[-1].params == (by_bound if is_by_bound else usual)


@pytest.mark.parametrize("n_choices, every", [(0, 12), (2, 2)])
def test_some_trials_are_suggested_from_the_whole_space(
    n_choices: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others stay within a box around an evaluated point, with five or more numbers.

    It is every twelfth trial, with a category every second one. With cosines one may leave the box.
    """
    asked: dict[int, tuple[int | None, bool]] = {}
    suggest = gp_bo.suggest

    def watched(*args: Any, options: gp_bo.Options, **known: Any) -> Suggestion:
        asked[len(args[1].y)] = (options.local_after, options.by_bound)
        return suggest(*args, options=options, **known)

    monkeypatch.setattr(gp_bo, "suggest", watched)

    def ripples(trial: optuna.Trial) -> float:
        x = np.array([trial.suggest_float(f"x{i}", 0.0, 1.0) for i in range(5)])
        if n_choices:
            trial.suggest_categorical("kind", [f"kind {i}" for i in range(n_choices)])
        return float(np.sum((x - 0.4) ** 2 - 0.1 * np.cos(20.0 * x)))

    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=N_STARTUP, seed=1))
    study.optimize(ripples, n_trials=40)
    X = np.array([list(trial.params.values())[:5] for trial in study.trials])
    y = -np.array([trial.value for trial in study.trials])
    excess = np.array(
        [
            np.abs(X[:n] - X[n]).max(axis=1).min() - 0.5 * length_after(y[:n], N_STARTUP)
            for n in range(N_STARTUP, 40)
        ]
    )
    by_process = [n for n, loss in enumerate(losses(study)) if loss in BY_PROCESS]
    assert asked == {n: (N_STARTUP if n % every else None, n % 6 in {1, 2, 4}) for n in by_process}
    assert {asked[n][0] for n in by_process} == {None, N_STARTUP}
    numbers = np.arange(N_STARTUP, 40)
    may_leave = np.array([loss == USED for loss in losses(study)[N_STARTUP:]])
    assert (excess[(numbers % every != 0) & ~may_leave] < 1e-9).all()
    assert (excess[numbers % every == 0] > 0.0).any()


def peaks(trial: optuna.Trial) -> float:
    """Return a sum of functions of one parameter, each with several minima."""
    x = np.array([trial.suggest_float(name, 0.0, 1.0) for name in "abc"])
    return float(np.sum((x - 0.7) ** 2 - 0.3 * np.cos(20.0 * x)))


def many(trial: optuna.Trial) -> float:
    """Return the same of more parameters than the cosines may be for."""
    return sum(math.cos(20.0 * trial.suggest_float(f"x{i}", 0.0, 1.0)) for i in range(11))


@pytest.mark.parametrize("objective", [peaks, box, branches, many])
def test_a_kernel_with_cosines_is_tried_in_one_turn_of_six_and_in_more_while_it_is_used(
    objective: Callable[[optuna.Trial], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is used, in all turns by the expected improvement.

    Each fit starts from its kernel's latest.
    """
    starts: list[dict[str, Any]] = []
    suggest = gp_bo.suggest

    def watched(*args: Any, options: gp_bo.Options, **known: Any) -> Suggestion:
        given = {name: options.warm_starts.get(name) for name in ("Marginal", "Cosines")}
        starts.append({name: fit.to_json() for name, fit in given.items() if fit is not None})
        return suggest(*args, options=options, **known)

    monkeypatch.setattr(gp_bo, "suggest", watched)
    if objective is peaks:
        monkeypatch.setattr(gp_bo, "_LEAST_GAIN", -math.inf)
    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=N_STARTUP, seed=0))
    study.optimize(objective, n_trials=N_STARTUP + (30 if objective is peaks else 16))
    latest: dict[str, Any] = {}
    latest_with_cosines = None
    names = losses(study)
    for n in range(N_STARTUP, len(names)):
        if names[n] == FIT_NAME:
            continue
        is_tried = n % 6 == 3 or (latest_with_cosines == USED and n % 6 in {0, 5})
        is_tried &= objective in (peaks, box)
        assert (names[n] in {USED, TRIED}) == is_tried
        assert starts.pop(0) == latest
        proposal = Proposal.from_attributes(study.trials[n].system_attrs)
        assert proposal is not None
        latest |= proposal.fits
        if names[n] != "Marginal":
            latest_with_cosines = names[n]
    if objective is peaks:
        assert {0, 3} <= {n % 6 for n, name in enumerate(names) if name == USED} <= {0, 3, 5}


@pytest.mark.parametrize(
    "number, network, process, expected",
    [
        (5, "", "", True),
        (5, "", "++", True),  # 2 / 4 against 2 / 4
        (5, "", "+++", False),
        (5, "", "+-++", True),  # 3 / 6
        (5, "-", "++-", True),  # 2 / 5
        (5, "-", "++-r", True),  # what still runs does not count
        (5, "--", "+-", True),  # 2 / 6 against 1 / 4
        (5, "--", "++-", False),  # 2 / 6 against 2 / 5
        (5, "+--", "+++---", True),  # 3 / 7 against 3 / 8
        (5, "----", "++------", True),  # 2 / 8 against 2 / 10
        (5, "----", "++++----", False),
        (8, "----", "++++----", True),  # always
        (17, "----", "++++----", True),
        (11, "----", "++++----", False),
        (6, "", "", False),  # a turn of the Gaussian process that may be taken
        (12, "++", "", False),  # 2 / 4 against 2 / 4
        (12, "+++", "", True),
        (6, "++-", "-", False),  # 2 / 5 against 2 / 5
        (6, "++-", "-r", False),
        (6, "++-", "--", True),  # 2 / 5 against 2 / 6
        (18, "+++---", "+--", False),  # 3 / 8 against 3 / 7
        (18, "+++---", "+-----", True),  # 3 / 8 against 3 / 10
        (24, "+++", "", True),
        (36, "+++", "", False),  # never
        (72, "+++", "", False),
    ],
)
def test_the_turn_follows_from_improvements(
    number: int, network: str, process: str, expected: bool
) -> None:
    """Each sign is a trial of the model: an improvement, none, or one that still runs."""
    history = history_of(network, process)
    assert _is_by_network(unit_box(5), history, number) is expected
    if number % 3 == 0:  # where the Gaussian process has no region the network takes nothing
        assert not _is_by_network(unit_box(4), history, number)


def test_with_many_parameters_the_network_may_take_all_turns() -> None:
    """All but that of a trial in 36, as long as it is ahead; up to 60 parameters one in six."""
    ahead, behind = history_of("+++-", "-"), history_of("----", "+++-")
    numbers = range(36, 72)
    many = {number for number in numbers if _is_by_network(unit_box(61), ahead, number)}
    assert many == set(numbers) - {36}
    few = {number for number in numbers if _is_by_network(unit_box(60), ahead, number)}
    assert few == {number for number in numbers if number % 6 in {0, 2, 5}} - {36}
    kept = {number for number in numbers if _is_by_network(unit_box(61), behind, number)}
    assert kept == {44, 53, 62, 71}
    # Neither categories count, nor parameters of branches, of which few exist at once.
    floats = {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(61)}
    kinds = {f"kind{i}": CategoricalDistribution([0, 1]) for i in range(2)}
    assert _is_by_network(space_of({**floats, **kinds}), ahead, 37)
    fewer = {name: floats[name] for name in list(floats)[:60]}
    assert not _is_by_network(space_of({**fewer, **kinds}), ahead, 37)
    conditions = {"x0": Split("kind0", (0.5,), (True, False))}
    assert not _is_by_network(space_of({**floats, **kinds}, conditions), ahead, 37)


def history_of(network: str, process: str) -> TrialHistory:
    """Return the trials of both models, a sign for each, after one of the start-up."""
    signs = "-" + network + process
    return TrialHistory(
        indices=np.arange(len(signs)),
        arms=np.full(len(signs), NO_ARM),
        finished=np.array([sign != "r" for sign in signs]),
        values=np.array([float(i) if sign == "+" else -1.0 for i, sign in enumerate(signs)]),
        expected_gains=np.full(len(signs), np.nan),
        criteria=np.array(
            ["", *[FIT_NAME] * len(network), *["Marginal"] * len(process)], dtype=np.object_
        ),
    )


@pytest.mark.parametrize("objective", [box, waves, labeled_box, branches])
def test_each_model_suggests_where_the_rule_says_so(
    objective: Callable[[optuna.Trial], float], caplog: pytest.LogCaptureFixture
) -> None:
    """Each model is said to be what its trials' fits are of; no stored fit is misread."""
    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=N_STARTUP, seed=1))
    study.optimize(objective, n_trials=N_STARTUP + 35)
    by_network = {n for n, loss in enumerate(losses(study)) if loss == FIT_NAME}
    numbers = range(N_STARTUP, N_STARTUP + 35)
    assert by_network == {n for n in numbers if suggests_network(study, n)}
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    if objective is labeled_box:  # what is below differs from seed to seed there
        return
    always = {n for n in numbers if n % 9 == 8}
    assert all(keeps_its_turn(study, n) for n in always) == (objective is not waves)
    lost = {n for n in numbers if n % 6 == 0 and not keeps_its_turn(study, n, "Marginal")}
    assert bool(lost) == (objective is not waves)
    assert bool(lost & by_network) == (objective not in (box, waves))


def test_the_network_is_not_asked_with_very_many_categories() -> None:
    """One less, and the turn is the network's."""
    by_network = []
    for n_choices in (999, 1000):
        kinds = CategoricalDistribution(range(n_choices))
        space = space_of({"kind": kinds, "x": FloatDistribution(0.0, 1.0)}, {})
        by_network.append(_is_by_network(space, history_of("", ""), 2))
    assert by_network == [True, False]


def test_the_log_says_which_arm_improved(caplog: pytest.LogCaptureFixture) -> None:
    """Once every ten trials of the models, with numbers that can be counted."""
    caplog.set_level(logging.INFO)
    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=N_STARTUP, seed=2))
    study.optimize(waves, n_trials=N_STARTUP + 21)
    said = [one.args for one in caplog.records if "improved on the best value" in one.getMessage()]
    values = [trial.value or 0.0 for trial in study.trials]
    suggested = losses(study)
    expected = []
    for n in (10, 20):
        counts = []
        for model in (BY_PROCESS, {FIT_NAME}):
            trials = [i for i, loss in enumerate(suggested[: N_STARTUP + n]) if loss in model]
            counts += [sum(values[i] < min(values[:i]) for i in trials), len(trials)]
        expected.append(tuple(counts))
    assert [args[1:] for args in said if isinstance(args, tuple)] == expected


@pytest.mark.parametrize("has_noise", [False, True])
@pytest.mark.parametrize("kind", [BBOSampler, UHEBOSampler, GOUCBSampler])
def test_a_small_space_is_not_repeated_once_repeats_agree(
    kind: type[BBOSampler | UHEBOSampler | GOUCBSampler], has_noise: bool
) -> None:
    """At most three repeats where the values are the same; with noise repeats teach something."""

    def steps(trial: optuna.Trial) -> float:
        x, y = (trial.suggest_int(name, 0, 5) for name in "xy")
        noise = float(np.random.default_rng(trial.number).standard_normal()) if has_noise else 0.0
        return (x - 2) ** 2 + (y - 4) ** 2 + 3.0 * noise

    study = optuna.create_study(sampler=kind(n_startup_trials=N_STARTUP, seed=0))
    study.optimize(steps, n_trials=24)
    points = [tuple(trial.params.values()) for trial in study.trials]
    n_repeats = len(points) - len(set(points))
    assert n_repeats > 3 if has_noise else n_repeats <= 3


def test_the_horizon_tells_the_noise() -> None:
    """Both models know that of a value after N steps, as if a function told it."""
    horizon = InnerHorizon(n_outer=10, phi=0.5)
    variance = 0.25 / horizon.n_inner
    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=20, seed=0))
    study.optimize(box, n_trials=7)
    for by_network in (False, True):  # the turns of trials 7 and 8
        asked = [
            next_by(BBOSampler(n_startup_trials=N_STARTUP, seed=0, **told), study, box)
            for told in ({"horizon": horizon}, {"noise_func": lambda _: variance}, {})
        ]
        assert asked[0] == asked[1] != asked[2]
        study.sampler = BBOSampler(n_startup_trials=N_STARTUP, seed=0)
        study.optimize(box, n_trials=1)
        assert (losses(study)[-1] == FIT_NAME) is by_network


def test_a_program_may_make_floating_point_errors_exceptions() -> None:
    """The models look for overflow themselves, and let small numbers underflow."""
    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=5, seed=0))
    with np.errstate(all="raise"):
        study.optimize(
            lambda trial: sum(trial.suggest_float(f"x{i}", 0.0, 1.0) ** 2 for i in range(20)),
            n_trials=20,
        )
    assert len(study.trials) == 20
