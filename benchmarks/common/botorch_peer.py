"""BoTorch used directly, behind Optuna's sampler interface so that all meet the same loop.

``SingleTaskGP`` with its own default priors on inputs in the unit cube and standardized outcomes,
``LogExpectedImprovement``, ``optimize_acqf(num_restarts=10, raw_samples=512)``.  Log parameters are
modeled on the log scale, discrete numbers are relaxed and rounded, categorical ones are relaxed to
one-hot coordinates and the largest is taken.
"""

import importlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.peer import Floats, Peer, Points, Space
from benchmarks.problems.problem import cube_of

NUM_RESTARTS = 10
RAW_SAMPLES = 512


class BoTorchSampler(Peer):
    """Unconstrained BoTorch; random points until ``n_startup_trials`` trials are complete."""

    def suggest(self, y: Floats, points: Points, number: int, space: Space) -> dict[str, Any]:
        """Fit the model to all complete trials and return the maximizer of log EI."""
        x = np.array([encode(space, point) for point in points])
        return decode(space, _suggest(x, y[:, None], seed=self._seed * 100_003 + number))


def _suggest(x: NDArray[np.float64], y: NDArray[np.float64], *, seed: int) -> NDArray[np.float64]:
    """Return BoTorch's proposal for data x (n, d) in the unit cube and y (n, 1), maximized."""
    # Imported by name: the package's own type check runs without torch.
    torch = importlib.import_module("torch")
    models = importlib.import_module("botorch.models")
    transforms = importlib.import_module("botorch.models.transforms")
    analytic = importlib.import_module("botorch.acquisition.analytic")
    optim = importlib.import_module("botorch.optim")
    fit = importlib.import_module("botorch.fit")
    mlls = importlib.import_module("gpytorch.mlls")

    torch.set_num_threads(1)
    torch.manual_seed(seed % 2**31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train_x, train_y = torch.from_numpy(x), torch.from_numpy(y)
        model = models.SingleTaskGP(train_x, train_y, outcome_transform=transforms.Standardize(m=1))
        fit.fit_gpytorch_mll(mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = analytic.LogExpectedImprovement(model, best_f=train_y.max())
        bounds = torch.stack([torch.zeros(x.shape[1]), torch.ones(x.shape[1])]).double()
        candidate, _ = optim.optimize_acqf(
            acquisition, bounds=bounds, q=1, num_restarts=NUM_RESTARTS, raw_samples=RAW_SAMPLES
        )
    return np.asarray(candidate.detach().numpy()[0], dtype=np.float64)


def encode(space: Space, params: Mapping[str, Any]) -> list[float]:
    """Return unit-cube coordinates: one per numeric parameter, one per categorical choice."""
    cube, coordinates = cube_of(space), list[float]()
    for at, u in zip(cube.dimensions, cube.encode([params])[0], strict=True):
        coordinates += np.eye(len(at.choices))[at.level_of(u)].tolist() if at.choices else [u]
    return coordinates


def decode(space: Space, point: Floats) -> dict[str, Any]:
    """Return the parameters nearest to a point of the unit cube."""
    cube = cube_of(space)
    parts = np.split(point, np.cumsum(np.maximum(cube.n_categories, 1))[:-1])
    coordinates = [
        at.position_of(part.argmax()) if at.choices else part[0]
        for at, part in zip(cube.dimensions, parts, strict=True)
    ]
    return cube.decode(coordinates)
