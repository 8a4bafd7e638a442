"""Optimizers to compare with: many starts of SciPy's L-BFGS-B, one start at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


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
