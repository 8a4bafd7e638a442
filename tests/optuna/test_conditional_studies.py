"""Studies in which the parameters of a trial depend on one another, with real samplers."""

from __future__ import annotations

import logging
import math
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.samplers import PartialFixedSampler, RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from bbo_plugins.optuna import BBOSampler, BILBOSampler, GOUCBSampler, UHEBOSampler
from bbo_plugins.optuna.study.storage import Proposal
from tests.optuna.studies import params_of, stop_below

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial


SAMPLERS: dict[str, Callable[..., BaseSampler]] = {
    "uhe": UHEBOSampler,
    "go-ucb": GOUCBSampler,
    "bbo": BBOSampler,
}


def tree(trial: Trial) -> float:
    """Two independent parents; the children of one are of all kinds."""
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    value = trial.suggest_float("x", 0.0, 1.0)
    if kind == "a":
        return value + trial.suggest_float("rate", 1e-4, 1.0, log=True)
    if kind == "b":
        value += trial.suggest_int("n", 1, 8) / 8.0
        return value + (trial.suggest_categorical("mode", ["p", "q"]) == "p")
    return value + sum(
        trial.suggest_float(f"w{i}", 0.0, 1.0) for i in range(trial.suggest_int("depth", 0, 2))
    )


def small_sampler(name: str, seed: int = 0, **more: Any) -> BaseSampler:
    """Return a sampler whose model takes over after four trials."""
    return SAMPLERS[name](n_startup_trials=4, seed=seed, **more)


def test_the_model_suggests_conditional_parameters(caplog: pytest.LogCaptureFixture) -> None:
    """Once a branch is known, all of its parameters come from the model, without a warning."""
    study = optuna.create_study(sampler=small_sampler("bbo"))
    study.enqueue_trial({"kind": "c", "depth": 2})
    study.enqueue_trial({"kind": "a"})
    study.enqueue_trial({"kind": "b"})
    study.optimize(tree, n_trials=6)
    independent: list[str] = []
    sample = study.sampler.sample_independent

    def noted(*args: Any) -> Any:
        independent.append(args[2])
        return sample(*args)

    study.sampler.sample_independent = noted  # type: ignore[method-assign]
    study.optimize(tree, n_trials=9)
    assert not independent
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize("name", SAMPLERS)
def test_conditional_study_is_solved(name: str) -> None:
    """The best branch is found and its own parameters are optimized."""

    def objective(trial: Trial) -> float:
        n = trial.suggest_int("n", 1, 4)
        x = [trial.suggest_float(f"x{i}", 0.0, 1.0) for i in range(n)]
        return 0.1 * abs(n - 3) + sum((v - 0.3 - 0.1 * i) ** 2 for i, v in enumerate(x)) / n

    study = optuna.create_study(sampler=SAMPLERS[name](seed=1))
    study.optimize(objective, n_trials=45, callbacks=[stop_below(2e-3)])
    assert study.best_params["n"] == 3
    assert study.best_value < 2e-3


def test_start_up_visits_each_value_of_a_parent() -> None:
    """Before one is repeated, from the moment on that two branches are known."""

    def objective(trial: Trial) -> float:
        kind = trial.suggest_categorical("kind", list("abcdef"))
        return trial.suggest_float(f"x_{kind}", 0.0, 1.0)

    for seed in range(5):
        study = optuna.create_study(sampler=UHEBOSampler(seed=seed))
        study.optimize(objective, n_trials=8)
        kinds = [trial.params["kind"] for trial in study.trials]
        assert len(set(kinds)) == 6, kinds


