"""Random search spaces and histories: whatever a study is like, suggestions are valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reliability.front_door import (
    SAMPLERS,
    assert_valid,
    sampler_of,
    stored_of,
    terminator_of,
)
from tests.reliability.spaces import VALUES, histories, trees

if TYPE_CHECKING:
    from optuna.study import Study

    from tests.reliability.spaces import Tree

_FEW = settings(max_examples=200, suppress_health_check=list(HealthCheck))
_MANY = settings(_FEW, max_examples=2_000)


def ask_for(study: Study, tree: Tree) -> Any:
    """Ask for a trial in the space and check it."""
    trial = study.ask()
    distributions = tree.suggest(trial._suggest)
    # A waiting trial of the history is taken up with the parameters it has, beside those asked for.
    assert_valid({name: trial.params[name] for name in distributions}, distributions)
    frozen = study.trials[trial.number]
    assert (stored_of(frozen) is not None) == any("bbo_plugins:" in k for k in frozen.system_attrs)
    return trial


def check(name: str, data: st.DataObject) -> None:
    """Add a history to a study; ask for trials, some at once; tell some; look at the terminator."""
    tree = data.draw(trees(), label="space")
    study = optuna.create_study(
        direction=data.draw(st.sampled_from(["minimize", "maximize"])),
        sampler=sampler_of(
            name,
            n_startup_trials=data.draw(st.sampled_from([1, 1, 4, 100])),
            acquisition=data.draw(st.sampled_from(["logei", "ei", "ucb"])),
            deterministic_objective=data.draw(st.booleans()),
        ),
    )
    study.add_trials(data.draw(histories(tree), label="history"))
    first, second = ask_for(study, tree), ask_for(study, tree)
    study.tell(first, data.draw(VALUES))
    ask_for(study, tree)
    study.tell(second, data.draw(VALUES))
    terminator_of().evaluate(study)


@pytest.mark.parametrize("name", SAMPLERS)
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
    """The same ten times as often."""
    check(name, data)
