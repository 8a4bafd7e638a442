"""Workers that die at any moment: what is complete stays as it is, and the study goes on."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import optuna
import pytest
import sqlalchemy
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from bbo_plugins.optuna.sampling.snapshot import StudyReader
from bbo_plugins.optuna.study.points import _MAX_PENDING
from tests.reliability.cases import QUICK
from tests.reliability.front_door import (
    SAMPLERS,
    ask,
    assert_modeled,
    run,
    sampler_of,
    space_in,
    terminator_of,
)
from tests.reliability.workers import Place, completed, context, work

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from pathlib import Path

    from optuna.study import Study

_N_WORKERS = 3
KINDS = ("sqlite", "journal")
_FEW, _MANY = 2, 20
QUICK_CASES = {("bbo", "sqlite"), ("go-ucb", "journal")}
CASES = [
    *(pytest.param(name, kind, _FEW) for name, kind in sorted(QUICK_CASES)),
    *(
        pytest.param(name, kind, _MANY, marks=pytest.mark.slow)
        for kind in KINDS
        for name in SAMPLERS
    ),
]


def place_of(kind: str, folder: Path) -> Place:
    """Return the place of a study in a file."""
    if kind == "sqlite":
        return Place("rdb", f"sqlite:///{folder}/study.db", "s")
    return Place("journal", f"{folder}/study.log", "s")


def start(place: Place, name: str) -> BaseProcess:
    """Start a worker that goes on until it is killed."""
    worker = context().Process(target=work, args=(place, name, None))
    worker.start()
    return worker


def wait_for(study: Study, n_complete: int, workers: list[BaseProcess]) -> None:
    """Return once so many trials are complete; none of the workers may have ended by itself."""
    for _ in range(2_400):
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(complete) >= n_complete:
            return
        assert all(worker.is_alive() for worker in workers)
        time.sleep(0.05)
    pytest.fail(f"there are still fewer than {n_complete} complete trials")


def n_pending(study: Study) -> int:
    """Return how many running trials count as pending for the next one."""
    trial = study.ask()
    frozen = study.trials[trial.number]
    pending = StudyReader().snapshot(study, frozen, space_in(study), {}).observations.pending
    study.tell(trial, state=TrialState.FAIL)
    return len(pending)


@pytest.mark.parametrize("name, kind, n_rounds", CASES)
def test_killed_workers(name: str, kind: str, n_rounds: int, tmp_path: Path) -> None:
    """In each round some of three workers are killed somewhere in a trial, and replaced.

    After all rounds: no complete trial has changed since it was first seen, every killed worker
    left at most one running trial, the terminator has a record of each completion, the study goes
    on, and the dead trials are pending no more once enough others have finished.
    """
    place = place_of(kind, tmp_path)
    place.create()
    study = place.open(name)
    seen: dict[int, str] = {}
    workers = [start(place, name) for _ in range(_N_WORKERS)]
    n_killed = 0
    try:
        for seed in range(n_rounds):
            moment = random.Random(seed)  # noqa: S311 - nothing secret
            wait_for(study, len(seen) + moment.randint(2, 6), workers)
            time.sleep(moment.uniform(0.0, 0.1))
            victims = moment.sample(range(_N_WORKERS), moment.randint(1, _N_WORKERS))
            print(f"seed {seed}: workers {victims} of {name} are killed")  # noqa: T201
            for victim in victims:
                workers[victim].kill()
                workers[victim].join()
            found = completed(study)
            assert seen.items() <= found.items()
            seen = found
            n_killed += len(victims)
            for victim in victims:
                workers[victim] = start(place, name)
        wait_for(study, len(seen) + 3, workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    n_killed += len(workers)
    resumed = place.open(name)
    running = resumed.get_trials(states=(TrialState.RUNNING,))
    assert len(running) <= n_killed
    assert len(resumed.trials) == len(running) + len(completed(resumed))
    run(resumed, 2)
    assert_modeled(resumed, ask(resumed))
    n_complete = len(completed(resumed))
    terminator = terminator_of(threshold=1e-300)
    terminator.evaluate(resumed)
    history = terminator.history(resumed)
    assert [record.n_trials for record in history] == list(range(1, n_complete + 1))
    add_random_trials(resumed, 33 + 4 * min(n_killed + 2, _MAX_PENDING))
    assert n_pending(resumed) == 0
    assert_modeled(resumed, ask(resumed))
    assert seen.items() <= completed(resumed).items()


def add_random_trials(study: Study, n: int) -> None:
    """Add finished trials that cost nothing."""
    other = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    run(other, n, space_in(study))
    study.add_trials(other.trials)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("name", QUICK)
def test_heartbeats_fail_the_dead(name: str, tmp_path: Path) -> None:
    """A trial whose heartbeat has stopped is failed by Optuna: no longer pending, nor forgotten."""
    url = f"sqlite:///{tmp_path}/study.db"
    study = optuna.create_study(storage=url, study_name="s", sampler=sampler_of(name))
    run(study, 6)
    before = completed(study)
    dead = ask(study)
    assert n_pending(study) == 1
    make_stale(url, dead._trial_id)
    watched = RDBStorage(url, heartbeat_interval=60, grace_period=120)
    optuna.storages.fail_stale_trials(optuna.load_study(storage=watched, study_name="s"))
    assert study.trials[dead.number].state is TrialState.FAIL
    assert n_pending(study) == 0
    again = ask(study)
    assert_modeled(study, again)
    assert again.params != dead.params
    assert before.items() <= completed(study).items()


def make_stale(url: str, trial_id: int) -> None:
    """Let the last heartbeat of a trial be long ago."""
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        statement = "INSERT INTO trial_heartbeats (trial_id, heartbeat) VALUES (:id, :time)"
        values = {"id": trial_id, "time": "2020-01-01 00:00:00.000000"}
        connection.execute(sqlalchemy.text(statement), values)
    engine.dispose()
