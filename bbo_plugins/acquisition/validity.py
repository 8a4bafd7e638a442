r"""The probability that an evaluation returns a value: that a point is valid.

Some settings cannot be evaluated: the training diverges, the simulator crashes, the user rejects
them. Which ones is learned by least-squares classification. A Gaussian process over the unit cube
has the label +1 at each point that was evaluated and -1 at each one that failed, both less m, their
mean (with one more point of either label). With its posterior mean μ and variance σ²,

    P(x is valid) = Φ((μ(x) + m) / √(σ²(x) + σ_n² + τ²)).

Acquisition functions are multiplied by it; expected improvement by its power
:attr:`Validity.exponent`, one for each failure up to 20. Far from all points it is the same
everywhere and changes no ranking. The hyperparameters are the maximum a posteriori as for values.
So an accident among successes is explained as noise σ_n², and a region of failures by the
length-scales. A sampler's fit starts from the latest one that is stored, BILBO's from nothing.

τ² keeps the penalty bounded: at a single failure P is about Φ(-1/τ) = 0.001, which a promising
neighborhood makes up for.

While most points have values there is no such model unless it predicts each label from the other
ones better than their proportion does, by :data:`_LEAST_GAIN` in log probability. So failures that
are accidents, wherever they happen, do not hide an optimum in few dimensions. In six or more the
length-scales, which are fitted to all labels, often make them look predictable.

Where trainings are cut off by a pruner is learned by the same model from graded labels
(:func:`fit_completion`), with :data:`_COMPLETION_EXPONENT` for a power. How many were cut off is no
measure: which ones are depends on the others, and mostly all but a few are.

Sources: Rasmussen & Williams (2006), "Gaussian Processes for Machine Learning", sections 6.5 (least
squares classification) and 5.4.2 (leaving one out); Gelbart, Snoek & Adams (2014), "Bayesian
Optimization with Unknown Constraints" (acquisition functions weighted by the probability of
success).

Deviations: no likelihood for labels but the Gaussian one, which needs no approximate inference; the
power. Of very many points the model has the latest failed ones, and as many successes, the nearest
to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr

from bbo_plugins.acquisition import functions
from bbo_plugins.errors import UNUSABLE, reason_of
from bbo_plugins.gp.fit import fit_map
from bbo_plugins.gp.posterior import GaussianProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.space.dimension import FloatArray

_MAX_OF_LABEL = 200  # points of either label that are modeled; with graded ones, of all
_PRIOR_POINTS = 2  # one of either label
_LARGEST_EXPONENT = 20
_COMPLETION_EXPONENT = 3
_LABEL_VARIANCE = 0.1  # τ²
_LEAST_GAIN = 2.0

FAILURES, COMPLETION = "Failures", "Completion"
VALIDITY_NAMES: Final = (FAILURES, COMPLETION)  # of the two models


@dataclass(frozen=True)
class Validities:
    """The models of where evaluations return a final value; :meth:`fit` builds them.

    Attributes:
        weights: The models, by which an acquisition function is multiplied: one of where they do
            not fail, if failures can be predicted, and one of where they are not cut off.
        predicts_failures: Whether the first one is among them. Else failures are accidents.
        notes: What could not be fitted, in words.
        warm_starts: What the next fits start from, those of models that are of no use among them.
    """

    weights: tuple[Validity, ...] = ()
    predicts_failures: bool = False
    notes: tuple[str, ...] = ()
    warm_starts: Mapping[str, WarmStart] = field(default_factory=dict)

    @classmethod
    def fit(
        cls,
        X: FloatArray,
        failed: FloatArray,
        progress: FloatArray | None,
        features: FeatureMap,
        *,
        mostly_failed: bool,
        warm_starts: Mapping[str, WarmStart | None],
    ) -> Validities:
        """Fit to points that were evaluated and points that failed.

        Args:
            X: Points that were evaluated, shape (n, d).
            failed: Points that failed, the latest ones last, shape (f, d).
            progress: How far each evaluation came: the share of all that came less far, 1 at the
                end, shape (n,); None if that is not known.
            features: The kernel's feature map, without a trend.
            mostly_failed: Whether more points failed than were evaluated.
            warm_starts: What earlier fits to nearly the same points left.
        """
        fits: dict[str, ValidityFit] = {}
        if len(failed):
            fits[FAILURES] = fit_validity(
                X,
                failed,
                features,
                mostly_failed=mostly_failed,
                warm_start=warm_starts.get(FAILURES),
            )
        if progress is not None and (progress < 1.0).any():
            start = warm_starts.get(COMPLETION)
            fits[COMPLETION] = fit_completion(X, progress, features, warm_start=start)
        return cls(
            weights=tuple(one.model for one in fits.values() if one.model is not None),
            predicts_failures=FAILURES in fits and fits[FAILURES].model is not None,
            notes=tuple(note for one in fits.values() for note in one.notes),
            warm_starts={
                name: one.warm_start for name, one in fits.items() if one.warm_start is not None
            },
        )


@dataclass(frozen=True)
class ValidityFit:
    """What comes of fitting one model.

    Attributes:
        model: The model, None if it cannot be fitted or is of no use.
        warm_start: What the next fit starts from, None if it could not be fitted.
        notes: A note if it could not be fitted.
    """

    model: Validity | None
    warm_start: WarmStart | None = None
    notes: tuple[str, ...] = ()


def fit_validity(
    X: FloatArray,
    failed: FloatArray,
    features: FeatureMap,
    *,
    mostly_failed: bool,
    warm_start: WarmStart | None = None,
) -> ValidityFit:
    """Fit the model of :meth:`Validity.of`, which is of use if it predicts failures.

    Args:
        X: Points that were evaluated, shape (n, d).
        failed: Points that failed, the latest ones last, shape (f, d), f >= 1.
        features: The kernel's feature map.
        mostly_failed: Whether more points failed than were evaluated; then the model is of use
            whatever it predicts.
        warm_start: What an earlier fit to nearly the same points left, or None.
    """
    try:
        model = Validity.of(X, failed, features, warm_start=warm_start)
        is_useful = mostly_failed or model.predictive_gain > _LEAST_GAIN
    except UNUSABLE as error:
        reason = reason_of(error)
        note = f"no model of where evaluations fail could be fitted ({reason}), so none is used"
        return ValidityFit(None, notes=(note,))
    return ValidityFit(model if is_useful else None, model.warm_start)


def fit_completion(
    X: FloatArray,
    progress: FloatArray,
    features: FeatureMap,
    *,
    warm_start: WarmStart | None = None,
) -> ValidityFit:
    """Fit the model of where trainings are not cut off by a pruner.

    The labels are graded, from -1 for those that were cut off first to +1 for those that ended. So
    the model tells what lasts longer as long as next to nothing ends.

    Args:
        X: Points whose evaluation ended or was cut off, the latest ones last, shape (n, d).
        progress: How far each came: the share of all that came less far, 1 at the end, shape (n,).
        features: The kernel's feature map.
        warm_start: What an earlier fit to nearly the same points left, or None.
    """
    X, labels = X[-_MAX_OF_LABEL:], 2.0 * progress[-_MAX_OF_LABEL:] - 1.0
    try:
        model = Validity.of_labels(
            X, labels, features, exponent=_COMPLETION_EXPONENT, warm_start=warm_start
        )
    except UNUSABLE as error:
        reason = reason_of(error)
        note = f"no model of where trials are pruned could be fitted ({reason}), so none is used"
        return ValidityFit(None, notes=(note,))
    return ValidityFit(model, model.warm_start)


@dataclass(frozen=True)
class Validity:
    """The model of the labels; :meth:`of` builds one.

    Attributes:
        process: Posterior of the label less m.
        label_mean: m.
        label_noise: Variance of a label's noise, σ_n² + τ².
        exponent: Power of P that multiplies expected improvement.
        warm_start: What the next fit starts from.
    """

    process: GaussianProcess
    label_mean: float
    label_noise: float
    exponent: int
    warm_start: WarmStart

    @classmethod
    def of(
        cls,
        X: FloatArray,
        failed: FloatArray,
        features: FeatureMap,
        *,
        warm_start: WarmStart | None = None,
    ) -> Validity:
        """Fit to points that were evaluated and points that failed.

        Args:
            X: Points that were evaluated, shape (n, d).
            failed: Points that failed, the latest ones last, shape (f, d), f >= 1.
            features: The kernel's feature map.
            warm_start: What an earlier fit to nearly the same points left, or None.

        Raises:
            ValueError: The covariance matrix could not be factorized at all.
        """
        failed = failed[-_MAX_OF_LABEL:]
        if len(X) > _MAX_OF_LABEL:
            distances = cdist(features.columns(X), features.columns(failed)).min(axis=1)
            X = X[np.sort(np.argsort(distances, kind="stable")[:_MAX_OF_LABEL])]
        points = np.concatenate([X, failed])
        labels = np.concatenate([np.ones(len(X)), np.full(len(failed), -1.0)])
        exponent = min(len(failed), _LARGEST_EXPONENT)
        return cls.of_labels(points, labels, features, exponent=exponent, warm_start=warm_start)

    @classmethod
    def of_labels(
        cls,
        X: FloatArray,
        labels: FloatArray,
        features: FeatureMap,
        *,
        exponent: int,
        warm_start: WarmStart | None = None,
    ) -> Validity:
        """Fit to points (n, d) and their labels (n,), from -1 to 1.

        Raises:
            ValueError: The covariance matrix could not be factorized at all.
        """
        mean = float(labels.sum()) / (len(labels) + _PRIOR_POINTS)
        fit = fit_map(X, labels - mean, features, warm_start=warm_start)
        process = GaussianProcess.of_fit(X, labels - mean, fit, features)
        variance = fit.hyperparameters.noise_variance + _LABEL_VARIANCE
        return cls(process, mean, variance, exponent, fit.warm_start)

    @property
    def predictive_gain(self) -> float:
        """How much better the labels are predicted by place than by their proportion.

        Each of them from the others; the sum of the differences in log probability.
        """
        labels, n = self.process.y + self.label_mean, len(self.process.y)
        mean, variance = self.process.leave_one_out()
        by_place = log_ndtr(labels * (mean + self.label_mean) / np.sqrt(variance + _LABEL_VARIANCE))
        n_alike = np.where(labels > 0.0, (labels > 0.0).sum(), (labels < 0.0).sum())
        proportion = n_alike / (n - 1 + _PRIOR_POINTS)  # of the others, with one more of either
        return float((by_place - np.log(proportion)).sum())

    def log_probability(self, X: FloatArray) -> FloatArray:
        """Return log P(valid) at ``X`` (m, d), shape (m,)."""
        mean, variance = self.process.predict(X)
        total = variance + self.label_noise
        return functions.log_probability_of_feasibility(mean, total, -self.label_mean).value

    def log_probability_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log P(valid) (m,) and its gradient (m, d) at ``X`` (m, d)."""
        mean, variance, pullback = self.process.predict_with_pullback(X)
        total = variance + self.label_noise
        valid = functions.log_probability_of_feasibility(mean, total, -self.label_mean)
        return valid.value, pullback(valid.by_mean, valid.by_variance)
