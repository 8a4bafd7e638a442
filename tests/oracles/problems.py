"""Data to fit, spaces to search and functions to optimize, for the tests of the mathematics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.methods.observations import Observations
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles import dense

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

BRANIN_MINIMUM = 0.39788735772973816


def branin(x: FloatArray) -> float:
    """Return Branin's function at a point of the unit square; its three minima are equal."""
    a, b = -5.0 + 15.0 * float(x[0]), 15.0 * float(x[1])
    bowl = (b - 5.1 / (4.0 * math.pi**2) * a * a + 5.0 / math.pi * a - 6.0) ** 2
    return bowl + 10.0 * (1.0 - 1.0 / (8.0 * math.pi)) * math.cos(a) + 10.0


def unit_box(n_dimensions: int) -> SearchSpace:
    """Return a space whose values are its coordinates."""
    return SearchSpace({f"x{i}": Dimension.floats(0.0, 1.0) for i in range(n_dimensions)})


def mixed_space() -> SearchSpace:
    """Return a space with one dimension of each kind that the search treats differently."""
    return SearchSpace(
        {
            "float": Dimension.floats(-1.0, 3.0),
            "log": Dimension.floats(1e-5, 1.0, log=True),
            "few": Dimension.integers(1, 9),
            "many": Dimension.integers(1, 200, log=True),
            "stepped": Dimension.floats(0.0, 1.0, step=0.25),
            "choice": Dimension.categorical(["a", "b", "c"]),
            "fixed": Dimension.integers(3, 3),
        }
    )


def random_points(space: SearchSpace, n: int, rng: np.random.Generator) -> FloatArray:
    """Return uniformly random representable points, shape (n, d)."""
    return space.snap(rng.random((n, len(space))))


def categories_of(space: SearchSpace) -> tuple[int, ...]:
    """Return the number of categories of each dimension, as Python integers."""
    return tuple(int(count) for count in space.n_categories)


def sample_prior(
    X: FloatArray,
    length_scales: FloatArray,
    rng: np.random.Generator,
    *,
    noise: float = 0.0,
    n_categories: Sequence[int] | None = None,
) -> FloatArray:
    """Return one draw at ``X`` (n, d) from the Matérn process with unit variance, shape (n,)."""
    K = dense.covariance(X, X, length_scales, 1.0, n_categories)
    values, vectors = np.linalg.eigh(K)
    draw: FloatArray = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(X)))
    return draw + math.sqrt(noise) * rng.standard_normal(len(X))


def random_process(
    space: SearchSpace,
    n: int,
    seed: int,
    *,
    noise: float = 1e-2,
    length_scale: tuple[float, float] = (0.2, 1.0),
) -> GaussianProcess:
    """Return the posterior after ``n`` observations of a random function on ``space``."""
    rng = np.random.default_rng(seed)
    X = random_points(space, n, rng)
    length_scales = rng.uniform(*length_scale, size=len(space))
    counts = categories_of(space)
    y = sample_prior(X, length_scales, rng, noise=noise, n_categories=counts)
    return GaussianProcess.from_data(
        X, y, Hyperparameters(length_scales, 1.0, noise), FeatureMap(counts)
    )


def observe(
    X: FloatArray,
    y: FloatArray | Sequence[float],
    *,
    complete: NDArray[np.bool_] | None = None,
    pending: FloatArray | None = None,
    noise_variance: FloatArray | None = None,
    constraints: FloatArray | None = None,
    failed: FloatArray | None = None,
) -> Observations:
    """Return observations of complete trials with none pending, unless told otherwise."""
    return Observations(
        X=X,
        y=np.asarray(y, dtype=np.float64),
        complete=np.ones(len(X), dtype=bool) if complete is None else complete,
        pending=np.empty((0, X.shape[1])) if pending is None else pending,
        failed=np.empty((0, X.shape[1])) if failed is None else failed,
        has_value=np.ones(len(X), dtype=bool),
        noise_variance=noise_variance,
        constraints=constraints,
    )
