r"""What trainings that were cut off would have come to, as those that ended tell.

A pruner ends a trial after a few steps for being worse than others at the same step. Its last
report is not what its training would have come to, mostly far worse. By how much is learned from
the trials that went further: a linear regression for each step s at which trials were cut off,

    u(final value) - u(report at s) = a + c (u(report at s) - their mean) + e,    e ~ N(0, σ²)
    u(y) = -log(1 + (b - y) / m) for y <= b,    (y - b) / m above

with a flat prior of a, and c ~ N(0, 1/4): unless the trials say otherwise, what is ahead at one
step is ahead by as much at the end. On the scale of u that is as large a share of the distance from
the best value b, where this is larger than m: losses that are far off, and there may be many, tell
little of those that matter. The prediction has a variance: that of what follows, and of a and c. So
a model of the final values trusts a report after one step less than one shortly before the end.

Trials that were cut off at one step share the errors of a and c, which a model that takes errors
for independent would average out: of many such trials it would trust what none of them tells. So
this part of the variance is multiplied by their number. Then their mean has the variance that they
share.

Steps are taken from the last to the first. A trial that was cut off later then counts as one whose
final value is known with the variance of its prediction: it says what follows an early report among
trials that a pruner does not keep.

σ² is estimated along with a and c, with one more squared residual of the mean size. The report at s
is that of the latest step up to s.

| symbol | meaning                                                                      |
|--------|------------------------------------------------------------------------------|
| u      | scale of the regression; the symbols below s have its unit                   |
| b      | best final value that is known                                               |
| m      | median distance from b of the others, in units of the values                 |
| s      | step, in the units of ``Trial.report``                                       |
| a      | what follows on average after step s                                         |
| c      | how much more follows after a report that is larger by one                   |
| σ²     | variance of what follows                                                     |
| v²     | variance of a final value that was predicted itself, 0 for one that is known |
| w      | weight of a pair of report and final value, σ² / (σ² + v²)                   |

Source: the posterior of a linear regression, Rasmussen & Williams (2006), section 2.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.space.dimension import FloatArray

_LEAST_PAIRS = 3  # known final values, from which on others are predicted
_SLOPE_VARIANCE = 0.25  # of c, before any pair
_MAX_STEPS = 64  # for each of which there is a regression
_WIDEST_GAP = 3.0  # in units m, between last reports and final values of the same quantity
_N_ROUNDS = 5  # of the estimates of σ² and c in turns
_LEAST_VARIANCE = 1e-12  # σ²; below it there is only rounding error


class LearningCurve(NamedTuple):
    """What one trial reported.

    Attributes:
        steps: Its steps, increasing whole numbers, shape (r,).
        values: The finite values reported there, maximized, shape (r,).
    """

    steps: FloatArray
    values: FloatArray


def predict_finals(
    curves: Sequence[LearningCurve], finals: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the final values of n trials, predicted where they are not known.

    Args:
        curves: What each has reported; one without a report teaches nothing.
        finals: Their final values, maximized; NaN for a trial that was cut off, shape (n,).

    Returns:
        The values (n,), and the variances of those that were predicted (n,), else NaN. A value is
        NaN if too few trials with a known final value have reported as early, or if the reports
        seem to be of another quantity than the final values.
    """
    scale = _Scale.of(finals, curves)
    u_finals, variances = scale.forward(finals), np.full(len(finals), np.nan)
    if not _are_of_one_quantity(curves, finals, scale.unit):
        return finals.copy(), variances
    means = u_finals.copy()
    last = _last_steps(curves, finals)
    steps = np.unique(last[~np.isnan(last)])[::-1]
    reports = np.array([_reports_at(curve, steps) for curve in curves])
    for step, reported in zip(steps, reports.T, strict=True):
        column = scale.forward(reported)
        paired = np.flatnonzero(~np.isnan(means) & ~np.isnan(column))
        if (~np.isnan(u_finals[paired])).sum() < _LEAST_PAIRS:
            continue
        with np.errstate(all="ignore"):  # of values close to the largest floats
            regression = _Regression.fit(
                column[paired], means[paired], np.nan_to_num(variances[paired])
            )
            rows = np.flatnonzero(last == step)
            predicted, variance = regression.predict(column[rows])
        usable = np.isfinite(predicted) & np.isfinite(variance)
        means[rows[usable]], variances[rows[usable]] = predicted[usable], variance[usable]
    return scale.backward(finals, means, variances)


def _are_of_one_quantity(curves: Sequence[LearningCurve], finals: FloatArray, unit: float) -> bool:
    """Return whether the last reports of the n trials that ended are near their final values."""
    gaps = [
        abs(float(curve.values[-1]) - final)
        for curve, final in zip(curves, finals.tolist(), strict=True)
        if len(curve.steps) and not math.isnan(final)
    ]
    return not gaps or float(np.median(gaps)) <= _WIDEST_GAP * unit


