"""Random data and hyperparameters for the criteria that a fit maximizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.space.dimension import FloatArray

Noise: TypeAlias = Literal["fitted", "floor", "partly known", "known"]


def random_theta(rng: np.random.Generator, d: int, *, trend: bool = False) -> FloatArray:
    """Return random logs of length-scales, signal variance, trend and noise, (d + 2 or d + 5,)."""
    scales = rng.uniform(math.log(0.1), math.log(3.0), size=d)
    others = [rng.uniform(-1.0, 2.0), rng.uniform(-6.0, 0.0)]
    return np.concatenate([scales, others[:1], rng.uniform(-5.0, 1.0, 3 * trend), others[1:]])


def random_data(
    rng: np.random.Generator, features: FeatureMap, n: int, noise: Noise
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return points (n, d), targets (n,) and the known noise variances (n,), if any are known."""
    X, y = rng.random((n, len(features.n_categories))), rng.standard_normal(n)
    if noise == "floor":  # twins that differ would make the value so large that differences fail
        columns = features.columns(X)
        y = columns @ rng.standard_normal(columns.shape[1])
    if noise in {"fitted", "floor"}:
        return X, y, None
    known = rng.uniform(1e-3, 0.5, size=n)
    if noise == "partly known":
        known[rng.integers(n)] = np.nan
    return X, y, known
