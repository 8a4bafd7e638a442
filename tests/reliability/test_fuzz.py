"""Random search spaces and histories: whatever a study is like, suggestions are valid."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution

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
from tests.reliability.spaces import VALUES, Tree, histories, trees

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.study import Study

_FEW = settings(max_examples=12, suppress_health_check=list(HealthCheck))
_MANY = settings(_FEW, max_examples=2_000)
SECONDS_PER_ASK = 20.0  # of processor time; on any machine far more than it takes


def ask_for(study: Study, tree: Tree) -> Any:
    """Ask for a trial in the space and check it, and that it has not taken for ever."""
    started = time.process_time()
    trial = study.ask()
    distributions = tree.suggest(trial._suggest)
    assert time.process_time() - started < SECONDS_PER_ASK
    # A waiting trial of the history is taken up with the parameters it has, beside those asked for.
    assert_valid({name: trial.params[name] for name in distributions}, distributions)
    frozen = study.trials[trial.number]
    proposed = any("bbo_plugins:proposal" in key for key in frozen.system_attrs)
    assert (stored_of(frozen) is not None) == proposed
    return trial


def space_for(name: str, data: st.DataObject) -> Tree:
    """Draw a search space that the sampler is for."""
    if name != BILEVEL:
        return data.draw(trees(), label="space")
    flat = data.draw(trees(least=2, branching=False), label="space")
    query = CategoricalDistribution(["upper", "lower"])
    return Tree({**flat.always, "query": query})


Direction = Literal["minimize", "maximize"]
DIRECTIONS: st.SearchStrategy[Direction] = st.sampled_from(["minimize", "maximize"])


def draw_sampler(name: str, data: st.DataObject, tree: Tree, direction: str) -> BaseSampler:
    """Draw the arguments of a sampler."""
    arguments: dict[str, Any] = {"n_startup_trials": data.draw(st.sampled_from([1, 1, 4, 100]))}
    if name == BILEVEL:
        names = [parameter for parameter in tree.always if parameter != "query"]
        arguments["levels"] = (names[::2], names[1::2])
        arguments["upper_direction"] = direction
        arguments["many_responses"] = data.draw(st.booleans())
    else:
        arguments["deterministic_objective"] = data.draw(st.booleans())
    if name in ESTIMATIONS:
        arguments["acquisition"] = data.draw(st.sampled_from(["logei", "ei", "ucb"]))
    return sampler_of(name, **arguments)


def check(name: str, data: st.DataObject) -> None:
    """Add a history to a study; ask for trials, some at once; tell some; look at the terminator."""
    tree = space_for(name, data)
    direction = data.draw(DIRECTIONS)
    study = optuna.create_study(
        direction=direction, sampler=draw_sampler(name, data, tree, direction)
    )
    study.add_trials(data.draw(histories(tree), label="history"))
    first, second = ask_for(study, tree), ask_for(study, tree)
    study.tell(first, data.draw(VALUES))
    ask_for(study, tree)
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
    """The same a hundred times as often."""
    check(name, data)
