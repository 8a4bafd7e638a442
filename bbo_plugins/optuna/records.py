"""What a study's storage tells a plot: the estimates behind the suggestions, and the model.

Everything that leaves this file is in the objective's own units and direction, read from the
storage at the time of the call. Nothing is written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.samplers import PartialFixedSampler
from optuna.study import Study, StudyDirection
from optuna.trial import TrialState, create_trial
from scipy.special import ndtri

from bbo_plugins import errors
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap, matern52
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.gp.losses import Marginal
from bbo_plugins.gp.outputs import OutputTransform
from bbo_plugins.gp.regression import GaussianProcess
from bbo_plugins.gp.surrogate import Surrogate, transformed_noise
from bbo_plugins.methods import active_set
from bbo_plugins.optuna.finished import FinishedTrial
from bbo_plugins.optuna.model_sampler import ModelSampler
from bbo_plugins.optuna.placement import PlacedTrials
from bbo_plugins.optuna.proposals import Proposal
from bbo_plugins.optuna.trials import Histories

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

    from bbo_plugins.optuna.trials import Snapshot
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

INTERVAL = 0.95  # probability that the intervals of a posterior hold
_QUANTILE = float(ndtri(0.5 + 0.5 * INTERVAL))
_OUTLYING = 8.0  # robust spreads beyond the median on the worse side


@dataclass(frozen=True)
class SuggestionRecord:
    """What is stored with one suggested trial.

    Attributes:
        number: The trial's number.
        arm: "random" or "model", where the sampler chose between the two; else None.
        loss: Name of what the estimate maximizes; None if there was none.
        names: Names of the model's parameters, in the order of its columns.
        hyperparameters: The estimate behind the suggestion; None if there was none (start-up, a
            random arm).
        distributions: Distributions of the parameters that the trial has so far.
    """

    number: int
    arm: str | None
    loss: str | None
    names: tuple[str, ...]
    hyperparameters: Hyperparameters | None
    distributions: Mapping[str, BaseDistribution]

    @property
    def length_scales(self) -> dict[str, float]:
        """The length-scales by parameter, in units of the unit cube; empty without an estimate."""
        if self.hyperparameters is None:
            return {}
        return dict(zip(self.names, self.hyperparameters.length_scales.tolist(), strict=True))


@dataclass(frozen=True)
class StudyPosterior:
    """A Gaussian process over the parameters that all complete trials share.

    Pending and failed trials have no part in it; pruned ones inform it, but are not listed.

    Attributes:
        space: The parameters, d of them.
        numbers: Numbers of the n complete trials that have a finite value and a place in ``space``.
        params: Their parameters.
        values: Their values, shape (n,).
        X: Their points of the unit cube, shape (n, d).
        best: Index of the best of them among the feasible ones, or among all if none is feasible.
        process: The posterior of the transformed, maximized objective.
        transform: The map to the process's units.
        sign: 1 if the objective is maximized, -1 if it is minimized.
    """

    space: SearchSpace
    numbers: tuple[int, ...]
    params: tuple[Mapping[str, Any], ...]
    values: FloatArray
    X: FloatArray
    best: int
    process: GaussianProcess
    transform: OutputTransform
    sign: float

    def quantiles(self, X: FloatArray) -> FloatArray:
        """Return lower end, median and upper end of the central 95% interval at ``X`` (m, d).

        They are those of the objective without observation noise.

        Returns:
            Shape (3, m), ascending along the first axis.
        """
        mean, variance = self.process.predict(X)
        half = _QUANTILE * np.sqrt(variance)
        values = self.sign * self.transform.inverse(np.array([mean - half, mean, mean + half]))
        return values if self.sign > 0.0 else values[::-1]

    def closeness(self, x: FloatArray, column: int) -> FloatArray:
        """Return how much each trial tells about the slice through ``x`` (d,) along ``column``.

        That is the share (n,), before any data, of the standard deviation of the objective at the
        trial's point moved onto the slice that its value at the point itself removes: 1 - √(1 - ρ²)
        with their correlation ρ. It is 1 on the slice and 0 far away from it.
        """
        moved = np.tile(x, (len(self.X), 1))
        moved[:, column] = self.X[:, column]
        scale = self.process.hyperparameters.length_scales
        features = self.process.features
        gaps = features.scaled(self.X, scale) - features.scaled(moved, scale)
        correlation = np.minimum(matern52(np.square(gaps).sum(axis=1)), 1.0)
        closeness: FloatArray = 1.0 - np.sqrt(1.0 - np.square(correlation))
        return closeness

    @property
    def outlier_limit(self) -> float:
        """The value beyond which, on the worse side, values are far away from most others."""
        transform = self.transform
        return self.sign * (transform.median - _OUTLYING * transform.spread) * transform.prescale


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
                hyperparameters=_hyperparameters(proposal, len(names)),
                distributions=trial.distributions,
            )
        )
    return tuple(records)


def posterior_of(study: Study) -> StudyPosterior | None:
    """Return the model of ``study``'s objective, without a fit where the storage holds one.

    The hyperparameters are those stored with the latest suggestion for the same parameters whose
    estimate is by the marginal likelihood; only if there is no such suggestion, the latest one by
    another loss, which may lack a noise variance. They were estimated on the trials finished by
    then; the posterior is conditioned on all that have finished since as well, in a long study on
    those that the sampler's model would have (:mod:`bbo_plugins.methods.active_set`). If none are
    stored, as after other samplers, they are estimated once. Known noise variances and whether the
    objective is deterministic are asked of the study's sampler if it is one of this package.

    Returns:
        None if no complete trial has a finite value or the complete trials share no parameter with
        more than one possible value.

    Raises:
        TypeError: ``study`` is not a study.
        ValueError: The study has more than one objective.
    """
    errors.check_instance("study", study, Study, "an Optuna study")
    if len(study.directions) != 1:
        raise ValueError(f"study must have one objective, but got {len(study.directions)}.")
    sampler = _model_sampler(study)
    history = (Histories() if sampler is None else sampler._histories).of(study)
    distributions = history.shared_distributions(study)
    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    finished = {trial.number: FinishedTrial.read(trial, None) for trial in trials}
    finished = {number: row for number, row in finished.items() if math.isfinite(row.value)}
    known, X = PlacedTrials(distributions).place(finished)
    if not known or not distributions:
        return None
    number_of = {id(row): number for number, row in finished.items()}
    nobody = create_trial(state=TrialState.WAITING)  # no trial is asking, so none is left out
    snapshot = history.snapshot(study, nobody, distributions, {})
    process, transform = _surrogate(
        snapshot,
        _latest_estimate(study, snapshot.space.names),
        deterministic=getattr(sampler, "_deterministic", False),
    )
    values = np.array([row.value for row in known])
    sign = 1.0 if study.direction is StudyDirection.MAXIMIZE else -1.0
    score = np.where(_feasible(known), sign * values, -math.inf)
    return StudyPosterior(
        space=snapshot.space,
        numbers=tuple(number_of[id(row)] for row in known),
        params=tuple(row.params for row in known),
        values=values,
        X=X,
        best=int(np.argmax(score if np.isfinite(score).any() else sign * values)),
        process=process,
        transform=transform,
        sign=sign,
    )


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


def _latest_estimate(study: Study, names: tuple[str, ...]) -> Hyperparameters | None:
    """Return the estimate stored last, by trial number, for these parameters.

    One by the marginal likelihood comes before all others, of which some have no noise variance.
    """
    latest = None
    for record in reversed(suggestions_of(study)):
        if record.hyperparameters is None or record.names != names:
            continue
        if record.loss == Marginal.__name__:
            return record.hyperparameters
        latest = latest or record.hyperparameters
    return latest


def _model_sampler(study: Study) -> ModelSampler | None:
    sampler: Any = study.sampler
    while isinstance(sampler, PartialFixedSampler):
        sampler = sampler._base_sampler
    return sampler if isinstance(sampler, ModelSampler) else None


def _surrogate(
    snapshot: Snapshot, estimate: Hyperparameters | None, *, deterministic: bool
) -> tuple[GaussianProcess, OutputTransform]:
    """Return the posterior and its units: with the stored hyperparameters, else by one fit."""
    features = FeatureMap(tuple(snapshot.space.n_categories.tolist()))
    observations = active_set.modeled(snapshot.observations, features)  # as the sampler's model
    X, y, noise = observations.X, observations.y, observations.noise_variance
    if estimate is None:
        fitted = Surrogate.fit(X, y, features, noise_variance=noise, deterministic=deterministic)
        return fitted.process, fitted.transform
    transform = OutputTransform.fit(y)
    known = None if noise is None else transformed_noise(noise, transform.derivative(y))
    z = transform.forward(y)
    return GaussianProcess.from_data(X, z, estimate, features, known_noise=known), transform


def _feasible(trials: list[FinishedTrial]) -> NDArray[np.bool_]:
    """Return which trials (n,) violate no constraint; those without any do not count if some do."""
    constrained = any(trial.constraints for trial in trials)
    return np.array(
        [
            all(value <= 0.0 for value in trial.constraints.values())
            and (bool(trial.constraints) or not constrained)
            for trial in trials
        ]
    )
