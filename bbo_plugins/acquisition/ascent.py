"""Batched projected quasi-Newton ascent in a box: many starts advance together.

Each start keeps its own inverse Hessian, step length and set of active bounds, but every iteration
evaluates the next point of all of them in one call, so that the cost is that of BLAS-3 on a batch.
A start whose point does not improve enough shortens its step and tries again in the next iteration,
beside the others. A start leaves the batch when it has converged, or when a multiple of the gain it
predicts for itself would not lift it above the best value so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.space.dimension import FloatArray

_MAX_ITERATIONS = 60
_FIRST_STEP = 0.2  # longest first step of a start, in units of `scale`
_ARMIJO = 1e-4
_SHORTEN = 0.3
_TOLERANCE = 1e-4  # predicted gain at convergence, see _unit
_LEAST_CURVATURE = 1e-9  # cosine of a step and the change of the gradient
_SHORTEST_STEP = 1e-7  # in units of `scale`
_LEARNING = 4  # iterations before predicted gains are trusted to drop a start
_OPTIMISM = 5.0  # predicted gains a start must need to reach the best value to be dropped


class Differentiable(Protocol):
    """A function with gradients, evaluated in batches."""

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d) at ``X`` (m, d)."""


@dataclass
class _Climbers:
    """State of the starts that still climb; B of them, k free coordinates."""

    index: NDArray[np.int64]  # (B,) position among all starts
    Z: FloatArray  # (B, k) free coordinates divided by the scale
    value: FloatArray  # (B,)
    gradient: FloatArray  # (B, k) with respect to Z
    H: FloatArray  # (B, k, k) inverse Hessian of minus the function
    first: NDArray[np.bool_]  # (B,) whether H has not been updated yet
    step: FloatArray  # (B,) length of the next step relative to the quasi-Newton step

    def keep(self, mask: NDArray[np.bool_]) -> None:
        for name, array in vars(self).items():
            setattr(self, name, array[mask])


def ascend(
    function: Differentiable,
    starts: FloatArray,
    *,
    free: NDArray[np.bool_],
    scale: FloatArray,
    max_iterations: int = _MAX_ITERATIONS,
) -> tuple[FloatArray, FloatArray]:
    """Climb from every start inside the unit cube; return the points (B, d) and their values (B,).

    Args:
        function: The function to maximize.
        starts: Points to start from, shape (B, d).
        free: Which coordinates may move, shape (d,).
        scale: Distance over which the function varies in each coordinate, shape (d,).
        max_iterations: Bound on the number of batched evaluations.
    """
    X = starts.copy()
    value, gradient = function.value_and_gradient(X)
    values = np.where(np.isfinite(value), value, -np.inf)
    columns = np.flatnonzero(free)
    if not len(columns):
        return X, values
    scale = scale[columns]
    gradient = gradient[:, columns] * scale
    unit = _unit(values, gradient)
    climbers = _Climbers(
        index=np.arange(len(X)),
        Z=X[:, columns] / scale,
        value=values / unit,
        gradient=gradient / unit,
        H=np.tile(np.eye(len(columns)), (len(X), 1, 1)),
        first=np.ones(len(X), dtype=bool),
        step=np.ones(len(X)),
    )
    climbers.keep(np.isfinite(climbers.value) & np.isfinite(climbers.gradient).all(axis=1))
    for iteration in range(max_iterations):
        direction, gain, longest = _directions(climbers, 1.0 / scale)
        going = (gain > _TOLERANCE) & (climbers.step * longest > _SHORTEST_STEP)
        if iteration >= _LEARNING:
            going &= climbers.value + _OPTIMISM * gain >= values.max() / unit
        if not going.all():
            climbers.keep(going)
            direction = direction[going]
        if not len(climbers.index):
            break
        Z = climbers.Z + climbers.step[:, None] * direction
        Z = np.minimum(np.maximum(Z, 0.0), 1.0 / scale)
        points = X[climbers.index]
        points[:, columns] = Z * scale
        value, gradient = function.value_and_gradient(points)
        accepted = _advance(climbers, Z, value / unit, gradient[:, columns] * (scale / unit))
        moved = climbers.index[accepted]
        X[moved] = points[accepted]
        values[moved] = value[accepted]
    return X, values


