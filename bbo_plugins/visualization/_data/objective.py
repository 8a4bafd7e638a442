"""The model of a study's objective, made anew from what the storage holds, for plots.

Everything that leaves this file is in the objective's own units and direction, read from the
storage at the time of the call; nothing is written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import TrialState, create_trial

from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import MARGINAL, is_noise_estimated
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.gp.targets import OutputTransform, transformed_noise
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.go_ucb.algorithm import FIT_NAME, GOUCBOptions
from bbo_plugins.methods.go_ucb.surrogate import NetworkSurrogate, WarmNetwork, inputs
from bbo_plugins.methods.gp_bo import COSINES, COSINES_USED, DEFAULT_OPTIONS, MARGINAL_NAMES
from bbo_plugins.optuna.sampling.base import ModelSampler
from bbo_plugins.optuna.sampling.snapshot import StudyReader
from bbo_plugins.optuna.study.constraints import are_feasible
from bbo_plugins.optuna.study.storage import Proposal, enqueued_params, inner_sampler
from bbo_plugins.optuna.study.trials import TrialRow, check_one_function, signs_of
from bbo_plugins.visualization._data.panels import QUANTILE
from bbo_plugins.visualization._style import closeness_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.gp.likelihood import Hyperparameters
    from bbo_plugins.gp.targets import BoxCoxTransform
    from bbo_plugins.methods.go_ucb.network import Rows
    from bbo_plugins.methods.gp_bo import Options
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray, IntArray

_SEED = 0  # of a network's fit: the same study gives the same picture
_CHUNK = 128  # pairs of points whose Gram matrix is made at once
_N_AVERAGED = 256  # points over which the network's gradients are averaged
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class SuggestionRecord:
    """The stored part of one suggestion.

    Attributes:
        number: The trial's number.
        arm: "random" or "model", where the sampler chose between the two; else None.
        criterion: Name of what the estimate maximizes; None if there was none.
        names: Names of the model's parameters, in the order of its columns.
        fit: JSON form of the objective's fit, as it is stored; None if there was none (start-up, a
            random arm).
        hyperparameters: The estimate of a Gaussian process that is in it; None if there is none.
        of_cosines: The estimate of the kernel with cosines, if that made the suggestion, else None.
        distributions: Distributions of the parameters that the trial has so far.
        warps: Input warping of the parameters that have one.
    """

    number: int
    arm: str | None
    criterion: str | None
    names: tuple[str, ...]
    fit: Any
    hyperparameters: Hyperparameters | None
    of_cosines: Hyperparameters | None
    distributions: Mapping[str, BaseDistribution]
    warps: Mapping[str, float]

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
    """
    records = []
    for trial in study.get_trials(deepcopy=False):
        proposal = Proposal.from_attributes(trial.system_attrs)
        if proposal is None or TrialRow.read(trial).is_retry:
            continue
        if proposal.params.keys() <= enqueued_params(trial).keys():
            continue
        names, is_by_cosines = proposal.names, proposal.criterion == COSINES_USED
        criterion = MARGINAL.name if proposal.criterion in MARGINAL_NAMES else proposal.criterion
        fit = None if criterion is None else proposal.fits.get(criterion)
        of_cosines = proposal.fits.get(COSINES) if is_by_cosines else None
        records.append(
            SuggestionRecord(
                number=trial.number,
                arm=proposal.arm,
                criterion=criterion,
                names=names,
                fit=fit,
                hyperparameters=_hyperparameters(fit, len(names)),
                of_cosines=_hyperparameters(of_cosines, len(names)),
                distributions=trial.distributions,
                warps=proposal.warps,
            )
        )
    return tuple(records)


def _hyperparameters(fit: Any, n_dimensions: int) -> Hyperparameters | None:
    """Return the estimate in the JSON form of a fit, None if there is none."""
    warm_start = WarmStart.from_json(fit)
    return warm_start.hyperparameters(n_dimensions) if warm_start else None


