"""One step of Gaussian-process Bayesian optimization: fit, account for pending points, maximize.

The parent of UHE-BO, and what ``estimation="map"`` runs.

| symbol | meaning                                                                               |
|--------|---------------------------------------------------------------------------------------|
| μ, σ²  | posterior mean and variance of the transformed objective, shape (m,)                  |
| μ⁺     | incumbent: largest posterior mean over observed points, not the best (noisy) value    |
| β      | multiplier of σ in the upper confidence bound                                         |
| t_j    | transformed limit of constraint j: feasible where the slack -c_j is at least that     |

Source: the incumbent after Fu et al. (2024), "Convergence of Bayesian Bilevel Optimization",
Algorithm 1 (there a minimum).

Deviations:

* Pending points are added at their posterior mean. A step keeps a distance from each, longer with
  noise (:func:`bbo_plugins.acquisition.maximize.clearance_of`). The acquisition function is
  weighted by the probability of validity; where most points failed, they also count as evidence of
  a bad value. If some evaluations were cut off, it is weighted by the probability that one is not.
* Targets go through :class:`bbo_plugins.gp.targets.OutputTransform`, under constraints with the
  median of the feasible ones where that is worse; slacks are linear around their border.
* As long as no observed point is feasible, the probability of feasibility alone is maximized.
* The kernels of constraints have no trend, nor has that of the objective with conditional
  parameters: neither made results better.
* Some steps go by the upper confidence bound. They are greedy, with β = 0.5, if the data speak
  against noise: its estimate is below a tenth of the prior's location. With noise β is 2, as the
  expected improvement would stay for long in a corner of the box that is the best place so far.
  In a finite space with noise there is no such step, nor with constraints or conditional
  parameters. With categories there is none as another one may be better than that of the best mean.
* Where parameters act apart, few observations teach several minima along a parameter. So in some
  steps a kernel whose trend has cosines is fitted, too. It is used if its log likelihood is higher
  by more than two, and a search of a region then goes on across the space.
* A local step searches a trust region around the best mean, with conditional parameters or with
  five or more that are free numbers, unless the space is finite or no point is feasible yet. All
  categories are in the region.
* The model is fitted to at most a thousand observations
  (:mod:`bbo_plugins.methods.training_subset`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from bbo_plugins import errors
from bbo_plugins.acquisition.functions import (
    AcquisitionName,
    ConstrainedAcquisition,
    ConstraintModel,
    Feasibility,
)
from bbo_plugins.acquisition.maximize import (
    Acquisition,
    TrustRegion,
    length_after,
    maximize,
    maximize_in_region,
)
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.fit import NOISE_LOCATION
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import MARGINAL, NOISE_FLOOR, FitCriterion
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.observations import Suggestion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from bbo_plugins.acquisition.validity import Validities
    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.posterior import GaussianProcess
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

COSINES: Final = "Cosines"  # name of the model of the objective whose kernel has cosines
# What a step's model was fitted by: where a kernel with cosines was tried this says whether that
# was used.
COSINES_USED: Final = "MarginalCosinesUsed"
COSINES_TRIED: Final = "MarginalCosinesNotUsed"
NAMES_WITH_COSINES: Final = (COSINES_USED, COSINES_TRIED)
MARGINAL_NAMES: Final = (MARGINAL.name, *NAMES_WITH_COSINES)
_MOST_WITH_COSINES = 10  # numeric dimensions; with more, too many trials have to teach them
_LEAST_GAIN = 2.0  # in log likelihood, by cosines in the trend, for them to be used
_NARROW_BETA, _WIDE_BETA = 0.5, 2.0  # of a step by the bound, without noise and with it
_LEAST_LOCAL = 5  # free dimensions; in fewer, a step is never local
_NO_NOISE = NOISE_FLOOR + 0.1 * NOISE_LOCATION
_N_ANCHORS = 5
_N_BRANCHES = 11  # sets of active parameters, the best ones, whose best point is an anchor


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a step, and the state of earlier fits.

    Attributes:
        acquisition: Acquisition function to maximize.
        beta: Multiplier of σ for "ucb".
        by_bound: Whether the step goes by the upper confidence bound; see the module.
        cosines: Whether a kernel with cosines in its trend is tried, for one objective; see the
            module. The suggestion's criterion says whether it was used.
        local_after: For a local step, how many observations came first, at the start-up: they do
            not change the length of the region. None for a step in the whole cube.
        deterministic: Whether the objective is free of noise; then no evaluated point is suggested
            again before the space is exhausted. Nor is one if enough repeats agree.
        trend: Whether the objective's kernel has a trend, if no parameter is conditional.
        criterion: What the objective's kernel hyperparameters are estimated by.
        warm_starts: What the latest fit of each model left (:attr:`Suggestion.warm_starts`), None
            where that is unreadable.
    """

    acquisition: AcquisitionName = "logei"
    beta: float = 1.96
    by_bound: bool = False
    cosines: bool = False
    local_after: int | None = None
    deterministic: bool = False
    trend: bool = False
    criterion: FitCriterion = MARGINAL
    warm_starts: Mapping[str, WarmStart | None] = field(default_factory=dict)


