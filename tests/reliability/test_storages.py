"""Four workers on each of Optuna's storages: every trial ends well, and everyone sees the same.

Two workers never suggest the same point: each asks with its trial's number, stores where the trial
will be before it looks at the others, and looks again afterwards. Of the points of a space with
continuous parameters none may repeat; that is the floor these tests state.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import optuna
import pytest
from optuna.trial import TrialState

from bbo_plugins.optuna.study.storage import is_stored
from tests.reliability.databases import grpc_proxy, postgresql
from tests.reliability.front_door import (
    SAMPLERS,
    assert_valid,
    is_modeled,
    sampler_of,
    space_in,
    stored_of,
    terminator_of,
)
from tests.reliability.workers import Place, context, next_params, objective, work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from optuna.study import Study

_N_WORKERS = 4
_FEW, _MANY = 20, 200
KINDS = ("sqlite", "journal", "grpc", "postgresql")
# The quick tests have each sampler, and each storage, once.
QUICK = (("sqlite", "bbo"), ("journal", "bilbo"), ("postgresql", "go-ucb"))
CASES = [
    *(pytest.param(kind, name, _FEW) for kind, name in QUICK),
    *(
        pytest.param(kind, name, _MANY, marks=pytest.mark.slow)
        for kind in KINDS
        for name in SAMPLERS
    ),
]
SIZES = [_FEW, pytest.param(_MANY, marks=pytest.mark.slow)]


@contextmanager
def place_of(kind: str, folder: Path) -> Iterator[Place]:
    """Start what a storage of this kind needs; yield the place of a study in it."""
    sqlite = f"sqlite:///{folder}/study.db"
    if kind == "sqlite":
        yield Place("rdb", sqlite, "s")
    elif kind == "journal":
        yield Place("journal", f"{folder}/study.log", "s")
    elif kind == "postgresql":
        with postgresql() as url:
            yield Place("rdb", url, "s")
    else:
        Place("rdb", sqlite, "first").create()  # makes the tables
        with grpc_proxy(sqlite) as port:
            yield Place("grpc", str(port), "s")


def assert_complete(study: Study, n_trials: int) -> None:
    """Check that all trials are complete and different, and that all they stored can be read."""
    trials = study.trials
    assert len(trials) == n_trials
    assert {trial.state for trial in trials} == {TrialState.COMPLETE}
    assert [trial.number for trial in trials] == list(range(n_trials))
    for trial in trials:
        assert_valid(trial.params, space_in(study))
        assert is_stored(trial.system_attrs) == (stored_of(trial) is not None)
    assert sum(map(is_modeled, trials)) >= n_trials // 2
    assert len({tuple(trial.params.values()) for trial in trials}) == n_trials
    terminator = terminator_of(threshold=1e-300)
    # Of two records written at the same time for the same place one is lost. Whoever looks at the
    # study for the first time makes it again, unless it is too old to matter.
    assert len(terminator.history(study)) >= min(0.95 * n_trials, n_trials - 4)
    terminator.evaluate(study)
    history = terminator.history(study)
    latest = range(max(n_trials - 99, 1), n_trials + 1)
    assert [record.n_trials for record in history[-len(latest) :]] == list(latest)
    assert not any(record.terminate for record in history)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("kind, name, n_trials", CASES)
def test_four_processes(kind: str, name: str, n_trials: int, tmp_path: Path) -> None:
    """All trials complete, each record exists, and two fresh processes suggest the same next."""
    with (
        place_of(kind, tmp_path) as place,
        ProcessPoolExecutor(_N_WORKERS, mp_context=context()) as workers,
    ):
        place.create()
        jobs = [
            workers.submit(work, place, name, n_trials // _N_WORKERS) for _ in range(_N_WORKERS)
        ]
        for job in jobs:
            job.result()
        study = place.open(name)
        assert_complete(study, n_trials)
        first, second = (
            context_run.result()
            for context_run in [workers.submit(next_params, place, name) for _ in range(2)]
        )
        assert first == second
        assert_valid(first, space_in(study))
        assert first == study.ask(space_in(study)).params


@pytest.mark.parametrize("n_trials", SIZES)
@pytest.mark.parametrize("name", SAMPLERS)
def test_four_threads_in_memory(name: str, n_trials: int) -> None:
    """The storage that processes cannot share, shared by threads with one sampler."""
    study = optuna.create_study(sampler=sampler_of(name))
    terminator = terminator_of(threshold=1e-300)
    study.optimize(objective, n_trials=n_trials, n_jobs=_N_WORKERS, callbacks=[terminator])
    assert_complete(study, n_trials)
