"""GOUCBSampler in studies: its start-up, what it stores, and how well it searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
import pytest

from bbo_plugins.optuna import GOUCBSampler
from bbo_plugins.optuna.study.storage import Proposal
from tests.optuna.studies import BOX, started


def sampler(seed: int | None = 7, **arguments: Any) -> GOUCBSampler:
    """Return a sampler with a small network that takes over early."""
    return GOUCBSampler(**{"hidden_units": 5, "n_startup_trials": 4, "seed": seed, **arguments})


@pytest.mark.parametrize(
    "arguments, n",
    [
        ({}, 10),
        ({"n_trials": 1}, 1),
        ({"n_trials": 25}, 5),
        ({"n_trials": 26}, 6),
        ({"n_trials": np.int64(200)}, 15),
        ({"n_trials": 200, "n_startup_trials": 3}, 3),
    ],
)
def test_start_up_takes_the_root_of_the_planned_trials(arguments: dict[str, Any], n: int) -> None:
    """So in the paper; without a plan it is ten trials, and what the user says goes first."""
    study = optuna.create_study(sampler=GOUCBSampler(hidden_units=1, seed=0, **arguments))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=n + 1)
    proposals = [Proposal.from_attributes(trial.system_attrs) for trial in study.trials]
    fitted = [proposal is not None and bool(proposal.fits) for proposal in proposals]
    assert fitted == [False] * n + [True]


def test_fits_are_stored_and_continued() -> None:
    """The trial holds the network, small enough for every storage, and the next one uses it."""
    study = started(sampler(hidden_units=25), 7)
    trial = study.trials[-1]
    proposal = Proposal.from_attributes(trial.system_attrs)
    assert proposal is not None
    assert proposal.criterion == "GO-UCB"
    assert len(proposal.fits) == 1
    assert all(len(str(value)) <= 2045 for value in trial.system_attrs.values())
    assert sum(len(str(value)) for value in trial.system_attrs.values()) < 2000
    bare = optuna.create_study(sampler=study.sampler)
    for old in study.trials:
        forgotten = optuna.trial.create_trial(
            params=old.params, distributions=old.distributions, value=old.value
        )
        bare.add_trial(forgotten)
    assert bare.ask(BOX).params != study.ask(BOX).params


# ------------------------------------------------------------------------------------ suggestions


def test_optimum_is_found() -> None:
    """Twenty trials after the start-up come close to the minimum of a bowl."""
    assert started(sampler(), 24).best_value < 1e-4
