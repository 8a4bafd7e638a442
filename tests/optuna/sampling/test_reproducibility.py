"""The same seed gives the same study: again, elsewhere, resumed; and never the same trial twice."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

from bbo_plugins.optuna import UHEBOSampler
from tests.optuna.studies import conditional

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage


def sampler(seed: int | None = 7, **arguments: Any) -> UHEBOSampler:
    """Return a sampler whose model takes over early."""
    return UHEBOSampler(n_startup_trials=4, seed=seed, warn_independent_sampling=False, **arguments)


def run(n_trials: int, *, using: BaseSampler | None = None, **study: Any) -> list[dict[str, Any]]:
    """Return the parameters of all trials of a study after ``n_trials`` more trials."""
    made = optuna.create_study(sampler=using or sampler(), load_if_exists=True, **study)
    made.optimize(conditional, n_trials=n_trials)
    return [trial.params for trial in made.trials]


@pytest.fixture(params=["memory", "sqlite", "journal"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> BaseStorage:
    """Return an empty storage of each kind."""
    return open_storage(request.param, tmp_path)


def open_storage(kind: str, folder: Path) -> BaseStorage:
    """Open a storage in ``folder``, the same one when asked again."""
    if kind == "sqlite":
        return RDBStorage(f"sqlite:///{folder / 'study.db'}")
    if kind == "journal":
        return JournalStorage(JournalFileBackend(str(folder / "study.log")))
    return optuna.storages.InMemoryStorage()


REFERENCE = 9  # trials: one before anything is known, three of start-up, five of the model


@pytest.mark.parametrize("estimation", ["uhe", "map"])
def test_same_seed_same_study(estimation: str) -> None:
    """Two studies with one seed are equal, two seeds differ from the first trial on."""
    first = run(REFERENCE, using=sampler(estimation=estimation))
    assert run(REFERENCE, using=sampler(estimation=estimation)) == first
    assert run(1, using=sampler(seed=8, estimation=estimation))[0] != first[0]


def test_storages_make_no_difference(storage: BaseStorage) -> None:
    """What went through a file is what was kept in memory, to the last bit."""
    assert run(REFERENCE, storage=storage) == run(REFERENCE)


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
@pytest.mark.parametrize("interrupted_after", [2, 5])
def test_resumed_study_continues_the_sequence(
    kind: str, interrupted_after: int, tmp_path: Path
) -> None:
    """A study resumed by a new sampler on a new connection is the uninterrupted one."""
    run(interrupted_after, storage=open_storage(kind, tmp_path), study_name="s")
    rest = REFERENCE - interrupted_after
    resumed = run(rest, storage=open_storage(kind, tmp_path), study_name="s")
    assert resumed == run(REFERENCE)


PROGRAM = """
import json, optuna, sys
sys.path.insert(0, sys.argv[1])
optuna.logging.set_verbosity(optuna.logging.ERROR)
from test_reproducibility import REFERENCE, run
print(json.dumps(run(REFERENCE)))
"""


def test_another_process_makes_no_difference() -> None:
    """Another process, with another hash seed, repeats the study."""
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    folder = os.path.dirname(__file__)  # noqa: PTH120 - passed on as text
    command = [sys.executable, "-c", PROGRAM, folder]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(output.stdout) == run(REFERENCE)


def test_copies_suggest_the_same() -> None:
    """A deep copy and a pickle, taken in the middle, go on as the original does."""
    study = optuna.create_study(sampler=sampler())
    study.optimize(conditional, n_trials=5)
    trials = study.trials
    following = []
    for twin in (
        study.sampler,
        copy.deepcopy(study.sampler),
        pickle.loads(pickle.dumps(study.sampler)),  # noqa: S301 - our own bytes
    ):
        fork = optuna.create_study(sampler=twin)
        fork.add_trials(trials)
        following.append(run_on(fork))
    assert following[0] == following[1] == following[2]


def run_on(study: optuna.Study) -> dict[str, Any]:
    """Return the parameters of one more trial."""
    study.optimize(conditional, n_trials=1)
    return study.trials[-1].params


def test_no_seed_means_fresh_randomness() -> None:
    """Without a seed, two samplers differ."""
    assert run(2, using=sampler(seed=None)) != run(2, using=sampler(seed=None))


@pytest.mark.parametrize("n_trials", [0, 6])
def test_reseeding_changes_what_is_sampled(n_trials: int) -> None:
    """After reseed_rng, independent sampling and model go another way, also in a copy."""
    outcomes = []
    for reseed in (False, True):
        study = optuna.create_study(sampler=sampler())
        study.optimize(conditional, n_trials=n_trials)
        if reseed:
            study.sampler.reseed_rng()
            study.sampler = pickle.loads(pickle.dumps(study.sampler))  # noqa: S301 - our own bytes
        study.optimize(conditional, n_trials=1)
        outcomes.append([trial.params for trial in study.trials])
    assert outcomes[0][:n_trials] == outcomes[1][:n_trials]
    assert outcomes[0][n_trials] != outcomes[1][n_trials]


def test_reseeding_reaches_the_independent_sampler() -> None:
    """A sampler the user gave is reseeded along."""
    values = []
    for reseed in (False, True):
        study = optuna.create_study(
            sampler=sampler(independent_sampler=optuna.samplers.RandomSampler(seed=3))
        )
        if reseed:
            study.sampler.reseed_rng()
        values.append(study.ask().suggest_float("x", 0.0, 1.0))
    assert values[0] != values[1]


def test_workers_with_one_seed_do_not_repeat_each_other(tmp_path: Path) -> None:
    """Two workers, each with its own sampler and connection, take turns and never duplicate."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=url, study_name="s")
    workers = [optuna.load_study(storage=url, study_name="s", sampler=sampler()) for _ in range(2)]
    for _ in range(6):
        running = [(worker, worker.ask()) for worker in workers]
        values = [conditional(trial) for _, trial in running]
        for (worker, trial), value in zip(running, values, strict=True):
            worker.tell(trial, value)
    points = [(trial.params["x"], trial.params["lr"]) for trial in workers[0].trials]
    assert len(points) == 12
    assert len(set(points)) == 12


def test_result_does_not_depend_on_what_was_drawn_before() -> None:
    """A trial is what its number and the history make it, whatever else was asked meanwhile."""
    plain = run(6)
    study = optuna.create_study(sampler=sampler())
    disturbed = optuna.create_study(sampler=study.sampler)  # the same object at work elsewhere
    for _ in range(6):
        disturbed.optimize(conditional, n_trials=1)
        study.optimize(conditional, n_trials=1)
    assert [trial.params for trial in study.trials] == plain
    assert [trial.params for trial in disturbed.trials] == plain
