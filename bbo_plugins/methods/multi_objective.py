"""One step of Bayesian optimization of several objectives: a Gaussian process for each.

| symbol | meaning                                                                                |
|--------|----------------------------------------------------------------------------------------|
| k      | number of objectives that have varied so far                                           |
| F      | front of the posterior means at the observed points, not of the (noisy) values, (f, k) |
| r      | reference point, (k,)                                                                  |
| w      | weights of the objectives, at random on the simplex, (k,)                              |

Up to four objectives, the logarithm of the expected improvement of the hypervolume that F dominates
above r is maximized (:mod:`bbo_plugins.acquisition.hypervolume`). Of more, each step combines the
values to one, the augmented Chebyshev distance from the best value of each objective,

    s = -max_j w_j (1 - v_j) - 0.05 Σ_j w_j (1 - v_j),

where v_j is 0 at the worst and 1 at the best value of the front, and goes on as with one objective.

The reference point takes turns. It is a tenth of a range below the worst of

1. the means at all observed points, so that the search also widens a front that is still short;
2. the predicted front: of the means at the observed points and at candidates, those which no other
   one dominates properly (:func:`~bbo_plugins.acquisition.hypervolume.proper_front_of`).

With the first one alone, a point that is the best in one objective by a hair counts as much as the
worst values of the others are bad, and the search dwells on the corners of the space.

Sources: :mod:`bbo_plugins.acquisition.hypervolume`; Knowles (2006), "ParEGO: a hybrid algorithm
with on-line landscape approximation for expensive multiobjective optimization problems".

Deviations:

* The usual reference point is below the observed front alone, which would keep the search away
  from the ends of a front that is still short.
* An objective that all trials have the same value of takes no part.
* Constraints, pending and failed points count as in :mod:`bbo_plugins.methods.gp_bo`; a pending
  point is in the front at its posterior means.
* The map of the targets compresses what is far below the front only: the median may be in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bbo_plugins.acquisition.candidates import screening
from bbo_plugins.acquisition.functions import Feasibility
from bbo_plugins.acquisition.hypervolume import (
    ExpectedHypervolumeImprovement,
    front_of,
    n_dominating,
    proper_front_of,
    reference_point,
)
from bbo_plugins.errors import UNUSABLE
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.targets import OutputTransform, median_of, transformed_noise
from bbo_plugins.methods import gp_bo, training_subset
from bbo_plugins.methods.gp_bo import DEFAULT_OPTIONS, Models, Options
from bbo_plugins.methods.observations import Suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.gp.posterior import GaussianProcess
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_MAX_HYPERVOLUME: Final = 4  # objectives; the boxes of more are too many
_AUGMENTATION: Final = 0.05
_N_ANCHORS: Final = 16
_N_CANDIDATES: Final = 256  # of either kind, for the predicted front


@one_blas_thread()
def suggest(
    space: SearchSpace,
    objectives: Sequence[Observations],
    *,
    rng: np.random.Generator,
    options: Options = DEFAULT_OPTIONS,
) -> Suggestion:
    """Return the next point to evaluate.

    A pure function of its arguments (``rng`` counts by its state). Where no model can be fitted it
    returns a random point and says so in the notes; it does not raise for odd data.

    Args:
        space: The search space, d dimensions.
        objectives: What is known of the study, once per objective: they differ in values and known
            noise only. At least one point is evaluated.
        rng: Source of randomness of the candidate points, and of the weights of many objectives.
        options: As for one objective; of no effect are the acquisition function and its ``beta``.

    Returns:
        The point, of shape (d,), and what the next step's fits start from. Its expected gain is a
        hypervolume, a product of standard deviations of the transformed targets.
    """
    varying = [j for j, one in enumerate(objectives) if one.y.min() < one.y.max()] or [0]
    try:
        if len(varying) > _MAX_HYPERVOLUME:
            return _suggest_combined(space, objectives, varying, rng, options)
        return _suggest_by_models(space, objectives, varying, rng, options)
    except UNUSABLE as error:
        return Suggestion.at_random(space, rng, error)


@dataclass(frozen=True)
class FrontAcquisition:
    """log EHVI of the objectives' posteriors, weighted by the probability of feasibility.

    Attributes:
        improvement: The expected hypervolume improvement over a front.
        objectives: Posteriors of the transformed objectives.
        feasibility: The probability of feasibility.
    """

    improvement: ExpectedHypervolumeImprovement
    objectives: tuple[GaussianProcess, ...]
    feasibility: Feasibility

    def value(self, X: FloatArray) -> FloatArray:
        """Return the acquisition values at ``X`` (m, d), shape (m,)."""
        return self._log_improvement(X) + self.feasibility.value(X)

    def _log_improvement(self, X: FloatArray) -> FloatArray:
        predictions = [process.predict(X) for process in self.objectives]
        mean, variance = map(np.column_stack, zip(*predictions, strict=True))
        return self.improvement.log_value(mean, variance)

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""
        value, gradient = self.feasibility.value_and_gradient(X)
        predictions = [process.predict_with_pullback(X) for process in self.objectives]
        means, variances, pullbacks = zip(*predictions, strict=True)
        derivatives = self.improvement.derivatives(
            np.column_stack(means), np.column_stack(variances)
        )
        for j, pullback in enumerate(pullbacks):
            gradient += pullback(derivatives.by_mean[:, j], derivatives.by_variance[:, j])
        return value + derivatives.value, gradient

    def expected_gain(self, x: FloatArray) -> float:
        """Return EHVI times the probability of feasibility at ``x`` (d,)."""
        log_gain = float(self._log_improvement(x[None, :])[0])
        return math.exp(log_gain) * self.feasibility.expected_gain(x)


def _suggest_combined(
    space: SearchSpace,
    objectives: Sequence[Observations],
    varying: Sequence[int],
    rng: np.random.Generator,
    options: Options,
) -> Suggestion:
    """Maximize the acquisition function of one objective, combined of those that vary.

    Its fit is stored under the name of the first objective; the others have none.
    """
    combined = combine([objectives[j] for j in varying], rng)
    return gp_bo.suggest(space, combined, rng=rng, options=options)


def _suggest_by_models(
    space: SearchSpace,
    objectives: Sequence[Observations],
    varying: Sequence[int],
    rng: np.random.Generator,
    options: Options,
) -> Suggestion:
    """Fit the surrogates and maximize the acquisition function; may raise on unusable data."""
    training = _modeled(objectives, FeatureMap.of(space))
    features = FeatureMap.of(space, trend=options.trend)
    models = Models.fit(space, training, _centers(training), features, options)
    models = replace(
        models,
        objectives=tuple(models.objectives[j] for j in varying),
        means=models.means[:, varying],
    )
    anchors = models.anchors(space, _worth(models.means), _N_ANCHORS)
    n_begun = len(objectives[0].y) + len(objectives[0].pending)
    candidates = None
    if n_begun % 2:
        scale = models.least_length_scales
        candidates = screening(space, anchors, scale, _N_CANDIDATES, _N_CANDIDATES, rng)
    acquisition = _acquisition(models, candidates)
    return gp_bo.best_suggestion(space, objectives, models, acquisition, anchors, rng, options)


def _acquisition(models: Models, candidates: FloatArray | None) -> FrontAcquisition | Feasibility:
    """Bind the acquisition function to the posteriors after the fantasies.

    Args:
        models: The models.
        candidates: Points (m, d) at which the front is predicted, for the reference point below
            that; None for the one below all observed points.
    """
    processes, constraints, pending_means = models.with_fantasies()
    feasibility = Feasibility(constraints, models.validities.weights)
    means = models.means[models.eligible]
    if not len(means) and constraints:
        return feasibility
    values = np.concatenate([means, pending_means])
    reference = reference_point(values)
    if candidates is not None:
        kept = candidates[models.are_feasible(candidates)]
        predicted = np.column_stack([one.process.predict_mean(kept) for one in models.objectives])
        together = np.concatenate([values, predicted])
        reference = reference_point(proper_front_of(together, _AUGMENTATION))
    improvement = ExpectedHypervolumeImprovement.of(values, reference)
    return FrontAcquisition(improvement, tuple(processes), feasibility)


def _modeled(objectives: Sequence[Observations], features: FeatureMap) -> list[Observations]:
    """Return the observations that the models are fitted to, the same ones for all objectives."""
    Y = np.column_stack([one.y for one in objectives])
    ranked = replace(objectives[0], y=_worth(Y))
    rows = training_subset.indices(ranked, features)
    return [one.take(rows) for one in objectives]


def _centers(objectives: Sequence[Observations]) -> list[float | None]:
    """Return the value around which each objective matters, None where no point is feasible.

    It is the worst one of the front, unless the median is worse: what is better is not compressed.
    """
    Y = np.column_stack([one.y for one in objectives])[objectives[0].eligible]
    if not len(Y):
        return [None] * len(objectives)
    worst: list[float] = front_of(Y).min(axis=0).tolist()
    medians = [median_of(one.valued.y) for one in objectives]
    return [min(low, median) for low, median in zip(worst, medians, strict=True)]


def _worth(Y: FloatArray) -> FloatArray:
    """Return by what points ``Y`` (n, k) are compared, (n,): how few others dominate them."""
    return -n_dominating(Y).astype(np.float64)


def combine(objectives: Sequence[Observations], rng: np.random.Generator) -> Observations:
    """Return the observations of one objective: the augmented Chebyshev distance by random weights.

    Args:
        objectives: The observations of k objectives.
        rng: Source of the weights.
    """
    weights = rng.dirichlet(np.ones(len(objectives)))
    centered = [*zip(objectives, _centers(objectives), strict=True)]
    maps = [OutputTransform.fit(one.valued.y, center=center) for one, center in centered]
    of_objective = [*zip(maps, objectives, strict=True)]
    Z = np.column_stack([transform.forward(one.y) for transform, one in of_objective])
    eligible = objectives[0].eligible
    front = front_of(Z[eligible] if eligible.any() else Z)
    extent = np.ptp(front, axis=0)
    scale = weights / np.where(extent > 0.0, extent, 1.0)
    shortfall = scale * (front.max(axis=0) - Z)
    largest = shortfall.max(axis=1)
    y = -largest - _AUGMENTATION * shortfall.sum(axis=1)
    noise, variances = None, [one.noise_variance for one in objectives]
    if any(known is not None for known in variances):
        unknown = np.full(len(y), np.nan)
        slopes = scale * (_AUGMENTATION + (shortfall == largest[:, None]))
        slopes *= np.column_stack([transform.derivative(one.y) for transform, one in of_objective])
        noise = np.sum(
            [
                transformed_noise(unknown if known is None else known, slope)
                for known, slope in zip(variances, slopes.T, strict=True)
            ],
            axis=0,
        )
    agreed = [one.repeats_agreed for one in objectives if one.repeats_agreed is not None]
    repeats_agreed = all(agreed) if agreed else None
    return replace(objectives[0], y=y, noise_variance=noise, repeats_agreed=repeats_agreed)