@pytest.mark.parametrize("name", ["bbo", "go-ucb"])
def test_branches_that_look_bad_are_visited(name: str) -> None:
    """Where the best branch has a bad value at most of its points, it is found all the same."""

    def objective(trial: Trial) -> float:
        kind = trial.suggest_categorical("kind", ["flat", "sharp", "bad"])
        if kind == "flat":
            return 0.3 + 0.1 * (trial.suggest_float("x", 0.0, 1.0) - 0.5) ** 2
        if kind == "bad":
            return 1.0 + 0.1 * trial.suggest_float("z", 0.0, 1.0)
        return min(1.0, 5.0 * abs(trial.suggest_float("y", 0.0, 1.0) - 0.6))

    def is_found() -> bool:
        kinds = [trial.params["kind"] for trial in study.trials]
        visited = kinds.count("sharp") >= 6 and kinds.count("bad") >= 3
        return visited and study.best_value < 0.3

    study = optuna.create_study(sampler=small_sampler(name, seed=4))
    while not is_found() and len(study.trials) < 50:
        study.optimize(objective, n_trials=1)
    assert is_found()


KINDS = list("abc")
DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "kind": CategoricalDistribution(KINDS),
    "x": FloatDistribution(0.0, 1.0),
    "y": FloatDistribution(0.0, 1.0),
}


def _visit(
    sampler: BaseSampler,
    n_inside: int,
    *,
    stretch: float = 1.0,
    n_failed: int = 0,
    n_objectives: int = 1,
) -> FrozenTrial:
    """Suggest the 41st trial, which visits the branch "c" that was tried least.

    Args:
        sampler: The sampler.
        n_inside: Values in the branch, where one more trial has failed.
        stretch: Factor of the last objective's values in the branches "a" and "b".
        n_failed: How many trials have failed there.
        n_objectives: The objectives of the study.
    """
    study = optuna.create_study(directions=["minimize"] * n_objectives, sampler=sampler)
    for number, (x, y) in enumerate(np.random.default_rng(0).random((40, 2)).tolist()):
        kind = "c" if number <= n_inside else "ab"[number % 2]
        value = (x - {"a": 0.2, "b": 0.5, "c": 0.8}[kind]) ** 2
        params: dict[str, Any] = {"kind": kind, "x": x}
        if kind != "b":
            params["y"] = y
            value += 2.0 * (y - 0.3) ** 2
        values = [value + j * x for j in range(n_objectives)]
        values[-1] *= 1.0 if kind == "c" else stretch
        has_failed = number == 0 or n_inside < number <= n_inside + n_failed
        study.add_trial(
            optuna.create_trial(
                state=TrialState.FAIL if has_failed else TrialState.COMPLETE,
                values=None if has_failed else values,
                params=params,
                distributions={key: DISTRIBUTIONS[key] for key in params},
            )
        )
    trial = study.ask()
    assert trial.suggest_categorical("kind", KINDS) == "c"
    trial.suggest_float("x", 0.0, 1.0)
    trial.suggest_float("y", 0.0, 1.0)
    return study.trials[-1]


@pytest.mark.parametrize("n_inside", [4, 5])
@pytest.mark.parametrize("name, n_objectives", [("go-ucb", 1), ("bbo", 1), ("bbo", 2)])
def test_a_visit_models_a_branch_alone_from_five_values_on(
    name: str, n_objectives: int, n_inside: int
) -> None:
    """Then values and failures of other branches do not count, and no fit is kept."""
    visits = [
        _visit(small_sampler(name), n_inside, n_objectives=n_objectives, **others)
        for others in ({}, {"stretch": 3.0}, {"n_failed": 25})
    ]
    is_alone = n_inside == 5
    assert [visit.params == visits[0].params for visit in visits[1:]] == [is_alone] * 2
    proposal = Proposal.from_attributes(visits[0].system_attrs)
    assert proposal is not None
    assert bool(proposal.fits) != is_alone
    assert ("Failures" in proposal.fits) != is_alone
    assert name == "go-ucb" or proposal.expected_gain is not None  # by a model, not at random


@pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")
def test_a_visit_models_a_branch_alone_where_parameters_are_fixed() -> None:
    """The trials of the branch, which had other values of these, count all the same."""
    for fixed in ({"x": 0.25}, {"y": 0.75}):
        plain, stretched = (
            _visit(PartialFixedSampler(fixed, small_sampler("bbo")), 5, stretch=stretch)
            for stretch in (1.0, 3.0)
        )
        assert plain.params == stretched.params
        assert plain.params.items() >= fixed.items()


def _asked_after(
    study: Study, objective: Callable[[Trial], float], told: list[dict[str, Any]], n_told: int
) -> list[dict[str, Any]]:
    """Return what the sampler suggests after so many of the told points, and after every four more.

    Args:
        study: A new study.
        objective: What is optimized.
        told: The points, evaluated without the sampler.
        n_told: A multiple of five, as every fifth trial is a visit.
    """
    sampler, asked = study.sampler, []
    for start in (0, *range(n_told, len(told), 4)):
        study.sampler = RandomSampler(seed=0)
        more = told[start : start + 4] if start else told[:n_told]
        for params in more:
            study.enqueue_trial(params)
        study.optimize(objective, n_trials=len(more))
        study.sampler = sampler
        assert len(study.trials) % 5 == 0
        study.optimize(objective, n_trials=1)
        asked.append(study.trials[-1].params)
    return asked


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_visit_repeats_nothing_if_repeats_agreed_in_another_branch(name: str) -> None:
    """A model of one branch alone knows of no noise what a model of all would."""

    def objective(trial: Trial) -> float:
        kind = trial.suggest_categorical("kind", "abcd")
        value = (trial.suggest_int("n", 0, 9) - 3) ** 2 / 81.0
        if kind != "d":
            value += (trial.suggest_int(f"m_{kind}", 0, 4) - 2) ** 2 / 16.0
        return value + "abdc".index(kind)

    told: list[dict[str, Any]] = [{"kind": "a", "n": 0, "m_a": 0}]  # the first is repeated
    told += [{"kind": k, "n": n, f"m_{k}": m} for n in range(10) for m in (0, 2, 3) for k in "abc"]
    told[4:4] = [{"kind": "d", "n": n} for n in range(6)]
    asked = _asked_after(optuna.create_study(sampler=small_sampler(name)), objective, told[:82], 70)
    assert all(params["kind"] == "d" for params in asked)
    assert {params["n"] for params in asked} == {6, 7, 8, 9}


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_branch_without_new_points_is_not_visited(name: str, is_known: bool) -> None:
    """One repeat tells that there is no noise, if that is not known."""

    def objective(trial: Trial) -> float:
        kind = trial.suggest_categorical("kind", ["float", "none", "int"])
        if kind == "float":
            return trial.suggest_float("x", 0.0, 1.0)
        return 2.0 + trial.suggest_int("n", 1, 3) if kind == "int" else 2.0

    told: list[dict[str, Any]] = [{"kind": "none"}] * (1 if is_known else 2)
    told += [{"kind": "int", "n": n} for n in (1, 2, 3)]
    told += [{"kind": "float", "x": x} for x in np.linspace(0.1, 1.0, 33 - len(told)).tolist()]
    study = optuna.create_study(sampler=small_sampler(name, deterministic_objective=is_known))
    asked = _asked_after(study, objective, told, 25)
    assert [params["kind"] for params in asked] == ["float"] * 3


@pytest.mark.parametrize("how", [optuna.TrialPruned, RuntimeError])
def test_a_trial_that_ends_early_has_no_parameter_that_does_not_exist(how: type[Exception]) -> None:
    """It may have been proposed before the condition was learned. No point comes twice."""

    def objective(trial: Trial) -> float:
        n = trial.suggest_int("n", 0, 7)
        kind = trial.suggest_categorical("kind", "abc")
        value = float(n if n >= 4 else n + 9)
        if n >= 4:
            value += trial.suggest_int("y", 0, 5)
        elif n < 3 and kind != "a":
            trial.report(value, 0)
            raise how
        return value + (kind == "b")

    study = optuna.create_study(sampler=BBOSampler(seed=0, deterministic_objective=True))
    study.optimize(objective, n_trials=75, catch=RuntimeError)
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 75


