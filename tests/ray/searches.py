"""Searches as a tuner sets them up, and the results that Tune passes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from ray import tune

from bbo_plugins.ray import BBOSearch

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.trial import FrozenTrial

SPACE = {"x": tune.uniform(0.0, 20.0), "n": {"k": tune.choice(["a", "b"]), "c": 7}}
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


def make_search(space: dict[str, Any] = SPACE, **arguments: Any) -> BBOSearch:
    """Return a search that has its space and its objective from the tuner."""
    search = BBOSearch(**{"seed": 0, **arguments})
    assert search.set_search_properties("loss", "min", space)
    return search


def restored_from(folder: Path, *, limit: int | None = None) -> BBOSearch:
    """Return a blank search after a restore from the folder of an experiment, as Tune does it."""
    search = BBOSearch()
    if limit is not None:
        search.set_max_concurrency(limit)
    search.restore_from_dir(str(folder))
    return search


def stored_in(folder: Path) -> BaseStorage:
    """Return the storage in a folder."""
    return JournalStorage(JournalFileBackend(str(folder / "journal.log")))


def trials_of(search: BBOSearch) -> list[FrozenTrial]:
    """Return the trials of the study."""
    trials: list[FrozenTrial] = search._ot_study.trials
    return trials


def states_of(search: BBOSearch) -> list[str]:
    """Return the names of their states."""
    return [trial.state.name for trial in trials_of(search)]


def suggested(search: BBOSearch, trial_id: str) -> dict[str, Any]:
    """Return the config of a new trial."""
    config = search.suggest(trial_id)
    assert isinstance(config, dict)
    return config


def result_of(config: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a result of a trial in ``SPACE``, flattened as Tune passes it on."""
    flat = {"config/x": config["x"], "config/n/k": config["n"]["k"], "config/n/c": 7}
    return {"loss": config["x"], "training_iteration": 1, **flat, **fields}
