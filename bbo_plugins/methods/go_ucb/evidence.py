r"""The scales of a network by marginal likelihood.

Around given weights the network is linear in them, and its output at the observations a Gaussian
with covariance

    K(θ) = s_0² + s_l² T + s_q² T² + s_e² t̄ t̄ᵀ + s_v²/h A Aᵀ + s_h² (P̄ P̄ᵀ)(1 + T),

in which θ, the logarithms of the scales, appears in the factors only, as long as the weights are
kept in the function's own units: P̄ and t̄ are P and t of :mod:`bbo_plugins.methods.go_ucb.network`
without their scales. So one factorization gives the evidence and its derivatives by all of θ,

    ∂/∂θ_i log p(z | θ) = ½ tr((αα^T - (K + N)⁻¹) ∂(K + N)/∂θ_i),     α = (K + N)⁻¹ z̄,

where z̄ are the targets of Eq. (4) of the paper minus the prior mean. The last two entries of θ are
log λ and q of the noise

    N_i = λ ((r_i² + r_0²) / (median r² + r_0²))^q,

with r the distance from the best observation: the fit may be less exact far from the best.

Sources: MacKay (1992), "A practical Bayesian framework for backpropagation networks"; Rasmussen &
Williams (2006), "Gaussian Processes for Machine Learning", Eq. (5.9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize
from scipy.linalg import lapack

from bbo_plugins.gp.likelihood import NOISE_FLOOR, STATED_NOISE_FLOOR
from bbo_plugins.methods.go_ucb.network import HILL, LinearizedNetwork, Network, Scales
from bbo_plugins.methods.go_ucb.regression import factorize, solve

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray, IntArray

N_THETA = 8  # six scales in the order of :class:`Scales`, log λ, q
LOG_NOISE, GROWTH = 6, 7
_CONSTANT, _HILL_SCALE, _HIDDEN = 0, 3, 5  # places of scales in θ
# Mean and standard deviation of a normal prior on θ; the constant's scale is fixed.
TYPICAL = np.array([*np.log([1.0, 1.0, 1.0, 1.0, 3.0, 2.0, 1e-3]), 0.5])
_PRIOR_SD = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 2.0, 0.5])
# Between these θ is chosen.
LOWEST = TYPICAL - np.array([0.0, 5.0, 5.0, 5.0, 5.0, 2.0, 0.0, 0.5])
HIGHEST = TYPICAL + np.array([0.0, 5.0, 5.0, 5.0, 5.0, 2.0, 9.0, 1.5])
LOWEST[LOG_NOISE] = math.log(NOISE_FLOOR)
_NEAR = 0.05  # r_0, distance per input below which the noise grows no smaller
_MAX_OBSERVATIONS = 300  # on which scales are chosen
_LOG_2PI = math.log(2.0 * math.pi)


def log_prior(theta: FloatArray) -> float:
    """Return the logarithm of the prior's density at ``theta`` (8,), up to a constant."""
    return -0.5 * float(np.square((theta - TYPICAL) / _PRIOR_SD).sum())


def network_with(theta: FloatArray, n_inputs: int, hidden_units: int) -> Network:
    """Return the network with given scales.

    Args:
        theta: θ, of which the first six entries are the log scales, shape (8,).
        n_inputs: D.
        hidden_units: h.
    """
    return Network(n_inputs, hidden_units, Scales(*np.exp(theta[:LOG_NOISE]).tolist()))


