"""Algorithm 1: one record per completed evaluation.

:func:`evaluate` makes the record of the n-th completion from the first n completions and the
records before it, in the objective's own units. It is a pure function: a later record never changes
an earlier one, and any process may make it. Of more than 1,000 completions the model has a subset
(:mod:`bbo_plugins.methods.training_subset`); standard deviation and threshold are those of all. A
completion that counts as failed is in neither.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins import errors
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.observations import Observations
from bbo_plugins.methods.regret_gap.bound import (
    Update,
    confidence_multiplier,
    gap_terms,
    improvement,
    regret_bound,
)
from bbo_plugins.methods.regret_gap.model import (
    StandardizedTargets,
    StoppingModel,
    candidates,
    predict_with_observed,
)
from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.likelihood import Hyperparameters
    from bbo_plugins.gp.posterior import GaussianProcess
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray


@dataclass(frozen=True)
class Evaluation:
    """The outcome of :func:`evaluate`.

    Attributes:
        record: The record of the newest completion.
        warm_start: State from which the next call may start its fit; None without a fit.
        notes: Fallbacks taken, in words; empty when all went well.
    """

    record: StoppingRecord
    warm_start: WarmStart | None
    notes: tuple[str, ...]


@one_blas_thread()
def evaluate(
    space: SearchSpace,
    X: FloatArray,
    y: FloatArray,
    *,
    rule: StoppingRule,
    has_failed: NDArray[np.bool_] | None = None,
    previous: Sequence[StoppingRecord] = (),
    shared: Hyperparameters | None = None,
    warm_start: WarmStart | None = None,
    fold_scores: Sequence[float] | None = None,
    seed: int = 0,
) -> Evaluation:
    """Return the record of the n-th completion.

    A pure function of its arguments. A model that cannot be fitted gives no signal, and a note.

    Args:
        space: The search space, d dimensions.
        X: Points in the order of completion, the newest last, shape (n, d), n >= 1.
        y: Their values, **maximized**, finite, shape (n,).
        rule: Criterion, threshold and patience.
        has_failed: Which of them count as failed, shape (n,): they are not modeled, and if the
            newest is one of them, its record has no criterion. None for none.
        previous: Records of earlier completions, oldest first. Needed are the last ``patience`` - 1
            that have not failed and, until "median" has its threshold, the first ``n_initial`` that
            have a value. Those do not count that took a completion for a value which counts as
            failed by now.
        shared: Hyperparameters of a fit of the sampler's to these points; without them, or if they
            lack the noise variance, one is made.
        warm_start: :attr:`Evaluation.warm_start` of an earlier completion.
        fold_scores: Cross-validation scores of the best of these trials, if reported.
        seed: Seed of the candidates, combined with n.

    Returns:
        The record, in the objective's units, and the state from which the next fit may start.
    """
    failed = np.zeros(len(y), dtype=np.bool_) if has_failed is None else has_failed
    made = StoppingRecord(n_trials=len(y), n_failed=int(failed.sum()), has_failed=bool(failed[-1]))
    if made.has_failed:
        return Evaluation(made, None, ())
    previous = _without_mistaken(previous, failed)
    X, y = X[~failed], y[~failed]
    targets = StandardizedTargets.of(y)
    value, terms, next_start = math.inf, dict[str, float](), None
    notes: tuple[str, ...] = ()
    if len(y) > 1 and targets.std > 0.0:
        try:
            features = FeatureMap.of(space)
            subset = training_subset.indices(Observations.of_complete(X, y), features)
            X, y, z = X[subset], y[subset], targets.z[subset]
            model = _model(X, z, features, rule, shared, warm_start)
            next_start, notes = model.warm_start, model.notes
            value, terms = _criterion(space, X, y, model, targets.std, rule, seed)
        except errors.UNUSABLE as error:
            notes = (errors.note_without_model(error, "there is no signal"),)
    threshold = rule.threshold_of(value, terms, targets.std, previous, fold_scores)
    record = replace(made, value=value, threshold=threshold, terms=terms)
    terminate = rule.decides(record, previous)  # Algorithm 1, the end of one iteration
    return Evaluation(replace(record, terminate=terminate), next_start, notes)


def _without_mistaken(
    previous: Sequence[StoppingRecord], failed: NDArray[np.bool_]
) -> list[StoppingRecord]:
    """Return the records that did not model a completion which has turned out to be failed."""
    n_failed = np.cumsum(failed)
    return [record for record in previous if record.n_failed == n_failed[record.n_trials - 1]]


def _model(
    X: FloatArray,
    z: FloatArray,
    features: FeatureMap,
    rule: StoppingRule,
    shared: Hyperparameters | None,
    warm_start: WarmStart | None,
) -> StoppingModel:
    """Return the model of standardized targets ``z`` (n,) at ``X`` (n, d) with the rule's noise."""
    return StoppingModel.fit(
        X,
        z,
        features,
        minimum_noise=rule.noise_floor,
        deterministic=rule.deterministic_objective,
        shared=shared,
        warm_start=warm_start,
    )


def _criterion(
    space: SearchSpace,
    X: FloatArray,
    y: FloatArray,
    model: StoppingModel,
    std: float,
    rule: StoppingRule,
    seed: int,
) -> tuple[float, dict[str, float]]:
    """Return the criterion and its terms; ``std`` is the unit of the model's targets."""
    n = len(y)
    length_scales = model.after.hyperparameters.length_scales
    fresh = candidates(space, X, y, length_scales, np.random.default_rng((seed, n)))
    multiplier = confidence_multiplier(n + len(fresh), n, rule.delta)
    if rule.criterion == "regret-gap":
        before = model.before()
        posterior = predict_with_observed(before, np.concatenate([X[-1:], fresh]))
        upper, lower = regret_bound(*posterior, n - 1, multiplier)
        gap = gap_terms(_newest(before, model.after, y), upper - lower, rule.delta).times(std)
        return gap.value, {**asdict(gap), "std": std}
    mean, variance = predict_with_observed(model.after, fresh)
    if rule.criterion == "regret-bound":
        upper, lower = regret_bound(mean, variance, n, multiplier)
        return std * (upper - lower), {"std": std}
    expected, probability = improvement(mean, variance, float(mean[:n].max()))
    terms = {
        "expected_improvement": std * expected,
        "probability_of_improvement": probability,
        "std": std,
    }
    return terms[rule.criterion.replace("-", "_")], terms


def _newest(before: GaussianProcess, after: GaussianProcess, y: FloatArray) -> Update:
    """Return the newest observation as the step from ``before`` to ``after``."""
    best = int(np.argmax(y[:-1]))
    mean, covariance = before.predict_joint(after.X[[best, -1]])
    return Update(
        mean_best=float(mean[0]),
        mean_new=float(mean[1]),
        variance_best=float(covariance[0, 0]),
        variance_new=float(covariance[1, 1]),
        covariance=float(covariance[0, 1]),
        target=float(after.y[-1]),
        noise_variance=float(after.noise[-1]),
        improved=bool(y[-1] > y[best]),
    )
