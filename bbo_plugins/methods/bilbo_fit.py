"""Hyperparameters of one function of a bilevel problem, in the units that suit it best.

Whether values far out are compressed (:mod:`bbo_plugins.methods.bilbo_units`) is decided by the log
density of the values in their own units, to which each kind of units contributes its Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist

from bbo_plugins.gp.fit import Fit, WarmStart, fit_map
from bbo_plugins.gp.surrogate import transformed_noise
from bbo_plugins.methods.bilbo_units import Units

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FeatureMap, FloatArray
    from bbo_plugins.methods.bilbo_model import FunctionData


@dataclass(frozen=True)
class FittedUnits:
    """Hyperparameters in some units.

    Attributes:
        units: The units.
        fit: The fit in them.
        known_noise: Known noise variances in squared model units, shape (n,), or None.
        log_evidence: Log density of the values in their own units, whatever the model's are, plus
            log prior; -inf if no hyperparameters could be fitted.
    """

    units: Units
    fit: Fit
    known_noise: FloatArray | None
    log_evidence: float

    @classmethod
    def of(
        cls, data: FunctionData, features: FeatureMap, units: Units, warm_start: WarmStart | None
    ) -> FittedUnits:
        """Fit in ``units``; does not raise where nothing can be fitted."""
        slope = units.derivative(data.y)
        known = None
        if data.noise_variance is not None:
            known = transformed_noise(data.noise_variance, slope)
        targets = units.forward(data.y)
        fit = fit_map(data.X, targets, features, known_noise=known, warm_start=warm_start)
        if fit.note is not None:
            return cls(units, fit, known, -np.inf)
        log_jacobian = float(np.log(np.maximum(slope, np.finfo(np.float64).tiny)).sum())
        return cls(units, fit, known, fit.log_posterior + log_jacobian)


def fit_in_best_units(
    data: FunctionData,
    features: FeatureMap,
    warm_start: WarmStart | None,
    *,
    everywhere: FloatArray,
    is_constraint: bool,
) -> FittedUnits:
    """Fit without and, if any value is far out, with compression; return the likelier fit.

    Args:
        data: The observations.
        features: The kernel's feature map.
        warm_start: What an earlier fit left, in units of either kind.
        everywhere: Points that fill the space, shape (m, d).
        is_constraint: Whether the function is a constraint.
    """
    plain = Units.fit(data.y, is_constraint=is_constraint)
    fitted = FittedUnits.of(data, features, plain, warm_start)
    shares = _shares(features.columns(data.X), features.columns(everywhere))
    compressing = Units.fit(data.y, is_constraint=is_constraint, shares=shares)
    if not compressing.compresses(data.y):
        return fitted
    other = FittedUnits.of(data, features, compressing, warm_start)
    return max(fitted, other, key=lambda one: one.log_evidence)


def _shares(columns: FloatArray, everywhere: FloatArray) -> FloatArray:
    """Return of how many points (m, D) of the space each observed one (n, D) is the nearest."""
    nearest = cdist(everywhere, columns).argmin(axis=1)
    return np.bincount(nearest, minlength=len(columns)).astype(np.float64)
