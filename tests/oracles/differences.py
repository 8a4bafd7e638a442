"""Numeric derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


def numeric_gradient(
    function: Callable[[FloatArray], float], x: FloatArray, step: float = 1e-3
) -> FloatArray:
    """Return the gradient of ``function`` at ``x`` (d,) by five-point differences, O(step⁴)."""
    gradient = np.empty(len(x))
    for i in range(len(x)):
        unit = np.zeros(len(x))
        unit[i] = step
        near = function(x + unit) - function(x - unit)
        far = function(x + 2.0 * unit) - function(x - 2.0 * unit)
        gradient[i] = (8.0 * near - far) / (12.0 * step)
    return gradient


def numeric_gradients(
    function: Callable[[FloatArray], FloatArray], X: FloatArray, step: float = 1e-3
) -> FloatArray:
    """Return the gradients (m, d) at ``X`` (m, d) of a ``function`` evaluated in batches."""
    return np.array(
        [numeric_gradient(lambda x: float(function(x[None, :])[0]), x, step) for x in X]
    )
