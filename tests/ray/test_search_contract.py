"""What Ray Tune asks of any search algorithm, and what we ask of the one we build on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.trial import TrialState

import bbo_plugins

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.optuna import OptunaSearch

from bbo_plugins.ray import BBOSearch
from tests.ray import searches
from tests.ray.searches import suggested, trials_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# Each sampler of the package, but for one: BILBOSampler has several functions to evaluate, of which
# it chooses one by a parameter of the search space, and wants to be told which parameters belong to
# which level. Its part of the contract is a test of its own at the end.
SAMPLERS = [
    name for name in bbo_plugins.__all__ if name.endswith("Sampler") and name != "BILBOSampler"
]
SPACE = {"x": tune.uniform(0.0, 20.0), "nested": {"k": tune.choice(["a", "b"]), "constant": 7}}


@pytest.fixture(params=SAMPLERS)
def make_search(request: pytest.FixtureRequest) -> Callable[..., BBOSearch]:
    """Make search algorithms with one of our samplers, as a tuner would set them up."""

    def make(**arguments: Any) -> BBOSearch:
        sampler = getattr(bbo_plugins, request.param)(seed=1, n_startup_trials=5)
        return searches.make_search(SPACE, seed=None, sampler=sampler, **arguments)

    return make


def _result(config: dict[str, Any], step: int = 1) -> dict[str, Any]:
    loss = config["x"] ** 2
    flat = {"config/x": config["x"], "config/nested/k": config["nested"]["k"]}
    return {"loss": loss, "training_iteration": step, "done": False, **flat}


def _run(search: BBOSearch, trial_id: str) -> dict[str, Any]:
    """Run one trial with two reports, the way Tune notifies a searcher of it."""
    config = suggested(search, trial_id)
    search.on_trial_result(trial_id, _result(config))
    search.on_trial_complete(trial_id, _result(config, 2))
    return config


def test_private_attributes_relied_on_are_there() -> None:
    """Ray's search algorithm still has what ours is built on, and uses it the same way."""
    search = OptunaSearch(
        {"x": tune.uniform(0.0, 1.0)},
        "loss",
        "min",
        points_to_evaluate=[{"x": 0.5}],
        evaluated_rewards=[2.0],
        study_name="pinned",
    )
    assert search._metric == search.metric == "loss"
    assert search._mode == search.mode == "min"
    assert search._points_to_evaluate == [{"x": 0.5}]
    assert search._evaluated_rewards == [2.0]
    assert search._study_name == "pinned"
    assert search._storage is None
    assert isinstance(search._ot_study, optuna.Study)
    assert search._space == {"x": optuna.distributions.FloatDistribution(0.0, 1.0)}
    assert search._ot_trials == {}
    search.suggest("a")
    assert isinstance(search._ot_trials["a"], optuna.Trial)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "missing"])
def test_invalid_final_value_ends_the_trial(
    make_search: Callable[..., BBOSearch], value: float | str | None
) -> None:
    """A trial without a usable value is final, never an observation, and the search goes on."""
    search = make_search()
    for number in range(8):
        config = suggested(search, str(number))
        result = _result(config)
        if number % 2:
            result["loss"] = value
        if result["loss"] == "missing":
            del result["loss"]
        search.on_trial_result(str(number), result)
        search.on_trial_complete(str(number), result)
    states = [trial.state for trial in trials_of(search)]
    expected = TrialState.PRUNED if value in {None, "missing"} else TrialState.FAIL
    assert states == [TrialState.COMPLETE, expected] * 4
    assert all(math.isfinite(trial.value or 0.0) for trial in trials_of(search))
    assert _run(search, "next")["x"] >= 0.0


