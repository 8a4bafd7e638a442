"""Estimates of a kernel's hyperparameters that benchmarks compare, ours by their criterion."""

import warnings
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from bbo_plugins.gp import likelihood, surrogate
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import FitCriterion, Hyperparameters
from bbo_plugins.methods.uhe_bo import criteria
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common.literal_uhe_bo import LiteralLoss

# "marginal" is the ordinary MAP estimate. All have the default prior but "literal-gamma", which has
# the paper's.
LOSSES: Mapping[str, FitCriterion] = MappingProxyType(
    {
        "marginal": likelihood.MARGINAL,
        "literal": criteria.NearestNeighborPseudoData(),
        "literal-gamma": LiteralLoss(),
        "weighted-loo": criteria.WeightedLeaveOneOut(),
    }
)
PEER = "scikit-learn"
_N_RESTARTS = 5


def estimate(name: str, X: FloatArray, y: FloatArray) -> Hyperparameters:
    """Estimate Matérn-5/2 hyperparameters by a loss of ``LOSSES`` or by the peer.

    The targets are standardized, but not transformed as samplers do it: a sample of a Gaussian
    process stays one, and all estimates refer to the same data.

    Args:
        name: Key of ``LOSSES``, or ``PEER``.
        X: Points of the unit cube, shape (n, d).
        y: Targets, shape (n,).

    Returns:
        Length-scales in units of the cube, variances in squared units of ``y``.
    """
    std = float(y.std()) or 1.0
    z = (y - y.mean()) / std
    if name == PEER:
        found = _maximum_likelihood(X, z)
    else:
        features = FeatureMap((0,) * X.shape[1])
        found = surrogate.estimate(X, z, features, criterion=LOSSES[name]).hyperparameters
    return Hyperparameters(
        length_scales=found.length_scales,
        signal_variance=std**2 * found.signal_variance,
        noise_variance=std**2 * found.noise_variance,
    )


def _maximum_likelihood(X: FloatArray, z: FloatArray) -> Hyperparameters:
    """Maximize the likelihood by scikit-learn, with its own default bounds and starts."""
    kernel = ConstantKernel() * Matern(np.ones(X.shape[1]), nu=2.5) + WhiteKernel()
    regressor = GaussianProcessRegressor(kernel, n_restarts_optimizer=_N_RESTARTS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # estimates at a bound are part of the result
        fitted = regressor.fit(X, z).kernel_
    return Hyperparameters(
        length_scales=np.array(fitted.k1.k2.length_scale, dtype=np.float64),
        signal_variance=float(fitted.k1.k1.constant_value),
        noise_variance=float(fitted.k2.noise_level),
    )
