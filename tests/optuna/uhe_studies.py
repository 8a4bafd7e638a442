"""Studies of UHEBOSampler that stagnate at once, and what is read from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from bbo_plugins.gp import likelihood
from bbo_plugins.methods.uhe_bo.algorithm import Variant
from bbo_plugins.optuna import UHEBOSampler
from bbo_plugins.optuna.study.storage import ARMS, Proposal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

    from tests.oracles.arms import Row

SQUARE: dict[str, BaseDistribution] = {
    "x": FloatDistribution(0.0, 1.0),
    "y": FloatDistribution(0.0, 1.0),
}
N_STARTUP = 4
SEED, N_WHOLE = 5, 14  # so many trials with it pull both arms and minimize both losses
RANDOM, MODEL = "random", "model"  # as they are stored
EVERY_PAIR = Variant(likelihood.MARGINAL, on_stagnation=False, n_draws=1, reward="scaled")


class Chosen(UHEBOSampler):
    """A sampler whose bandit follows a given variant."""

    def __init__(self, variant: Variant, **arguments: Any) -> None:
        """Keep the variant."""
        super().__init__(n_startup_trials=N_STARTUP, **arguments)
        self.variant = variant

    def _variant(self) -> Variant:
        return self.variant


def ramp(params: Mapping[str, Any]) -> float:
    """Return a value that is least at one edge: the search comes to rest at once."""
    return float(params["x"])


def default(seed: int = SEED, **arguments: Any) -> UHEBOSampler:
    """Return a sampler as users make it, with a short start-up."""
    return UHEBOSampler(n_startup_trials=N_STARTUP, seed=seed, **arguments)


def step(study: Study, value: Callable[[Mapping[str, Any]], float] = ramp) -> Trial:
    """Ask for a trial and tell its value."""
    trial = study.ask(SQUARE)
    study.tell(trial, value(trial.params))
    return trial


def whole(n_trials: int = N_WHOLE) -> Study:
    """Return a study made by one sampler in one go, with both arms pulled."""
    study = optuna.create_study(sampler=default())
    for _ in range(n_trials):
        step(study)
    return study


def opened(path: str) -> Study:
    """Open the study in a file, with a new sampler."""
    storage = JournalStorage(JournalFileBackend(path))
    return optuna.create_study(
        storage=storage, study_name="s", sampler=default(), load_if_exists=True
    )


def proposal_of(trial: FrozenTrial) -> Proposal | None:
    """Return what was stored with a trial."""
    return Proposal.from_attributes(trial.system_attrs)


def arm_of(trial: FrozenTrial) -> str | None:
    """Return the arm that was stored with a trial."""
    proposal = proposal_of(trial)
    return None if proposal is None else proposal.arm


def arms(study: Study) -> list[str]:
    """Return the arms pulled so far, in the order of the trials."""
    return [arm for arm in map(arm_of, study.trials) if arm is not None]


def history(study: Study) -> list[tuple[Any, ...]]:
    """Return all that the bandit and the model left behind: points, arms, losses, expectations."""
    found = []
    for trial in study.trials:
        proposal = proposal_of(trial)
        made = (
            None if proposal is None else (proposal.arm, proposal.criterion, proposal.expected_gain)
        )
        found.append((trial.params, made))
    return found


def rows_of(study: Study, asking: int) -> dict[int, Row]:
    """Return the table of the other trials, as the rules have it, from what is stored."""
    sign = 1.0 if study.direction == optuna.study.StudyDirection.MAXIMIZE else -1.0
    ended = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
    constrained = any(trial.system_attrs.get("constraints") for trial in ended)
    rows: dict[int, Row] = {}
    for trial in study.trials:
        if trial.number == asking or trial.state is TrialState.WAITING:
            continue
        proposal = proposal_of(trial) or Proposal({})
        constraints = trial.system_attrs.get("constraints") or ([1.0] if constrained else [])
        counts = trial.state is TrialState.COMPLETE and max(constraints, default=0.0) <= 0.0
        value = sign * (trial.value or 0.0) if counts else None
        arm = None if proposal.arm is None else ARMS.index(proposal.arm)
        rows[trial.number] = (arm, trial.state.is_finished(), value, proposal.expected_gain)
    return rows
