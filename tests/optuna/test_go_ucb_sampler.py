"""GOUCBSampler in studies: arguments, reproducibility, odd trials, parallel trials, constraints."""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import math
import os
import pickle
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.trial import TrialState

from bbo_plugins.methods.go_ucb.algorithm import suggest
from bbo_plugins.optuna import GOUCBSampler
from bbo_plugins.optuna.study.proposal import Proposal
from tests.optuna.studies import (
    BOX,
    conditional,
    constrained,
    points,
    quadratic,
    violation,
    warnings_in,
)

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.methods.observations import Suggestion

BAD: list[tuple[str, Any, type[Exception]]] = [
    ("hidden_units", 0, ValueError),
    ("hidden_units", 2.0, TypeError),
    ("n_startup_trials", -1, ValueError),
    ("n_startup_trials", 10.5, TypeError),
    ("n_trials", 0, ValueError),
    ("n_trials", 100.0, TypeError),
    ("n_trials", True, TypeError),
    ("beta", 0.0, ValueError),
    ("beta", math.nan, ValueError),
    ("beta", "large", TypeError),
    ("regularization", -1.0, ValueError),
    ("regularization", math.inf, ValueError),
    ("regularization", [1.0], TypeError),
    ("noise_func", 0.1, TypeError),
    ("deterministic_objective", 1, TypeError),
    ("constraints_func", [0.0], TypeError),
    ("independent_sampler", "random", TypeError),
    ("warn_independent_sampling", "no", TypeError),
    ("seed", -1, ValueError),
    ("seed", 1.5, TypeError),
]


def sampler(seed: int | None = 7, **arguments: Any) -> GOUCBSampler:
    """Return a sampler with a small network that takes over early."""
    return GOUCBSampler(**{"hidden_units": 5, "n_startup_trials": 4, "seed": seed, **arguments})


def started(n: int, **arguments: Any) -> Study:
    """Return a study with ``n`` finished trials in the box."""
    study = optuna.create_study(sampler=sampler(**arguments))
    for _ in range(n):
        trial = study.ask(BOX)
        study.tell(trial, quadratic(trial.params))
    return study


def run(n_trials: int, **study: Any) -> list[dict[str, Any]]:
    """Return the parameters of all trials of a study after ``n_trials`` more trials."""
    using = sampler(warn_independent_sampling=False)
    made = optuna.create_study(sampler=using, load_if_exists=True, **study)
    made.optimize(conditional, n_trials=n_trials)
    return [trial.params for trial in made.trials]


REFERENCE = 9  # trials: one before anything is known, three of start-up, five of the model


# -------------------------------------------------------------------------------------- arguments


def test_every_argument_is_in_the_table() -> None:
    """A new argument comes with a test of its check."""
    parameters = inspect.signature(GOUCBSampler).parameters
    assert {argument for argument, _, _ in BAD} == set(parameters)
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())


@pytest.mark.parametrize("argument, value, error", BAD)
def test_bad_arguments_are_refused(argument: str, value: Any, error: type[Exception]) -> None:
    """The error names argument, rule and value, and comes before anything is written."""
    study = optuna.create_study()
    pattern = rf"^{argument} must be .+, but got {re.escape(repr(value))}\.$"
    with pytest.raises(error, match=pattern):
        study.sampler = GOUCBSampler(**{argument: value})
    assert study.trials == []


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


# -------------------------------------------------------------------------------- reproducibility


PROGRAM = """
import json, optuna, sys
sys.path.insert(0, sys.argv[1])
optuna.logging.set_verbosity(optuna.logging.ERROR)
from test_go_ucb_sampler import run
print(json.dumps(run(int(sys.argv[2]), storage=sys.argv[3], study_name="s")))
"""


def test_study_goes_on_in_another_process(tmp_path: Path) -> None:
    """A fresh process that opens the storage makes the suggestions that were to come next."""
    url = f"sqlite:///{tmp_path / 'study.db'}"
    run(7, storage=url, study_name="s")
    folder = os.path.dirname(__file__)  # noqa: PTH120 - passed on as text
    command = [sys.executable, "-c", PROGRAM, folder, str(REFERENCE - 7), url]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(output.stdout) == run(REFERENCE)


