"""Input warping: which parameters a stationary kernel had better see stretched at one end.

A parameter may be searched on a scale on which the objective's changes gather at one end: a
learning rate from 1e-6 to 1 that is not declared as logarithmic, a momentum up to 0.9999, or a
number of trees. No single length-scale fits both ends then. So a coordinate may be stretched
(:func:`bbo_plugins.space.dimension.stretch`) by a w with a size of
:data:`_SIZES`.

Which w each coordinate has is decided by :func:`warps_of` at a few moments of a study. They are
those that raise the log posterior of the hyperparameters most, found one coordinate after another,
each time the best of a few that one look at the likelihood promises. None is taken that gains less
than :data:`_LEAST_GAIN`, in one quantity and in all together, so that most spaces stay as they are.

========  ==================================================================
symbol    meaning
========  ==================================================================
X         points of the unit cube without warps, (n, d)
Z         standardized targets of k quantities, NaN where unknown, (n, k)
w         warps, 0 for none, (d,)
========  ==================================================================

Source: Snoek, Swersky, Zemel & Adams (2014), "Input Warping for Bayesian Optimization of
Non-Stationary Functions". Deviation: six logarithmic shapes and the identity, compared at a few
moments of a study, in place of the Beta distribution's two parameters with each coordinate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bbo_plugins.errors import without_unusable
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.fit import default_prior, fit_map, log_posterior
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.space.dimension import stretch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bbo_plugins.gp.fit import Fit, TailedPrior, WarmStart
    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_SIZES: Final = (30.0, 1e3, 3e4)  # of w, of either sign
_LEAST_GAIN = 5.0  # nats
_N_ENDS = 8  # ends of coordinates of which all sizes are looked at
_N_PROMISING = 3  # changes of one coordinate that are fitted in each round
_LOOKS = (-0.7, 0.0, 0.7)  # added to the coordinate's log length-scale to look at the likelihood
_FEW_LEVELS, _MOST_LEVELS = 16, 2**32  # a discrete parameter is warped with (16, 2**32] levels

_LEAST_VALUES = 12  # with which a quantity takes part
_MOST_CONSTRAINTS = 4  # which are violated most often
_MOST_ROUNDS = 8  # coordinates that get a warp in one decision

_Change = tuple[int, float]  # of which coordinate, to which w


@one_blas_thread()
def warps_of(space: SearchSpace, objectives: Sequence[Observations]) -> dict[str, float]:
    """Return the warps of the parameters that have one, by name.

    Args:
        space: The search space without warps.
        objectives: What is known, once per objective; where it is, is the same for all.
    """
    known = objectives[0]
    is_fine = [
        one.kind == "float" if one.n_levels is None else _FEW_LEVELS < one.n_levels <= _MOST_LEVELS
        for one in space.dimensions
    ]
    may_warp = np.array(is_fine, dtype=np.bool_) & space.may_warp
    violated = sorted(known.reported_constraints.values(), key=lambda one: -int((one > 0.0).sum()))
    targets = [np.where(np.isfinite(one), -one, np.nan) for one in violated[:_MOST_CONSTRAINTS]]
    targets.extend(np.where(one.has_value, one.y, np.nan) for one in objectives)
    targets = [one for one in targets if np.isfinite(one).sum() >= _LEAST_VALUES]
    varying = [one for one in targets if np.nanmin(one) < np.nanmax(one)]
    if not may_warp.any() or not varying:
        return {}
    Z = np.column_stack([_standardized(target) for target in varying])
    w = np.zeros(len(space))
    with without_unusable("Input warping"):
        w = _fit_warps(known.X, Z, FeatureMap.of(space), may_warp, space.active(known.X))
    return {space.names[j]: float(w[j]) for j in np.flatnonzero(w).tolist()}


def _standardized(values: FloatArray) -> FloatArray:
    """Return targets (n,) as the models have them, NaN where they are unknown."""
    known = np.isfinite(values)
    result = np.full(len(values), np.nan)
    result[known] = OutputTransform.fit(values[known]).forward(values[known])
    return result


def _fit_warps(
    X: FloatArray,
    Z: FloatArray,
    features: FeatureMap,
    may_warp: NDArray[np.bool_],
    active: NDArray[np.bool_],
) -> FloatArray:
    """Return the warps w (d,).

    Args:
        X: The points, shape (n, d).
        Z: Their targets, each standardized, shape (n, k).
        features: The feature map of the kernel, which has no trend.
        may_warp: Which coordinates may be warped, shape (d,).
        active: Where they exist, shape (n, d): a coordinate that does not keeps its place.

    Raises:
        ValueError: A covariance matrix could not be factorized at all.
    """
    w = np.zeros(X.shape[1])
    fits = _fits(X, Z, features, ())
    if any(fit.note is not None for fit in fits):  # there is nothing to be compared with
        return w
    for _ in range(min(int(may_warp.sum()), _MOST_ROUNDS)):
        best, least = None, _LEAST_GAIN
        for change in _promising(X, Z, features, w, may_warp, active, fits):
            moved = _moved(X, _changed(w, change), active)
            others = _fits(moved, Z, features, fits)
            gains = [
                new.log_posterior - old.log_posterior for new, old in zip(others, fits, strict=True)
            ]
            if max(gains) > _LEAST_GAIN and sum(gains) > least:
                best, least = (change, others), sum(gains)
        if best is None:
            break
        change, fits = best
        w = _changed(w, change)
    return w


def _promising(
    X: FloatArray,
    Z: FloatArray,
    features: FeatureMap,
    w: FloatArray,
    may_warp: NDArray[np.bool_],
    active: NDArray[np.bool_],
    fits: Sequence[Fit],
) -> list[_Change]:
    """Return the changes with the largest log posterior if only one length-scale adapts to them.

    First a middle warp of each end is looked at with the length-scales that there are.
    """

    def height(change: _Change, looks: Sequence[float]) -> float:
        moved, height = _moved(X, _changed(w, change), active), 0.0
        for (known, z), fit in zip(_targets(Z), fits, strict=True):
            value_at = log_posterior(moved[known], z, features, prior=_prior(features))
            theta = fit.warm_start.theta
            shifted = [theta + shift * (np.arange(len(theta)) == change[0]) for shift in looks]
            height += max(value_at(one)[0] for one in shifted)
        return height

    columns = np.flatnonzero(may_warp).tolist()
    ends = [(j, sign * _SIZES[1]) for j in columns for sign in (1.0, -1.0)]
    ends.sort(key=lambda change: -height(change, (0.0,)))
    changes = [(j, math.copysign(size, end)) for j, end in ends[:_N_ENDS] for size in _SIZES]
    changes += [(j, 0.0) for j in columns]
    changes = [(j, value) for j, value in changes if value != w[j]]
    return sorted(changes, key=lambda change: -height(change, _LOOKS))[:_N_PROMISING]


def _fits(
    X: FloatArray, Z: FloatArray, features: FeatureMap, before: Sequence[Fit]
) -> tuple[Fit, ...]:
    """Return the fit to each target, from where those ``before`` ended."""
    starts: list[WarmStart | None] = [fit.warm_start for fit in before] or [None] * Z.shape[1]
    return tuple(
        fit_map(X[known], z, features, warm_start=start, prior=_prior(features))
        for (known, z), start in zip(_targets(Z), starts, strict=True)
    )


def _prior(features: FeatureMap) -> TailedPrior:
    """Return the prior with heavy tails: a parameter that does not matter gains by no warp."""
    d = len(features.n_categories)
    prior = default_prior(d, features.n_together)
    return replace(prior, has_tail=np.arange(len(prior.location)) < d)


def _targets(Z: FloatArray) -> Iterator[tuple[NDArray[np.bool_], FloatArray]]:
    """Yield for each target where it is known, and its values there."""
    for z in Z.T:
        known = np.isfinite(z)
        yield known, z[known]


def _changed(w: FloatArray, change: _Change) -> FloatArray:
    """Return the warps after a change of one."""
    j, value = change
    result = w.copy()
    result[j] = value
    return result


def _moved(X: FloatArray, w: FloatArray, active: NDArray[np.bool_]) -> FloatArray:
    """Return the points (n, d) after input warping."""
    moved = X.copy()
    for j in np.flatnonzero(w).tolist():
        moved[:, j] = np.where(active[:, j], stretch(X[:, j], float(w[j])), X[:, j])
    return moved