DEFAULT_OPTIONS: Final = Options()


@one_blas_thread()
def suggest(
    space: SearchSpace,
    observations: Observations,
    *,
    rng: np.random.Generator,
    options: Options = DEFAULT_OPTIONS,
) -> Suggestion:
    """Return the next point to evaluate.

    A pure function of its arguments (``rng`` counts by its state). Where no model can be fitted it
    returns a random point and says so in the notes; it does not raise for odd data.

    Args:
        space: The search space, d dimensions.
        observations: What is known of the study; at least one evaluated point.
        rng: Source of randomness of the candidate points.
        options: Acquisition function, noise, criterion and warm starts.

    Returns:
        The point, of shape (d,), and what the next step's fits start from.
    """
    try:
        return _suggest_by_model(space, observations, rng, options)
    except errors.UNUSABLE as error:
        return Suggestion.at_random(space, rng, error)


def objective_name(criterion: FitCriterion, index: int = 0) -> str:
    """Return the name of the model of one of the objectives, fitted by a criterion."""
    return f"{criterion.name} {index}" if index else criterion.name


def _is_plain(space: SearchSpace, observations: Observations) -> bool:
    """Whether there are neither constraints nor conditional parameters nor categories."""
    has_more = observations.reported_constraints or space.is_conditional
    return not (has_more or space.n_categories.any())


def can_have_cosines(space: SearchSpace) -> bool:
    """Return whether cosines may be in the trend: not with conditions, nor with many numbers."""
    n_numeric = int((space.n_categories == 0).sum())
    return not space.is_conditional and 0 < n_numeric <= _MOST_WITH_COSINES


def can_be_local(space: SearchSpace) -> bool:
    """Return whether a local step searches a trust region, not the whole cube.

    It does with conditional parameters, or with many that are numbers; not in a finite space.
    """
    free = [axis for axis in space.dimensions if axis.held_at is None and not axis.is_categorical]
    is_large = space.is_conditional or len(free) >= _LEAST_LOCAL
    return is_large and space.size is None


def _suggest_by_model(
    space: SearchSpace, observations: Observations, rng: np.random.Generator, options: Options
) -> Suggestion:
    """Fit the surrogates and maximize the acquisition function; may raise on unusable data."""
    training = observations
    if len(observations.y) > training_subset.MAX_MODELED:
        training = training_subset.modeled(observations, FeatureMap.of(space))
    features = FeatureMap.of(space, trend=options.trend)
    models = Models.fit(space, [training], [training.center], features, options)
    region = _region(space, observations, models, options)
    if options.by_bound and _is_plain(space, training):
        if _is_noiseless(models):
            options = replace(options, acquisition="ucb", beta=_NARROW_BETA)
        elif space.size is None:
            options = replace(options, acquisition="ucb", beta=_WIDE_BETA)
    acquisition = _acquisition(models, options)
    anchors = models.anchors(space, models.means[:, 0], _N_ANCHORS)
    return best_suggestion(
        space, [observations], models, acquisition, anchors, rng, options, region=region
    )


