"""The same seed gives the same study: again, elsewhere, resumed; and never the same trial twice."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from bbo_plugins.optuna import UHEBOSampler
from tests.optuna.studies import conditional, params_of

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


def open_storage(kind: str, folder: Path) -> BaseStorage:
    """Open a storage in ``folder``, the same one when asked again."""
    if kind == "sqlite":
        return RDBStorage(f"sqlite:///{folder / 'study.db'}")
    if kind == "journal":
        return JournalStorage(JournalFileBackend(str(folder / "study.log")))
    return optuna.storages.InMemoryStorage()


UNIT = FloatDistribution(0.0, 1.0)
REFERENCE = 9  # trials: one before anything is known, three of start-up, five of the model


@cache
def reference() -> list[dict[str, Any]]:
    """Return the uninterrupted study."""
    return run(REFERENCE)


@pytest.mark.parametrize("estimation", ["uhe", "map"])
def test_same_seed_same_study(estimation: str) -> None:
    """Two studies with one seed are equal, two seeds differ from the first trial on."""
    first = run(REFERENCE, using=sampler(estimation=estimation))
    assert run(REFERENCE, using=sampler(estimation=estimation)) == first
    assert run(1, using=sampler(seed=8, estimation=estimation))[0] != first[0]


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
@pytest.mark.parametrize("interrupted_after", [2, 5])
def test_resumed_study_continues_the_sequence(
    kind: str, interrupted_after: int, tmp_path: Path
) -> None:
    """A study resumed by a new sampler on a new connection is the uninterrupted one."""
    run(interrupted_after, storage=open_storage(kind, tmp_path), study_name="s")
    rest = REFERENCE - interrupted_after
    resumed = run(rest, storage=open_storage(kind, tmp_path), study_name="s")
    assert resumed == reference()


def test_resumed_study_with_dependent_ranges_continues_the_sequence() -> None:
    """What a range was before, and what it refused, is read from the study again."""

    def objective(trial: optuna.Trial) -> float:
        most = trial.suggest_int("most", 2, 30)
        return most / 15 + (trial.suggest_int("number", 1, most) - 20) ** 2 / 100

    whole = optuna.create_study(sampler=sampler())
    whole.optimize(objective, n_trials=18)
    resumed = optuna.create_study(sampler=sampler())
    for _ in range(6):
        resumed.sampler = sampler()
        resumed.optimize(objective, n_trials=3)
    assert params_of(resumed) == params_of(whole)


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
    assert json.loads(output.stdout) == reference()


def test_no_seed_means_fresh_randomness() -> None:
    """Without a seed, two samplers differ."""
    assert run(2, using=sampler(seed=None)) != run(2, using=sampler(seed=None))


def test_independent_draws_differ_by_seed_trial_and_name() -> None:
    """Changing any one of the three changes the draw; repeating it does not."""

    def draw(seed: int, number: int, name: str) -> float:
        trial = optuna.create_trial(state=TrialState.WAITING)
        trial.number = number
        value: float = sampler(seed).sample_independent(study, trial, name, UNIT)
        return value

    study = optuna.create_study()
    keys = [(0, 0, "x"), (1, 0, "x"), (0, 1, "x"), (0, 0, "y"), (2**64, 0, "x"), (0, 0, "\udc80")]
    draws = [draw(*key) for key in keys]
    assert len(set(draws)) == len(keys)
    assert draws == [draw(*key) for key in keys]


@pytest.mark.parametrize("n_trials, random", [(0, False), (6, False), (0, True)])
def test_reseeding_changes_what_is_sampled(n_trials: int, *, random: bool) -> None:
    """After reseed_rng, independent sampling and model go another way, also in a copy."""
    outcomes = []
    for reseed in (False, True):
        independent = optuna.samplers.RandomSampler(seed=5) if random else None
        study = optuna.create_study(sampler=sampler(independent_sampler=independent))
        study.optimize(conditional, n_trials=n_trials)
        if reseed:
            study.sampler.reseed_rng()
            study.sampler = pickle.loads(pickle.dumps(study.sampler))  # noqa: S301 - our own bytes
        study.optimize(conditional, n_trials=1)
        outcomes.append([trial.params for trial in study.trials])
    assert outcomes[0][:n_trials] == outcomes[1][:n_trials]
    assert outcomes[0][n_trials] != outcomes[1][n_trials]
