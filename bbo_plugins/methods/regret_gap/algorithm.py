"""When to stop: a criterion, a threshold, patience, and one record per completed evaluation.

A criterion says what is still to be gained (:mod:`bbo_plugins.methods.regret_gap.bound`), a
threshold how
little is too little; the study is over when the criterion has been at or below its threshold for
``patience`` completions in a row and at least ``min_n_trials`` are there. Thresholds:

| threshold          | the criterion has to be at most                                       |
|--------------------|-----------------------------------------------------------------------|
| "relative"         | η times the standard deviation of y_1..y_t; η for a probability       |
| "median"           | η times the median of the first ``n_initial`` values, section 4.3     |
| "auto"             | s_t, Eq. (7); for the regret gap only                                 |
| "cross-validation" | standard deviation of the best trial's cross-validated value, Eq. (5) |
| a number           | that number, in the objective's units (or a probability)              |

The noise variance λ⁻¹ of the regret gap is the fitted one, but at least 1e-2 of the variance of the
values, 1e-4 with "median" and 1e-6 with "auto" (:attr:`StoppingRule.noise_floor`).

:func:`evaluate` makes the record of the n-th completion from the first n completions and the
records before it, all in the objective's own units and once and for all: a later record never
changes an earlier one. It is a pure function, so that whoever stores the records may compute them
in any process. For y -> a y + b, a > 0, every value and threshold is multiplied by a (a probability
is not) and no decision changes. Of more than 1,000 completions the model has a part
(:mod:`bbo_plugins.methods.training_subset`); standard deviation and threshold are those of all.

Source: Ishibashi et al. (2023), "A stopping criterion for Bayesian optimization by the gap of
expected minimum simple regrets"; "relative" and patience are choices of this project, made because
the paper's own stop a large share of studies too early ("auto") or few of them at all ("median").
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
    cross_validation_threshold,
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
    from collections.abc import Mapping, Sequence

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.likelihood import Hyperparameters
    from bbo_plugins.gp.posterior import GaussianProcess
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray, IntArray


@dataclass(frozen=True)
class Evaluation:
    """The outcome of :func:`evaluate`.

    Attributes:
        record: The record of the newest completion.
        warm_start: What the next call may start its fit from; None if there was none here.
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
    previous: Sequence[StoppingRecord] = (),
    shared: Hyperparameters | None = None,
    warm_start: WarmStart | None = None,
    fold_scores: Sequence[float] | None = None,
    seed: int = 0,
) -> Evaluation:
    """Return the record of the n-th completion.

    A pure function of its arguments. A model that cannot be fitted is no signal and said so in the
    notes, not an error.

    Args:
        space: The search space, d dimensions.
        X: Points in the order of completion, the newest last, shape (n, d), n >= 1.
        y: Their values, **maximized**, finite, shape (n,).
        rule: What decides.
        previous: Records of earlier completions, oldest first. Needed are the last ``patience`` - 1
            and, until "median" has its threshold, the first ``n_initial`` that have a value.
        shared: Hyperparameters of a fit of the sampler's to these points; without them one is made.
        warm_start: :attr:`Evaluation.warm_start` of an earlier completion.
        fold_scores: Cross-validation scores of the best of these trials, if reported.
        seed: Seed of the candidates, combined with n.

    Raises:
        ValueError: The shapes disagree, a value is not finite, or the scores are not usable.
    """
    _check_data(space, X, y)
    targets = StandardizedTargets.of(y)
    finding, left, notes = _NO_SIGNAL, None, tuple[str, ...]()
    if len(y) > 1 and targets.std > 0.0:
        try:
            features = FeatureMap(tuple(space.n_categories.tolist()))
            told = _told(X, y, features)
            model = StoppingModel.fit(
                X[told],
                targets.z[told],
                features,
                minimum_noise=rule.noise_floor,
                deterministic=rule.deterministic_objective,
                shared=shared,
                warm_start=warm_start,
            )
            left, notes = model.warm_start, model.notes
            finding = _find(space, X[told], y[told], model, targets.std, rule, seed)
        except (ArithmeticError, MemoryError, ValueError, np.linalg.LinAlgError) as error:
            reason = str(error) or type(error).__name__
            notes = (f"no model could be used ({reason}), so there is no signal",)
    record = StoppingRecord(
        n_trials=len(y),
        value=finding.value,
        threshold=_threshold(rule, finding, targets.std, previous, fold_scores),
        terms=finding.terms,
        terminate=False,
    )
    return Evaluation(replace(record, terminate=rule.decides(record, previous)), left, notes)


