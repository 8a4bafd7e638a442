"""Studies of ten thousand trials: valid suggestions, the same in any process, and nothing kept."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState, create_trial

from bbo_plugins.methods.training_subset import MAX_MODELED
from bbo_plugins.optuna import GOUCBSampler, UHEBOSampler
from bbo_plugins.optuna.study.storage import Proposal
from tests.optuna.studies import MIXED, quadratic, warnings_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.optuna.sampling.base import ModelSampler

N_LONG = 10_000
KB = 1024


def long_history(n: int) -> list[FrozenTrial]:
    """Return random trials of every kind; the best of them is number 17."""
    rng = np.random.default_rng(0)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    points = [study.ask(MIXED).params for _ in range(64)]
    trials = []
    for i in range(n):
        params = {**points[int(rng.integers(64))], "lr": float(10.0 ** rng.uniform(-5.0, 0.0))}
        state = TrialState.COMPLETE if i % 10 else TrialState.PRUNED
        value = 1.0 + float(rng.random()) if i != 17 else 0.0
        trials.append(
            create_trial(
                state=state if i != 17 else TrialState.COMPLETE,
                value=value,
                params=params,
                distributions=MIXED,
                intermediate_values={0: value},
            )
        )
    return trials


@pytest.fixture(scope="module")
def history() -> list[FrozenTrial]:
    """Return the trials of one long study."""
    return long_history(N_LONG)


def study_of(trials: list[FrozenTrial], sampler: ModelSampler) -> Study:
    """Return an in-memory study with these trials."""
    study = optuna.create_study(sampler=sampler)
    study.add_trials(trials)
    return study


def is_valid(params: dict[str, Any], space: dict[str, BaseDistribution]) -> bool:
    """Return whether there is a value for each parameter, in its range."""
    return params.keys() == space.keys() and all(
        space[name]._contains(space[name].to_internal_repr(value)) for name, value in params.items()
    )


SAMPLERS: dict[str, Callable[[], ModelSampler]] = {
    "uhe": lambda: UHEBOSampler(seed=3),
    "map": lambda: UHEBOSampler(estimation="map", seed=3),
    "go-ucb": lambda: GOUCBSampler(seed=3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uhe", "map", "go-ucb"])
def test_ten_thousand_trials(
    name: str, history: list[FrozenTrial], caplog: pytest.LogCaptureFixture
) -> None:
    """Suggestions come from a model of bounded size, without a word; a fresh sampler's is equal."""
    study = study_of(history, SAMPLERS[name]())
    trial = study.ask(MIXED)
    assert is_valid(trial.params, MIXED)
    proposal = Proposal.from_attributes(study.trials[-1].system_attrs)
    assert proposal is not None
    assert proposal.criterion is not None
    fit = proposal.fits[proposal.criterion]
    assert 0.9 * MAX_MODELED <= fit.get("n_points", MAX_MODELED) <= MAX_MODELED
    study.tell(trial, 1.0)
    fresh = study_of(study.trials, SAMPLERS[name]())
    assert fresh.ask(MIXED).params == study.ask(MIXED).params
    assert warnings_in(caplog) == []


@pytest.mark.slow
def test_what_is_kept_does_not_grow() -> None:
    """Suggestion after suggestion for one and the same trial leaves no memory behind."""
    space: dict[str, BaseDistribution] = {
        name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in "xyz"
    }
    sampler = UHEBOSampler(seed=1)
    study = optuna.create_study(sampler=sampler)
    for _ in range(15):
        trial = study.ask(space)
        study.tell(trial, quadratic(trial.params))
    asked = study.ask(space)

    def suggest(n: int) -> int:
        for _ in range(n):
            trial = study._storage.get_trial(asked._trial_id)
            sampler.sample_relative(study, trial, space)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    suggest(5)
    tracemalloc.start()
    try:
        sizes = [suggest(15) for _ in range(4)]
    finally:
        tracemalloc.stop()
    # Small objects that replace others are counted from then on; a leak grows in every part.
    assert min(after - before for before, after in pairwise(sizes)) < 4 * KB