@dataclass(frozen=True)
class Models:
    """The models of a step; :meth:`fit` builds them.

    Attributes:
        objectives: Models of the k objectives.
        constraints: Models of the constraints.
        validities: Models of where evaluations return a final value.
        training: What they are fitted to, n points; the values are those of the first objective.
        known: The observed points, moved into the space, shape (n, d). Only in a space with a held
            dimension do they move: what counts there is the best of the slice.
        means: Posterior means of the objectives there, shape (n, k).
        warm_starts: What the models' next fits start from, by their names.
        notes: Fallbacks taken while fitting, in words.
    """

    objectives: tuple[Surrogate, ...]
    constraints: tuple[Surrogate, ...]
    validities: Validities
    training: Observations
    known: FloatArray
    means: FloatArray
    warm_starts: Mapping[str, WarmStart]
    notes: tuple[str, ...]

    @classmethod
    def fit(
        cls,
        space: SearchSpace,
        objectives: Sequence[Observations],
        centers: Sequence[float | None],
        features: FeatureMap,
        options: Options,
    ) -> Models:
        """Fit a model to each objective and constraint, and one to where evaluations fail.

        Args:
            space: The search space, d dimensions.
            objectives: What the models are fitted to, once per objective.
            centers: The value around which each objective matters, or None.
            features: The feature map of the objectives' kernels.
            options: Noise, criterion and warm starts.
        """
        training, plain = objectives[0], replace(features, trend=False)
        valued = [one.valued for one in objectives]
        fitted, used = _fit_objectives(valued, centers, features, options)
        constraints = fit_constraints(training, plain, options.warm_starts)
        validities = training.validities(plain, options.warm_starts)
        known = space.snap(training.X)
        in_place = np.array_equal(known, valued[0].X)
        means = [
            one.process.mean_at_observations if in_place else one.process.predict_mean(known)
            for one in used
        ]
        return cls(
            objectives=used,
            constraints=tuple(constraints.values()),
            validities=validities,
            training=training,
            known=known,
            means=np.column_stack(means),
            warm_starts={
                **{name: model.warm_start for name, model in {**fitted, **constraints}.items()},
                **validities.warm_starts,
            },
            notes=(
                *(note for model in (*used, *constraints.values()) for note in model.notes),
                *validities.notes,
            ),
        )

    @property
    def have_cosines(self) -> bool:
        """Whether the objectives' kernels have cosines in their trend."""
        return all(one.process.features.cosines for one in self.objectives)

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """Which observed points (n,) may be the incumbent; where one had to move, by the models."""
        if not self.constraints or np.array_equal(self.known, self.training.X):
            return self.training.eligible
        return self.training.complete & self.are_feasible(self.known)

    def are_feasible(self, X: FloatArray) -> NDArray[np.bool_]:
        """Return at which points ``X`` (m, d) the means keep all constraints, shape (m,)."""
        feasible = np.ones(len(X), dtype=np.bool_)
        for model in self.constraints:
            feasible &= model.process.predict_mean(X) >= model.limit
        return feasible

    @property
    def least_length_scales(self) -> FloatArray:
        """The smallest length-scales of the objectives' kernels, shape (d,)."""
        scales = [one.process.hyperparameters.length_scales for one in self.objectives]
        least: FloatArray = np.min(scales, axis=0)
        return least

    def anchors(self, space: SearchSpace, worth: FloatArray, n: int) -> FloatArray:
        """Return n of the observed points, the best ones by ``worth`` (n,).

        In a space with conditions the best one of each set of parameters is among them.
        """
        order = np.argsort(-worth, kind="stable")
        best = order[:n]
        if space.is_conditional:
            _, first = np.unique(space.active(self.known[order]), axis=0, return_index=True)
            best = np.concatenate([best, order[np.sort(first)[:_N_BRANCHES]]])
        return self.known[best]

    def with_fantasies(
        self,
    ) -> tuple[list[GaussianProcess], tuple[ConstraintModel, ...], FloatArray]:
        """Return the posteriors after failures and at pending points.

        Returns:
            Those of the objectives and of the constraints, and the objectives' values (f, k) at
            the pending points that are predicted to be feasible.
        """
        bad, pending = self.training.presumed_bad, self.training.pending
        penalized = [one.process.penalize_failures(bad) for one in self.objectives]
        values = np.column_stack([one.predict_mean(pending) for one in penalized])
        constraints = tuple(
            ConstraintModel(one.process.condition_on_means(pending), one.limit)
            for one in self.constraints
        )
        objectives = [one.condition_on_means(pending) for one in penalized]
        return objectives, constraints, values[self.are_feasible(pending)]


def _fit_objectives(
    objectives: Sequence[Observations],
    centers: Sequence[float | None],
    features: FeatureMap,
    options: Options,
) -> tuple[dict[str, Surrogate], tuple[Surrogate, ...]]:
    """Return all models that were fitted, by their names, and those to use, one per objective."""
    fitted, starts = {}, options.warm_starts
    for j, (data, center) in enumerate(zip(objectives, centers, strict=True)):
        name = objective_name(options.criterion, j)
        transform = OutputTransform.fit(data.y, center=center)
        fitted[name] = _fit_objective(data, transform, features, options, starts.get(name))
    used = tuple(fitted.values())
    if options.cosines:
        data, transform, cosines = objectives[0], used[0].transform, replace(features, cosines=True)
        with errors.without_unusable("A kernel with cosines"):
            other = _fit_objective(data, transform, cosines, options, starts.get(COSINES))
            fitted[COSINES] = other
            if _speaks_for(other, used[0]):
                used = (other,)
    return fitted, used


