"""What is left of a search after a crash, and what a restore makes of it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from bbo_plugins.optuna import continued_from
from bbo_plugins.optuna.study.continuations import steps_of

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray.tune.experiment import Trial
from ray.tune.search import Repeater, SearchGenerator

from bbo_plugins.ray import BBOSearch
from bbo_plugins.ray.tune.recording import NOT_COUNTED
from tests.ray.searches import (
    make_search,
    restored_from,
    result_of,
    states_of,
    stored_in,
    suggested,
    trials_of,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_stored_study_is_continued(tmp_path: Path) -> None:
    """A second search on the same storage knows the first one's trials; points are not repeated."""
    arguments: dict[str, Any] = {
        "points_to_evaluate": [{"x": 3.0}, {"x": 4.0}],
        "evaluated_rewards": [9.0, None],
        "study_name": "kept",
    }
    first = make_search(storage=stored_in(tmp_path), **arguments)
    first.on_trial_complete("a", result_of(suggested(first, "a")))
    second = make_search(storage=stored_in(tmp_path), **arguments)
    assert [t.value for t in trials_of(second)] == [9.0, 4.0]
    assert optuna.load_study(study_name="kept", storage=stored_in(tmp_path)).best_value == 4.0


def test_stored_study_of_the_opposite_direction_is_refused(tmp_path: Path) -> None:
    """Ray's search keeps the stored direction and optimizes the wrong way."""
    storage = stored_in(tmp_path)
    optuna.create_study(study_name="optuna", storage=storage, direction="maximize")
    with pytest.raises(ValueError, match="mode must be that of the stored study 'optuna', which"):
        make_search(storage=storage)


def test_local_functions_are_saved_too(tmp_path: Path) -> None:
    """As in a notebook's cell or a main function; Ray's search cannot be saved with one."""
    high = 3.0

    def space(trial: optuna.Trial) -> None:
        trial.suggest_float("x", 0.0, high)

    search, path = BBOSearch(space, "loss", "min", seed=0), str(tmp_path / "state")
    running = suggested(search, "running")
    search.save(path)
    restored = BBOSearch()
    restored.restore(path)
    assert suggested(restored, "running") == running
    assert suggested(restored, "next") == suggested(search, "next")


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
        search = make_search(storage=storage, points_to_evaluate=points)
        kept = suggested(search, "kept")
        search.save(str(folder / "state"))
        storage.writes_left = n_writes
        try:
            suggested(search, "lost")
        except _Killed:
            died = True
        else:
            died = False
        restored = BBOSearch()
        restored.restore(str(folder / "state"))
        states = states_of(restored)
        assert states == ["RUNNING", "FAIL"][: 1 if n_writes == 0 else 2]
        assert (suggested(restored, "next")["x"] == 2.0) == is_point
        restored.on_trial_complete("kept", result_of(kept))
        assert trials_of(restored)[0].state is TrialState.COMPLETE
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
    search = make_search(
        storage=stored_in(tmp_path) if is_stored else None,
        points_to_evaluate=[{"x": x} for x in (1.0, 2.0, 3.0, 4.0, 5.0)],
    )
    names = ["runs", "pends", "waits", "ended", "failed", "unknown"]
    search.set_max_concurrency(len(names))
    configs = {name: suggested(search, name) for name in names}
    search.save_to_dir(str(tmp_path))
    statuses = [Trial.RUNNING, Trial.PENDING, Trial.PAUSED, Trial.TERMINATED, Trial.ERROR]
    _write_experiment(
        tmp_path, dict(zip(names[:5], statuses, strict=True)), result_of(configs["ended"])
    )
    restored = restored_from(tmp_path, limit=len(names))
    assert states_of(restored) == ["RUNNING", "RUNNING", "RUNNING", "COMPLETE", "FAIL", "FAIL"]
    assert trials_of(restored)[3].value == 4.0
    for n in range(3):  # as many are taken
        assert restored.suggest(f"new{n}") is not None
    assert restored.suggest("one too many") is None
    # Should Tune know it after all, its results are not lost.
    restored.on_trial_complete("unknown", result_of(configs["unknown"]))
    assert trials_of(restored)[9].value == configs["unknown"]["x"]


