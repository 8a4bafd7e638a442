"""When to stop: a criterion, a threshold, patience, and one record per completed evaluation.

A criterion says what is still to be gained (:mod:`bbo_plugins.methods.regret_gap`), a threshold how
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
(:mod:`bbo_plugins.methods.active_set`); standard deviation and threshold are those of all.

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
from bbo_plugins.gp.likelihood import NOISE_FLOOR
from bbo_plugins.methods import active_set
from bbo_plugins.methods.observations import Observations
from bbo_plugins.methods.regret_gap import (
    Update,
    confidence_multiplier,
    cross_validation_threshold,
    gap_terms,
    improvement,
    regret_bound,
)
from bbo_plugins.methods.stopping_model import (
    StandardizedTargets,
    StoppingModel,
    candidates,
    predict_with_observed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.kernels import FloatArray, IntArray
    from bbo_plugins.gp.likelihood import Hyperparameters
    from bbo_plugins.gp.regression import GaussianProcess
    from bbo_plugins.space import SearchSpace

CRITERIA = ("regret-gap", "regret-bound", "expected-improvement", "probability-of-improvement")
THRESHOLDS = ("relative", "auto", "median", "cross-validation")
_WITH_ETA = ("relative", "median")
# Smallest noise variance for the regret gap, of the variance of the standardized targets, by the
# threshold; chosen by measurement, docs/terminator.md. The KL divergence grows without limit as the
# noise vanishes: with next to none the gap of a study that has converged hardly falls below a
# share of the values' deviation. Thresholds made of gaps, or of Eq. (7), move with the noise, and
# do with less of it. The rivals have no such term, and take the noise as it was fitted.
_GAP_NOISE = 1e-2
_GAP_NOISE_OF = {"median": 1e-4, "auto": NOISE_FLOOR}


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """What decides; checked at construction.

    Attributes:
        threshold: One of :data:`THRESHOLDS` or a positive number, see the module.
        criterion: One of :data:`CRITERIA`.
        eta: η of "relative" and "median", in (0, 1). None for 0.1 with "relative" (0.2 if the
            objective is deterministic, 0.01 for a probability) and 0.01 with "median".
        patience: Number of completions in a row that have to agree.
        n_initial: Number of recorded criteria whose median the "median" threshold takes.
        delta: δ, the probability with which confidence bounds may fail.
        min_n_trials: Number of completions before which nothing is stopped.
        deterministic_objective: Whether the same point always has the same value.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range, the threshold is not one of this
            criterion, or ``eta`` is given with a threshold that has none.
    """

    threshold: str | float = "relative"
    criterion: str = "regret-gap"
    eta: float | None = None
    patience: int = 3
    n_initial: int = 20
    delta: float = 0.1
    min_n_trials: int = 20
    deterministic_objective: bool = False

    def __post_init__(self) -> None:
        """Check the arguments."""
        errors.check_word("criterion", self.criterion, CRITERIA)
        self._check_threshold()
        _check_fraction("delta", self.delta)
        errors.check_int("patience", self.patience, minimum=1)
        errors.check_int("n_initial", self.n_initial, minimum=1)
        errors.check_int("min_n_trials", self.min_n_trials, minimum=2)
        errors.check_bool("deterministic_objective", self.deterministic_objective)
        if self.eta is not None:
            _check_fraction("eta", self.eta)
            if self.threshold not in _WITH_ETA:
                rule = f"None with threshold={self.threshold!r}, which has no eta"
                raise ValueError(errors.rule_message("eta", rule, self.eta))

    def _check_threshold(self) -> None:
        if not isinstance(self.threshold, str):
            if self.is_probability:
                _check_fraction("threshold", self.threshold)
            else:
                errors.check_positive("threshold", self.threshold)
            return
        errors.check_word("threshold", self.threshold, THRESHOLDS)
        unfit = (self.threshold == "auto" and self.criterion != "regret-gap") or (
            self.threshold == "cross-validation" and self.is_probability
        )
        if unfit:
            rule = f"another one with criterion={self.criterion!r}"
            raise ValueError(errors.rule_message("threshold", rule, self.threshold))

    @property
    def is_probability(self) -> bool:
        """Whether the criterion is one, and has no unit."""
        return self.criterion == "probability-of-improvement"

    @property
    def fraction(self) -> float:
        """η, also where it was left at its default."""
        if self.eta is not None:
            return float(self.eta)
        if self.threshold == "median" or self.is_probability:
            return 0.01
        return 0.2 if self.deterministic_objective else 0.1

    @property
    def noise_floor(self) -> float:
        """The smallest λ⁻¹ that the model has, of the variance of the standardized targets."""
        if self.criterion != "regret-gap" or self.deterministic_objective:
            return NOISE_FLOOR
        return _GAP_NOISE_OF.get(str(self.threshold), _GAP_NOISE)

    def decides(self, record: StoppingRecord, previous: Sequence[StoppingRecord]) -> bool:
        """Return whether ``record`` is the last of enough consecutive ones below the threshold."""
        if record.n_trials < self.min_n_trials:
            return False
        return self.n_agreeing(record, previous) == self.patience

    def n_agreeing(self, record: StoppingRecord, previous: Sequence[StoppingRecord]) -> int:
        """Return how many consecutive records, ``record`` the last, are below the threshold.

        No more than ``patience`` are counted.
        """
        if not record.is_below:
            return 0
        agreeing = 1
        for earlier in reversed(previous):
            if agreeing == self.patience or not earlier.is_below:
                break
            if earlier.n_trials != record.n_trials - agreeing:
                break
            agreeing += 1
        return agreeing


@dataclass(frozen=True, kw_only=True)
class StoppingRecord:
    """What was found after one completion, in the objective's own units.

    A record can be stored as the JSON of its ``dataclasses.asdict``.

    Attributes:
        n_trials: Number of completions it is about.
        value: The criterion; infinite where there is no signal, as for a constant objective.
        threshold: What it is compared with; minus infinity where there is none (yet).
        terms: What the criterion is made of, by name; empty without a signal.
        terminate: Whether the rule says to stop.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import RegretGapTerminator

            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2, n_trials=8)
            record = RegretGapTerminator().evaluate(study)
            assert record.n_trials == 8
            assert record.is_below == (record.value <= record.threshold)
    """

    n_trials: int
    value: float
    threshold: float
    terms: Mapping[str, float]
    terminate: bool

    @property
    def is_below(self) -> bool:
        """Whether there is a signal, at or below its threshold; patience aside."""
        return self.value < math.inf and self.value <= self.threshold


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
    return active_set.indices(everything, features)


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


def _check_fraction(argument: str, value: object) -> None:
    errors.check_real(argument, value, "a number between 0 and 1", lambda x: 0.0 < x < 1.0)