def _last_steps(curves: Sequence[LearningCurve], finals: FloatArray) -> FloatArray:
    """Return the last step of each of n trials that was cut off, else NaN, shape (n,).

    Of very many different steps some are taken, each for those up to the next one.
    """
    last = np.array(
        [
            curve.steps[-1] if len(curve.steps) and math.isnan(final) else math.nan
            for curve, final in zip(curves, finals.tolist(), strict=True)
        ],
        dtype=np.float64,
    )
    is_cut = ~np.isnan(last)
    steps = np.unique(last[is_cut])
    if len(steps) > _MAX_STEPS:
        steps = steps[np.linspace(0, len(steps) - 1, _MAX_STEPS).astype(np.int64)]
        last[is_cut] = steps[np.searchsorted(steps, last[is_cut], side="right") - 1]
    return last


def _reports_at(curve: LearningCurve, steps: FloatArray) -> FloatArray:
    """Return what was reported last up to each of ``steps`` (m,), NaN where nothing was, (m,)."""
    if not len(curve.steps):
        return np.full(len(steps), np.nan)
    index = np.searchsorted(curve.steps, steps, side="right") - 1
    return np.where(index < 0, np.nan, curve.values[index])


@dataclass(frozen=True)
class _Scale:
    """The scale u of the regressions.

    Attributes:
        best: b.
        unit: m.
    """

    best: float
    unit: float

    @classmethod
    def of(cls, finals: FloatArray, curves: Sequence[LearningCurve]) -> _Scale:
        """Return the scale of final values (n,), NaN where unknown.

        If all that are known are equal, the unit is the median distance of the reports from them.
        """
        known = finals[~np.isnan(finals)]
        best = float(known.max(initial=-np.inf)) if len(known) else 0.0
        reports = [curve.values for curve in curves]
        for values in (known, np.concatenate([known, *reports])):
            below = 0.5 * best - 0.5 * values[values < best]
            unit = 2.0 * float(np.median(below)) if len(below) else 0.0
            if 0.0 < unit < math.inf:
                return cls(best, unit)
        return cls(best, 1.0)

    def forward(self, values: FloatArray) -> FloatArray:
        """Return u of values (n,)."""
        with np.errstate(over="ignore"):
            distance = (self.best - values) / self.unit
        return np.where(distance > 0.0, -np.log1p(np.maximum(distance, 0.0)), -distance)

    def backward(
        self, finals: FloatArray, means: FloatArray, variances: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return values (n,) and variances (n,) in units of the values.

        Args:
            finals: Final values where they are known, shape (n,); these are returned as they are.
            means: Means of u, NaN where there is none, shape (n,).
            variances: Variances of u, NaN where there is none, shape (n,).
        """
        with np.errstate(over="ignore", invalid="ignore"):
            below = np.minimum(means, 0.0)
            values = self.best + self.unit * np.where(means < 0.0, -np.expm1(-below), means)
            spread = variances * np.square(self.unit * np.exp(-below))
        values = np.where(np.isnan(finals), values, finals)
        usable = np.isfinite(values) & np.isfinite(spread)
        is_final = ~np.isnan(finals)
        return np.where(usable | is_final, values, np.nan), np.where(usable, spread, np.nan)


@dataclass(frozen=True)
class _Regression:
    """What follows after a report at one step; :meth:`fit` builds one.

    All is on the scale u.

    Attributes:
        center: Mean of the reports.
        rise: a.
        slope: c.
        variance: σ².
        n: Sum of the weights.
        precision: That of c, times σ².
    """

    center: float
    rise: float
    slope: float
    variance: float
    n: float
    precision: float

    @classmethod
    def fit(cls, reports: FloatArray, finals: FloatArray, uncertain: FloatArray) -> _Regression:
        """Fit to pairs.

        Args:
            reports: Values at the step, shape (p,), p >= 1.
            finals: Final values, shape (p,).
            uncertain: v², variances of these, 0 for one that is known, shape (p,).
        """
        follows = finals - reports
        variance = max(float(np.var(follows[uncertain == 0.0])), _LEAST_VARIANCE)
        for _ in range(_N_ROUNDS):
            w = variance / (variance + uncertain)
            n = float(w.sum())
            center, rise = float(w @ reports) / n, float(w @ follows) / n
            x, y = reports - center, follows - rise
            precision = float(w @ np.square(x)) + variance / _SLOPE_VARIANCE
            slope = float(w @ (x * y)) / precision
            squares = float(w @ np.square(y - slope * x))
            mean_square = float(w @ np.square(y)) / n
            # Of n + 1 squares, less a and c.
            variance = max((squares + mean_square) / (n - 1.0), _LEAST_VARIANCE)
        return cls(center, rise, slope, variance, n, precision)

    def predict(self, reports: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the final values after ``reports`` (q,), (q,) each."""
        x = reports - self.center
        mean = reports + self.rise + self.slope * x
        shared = 1.0 / self.n + np.square(x) / self.precision
        return mean, self.variance * (1.0 + len(reports) * shared)
