"""What a model is told about running trials, stored fits and held parameters; what is kept."""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.storages.journal import BaseJournalBackend, JournalFileBackend
from optuna.trial import TrialState

from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.optuna.sampling.snapshot import StudyReader
from bbo_plugins.optuna.study.storage import Proposal, held_params, store_proposal
from bbo_plugins.optuna.study.trials import BESIDE_KEY, PerStudy
from tests.optuna.snapshots import SPACE, X, ask, finished, look, study_of

if TYPE_CHECKING:
    from pathlib import Path

# ---------------------------------------------------------------------------------------- pending


def test_running_trials_are_pending_where_they_are_known_to_be() -> None:
    """Proposed, enqueued and suggested values are used, the surest source first."""
    study = study_of(finished(1.0, 1.0))
    space = {"x": X, "y": X}
    proposed = ask(study)
    store_proposal(study, proposed, Proposal.of({"x": 2.0, "y": 3.0}, space))
    suggested = ask(study)
    store_proposal(study, suggested, Proposal.of({"x": 4.0, "y": 5.0}, space))
    study._storage.set_trial_param(suggested._trial_id, "y", 6.0, X)
    study.enqueue_trial({"x": 7.0, "y": 8.0})
    study.ask()
    ask(study)  # nobody knows where this one is
    incomplete = ask(study)
    study._storage.set_trial_param(incomplete._trial_id, "x", 9.0, X)
    pending = look(study, space).observations.pending
    np.testing.assert_allclose(pending, [[0.2, 0.3], [0.4, 0.6], [0.7, 0.8]])


def test_only_the_latest_running_trials_are_pending() -> None:
    """Trials of workers that died long ago stay RUNNING; their number does not grow for ever."""
    study = study_of(finished(1.0, 1.0))
    for i in range(520):
        store_proposal(study, ask(study), Proposal.of({"x": i / 100.0}, SPACE))
    pending = look(study).observations.pending
    np.testing.assert_allclose(pending[:, 0], np.arange(8, 520) / 1000.0)


@pytest.mark.parametrize(
    "state", [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL], ids=lambda s: s.name
)
def test_overtaken_trials_are_dead(state: TrialState) -> None:
    """Dead once 32 later trials have finished, and 4 more per later one that still runs."""
    study = study_of(*[finished(1.0, 1.0) for _ in range(40)])  # lower numbers do not count
    dead = ask(study)
    store_proposal(study, dead, Proposal.of({"x": 2.0}, SPACE))
    value = 1.0 if state is TrialState.COMPLETE else None
    study.add_trials([finished(1.0, value, state) for _ in range(35)])
    alive = ask(study)
    store_proposal(study, alive, Proposal.of({"x": 3.0}, SPACE))
    reader = StudyReader()
    pending = look(study, reader=reader).observations.pending
    np.testing.assert_allclose(pending, [[0.2], [0.3]])
    # Each look leaves a running trial behind, so 12 more are needed for the two that follow.
    study.add_trials([finished(1.0, value, state) for _ in range(12)])
    for seen_by in (reader, StudyReader()):
        pending = look(study, reader=seen_by).observations.pending
        np.testing.assert_allclose(pending, [[0.3]])


