"""Independent normal priors on the logarithms of the kernel's hyperparameters.

    log ℓ_i ~ N(log(0.35 √d), 1),    log s² ~ N(0, 1),    log σ_n² ~ N(log 1e-3, 2²)

on standardized targets and unit-cube inputs. The length-scale's location grows with √d, as typical
distances in the cube do (the argument of Hvarfner, Hellsten & Nardi 2024, "Vanilla Bayesian
Optimization Performs Great in High Dimensions"). The constants are a choice of this project, not of
one of its papers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FloatArray

LENGTH_SCALE_LOCATION = 0.35
NOISE_LOCATION = 1e-3


class LogPrior(Protocol):
    """A log density over log hyperparameters θ = (log ℓ_1..log ℓ_d, log s², log σ_n²)."""

    @property
    def location(self) -> FloatArray:
        """A point of high density, where a cold fit starts, shape (d + 2,)."""

    @property
    def scale(self) -> FloatArray:
        """A typical spread around the location, shape (d + 2,)."""

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density (up to a constant) and its gradient at ``theta`` (d + 2,)."""


@dataclass(frozen=True)
class NormalPrior:
    """Independent normal distributions over θ, the default of :func:`bbo_plugins.gp.fit.fit_map`.

    Attributes:
        location: Means, shape (d + 2,).
        scale: Standard deviations, shape (d + 2,).
    """

    location: FloatArray
    scale: FloatArray

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density (without its constant) and its gradient at ``theta`` (d + 2,)."""
        z = (theta - self.location) / self.scale
        return -0.5 * float(z @ z), -z / self.scale


def default_prior(n_dimensions: int) -> NormalPrior:
    """Return the prior of this module's docstring for ``n_dimensions`` length-scales."""
    length_scale = math.log(LENGTH_SCALE_LOCATION * math.sqrt(n_dimensions))
    location = np.array([length_scale] * n_dimensions + [0.0, math.log(NOISE_LOCATION)])
    scale = np.array([1.0] * n_dimensions + [1.0, 2.0])
    return NormalPrior(location=location, scale=scale)
