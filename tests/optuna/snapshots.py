"""Studies of one parameter, and what a model is told about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna.sampling.snapshot import Snapshot, StudyReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

Direction: TypeAlias = Literal["minimize", "maximize"]
X = FloatDistribution(0.0, 10.0)
SPACE: dict[str, BaseDistribution] = {"x": X}
MIXED: dict[str, BaseDistribution] = {
    "x": X,
    "n": IntDistribution(1, 4),
    "c": CategoricalDistribution(["a", "b"]),
}


def finished(
    x: float,
    value: float | None,
    state: TrialState = TrialState.COMPLETE,
    reported: Mapping[int, float] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> FrozenTrial:
    """Return a finished trial of one parameter."""
    return optuna.create_trial(
        state=state,
        value=value,
        params={"x": x},
        distributions={"x": X},
        intermediate_values=dict(reported or {}),
        system_attrs=dict(attributes or {}),
    )


def study_of(*trials: FrozenTrial, direction: Direction = "maximize") -> Study:
    """Return a study that holds ``trials``."""
    study = optuna.create_study(direction=direction)
    study.add_trials(trials)
    return study


def ask(study: Study) -> FrozenTrial:
    """Create a running trial as a sampler sees it."""
    trial_id = study._storage.create_new_trial(study._study_id)
    return study._storage.get_trial(trial_id)


def look(
    study: Study,
    space: Mapping[str, BaseDistribution] | None = None,
    *,
    reader: StudyReader | None = None,
) -> Snapshot:
    """Return what a new trial's model would be told."""
    return (reader or StudyReader()).snapshot(study, ask(study), space or SPACE, {})