@pytest.mark.parametrize(
    "arguments, state, counts",
    [
        ({}, TrialState.COMPLETE, True),
        ({"error": True}, TrialState.FAIL, False),
        ({"pruned": True}, TrialState.PRUNED, True),
        # The last value on the way counts then, and it is the same for both.
        ({"pruned": True, "intermediate_values": [5.0, 4.0]}, TrialState.PRUNED, False),
    ],
)
def test_evaluated_point_grows_the_history_by_one(
    make_search: Callable[..., BBOSearch],
    arguments: dict[str, Any],
    state: TrialState,
    counts: bool,
) -> None:
    """A point with the config of a whole trial, constants included, is taken in every state."""
    search, twin = make_search(), make_search()
    for number in range(6):
        assert _run(search, str(number)) == _run(twin, str(number))
    before = len(trials_of(search))
    point = {"x": 10.0, "nested": {"k": "a", "constant": 7}, "inner_horizon": 100}
    for one, value in ((search, 500.0), (twin, -500.0)):
        one.add_evaluated_point(point, value, **arguments)
        assert len(trials_of(one)) == before + 1
        assert trials_of(one)[-1].state is state
        assert trials_of(one)[-1].params == {"x": 10.0, "nested/k": "a"}
        assert trials_of(one)[-1].value == (None if state is TrialState.FAIL else value)
    # The two know the same but for that value: it is in the model, or it is not.
    assert (search.suggest("a") != twin.suggest("a")) == counts


def test_reports_of_an_evaluated_point_have_the_steps_of_a_live_trial(
    make_search: Callable[..., BBOSearch],
) -> None:
    """The n-th one is that of iteration n, so that learning curves can be compared."""
    search = make_search()
    live = suggested(search, "live")
    for iteration, loss in enumerate((5.0, 4.0, 3.0), start=1):
        search.on_trial_result("live", {"loss": loss, "training_iteration": iteration})
    search.add_evaluated_point(live, 3.0, intermediate_values=[5.0, math.nan, 3.0])
    running, added = trials_of(search)
    assert running.intermediate_values == {1: 5.0, 2: 4.0, 3: 3.0}
    assert added.intermediate_values == {1: 5.0, 3: 3.0}


def test_saved_search_goes_on_in_a_blank_one(
    make_search: Callable[..., BBOSearch], tmp_path: Path
) -> None:
    """Saved with finished and running trials, restored into an object that knows nothing."""
    search = make_search()
    for number in range(6):
        _run(search, str(number))
    running = {trial_id: suggested(search, trial_id) for trial_id in ("r1", "r2")}
    search.save(str(tmp_path / "state"))
    restored = BBOSearch()
    restored.restore(str(tmp_path / "state"))
    assert len(trials_of(restored)) == len(trials_of(search)) == 8
    for trial_id, config in running.items():
        restored.on_trial_complete(trial_id, _result(config, 2))
        search.on_trial_complete(trial_id, _result(config, 2))
    assert [t.state for t in trials_of(restored)] == [TrialState.COMPLETE] * 8
    assert _run(restored, "next") == _run(search, "next")
    assert restored.metric == "loss"
    assert restored.mode == "min"


def test_repeated_steps_keep_the_latest_value(make_search: Callable[..., BBOSearch]) -> None:
    """A trial that is retried from a checkpoint reports some steps twice."""
    search = make_search()
    search.suggest("a")
    for loss in (3.0, 2.0):
        search.on_trial_result("a", {"loss": loss, "training_iteration": 1})
    assert trials_of(search)[0].intermediate_values == {1: 2.0}


def test_notifications_count_once(make_search: Callable[..., BBOSearch]) -> None:
    """A second completion, or results after it, change nothing."""
    search = make_search()
    config = _run(search, "a")
    first = trials_of(search)
    search.on_trial_result("a", _result(config, 3))
    search.on_trial_complete("a", {**_result(config, 4), "loss": -1.0})
    search.on_trial_complete("a", error=True)
    search.on_trial_complete("a")
    assert trials_of(search) == first
    assert first[0].intermediate_values == {1: config["x"] ** 2}