@dataclass(frozen=True)
class NoiseModel:
    """The noise variance of every observation as a function of θ; :meth:`around` builds one.

    Attributes:
        log_distances: log of (r_i² + r_0²) / (median r² + r_0²), shape (n,).
        known: Known noise variances, NaN where unknown, shape (n,).
    """

    log_distances: FloatArray
    known: FloatArray

    @classmethod
    def around(cls, best: int, U: FloatArray, known: FloatArray) -> NoiseModel:
        """Return the model of noise that grows with the distance from the best observation.

        Args:
            best: Its index.
            U: Inputs, shape (n, D).
            known: Known noise variances in squared units of the targets, NaN where unknown, (n,).
        """
        squared = np.square(U - U[best]).mean(axis=1) + _NEAR**2
        return cls(np.log(squared / np.median(squared)), known)

    def of(self, chosen: IntArray) -> NoiseModel:
        """Return the model of the observations with these indices only, shape (k,)."""
        return NoiseModel(self.log_distances[chosen], self.known[chosen])

    def representative(self) -> IntArray:
        """Return indices of observations on which the scales can be chosen, all unless too many.

        Half of them are the nearest ones to the best, the rest is taken evenly from the others.
        """
        n = len(self.known)
        if n <= _MAX_OBSERVATIONS:
            return np.arange(n)
        order = np.argsort(self.log_distances, kind="stable")
        nearest, others = np.split(order, [_MAX_OBSERVATIONS // 2])
        places = np.linspace(0, len(others) - 1, _MAX_OBSERVATIONS - len(nearest))
        return np.sort(np.concatenate([nearest, others[places.astype(np.int64)]]))

    def variances(self, theta: FloatArray) -> FloatArray:
        """Return N (n,) at ``theta`` (8,), not below the floors."""
        unknown = np.exp(theta[LOG_NOISE] + theta[GROWTH] * self.log_distances)
        return np.where(
            np.isnan(self.known),
            np.maximum(unknown, NOISE_FLOOR),
            np.maximum(self.known, STATED_NOISE_FLOOR),
        )

    def gradient(self, variances: FloatArray, by_variance: FloatArray) -> FloatArray:
        """Return derivatives by log λ and q.

        Args:
            variances: N, shape (n,).
            by_variance: Derivatives by N, shape (n,).

        Returns:
            Shape (2,).
        """
        moving = np.where(
            np.isnan(self.known) & (variances > NOISE_FLOOR), variances * by_variance, 0.0
        )
        return np.array([moving.sum(), moving @ self.log_distances])


class ScaleEvidence:
    """Log marginal likelihood plus log prior of θ for fixed weights.

    Args:
        linear: The network at the weights.
        theta: θ of its scales, shape (8,).
        U: Inputs, shape (n, D).
        z: Targets, shape (n,).
        noise: The noise model.
    """

    def __init__(
        self,
        linear: LinearizedNetwork,
        theta: FloatArray,
        U: FloatArray,
        z: FloatArray,
        noise: NoiseModel,
    ) -> None:
        """Compute what does not change with θ."""
        s, rows = np.exp(theta), linear.rows(U)
        T = U @ U.T / U.shape[1]
        P = rows.P / s[_HIDDEN]
        self._t = rows.t / s[_HILL_SCALE]
        self._parts = np.stack(
            [
                np.ones_like(T),
                T,
                np.square(T),
                np.outer(self._t, self._t),
                rows.A @ rows.A.T / rows.A.shape[1],
                (P @ P.T) * (1.0 + T),
            ]
        ).reshape(LOG_NOISE, -1)
        # Targets of Eq. (4) without the contribution of the prior mean at the present scales
        self._z = z - linear.outputs(U) + linear.times(rows, linear.w) - HILL * rows.t
        self._noise = noise

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its gradient (8,) at ``theta``; -inf and zeros where undefined."""
        squares = np.exp(2.0 * theta[:LOG_NOISE])
        N = self._noise.variances(theta)
        try:
            L = factorize((squares @ self._parts).reshape(len(N), len(N)), N)
        except ValueError:
            return -math.inf, np.zeros(N_THETA)
        mean = HILL * math.exp(theta[_HILL_SCALE]) * self._t
        z = self._z + mean
        alpha = solve(L, z)
        value = -0.5 * float(z @ alpha) - float(np.log(L.diagonal()).sum())
        value += log_prior(theta) - 0.5 * len(z) * _LOG_2PI
        inverse = lapack.dpotri(L, lower=1, overwrite_c=1)[0]
        # M has the sums of αα^T - (K + N)⁻¹ over both triangles in one, as the parts are symmetric.
        M = np.outer(alpha, alpha)
        M -= 2.0 * inverse.T
        M[np.diag_indices(len(N))] += inverse.diagonal()
        gradient = (TYPICAL - theta) / _PRIOR_SD**2
        # Eq. (5.9) of Rasmussen & Williams (2006)
        gradient[:LOG_NOISE] += squares * (self._parts @ M.ravel())
        gradient[_HILL_SCALE] -= float(mean @ alpha)
        gradient[LOG_NOISE:] += self._noise.gradient(N, 0.5 * M.diagonal())
        gradient[_CONSTANT] = 0.0  # fixed
        return value, gradient


def maximize_evidence(
    evidence: ScaleEvidence, theta: FloatArray, *, fixed_noise: bool, max_evaluations: int
) -> FloatArray:
    """Return θ (8,) with a higher evidence, by a few steps of L-BFGS-B from ``theta``.

    Args:
        evidence: The function to maximize.
        theta: Where to start, shape (8,).
        fixed_noise: Whether log λ and q stay as they are.
        max_evaluations: About how often the evidence may be evaluated.

    Returns:
        θ with log λ and q unchanged if they are fixed.
    """
    free = np.arange(1, LOG_NOISE if fixed_noise else N_THETA)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        full = theta.copy()
        full[free] = x
        value, gradient = evidence(full)
        return (-value, -gradient[free]) if math.isfinite(value) else (1e100, np.zeros(len(free)))

    result = optimize.minimize(
        loss,
        np.clip(theta[free], LOWEST[free], HIGHEST[free]),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(LOWEST[free], HIGHEST[free], strict=True)),
        options={"maxfun": max_evaluations, "ftol": 1e-6},
    )
    best = theta.copy()
    best[free] = result.x
    return best
