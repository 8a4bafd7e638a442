"""Random search spaces and histories: whatever a study is like, suggestions are valid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from tests.reliability.cases import QUICK
from tests.reliability.front_door import (
    BILEVEL,
    ESTIMATIONS,
    SAMPLERS,
    assert_valid,
    sampler_of,
    stored_of,
    terminator_of,
)

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_FEW = settings(max_examples=12, suppress_health_check=list(HealthCheck))
_MANY = settings(_FEW, max_examples=1_000)
_QUERY = CategoricalDistribution(["upper", "lower"])
DISTRIBUTIONS: st.SearchStrategy[BaseDistribution] = st.sampled_from(
    [
        FloatDistribution(0.0, 1.0),
        FloatDistribution(1e6, 1e6 + 0.3),
        FloatDistribution(-1e12, 1e12),
        FloatDistribution(2.0, 2.0),
        FloatDistribution(1e-9, 10.0, log=True),
        FloatDistribution(-0.3, 0.3, step=0.1),
        IntDistribution(-5, 9),
        IntDistribution(0, 10**7, step=10),
        IntDistribution(1, 10**6, log=True),
        CategoricalDistribution([None, True, "", "é", 0, 1, -7, 0.5, "None"]),
        CategoricalDistribution(["only"]),
    ]
)
Space = dict[str, "BaseDistribution"]
VALUES = st.floats(-10.0, 10.0) | st.sampled_from([0.0, 1.0, math.inf, -math.inf])
STATES = st.sampled_from([TrialState.COMPLETE] * 5 + list(TrialState))


@st.composite
def branches(draw: st.DrawFn, *, bilevel: bool) -> list[Space]:
    """Return the parameters of each branch: of a trial by its number, or the same for all."""
    n = draw(st.integers(2, 12))
    named = {f"p{i:02}": draw(DISTRIBUTIONS) for i in range(n)}
    if bilevel:
        return [{**named, "query": _QUERY}]
    n_own = draw(st.integers(0, n // 2))
    names = sorted(named)
    always = {name: named[name] for name in names[2 * n_own :]}
    first, second = names[:n_own], names[n_own : 2 * n_own]
    choice = CategoricalDistribution([0, 1])
    return [
        {"branch": choice, **always, **{name: named[name] for name in own}}
        for own in (first, second)
    ]


def random_params(space: Space, branch: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return parameters as a random sampler has them."""
    study = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed=int(rng.integers(2**31)))
    )
    params = study.ask(space).params
    return {**params, "branch": branch} if "branch" in params else params


@st.composite
def histories(draw: st.DrawFn, of: list[Space]) -> list[FrozenTrial]:
    """Return up to 14 trials: of all states, with odd values, and with parameters missing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    keeps_all = draw(st.booleans())
    trials = []
    for number in range(draw(st.integers(0, 14))):
        space, state = of[number % len(of)], draw(STATES)
        params = random_params(space, number % len(of), rng)
        if not keeps_all:
            params = {name: value for name, value in params.items() if rng.random() < 0.9}
        trial = create_trial(
            state=state,
            params=params,
            distributions={name: space[name] for name in params},
            value=draw(VALUES) if state is TrialState.COMPLETE else None,
            intermediate_values={0: draw(VALUES)} if state is TrialState.PRUNED else {},
            system_attrs={"constraints": [draw(VALUES)]} if rng.random() < 0.2 else {},
        )
        trials.append(trial)
    return trials


def draw_sampler(name: str, data: st.DataObject, space: Space, direction: str) -> BaseSampler:
    """Draw the arguments of a sampler."""
    arguments: dict[str, Any] = {"n_startup_trials": data.draw(st.sampled_from([1, 1, 4, 100]))}
    if name == BILEVEL:
        names = [parameter for parameter in space if parameter != "query"]
        arguments["levels"] = (names[::2], names[1::2])
        arguments["upper_direction"] = direction
        arguments["many_responses"] = data.draw(st.booleans())
    else:
        arguments["deterministic_objective"] = data.draw(st.booleans())
    if name in ESTIMATIONS:
        arguments["acquisition"] = data.draw(st.sampled_from(["logei", "ei", "ucb"]))
    return sampler_of(name, **arguments)


def ask_for(study: Study, of: list[Space]) -> Any:
    """Ask for a trial in the space and check it."""
    trial = study.ask()
    branch = trial._suggest("branch", of[0]["branch"]) if "branch" in of[0] else 0
    for name, distribution in of[branch].items():
        trial._suggest(name, distribution)
    # A waiting trial of the history is taken up with the parameters it has, beside those asked for.
    assert_valid({name: trial.params[name] for name in of[branch]}, of[branch])
    frozen = study.trials[trial.number]
    proposed = any("bbo_plugins:proposal" in key for key in frozen.system_attrs)
    assert (stored_of(frozen) is not None) == proposed
    return trial


def check(name: str, data: st.DataObject) -> None:
    """Add a history to a study; ask for trials, some at once; tell some; look at the terminator."""
    of = data.draw(branches(bilevel=name == BILEVEL), label="space")
    direction: Literal["minimize", "maximize"] = data.draw(
        st.sampled_from(["minimize", "maximize"])
    )
    study = optuna.create_study(
        direction=direction, sampler=draw_sampler(name, data, of[0], direction)
    )
    study.add_trials(data.draw(histories(of), label="history"))
    first, second = ask_for(study, of), ask_for(study, of)
    study.tell(first, data.draw(VALUES))
    ask_for(study, of)
    study.tell(second, data.draw(VALUES))
    terminator_of().evaluate(study)


@pytest.mark.parametrize("name", QUICK)
@_FEW
@given(data=st.data())
def test_random_studies(name: str, data: st.DataObject) -> None:
    """Every parameter has a value, in its range and of its type, and nothing is raised."""
    check(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLERS)
@_MANY
@given(data=st.data())
def test_many_random_studies(name: str, data: st.DataObject) -> None:
    """The same eighty times as often."""
    check(name, data)
