r"""A two-layer sigmoid network beside a quadratic: outputs and their gradients, batched.

    f_w(u) = s_0 c + s_l aᵀu/√D + s_q uᵀBu/D + s_e (e - e_0) √D (|u|²/D - 1/3)
             + s_v/√h Σ_k v_k sigmoid(z_k),                 z_k = s_h (W_kᵀu/√D + b_k)

All parameters w have a standard normal prior; the scales s are their standard deviations. Only the
factor e - e_0 has a mean other than zero: before anything is known the function is a hill, because
an optimum is more likely inside a box of many dimensions than in its corners.

| symbol  | shape    | meaning                                                                    |
|---------|----------|----------------------------------------------------------------------------|
| U       | (n, D)   | inputs, each in [-1, 1]                                                    |
| w       | (d_w,)   | parameters: c, a (D,), B's lower triangle, e, v (h,), W (h, D), b (h,)     |
| J       | (n, d_w) | row i is ∇_w f at u_i                                                      |
| T       | (n, m)   | u_iᵀu'_j / D                                                               |
| A, P    | (n, h)   | sigmoid(z), and the derivatives of f by z times s_h                        |
| t       | (n,)     | what e - e_0 is multiplied by                                              |

J has a structure that makes products with it cheap, and above all the Gram matrix of gradients

    J J'ᵀ = s_0² + s_l² T + s_q² T² + t t'ᵀ + s_v²/h A A'ᵀ + (P P'ᵀ)(1 + T)   (element by element)

which costs O(n m (D + h)) and not O(n m d_w). B is symmetric; its entries off the diagonal carry a
factor √2, so that the quadratic's part of the Gram matrix is s_q² T² exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray, IntArray

_SQRT_2 = math.sqrt(2.0)
HILL = 2.0  # e_0, in prior standard deviations of e


class Scales(NamedTuple):
    """Prior standard deviations of the network's parts; zero leaves a part out.

    Attributes:
        constant: s_0, of the constant.
        linear: s_l, of the linear part where |u|² = D.
        quadratic: s_q, of the quadratic part there.
        hill: s_e, of the curvature that all directions have in common.
        output: s_v, of the sum over the hidden units if all of them are on.
        hidden: s_h, of what enters a hidden unit from the inputs, and from its bias.
    """

    constant: float
    linear: float
    quadratic: float
    hill: float
    output: float
    hidden: float


class Parts(NamedTuple):
    """The parameters by their place in the network, views of w.

    Attributes:
        constant: c.
        linear: a, shape (D,).
        quadratic: Lower triangle of B by rows, off the diagonal times √2, shape (D (D + 1) / 2,).
        hill: e.
        output: v, shape (h,).
        hidden: W, shape (h, D).
        bias: b, shape (h,).
    """

    constant: float
    linear: FloatArray
    quadratic: FloatArray
    hill: float
    output: FloatArray
    hidden: FloatArray
    bias: FloatArray


class Rows(NamedTuple):
    """Gradients ∇_w f at some inputs, in factored form.

    Attributes:
        U: Inputs, shape (n, D).
        A: Activations of the hidden units, shape (n, h).
        P: Derivatives of f by z times s_h, shape (n, h).
        t: Derivatives by e, shape (n,).
    """

    U: FloatArray
    A: FloatArray
    P: FloatArray
    t: FloatArray


class Partials(NamedTuple):
    """Derivatives of n quantities by what the gradients at their inputs are made of.

    Attributes:
        U: By the inputs directly, shape (n, D).
        A: By the activations, shape (n, h).
        P: Shape (n, h).
        t: Shape (n,).
    """

    U: FloatArray
    A: FloatArray
    P: FloatArray
    t: FloatArray

    def combined(
        self, factors: FloatArray, others: Partials, others_factors: FloatArray
    ) -> Partials:
        """Return those of sums of two quantities, each with a factor per input, shape (n,)."""
        pairs = zip(self, others, strict=True)
        # the inputs come last in a transpose, which a factor for each can multiply
        sums = ((factors * one.T + others_factors * other.T).T for one, other in pairs)
        return Partials(*sums)


@dataclass(frozen=True)
class Tangent:
    """A function of the inputs that is linear in the parameters.

        constant + linearᵀu + uᵀ quadratic u + Σ_k output_k A_k + Σ_k P_k (hidden_kᵀu + bias_k)

    Attributes:
        constant: The constant.
        linear: Shape (D,).
        quadratic: Symmetric, shape (D, D).
        output: Shape (h,).
        hidden: Shape (h, D).
        bias: Shape (h,).
    """

    constant: float
    linear: FloatArray
    quadratic: FloatArray
    output: FloatArray
    hidden: FloatArray
    bias: FloatArray

    def outputs(self, rows: Rows) -> FloatArray:
        """Return the function at the inputs of ``rows``, shape (n,)."""
        outputs: FloatArray = np.einsum("ij,ij->i", rows.U @ self.quadratic + self.linear, rows.U)
        outputs += np.einsum("ij,ij->i", rows.P, rows.U @ self.hidden.T + self.bias)
        outputs += rows.A @ self.output
        outputs += self.constant
        return outputs

    def partials(self, rows: Rows) -> Partials:
        """Return its derivatives by what ``rows`` are made of."""
        by_U = rows.U @ (2.0 * self.quadratic) + self.linear
        by_U += rows.P @ self.hidden
        by_A = np.broadcast_to(self.output, rows.A.shape)
        return Partials(by_U, by_A, rows.U @ self.hidden.T + self.bias, np.zeros(len(rows.t)))


@dataclass(frozen=True)
class Network:
    """The family of functions f_w.

    Attributes:
        n_inputs: D.
        hidden_units: h.
        scales: Prior standard deviations.
    """

    n_inputs: int
    hidden_units: int
    scales: Scales

    @property
    def n_skip(self) -> int:
        """Number of parameters of the parts beside the hidden units, which come first in w."""
        return 2 + self.n_inputs + self.n_inputs * (self.n_inputs + 1) // 2

    @property
    def n_parameters(self) -> int:
        """d_w, the number of parameters."""
        return self.n_skip + self.hidden_units * (self.n_inputs + 2)

    @cached_property
    def triangle(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Rows and columns of B's lower triangle, and the divisors of its parameters."""
        rows, columns = np.tril_indices(self.n_inputs)
        return rows, columns, np.where(rows == columns, 1.0, _SQRT_2)

    def parts(self, w: FloatArray) -> Parts:
        """Split ``w`` (d_w,)."""
        D, h = self.n_inputs, self.hidden_units
        output = self.n_skip
        hidden, bias = output + h, output + h + h * D
        return Parts(
            float(w[0]),
            w[1 : 1 + D],
            w[1 + D : output - 1],
            float(w[output - 1]),
            w[output:hidden],
            w[hidden:bias].reshape(h, D),
            w[bias:],
        )

    def matrix(self, w: FloatArray) -> FloatArray:
        """Return the quadratic's matrix B (D, D)."""
        rows, columns, factor = self.triangle
        B = np.empty((self.n_inputs, self.n_inputs))
        B[rows, columns] = self.parts(w).quadratic / factor
        B[columns, rows] = B[rows, columns]
        return B

    def rescaled(self, w: FloatArray, factors: FloatArray) -> FloatArray:
        """Return the parameters (d_w,) that make the same function where scales are other ones.

        Args:
            w: Parameters, shape (d_w,).
            factors: These scales over the other ones, in their order, shape (6,).
        """
        by = self.parts(w)
        constant, linear, quadratic, hill, output, hidden = factors.tolist()
        return np.concatenate(
            [
                [by.constant * constant],
                by.linear * linear,
                by.quadratic * quadratic,
                [(by.hill - HILL) * hill + HILL],
                by.output * output,
                by.hidden.ravel() * hidden,
                by.bias * hidden,
            ]
        )

    def at(self, w: FloatArray) -> LinearizedNetwork:
        """Return the network at ``w`` (d_w,), ready for evaluations."""
        return LinearizedNetwork(self, w)


