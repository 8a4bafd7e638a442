"""A function with a known maximum, and many starts of SciPy's L-BFGS-B, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Hill:
    """Minus the squared distance from a point: a function whose best point is known."""

    top: FloatArray

    def value(self, X: FloatArray) -> FloatArray:
        """Return the values at ``X`` (m, d), shape (m,)."""
        return self.value_and_gradient(X)[0]

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d)."""
        gaps = X - self.top
        values: FloatArray = -np.square(gaps).sum(axis=1)
        return values, -2.0 * gaps


def multi_start_maximum(
    function: Callable[[FloatArray], tuple[float, FloatArray]],
    starts: Iterable[FloatArray],
    bounds: list[tuple[float, float]],
) -> float:
    """Return the largest value that L-BFGS-B reaches from any of the ``starts``."""

    def negative(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = function(x)
        # -inf marks a point where the function has no value; L-BFGS-B steps back from a large one.
        return (1e10, np.zeros(len(x))) if value == -np.inf else (-value, -gradient)

    found = [
        optimize.minimize(
            negative, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-12}
        ).fun
        for start in starts
    ]
    return -float(min(found))