@dataclass(frozen=True)
class StudyPosterior:
    """The objective over all parameters of finished trials, as its model sees it.

    Pending and failed trials have no part in it; pruned ones inform it, but are not listed. Those
    whose value counts as a failure are listed, but do not inform it.

    Attributes:
        space: The parameters, d of them.
        numbers: Numbers of the n complete trials that have a finite value and a place in ``space``.
        params: Their parameters.
        values: Their values, shape (n,).
        X: Their points of the unit cube, shape (n, d).
        order: Their indices from the best to the worst, the feasible ones first, shape (n,).
        model: The posterior, in transformed units: a Gaussian process, or GO-UCB's network.
        transform: The map of maximized values to these units.
        sign: 1 if the objective is maximized, -1 if it is minimized.
        n_outside: Number of other complete trials with a finite value: they have no place in
            ``space``, as where a range has changed.
    """

    space: SearchSpace
    numbers: tuple[int, ...]
    params: tuple[Mapping[str, Any], ...]
    values: FloatArray
    X: FloatArray
    order: IntArray
    model: GaussianProcess | NetworkSurrogate
    transform: OutputTransform | BoxCoxTransform
    sign: float
    n_outside: int

    @property
    def best(self) -> int:
        """Index of the best trial among the feasible ones, or among all if none is feasible."""
        return int(self.order[0])

    def quantiles(self, X: FloatArray) -> FloatArray:
        """Return lower end, median and upper end of the central 95% interval at ``X`` (m, d).

        They are those of the objective without observation noise.

        Returns:
            Shape (3, m), ascending along the first axis.
        """
        mean, variance = self.model.predict(X)
        half = QUANTILE * np.sqrt(variance)
        values = self.sign * self.transform.inverse(np.array([mean - half, mean, mean + half]))
        return values if self.sign > 0.0 else values[::-1]

    def closeness(self, x: FloatArray, column: int) -> FloatArray:
        """Return how much each trial tells about the slice through ``x`` (d,) along ``column``.

        That is :func:`closeness_of` the objective at the trial's point and at that point moved onto
        the slice, shape (n,): 1 on the slice and 0 far away from it.
        """
        moved = self.slice_at(x, column, self.X[:, column])
        if isinstance(self.model, GaussianProcess):
            correlation = self.model.prior_correlation(self.X, moved)
        else:
            correlation = _correlation(self.model, self.space, self.X, moved)
        return closeness_of(correlation)

    def slice_at(self, x: FloatArray, column: int, positions: FloatArray) -> FloatArray:
        """Return points (m, d) like x (d,) but with coordinates (m,) in one column.

        Parameters that do not exist at x, but do at such a point, are as in the best trial that has
        any of them.
        """
        X = np.tile(x, (len(positions), 1))
        X[:, column] = positions
        if not self.space.is_conditional:
            return X
        known = self.space.active(self.X)[self.order]
        missing = ~self.space.active(x[None, :])[0]
        appearing, kinds = np.unique(self.space.active(X) & missing, axis=0, return_inverse=True)
        for kind, appears in enumerate(appearing):
            having = (known & appears).any(axis=1)
            if having.any():
                best = self.X[self.order[np.argmax(having)]]
                X[np.ix_(kinds.ravel() == kind, missing)] = best[missing]
        return self.space.with_inactive_set(X)


def _correlation(
    network: NetworkSurrogate, space: SearchSpace, X: FloatArray, Y: FloatArray
) -> FloatArray:
    """Return the prior correlation of a network at each point of ``X`` (m, d) and of ``Y`` (m, d).

    It is that of the differences from the average over the space: what all points have in common,
    such as the constant, says nothing of which are alike.
    """
    linear = network.ball.linear
    points = space.snap(shifted_sobol(_N_AVERAGED, len(space), np.random.default_rng(0)))
    everywhere = linear.rows(inputs(points, network.features))
    average = linear.transposed_times(everywhere, np.full(_N_AVERAGED, 1.0 / _N_AVERAGED))

    def products(left: Rows, right: Rows) -> FloatArray:
        common = linear.times(left, average) + linear.times(right, average)
        return np.diagonal(linear.gram(left, right)) - common + average @ average

    correlations = []
    for start in range(0, len(X), _CHUNK):
        P, Q = (linear.rows(inputs(Z[start : start + _CHUNK], network.features)) for Z in (X, Y))
        squares = products(P, P) * products(Q, Q)  # rounding may leave it at 0 or below
        correlations.append(products(P, Q) / np.sqrt(np.maximum(squares, _TINY)))
    return np.clip(np.concatenate(correlations), -1.0, 1.0)


def posterior_of(study: Study) -> StudyPosterior | None:
    """Return the model of ``study``'s objective, which is that of its latest suggestion.

    After a suggestion by GO-UCB, or by the study's sampler being a
    :class:`~bbo_plugins.optuna.GOUCBSampler`, it is a network: the stored one, fitted further to
    what has finished since. In all other cases it is a Gaussian process. Its hyperparameters are
    those stored with the latest suggestion for the same parameters by the marginal likelihood; only
    if there is none, with the latest one by another criterion, which may lack a noise variance.
    Where a kernel with cosines made the latest suggestion, they are those of that kernel. They were
    estimated on the trials finished by then; the posterior is conditioned on all that have finished
    since as well. If none are stored, as after other samplers, they are estimated once. So they are
    if the stored ones lack a noise variance, and not all of the noise is known now.

    In a long study the model is one of those trials that the sampler's would have
    (:mod:`bbo_plugins.methods.training_subset`). Known noise variances, a given regularization and
    whether the objective is deterministic are asked of the study's sampler if it is one of this
    package.

    Returns:
        None if no complete trial has a finite value, or none a parameter with more than one
        possible value.

    Raises:
        TypeError: ``study`` is not a study.
        ValueError: The study has more than one objective.
    """
    check_one_function(study)
    sampler = _model_sampler(study)
    reader = sampler.reader_of(study) if sampler else StudyReader()
    distributions = reader.distributions(study)
    rows = reader.read(study).rows
    finished = [row for row in rows if row.complete and math.isfinite(row.value)]
    if not finished or not distributions:
        return None
    nobody = create_trial(state=TrialState.WAITING)  # no trial is asking, so none is left out
    fitted = _fitted_for(distributions, study)
    warps = fitted[-1].warps if fitted else None
    snapshot = reader.snapshot(study, nobody, distributions, {}, warps=warps)
    known, X = reader.place(snapshot, finished)
    if not known or not len(snapshot.observations.valued.y):
        return None
    options = sampler.model_options if sampler else DEFAULT_OPTIONS
    model, transform = _model(snapshot.space, snapshot.observations, fitted, options)
    maximized = np.array([row.value for row in known])
    (sign,) = signs_of(study)
    score = np.where(are_feasible(known), maximized, -math.inf)
    return StudyPosterior(
        space=snapshot.space,
        numbers=tuple(row.number for row in known),
        params=tuple(row.params for row in known),
        values=sign * maximized,
        X=X,
        order=np.lexsort((-maximized, -score)),
        model=model,
        transform=transform,
        sign=sign,
        n_outside=len(finished) - len(known),
    )


