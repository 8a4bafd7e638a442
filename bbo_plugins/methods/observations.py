"""What a method knows of a study: arrays in the unit cube, maximized."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.gp.kernels import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Evaluated and pending points of one study.

    Attributes:
        X: Evaluated points of the unit cube, shape (n, d).
        y: Their objective values, maximized, finite, shape (n,).
        complete: False for a value that is not final (a pruned trial's): it informs the model but
            cannot be the incumbent, shape (n,).
        pending: Points being evaluated elsewhere, shape (p, d).
        noise_variance: Known noise variances in squared units of ``y``, NaN where unknown, shape
            (n,), or None.
        constraints: Constraint values, positive where violated, NaN where unknown, shape (n, m),
            or None.
        failed: Points at which an evaluation failed, shape (f, d), or None.

    Raises:
        ValueError: The shapes disagree or a target is not finite.
    """

    X: FloatArray
    y: FloatArray
    complete: NDArray[np.bool_]
    pending: FloatArray
    noise_variance: FloatArray | None = None
    constraints: FloatArray | None = None
    failed: FloatArray | None = None

    def __post_init__(self) -> None:
        """Check shapes and finiteness."""
        n, d = self.X.shape
        expected: dict[str, tuple[NDArray[Any], tuple[int, ...]]] = {
            "y": (self.y, (n,)),
            "complete": (self.complete, (n,)),
            "pending": (self.pending, (len(self.pending), d)),
        }
        if self.failed is not None:
            expected["failed"] = (self.failed, (len(self.failed), d))
        if self.noise_variance is not None:
            expected["noise_variance"] = (self.noise_variance, (n,))
        if self.constraints is not None:
            columns = self.constraints.shape[1] if self.constraints.ndim > 1 else 1
            expected["constraints"] = (self.constraints, (n, columns))
        for name, (array, shape) in expected.items():
            if array.shape != shape:
                message = f"{name} must have shape {shape}, but got {array.shape}."
                raise ValueError(message)
        if not np.isfinite(self.y).all():
            message = f"y must be finite, but got {self.y}."
            raise ValueError(message)

    def take(self, rows: IntArray) -> Observations:
        """Return these observations with the evaluated points at ``rows`` (k,) only."""
        noise, constraints = self.noise_variance, self.constraints
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            complete=self.complete[rows],
            noise_variance=None if noise is None else noise[rows],
            constraints=None if constraints is None else constraints[rows],
        )