def test_copies_suggest_the_same() -> None:
    """A deep copy and a pickle, taken in the middle, go on as the original does."""
    study = started(7)
    following = []
    for twin in (
        study.sampler,
        copy.deepcopy(study.sampler),
        pickle.loads(pickle.dumps(study.sampler)),  # noqa: S301 - our own bytes
    ):
        fork = optuna.create_study(sampler=twin)
        fork.add_trials(study.trials[:7])
        following.append(fork.ask(BOX).params)
    assert following[0] == following[1] == following[2]


def test_fits_are_stored_and_continued() -> None:
    """The trial holds the network, small enough for every storage, and the next one uses it."""
    study = started(7, hidden_units=25)
    trial = study.trials[-1]
    proposal = Proposal.from_attributes(trial.system_attrs)
    assert proposal is not None
    assert proposal.loss == "GO-UCB"
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
    assert started(24).best_value < 1e-4


def test_maximization_is_mirrored() -> None:
    """Maximizing a function makes the same trials as minimizing its negative."""
    study = optuna.create_study(direction="maximize", sampler=sampler())
    for _ in range(9):
        trial = study.ask(BOX)
        study.tell(trial, -quadratic(trial.params))
    # A BLAS may round the same product in two ways.
    np.testing.assert_allclose(points(study.trials), points(started(9).trials), rtol=1e-6)


def test_odd_trials_are_no_problem(caplog: pytest.LogCaptureFixture) -> None:
    """Failed, pruned and infinite trials leave the sampler usable."""
    study = started(5)
    for value, state in ((None, TrialState.FAIL), (math.inf, None), (None, TrialState.PRUNED)):
        trial = study.ask(BOX)
        trial.report(1.0, 0)
        study.tell(trial, value, state=state)
    trial = study.ask(BOX)
    study.tell(trial, quadratic(trial.params))
    failed = points(study.trials[5:6])
    assert np.linalg.norm(points(study.trials[6:]) - failed, axis=1).min() > 0.0
    assert [line for line in warnings_in(caplog) if "infinite value" not in line] == []


def test_asks_without_tells_are_well_apart() -> None:
    """Four trials that run at once are at least 0.05 apart in the unit cube."""
    study = started(8)
    running = points([study.ask(BOX) for _ in range(4)])
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(running, 2)]
    assert min(distances) > 0.05


@pytest.mark.parametrize("form", ["constraints_func", "set_constraint"])
def test_constraints_are_honored(form: str) -> None:
    """The best trial is feasible and near the border; the constraint has a fit of its own."""
    study = constrained(sampler, form)
    best = study.best_trial
    assert violation(best.params) <= 0.0
    assert best.values[0] < 0.045  # 0.04 at the border
    proposal = Proposal.from_attributes(study.trials[-1].system_attrs)
    assert proposal is not None
    assert len(proposal.fits) == 2


def test_known_noise_is_passed_on() -> None:
    """The variances that noise_func returns change what is suggested."""

    def last(noise: float) -> list[float]:
        study = started(9, noise_func=lambda trial: noise if trial.number % 2 else 1e-6)
        row: list[float] = points(study.trials)[-1].tolist()
        return row

    assert last(1e-6) != last(10.0)


def test_region_knows_how_long_the_start_up_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its length follows from the trials after the start-up."""
    seen = []

    def watched(*arguments: Any, **options: Any) -> Suggestion:
        seen.append(arguments[2].n_startup)
        return suggest(*arguments, **options)

    monkeypatch.setattr("bbo_plugins.methods.go_ucb.algorithm.suggest", watched)
    started(5)
    assert seen == [4]


def test_deterministic_objective_is_not_evaluated_twice_at_a_point() -> None:
    """A finite space is exhausted before anything is repeated."""
    space: dict[str, BaseDistribution] = {"n": IntDistribution(1, 8)}
    study = optuna.create_study(sampler=sampler(deterministic_objective=True))
    for _ in range(8):
        trial = study.ask(space)
        study.tell(trial, float(trial.params["n"]))
    assert {trial.params["n"] for trial in study.trials} == set(range(1, 9))


def test_enqueued_values_are_kept() -> None:
    """What the user fixed is what the trial gets; the model suggests the rest."""
    study = started(6)
    study.enqueue_trial({"x": 0.123})
    trial = study.ask(BOX)
    assert trial.params["x"] == 0.123
    assert set(trial.params) == set(BOX)