def test_trials_know_how_many_ran_beside_them() -> None:
    """What a model suggested beside others keeps their number, whatever runs now."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=2, seed=0))
    for n in (1, 1, 1, 3, 1):
        for trial in [study.ask(dict(SPACE)) for _ in range(n)]:
            study.tell(trial, trial.params["x"])
    np.testing.assert_array_equal(look(study).observations.n_beside, [0, 0, 0, 0, 1, 2, 0])


def test_what_ran_beside_a_failed_trial_does_not_run_beside_its_repetition() -> None:
    """A retried trial inherits all attributes of the failed one; the model suggests it anew."""
    study = optuna.create_study(sampler=UHEBOSampler(n_startup_trials=1, seed=0))
    study.tell(study.ask(dict(SPACE)), 1.0)
    inherited = {BESIDE_KEY: 1}
    study.add_trial(optuna.create_trial(state=TrialState.WAITING, system_attrs=inherited))
    study.tell(study.ask(dict(SPACE)), 3.0)
    np.testing.assert_array_equal(look(study).observations.n_beside, [0, 0])


# ------------------------------------------------------------------------------------ stored fits


def test_what_has_appeared_since() -> None:
    """New points, and repeats of known ones; a trial that was running and has ended is neither."""
    study, reader = study_of(finished(1.0, 1.0), finished(2.0, 3.0)), StudyReader()
    study.enqueue_trial({"x": 5.0})
    running = study.ask(SPACE)
    asking = ask(study)
    before = reader.snapshot(study, asking, SPACE, {})
    study.tell(running, 0.0)
    assert not len(reader.appeared(study, asking, before)[1])
    study.add_trials([finished(2.0, 3.1), finished(4.0, 1.0), finished(2.0, 3.2)])
    now, appeared = reader.appeared(study, asking, before)
    np.testing.assert_allclose(appeared, [[0.2], [0.4], [0.2]])
    assert not len(reader.appeared(study, asking, now)[1])


def test_an_overtaken_trial_stays_dead_for_a_look_at_earlier_trials() -> None:
    """Later trials that overtook it still count, though their points do not."""
    study, reader = study_of(finished(1.0, 1.0)), StudyReader()
    dead, asking = ask(study), ask(study)
    before = reader.snapshot(study, asking, SPACE, {})
    study.add_trials([finished(1.0, 1.0) for _ in range(31)])
    for trial, x in ((dead, 2.0), (ask(study), 3.0)):
        store_proposal(study, trial, Proposal.of({"x": x}, SPACE))
    _, appeared = reader.appeared(study, asking, before, only_earlier=True)
    np.testing.assert_allclose(appeared, [[0.2]])
    study.add_trials([finished(1.0, 1.0) for _ in range(5)])
    for only_earlier in (False, True):
        _, appeared = reader.appeared(study, asking, before, only_earlier=only_earlier)
        assert not np.isclose(appeared, 0.2).any()


def test_what_is_pending_now() -> None:
    """What another worker has withdrawn is free again; what has ended since is not."""
    study, reader = study_of(finished(1.0, 1.0)), StudyReader()
    moving, failing = ask(study), ask(study)
    store_proposal(study, moving, Proposal.of({"x": 2.0}, SPACE))
    store_proposal(study, failing, Proposal.of({"x": 3.0}, SPACE))
    asking = ask(study)
    before = reader.snapshot(study, asking, SPACE, {})
    store_proposal(study, moving, Proposal.of({"x": 6.0}, SPACE))
    study._storage.set_trial_param(failing._trial_id, "x", 3.0, X)
    study._storage.set_trial_state_values(failing._trial_id, TrialState.FAIL)
    study.add_trial(finished(7.0, 1.0))
    now, appeared = reader.appeared(study, asking, before)
    np.testing.assert_allclose(now.observations.pending, [[0.6], [0.7], [0.3]])
    np.testing.assert_allclose(now.observations.X, [[0.1]])
    np.testing.assert_allclose(appeared, [[0.6], [0.7]])


def test_values_that_are_failures_have_not_appeared() -> None:
    """Nor has one at a point that has a value, too."""
    study, reader = study_of(*[finished(i / 2, float(i)) for i in range(12)]), StudyReader()
    study.add_trials([finished(x, value) for x in (1.0, 9.0) for value in (-1e6, -math.inf)])
    asking = ask(study)
    assert not len(reader.appeared(study, asking, reader.snapshot(study, asking, SPACE, {}))[1])


def test_a_failure_that_was_evaluated_since_has_not_appeared() -> None:
    """Whatever else counts as a failure; one that failed again has."""
    study, reader = study_of(finished(4.0, None, TrialState.FAIL)), StudyReader()
    study.add_trials([finished(i / 2, float(i)) for i in range(12)])
    study.add_trial(finished(9.0, -math.inf))
    asking = ask(study)
    before = reader.snapshot(study, asking, SPACE, {})
    assert len(before.observations.still_failed) == 1
    assert not len(reader.appeared(study, asking, before)[1])
    study.add_trial(finished(4.0, None, TrialState.FAIL))
    np.testing.assert_allclose(reader.appeared(study, asking, before)[1], [[0.4]])


def test_fits_of_other_parameters_are_not_continued() -> None:
    """Hyperparameters belong to parameters: other names, other hyperparameters."""
    study = study_of(finished(1.0, 1.0))
    for params, fit in (({"x": 1.0}, "ours"), ({"x": 1.0, "y": 1.0}, "theirs")):
        store_proposal(study, ask(study), Proposal(params, {"L": fit}, criterion="L"))
    assert look(study).fits == {"L": "ours"}


# --------------------------------------------------------------------------------- held parameters


def test_fixed_parameters_are_held() -> None:
    """Values that an enqueued trial fixes hold the space there and are part of the snapshot."""
    study = study_of(finished(1.0, 1.0))
    study.enqueue_trial({"y": 2.5, "unknown": 1.0})
    trial = study._storage.get_trial(study.ask()._trial_id)
    space = {"x": X, "y": X}
    snapshot = StudyReader().snapshot(study, trial, space, {})
    assert snapshot.fixed == {"y": 2.5}
    np.testing.assert_allclose(snapshot.space.snap([[0.9, 0.9]]), [[0.9, 0.25]])


@pytest.mark.parametrize("held", [{"unknown": 1.0}, {"y": 99.0}, {"y": "far"}])
def test_what_is_held_outside_of_the_space_is_no_part_of_it(held: dict[str, Any]) -> None:
    """Neither a parameter that no trial has, nor a value that its range does not have."""
    params, ranges = {"x": 1.0, "y": 2.0}, dict.fromkeys("xy", X)
    study = study_of(optuna.create_trial(value=1.0, params=params, distributions={**ranges}))
    snapshot = StudyReader().snapshot(study, ask(study), SPACE, held)
    assert snapshot.fixed == {}
    assert snapshot.space.names == ("x",)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_what_a_partial_fixed_sampler_holds_is_found() -> None:
    """Nested wrappers are seen through, the outer one winning; other samplers' are not ours."""
    ours = optuna.samplers.RandomSampler()
    inner = optuna.samplers.PartialFixedSampler({"x": 1.0, "y": 2.0}, ours)
    outer = optuna.samplers.PartialFixedSampler({"x": 3.0}, inner)
    study = optuna.create_study(sampler=outer)
    assert held_params(study, ours) == {"x": 3.0, "y": 2.0}
    assert held_params(study, optuna.samplers.RandomSampler()) == {}
    assert held_params(optuna.create_study(sampler=ours), ours) == {}


