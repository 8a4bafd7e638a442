"""Sample paths of a known Gaussian process, and histories on them: i.i.d. and biased.

A path is drawn point by point, each value from its exact conditional distribution given all values
drawn before, so that an optimizer can run on it and no approximation of the prior (a grid, random
features) is mistaken for an error of an estimate.  The covariance is written down again here.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist

from bbo_plugins.space.dimension import FloatArray
from benchmarks.common.samplers import SAMPLERS

NOISE_VARIANCE = 1e-4
# By number of dimensions; the signal variance is 1.
LENGTH_SCALES: Mapping[int, FloatArray] = MappingProxyType(
    {2: np.array([0.2, 0.5]), 4: np.array([0.3, 0.5, 0.8, 0.4])}
)
_JITTER = 1e-9
_N_CANDIDATES = 512  # uniform points among which a path's maximum is sought
_SPREADS = (0.01, 0.1)  # distances of concentrated points per coordinate, log-uniform


def matern52(X: FloatArray, Z: FloatArray, length_scales: FloatArray) -> FloatArray:
    """Return the correlations (n, m) of ``X`` (n, d) and ``Z`` (m, d)."""
    r = math.sqrt(5.0) * cdist(X / length_scales, Z / length_scales)
    return np.asarray((1.0 + r + r**2 / 3.0) * np.exp(-r))


class SamplePath:
    """One path, known where it has been asked for so far.

    Args:
        length_scales: Of the covariance, shape (d,).
        rng: Source of the values.
    """

    def __init__(self, length_scales: FloatArray, rng: np.random.Generator) -> None:
        """Start with no value drawn."""
        self.dimension = len(length_scales)
        self._length_scales = length_scales
        self._rng = rng
        self._X = np.empty((0, self.dimension))
        self._L = np.empty((0, 0))
        self._z = np.empty(0)  # the standard normal numbers behind the values: f = L z

    def __call__(self, X: FloatArray) -> FloatArray:
        """Draw the noise-free values (m,) at ``X`` (m, d), given all values drawn before."""
        n, m = len(self._X), len(X)
        cross = matern52(self._X, X, self._length_scales)
        if n:  # older SciPy refuses empty systems
            cross = solve_triangular(self._L, cross, lower=True, check_finite=False)
        own = matern52(X, X, self._length_scales) + _JITTER * np.eye(m)
        L = np.zeros((n + m, n + m))
        L[:n, :n] = self._L
        L[n:, :n] = cross.T
        L[n:, n:] = cholesky(own - cross.T @ cross, lower=True)
        self._X, self._L = np.vstack([self._X, X]), L
        self._z = np.append(self._z, self._rng.standard_normal(m))
        return np.asarray(L[n:] @ self._z)

    def observe(self, X: FloatArray) -> FloatArray:
        """Draw values with observation noise, shape (m,)."""
        noise = math.sqrt(NOISE_VARIANCE) * self._rng.standard_normal(len(X))
        return self(X) + noise


# Points (n, d) and observations (n,), to be maximized.
History: TypeAlias = tuple[FloatArray, FloatArray]
Design: TypeAlias = Callable[[SamplePath, int, np.random.Generator], History]


def uniform(path: SamplePath, n: int, rng: np.random.Generator) -> History:
    """Return observations at i.i.d. uniform points."""
    X = rng.random((n, path.dimension))
    return X, path.observe(X)


def concentrated(path: SamplePath, n: int, rng: np.random.Generator) -> History:
    """Return a history every second point of which is near the path's maximum, else uniform."""
    candidates = rng.random((_N_CANDIDATES, path.dimension))
    best = candidates[int(path(candidates).argmax())]
    X = rng.random((n, path.dimension))
    for i in range(1, n, 2):
        X[i] = _near(best, rng)
    return X, path.observe(X)


def _near(center: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return a point (d,) of the cube near ``center`` (d,)."""
    while True:  # redrawn rather than clipped, which would pile up points on the cube's edges
        spread = math.exp(rng.uniform(math.log(_SPREADS[0]), math.log(_SPREADS[1])))
        point = center + spread * rng.standard_normal(len(center))
        if ((point >= 0.0) & (point <= 1.0)).all():
            return np.asarray(point)


def optimized(acquisition: str) -> Design:
    """Return the design that is a run of our own sampler on the path, with the MAP estimate."""

    def design(path: SamplePath, n: int, rng: np.random.Generator) -> History:
        suffix = "" if acquisition == "logei" else f"-{acquisition}"
        sampler = SAMPLERS[f"ours-map{suffix}"].build(int(rng.integers(2**31)))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        space = {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(path.dimension)}
        X, y = np.empty((n, path.dimension)), np.empty(n)
        for i in range(n):
            trial = study.ask(dict(space))
            X[i] = [trial.params[name] for name in space]
            y[i] = path.observe(X[i : i + 1])[0]
            study.tell(trial, y[i])
        return X, y

    return design


# The first n observations of a history are one of length n, in every design.
DESIGNS: Mapping[str, Design] = MappingProxyType(
    {
        "uniform": uniform,
        "concentrated": concentrated,
        "log EI run": optimized("logei"),
        "GP-UCB run": optimized("ucb"),
    }
)
BIASED = tuple(name for name in DESIGNS if name != "uniform")


def draw(design: str, dimension: int, n: int, seed: int) -> History:
    """Return a history of ``n`` observations on a path that ``seed`` and the dimension fix."""
    rng = np.random.default_rng([seed, dimension, list(DESIGNS).index(design)])
    path = SamplePath(LENGTH_SCALES[dimension], rng)
    return DESIGNS[design](path, n, rng)
