"""Outliers: values far worse than the others suggest, which say nothing of their points.

A training may fail by chance, as with an unlucky seed or a machine that is overloaded, and return a
value that is bad but not absurd. A Gaussian process takes it for noise. A few such values raise the
estimate of the noise everywhere, and all that is fine in the objective is lost.

So the targets are taken for a mixture: each is an outlier with probability :data:`_SHARE`, and then
it is drawn from N(0, :data:`_SPREAD`²), whatever its point. The most probable set of outliers is
searched for step by step. Each step adds targets that are worse than what all others predict of
them by :data:`_FAR` standard deviations, the worst ones first. Of these sets the most probable one
is taken, by the log posterior of hyperparameters and outliers, if it gains :data:`_LEAST_GAIN`. A
value better than predicted is never an outlier, as the search looks for such values. Neither are
the first three or so values of a branch with parameters of its own: their predictions are too
uncertain.

Of several objectives each is looked at by itself, and a point is left out if one of its values is
an outlier, unless no other point dominates it: what is best in one objective may be far worse in
another. At most :data:`_MOST` of the points are left out. If all objectives together have more
outliers, those of the objectives with the fewest come first.

========  ==================================================================
symbol    meaning
========  ==================================================================
X         points of the unit cube, (n, d)
z         standardized targets, maximized, (n,)
========  ==================================================================

Source: a greedy search for the points with a noise of their own is from Ament, Santorella,
Eriksson, Letham, Balandat & Bakshy (2024), "Robust Gaussian Processes via Relevance Pursuit".
Deviations: an outlier has the broad density above, in place of an estimated variance, and must be a
bad value.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.acquisition.hypervolume import n_dominating
from bbo_plugins.errors import without_unusable
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.fit import fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.targets import OutputTransform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_SHARE = 0.1  # of the targets, a priori
_SPREAD = 2.0  # of outliers, in standard deviations of all targets
_FAR = 2.0
_LEAST_GAIN = 3.0  # nats
_MOST = 0.3  # of the points
_AT_ONCE = 1.0 / 15.0  # of the targets, candidates of one step
_LEAST_SIZE = 0.3  # in standard deviations of all targets; a smaller error does little harm


@one_blas_thread()
def outliers_of(
    space: SearchSpace,
    X: FloatArray,
    Y: FloatArray,
    *,
    warm_starts: Sequence[WarmStart | None] = (),
) -> NDArray[np.bool_]:
    """Return at which points a value is an outlier, shape (n,).

    Args:
        space: The search space.
        X: The points, shape (n, d).
        Y: Their values of k objectives, maximized, finite, shape (n, k).
        warm_starts: For each objective, what an earlier fit to nearly the same data left, or None.
            A search may find other outliers from it: the likelihood may have several modes.
    """
    features = FeatureMap.of(space, trend=True)
    starts = [*warm_starts, *([None] * Y.shape[1])]
    of_each = []
    for y, start in zip(Y.T, starts, strict=False):
        with without_unusable("Outliers of an objective"):
            z = OutputTransform.fit(y).forward(y)
            of_each.append(_most_probable(X, z, features, start))
    is_dominated = n_dominating(Y) > 0
    of_each = [one & is_dominated for one in of_each]
    found = np.zeros(len(Y), dtype=np.bool_)
    for one in sorted(of_each, key=np.count_nonzero):
        if np.count_nonzero(found | one) <= _MOST * len(Y):
            found |= one
    return found


def _most_probable(
    X: FloatArray, z: FloatArray, features: FeatureMap, warm_start: WarmStart | None
) -> NDArray[np.bool_]:
    """Return which targets (n,) are outliers.

    Raises:
        ValueError: A covariance matrix could not be factorized at all.
    """
    n = len(z)
    found = taken = np.zeros(n, dtype=np.bool_)
    fit = fit_map(X, z, features, warm_start=warm_start)
    if fit.note is not None:  # there is nothing to be compared with
        return taken
    to_beat = fit.log_posterior + _LEAST_GAIN
    # The log of the odds that a target is an outlier, without the density of one that is none.
    odds = math.log(_SHARE / (1.0 - _SHARE)) - math.log(_SPREAD * math.sqrt(2.0 * math.pi))
    while True:
        rest = np.flatnonzero(~found)
        process = GaussianProcess.of_fit(X[rest], z[rest], fit, features)
        mean, variance = process.leave_one_out()
        errors = process.y - mean
        scores = errors / np.sqrt(variance)
        worst = np.argsort(scores)[: max(1, round(n * _AT_ONCE))]
        worst = rest[worst[(scores[worst] < -_FAR) & (errors[worst] < -_LEAST_SIZE)]]
        if not len(worst) or len(worst) + found.sum() > _MOST * n:
            break
        # Several hide one another: one step may gain too little, and two together enough.
        found = found.copy()
        found[worst] = True
        fit = fit_map(X[~found], z[~found], features, warm_start=fit.warm_start)
        height = fit.log_posterior + (odds - 0.5 * np.square(z[found] / _SPREAD)).sum()
        if height > to_beat:
            taken, to_beat = found, height
    return taken
