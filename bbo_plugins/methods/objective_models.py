"""The two kinds of models that this package has of an objective, in one form.

Both are normal distributions of the transformed, maximized objective at each point, and know how
much two points have in common before any data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bbo_plugins.acquisition.quasirandom import shifted_sobol
from bbo_plugins.gp.kernels import matern52
from bbo_plugins.methods.network_surrogate import inputs

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FloatArray
    from bbo_plugins.gp.outputs import OutputTransform
    from bbo_plugins.gp.regression import GaussianProcess
    from bbo_plugins.methods.network_surrogate import NetworkSurrogate
    from bbo_plugins.space import SearchSpace

_CHUNK = 128  # pairs of points whose Gram matrix is made at once
_TINY = float(np.finfo(np.float64).tiny)
_N_AVERAGED = 256  # points over which the network's gradients are averaged


class ObjectiveModel(Protocol):
    """What both answer; points are those of the unit cube."""

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,), both without noise, at ``X`` (m, d)."""
        ...

    def inverse(self, z: FloatArray) -> FloatArray:
        """Map the model's units to maximized values, any shape."""
        ...

    def correlation(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the prior correlation of each point of ``X`` (m, d) with that of ``Y`` (m, d)."""
        ...


@dataclass(frozen=True)
class ProcessModel:
    """A Gaussian process.

    Attributes:
        process: The posterior, in transformed units.
        transform: The map to these units.
    """

    process: GaussianProcess
    transform: OutputTransform

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,), both without noise, at ``X`` (m, d)."""
        return self.process.predict(X)

    def inverse(self, z: FloatArray) -> FloatArray:
        """Map the model's units to maximized values, any shape."""
        return self.transform.inverse(z)

    def correlation(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the prior correlation of each point of ``X`` (m, d) with that of ``Y`` (m, d)."""
        scale = self.process.hyperparameters.length_scales
        features = self.process.features
        gaps = features.scaled(X, scale) - features.scaled(Y, scale)
        return np.minimum(matern52(np.square(gaps).sum(axis=1)), 1.0)


@dataclass(frozen=True)
class NetworkModel:
    """GO-UCB's network, linearized where it was fitted.

    Attributes:
        space: The search space.
        surrogate: The fit.
    """

    space: SearchSpace
    surrogate: NetworkSurrogate

    def predict(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean (m,) and variance (m,), both without noise, at ``X`` (m, d)."""
        return self.surrogate.predict(X)

    def inverse(self, z: FloatArray) -> FloatArray:
        """Map the model's units to maximized values, any shape."""
        return self.surrogate.transform.inverse(z)

    def correlation(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Return the prior correlation of each point of ``X`` (m, d) with that of ``Y`` (m, d).

        It is that of the differences from the average over the space: what all points have in
        common, such as the constant, says nothing of which are alike.
        """
        linear, average = self.surrogate.ball.linear, self._average_gradient
        correlation = np.empty(len(X))
        for start in range(0, len(X), _CHUNK):
            part = slice(start, start + _CHUNK)
            left, right = (linear.rows(inputs(Z[part], self.surrogate.features)) for Z in (X, Y))
            common = [linear.times(rows, average) for rows in (left, right)]
            square = float(average @ average)
            product = np.diagonal(linear.gram(left, right)) - common[0] - common[1] + square
            norms = [
                np.sqrt(np.maximum(linear.squared_norms(rows) - 2.0 * along + square, 0.0))
                for rows, along in zip((left, right), common, strict=True)
            ]
            correlation[part] = product / np.maximum(norms[0] * norms[1], _TINY)
        return np.clip(correlation, -1.0, 1.0)

    @cached_property
    def _average_gradient(self) -> FloatArray:
        """The mean of the parameter gradients over the space, shape (d_w,)."""
        points = self.space.snap(
            shifted_sobol(_N_AVERAGED, len(self.space), np.random.default_rng(0))
        )
        linear = self.surrogate.ball.linear
        rows = linear.rows(inputs(points, self.surrogate.features))
        return linear.transposed_times(rows, np.full(len(points), 1.0 / len(points)))
