"""Decisions on the preprocessing that workers share through the storage."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.samplers import PartialFixedSampler

from bbo_plugins.optuna import BBOSampler
from bbo_plugins.optuna.sampling.preprocessing import digest_of
from bbo_plugins.optuna.study.storage import PREFIX, Proposal
from bbo_plugins.optuna.study.trials import TrialRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

SPACE: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0.0, 1.0),
    "y": FloatDistribution(1e-6, 1.0),
}


def _with_rate(x: float, y: float, number: int) -> float:
    del number
    return abs(math.log10(y) + 3.0) + 3.0 * (x - 0.4) ** 2


def _with_penalty(x: float, y: float, number: int) -> float:
    del number
    return (x - 0.5) ** 2 + (y - 0.5) ** 2 + 1e4 * max(x + y - 0.8, 0.0)


def _with_accident(x: float, y: float, number: int) -> float:
    return (x - 0.4) ** 2 + (y - 0.5) ** 2 + 2.0 * (number == 5)


# For each decision, an objective that needs it, and a number of random trials that show it.
STUDIES: dict[str, tuple[Callable[[float, float, int], float], int]] = {
    "warps": (_with_rate, 50),
    "cutoff": (_with_penalty, 50),
    "outliers": (_with_accident, 16),
}


@functools.cache
def _study(kind: str) -> Study:
    """Return a study of random trials, by which something is decided, and one by a sampler."""
    objective, n = STUDIES[kind]
    study = optuna.create_study(sampler=BBOSampler(seed=0))
    rng = np.random.default_rng(3)
    for number in range(n):
        params = {"x": float(rng.uniform()), "y": float(rng.uniform(1e-6, 1.0))}
        value = objective(params["x"], params["y"], number)
        trial = optuna.create_trial(params=params, distributions=SPACE, value=value)
        study.add_trial(trial)
    study.ask(SPACE)
    return study


def _stored(trial: FrozenTrial) -> Proposal:
    proposal = Proposal.from_attributes(trial.system_attrs)
    assert proposal is not None
    return proposal


def _copied(study: Study, *, shift: float = 0.0, **changed: Any) -> Study:
    """Return the study as another process finds it, its last proposal changed.

    Args:
        study: The study.
        shift: Added to the first trial's value.
        changed: Attributes of the last proposal.
    """
    *first, last = study.get_trials()
    assert first[0].value is not None
    first[0].value += shift
    proposal = replace(_stored(last), **changed)
    last.system_attrs = dict(proposal.to_attributes())
    copy = optuna.create_study(sampler=BBOSampler(seed=0))
    copy.add_trials([*first, last])
    return copy


def _next(study: Study) -> Proposal:
    """Return what the study's sampler, which has not seen it yet, suggests next."""
    trial = study.ask(SPACE)
    return _stored(study.trials[trial.number])


@pytest.mark.parametrize("kind", STUDIES)
def test_a_fresh_process_decides_what_is_stored(kind: str) -> None:
    """What it suggests is the same, whether it finds the decision or makes it again."""
    study = _study(kind)
    proposal = _stored(study.trials[-1])
    assert getattr(proposal, kind)
    assert proposal.digests.keys() == STUDIES.keys()
    assert _next(_copied(study)) == _next(_copied(study, digests={}))


# What no decision comes to, and the next suggestion can go by.
OTHERS: dict[str, Any] = {"warps": {"x": -30.0}, "cutoff": -0.4, "outliers": (2,)}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_stored_decision_is_taken_as_it_is(kind: str) -> None:
    """A decision is not made again, which takes longer than a suggestion."""
    study = _study("outliers")
    number = len(study.trials) - 1
    copy = _copied(study, **{kind: OTHERS[kind], "number": number})
    assert getattr(_next(copy), kind) == OTHERS[kind]


@pytest.mark.parametrize("kind", STUDIES)
def test_a_decision_by_other_values_is_made_again(kind: str) -> None:
    """As in another study, to which somebody has copied the trials with what is stored."""
    study = _study(kind)
    number = len(study.trials) - 1
    proposal = _next(_copied(study, shift=0.001, number=number, **OTHERS))
    again = _next(_copied(study, shift=0.001, digests={}))
    assert [getattr(proposal, one) for one in STUDIES] == [getattr(again, one) for one in STUDIES]
    assert proposal.digests == again.digests
    assert proposal.digests.keys() == STUDIES.keys()


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_cutoff_that_is_not_in_use_is_not_taken_for_the_decision() -> None:
    """It is not while a parameter is held where all values are below it; the next worker has it."""
    study = _study("cutoff")
    cutoff = _stored(study.trials[-1]).cutoff
    copy = _copied(study, digests={}, cutoff=None)
    worst = max(study.trials[:-1], key=lambda trial: float(trial.value or 0.0))
    copy.sampler = PartialFixedSampler({"x": worst.params["x"]}, BBOSampler(seed=0))
    held = _next(copy)
    assert held.cutoff is None
    assert "cutoff" not in held.digests
    copy.sampler = BBOSampler(seed=0)
    assert _next(copy).cutoff == cutoff