def test_a_parameter_that_was_pinned_for_some_trials_is_modeled_where_it_was() -> None:
    """A range of one value, for ten trials of a stored study, says nothing of other values."""
    study = optuna.create_study(sampler=BBOSampler(seed=0))
    for (low, high), n_trials in (((1, 10), 12), ((3, 3), 10), ((1, 10), 8)):
        for _ in range(n_trials):
            trial = study.ask()
            n = trial.suggest_int("n", low, high)
            x = trial.suggest_float("x", 0.0, 1.0)
            study.tell(trial, (x - 0.3) ** 2 + 0.1 * (n != 3))
    assert study.best_value < 1e-6


def test_a_renamed_parameter_does_not_end_the_search(caplog: pytest.LogCaptureFixture) -> None:
    """Ten trials after the objective was edited the search is that of a new study.

    It is said that trials are left out, also if it was said before of a narrowed range.
    """

    def objective(trial: Trial, changing: str) -> float:
        low = 0.1 if len(trial.study.trials) > 13 else 0.0
        x, y = trial.suggest_float(changing, 0.0, 1.0), trial.suggest_float("y", low, 1.0)
        return (x - 0.3) ** 2 + (y - 0.6) ** 2

    study = optuna.create_study(sampler=RandomSampler(seed=0))
    study.optimize(lambda trial: objective(trial, "old"), n_trials=14)
    study.sampler = BBOSampler(seed=0)
    with caplog.at_level(logging.WARNING, logger="bbo_plugins"):
        study.optimize(lambda trial: objective(trial, "old"), n_trials=1)
        study.optimize(lambda trial: objective(trial, "new"), n_trials=25)
    assert min(trial.values[0] for trial in study.trials[15:]) < 1e-5
    outside, renamed = [line for line in caplog.messages if "left out" in line]
    assert "latest range" in outside
    assert "15 trials left out: a parameter was added later" in renamed


@pytest.mark.parametrize("name", SAMPLERS)
def test_penalties_inside_a_branch_do_not_bend_the_model(name: str) -> None:
    """They count as failures; as values they left two of these three studies above 1e-5."""

    def objective(trial: Trial) -> float:
        kind = trial.suggest_categorical("kind", ["a", "b"])
        x, y = (trial.suggest_float(f"{kind}_{axis}", 0.0, 1.0) for axis in "xy")
        if x + y > 1.1:
            return 1e6
        return (x - 0.6) ** 2 + (y - 0.3) ** 2 + (kind == "a")

    study = optuna.create_study(sampler=SAMPLERS[name](seed=0))
    study.optimize(objective, n_trials=50, callbacks=[stop_below(1e-6)])
    assert study.best_value < 1e-6


def test_an_enqueued_number_may_be_a_text() -> None:
    """As from a file: Optuna hands it to the objective as it is."""

    def objective(trial: Trial) -> float:
        return int(trial.suggest_int("n", 1, 8)) / 8.0 + trial.suggest_float("x", 0.0, 1.0)

    study = optuna.create_study(sampler=small_sampler("bbo"))
    study.optimize(objective, n_trials=6)
    study.enqueue_trial({"n": "3"})
    study.optimize(objective, n_trials=3)
    assert all(trial.state.is_finished() for trial in study.trials)


@pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")
def test_held_and_enqueued_parents() -> None:
    """A parent may be held by PartialFixedSampler, or given with a trial."""
    sampler = small_sampler("bbo")
    study = optuna.create_study(sampler=sampler)
    study.optimize(tree, n_trials=8)
    study.sampler = PartialFixedSampler({"kind": "b"}, sampler)
    study.optimize(tree, n_trials=4)
    assert {one["kind"] for one in params_of(study)[8:]} == {"b"}
    study.sampler = PartialFixedSampler({"n": 7, "depth": 1}, sampler)  # children, maybe inactive
    study.optimize(tree, n_trials=6)
    later = params_of(study)[12:]
    assert {one["n"] for one in later if "n" in one} <= {7}
    assert {one["depth"] for one in later if "depth" in one} <= {1}
    study.sampler = sampler
    study.enqueue_trial({"kind": "c", "depth": 2, "w1": 0.125})
    study.optimize(tree, n_trials=1)
    assert params_of(study)[-1].items() >= {"kind": "c", "depth": 2, "w1": 0.125}.items()


def bilevel(trial: Trial, *, coupled: bool) -> tuple[float, ...]:
    """The upper level chooses between two kinds of lower level, with parameters of their own."""
    kind = trial.suggest_categorical("kind", ["line", "plane"])
    x = trial.suggest_float("x", 0.0, 1.0)
    if kind == "line":
        z = trial.suggest_float("z", 0.0, 1.0)
        values = 0.5 + (x - 0.3) ** 2, (z - x) ** 2  # F, f: both minimized
    else:
        u = trial.suggest_float("u", 0.0, 1.0)
        v = trial.suggest_float("v", 0.0, 1.0)
        values = (x - 0.7) ** 2 + (u - 0.2) ** 2, (u - x / 2.0) ** 2 + (v - 0.5) ** 2
    if coupled:
        return values
    query = trial.suggest_categorical("query", ["upper", "lower"])
    return (values[query == "lower"],)


@pytest.mark.parametrize("coupled", [False, True])
def test_levels_with_conditional_parameters(coupled: bool) -> None:
    """The solution names the parameters that exist in its branch, and the model suggests them."""
    sampler = BILBOSampler(
        upper_params=["kind", "x"],
        lower_params=["z", "u", "v"],
        upper_direction="minimize",
        lower_direction="minimize",
        seed=0,
    )
    directions = [optuna.study.StudyDirection.MINIMIZE] * (1 + coupled)
    study = optuna.create_study(sampler=sampler, directions=directions)
    study.optimize(lambda trial: bilevel(trial, coupled=coupled), n_trials=18 if coupled else 24)
    solution = sampler.solution(study)
    assert solution.upper_params["kind"] == "plane"
    assert set(solution.lower_params) == {"u", "v"}
    assert solution.upper_params["x"] == pytest.approx(0.64, abs=0.12)
    assert solution.lower_params["u"] == pytest.approx(0.5 * solution.upper_params["x"], abs=0.08)
    for trial in study.trials:
        expected = {"z"} if trial.params["kind"] == "line" else {"u", "v"}
        assert set(trial.params) - {"kind", "x", "query"} == expected


def without_answer(trial: Trial, *, coupled: bool) -> tuple[float, ...]:
    """The lower level has nothing to choose in one of two branches, which is the worse one."""
    fixed = trial.suggest_categorical("fixed", [True, False])
    x = trial.suggest_float("x", 0.0, 1.0)
    z = 0.1 if fixed else trial.suggest_float("z", 0.0, 1.0)
    values = (x - 0.7) ** 2 + (0.3 if fixed else 0.0), (z - x / 2.0) ** 2
    if coupled:
        return values
    query = trial.suggest_categorical("query", ["upper", "lower"])
    return (values[query == "lower"],)


