"""What another worker does between a worker's look at the study and its own suggestion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from optuna.trial import TrialState

from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.optuna.proposals import Proposal
from bbo_plugins.optuna.trials import store_proposal
from tests.reliability.front_door import (
    N_STARTUP,
    SAMPLERS,
    SPACE,
    ask,
    assert_modeled,
    run,
    stored_of,
    study_of,
)

if TYPE_CHECKING:
    import numpy as np
    from optuna.study import Study

    from bbo_plugins.optuna.model_sampler import ModelSuggestion
    from bbo_plugins.optuna.trials import Snapshot


class Overtaken(UHEBOSampler):
    """A sampler that another process beats to its first suggestion, up to a state."""

    def __init__(self, name: str, study: Study, state: TrialState) -> None:
        """Keep what the other process is to do."""
        super().__init__(estimation=name, n_startup_trials=N_STARTUP, seed=0)
        self.study, self.state, self.taken = study, state, list[dict[str, Any]]()

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> ModelSuggestion:
        suggestion = super()._suggest(snapshot, rng)
        if not self.taken:
            params = snapshot.params_at(suggestion.x)
            self.taken.append(params)
            storage = self.study._storage
            trial = storage.get_trial(storage.create_new_trial(self.study._study_id))
            store_proposal(self.study, trial, Proposal.of(params, SPACE))
            for name, value in params.items():
                internal = SPACE[name].to_internal_repr(value)
                storage.set_trial_param(trial._trial_id, name, internal, SPACE[name])
            if self.state is not TrialState.RUNNING:
                storage.set_trial_state_values(trial._trial_id, self.state, [1.0])
        return suggestion


@pytest.mark.parametrize("state", [TrialState.RUNNING, TrialState.COMPLETE], ids=lambda s: s.name)
@pytest.mark.parametrize("name", SAMPLERS)
def test_a_point_tried_meanwhile_is_given_up(name: str, state: TrialState) -> None:
    """Whether the other trial is still running or has completed in the meantime."""
    study = study_of(name)
    run(study, 6)
    sampler = Overtaken(name, study, state)
    study.sampler = sampler
    trial = ask(study)
    assert sampler.taken
    assert trial.params not in sampler.taken


class InStep(UHEBOSampler):
    """A sampler whose every suggestion another process in step has just proposed as well."""

    def __init__(self, name: str, study: Study) -> None:
        """Keep the study."""
        super().__init__(estimation=name, n_startup_trials=N_STARTUP, seed=0)
        self.study, self.taken = study, list[dict[str, Any]]()

    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> ModelSuggestion:
        suggestion = super()._suggest(snapshot, rng)
        params = snapshot.params_at(suggestion.x)
        self.taken.append(params)
        storage = self.study._storage
        trial = storage.get_trial(storage.create_new_trial(self.study._study_id))
        store_proposal(self.study, trial, Proposal.of(params, SPACE))
        return suggestion


@pytest.mark.parametrize("name", SAMPLERS)
def test_workers_in_step_do_not_repeat_each_other(name: str) -> None:
    """One that meets another at each point it comes to takes its own of the start-up's design."""
    study = study_of(name)
    run(study, 6)
    sampler = InStep(name, study)
    study.sampler = sampler
    trial = ask(study)
    assert len(sampler.taken) > 1
    assert trial.params not in sampler.taken
    stored = stored_of(study.trials[trial.number])
    assert stored is not None
    assert stored.values(SPACE) == trial.params
    assert stored.arm is None
    assert stored.expected_gain is None
    assert stored.fits
    study.sampler = study_of(name).sampler
    assert_modeled(study, ask(study))
