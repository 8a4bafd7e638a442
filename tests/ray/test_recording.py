"""What a search records of the results that Tune passes on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from optuna.samplers import GridSampler
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins.optuna import UHEBOSampler, continued_from

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.impl.placeholder import create_resolvers_map, inject_placeholders
from ray.tune.search import ConcurrencyLimiter, Repeater, Searcher

from bbo_plugins.optuna.study.trials import TrialRow
from bbo_plugins.ray import BBOSearch
from tests.ray.searches import (
    SPACE,
    make_search,
    result_of,
    states_of,
    stored_in,
    suggested,
    trials_of,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_reported_numbers_are_attributes_for_constraints() -> None:
    """Numbers and texts that the trainable reports are there when constraints are computed."""
    seen = []

    def constraints(trial: FrozenTrial) -> list[float]:
        seen.append(dict(trial.user_attrs))
        return [trial.user_attrs["latency"] - 1.0]

    search = make_search(seed=None, sampler=UHEBOSampler(constraints_func=constraints))
    result = result_of(suggested(search, "a"), latency=0.5, note="n", table=[1], pid=3, done=True)
    search.on_trial_complete("a", result)
    assert seen == [{"latency": 0.5, "note": "n"}]


def test_an_exception_of_the_sampler_does_not_fail_the_trial(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ray would train it again; the study has its value, and one warning has the traceback."""

    def constraints(trial: FrozenTrial) -> list[float]:
        return [trial.user_attrs["latency"] - 1.0]

    search = make_search(seed=None, sampler=UHEBOSampler(constraints_func=constraints))
    for trial_id in "abc":
        search.on_trial_complete(trial_id, result_of(suggested(search, trial_id)))
    suggested(search, "d")
    search.on_trial_complete("d")  # removed before it ran
    assert states_of(search) == ["COMPLETE"] * 3 + ["PRUNED"]
    (record,) = [one for one in caplog.records if "which counts all the same" in one.message]
    assert record.exc_info is not None
    assert "KeyError('latency') after trial a" in record.message


def _grid_search(**arguments: Any) -> BBOSearch:
    grid: dict[str, list[Any]] = {"x": [1.0, 2.0], "n/k": ["a", "b"]}
    return make_search(seed=None, sampler=GridSampler(grid, seed=0), **arguments)


def test_a_sampler_may_end_the_search() -> None:
    """One that has tried its whole grid says so; trials that are trained again are no points."""
    search = _grid_search()
    seen: list[tuple[float, str]] = []
    while (config := search.suggest(f"t{len(seen)}")) != Searcher.FINISHED:
        assert isinstance(config, dict)
        trial_id, result = f"t{len(seen)}", result_of(config)
        seen.append((config["x"], config["n"]["k"]))
        if len(seen) == 1:  # fails, and is restarted
            search.on_trial_complete(trial_id, error=True)
            search.on_trial_result(trial_id, result)
        search.on_trial_complete(trial_id, result)
        if len(seen) == 2:  # is continued
            search.on_trial_continued(trial_id)
            search.on_trial_complete(trial_id, {**result, "training_iteration": 2})
    assert sorted(seen) == [(1.0, "a"), (1.0, "b"), (2.0, "a"), (2.0, "b")]
    assert states_of(search) == ["FAIL"] + ["COMPLETE"] * 5


def test_a_search_is_left_while_its_last_point_runs(tmp_path: Path) -> None:
    """The sampler wants to stop the study then, which nobody runs any more."""
    search = _grid_search(storage=stored_in(tmp_path))
    for trial_id in "abcd":
        config = suggested(search, trial_id)
        if trial_id != "d":
            search.on_trial_complete(trial_id, result_of(config))
    with pytest.raises(ValueError, match="HyperBandForBOHB"):
        search.refuse_bohb()
    assert states_of(search) == ["COMPLETE"] * 3 + ["FAIL"]


