"""GO-UCB's ball of parameters as the paper prints it, from d_w x d_w matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

if TYPE_CHECKING:
    from bbo_plugins.methods.go_ucb.network import LinearizedNetwork
    from bbo_plugins.space.dimension import FloatArray


@dataclass(frozen=True)
class ConfidenceBall:
    """Eqs. (3) to (6) as printed, in the space of the parameters; :meth:`from_history` builds one.

    Attributes:
        center: ŵ_t, shape (d_w,).
        matrix: Σ_t, shape (d_w, d_w).
        beta: β_t, the squared radius.
    """

    center: FloatArray
    matrix: FloatArray
    beta: float

    @classmethod
    def from_history(
        cls,
        gradients: FloatArray,
        targets: FloatArray,
        start: FloatArray,
        *,
        regularization: float,
        beta: float,
    ) -> ConfidenceBall:
        """Build the ball from what was seen.

        Args:
            gradients: J, shape (t, d_w).
            targets: z, the values of gᵀw in Eq. (4), shape (t,).
            start: ŵ_0, shape (d_w,).
            regularization: λ.
            beta: β_t.
        """
        matrix = gradients.T @ gradients + regularization * np.eye(len(start))  # Eq. (3)
        right = gradients.T @ targets + regularization * start
        center: FloatArray = linalg.solve(matrix, right, assume_a="pos")  # Eq. (5)
        return cls(center, matrix, beta)

    def widths(self, gradients: FloatArray) -> FloatArray:
        """Return ‖g‖ in the norm of Σ_t⁻¹ of ``gradients`` (m, d_w), shape (m,)."""
        solved = linalg.solve(self.matrix, gradients.T, assume_a="pos")
        squared = np.einsum("ij,ji->i", gradients, solved)
        widths: FloatArray = np.sqrt(squared)
        return widths

    def squared_length(self, step: FloatArray) -> float:
        """Return ‖step‖² in the norm of Σ_t of ``step`` (d_w,): up to β_t in the ball, Eq. (6)."""
        return float(step @ self.matrix @ step)


def jacobian(linear: LinearizedNetwork, U: FloatArray) -> FloatArray:
    """Return J (n, d_w) in full, row i being ∇_w f at input u_i of ``U`` (n, D)."""
    s, D = linear.network.scales, linear.network.n_inputs
    i, j, factor = linear.network.triangle
    rows = linear.rows(U)
    hidden = rows.P[:, :, None] * U[:, None, :] / math.sqrt(D)
    return np.concatenate(
        [
            np.full((len(U), 1), s.constant),
            U * (s.linear / math.sqrt(D)),
            U[:, i] * U[:, j] * (factor * (s.quadratic / D)),
            rows.t[:, None],
            rows.A * (s.output / math.sqrt(linear.network.hidden_units)),
            hidden.reshape(len(U), -1),
            rows.P,
        ],
        axis=1,
    )
