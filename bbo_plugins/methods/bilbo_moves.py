"""Moves from one candidate of a bilevel search to others: ascent of a response, perturbation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.gp.kernels import FloatArray
    from bbo_plugins.methods.trusted_sets import View
    from bbo_plugins.space import SearchSpace

_FEW_LEVELS = 16  # numeric dimensions with more levels climb as if they were continuous
_FIRST_STEP = 0.1  # longest first step of an ascent, in units of the cube
_LONGEST_STEP = 0.3
_SHORTEN = 0.25
_KEEP = 0.5  # chance that a perturbation keeps a coordinate


def climb(
    view: View, starts: FloatArray, n_upper: int, free: NDArray[np.bool_], n_steps: int
) -> FloatArray:
    """Raise the view's penalized value from joint points, moving the lower level only.

    Projected gradient steps whose length follows Barzilai & Borwein (1988), of all starts at once;
    a step that does not improve its start is shortened and tried again.

    Args:
        view: How points are seen.
        starts: Joint points, shape (n, d).
        n_upper: Number of upper-level coordinates, which stay.
        free: Which lower-level coordinates move, shape (d_z,).
        n_steps: Number of steps.
    """
    columns = n_upper + np.flatnonzero(free)
    P = starts.copy()
    value, gradient = view.penalized(P)
    gradient = gradient[:, columns]
    steepest = np.abs(gradient).max(axis=1)
    step = _FIRST_STEP / np.maximum(steepest, 1e-12)
    for _ in range(n_steps):
        trial = P.copy()
        trial[:, columns] = np.clip(P[:, columns] + step[:, None] * gradient, 0.0, 1.0)
        new_value, new_gradient = view.penalized(trial)
        new_gradient = new_gradient[:, columns]
        better = new_value > value
        s = (trial - P)[better][:, columns]
        curvature = -np.einsum("ij,ij->i", s, new_gradient[better] - gradient[better])
        length = np.einsum("ij,ij->i", s, s)
        grown = 2.0 * step[better]
        step[better] = np.where(curvature > 0.0, length / np.maximum(curvature, 1e-300), grown)
        step[~better] *= _SHORTEN
        P[better], value[better], gradient[better] = (
            trial[better],
            new_value[better],
            new_gradient[better],
        )
        steepest = np.abs(gradient).max(axis=1)
        step = np.minimum(step, _LONGEST_STEP / np.maximum(steepest, 1e-12))
    return P


def climbing_dimensions(space: SearchSpace) -> NDArray[np.bool_]:
    """Return which dimensions (d,) take part in an ascent."""
    return np.array(
        [
            dimension.n_levels is None
            or (not dimension.is_categorical and dimension.n_levels > _FEW_LEVELS)
            for dimension in space.dimensions
        ]
    )


def perturbed(
    space: SearchSpace, X: FloatArray, radius: float, rng: np.random.Generator
) -> FloatArray:
    """Return points of ``space`` near ``X`` (n, d): about half of each one's coordinates move.

    A categorical coordinate that moves goes anywhere, another discrete one by at least one level.
    """
    moves = rng.random(X.shape) >= _KEEP
    moves[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = True
    step = radius * rng.standard_normal(X.shape)
    levels = np.array([dimension.n_levels or 0 for dimension in space.dimensions])
    discrete = levels > 0
    smallest = 1.0 / np.maximum(levels, 1)
    coarse = discrete & (radius < smallest)
    step[:, coarse] = np.sign(step[:, coarse]) * smallest[coarse]
    categorical = space.n_categories > 0
    points = np.where(moves, X + step, X)
    fresh = rng.random(X.shape)
    replaced = moves & categorical
    points[replaced] = fresh[replaced]
    return space.snap(points)