def test_a_result_without_a_name_is_passed_over() -> None:
    """Ray's Repeater adds one if it was made before the metric was known."""
    search = make_search()
    config = suggested(search, "a")
    search.on_trial_complete("a", {**result_of(config), None: math.nan})  # type: ignore[dict-item]
    assert states_of(search) == ["COMPLETE"]
    assert None not in trials_of(search)[0].user_attrs


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.parametrize("fails", ["a", "b", "ab"])
def test_the_average_of_a_repeater_counts_if_a_repeat_fails(fails: str) -> None:
    """Also if the last one does, of which Ray's Repeater says so; if all do there is none."""
    search = make_search()
    repeater = Repeater(search, repeat=2)
    configs = {name: repeater.suggest(name) for name in "ab"}
    for name, config in configs.items():
        result = None if name in fails else result_of(config)
        repeater.on_trial_complete(name, result, error=result is None)
    assert states_of(search) == ["FAIL" if fails == "ab" else "COMPLETE"]
    assert trials_of(search)[0].value == (None if fails == "ab" else configs["a"]["x"])


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
def test_a_wrapper_that_does_not_know_the_metric_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Made before the tuner names it, Ray's limiter within a Repeater loses every value."""
    for search, n_warnings in ((BBOSearch(), 1), (BBOSearch(metric="loss", mode="min"), 0)):
        caplog.clear()
        repeater = Repeater(ConcurrencyLimiter(search, max_concurrent=2))
        assert repeater.set_search_properties("loss", "min", SPACE)
        for name in "ab":
            repeater.on_trial_complete(name, result_of(repeater.suggest(name)))
        texts = [record.getMessage() for record in caplog.records]
        assert ["give metric and mode to BBOSearch" in text for text in texts] == [
            True
        ] * n_warnings


def test_several_objectives_are_searched_and_recorded(caplog: pytest.LogCaptureFixture) -> None:
    """As in OptunaSearch: lists of metrics and modes; a value that is missing or NaN is none."""
    search = BBOSearch(
        SPACE,
        metric=["loss", "speed"],
        mode=["min", "max"],
        points_to_evaluate=[{"x": 1.0, "n/k": "a"}],
        evaluated_rewards=[[1.0, 19.0]],
        seed=0,
    )
    for i in range(13):
        trial_id = f"t{i}"
        config = suggested(search, trial_id)
        result = result_of(config, speed=(config["x"] - 20.0) ** 2, latency=i)
        if i == 3:
            del result["speed"]
        if i == 4:
            result["speed"] = math.nan
        search.on_trial_result(trial_id, result)
        search.on_trial_complete(trial_id, result, error=i == 5)
    trials = trials_of(search)
    states = [trial.state for trial in trials]
    assert states[4:7] == [TrialState.PRUNED, TrialState.FAIL, TrialState.FAIL]
    assert states.count(TrialState.COMPLETE) == 11
    assert trials[0].values == [1.0, 19.0]
    assert trials[1].values == pytest.approx(
        [trials[1].params["x"], (trials[1].params["x"] - 20.0) ** 2]
    )
    assert trials[1].user_attrs == {"latency": 0}
    assert "speed = nan" in caplog.text
    assert [each.name for each in search._ot_study.directions] == ["MINIMIZE", "MAXIMIZE"]
    with pytest.raises(ValueError, match=r"metric must be .*, as BBOSearch was told so"):
        search.set_search_properties("loss", "min", {})


def test_without_a_metric_ray_has_a_name() -> None:
    """A trainable that returns a number reports it under Ray's own name."""
    search = BBOSearch({"x": tune.uniform(0.0, 1.0)}, mode="max")
    suggested(search, "a")
    search.on_trial_complete("a", {"_metric": 2.0, "training_iteration": 1})
    assert search._ot_study.best_value == 2.0


def test_failed_trial_that_is_restarted_under_another_name() -> None:
    """Tuner.restore(restart_errored=True) runs the config as a new trial; Ray's search dies."""
    search = make_search()
    config, other = suggested(search, "old"), suggested(search, "other")
    search.on_trial_complete("old", error=True)
    search.on_trial_complete("other", error=True)
    search.on_trial_result("new", result_of(other))
    search.on_trial_complete("new", result_of(other))
    assert states_of(search) == ["FAIL", "FAIL", "COMPLETE"]
    assert trials_of(search)[2].params == {"x": other["x"], "n/k": other["n"]["k"]}
    search.on_trial_complete("old", error=True)
    assert len(trials_of(search)) == 3
    search.on_trial_result("old", result_of(config))  # resumed under its own name
    search.on_trial_complete("old", result_of(config))
    search.on_trial_result("old", result_of(config))
    assert [t.value for t in trials_of(search)] == [None, None, other["x"], config["x"]]