def _unit(values: FloatArray, gradient: FloatArray) -> float:
    """Return the height in which the function is measured: at most 1, less if it is flatter.

    Steps and tolerances then do not depend on the function's own units, however small they are.
    """
    known = np.isfinite(values) & np.isfinite(gradient).all(axis=1)
    if not known.any():
        return 1.0
    height = max(float(np.ptp(values[known])), float(np.abs(gradient[known]).max()))
    return min(1.0, height) if height > np.finfo(np.float64).tiny else 1.0


def _directions(
    climbers: _Climbers, upper: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return projected quasi-Newton directions (B, k), the gains they predict and their lengths."""
    gradient = climbers.gradient
    blocked = (climbers.Z <= 0.0) & (gradient <= 0.0)
    blocked |= (upper <= climbers.Z) & (gradient >= 0.0)
    projected = np.where(blocked, 0.0, gradient)
    direction = np.matmul(climbers.H, projected[:, :, None])[:, :, 0]
    direction[blocked] = 0.0
    gain = _products(direction, projected)
    longest = np.abs(direction).max(axis=1)
    # Before the first update H knows nothing of the function's scale: limit the first step instead.
    too_long = climbers.first & (longest > _FIRST_STEP)
    if too_long.any():
        shrink = np.where(too_long, _FIRST_STEP / np.where(too_long, longest, 1.0), 1.0)
        return direction * shrink[:, None], gain * shrink, longest * shrink
    return direction, gain, longest


def _advance(
    climbers: _Climbers, Z: FloatArray, value: FloatArray, gradient: FloatArray
) -> NDArray[np.bool_]:
    """Move the climbers whose evaluated points ``Z`` improve enough; return which did."""
    move = Z - climbers.Z
    predicted = _products(climbers.gradient, move)
    accepted = np.isfinite(value) & np.isfinite(gradient).all(axis=1)
    accepted &= value >= climbers.value + _ARMIJO * np.maximum(predicted, 0.0)
    if accepted.all():
        climbers.step[:] = 1.0
        rows = np.arange(len(Z))
        _update_inverse_hessians(climbers, rows, move, climbers.gradient - gradient)
        climbers.Z, climbers.value, climbers.gradient = Z, value, gradient
        return accepted
    climbers.step = np.where(accepted, 1.0, climbers.step * _SHORTEN)
    rows = np.flatnonzero(accepted)
    _update_inverse_hessians(climbers, rows, move[rows], climbers.gradient[rows] - gradient[rows])
    climbers.Z[rows] = Z[rows]
    climbers.value[rows] = value[rows]
    climbers.gradient[rows] = gradient[rows]
    return accepted


def _update_inverse_hessians(
    climbers: _Climbers, rows: NDArray[np.int64], s: FloatArray, y: FloatArray
) -> None:
    """Apply the BFGS update to ``H`` of ``rows``, except for pairs without positive curvature.

    A coordinate that has not moved, as at a bound, is left out of ``y`` (B, k). For those that move
    H is to be the inverse of their block of the Hessian (Bertsekas 1982, "Projected Newton Methods
    for Optimization Problems with Simple Constraints"). The block of the whole inverse is larger:
    steps would be too long.
    """
    y = np.where(s == 0.0, 0.0, y)
    curvature = _products(s, y)
    y_squared = _products(y, y)
    useful = curvature > _LEAST_CURVATURE * np.sqrt(_products(s, s) * y_squared)
    if not useful.all():
        rows, s, y = rows[useful], s[useful], y[useful]
        curvature, y_squared = curvature[useful], y_squared[useful]
    if not len(rows):
        return
    H = climbers.H[rows]
    first = climbers.first[rows]
    if first.any():  # Nocedal & Wright (2006), Eq. (6.20)
        H[first] *= (curvature[first] / y_squared[first])[:, None, None]
        climbers.first[rows] = False
    rho = 1.0 / curvature
    Hy = np.matmul(H, y[:, :, None])[:, :, 0]
    factor = rho * (1.0 + rho * _products(y, Hy))
    # H - ρ(s Hyᵀ + Hy sᵀ) + factor s sᵀ = H + s uᵀ + u sᵀ with u = factor/2 s - ρ Hy
    u = (0.5 * factor)[:, None] * s - rho[:, None] * Hy
    outer = s[:, :, None] * u[:, None, :]
    H += outer
    H += outer.transpose(0, 2, 1)
    climbers.H[rows] = H


def _products(A: FloatArray, B: FloatArray) -> FloatArray:
    """Return the scalar product of each row of ``A`` (B, k) with that of ``B``, shape (B,)."""
    products: FloatArray = np.einsum("ij,ij->i", A, B)
    return products
