"""The search algorithm: what Ray's has wrong is right here."""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from bbo_plugins.optuna import BBOSampler, RegretGapTerminator, UHEBOSampler, continued_from
from bbo_plugins.optuna.study.continuations import steps_of

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.search import ConcurrencyLimiter, Searcher

from bbo_plugins.optuna.study.trials import TrialRow
from bbo_plugins.ray import BBOSearch
from bbo_plugins.ray.tune.recording import NOT_COUNTED

if TYPE_CHECKING:
    from pathlib import Path

SPACE = {"x": tune.uniform(0.0, 20.0), "n": {"k": tune.choice(["a", "b"]), "c": 7}}


def _search(**arguments: Any) -> BBOSearch:
    search = BBOSearch(**{"seed": 0, **arguments})
    assert search.set_search_properties("loss", "min", SPACE)
    return search


def _trials(search: BBOSearch) -> list[optuna.trial.FrozenTrial]:
    trials: list[optuna.trial.FrozenTrial] = search._ot_study.trials
    return trials


def _suggest(search: BBOSearch, trial_id: str) -> dict[str, Any]:
    config = search.suggest(trial_id)
    assert isinstance(config, dict)
    return config


def _result(config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    flat = {"config/x": config["x"], "config/n/k": config["n"]["k"], "config/n/c": 7}
    return {"loss": config["x"], "training_iteration": 1, **flat, **fields}


# --------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"metric": ["a", "b"], "mode": "min"}, ValueError, "mode must be a list of modes, one"),
        ({"metric": ["a", 3], "mode": ["min"] * 2}, TypeError, "metric must be the name"),
        ({"metric": ["a", "b"], "mode": ["min", "up"]}, ValueError, "mode must be one of"),
        (
            {"metric": ["a", "b"], "mode": ["min"] * 2, "terminator": RegretGapTerminator()},
            ValueError,
            "terminator must be None with several objectives",
        ),
        ({"metric": 3}, TypeError, "metric must be the name of a result, but got 3"),
        ({"mode": "minimize"}, ValueError, "mode must be one of 'min' or 'max'"),
        ({"sampler": "tpe"}, TypeError, "sampler must be an Optuna sampler, but got 'tpe'"),
        ({"sampler": UHEBOSampler(), "seed": 0}, ValueError, "seed must be None with a sampler"),
        ({"storage": "sqlite:///x"}, TypeError, r"storage must be .* RDBStorage\(url\)"),
        ({"terminator": object()}, TypeError, "terminator must be an object with a method"),
        ({"points_to_evaluate": {"x": 1}}, TypeError, "points_to_evaluate must be a list"),
        ({"evaluated_rewards": 1.0}, TypeError, "evaluated_rewards must be a list of numbers"),
        ({"points_to_evaluate": [1]}, TypeError, r"points_to_evaluate\[0\] must be a dict"),
        ({"evaluated_rewards": [1.0]}, ValueError, "as long as points_to_evaluate, which has 0"),
        ({"seed": -1}, ValueError, "seed must be an integer of at least 0"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """Each message names the argument, the rule and the value."""
    with pytest.raises(error, match=message):
        BBOSearch(**arguments)


def test_default_sampler_is_seeded() -> None:
    """The seed decides, a seed of 0 included; without one, searches differ."""
    first = _suggest(_search(seed=0), "a")
    assert first == _suggest(_search(seed=0), "a")
    assert first != _suggest(_search(seed=1), "a")
    assert _suggest(_search(seed=None), "a") != _suggest(_search(seed=None), "a")
    assert isinstance(_search()._ot_study.sampler, BBOSampler)


def test_objective_may_come_from_the_tuner() -> None:
    """A search with its own space gets metric and mode later; Ray's would maximize silently."""
    search = BBOSearch({"x": FloatDistribution(0.0, 1.0)})
    with pytest.raises(RuntimeError, match="metric"):
        search.suggest("a")
    assert not search.set_search_properties("loss", "min", {"constant": 1})
    assert search._ot_study.direction is optuna.study.StudyDirection.MINIMIZE
    assert search.metric == "loss"
    assert 0.0 <= _suggest(search, "a")["x"] <= 1.0


def test_objective_must_not_be_contradicted() -> None:
    """What the tuner says again must be the same."""
    search = BBOSearch(metric="loss", mode="min")
    with pytest.raises(ValueError, match="mode must be 'min', as BBOSearch was told so, but got"):
        search.set_search_properties("loss", "max", SPACE)
    assert search.set_search_properties("loss", "min", SPACE)


def test_without_a_metric_ray_has_a_name() -> None:
    """A trainable that returns a number reports it under Ray's own name."""
    search = BBOSearch({"x": tune.uniform(0.0, 1.0)}, mode="max")
    _suggest(search, "a")
    search.on_trial_complete("a", {"_metric": 2.0, "training_iteration": 1})
    assert search._ot_study.best_value == 2.0


# ------------------------------------------------------------------------ several objectives


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
        config = _suggest(search, trial_id)
        result = _result(config, speed=(config["x"] - 20.0) ** 2, latency=i)
        if i == 3:
            del result["speed"]
        if i == 4:
            result["speed"] = math.nan
        search.on_trial_result(trial_id, result)
        search.on_trial_complete(trial_id, result, error=i == 5)
    trials = _trials(search)
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


# ------------------------------------------------------------------------------------ points


def test_points_may_be_nested_flat_or_partial() -> None:
    """Points are run first, in order; what one leaves out is suggested."""
    points = [{"x": 3.0, "n": {"k": "b", "c": 7}}, {"n/k": "a", "x": 4.0}, {"n": {"k": "b"}}]
    search = _search(points_to_evaluate=points)
    first, second, third = (_suggest(search, str(number)) for number in range(3))
    assert first == {"x": 3.0, "n": {"k": "b"}}
    assert second == {"x": 4.0, "n": {"k": "a"}}
    assert third["n"] == {"k": "b"}
    assert 0.0 <= third["x"] <= 20.0


def test_points_with_rewards_are_not_run() -> None:
    """They are in the history instead, but for those whose reward is not known."""
    search = _search(points_to_evaluate=[{"x": 3.0}, {"x": 4.0}], evaluated_rewards=[9.0, None])
    assert [(t.state.name, t.value) for t in _trials(search)] == [("COMPLETE", 9.0)]
    assert _suggest(search, "a")["x"] == 4.0


def test_points_are_shared_by_searches_on_one_study(tmp_path: Path) -> None:
    """What another search has begun is not begun again; one's own points may be equal."""
    points = [{"x": 3.0}, {"x": 3.0}, {"x": 4.0}]
    first, second = (_search(storage=_storage(tmp_path), points_to_evaluate=points) for _ in "ab")
    assert [_suggest(first, trial_id)["x"] for trial_id in "ab"] == [3.0, 3.0]
    assert _suggest(second, "c")["x"] == 4.0
    assert _suggest(first, "d")["x"] not in {3.0, 4.0}


def test_enqueued_trials_of_others_are_taken(tmp_path: Path) -> None:
    """A trial that somebody enqueues in the stored study is run like a point of one's own."""
    search = _search(storage=_storage(tmp_path))
    study = optuna.load_study(study_name="optuna", storage=_storage(tmp_path))
    study.enqueue_trial({"x": 5.0, "n/k": "b"})
    assert _suggest(search, "a") == {"x": 5.0, "n": {"k": "b"}}
    _suggest(search, "b")
    assert [t.state.name for t in _trials(search)] == ["RUNNING"] * 2


@pytest.mark.parametrize(
    "point, message",
    [
        ({"y": 1.0}, r"points_to_evaluate\[0\] must be a point of the search space.* no 'y'"),
        ({"n": {"z": 1.0}}, "no 'n/z'"),
        ({"x": 21.0}, r"points_to_evaluate\[0\]\['x'\] must be a value of Float.*got 21.0"),
        ({"n": {"k": "c"}}, r"\['n/k'\] must be a value of Categorical"),
    ],
)
def test_points_outside_the_space_are_refused(point: dict[str, Any], message: str) -> None:
    """A misspelled name or a value out of range is an error before anything runs."""
    with pytest.raises(ValueError, match=message):
        _search(points_to_evaluate=[point])


def test_evaluated_point_needs_a_parameter() -> None:
    """A config that has nothing to do with the space is no observation of it."""
    with pytest.raises(ValueError, match="parameters must be a config with parameters of"):
        _search().add_evaluated_point({"other": 1.0}, 3.0)
    with pytest.raises(ValueError, match=r"parameters\['x'\] must be a value of"):
        _search().add_evaluated_point({"x": -1.0}, 3.0)
    with pytest.raises(RuntimeError, match="search space"):
        BBOSearch().add_evaluated_point({"x": 1.0}, 3.0)


def test_define_by_run_space() -> None:
    """A function of the trial is a space too; constants that it returns are passed on."""

    def space(trial: optuna.Trial) -> dict[str, Any]:
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            trial.suggest_float("x", 0.0, 1.0)
        return {"constant": 5}

    search = BBOSearch(space, "loss", "min", seed=0, points_to_evaluate=[{"kind": "a", "x": 0.5}])
    assert _suggest(search, "first") == {"kind": "a", "x": 0.5, "constant": 5}
    search.on_trial_complete("first", {"loss": 1.0, "training_iteration": 1})
    for number in range(14):
        config = _suggest(search, str(number))
        assert config.keys() - {"x"} == {"kind", "constant"}
        search.on_trial_complete(str(number), {"loss": 1.0, "training_iteration": 1})
    search.add_evaluated_point({"kind": "b", "constant": 5}, 3.0)
    assert (_trials(search)[-1].params, _trials(search)[-1].value) == ({"kind": "b"}, 3.0)
    with pytest.raises(ValueError, match=r"all that the define-by-run function asks for .*'x'"):
        search.add_evaluated_point({"kind": "a"}, 3.0)


# ------------------------------------------------------------------------ conditional spaces

MODELS = {
    "model": tune.choice(
        [
            {"kind": "svm", "C": tune.loguniform(1e-3, 1e3)},
            {"kind": "forest", "depth": tune.randint(1, 20)},
        ]
    ),
    "rate": tune.uniform(0.0, 1.0),
    "seed": 7,
}


def _nested_search(**arguments: Any) -> BBOSearch:
    search = BBOSearch(**{"seed": 0, **arguments})
    assert search.set_search_properties("loss", "min", MODELS)
    return search


def _nested_loss(config: dict[str, Any]) -> float:
    model, rate = config["model"], config["rate"]
    if model["kind"] == "svm":
        assert model.keys() == {"kind", "C"}
        return float(0.2 + 0.1 * abs(math.log10(model["C"]) - 1.0) + abs(rate - 0.3))
    assert model.keys() == {"kind", "depth"}
    return float(0.05 * abs(model["depth"] - 7) + abs(rate - 0.6))


def test_nested_space_is_searched_by_branch() -> None:
    """Configs are nested as Ray's are, the study has the names, and the better branch wins."""
    search = _nested_search()
    for number in range(40):
        config = _suggest(search, str(number))
        assert config.keys() == {"model", "rate"}
        result = {"loss": _nested_loss(config), "training_iteration": 1}
        search.on_trial_complete(str(number), result)
    best = search._ot_study.best_trial
    assert best.params.keys() == {"model", "model/forest/depth", "rate"}
    assert best.value < 0.05
    assert {trial.params["model"] for trial in _trials(search)} == {"svm", "forest"}


def test_nested_space_of_the_search_brings_its_constants() -> None:
    """Those outside the choices too."""
    search = BBOSearch(MODELS, "loss", "min", seed=0)
    config = _suggest(search, "a")
    assert config.keys() == {"model", "rate", "seed"}
    assert config["seed"] == 7
    assert BBOSearch.convert_search_space(MODELS).keys() == {
        "model",
        "model/svm/C",
        "model/forest/depth",
        "rate",
    }


def test_nested_points_and_their_rewards(tmp_path: Path) -> None:
    """Points are nested, by path or by name; results of them are in the study, and stay once."""
    arguments: dict[str, Any] = {
        "points_to_evaluate": [
            {"model": {"kind": "svm", "C": 10.0}, "rate": 0.25, "seed": 7},
            {"model/kind": "forest", "model/depth": 7},
            {"model": "svm", "model/svm/C": 1.0, "rate": 0.5},
        ],
        "evaluated_rewards": [0.25, None, None],
    }
    search = _nested_search(storage=_storage(tmp_path), **arguments)
    (known,) = _trials(search)
    assert known.params == {"model": "svm", "model/svm/C": 10.0, "rate": 0.25}
    assert known.value == 0.25
    assert _suggest(search, "a")["model"] == {"kind": "forest", "depth": 7}
    assert _suggest(search, "b") == {"model": {"kind": "svm", "C": 1.0}, "rate": 0.5}
    again = _nested_search(storage=_storage(tmp_path), **arguments)
    assert len(_trials(again)) == 3
    again.add_evaluated_point({"model": {"kind": "forest", "depth": 3}, "rate": 0.5}, 1.0)
    assert _trials(again)[-1].params == {"model": "forest", "model/forest/depth": 3, "rate": 0.5}
    with pytest.raises(ValueError, match=r"points_to_evaluate\[0\]\['model'\] must be one of"):
        _nested_search(points_to_evaluate=[{"model": {"kind": "tree"}}])


def test_local_functions_are_saved_too(tmp_path: Path) -> None:
    """As in a notebook's cell or a main function; Ray's search cannot be saved with one."""
    high = 3.0

    def space(trial: optuna.Trial) -> None:
        trial.suggest_float("x", 0.0, high)

    search, path = BBOSearch(space, "loss", "min", seed=0), str(tmp_path / "state")
    running = _suggest(search, "running")
    search.save(path)
    restored = BBOSearch()
    restored.restore(path)
    assert _suggest(restored, "running") == running
    assert _suggest(restored, "next") == _suggest(search, "next")


def test_failed_nested_trial_is_restarted_under_another_name() -> None:
    """It is known by its config, which has other paths than the study has names."""
    search = _nested_search(points_to_evaluate=[{"model": {"kind": "forest", "depth": 7}}])
    config = _suggest(search, "a")
    search.on_trial_complete("a", error=True)
    flat = {"config/model/kind": "forest", "config/model/depth": 7, "config/seed": 7}
    flat["config/rate"] = config["rate"]
    search.on_trial_result("b", {"loss": 1.0, "training_iteration": 1, **flat})
    search.on_trial_complete("b", {"loss": 1.0, "training_iteration": 1, **flat})
    first, second = _trials(search)
    assert (first.state, second.state) == (TrialState.FAIL, TrialState.COMPLETE)
    assert first.params == second.params


# ----------------------------------------------------------------------------------- storage


def _storage(folder: Path) -> optuna.storages.BaseStorage:
    return JournalStorage(JournalFileBackend(str(folder / "journal.log")))


def test_stored_study_is_continued(tmp_path: Path) -> None:
    """A second search on the same storage knows the first one's trials; points are not repeated."""
    arguments: dict[str, Any] = {
        "points_to_evaluate": [{"x": 3.0}, {"x": 4.0}],
        "evaluated_rewards": [9.0, None],
        "study_name": "kept",
    }
    first = _search(storage=_storage(tmp_path), **arguments)
    first.on_trial_complete("a", _result(_suggest(first, "a")))
    second = _search(storage=_storage(tmp_path), **arguments)
    assert [t.value for t in _trials(second)] == [9.0, 4.0]
    assert optuna.load_study(study_name="kept", storage=_storage(tmp_path)).best_value == 4.0


def test_stored_study_of_the_opposite_direction_is_refused(tmp_path: Path) -> None:
    """Ray's search keeps the stored direction and optimizes the wrong way."""
    storage = _storage(tmp_path)
    optuna.create_study(study_name="optuna", storage=storage, direction="maximize")
    with pytest.raises(ValueError, match="mode must be that of the stored study 'optuna', which"):
        _search(storage=storage)


class _Killed(BaseException):
    """What a driver dies of."""


class _FatalStorage(JournalStorage):
    """A storage that kills its driver before or after the n-th write from now."""

    def __init__(self, folder: Path) -> None:
        super().__init__(JournalFileBackend(str(folder / "journal.log")))
        self.writes_left = math.inf

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "writes_left": math.inf}

    def _write_log(self, *arguments: Any) -> None:
        self.writes_left -= 1
        if self.writes_left < 0:
            raise _Killed
        super()._write_log(*arguments)


@pytest.mark.parametrize("is_point", [False, True])
def test_driver_may_die_between_any_two_writes(tmp_path: Path, is_point: bool) -> None:
    """Whenever it is killed, the restored search leaves no trial of its own running."""
    for n_writes in range(100):
        folder = tmp_path / str(n_writes)
        folder.mkdir()
        storage = _FatalStorage(folder)
        points = [{"x": 2.0}] * (2 if is_point else 1)
        search = _search(storage=storage, points_to_evaluate=points)
        kept = _suggest(search, "kept")
        search.save(str(folder / "state"))
        storage.writes_left = n_writes
        try:
            _suggest(search, "lost")
        except _Killed:
            died = True
        else:
            died = False
        restored = BBOSearch()
        restored.restore(str(folder / "state"))
        states = [t.state.name for t in _trials(restored)]
        assert states == ["RUNNING", "FAIL"][: 1 if n_writes == 0 else 2]
        assert (_suggest(restored, "next")["x"] == 2.0) == is_point
        restored.on_trial_complete("kept", _result(kept))
        assert _trials(restored)[0].state is TrialState.COMPLETE
        if not died:
            assert n_writes > 1
            return
    pytest.fail("a suggestion takes more than 100 writes")


def _write_experiment(folder: Path, statuses: dict[str, str], result: dict[str, Any]) -> None:
    """Write the state of an experiment as Tune does; a test on real Ray reads one of Tune's."""
    saved = []
    for trial_id, status in statuses.items():
        trial = Trial("train", trial_id=trial_id, stub=True)
        trial.create_placement_group_factory()
        trial.set_status(status)
        if status == Trial.TERMINATED:
            trial.update_last_result(result)
        saved.append(trial.get_json_state())
    (folder / "experiment_state-1.json").write_text(json.dumps({"trial_data": saved}))


@pytest.mark.parametrize("is_stored", [False, True])
def test_search_is_newer_than_its_experiment(tmp_path: Path, is_stored: bool) -> None:
    """Trials end as the experiment says; those that it has not heard of have failed."""
    search = _search(
        storage=_storage(tmp_path) if is_stored else None,
        points_to_evaluate=[{"x": x} for x in (1.0, 2.0, 3.0, 4.0, 5.0)],
    )
    names = ["runs", "pends", "waits", "ended", "failed", "unknown"]
    search.set_max_concurrency(len(names))
    configs = {name: _suggest(search, name) for name in names}
    search.save_to_dir(str(tmp_path))
    statuses = [Trial.RUNNING, Trial.PENDING, Trial.PAUSED, Trial.TERMINATED, Trial.ERROR]
    _write_experiment(
        tmp_path, dict(zip(names[:5], statuses, strict=True)), _result(configs["ended"])
    )
    restored = BBOSearch()
    restored.restore_from_dir(str(tmp_path))
    assert [t.state.name for t in _trials(restored)] == [
        "RUNNING",
        "RUNNING",
        "RUNNING",
        "COMPLETE",
        "FAIL",
        "FAIL",
    ]
    assert _trials(restored)[3].value == 4.0
    restored.set_max_concurrency(4)  # three are taken
    assert restored.suggest("new") is not None
    assert restored.suggest("one too many") is None
    # Should Tune know it after all, its results are not lost.
    restored.on_trial_complete("unknown", _result(configs["unknown"]))
    assert _trials(restored)[7].value == configs["unknown"]["x"]


def test_search_is_older_than_its_experiment(tmp_path: Path) -> None:
    """Results of a trial that the restored search has not suggested are those of its owner."""
    search = _search(storage=_storage(tmp_path))
    search.set_max_concurrency(2)
    old = _suggest(search, "old")
    search.save_to_dir(str(tmp_path))
    search.on_trial_complete("old", _result(old))
    new = _suggest(search, "new")
    _write_experiment(tmp_path, {"old": Trial.TERMINATED, "new": Trial.PENDING}, _result(old))
    restored = BBOSearch()
    restored.restore_from_dir(str(tmp_path))
    assert [t.state.name for t in _trials(restored)] == ["COMPLETE", "FAIL"]
    restored.on_trial_result("new", _result(new))
    restored.on_trial_complete("new", _result(new, loss=2.5))
    assert [t.state.name for t in _trials(restored)] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert _trials(restored)[2].params == _trials(restored)[1].params
    assert _trials(restored)[2].value == 2.5
    for name in "ab":  # no place is taken for ever
        assert restored.suggest(name) is not None


@pytest.mark.parametrize("status", [Trial.PENDING, Trial.PAUSED])
@pytest.mark.parametrize("is_saved", [False, True])
def test_continuation_is_lost_and_made_again(tmp_path: Path, status: str, is_saved: bool) -> None:
    """Whatever the search knows of it, it continues the same trial, and takes no place until."""
    search = _search(storage=_storage(tmp_path))
    search.set_max_concurrency(1)
    config = _suggest(search, "a")
    search.on_trial_complete("a", _result(config))
    if not is_saved:
        search.save_to_dir(str(tmp_path))
    search.on_trial_continued("a")
    if is_saved:
        search.save_to_dir(str(tmp_path))
    _write_experiment(tmp_path, {"a": status}, {})
    restored = BBOSearch()
    restored.restore_from_dir(str(tmp_path))
    keeps = is_saved and status == Trial.PENDING
    assert (_trials(restored)[1].state is TrialState.RUNNING) == keeps
    assert (restored.suggest("b") is None) == keeps
    restored.on_trial_continued("a")
    restored.on_trial_complete("a", _result(config, loss=-1.0))
    last = _trials(restored)[1 if keeps else 3]
    assert (continued_from(last), last.value) == (0, -1.0)
    assert all(t.state.is_finished() or t.number == 2 for t in _trials(restored))


# ----------------------------------------------------------------------------------- results


def test_reported_numbers_are_attributes_for_constraints() -> None:
    """Numbers and texts that the trainable reports are there when constraints are computed."""
    seen = []

    def constraints(trial: optuna.trial.FrozenTrial) -> list[float]:
        seen.append(dict(trial.user_attrs))
        return [trial.user_attrs["latency"] - 1.0]

    search = _search(seed=None, sampler=UHEBOSampler(constraints_func=constraints))
    result = _result(_suggest(search, "a"), latency=0.5, note="n", table=[1], pid=3, done=True)
    search.on_trial_complete("a", result)
    assert seen == [{"latency": 0.5, "note": "n"}]


def test_failed_trial_that_is_restarted_under_another_name() -> None:
    """Tuner.restore(restart_errored=True) runs the config as a new trial; Ray's search dies."""
    search = _search()
    config, other = _suggest(search, "old"), _suggest(search, "other")
    search.on_trial_complete("old", error=True)
    search.on_trial_complete("other", error=True)
    search.on_trial_result("new", _result(other))
    search.on_trial_complete("new", _result(other))
    assert [t.state.name for t in _trials(search)] == ["FAIL", "FAIL", "COMPLETE"]
    assert _trials(search)[2].params == {"x": other["x"], "n/k": other["n"]["k"]}
    search.on_trial_complete("old", error=True)
    assert len(_trials(search)) == 3
    search.on_trial_result("old", _result(config))  # resumed under its own name
    search.on_trial_complete("old", _result(config))
    search.on_trial_result("old", _result(config))
    assert [t.value for t in _trials(search)] == [None, None, other["x"], config["x"]]


def test_results_of_an_unknown_trial_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """They are no error, and one line in the log says so."""
    search = _search()
    for _ in range(2):
        search.on_trial_result("who", _result({"x": 1.0, "n": {"k": "a"}}))
    search.on_trial_complete("who")
    assert _trials(search) == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_continued_trial_is_another_one_in_the_study() -> None:
    """The value after more training has a trial of its own that names the one before."""
    search = _search()
    config = _suggest(search, "a")
    search.on_trial_continued("a")  # it has no value yet, so there is nothing to continue
    search.on_trial_complete("a", _result(config))
    search.on_trial_continued("a")
    assert [t.state.name for t in _trials(search)] == ["COMPLETE", "RUNNING"]
    search.on_trial_result("a", _result(config, loss=-1.0))
    search.on_trial_complete("a", error=True)
    search.on_trial_result("a", _result(config, loss=-2.0))
    search.on_trial_complete("a", _result(config, loss=-3.0))
    search.on_trial_complete("a")
    assert [t.state.name for t in _trials(search)] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert [continued_from(t) for t in _trials(search)] == [None, 0, 0]
    assert [t.params for t in _trials(search)] == [{"x": config["x"], "n/k": config["n"]["k"]}] * 3
    assert _trials(search)[2].value == -3.0


def test_continued_trials_take_the_place_of_new_ones() -> None:
    """With one trial at a time, the next is suggested when the continuation has ended."""
    search = _search()
    search.set_max_concurrency(1)
    config = _suggest(search, "a")
    search.on_trial_complete("a", _result(config))
    search.on_trial_continued("a")
    assert search.suggest("b") is None
    search.on_trial_complete("a", _result(config))
    assert search.suggest("b") is not None


def test_trial_that_was_stopped_early_is_pruned() -> None:
    """Its value is not that of a whole training; the last one it reported is kept."""
    search = _search()
    config = _suggest(search, "a")
    search.on_trial_stopped_early("a")
    search.on_trial_complete("a", _result(config, training_iteration=4))
    (trial,) = _trials(search)
    assert trial.state is TrialState.PRUNED
    assert trial.intermediate_values == {4: config["x"]}


@pytest.mark.parametrize("loss", [5.0, math.nan])
def test_trial_that_ends_while_it_is_paused_has_its_last_result(loss: float) -> None:
    """Ray passes none on then; it is a whole training unless another one was twice as long."""
    search = _search()
    for name, longest in (("short", 3), ("long", 9), ("as long", 8), ("dropped", 4)):
        config = _suggest(search, name)
        for iteration in range(1, longest + 1):
            result = _result(config, training_iteration=iteration, loss=loss + 1.0 / iteration)
            search.on_trial_result(name, {**result, "latency": iteration})
        search.on_trial_complete(name)
        search.on_trial_complete(name)
    trials = _trials(search)
    whole, dropped = ("COMPLETE", "PRUNED") if math.isfinite(loss) else ("FAIL", "FAIL")
    assert [trial.state.name for trial in trials] == [whole, whole, whole, dropped]
    assert [trial.user_attrs["latency"] for trial in trials] == [3, 9, 8, 4]
    if whole == "COMPLETE":
        assert trials[1].value == 5.0 + 1.0 / 9.0
        assert trials[3].value == trials[3].intermediate_values[4] == 5.25


@pytest.mark.parametrize("result", [None, {}])
def test_trial_that_is_removed_before_it_runs_is_no_failure(result: dict[str, Any] | None) -> None:
    """Its setting may be fine; one that ran and reported no value has failed."""
    search = _search()
    _suggest(search, "a")
    _suggest(search, "b")
    search.on_trial_complete("a", result)
    search.on_trial_complete("b", {"training_iteration": 1, "other": 2.0})
    rows = [TrialRow.read(trial) for trial in _trials(search)]
    assert [row.state for row in rows] == [TrialState.PRUNED, TrialState.PRUNED]
    assert [row.failed for row in rows] == [False, True]


# ------------------------------------------------------- trials that no budget of steps counts


def _not_counted(search: BBOSearch) -> list[int]:
    attributes = search._ot_study.user_attrs
    listed = [value for key, value in attributes.items() if key.startswith(NOT_COUNTED)]
    return [number for value in listed for number in value]


@pytest.mark.parametrize("is_stored", [False, True])
def test_trials_that_tune_has_forgotten_are_listed(tmp_path: Path, is_stored: bool) -> None:
    """They stay in the study, complete or not, but Tune counts their steps nowhere."""
    search = _search(storage=_storage(tmp_path) if is_stored else None)
    known = _suggest(search, "known")
    for name in ("complete", "running"):
        config = _suggest(search, name)
    search.on_trial_complete("complete", _result(config))
    search.on_trial_complete("known", _result(known))
    search.save_to_dir(str(tmp_path))
    _write_experiment(tmp_path, {"known": Trial.TERMINATED}, _result(known))
    for _ in range(2):  # the second time nothing is new
        restored = BBOSearch()
        restored.restore_from_dir(str(tmp_path))
        assert _not_counted(restored) == [1, 2]
    assert [t.state.name for t in _trials(restored)] == ["COMPLETE", "COMPLETE", "FAIL"]


def test_trial_that_runs_again_is_counted_once(tmp_path: Path) -> None:
    """One that was lost with its driver, and one that failed and is resumed."""
    search = _search(storage=_storage(tmp_path))
    failed = _suggest(search, "failed")
    search.on_trial_complete("failed", error=True)
    search.save_to_dir(str(tmp_path))
    lost = _suggest(search, "lost")
    _write_experiment(tmp_path, {"failed": Trial.ERROR, "lost": Trial.RUNNING}, {})
    restored = BBOSearch()
    restored.restore_from_dir(str(tmp_path))
    assert _not_counted(restored) == [1]
    for name, config in (("failed", failed), ("lost", lost)):
        restored.on_trial_result(name, _result(config))
        restored.on_trial_complete(name, _result(config))
    assert _not_counted(restored) == [0, 1]
    assert [t.state.name for t in _trials(restored)] == ["FAIL", "FAIL", "COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("is_complete", [False, True])
def test_continuation_that_tune_has_forgotten_is_listed(tmp_path: Path, is_complete: bool) -> None:
    """Tune waits at step 4 and goes on from there, to whatever horizon is next."""
    search = _search(storage=_storage(tmp_path))
    config = _suggest(search, "a")
    search.on_trial_horizon("a", 0, 4)
    search.on_trial_complete("a", _result(config))
    search.save_to_dir(str(tmp_path))
    search.on_trial_continued("a")
    search.on_trial_horizon("a", 4, 16)
    assert _not_counted(search) == []
    if is_complete:
        search.on_trial_complete("a", _result(config))
        search.on_trial_continued("a")
        search.on_trial_horizon("a", 16, 36)
        assert _not_counted(search) == []
    _write_experiment(tmp_path, {"a": Trial.PAUSED}, _result(config))
    restored = BBOSearch()
    restored.restore_from_dir(str(tmp_path))
    restored.on_trial_horizon("a", 0, 4)  # as Tune's scheduler says of a restored trial
    forgotten = [1, 2] if is_complete else [1]
    assert _not_counted(restored) == forgotten
    restored.on_trial_continued("a")
    restored.on_trial_horizon("a", 4, 25)
    assert _not_counted(restored) == forgotten
    counted = [t for t in _trials(restored) if t.number not in forgotten]
    assert [steps_of(t) for t in counted] == [range(4), range(4, 25)]


# --------------------------------------------------------------------------------- refusals


def test_hyperband_for_bohb_is_refused_by_name() -> None:
    """With the remedy, and without a trial that stays RUNNING."""
    search = _search()
    _suggest(search, "a")
    limited = ConcurrencyLimiter(search, max_concurrent=2)  # as the tuner wraps it
    with pytest.raises(ValueError, match=r"HyperBandForBOHB with BBOSearch.*Take HyperBandS"):
        limited.on_pause("a")
    assert _trials(search)[0].state is TrialState.FAIL


# --------------------------------------------------------------------------------- the end


class _After:
    """A terminator that ends a study after some complete trials."""

    def __init__(self, n_trials: int) -> None:
        self.n_trials = n_trials

    def should_terminate(self, study: optuna.Study) -> bool:
        return sum(t.state is TrialState.COMPLETE for t in study.trials) >= self.n_trials


def test_terminator_ends_the_search_gracefully(caplog: pytest.LogCaptureFixture) -> None:
    """No more trials are suggested, and those that run are recorded when they end."""
    search = _search(terminator=_After(2))
    running = _suggest(search, "running")
    for trial_id in ("a", "b"):
        search.on_trial_complete(trial_id, _result(_suggest(search, trial_id)))
    with caplog.at_level(logging.INFO):
        assert search.suggest("c") == Searcher.FINISHED
        assert search.suggest("d") == Searcher.FINISHED
    assert [record.levelname for record in caplog.records] == ["INFO"]
    search.on_trial_complete("running", _result(running))
    assert [t.state for t in _trials(search)] == [TrialState.COMPLETE] * 3


def test_regret_gap_terminator_ends_the_search(caplog: pytest.LogCaptureFixture) -> None:
    """The terminator of the Optuna front door does, on a function whose minimum is soon found."""
    caplog.set_level(logging.INFO)
    terminator = RegretGapTerminator(min_n_trials=5, patience=2)
    search = _search(terminator=terminator)
    for number in range(60):
        config = search.suggest(str(number))
        if config == Searcher.FINISHED:
            break
        assert isinstance(config, dict)
        result = _result(config, loss=(config["x"] - 7.0) ** 2)
        search.on_trial_complete(str(number), result)
    assert 5 <= len(_trials(search)) < 60
    final = terminator.history(search._ot_study)[-1]
    assert final.terminate
    (said,) = [r.getMessage() for r in caplog.records if "suggests no more" in r.getMessage()]
    assert (
        f"RegretGapTerminator ends the search after {final.n_trials} complete trials: the regret "
        f"gap was at most its threshold for 2 in a row, at last {final.value:.4g} <= "
        f"{final.threshold:.4g}; running trials are finished."
    ) in said


def test_next_experiment_gives_up_the_trials_of_the_last() -> None:
    """A search that is used again leaves no trial of before RUNNING; it may get its mode later."""
    search = BBOSearch({"x": FloatDistribution(0.0, 1.0)}, metric="loss")
    assert not search.set_search_properties(None, None, {})
    assert search._ot_study is None
    assert not search.set_search_properties("loss", "min", {})
    _suggest(search, "a")
    assert not search.set_search_properties("loss", "min", {})
    assert _trials(search)[0].state is TrialState.FAIL
