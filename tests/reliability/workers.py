"""Processes that share a study: where it is stored, and what a worker does.

Workers are forked from a server process that has imported what they need and holds nothing else,
so that each is as fresh as a new interpreter and starts in a tenth of the time.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import optuna
from optuna.storages import GrpcStorageProxy, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import TrialState

from tests.reliability.front_door import sampler_of, space_in, terminator_of, value_of

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext

    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

_PRELOADED = [
    "alembic.command",
    "bbo_plugins.methods.go_ucb",
    "bbo_plugins.methods.uhe_bo",
    "bbo_plugins.optuna.bilbo_sampler",
    "bbo_plugins.optuna.terminator",
    "optuna.storages._rdb.storage",
    "scipy.stats",
    "sqlalchemy.dialects.sqlite",
]
_LOCK_GRACE = 3  # seconds until the lock of a killed writer is broken; Optuna warns of less


def context() -> ForkServerContext:
    """Return the way to start workers."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(_PRELOADED)
    return made


@dataclass(frozen=True)
class Place:
    """Where a study is, for any process to open it.

    Attributes:
        kind: Kind of the storage.
        address: URL, file, or port.
        study_name: The study's name.
    """

    kind: Literal["rdb", "journal", "grpc"]
    address: str
    study_name: str

    def storage(self) -> BaseStorage:
        """Open the storage."""
        if self.kind == "rdb":
            timeout = {"timeout": 100} if self.address.startswith("sqlite") else {}
            return RDBStorage(self.address, engine_kwargs={"connect_args": timeout})
        if self.kind == "journal":
            lock = JournalFileOpenLock(self.address, grace_period=_LOCK_GRACE)
            return JournalStorage(JournalFileBackend(self.address, lock_obj=lock))
        return GrpcStorageProxy(host="localhost", port=int(self.address))

    def create(self) -> Study:
        """Create the study."""
        return optuna.create_study(storage=self.storage(), study_name=self.study_name)

    def open(self, name: str) -> Study:
        """Open the study with a new sampler of this name, the same for all."""
        return optuna.load_study(
            study_name=self.study_name, storage=self.storage(), sampler=sampler_of(name)
        )


def objective(trial: Trial) -> float:
    """Ask for the parameters one by one, as users do, and take a moment."""
    space = space_in(trial.study)
    params = {name: trial._suggest(name, distribution) for name, distribution in space.items()}
    time.sleep(0.002 * (trial.number % 5))
    return value_of(params)


def work(place: Place, name: str, n_trials: int | None) -> None:
    """Evaluate so many trials, or until killed, with a terminator that never has a reason."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    terminator = terminator_of(threshold=1e-300)
    place.open(name).optimize(objective, n_trials=n_trials, callbacks=[terminator])


def next_params(place: Place, name: str) -> dict[str, Any]:
    """Return what a copy of the study, as it is stored, would be suggested next."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    copy = InMemoryStorage()
    optuna.copy_study(
        from_study_name=place.study_name, from_storage=place.storage(), to_storage=copy
    )
    study = optuna.load_study(study_name=place.study_name, storage=copy, sampler=sampler_of(name))
    return study.ask(space_in(study)).params


def serve(url: str, port: int) -> None:
    """Serve a database to :class:`GrpcStorageProxy`, until terminated."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 100}})
    optuna.storages.run_grpc_proxy_server(storage, host="localhost", port=port)


def completed(study: Study) -> dict[int, str]:
    """Return a digest of all that is stored of each complete trial, by number."""
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return {trial.number: _digest(trial) for trial in trials}


def _digest(trial: FrozenTrial) -> str:
    content = {
        "values": trial.values,
        "params": trial.params,
        "distributions": {name: repr(d) for name, d in trial.distributions.items()},
        "times": [str(trial.datetime_start), str(trial.datetime_complete)],
        "system_attrs": trial.system_attrs,
        "user_attrs": trial.user_attrs,
        "intermediate_values": sorted(trial.intermediate_values.items()),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