@pytest.mark.parametrize("coupled", [False, True])
def test_a_level_may_be_empty(coupled: bool) -> None:
    """Trials without a parameter of the lower level count, and the study resumes bit for bit."""
    studies = []
    for n_parts in (1, 16):
        study = optuna.create_study(directions=["minimize"] * (1 + coupled))
        for _ in range(n_parts):
            sampler = study.sampler = BILBOSampler(["fixed", "x"], ["z"], seed=1)
            study.optimize(lambda t: without_answer(t, coupled=coupled), n_trials=16 // n_parts)
        studies.append(study)
    assert [t.params for t in studies[0].trials] == [t.params for t in studies[1].trials]
    assert {"z" in trial.params for trial in studies[0].trials} == {True, False}
    solution = sampler.solution(studies[0])
    assert solution.upper_params["fixed"] is False
    assert solution.upper_params["x"] == pytest.approx(0.7, abs=0.1)
    assert solution.lower_params["z"] == pytest.approx(0.5 * solution.upper_params["x"], abs=0.1)


def only_if_needed(trial: Trial) -> float:
    """Ask for the answer where the function needs it, and for a constant in half of the trials."""
    query, x = (
        trial.suggest_categorical("query", ["upper", "lower"]),
        trial.suggest_float("x", 0, 1),
    )
    if x > 0.5:
        trial.suggest_categorical("constant", ["only"])
    return (x - 0.3) ** 2 if query == "upper" else (trial.suggest_float("z", 0.0, 1.0) - x) ** 2


def test_a_query_need_not_ask_for_all_parameters() -> None:
    """The other function is observed where it was proposed, at the answer to x."""
    sampler = BILBOSampler(["x"], ["z", "constant"], seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(only_if_needed, n_trials=14)
    solution = sampler.solution(study)
    assert solution.upper_params["x"] == pytest.approx(0.3, abs=0.05)
    assert solution.lower_params["z"] == pytest.approx(solution.upper_params["x"], abs=0.05)
    asked = [trial.params["query"] for trial in study.trials]
    assert len(sampler.posterior(study).trials.data["upper"].X) == asked.count("upper")


def test_a_wrong_threshold_is_refuted_at_once() -> None:
    """A parameter seen once, at the largest x, is not hoped for at one x after the other below."""
    sampler = UHEBOSampler(
        n_startup_trials=6, seed=0, constraints_func=lambda t: (0.5 - t.params["x"],)
    )
    study = optuna.create_study(sampler=sampler)
    study.optimize(tree, n_trials=25)
    x = [t.params["x"] for t in study.trials[6:] if 0.6 < t.params["x"] < 1.0]
    assert all(sum(abs(one - other) < 1e-3 for other in x) <= 3 for one in x)


@st.composite
def objectives(draw: DrawFn) -> Callable[[Trial], float]:
    """Draw a define-by-run objective: a random tree of parameters of all kinds."""

    def node(depth: int, name: str) -> tuple[Any, ...]:
        kind = draw(st.sampled_from(["category", "int", "float", "log", "step"]))
        n = 0 if depth == 0 else draw(st.integers(0, 2))
        children = tuple(node(depth - 1, f"{name}{i}") for i in range(n))
        return kind, name, draw(st.sampled_from([0.2, 0.5, 0.8])), children

    roots = [node(2, name) for name in "pq"[: draw(st.integers(1, 2))]]

    def visit(trial: Trial, item: tuple[Any, ...]) -> float:
        kind, name, threshold, children = item
        if kind == "category":
            u = trial.suggest_categorical(name, [0.0, 0.3, 1.0])
        elif kind == "int":
            u = trial.suggest_int(name, 0, 5) / 5.0
        elif kind == "log":
            u = -math.log10(trial.suggest_float(name, 1e-3, 1.0, log=True)) / 3.0
        elif kind == "step":
            u = trial.suggest_float(name, 0.0, 1.0, step=0.25)
        else:
            u = trial.suggest_float(name, 0.0, 1.0)
        value = (u - 0.6) ** 2
        for place, child in enumerate(children):
            if (u > threshold) == (place % 2 == 0):
                value += visit(trial, child)
        return value

    return lambda trial: sum(visit(trial, root) for root in roots)


def above_a_threshold(trial: Trial) -> float:
    """The better branch is a tenth of the range of a float."""
    p = trial.suggest_float("p", 0.0, 1.0)
    if p > 0.9:
        return (trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2 + (1.0 - p)
    return 0.5 + 0.4 * p + (trial.suggest_float("y", 0.0, 1.0) - 0.5) ** 2


def test_borders_are_found() -> None:
    """A border learned from few trials is corrected, and no trial is repeated meanwhile."""
    study = optuna.create_study(sampler=UHEBOSampler(estimation="map", seed=0))
    study.optimize(above_a_threshold, n_trials=24)
    assert study.best_value < 0.03
    assert sum("x" in one for one in params_of(study)) >= 8
    assert len({tuple(sorted(one.items())) for one in params_of(study)}) >= 22


def test_a_branch_that_always_fails_is_given_up() -> None:
    """It is not visited for being tried least, as long as the other one can still be improved."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=8, seed=0))

    def objective(trial: Trial) -> float:
        if trial.suggest_categorical("kind", ["a", "b"]) == "b":
            trial.suggest_float("y", 0.0, 1.0)
            raise optuna.TrialPruned
        x, z = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("z", 0.0, 1.0)
        return (x - 0.3) ** 2 + (z - 0.6) ** 2

    sampler, study.sampler = study.sampler, RandomSampler(seed=0)
    for number in range(30):
        study.enqueue_trial({"kind": "b" if number % 7 == 3 else "a"})
    study.optimize(objective, n_trials=30)
    study.sampler = sampler
    study.optimize(objective, n_trials=6)  # the first and the last of which may be visits
    assert all(trial.params["kind"] == "a" for trial in study.trials[30:])


@pytest.mark.parametrize("share, is_visited", [(0.2, True), (1.0, False)])
def test_three_failures_in_a_branch_are_no_proof_where_most_trials_fail(
    share: float, is_visited: bool
) -> None:
    """They have the probability 0.4 if a fifth of all trials has a value."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=8, seed=0))

    def objective(trial: Trial) -> float:
        if trial.suggest_categorical("kind", ["a", "b"]) == "b":
            trial.suggest_float("y", 0.0, 1.0)
            raise optuna.TrialPruned
        x = trial.suggest_float("x", 0.0, 1.0)
        if trial.number < 23 and trial.number % 5 >= 5.0 * share:
            raise optuna.TrialPruned
        return math.sin(9.0 * x) + x

    for index in range(20):
        study.enqueue_trial({"kind": "a", "x": index / 20.0})
    for index in range(3):
        study.enqueue_trial({"kind": "b", "y": index / 3.0})
    study.optimize(objective, n_trials=26)
    assert (study.trials[25].params["kind"] == "b") == is_visited


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
def test_choices_that_cannot_be_hashed() -> None:
    """Optuna takes lists and dicts as choices, with a warning; parents may have them."""

    def objective(trial: Trial) -> float:
        if trial.suggest_categorical("units", [[8], [8, 8]]) == [8]:  # type: ignore[list-item]
            return trial.suggest_float("x", 0.0, 1.0)
        return 0.5 + trial.suggest_float("y", 0.0, 1.0)

    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=4, seed=0))
    study.optimize(objective, n_trials=12)
    assert study.best_value < 0.2


@settings(max_examples=6)
@given(objective=objectives(), seed=st.integers(0, 99))
def test_random_trees(objective: Callable[[Trial], float], seed: int) -> None:
    """Any tree of parameters: every value is one, and a stopped study goes on bit for bit."""
    whole = optuna.create_study(sampler=small_sampler("bbo", seed))
    whole.optimize(objective, n_trials=14)
    for trial in whole.trials:
        for parameter, distribution in trial.distributions.items():
            assert distribution._contains(distribution.to_internal_repr(trial.params[parameter]))
    with TemporaryDirectory() as folder:
        for n_trials in (9, 5):
            study = optuna.create_study(
                study_name="stopped",
                storage=JournalStorage(JournalFileBackend(f"{folder}/journal")),
                sampler=small_sampler("bbo", seed),
                load_if_exists=True,
            )
            study.optimize(objective, n_trials=n_trials)
        assert params_of(study) == params_of(whole)
