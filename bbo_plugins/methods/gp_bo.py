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

* Pending points are added at their posterior mean, failed points as evidence of a bad value.
* Targets go through :class:`bbo_plugins.gp.targets.OutputTransform`, under constraints with the
  median of the feasible ones where that is worse; slacks are linear around their border.
* As long as no observed point is feasible, the probability of feasibility alone is maximized.
* The kernel has no trend with constraints, as it leads out of what is feasible; nor with
  conditional parameters, where it brings nothing.
* The model is fitted to at most a thousand observations
  (:mod:`bbo_plugins.methods.training_subset`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bbo_plugins import errors
from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.acquisition.functions import (
    AcquisitionName,
    ConstrainedAcquisition,
    ConstraintModel,
)
from bbo_plugins.acquisition.maximize import clearance_of, maximize
from bbo_plugins.acquisition.validity import LATEST_FAILED, Validity, fit_validity
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import MARGINAL, FitCriterion, name_of
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.observations import Suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.posterior import GaussianProcess
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_N_ANCHORS = 5
_N_BRANCHES = 11  # sets of active parameters, the best ones, whose best point is an anchor


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a step, and the state of earlier fits.

    Attributes:
        acquisition: Acquisition function to maximize.
        beta: Multiplier of σ for "ucb".
        deterministic: Whether the objective is free of noise; then no evaluated point is suggested
            again before the space is exhausted.
        trend: Whether the objective's kernel has a trend, if there are neither constraints nor
            conditions.
        criterion: What the objective's kernel hyperparameters are estimated by.
        warm_starts: The :attr:`Suggestion.warm_starts` of the latest step with this criterion.
        marginal_start: The first one of the latest step with the marginal likelihood, for a
            criterion that borrows its noise variance.
    """

    acquisition: AcquisitionName = "logei"
    beta: float = 1.96
    deterministic: bool = False
    trend: bool = False
    criterion: FitCriterion = MARGINAL
    warm_starts: Sequence[WarmStart | None] = ()
    marginal_start: WarmStart | None = None


DEFAULT_OPTIONS: Final = Options()
UNUSABLE: Final = (ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError)  # data or model


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
    except UNUSABLE as error:
        return random_point(space, rng, error)


def random_point(space: SearchSpace, rng: np.random.Generator, error: Exception) -> Suggestion:
    """Return a random point of the space, and the note that a model failed by this ``error``."""
    x = space.snap(shifted_sobol(1, len(space), rng))[0]
    notes = (f"no model could be used ({errors.reason_of(error)}), so the point is random",)
    return Suggestion(x, notes=notes)


def objective_features(
    space: SearchSpace, observations: Observations, options: Options
) -> FeatureMap:
    """Return the feature map of the objective's kernel, which says whether it has a trend."""
    plain = not (observations.reported_constraints or space.is_conditional)
    return FeatureMap.of(space, trend=options.trend and plain)


def _suggest_by_model(
    space: SearchSpace, observations: Observations, rng: np.random.Generator, options: Options
) -> Suggestion:
    """Fit the surrogates and maximize the acquisition function; may raise on unusable data."""
    features = FeatureMap.of(space)
    failed, evaluated = observations.still_failed, observations.X
    without_noise = observations.repeats_agree
    observations = training_subset.modeled(observations, features)
    n_models = 1 + len(observations.reported_constraints)
    starts = [*options.warm_starts, *([None] * n_models)][:n_models]
    surrogate = Surrogate.fit(
        observations.X,
        observations.y,
        objective_features(space, observations, options),
        transform=OutputTransform.fit(observations.y, center=observations.center),
        noise_variance=observations.noise_variance,
        deterministic=options.deterministic,
        warm_start=starts[0],
        criterion=options.criterion,
        marginal_start=options.marginal_start,
    )
    constraints = fit_constraints(observations, features, starts[1:])
    fitted = [surrogate, *constraints]
    known, mean = attainable(space, surrogate.process)
    validity, notes = fit_validity(observations.X, failed, features)
    acquisition = _acquisition(
        surrogate,
        constraints,
        observations,
        failed,
        validity,
        incumbents=mean[eligible(observations, known, constraints)],
        options=options,
    )
    unrepeated = options.deterministic or (space.is_conditional and without_noise)
    x, _ = maximize(
        acquisition,
        space,
        rng=rng,
        length_scales=surrogate.process.hyperparameters.length_scales,
        anchors=anchors(space, known, mean, _N_ANCHORS),
        excluded=np.concatenate([evaluated, failed]) if unrepeated else failed,
        pending=observations.pending,
        clearance=clearance_of(observations.pending, evaluated, space),
    )
    return Suggestion(
        x=x,
        warm_starts=tuple(model.warm_start for model in fitted),
        notes=(*(note for model in fitted for note in model.notes), *notes),
        expected_gain=acquisition.expected_gain(x),
        criterion=name_of(options.criterion),
    )


def attainable(space: SearchSpace, process: GaussianProcess) -> tuple[FloatArray, FloatArray]:
    """Return the observed points (n, d), moved into ``space``, and the posterior means there (n,).

    Only in a space with a held dimension do they move: what counts there is the best of the slice.
    """
    points = space.snap(process.X)
    if np.array_equal(points, process.X):
        return points, process.mean_at_observations
    return points, process.predict_mean(points)


def anchors(space: SearchSpace, known: FloatArray, worth: FloatArray, n: int) -> FloatArray:
    """Return n of the observed points, and the best of each set of parameters.

    Args:
        space: The search space.
        known: The observed points, shape (k, d).
        worth: What they are compared by, the larger the better, shape (k,).
        n: How many.
    """
    order = np.argsort(-worth, kind="stable")
    best = order[:n]
    if space.is_conditional:
        _, first = np.unique(space.active(known[order]), axis=0, return_index=True)
        best = np.concatenate([best, order[np.sort(first)[:_N_BRANCHES]]])
    return known[best]


def fit_constraints(
    observations: Observations, features: FeatureMap, warm_starts: Sequence[WarmStart | None]
) -> list[Surrogate]:
    """Fit one surrogate to the slack -c of each constraint, on the trials that report it."""
    models = []
    for values, warm_start in zip(observations.reported_constraints, warm_starts, strict=True):
        known = np.isfinite(values)
        slack = -values[known]
        models.append(
            Surrogate.fit(
                observations.X[known],
                slack,
                features,
                transform=OutputTransform.fit_slack(slack),
                warm_start=warm_start,
            )
        )
    return models


def eligible(
    observations: Observations, known: FloatArray, constraints: Sequence[Surrogate]
) -> NDArray[np.bool_]:
    """Return which observed points (n,) may be the incumbent.

    Where an observed point had to move to ``known`` (n, d), the constraints' models judge.
    """
    if not constraints or np.array_equal(known, observations.X):
        return observations.eligible
    eligible = observations.complete.copy()
    for model in constraints:
        eligible &= model.process.predict_mean(known) >= _limit(model)
    return eligible


def _limit(constraint: Surrogate) -> float:
    """Return the transformed slack from which on a point is feasible."""
    return float(constraint.transform.forward(np.zeros(1))[0])


def _acquisition(
    surrogate: Surrogate,
    constraints: Sequence[Surrogate],
    observations: Observations,
    failed: FloatArray,
    validity: Validity | None,
    *,
    incumbents: FloatArray,
    options: Options,
) -> ConstrainedAcquisition:
    """Bind the acquisition function to the posteriors after the fantasies.

    Args:
        surrogate: Model of the objective.
        constraints: Models of the constraints.
        observations: What is known of the study.
        failed: Points at which an evaluation failed, shape (f, d).
        validity: Model of where evaluations fail, None without one.
        incumbents: Posterior means at the points that may be the incumbent; possibly none.
        options: Which acquisition function.
    """
    pending = observations.pending
    models = constraint_models(constraints, pending)
    process = with_fantasies(surrogate.process, failed, pending)
    if not len(incumbents) and models:
        return ConstrainedAcquisition(None, process, 0.0, options.beta, models, validity)
    pending_mean = pending_values(process, pending)[feasible_pending(models, pending)]
    if not len(incumbents):
        incumbents = surrogate.process.mean_at_observations
    # Algorithm 1 of Fu et al. (2024): the best predictive mean over the points evaluated so far.
    incumbent = float(np.concatenate([incumbents, pending_mean]).max())
    return ConstrainedAcquisition(
        options.acquisition, process, incumbent, options.beta, models, validity
    )


def constraint_models(
    constraints: Sequence[Surrogate], pending: FloatArray
) -> tuple[ConstraintModel, ...]:
    """Return the constraints' posteriors given their means at the pending points (p, d)."""
    return tuple(
        ConstraintModel(condition_on_pending(model.process, pending), _limit(model))
        for model in constraints
    )


def feasible_pending(models: Sequence[ConstraintModel], pending: FloatArray) -> NDArray[np.bool_]:
    """Return which of the pending points (p, d) are feasible by the constraints' means, (p,)."""
    feasible = np.ones(len(pending), dtype=bool)
    for model in models:
        feasible &= pending_values(model.process, pending) >= model.limit
    return feasible


def with_fantasies(
    process: GaussianProcess, failed: FloatArray, pending: FloatArray
) -> GaussianProcess:
    """Return an objective's posterior after failures (f, d) and at pending points (p, d)."""
    return condition_on_pending(penalize_failures(process, failed[-LATEST_FAILED:]), pending)


def penalize_failures(process: GaussianProcess, failed: FloatArray) -> GaussianProcess:
    """Return the posterior given that the points (f, d) that failed are no better than the median.

    The noise of this evidence is the posterior variance there: one failure moves the mean halfway,
    as it may have been an accident, and further ones at the same place move it further.
    """
    if not len(failed):
        return process
    mean, variance = process.predict(failed)
    return process.condition_on(
        failed, np.minimum(mean, np.median(process.y)), known_noise=variance
    )


def condition_on_pending(process: GaussianProcess, pending: FloatArray) -> GaussianProcess:
    """Return the posterior given its own mean at each pending point (p, d) ("Kriging believer").

    The variance shrinks around these points, the mean stays.
    """
    if not len(pending):
        return process
    return process.condition_on(pending, process.predict_mean(pending))


def pending_values(process: GaussianProcess, pending: FloatArray) -> FloatArray:
    """Return the values at the pending points (p,) that ``process`` was last conditioned on."""
    return process.y[len(process.y) - len(pending) :]