class LinearizedNetwork:
    """The network at one w: outputs, and products of parameter gradients and their derivatives.

    Args:
        network: The family.
        w: Parameters, shape (d_w,).
    """

    def __init__(self, network: Network, w: FloatArray) -> None:
        """Prepare what all evaluations need."""
        self.network = network
        self.w = w
        s, D = network.scales, network.n_inputs
        by = network.parts(w)
        self._output_scale = s.output / math.sqrt(network.hidden_units)
        own = self._product(w, mean_hill=HILL)
        self._constant, self._linear, self._quadratic = own.constant, own.linear, own.quadratic
        self._output = own.output
        self._hidden = by.hidden * (s.hidden / math.sqrt(D))
        self._bias = by.bias * s.hidden

    def _activations(self, U: FloatArray) -> FloatArray:
        activations: FloatArray = expit(U @ self._hidden.T + self._bias)
        return activations

    def outputs(self, U: FloatArray) -> FloatArray:
        """Return f at ``U`` (n, D), shape (n,)."""
        outputs: FloatArray = np.einsum("ij,ij->i", U @ self._quadratic + self._linear, U)
        outputs += self._activations(U) @ self._output
        outputs += self._constant
        return outputs

    def rows(self, U: FloatArray) -> Rows:
        """Return the parameter gradients at ``U`` (n, D)."""
        s, D = self.network.scales, self.network.n_inputs
        A = self._activations(U)
        t = np.einsum("ij,ij->i", U, U)
        t -= D / 3.0
        t *= s.hill / math.sqrt(D)
        return Rows(U, A, A * (1.0 - A) * (self._output * s.hidden), t)

    def times(self, rows: Rows, w: FloatArray) -> FloatArray:
        """Return J w (n,) for ``w`` (d_w,)."""
        return self._product(w).outputs(rows)

    def tangent(self, step: FloatArray) -> Tangent:
        """Return f + J ``step`` as a function of the inputs, for ``step`` (d_w,)."""
        product = self._product(step)
        return Tangent(
            product.constant + self._constant,
            product.linear + self._linear,
            product.quadratic + self._quadratic,
            product.output + self._output,
            product.hidden,
            product.bias,
        )

    def _product(self, w: FloatArray, *, mean_hill: float = 0.0) -> Tangent:
        """Return J w as a function of the inputs, for ``w`` (d_w,), e less ``mean_hill``."""
        s, D = self.network.scales, self.network.n_inputs
        by = self.network.parts(w)
        hill = s.hill * (by.hill - mean_hill) / math.sqrt(D)
        quadratic = self.network.matrix(w) * (s.quadratic / D)
        quadratic[np.diag_indices(D)] += hill
        return Tangent(
            by.constant * s.constant - hill * D / 3.0,
            by.linear * (s.linear / math.sqrt(D)),
            quadratic,
            by.output * self._output_scale,
            by.hidden / math.sqrt(D),
            by.bias,
        )

    def transposed_times(self, rows: Rows, z: FloatArray) -> FloatArray:
        """Return Jᵀz (d_w,) for ``z`` (n,)."""
        s, D = self.network.scales, self.network.n_inputs
        i, j, factor = self.network.triangle
        weighted_U, weighted_P = rows.U * z[:, None], rows.P * z[:, None]
        return np.concatenate(
            [
                [s.constant * z.sum()],
                weighted_U.sum(axis=0) * (s.linear / math.sqrt(D)),
                (weighted_U.T @ rows.U)[i, j] * (factor * (s.quadratic / D)),
                [rows.t @ z],
                z @ rows.A * self._output_scale,
                (weighted_P.T @ rows.U).ravel() / math.sqrt(D),
                weighted_P.sum(axis=0),
            ]
        )

    def gram(self, left: Rows, right: Rows) -> FloatArray:
        """Return J J'ᵀ (n, m) of two sets of gradients."""
        s = self.network.scales
        T = left.U @ right.U.T / self.network.n_inputs
        G = left.P @ right.P.T
        G *= 1.0 + T
        G += (left.A * self._output_scale**2) @ right.A.T
        T *= s.linear**2 + s.quadratic**2 * T
        G += T
        G += np.outer(left.t, right.t)
        G += s.constant**2
        return G

    def squared_norms(self, rows: Rows) -> FloatArray:
        """Return |∇_w f|² of each gradient, shape (n,)."""
        s = self.network.scales
        T = np.einsum("ij,ij->i", rows.U, rows.U) / self.network.n_inputs
        norms: FloatArray = np.einsum("ij,ij->i", rows.P, rows.P) * (1.0 + T)
        norms += np.einsum("ij,ij->i", rows.A, rows.A) * self._output_scale**2
        norms += T * (s.linear**2 + s.quadratic**2 * T) + np.square(rows.t) + s.constant**2
        return norms

    def variance_partials(self, at: Rows, others: Rows, weights: FloatArray) -> Partials:
        """Return partial derivatives of |g_i|² - 2 Σ_j weights_ij g_iᵀg'_j, by what g_i is made of.

        Args:
            at: n gradients g, at the inputs that move.
            others: m gradients g', at inputs that do not.
            weights: Constants, shape (n, m).
        """
        s, D = self.network.scales, self.network.n_inputs
        T = at.U @ others.U.T / D
        by_T = at.P @ others.P.T
        by_T += s.linear**2 + 2.0 * s.quadratic**2 * T
        by_T *= weights
        T += 1.0
        T *= weights
        own_T = np.einsum("ij,ij->i", at.U, at.U) / D
        by_own_T = np.einsum("ij,ij->i", at.P, at.P)
        by_own_T += s.linear**2 + 2.0 * s.quadratic**2 * own_T
        return Partials(
            (2.0 / D) * (by_own_T[:, None] * at.U - by_T @ others.U),
            (2.0 * self._output_scale**2) * (at.A - weights @ others.A),
            2.0 * ((1.0 + own_T)[:, None] * at.P - T @ others.P),
            2.0 * (at.t - weights @ others.t),
        )

    def gradients(self, at: Rows, by: Partials) -> FloatArray:
        """Return gradients (n, D) by the inputs of ``at``, given the derivatives by its parts."""
        s, D = self.network.scales, self.network.n_inputs
        by_z = (1.0 - 2.0 * at.A) * (self._output * s.hidden)
        by_z *= by.P
        by_z += by.A
        by_z *= at.A * (1.0 - at.A)
        gradients: FloatArray = by_z @ self._hidden
        gradients += by.U
        gradients += ((2.0 * s.hill / math.sqrt(D)) * by.t)[:, None] * at.U
        return gradients
