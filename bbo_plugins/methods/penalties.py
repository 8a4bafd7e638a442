"""Penalties that grow: values so bad that the good ones are predicted better without them.

An objective may add to its value what a setting violates, times a large number. At the border of
what is allowed its slope then changes by orders of magnitude. A model of all values bends along the
border, where the best value often is, and the distances from the median do not tell such penalties
where half of the space has them. So whether there is a cutoff, below which values count as
failures, is asked of the model itself.

A candidate leaves out the worst quarter, half or three quarters of the values. One model is fitted
to all values and one to those that are kept. Both predict the better half of these, each from the
others. The candidate with the largest gain in the sum of log densities is the cutoff, if it gains
more than it would in noise; that is more, the more is left out. Two more conditions hold:

- Without noise a density also tells apart predictions that are nearly exact. So the model of all
  values must miss the better half by more than a hundredth of the spread of what is kept. A search
  gathers its points at the best one, so only points apart from better ones count for that.
- At random places bad values are accidents. So the cutoff must gain as much on a model without the
  outliers (:mod:`bbo_plugins.methods.outliers`), if there are any.

========  ==================================================================
symbol    meaning
========  ==================================================================
X         points of the unit cube, (n, d)
y         values, maximized, (n,)
========  ==================================================================

Source: our own; leaving one out is from Rasmussen & Williams (2006), "Gaussian Processes for
Machine Learning", section 5.4.2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from bbo_plugins.errors import without_unusable
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.fit import fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods.outliers import outliers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

# Shares of the values that are left out, and the least gain per value, in nats. In 20, 40 and 80
# values of normal noise the largest of 25 gains was 0.6 to 1.2, 1.0 to 1.7, and 2.0 to 2.3.
_LEAST_GAINS = {0.25: 1.0, 0.5: 1.5, 0.75: 2.5}
_LEAST_ERROR = 0.01  # of the model of all values, in standard deviations of the kept ones
_LEAST_DISTANCE = 0.02  # of points that count for that, as a share of the unit cube's diagonal
_LEAST_APART = 5  # such points


@one_blas_thread()
def cutoff_of(space: SearchSpace, X: FloatArray, y: FloatArray, *, least_kept: int = 10) -> float:
    """Return the value below which others count as failures, minus infinity for none.

    Args:
        space: The search space, without conditions.
        X: The points, shape (n, d).
        y: Their values, maximized, finite, shape (n,).
        least_kept: How many values a cutoff has to keep, at least.
    """
    features = FeatureMap.of(space, trend=True)
    apart = _apart(features.columns(X), y, _LEAST_DISTANCE * math.sqrt(len(space)))
    best_first = np.sort(y)[::-1]
    cutoff, to_beat = -np.inf, 0.0
    everything = np.ones(len(y), dtype=np.bool_)
    by_everything = by_regular = None
    with without_unusable("A cutoff"), np.errstate(invalid="ignore"):
        for share, least_gain in _LEAST_GAINS.items():
            n_kept = round((1.0 - share) * len(y))
            if n_kept < least_kept:
                break
            kept, good = y >= best_first[n_kept - 1], y >= best_first[n_kept // 2 - 1]
            if kept.all() or y[good].min() == best_first[0] or (kept & apart).sum() < _LEAST_APART:
                continue  # nothing to leave out, or to predict
            if by_everything is None:
                by_everything, errors = _left_out(X, y, everything, features)
            spread = _spread(y[kept & apart])
            if not _root_mean_square(errors[good & apart]) > _LEAST_ERROR * spread:
                continue  # there is nothing to mend
            by_kept, _ = _left_out(X, y, kept, features)
            gain = float((by_kept - by_everything)[good].sum())
            least = least_gain * good.sum()
            if not gain > max(least, to_beat):  # nor if it is NaN
                continue
            if by_regular is None:
                regular = ~outliers_of(space, X, y[:, None])
                by_regular = by_everything
                if not regular.all():
                    by_regular, _ = _left_out(X, y, regular, features)
            if np.nansum((by_kept - by_regular)[good]) > least:  # NaN at the outliers
                to_beat, cutoff = gain, _between(y[~kept].max(), y[kept].min())
    return cutoff


def _apart(columns: FloatArray, y: FloatArray, least: float) -> NDArray[np.bool_]:
    """Return which points are not close to a better one that is among them, shape (n,)."""
    chosen = np.zeros(len(y), dtype=np.bool_)
    for row in np.argsort(-y, kind="stable"):
        gaps = np.square(columns[chosen] - columns[row]).sum(axis=1)
        chosen[row] = not (gaps < least**2).any()
    return chosen


def _between(low: float, high: float) -> float:
    """Return a number above ``low``, at most ``high``, in the middle if there is one."""
    return float(max(low / 2.0 + high / 2.0, np.nextafter(low, high)))


def _spread(values: FloatArray) -> float:
    """Return the standard deviation, also of values whose sum would overflow."""
    largest = float(np.abs(values).max()) or 1.0
    scaled = values / largest
    return largest * _root_mean_square(scaled - scaled.mean())


def _root_mean_square(values: FloatArray) -> float:
    """Return the root of the mean square; squares neither overflow nor underflow."""
    return float(scipy.linalg.norm(values)) / math.sqrt(len(values))


def _left_out(
    X: FloatArray, y: FloatArray, kept: NDArray[np.bool_], features: FeatureMap
) -> tuple[FloatArray, FloatArray]:
    """Predict each value that is kept from the other ones.

    Returns:
        Their log densities, and the errors of the predictions in units of y. Each has the shape
        (n,), and NaN for what is not kept.

    Raises:
        ValueError: A covariance matrix could not be factorized at all.
    """
    transform = OutputTransform.fit(y[kept])
    z, slopes = transform.forward(y[kept]), transform.derivative(y[kept])
    fit = fit_map(X[kept], z, features)
    mean, variance = GaussianProcess.of_fit(X[kept], z, fit, features).leave_one_out()
    density = np.square(z - mean) / variance + np.log(2.0 * np.pi * variance)
    densities, errors = np.full((2, len(y)), np.nan)
    densities[kept] = np.log(slopes) - 0.5 * density
    errors[kept] = (z - mean) / slopes
    return densities, errors