def test_restarted_trials_with_objects_are_known_by_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ray shows no search the objects that it passes on; without a difference none is taken."""
    hidden = tune.choice([math.sin, math.cos])
    space = inject_placeholders({"x": tune.uniform(0.0, 1.0), "f": hidden}, create_resolvers_map())
    search = make_search(space, points_to_evaluate=[{"x": 0.5, "f": label} for label in "01"])
    names = ["a", "b", "c"]
    configs = [suggested(search, name) for name in names]
    for name in names:
        search.on_trial_complete(name, error=True)
    results = [
        {"loss": 1.0, "training_iteration": 1, "config/x": config["x"], "config/f": math.sin}
        for config in configs
    ]
    search.on_trial_complete("new", results[0])
    assert states_of(search) == ["FAIL"] * 3
    (record,) = caplog.records
    assert "differ in what Ray hides" in record.getMessage()
    search.on_trial_complete("newer", results[2])
    assert states_of(search) == ["FAIL"] * 3 + ["COMPLETE"]
    assert trials_of(search)[3].params == trials_of(search)[2].params


def test_results_of_an_unknown_trial_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """They are no error, and one line in the log says so."""
    search = make_search()
    for _ in range(2):
        search.on_trial_result("who", result_of({"x": 1.0, "n": {"k": "a"}}))
    search.on_trial_complete("who")
    assert trials_of(search) == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_continued_trial_is_another_one_in_the_study() -> None:
    """The value after more training has a trial of its own that names the one before."""
    search = make_search()
    config = suggested(search, "a")
    search.on_trial_continued("a")  # it has no value yet, so there is nothing to continue
    search.on_trial_complete("a", result_of(config))
    search.on_trial_continued("a")
    assert states_of(search) == ["COMPLETE", "RUNNING"]
    search.on_trial_result("a", result_of(config, loss=-1.0))
    search.on_trial_complete("a", error=True)
    search.on_trial_result("a", result_of(config, loss=-2.0))
    search.on_trial_complete("a", result_of(config, loss=-3.0))
    search.on_trial_complete("a")
    assert states_of(search) == ["COMPLETE", "FAIL", "COMPLETE"]
    assert [continued_from(t) for t in trials_of(search)] == [None, 0, 0]
    assert [t.params for t in trials_of(search)] == [
        {"x": config["x"], "n/k": config["n"]["k"]}
    ] * 3
    assert trials_of(search)[2].value == -3.0


def test_continued_trials_take_the_place_of_new_ones() -> None:
    """With one trial at a time, the next is suggested when the continuation has ended."""
    search = make_search()
    search.set_max_concurrency(1)
    config = suggested(search, "a")
    search.on_trial_complete("a", result_of(config))
    search.on_trial_continued("a")
    assert search.suggest("b") is None
    search.on_trial_complete("a", result_of(config))
    assert search.suggest("b") is not None


def test_trial_that_was_stopped_early_is_pruned() -> None:
    """Its value is not that of a whole training; the last one it reported is kept."""
    search = make_search()
    config = suggested(search, "a")
    search.on_trial_stopped_early("a")
    search.on_trial_complete("a", result_of(config, training_iteration=4))
    (trial,) = trials_of(search)
    assert trial.state is TrialState.PRUNED
    assert trial.intermediate_values == {4: config["x"]}


def _report(search: BBOSearch, name: str, losses: list[float], *, ends: str | None) -> None:
    """Pass on a trial's results as Tune does: not the last one if Tune ends the trial there."""
    config = suggested(search, name)
    results = [
        result_of(config, training_iteration=i, loss=loss) for i, loss in enumerate(losses, start=1)
    ]
    for result in results[: -1 if ends == "by Tune" else None]:
        search.on_trial_result(name, result)
    if ends is not None:
        search.on_trial_complete(name, {**results[-1], "done": True})