@pytest.mark.parametrize(
    "statuses, known, average",
    [
        ([Trial.TERMINATED, Trial.RUNNING], "a", None),  # the Repeater will tell
        ([Trial.ERROR, Trial.PENDING], "a", None),
        ([Trial.TERMINATED], "a", None),  # the second one is still to be suggested
        ([Trial.TERMINATED, Trial.TERMINATED], "a", 6.0),  # the Repeater will not
        ([Trial.TERMINATED, Trial.ERROR], "a", 4.0),
        ([Trial.TERMINATED, None], "a", 4.0),  # Tune does not know the second one
        ([Trial.RUNNING, Trial.TERMINATED], "", 8.0),
        ([Trial.TERMINATED, Trial.TERMINATED], "ab", 4.5),
    ],
)
def test_a_trial_of_a_repeater_ends_with_the_average(
    tmp_path: Path, statuses: list[str | None], known: str, average: float | None
) -> None:
    """Not with the first one's value; of the Repeater's state and Tune's either may be older."""
    search = make_search()
    repeater = Repeater(search, repeat=2)
    for name, _ in zip("ab", statuses, strict=False):
        repeater.suggest(name)
    config = {"x": 8.0, "n": {"k": "a"}}
    in_tune = {name: one for name, one in zip("ab", statuses, strict=False) if one is not None}
    _write_experiment(tmp_path, in_tune, result_of(config, loss=8.0))
    search.save_to_dir(str(tmp_path), "older")
    for name, loss in zip(known, (4.0, 5.0), strict=False):
        repeater.on_trial_complete(name, result_of(config, loss=loss))
    SearchGenerator(repeater).save_to_dir(str(tmp_path), "1")
    (tmp_path / BBOSearch.CKPT_FILE_TMPL.format("1")).unlink()
    generator = SearchGenerator(Repeater(BBOSearch(), repeat=2))
    generator.restore_from_dir(str(tmp_path))
    (trial,) = trials_of(generator.searcher.searcher)
    assert trial.value == average
    assert trial.state is (TrialState.RUNNING if average is None else TrialState.COMPLETE)
    if average is None:
        if len(statuses) == 1:
            generator.searcher.suggest("b")
        generator.on_trial_complete("b", result_of(config, loss=10.0))
        assert trials_of(generator.searcher.searcher)[0].value == 7.0


def test_a_trial_of_repeats_without_a_value_has_failed(tmp_path: Path) -> None:
    """All have failed in Tune, and the Repeater does not know."""
    search = make_search()
    repeater = Repeater(search, repeat=2)
    for name in "ab":
        repeater.suggest(name)
    _write_experiment(tmp_path, dict.fromkeys("ab", Trial.ERROR), {})
    SearchGenerator(repeater).save_to_dir(str(tmp_path), "1")
    assert states_of(restored_from(tmp_path)) == ["FAIL"]


def test_search_is_older_than_its_experiment(tmp_path: Path) -> None:
    """Results of a trial that the restored search has not suggested are those of its owner."""
    search = make_search(storage=stored_in(tmp_path))
    search.set_max_concurrency(2)
    old = suggested(search, "old")
    search.save_to_dir(str(tmp_path))
    search.on_trial_complete("old", result_of(old))
    new = suggested(search, "new")
    _write_experiment(tmp_path, {"old": Trial.TERMINATED, "new": Trial.PENDING}, result_of(old))
    restored = restored_from(tmp_path, limit=2)
    assert states_of(restored) == ["COMPLETE", "FAIL"]
    restored.on_trial_result("new", result_of(new))
    restored.on_trial_complete("new", result_of(new, loss=2.5))
    assert states_of(restored) == ["COMPLETE", "FAIL", "COMPLETE"]
    assert trials_of(restored)[2].params == trials_of(restored)[1].params
    assert trials_of(restored)[2].value == 2.5
    for name in "ab":  # no place is taken for ever
        assert restored.suggest(name) is not None


@pytest.mark.parametrize("status", [Trial.PENDING, Trial.PAUSED])
@pytest.mark.parametrize("is_saved", [False, True])
def test_continuation_is_lost_and_made_again(tmp_path: Path, status: str, is_saved: bool) -> None:
    """Whatever the search knows of it, it continues the same trial, and takes no place until."""
    search = make_search(storage=stored_in(tmp_path))
    search.set_max_concurrency(1)
    config = suggested(search, "a")
    search.on_trial_complete("a", result_of(config))
    if not is_saved:
        search.save_to_dir(str(tmp_path))
    search.on_trial_continued("a")
    if is_saved:
        search.save_to_dir(str(tmp_path))
    _write_experiment(tmp_path, {"a": status}, {})
    restored = restored_from(tmp_path, limit=1)
    keeps = is_saved and status == Trial.PENDING
    assert (trials_of(restored)[1].state is TrialState.RUNNING) == keeps
    assert (restored.suggest("b") is None) == keeps
    restored.on_trial_continued("a")
    restored.on_trial_complete("a", result_of(config, loss=-1.0))
    last = trials_of(restored)[1 if keeps else 3]
    assert (continued_from(last), last.value) == (0, -1.0)
    assert all(t.state.is_finished() or t.number == 2 for t in trials_of(restored))