def test_concurrency_limit_is_kept(make_search: Callable[..., BBOSearch]) -> None:
    """No more trials at a time than Tune's limiter allows, whoever counts them."""
    limited = ConcurrencyLimiter(make_search(), max_concurrent=2)
    configs = {trial_id: limited.suggest(trial_id) for trial_id in ("a", "b")}
    assert None not in configs.values()
    assert limited.suggest("c") is None
    limited.on_trial_complete("a", _result(configs["a"]))
    assert limited.suggest("c") is not None
    assert limited.suggest("d") is None
    limited.on_trial_complete("b", error=True)
    limited.on_trial_complete("c")
    assert limited.suggest("d") is not None
    assert limited.suggest("e") is not None
    assert limited.suggest("f") is None


@pytest.mark.parametrize("limit", [None, 4])
def test_a_restored_search_has_the_limit_of_its_own_experiment(
    make_search: Callable[..., BBOSearch], tmp_path: Path, limit: int | None
) -> None:
    """Not that of the experiment which it was saved in."""
    ConcurrencyLimiter(saved := make_search(), max_concurrent=1)
    _run(saved, "a")
    saved.save(str(tmp_path / "state"))
    restored = BBOSearch()
    limited = restored if limit is None else ConcurrencyLimiter(restored, max_concurrent=limit)
    limited.restore(str(tmp_path / "state"))
    configs = [limited.suggest(str(number)) for number in range(6)]
    assert configs.count(None) == (0 if limit is None else 6 - limit)


def test_finds_the_minimum_of_a_parabola(make_search: Callable[..., BBOSearch]) -> None:
    """Ray's own test of convergence: x² on [0, 20], to 1e-2 within 100 trials."""
    search = make_search()
    best = math.inf
    for number in range(100):
        best = min(best, _run(search, str(number))["x"] ** 2)
        if best <= 1e-2:
            return
    pytest.fail(f"the best of 100 values is {best}")


# ---------------------------------------------------------------------------- the bilevel sampler


def _bilevel_search() -> BBOSearch:
    sampler = bbo_plugins.BILBOSampler(["price"], ["n/amount"], seed=1, n_startup_trials=6)
    search = BBOSearch(sampler=sampler)
    space = {
        "price": tune.uniform(0.0, 1.0),
        "n": {"amount": tune.uniform(0.0, 1.0), "constant": 7},
        "query": tune.choice(list(sampler.functions)),
    }
    assert search.set_search_properties("loss", "min", space)
    return search


def _bilevel_result(config: dict[str, Any]) -> dict[str, Any]:
    """Return the function that was asked for: the lower level answers with amount = price."""
    price, amount = config["price"], config["n"]["amount"]
    upper, lower = (price - 0.3) ** 2 + amount, (amount - price) ** 2
    return {"loss": upper if config["query"] == "upper" else lower, "training_iteration": 1}


def test_bilevel_sampler_keeps_its_part_of_the_contract(tmp_path: Path) -> None:
    """Failures, notifications that come twice, running trials and a restore in the middle."""
    search = _bilevel_search()
    queries = []
    for number in range(16):
        config = suggested(search, str(number))
        assert config.keys() == {"price", "n", "query"}
        assert config["n"].keys() == {"amount"}
        queries.append(config["query"])
        result = _bilevel_result(config)
        if number in {2, 9}:
            result["loss"] = math.nan
        for _ in range(2):
            search.on_trial_complete(str(number), result)
    assert set(queries[6:]) == {"upper", "lower"}
    failed = [t.number for t in trials_of(search) if t.state is TrialState.FAIL]
    assert failed == [2, 9]
    running = suggested(search, "running")
    search.save(str(tmp_path / "state"))
    restored = BBOSearch()
    restored.restore(str(tmp_path / "state"))
    for one in (search, restored):
        one.on_trial_complete("running", _bilevel_result(running))
        assert len(trials_of(one)) == 17
    assert search.suggest("next") == restored.suggest("next")
    study = restored._ot_study
    solution = study.sampler.solution(study)
    assert solution.upper_params.keys() == {"price"}
    assert solution.lower_params.keys() == {"n/amount"}