def test_many_workers_find_a_decision_behind_the_proposals_of_others() -> None:
    """Trials that began before it and end later say nothing of it, nor does what is damaged."""
    study = _study("outliers")
    copy = _copied(study, outliers=(2,), number=len(study.trials) - 1)
    for trial in study.get_trials()[-1:] * 20:
        trial.system_attrs = dict(replace(_stored(trial), digests={}).to_attributes())
        copy.add_trial(trial)
    trial.system_attrs = {f"{PREFIX}0": "["}
    copy.add_trial(trial)
    assert _next(copy).outliers == (2,)


def test_a_fit_that_cannot_be_read_is_no_start_of_a_decision() -> None:
    """Outliers are found from nothing then."""
    study = _study("outliers")
    first, *others, last = study.get_trials()
    damaged = Proposal(first.params, fits={"Marginal": "damaged"}, criterion="Marginal")
    first.system_attrs = dict(damaged.to_attributes())
    copy = optuna.create_study(sampler=BBOSampler(seed=0))
    copy.add_trials([first, *others])
    assert _next(copy).outliers == _stored(last).outliers


def test_a_decision_with_dependent_ranges_has_those_of_its_time() -> None:
    """The one that holds those of the deciding trials; a later, wider one changes nothing."""
    study = optuna.create_study(sampler=BBOSampler(seed=0))
    rng = np.random.default_rng(3)
    highs = [*rng.uniform(0.5, 1.0, 33), 0.2, 3.0]
    for number, high in enumerate(highs):
        params = {"x": float(rng.uniform()), "y": float(rng.uniform(0.0, high))}
        ranges: dict[str, BaseDistribution] = {**SPACE, "y": FloatDistribution(0.0, float(high))}
        value = _with_accident(params["x"], params["y"], number)
        study.add_trial(optuna.create_trial(params=params, distributions=ranges, value=value))
    early = optuna.create_study(sampler=BBOSampler(seed=0))
    early.add_trials(study.trials[:34])
    before, after = _next(early), _next(study)
    assert before.outliers == after.outliers == (5,)
    assert before.digests["outliers"] == after.digests["outliers"]


def _row(**changed: Any) -> TrialRow:
    fields: dict[str, Any] = {"params": {"x": 0.5, "c": "a"}, "constraints": {"b": 1.0, "a": 0.0}}
    trial = optuna.create_trial(value=1.0, params={}, distributions={})
    row = TrialRow.read(trial)
    return replace(row, number=3, **{**fields, **changed})


MADE_OF = ("cutoff", ("c", "x"), {"x": FloatDistribution(0.0, 1.0), "y": 2.0}, -0.5)


@pytest.mark.parametrize(
    "row, made_of",
    [
        (_row(values=(2.0,)), MADE_OF),
        (replace(_row(), number=4), MADE_OF),
        (_row(params={"x": 0.5, "c": "b"}), MADE_OF),
        (_row(constraints={"a": 0.0, "b": 2.0}), MADE_OF),
        (_row(), ("warps", *MADE_OF[1:])),
        (_row(), (*MADE_OF[:3], -0.25)),
        (_row(), (*MADE_OF[:2], {"x": FloatDistribution(0.0, 2.0), "y": 2.0}, -0.5)),
    ],
)
def test_anything_else_has_another_digest(row: TrialRow, made_of: tuple[object, ...]) -> None:
    """A trial's number, values, parameters and constraints count, and all that is beside them."""
    assert digest_of([row], made_of) != digest_of([_row()], MADE_OF)


def test_storages_may_change_the_order() -> None:
    """The names that a trial's attributes are read by have none in some of them."""
    row = _row(params={"c": "a", "x": 0.5}, constraints={"a": 0.0, "b": 1.0})
    made_of = (*MADE_OF[:2], {"y": 2.0, "x": FloatDistribution(0.0, 1.0)}, -0.5)
    assert digest_of([row], made_of) == digest_of([_row()], MADE_OF)


DIGESTS = {
    "constant": "t.digest_of([t._row()], t.MADE_OF)",
    "decisions": "t._next(t._copied(t._study('outliers'))).digests",
}


@pytest.mark.parametrize("digests", ["constant", pytest.param("decisions", marks=pytest.mark.slow)])
def test_the_digest_is_that_of_any_process(digests: str) -> None:
    """Python gives texts another hash in each."""
    name = "tests.optuna.sampling.test_preprocessing"
    program = f"import {name} as t; print({DIGESTS[digests]})"
    printed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        cwd=Path(__file__).parents[3],
    ).stdout
    here = eval(DIGESTS[digests], {"t": sys.modules[__name__]})  # noqa: S307 - written above
    assert printed == f"{here}\n"