def _fit_objective(
    data: Observations,
    transform: OutputTransform,
    features: FeatureMap,
    options: Options,
    warm_start: WarmStart | None,
) -> Surrogate:
    return Surrogate.fit(
        data.X,
        data.y,
        features,
        transform=transform,
        noise_variance=data.noise_variance,
        deterministic=options.deterministic,
        warm_start=warm_start,
        criterion=options.criterion,
        marginal_start=options.warm_starts.get(MARGINAL.name),
    )


def _speaks_for(of_cosines: Surrogate, without: Surrogate) -> bool:
    return of_cosines.criterion_value > without.criterion_value + _LEAST_GAIN


class StepAcquisition(Acquisition, Protocol):
    """An acquisition function that knows what an evaluation brings."""

    def expected_gain(self, x: FloatArray) -> float:
        """Return the improvement that is expected at ``x`` (d,)."""


def best_suggestion(
    space: SearchSpace,
    objectives: Sequence[Observations],
    models: Models,
    acquisition: StepAcquisition,
    anchors: FloatArray,
    rng: np.random.Generator,
    options: Options,
    *,
    region: TrustRegion | None = None,
) -> Suggestion:
    """Return the best point by an acquisition function.

    Args:
        space: The search space, d dimensions.
        objectives: What is known of the study, once per objective.
        models: The models behind the acquisition function.
        acquisition: The acquisition function.
        anchors: Points near which candidates are looked for, shape (a, d).
        rng: Source of randomness of the candidate points.
        options: Noise and criterion.
        region: Where to search; None for the whole cube.
    """
    observations = objectives[0]
    unrepeated = options.deterministic or all(one.repeats_agree(space) for one in objectives)
    exclusions = observations.exclusions(
        space,
        unrepeated=unrepeated,
        accidents=not models.validities.predicts_failures,
        noisy=not _is_noiseless(models),
    )
    if region is not None:
        x = maximize_in_region(
            acquisition, space, region, rng=rng, exclusions=exclusions, across=models.have_cosines
        )
    else:
        x = maximize(
            acquisition,
            space,
            rng=rng,
            length_scales=models.least_length_scales,
            anchors=anchors,
            exclusions=exclusions,
        )
    return Suggestion(
        x=x,
        warm_starts=models.warm_starts,
        notes=models.notes,
        expected_gain=acquisition.expected_gain(x),
        criterion=_criterion_of(models, options),
    )


def _criterion_of(models: Models, options: Options) -> str:
    if not options.cosines:
        return options.criterion.name
    return COSINES_USED if models.have_cosines else COSINES_TRIED


def fit_constraints(
    observations: Observations, features: FeatureMap, warm_starts: Mapping[str, WarmStart | None]
) -> dict[str, Surrogate]:
    """Fit one surrogate to the slack -c of each constraint, on the trials that report it.

    Returns:
        The models by their names.
    """
    models = {}
    for constraint, values in observations.reported_constraints.items():
        known = np.isfinite(values)
        slack, name = -values[known], f"Constraint {constraint}"
        models[name] = Surrogate.fit(
            observations.X[known],
            slack,
            features,
            transform=OutputTransform.fit_slack(slack),
            warm_start=warm_starts.get(name),
        )
    return models


def _acquisition(models: Models, options: Options) -> Feasibility | ConstrainedAcquisition:
    """Bind the acquisition function to the posteriors after the fantasies."""
    (process,), constraints, pending_means = models.with_fantasies()
    feasibility, means = Feasibility(constraints, models.validities.weights), models.means[:, 0]
    eligible = models.eligible
    if constraints and not eligible.any():
        return feasibility
    # Algorithm 1 of Fu et al. (2024): the best predictive mean over the points evaluated so far
    means = means[eligible] if eligible.any() else means
    incumbent = float(np.concatenate([means, pending_means[:, 0]]).max())
    return ConstrainedAcquisition(
        options.acquisition, process, incumbent, options.beta, feasibility
    )


def _region(
    space: SearchSpace, observations: Observations, models: Models, options: Options
) -> TrustRegion | None:
    """Return the trust region around the best mean, None for a step in the whole cube."""
    eligible = models.eligible
    if options.local_after is None or not can_be_local(space) or not eligible.any():
        return None
    worth = np.where(eligible, models.means[:, 0], -np.inf)
    values = np.where(observations.eligible, observations.y, -np.inf)
    length = length_after(values, options.local_after, observations.n_beside)
    return TrustRegion.around_best(space, models.known, worth, length)


def _is_noiseless(models: Models) -> bool:
    """Whether no noise is known, and next to none is estimated."""
    estimates = [one.process.hyperparameters.noise_variance for one in models.objectives]
    return not models.training.has_known_noise and max(estimates) <= _NO_NOISE
