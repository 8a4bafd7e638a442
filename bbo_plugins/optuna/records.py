"""What a study's storage tells of its suggestions: the estimates that were behind them.

Nothing is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optuna.study import Study

from bbo_plugins import errors
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.optuna.proposals import Proposal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class SuggestionRecord:
    """What is stored with one suggested trial.

    Attributes:
        number: The trial's number.
        arm: "random" or "model", where the sampler chose between the two; else None.
        loss: Name of what the estimate maximizes; None if there was none.
        names: Names of the model's parameters, in the order of its columns.
        fit: JSON form of the objective's fit, as it is stored; None if there was none (start-up, a
            random arm).
        hyperparameters: The estimate of a Gaussian process that is in it; None if there is none.
        distributions: Distributions of the parameters that the trial has so far.
    """

    number: int
    arm: str | None
    loss: str | None
    names: tuple[str, ...]
    fit: Any
    hyperparameters: Hyperparameters | None
    distributions: Mapping[str, BaseDistribution]

    @property
    def length_scales(self) -> dict[str, float]:
        """The length-scales by parameter, in units of the unit cube; empty without an estimate."""
        if self.hyperparameters is None:
            return {}
        return dict(zip(self.names, self.hyperparameters.length_scales.tolist(), strict=True))


def suggestions_of(study: Study) -> tuple[SuggestionRecord, ...]:
    """Return what is stored with the trials of ``study`` that a model sampler suggested.

    Trials are read in any state. One that was enqueued with all its parameters, or that retries a
    failed one, is left out: what its attributes hold was inherited from the trial it repeats.

    Raises:
        TypeError: ``study`` is not a study.
    """
    errors.check_instance("study", study, Study, "an Optuna study")
    records = []
    for trial in study.get_trials(deepcopy=False):
        proposal = Proposal.from_attributes(trial.system_attrs)
        if proposal is None or _is_inherited(trial, proposal):
            continue
        names = tuple(sorted(proposal.params))  # as are the columns of every model
        records.append(
            SuggestionRecord(
                number=trial.number,
                arm=proposal.arm,
                loss=proposal.loss,
                names=names,
                fit=proposal.fits[0] if proposal.fits else None,
                hyperparameters=_hyperparameters(proposal, len(names)),
                distributions=trial.distributions,
            )
        )
    return tuple(records)


def _is_inherited(trial: FrozenTrial, proposal: Proposal) -> bool:
    fixed = trial.system_attrs.get("fixed_params")
    enqueued = isinstance(fixed, dict) and proposal.params.keys() <= fixed.keys()
    return enqueued or "retry_history" in trial.system_attrs


def _hyperparameters(proposal: Proposal, d: int) -> Hyperparameters | None:
    """Return the stored estimate for the objective; None if there is none that can be read."""
    warm_start = WarmStart.from_json(proposal.fits[0]) if proposal.fits else None
    if warm_start is None or len(warm_start.theta) not in {d + 1, d + 2}:
        return None
    return Hyperparameters.from_theta(warm_start.theta, d)