def _fitted_for(
    distributions: Mapping[str, BaseDistribution], study: Study
) -> list[SuggestionRecord]:
    """Return what is stored of the suggestions by a model of exactly these parameters."""
    names = tuple(sorted(distributions))
    return [one for one in suggestions_of(study) if one.names == names and one.fit is not None]


def _model_sampler(study: Study) -> ModelSampler | None:
    """Return the study's sampler, out of any around it; None if it is of another package."""
    sampler = inner_sampler(study)
    return sampler if isinstance(sampler, ModelSampler) else None


def _model(
    space: SearchSpace,
    observations: Observations,
    fitted: Sequence[SuggestionRecord],
    options: Options | GOUCBOptions,
) -> tuple[GaussianProcess, OutputTransform] | tuple[NetworkSurrogate, BoxCoxTransform]:
    """Return the posterior of the latest suggestion's kind, and the map to its units."""
    features = FeatureMap.of(space)
    training = training_subset.modeled(observations, features).valued  # as the sampler's model
    latest = fitted[-1].criterion if fitted else None
    if latest == FIT_NAME or (not fitted and isinstance(options, GOUCBOptions)):
        warm_start = WarmNetwork.from_json(fitted[-1].fit) if fitted else None
        if not isinstance(options, GOUCBOptions):  # the study has another sampler by now
            options = GOUCBOptions(n_startup=0, deterministic=options.deterministic)
        network = _network(training, features, warm_start, options)
        return network, network.transform
    of_cosines = fitted[-1].of_cosines if fitted and not space.is_conditional else None
    estimate = of_cosines or _latest_estimate(
        [record for record in fitted if record.warps == space.warps]
    )
    trend = not isinstance(options, GOUCBOptions) and options.trend
    features = FeatureMap.of(space, trend=trend, cosines=of_cosines is not None)
    return _process(training, features, estimate, deterministic=options.deterministic)


def _network(
    training: Observations,
    features: FeatureMap,
    warm_start: WarmNetwork | None,
    options: GOUCBOptions,
) -> NetworkSurrogate:
    """Return a network of the stored one's size, else of the sampler's, by one fit."""
    hidden_units = options.hidden_units
    per_unit = len(features.dimension_of_column) + 2
    if warm_start is not None and len(warm_start.hidden) % per_unit == 0:
        hidden_units = len(warm_start.hidden) // per_unit or hidden_units
    return NetworkSurrogate.fit(
        training.X,
        training.y,
        features,
        rng=np.random.default_rng(_SEED),
        hidden_units=hidden_units,
        regularization=options.regularization,
        noise_variance=training.noise_variance,
        deterministic=options.deterministic,
        warm_start=warm_start,
        best=training.best_feasible,
    )


def _process(
    training: Observations,
    features: FeatureMap,
    estimate: Hyperparameters | None,
    *,
    deterministic: bool,
) -> tuple[GaussianProcess, OutputTransform]:
    """Return a Gaussian process with the stored hyperparameters, else by one fit."""
    X, y, noise = training.X, training.y, training.noise_variance
    transform = OutputTransform.fit(y, center=training.center)
    lacks_noise = is_noise_estimated(noise, fit_noise=not deterministic)
    if estimate is None or (lacks_noise and not estimate.has_noise_estimate):
        fitted = Surrogate.fit(
            X, y, features, transform=transform, noise_variance=noise, deterministic=deterministic
        )
        return fitted.process, transform
    known = None if noise is None else transformed_noise(noise, transform.derivative(y))
    z = transform.forward(y)
    process = GaussianProcess.from_data(X, z, estimate, features, known_noise=known)
    return process, transform


def _latest_estimate(suggestions: Sequence[SuggestionRecord]) -> Hyperparameters | None:
    """Return the estimate stored last, by trial number.

    One by the marginal likelihood comes before all others, of which some have no noise variance.
    """
    latest = None
    for record in reversed(suggestions):
        if record.hyperparameters is None:
            continue
        if record.criterion == MARGINAL.name:
            return record.hyperparameters
        latest = latest or record.hyperparameters
    return latest