def test_next_experiment_gives_up_the_trials_of_the_last() -> None:
    """A search that is used again leaves no trial of before RUNNING; it may get its mode later."""
    search = BBOSearch({"x": FloatDistribution(0.0, 1.0)}, metric="loss")
    assert not search.set_search_properties(None, None, {})
    assert search._ot_study is None
    assert not search.set_search_properties("loss", "min", {})
    suggested(search, "a")
    assert not search.set_search_properties("loss", "min", {})
    assert trials_of(search)[0].state is TrialState.FAIL


def _not_counted(search: BBOSearch) -> list[int]:
    attributes = search._ot_study.user_attrs
    listed = [value for key, value in attributes.items() if key.startswith(NOT_COUNTED)]
    return [number for value in listed for number in value]


@pytest.mark.parametrize("is_stored", [False, True])
def test_trials_that_tune_has_forgotten_are_listed(tmp_path: Path, is_stored: bool) -> None:
    """They stay in the study, complete or not, but Tune counts their steps nowhere."""
    search = make_search(storage=stored_in(tmp_path) if is_stored else None)
    known = suggested(search, "known")
    for name in ("complete", "running"):
        config = suggested(search, name)
    search.on_trial_complete("complete", result_of(config))
    search.on_trial_complete("known", result_of(known))
    search.save_to_dir(str(tmp_path))
    _write_experiment(tmp_path, {"known": Trial.TERMINATED}, result_of(known))
    for _ in range(2):  # the second time nothing is new
        restored = restored_from(tmp_path)
        assert _not_counted(restored) == [1, 2]
    assert states_of(restored) == ["COMPLETE", "COMPLETE", "FAIL"]


def test_trial_that_runs_again_is_counted_once(tmp_path: Path) -> None:
    """One that was lost with its driver, and one that failed and is resumed."""
    search = make_search(storage=stored_in(tmp_path))
    failed = suggested(search, "failed")
    search.on_trial_complete("failed", error=True)
    search.save_to_dir(str(tmp_path))
    lost = suggested(search, "lost")
    _write_experiment(tmp_path, {"failed": Trial.ERROR, "lost": Trial.RUNNING}, {})
    restored = restored_from(tmp_path)
    assert _not_counted(restored) == [1]
    for name, config in (("failed", failed), ("lost", lost)):
        restored.on_trial_result(name, result_of(config))
        restored.on_trial_complete(name, result_of(config))
    assert _not_counted(restored) == [0, 1]
    assert states_of(restored) == ["FAIL", "FAIL", "COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("is_complete", [False, True])
def test_continuation_that_tune_has_forgotten_is_listed(tmp_path: Path, is_complete: bool) -> None:
    """Tune waits at step 4 and goes on from there, to whatever horizon is next."""
    search = make_search(storage=stored_in(tmp_path))
    config = suggested(search, "a")
    search.on_trial_horizon("a", 0, 4)
    search.on_trial_complete("a", result_of(config))
    search.save_to_dir(str(tmp_path))
    search.on_trial_continued("a")
    search.on_trial_horizon("a", 4, 16)
    assert _not_counted(search) == []
    if is_complete:
        search.on_trial_complete("a", result_of(config))
        search.on_trial_continued("a")
        search.on_trial_horizon("a", 16, 36)
        assert _not_counted(search) == []
    _write_experiment(tmp_path, {"a": Trial.PAUSED}, result_of(config))
    restored = restored_from(tmp_path)
    restored.on_trial_horizon("a", 0, 4)  # as Tune's scheduler says of a restored trial
    forgotten = [1, 2] if is_complete else [1]
    assert _not_counted(restored) == forgotten
    restored.on_trial_continued("a")
    restored.on_trial_horizon("a", 4, 25)
    assert _not_counted(restored) == forgotten
    counted = [t for t in trials_of(restored) if t.number not in forgotten]
    assert [steps_of(t) for t in counted] == [range(4), range(4, 25)]
