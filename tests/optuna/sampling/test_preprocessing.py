"""Decisions on the preprocessing that workers share through the storage."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution

from bbo_plugins.optuna import BBOSampler
from bbo_plugins.optuna.study.storage import Proposal

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


def _study(kind: str) -> Study:
    """Return a study of random trials and a last one by a sampler, for which one was decided on."""
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
    assert proposal.made_of.keys() == STUDIES.keys()
    assert _next(_copied(study)) == _next(_copied(study, made_of={}))


@pytest.mark.parametrize(
    "kind, other", [("warps", {"x": -30.0}), ("cutoff", -0.4), ("outliers", (2,))]
)
def test_a_stored_decision_is_taken_as_it_is(kind: str, other: Any) -> None:
    """A decision is not made again, which takes longer than a suggestion."""
    study = _study("outliers")
    number = len(study.trials) - 1
    changed: dict[str, Any] = {kind: other, "number": number}
    assert getattr(_next(_copied(study, **changed)), kind) == other


@pytest.mark.parametrize("kind", STUDIES)
def test_a_decision_by_other_values_is_made_again(kind: str) -> None:
    """As in another study, to which somebody has copied the trials with what is stored."""
    study = _study(kind)
    number = len(study.trials) - 1
    wrong = {"warps": {"x": -30.0}, "cutoff": -0.4, "outliers": (2,), "number": number}
    proposal = _next(_copied(study, shift=0.001, **wrong))
    again = _next(_copied(study, shift=0.001, made_of={}))
    assert [getattr(proposal, one) for one in STUDIES] == [getattr(again, one) for one in STUDIES]
    assert proposal.made_of == again.made_of
    assert proposal.made_of.keys() == STUDIES.keys()
    assert not set(proposal.made_of.values()) & set(_stored(study.trials[-1]).made_of.values())
