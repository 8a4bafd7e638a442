"""UHEBOSampler when several trials run at once, in threads, processes, or ask-and-tell."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.optuna.study.proposal import Proposal, store_proposal
from tests.optuna.studies import BOX, points, quadratic, started

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial

    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.optuna.sampling.snapshot import Snapshot


@pytest.mark.parametrize("n_startup_trials", [3, 100])
@pytest.mark.parametrize("acquisition", ["logei", "ucb"])
@pytest.mark.parametrize("estimation", ["uhe", "map"])
def test_asks_without_tells_are_well_apart(
    acquisition: Any, n_startup_trials: int, estimation: Any
) -> None:
    """Four trials that run at once are at least 0.05 apart in the unit cube."""
    sampler = UHEBOSampler(
        n_startup_trials=n_startup_trials, acquisition=acquisition, estimation=estimation, seed=0
    )
    study = started(sampler, n=8)
    running = points([study.ask(BOX) for _ in range(4)])
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(running, 2)]
    assert min(distances) > 0.05


def test_proposals_are_seen_before_parameters_are_suggested() -> None:
    """Another worker knows where a trial will be as soon as its first parameter is asked for."""
    study = started(UHEBOSampler(n_startup_trials=3, seed=0), n=8)
    first, second = study.ask(), study.ask()
    for trial in (first, second):
        trial.suggest_float("x", 0.0, 1.0)
    for trial in (first, second):
        for name in ("y", "z"):
            trial.suggest_float(name, 0.0, 1.0)
    assert np.linalg.norm(np.subtract(*points([first, second]))) > 0.05


def test_hyperband_works() -> None:
    """A pruner that hands the sampler a view of the study does not confuse it."""
    study = optuna.create_study(
        sampler=UHEBOSampler(n_startup_trials=4, seed=0),
        pruner=optuna.pruners.HyperbandPruner(min_resource=1, max_resource=8),
    )

    def objective(trial: Trial) -> float:
        value = quadratic({name: trial.suggest_float(name, 0.0, 1.0) for name in BOX})
        for step in range(1, 9):
            trial.report(value + 1.0 / step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    study.optimize(objective, n_trials=15)
    assert all(trial.state.is_finished() for trial in study.trials)
    assert any(trial.state == TrialState.COMPLETE for trial in study.trials)


class Overtaken(UHEBOSampler):
    """A sampler that is beaten to its suggestion by another process, ``times`` times."""

    def __init__(self, times: int, study: Study) -> None:
        """Watch for suggestions in ``study``."""
        super().__init__(n_startup_trials=3, seed=0)
        self.times, self.study, self.suggested = times, study, list[Any]()

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        suggestion = super()._suggest(snapshot, rng)
        self.suggested.append(suggestion.x)
        if len(self.suggested) <= self.times:
            storage = self.study._storage
            other = storage.get_trial(storage.create_new_trial(self.study._study_id))
            params = snapshot.params_at(suggestion.x)
            store_proposal(self.study, other, Proposal.of(params, BOX))
        return suggestion


@pytest.mark.parametrize("times, attempts", [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_a_point_taken_meanwhile_is_given_up(times: int, attempts: int) -> None:
    """If another process proposes the same point at the same time, a new one is suggested."""
    study = started(UHEBOSampler(n_startup_trials=3, seed=0), n=8)
    sampler = Overtaken(times, study)
    study.sampler = sampler
    trial = study.ask(BOX)
    assert len(sampler.suggested) == attempts
    proposal = Proposal.from_attributes(study.trials[8].system_attrs)
    assert proposal is not None
    assert proposal.params == trial.params
    if times < attempts:  # else the others were always faster
        running = points([t for t in study.trials if t.state == TrialState.RUNNING and t.params])
        others = np.array(sampler.suggested[:-1]).reshape(-1, 3)
        assert all(np.linalg.norm(other - running[-1]) > 0.05 for other in others)