@pytest.mark.parametrize("mode", ["min", "max"])
def test_trial_that_a_scheduler_ends_where_a_better_one_went_on_is_pruned(mode: str) -> None:
    """Ray gives no reason; whoever met a stop criterion, or ended by itself, is complete."""
    sign = 1.0 if mode == "min" else -1.0
    search = BBOSearch(SPACE, metric="loss", mode=mode, seed=0)  # type: ignore[arg-type]

    def report(name: str, losses: list[float], ends: str | None = "by Tune") -> None:
        _report(search, name, [sign * loss for loss in losses], ends=ends)

    report("alone", [9.0])
    report("running", [5.0, 4.0, 3.0], ends=None)
    report("whole", [6.0, 5.0, 4.0, 3.0])
    report("dropped", [7.0, 6.0])
    report("dropped at once", [5.5])
    report("dropped late", [7.0, 6.0, 4.5])
    report("as far as the first, which may be paused", [6.0, 5.0, 3.5])
    report("good enough", [6.0, 3.5])
    report("diverged", [6.0, math.nan])
    report("by itself", [8.0, 8.0], ends="by itself")
    report("the longest", [6.0, 5.0, 4.0, 3.5])
    assert states_of(search) == [
        "COMPLETE",
        "RUNNING",
        "COMPLETE",
        "PRUNED",
        "PRUNED",
        "PRUNED",
        "COMPLETE",
        "COMPLETE",
        "FAIL",
        "COMPLETE",
        "COMPLETE",
    ]
    dropped = trials_of(search)[3]
    assert dropped.value == sign * 6.0
    assert dropped.intermediate_values == {1: sign * 7.0, 2: sign * 6.0}


def test_trials_of_others_and_those_with_a_horizon_prune_none() -> None:
    """Another experiment in the study may train longer; with a horizon the scheduler tells."""
    search = make_search()
    _report(search, "long", [5.0, 4.0, 3.0, 2.0], ends="by Tune")
    other = make_search()
    other._ot_study = search._ot_study
    _report(other, "short", [6.0, 5.0], ends="by Tune")
    suggested(search, "a")
    search.on_trial_horizon("a", 0, 2)
    _report(search, "a", [6.0, 5.0], ends="by Tune")
    _report(search, "b", [6.0, 5.0], ends="by Tune")
    assert states_of(search) == ["COMPLETE"] * 3 + ["PRUNED"]


def test_an_experiment_before_this_one_prunes_none() -> None:
    """With the same search: what limits the iterations now did not then."""
    search = make_search()
    _report(search, "long", [5.0, 4.0, 3.0, 2.0], ends="by Tune")
    search.set_search_properties("loss", "min", SPACE)
    _report(search, "short", [6.0, 5.0], ends="by Tune")
    _report(search, "longer", [6.0, 4.0, 3.0], ends="by Tune")
    _report(search, "dropped", [6.0, 5.0], ends="by Tune")
    assert states_of(search) == ["COMPLETE"] * 3 + ["PRUNED"]


@pytest.mark.parametrize("loss", [5.0, math.nan])
def test_trial_that_ends_while_it_is_paused_has_its_last_result(loss: float) -> None:
    """Ray passes none on then; it is a whole training unless another one was twice as long."""
    search = make_search()
    for name, longest in (("short", 3), ("long", 9), ("as long", 8), ("dropped", 4)):
        config = suggested(search, name)
        for iteration in range(1, longest + 1):
            result = result_of(config, training_iteration=iteration, loss=loss + 1.0 / iteration)
            search.on_trial_result(name, {**result, "latency": iteration})
        search.on_trial_complete(name)
        search.on_trial_complete(name)
    trials = trials_of(search)
    whole, dropped = ("COMPLETE", "PRUNED") if math.isfinite(loss) else ("FAIL", "FAIL")
    assert [trial.state.name for trial in trials] == [whole, whole, whole, dropped]
    assert [trial.user_attrs["latency"] for trial in trials] == [3, 9, 8, 4]
    if whole == "COMPLETE":
        assert trials[1].value == 5.0 + 1.0 / 9.0
        assert trials[3].value == trials[3].intermediate_values[4] == 5.25


@pytest.mark.parametrize("result", [None, {}])
def test_trial_that_is_removed_before_it_runs_is_no_failure(result: dict[str, Any] | None) -> None:
    """Its setting may be fine; one that ran and reported no value has failed."""
    search = make_search()
    suggested(search, "a")
    suggested(search, "b")
    search.on_trial_complete("a", result)
    search.on_trial_complete("b", {"training_iteration": 1, "other": 2.0})
    rows = [TrialRow.read(trial) for trial in trials_of(search)]
    assert [row.state for row in rows] == [TrialState.PRUNED, TrialState.PRUNED]
    assert [row.failed for row in rows] == [False, True]
