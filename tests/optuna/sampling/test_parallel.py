"""UHEBOSampler when several trials run at once, in threads, processes, or ask-and-tell."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna import BBOSampler, GOUCBSampler, UHEBOSampler
from bbo_plugins.optuna.study.storage import Proposal, store_proposal
from tests.optuna.studies import BOX, points, quadratic, started

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

    from bbo_plugins.methods.observations import Suggestion
    from bbo_plugins.optuna.sampling.base import ModelSampler
    from bbo_plugins.optuna.sampling.snapshot import Snapshot


@pytest.mark.parametrize(
    "sampler",
    [
        UHEBOSampler(n_startup_trials=100, seed=0),
        UHEBOSampler(n_startup_trials=3, seed=0),
        UHEBOSampler(n_startup_trials=3, acquisition="ucb", estimation="map", seed=0),
        GOUCBSampler(n_startup_trials=4, hidden_units=5, seed=7),
        BBOSampler(n_startup_trials=4, seed=4),
    ],
    ids=["start-up", "uhe", "map", "go-ucb", "bbo"],
)
def test_asks_without_tells_are_apart(sampler: ModelSampler) -> None:
    """Trials that run at once are a tenth apart of what known points leave around them."""
    study = started(sampler, n=8)
    known = points(study.trials)
    for first, second in itertools.combinations(points([study.ask(BOX) for _ in range(4)]), 2):
        room = np.linalg.norm(first - known, axis=1).min()
        assert np.linalg.norm(first - second) > min(0.05, 0.099 * room)


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


def test_a_point_that_another_worker_repeats_meanwhile_is_left_to_it() -> None:
    """Also if the point has been evaluated before, so that it is no news that it is there."""
    study = optuna.create_study()
    space: dict[str, BaseDistribution] = {"n": IntDistribution(0, 3)}
    for n, value in ((0, 4.0), (1, 1.0), (2, 1.2), (3, 6.0), (1, 1.1)):
        study.add_trial(optuna.create_trial(value=value, params={"n": n}, distributions=space))
    met: list[dict[str, Any]] = []

    class Overtaken(UHEBOSampler):
        """While it thinks of its first suggestion, another worker begins a trial there."""

        def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
            suggestion = super()._suggest(snapshot, rng)
            if not met:
                met.append(snapshot.params_at(suggestion.x))
                running = TrialState.RUNNING
                study.add_trial(
                    optuna.create_trial(state=running, params=met[0], distributions=space)
                )
            return suggestion

    study.sampler = Overtaken(estimation="map", n_startup_trials=3, seed=0)
    assert study.ask(space).params != met[0]
    assert met[0]["n"] in {1, 2}


@pytest.mark.parametrize("n_startup_trials", [1, 100], ids=["model", "start-up"])
def test_what_another_worker_withdraws_is_free_again(n_startup_trials: int) -> None:
    """Two workers come to each of the two points left at the same moment, and back to the first."""
    study = optuna.create_study()
    space: dict[str, BaseDistribution] = {"n": IntDistribution(0, 2)}
    study.add_trial(optuna.create_trial(value=4.0, params={"n": 0}, distributions=space))
    other = study._storage.get_trial(study.ask()._trial_id)
    met: list[int] = []

    class Followed(UHEBOSampler):
        """As it suggests, the other worker stores the same, but the third time."""

        def _attempt(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
            suggestion = super()._attempt(snapshot, rng)
            params = snapshot.params_at(suggestion.x)
            if len(met) < 2:
                store_proposal(study, other, Proposal.of(params, space))
            met.append(params["n"])
            return suggestion

    study.sampler = Followed(
        deterministic_objective=True, n_startup_trials=n_startup_trials, seed=0
    )
    assert study.ask(space).params == {"n": met[0]}
    assert sorted(met[:2]) == [1, 2]
    assert len(met) == 3


@pytest.mark.parametrize("kind", [BBOSampler, UHEBOSampler])
def test_a_trial_that_never_ends_does_not_stop_the_search(kind: type[Any]) -> None:
    """Next to the minimum of a bowl, the search comes closer to it all the same."""
    study = started(kind(n_startup_trials=8, seed=0), n=8)
    stuck = {"x": 0.305, "y": 0.605, "z": 0.795}
    study.enqueue_trial(stuck)
    assert study.ask(BOX).params == stuck
    study.optimize(lambda trial: quadratic({n: trial.suggest_float(n, 0, 1) for n in BOX}), 22)
    assert study.best_value < 1e-4  # 0.05 from where it stands, the least value is 0.0017


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


def test_more_than_a_hundred_trials_at_once_are_different() -> None:
    """A cluster asks for all its trials before the first one ends."""
    study = started(BBOSampler(n_startup_trials=4, seed=4), n=8)
    asked = points([study.ask(BOX) for _ in range(110)])
    assert len(np.unique(asked, axis=0)) == 110