def _told(X: FloatArray, y: FloatArray, features: FeatureMap) -> IntArray:
    """Return which completions are modeled; the newest is the last of them."""
    complete = np.ones(len(y), dtype=np.bool_)
    everything = Observations(X=X, y=y, complete=complete, pending=X[:0])
    return training_subset.indices(everything, features)


@dataclass(frozen=True)
class _Finding:
    """A criterion's value, what it is made of, and the threshold that it brings along, if any."""

    value: float
    terms: Mapping[str, float]
    own_threshold: float = -math.inf


_NO_SIGNAL = _Finding(math.inf, {})


def _find(
    space: SearchSpace,
    X: FloatArray,
    y: FloatArray,
    model: StoppingModel,
    std: float,
    rule: StoppingRule,
    seed: int,
) -> _Finding:
    """Compute the criterion; ``std`` is the unit of the model's targets."""
    n = len(y)
    length_scales = model.after.hyperparameters.length_scales
    fresh = candidates(space, X, y, length_scales, np.random.default_rng((seed, n)))
    multiplier = confidence_multiplier(n + len(fresh), n, rule.delta)
    if rule.criterion == "regret-gap":
        before = model.before()
        posterior = predict_with_observed(before, np.concatenate([X[-1:], fresh]))
        upper, lower = regret_bound(*posterior, n - 1, multiplier)
        gap = gap_terms(_newest(before, model.after, y), upper - lower, rule.delta).times(std)
        return _Finding(gap.value, {**asdict(gap), "std": std}, gap.auto_threshold)
    mean, variance = predict_with_observed(model.after, fresh)
    if rule.criterion == "regret-bound":
        upper, lower = regret_bound(mean, variance, n, multiplier)
        return _Finding(std * (upper - lower), {"std": std})
    expected, probability = improvement(mean, variance, float(mean[:n].max()))
    terms = {
        "expected_improvement": std * expected,
        "probability_of_improvement": probability,
        "std": std,
    }
    return _Finding(terms[rule.criterion.replace("-", "_")], terms)


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


def _threshold(
    rule: StoppingRule,
    finding: _Finding,
    std: float,
    previous: Sequence[StoppingRecord],
    fold_scores: Sequence[float] | None,
) -> float:
    """Return what the criterion has to be at most, minus infinity if that is not known (yet)."""
    if not isinstance(rule.threshold, str):
        return float(rule.threshold)
    if rule.threshold == "relative":
        return rule.fraction * (1.0 if rule.is_probability else std)
    if rule.threshold == "median":
        return _median_threshold(rule, finding, previous)
    if rule.threshold == "auto":
        return finding.own_threshold
    return -math.inf if fold_scores is None else cross_validation_threshold(fold_scores)


def _median_threshold(
    rule: StoppingRule, finding: _Finding, previous: Sequence[StoppingRecord]
) -> float:
    """Return η times the median of the first values recorded, once there are enough of them."""
    for record in reversed(previous):
        if record.threshold > -math.inf:
            return record.threshold
    values = [*(record.value for record in previous), finding.value]
    initial = [value for value in values if value < math.inf][: rule.n_initial]
    if len(initial) < rule.n_initial:
        return -math.inf
    return rule.fraction * float(np.median(initial))


def _check_data(space: SearchSpace, X: FloatArray, y: FloatArray) -> None:
    if y.ndim != 1 or not len(y) or X.shape != (len(y), len(space)):
        message = (
            f"X and y must have shapes (n, {len(space)}) and (n,), n >= 1, "
            f"but got {X.shape} and {y.shape}."
        )
        raise ValueError(message)
    if not np.isfinite(y).all():
        raise ValueError(errors.rule_message("y", "finite", y))
