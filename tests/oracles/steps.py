"""One step of GP Bayesian optimization, as the tests of ``gp_bo`` take it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from bbo_plugins.acquisition.functions import AcquisitionName, ConstrainedAcquisition, Feasibility
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.gp_bo import Options, suggest
from tests.oracles import dense
from tests.oracles.problems import unit_box

if TYPE_CHECKING:
    from bbo_plugins.gp.surrogate import Surrogate
    from bbo_plugins.methods.observations import Observations, Suggestion
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

NAMES: tuple[AcquisitionName, ...] = get_args(AcquisitionName)


def step(
    observations: Observations, space: SearchSpace | None = None, *, seed: int = 0, **options: Any
) -> Suggestion:
    """Suggest with a generator of its own, in the unit box unless told otherwise."""
    space = space or unit_box(observations.X.shape[1])
    suggestion = suggest(
        space, observations, rng=np.random.default_rng(seed), options=Options(**options)
    )
    assert_valid(suggestion, space)
    return suggestion


def assert_valid(suggestion: Suggestion, space: SearchSpace) -> None:
    """Check that a suggestion is a point of the space and that its state survives JSON."""
    x = suggestion.x
    assert x.shape == (len(space),)
    assert np.array_equal(space.snap(x[None, :])[0], x)
    space.decode(x)
    for warm_start in suggestion.warm_starts.values():
        assert WarmStart.from_json(json.loads(json.dumps(warm_start.to_json()))) is not None


def smooth(X: FloatArray) -> FloatArray:
    """Return a smooth function of the first and the last coordinate, (n,)."""
    values: FloatArray = np.sin(4.0 * X[:, 0]) - np.square(X[:, -1] - 0.4)
    return values


def bound_acquisition(
    observations: Observations, kind: AcquisitionName = "logei"
) -> tuple[ConstrainedAcquisition, Surrogate]:
    """Return the acquisition that :func:`suggest` would maximize, with the objective in it."""
    acquisition, surrogate = maximized_function(observations, kind)
    assert isinstance(acquisition, ConstrainedAcquisition)
    return acquisition, surrogate


def maximized_function(
    observations: Observations, kind: AcquisitionName
) -> tuple[Feasibility | ConstrainedAcquisition, Surrogate]:
    """Return the function that :func:`suggest` would maximize, and the objective's surrogate."""
    d = observations.X.shape[1]
    options = Options(acquisition=kind, beta=1.96)
    features = FeatureMap((0,) * d)
    models = gp_bo.Models.fit(unit_box(d), [observations], [None], features, options)
    return gp_bo._acquisition(models, options), models.objectives[0]


def dense_mean(surrogate: Surrogate, X: FloatArray) -> FloatArray:
    """Return the posterior mean at ``X`` from the dense formula."""
    process = surrogate.process
    scales, signal = process.hyperparameters.length_scales, process.hyperparameters.signal_variance
    K = dense.covariance(process.X, process.X, scales, signal)
    K += process.hyperparameters.noise_variance * np.eye(len(K))
    return dense.covariance(X, process.X, scales, signal) @ np.linalg.solve(K, process.y)