# ----------------------------------------------------------------------------------------- caches


def test_a_reader_notices_that_the_study_is_another_one() -> None:
    """A storage may give a deleted study's identifier to the next study."""
    reader = StudyReader()
    look(study_of(finished(1.0, 1.0)), reader=reader)
    other = study_of(finished(9.0, 7.0))
    snapshot = look(other, reader=reader)
    np.testing.assert_array_equal(snapshot.observations.y, [7.0])
    np.testing.assert_allclose(snapshot.observations.X, [[0.9]])
    wider = study_of(optuna.create_trial(value=1.0, params={"z": 1.0}, distributions={"z": X}))
    assert list(reader.distributions(wider)) == ["z"]


def test_readers_are_one_per_study_and_bounded() -> None:
    """Studies are told apart, also in different storages; old ones are forgotten, not piled up."""
    readers = PerStudy(StudyReader)
    storage = optuna.storages.InMemoryStorage()
    studies = [optuna.create_study(storage=storage) for _ in range(9)]
    first = readers.of(studies[0])
    assert readers.of(studies[0]) is first
    assert readers.of(optuna.create_study()) is not first  # the same identifier elsewhere
    for study in studies[1:]:
        assert readers.of(study) is not first
    assert readers.of(studies[0]) is not first


@pytest.mark.parametrize("kind", ["sqlite", "journal", "one in memory"])
def test_what_was_said_of_a_study_is_remembered_for_longer(kind: str, tmp_path: Path) -> None:
    """Also where every request opens the storage anew, and where many studies take turns."""
    memory = optuna.storages.InMemoryStorage()

    def opened() -> optuna.storages.BaseStorage:
        if kind == "sqlite":
            return optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/study.db")
        backend = JournalFileBackend(f"{tmp_path}/study.log")
        return optuna.storages.JournalStorage(backend) if kind == "journal" else memory

    readers, names = PerStudy(StudyReader), [f"study {i}" for i in range(10)]
    for name in names:
        optuna.create_study(study_name=name, storage=opened())
    said = [
        readers.of(optuna.load_study(study_name=name, storage=opened())).once.first_time("news")
        for _ in range(2)
        for name in names
    ]
    assert said == [True] * 10 + [False] * 10


def test_what_was_said_of_one_study_is_said_of_another_of_the_same_name(tmp_path: Path) -> None:
    """In other files, in memory, and after the study was deleted."""
    readers, url = PerStudy(StudyReader), f"sqlite:///{tmp_path}"
    # Each opening of these is another database.
    sqlite = [each for each in ("sqlite://", "sqlite:///", "sqlite:///:memory:") for _ in range(2)]
    for storage in (f"{url}/a.db", None, None, *sqlite, f"{url}/b.db"):
        study = optuna.create_study(study_name="a", storage=storage)
        assert readers.of(study).once.first_time("news")
    study.tell(study.ask(), 1.0)
    readers.of(study).read(study)
    assert not readers.of(study).once.first_time("news")
    optuna.delete_study(study_name="a", storage=f"{url}/b.db")
    study = optuna.create_study(study_name="a", storage=study._storage)
    readers.of(study).read(study)
    assert readers.of(study).once.first_time("news")


class _Log(BaseJournalBackend):
    """A journal in memory; in Redis, it would say where that is."""

    def __init__(self, url: str | None = None, logs: list[dict[str, Any]] | None = None) -> None:
        self.logs = [] if logs is None else logs
        if url is not None:
            self._url = url

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        return self.logs[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        self.logs.extend(logs)


@pytest.mark.parametrize(
    "urls, expected",
    [
        pytest.param(("redis://a", "redis://b"), True, id="two servers"),
        pytest.param(("redis://a", "redis://a"), False, id="opened anew"),
        pytest.param((None, None), True, id="unknown"),
    ],
)
def test_storages_without_a_file_are_told_apart(
    urls: tuple[str | None, str | None], *, expected: bool
) -> None:
    """What was said of a study on one server is news of a study of that name on another one."""
    readers, logs = PerStudy(StudyReader), None
    for url, is_news in zip(urls, (True, expected), strict=True):
        backend = _Log(url, None if is_news else logs)
        logs = backend.logs
        storage = optuna.storages.JournalStorage(backend)
        study = optuna.create_study(study_name="a", storage=storage, load_if_exists=True)
        assert readers.of(study).once.first_time("news") == is_news


def test_readers_do_not_keep_storages_alive() -> None:
    """A sampler that outlives a study does not keep its trials in memory."""
    readers = PerStudy(StudyReader)
    readers.of(optuna.create_study())
    gc.collect()
    assert not readers._of_storage
