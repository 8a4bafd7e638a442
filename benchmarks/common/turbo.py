"""TuRBO-1 on BoTorch, behind Optuna's sampler interface so that all meet the same loop.

The settings are those of BoTorch's TuRBO tutorial (Eriksson et al. 2019) with batches of one: a
Matérn-5/2 process with one length-scale per input in [0.005, 4] and noise variance in [1e-8, 1e-3],
inputs in the unit cube, standardized outcomes; Thompson sampling in a box around the best point,
shaped by the length-scales, of first length 0.8, doubled after 10 successes and halved after d
failures in a row; min(5000, max(2000, 200 d)) Sobol candidates, of whose coordinates on average 20
differ from the center's.

Three things differ, for speed or because the tutorial stops there: the fit continues from the one
before, by at most 50 steps of L-BFGS; the sample is drawn by Matheron's rule from 1,024 random
features (``draw_matheron_paths``) and not from the joint posterior of the candidates; a box shorter
than 2⁻⁷ starts over with as many Sobol points as the run had start-up points and with their data
alone, as in the paper. Float parameters on a linear scale only.
"""

import importlib
import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from benchmarks.common.botorch_peer import decode, encode
from benchmarks.common.peer import Floats, Peer, Points, Space

LENGTH, LONGEST, SHORTEST = 0.8, 1.6, 2.0**-7
SUCCESSES = 10
LEAST_RISE = 1e-3  # of the best value's size, to be a success
MAX_FIT_STEPS = 50
_CHANGED = 20.0  # coordinates of a candidate that differ from the center's, on average


@dataclass
class Region:
    """One trust region's life.

    Attributes:
        first: Number of complete trials before its own first one.
        length: Length of the box's sides before they are shaped.
        best: Best value of its data, maximized.
        successes: Successes in a row.
        failures: Failures in a row.
        startup: Points (s, d) of the unit cube to be evaluated before it has a model.
        fitted: The last model's state, from which the next fit continues.
    """

    first: int
    length: float = LENGTH
    best: float = -math.inf
    successes: int = 0
    failures: int = 0
    startup: list[NDArray[np.float64]] = field(default_factory=list)
    fitted: Any = None

    def update(self, y: float, dimension: int) -> None:
        """Count a value that was suggested from within the box, and resize it."""
        success = y > self.best + LEAST_RISE * abs(self.best)
        self.successes = self.successes + 1 if success else 0
        self.failures = 0 if success else self.failures + 1
        if self.successes == SUCCESSES:
            self.length, self.successes = min(2.0 * self.length, LONGEST), 0
        elif self.failures == max(4, dimension):
            self.length, self.failures = 0.5 * self.length, 0
        self.best = max(self.best, y)


class TuRBOSampler(Peer):
    """TuRBO-1 for one study from its first trial on, which is to be minimized."""

    def __init__(self, *, seed: int, n_startup_trials: int = 10) -> None:
        """Begin with a region that has no model."""
        super().__init__(seed=seed, n_startup_trials=n_startup_trials)
        self._region = Region(first=0)
        self._n_known = 0

    def suggest(self, y: Floats, points: Points, number: int, space: Space) -> dict[str, Any]:
        """Return the best candidate of a sample of the posterior in the box."""
        self._account_for(y, len(space), number)
        region = self._region
        if region.startup:
            return decode(space, region.startup.pop())
        x = np.array([encode(space, point) for point in points])
        point = suggest(
            x[region.first :], y[region.first :], region, seed=self._seed * 100_003 + number
        )
        return decode(space, point)

    def _account_for(self, y: NDArray[np.float64], dimension: int, number: int) -> None:
        """Update the region by the values since the last call; start over if it is too short."""
        for i in range(self._n_known, len(y)):
            if i < self._region.first + self._n_startup_trials:
                self._region.best = max(self._region.best, float(y[i]))
            else:
                self._region.update(float(y[i]), dimension)
        self._n_known = len(y)
        if self._region.length < SHORTEST:
            sobol = qmc.Sobol(dimension, rng=np.random.default_rng([self._seed, number]))
            points = sobol.random(2 ** math.ceil(math.log2(self._n_startup_trials)))
            self._region = Region(first=len(y), startup=list(points[: self._n_startup_trials]))


def suggest(
    x: NDArray[np.float64], y: NDArray[np.float64], region: Region, *, seed: int
) -> NDArray[np.float64]:
    """Return the next point (d,) for data x (n, d) in the unit cube and y (n,), maximized."""
    # Imported by name: the package's own type check runs without torch.
    torch = importlib.import_module("torch")
    pathwise = importlib.import_module("botorch.sampling.pathwise")
    torch.set_num_threads(1)
    torch.manual_seed(seed % 2**31)
    spread = float(y.std(ddof=1))
    standardized = (y - y.mean()) / (spread if spread > 0.0 else 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _fitted(torch.from_numpy(x), torch.from_numpy(standardized), region)
        scales = model.covar_module.base_kernel.lengthscale.detach().numpy().ravel()
        points = candidates(x[int(np.argmax(y))], scales, region.length, seed=seed)
        with torch.no_grad():
            paths = pathwise.draw_matheron_paths(model, sample_shape=torch.Size([1]))
            values = paths(torch.from_numpy(points))
    return np.asarray(points[int(values.argmax())], dtype=np.float64)


def candidates(
    center: NDArray[np.float64], scales: NDArray[np.float64], length: float, *, seed: int
) -> NDArray[np.float64]:
    """Return candidates (m, d) in the box of ``length`` around ``center`` shaped by ``scales``."""
    dimension = center.size
    sides = scales / np.exp(np.mean(np.log(scales))) * length
    low = np.clip(center - 0.5 * sides, 0.0, 1.0)
    high = np.clip(center + 0.5 * sides, 0.0, 1.0)
    m = min(5000, max(2000, 200 * dimension))
    rng = np.random.default_rng(seed)
    sobol = qmc.Sobol(dimension, rng=rng)
    points = low + (high - low) * sobol.random(2 ** math.ceil(math.log2(m)))[:m]
    changed = rng.random((m, dimension)) <= min(_CHANGED / dimension, 1.0)
    unchanged = np.flatnonzero(~changed.any(axis=1))
    changed[unchanged, rng.integers(dimension, size=unchanged.size)] = True
    return np.where(changed, points, center)


def _fitted(x: Any, y: Any, region: Region) -> Any:
    """Return the process fitted to tensors x (n, d) and y (n,), continuing from the last fit."""
    settings = importlib.import_module("gpytorch.settings")
    kernels = importlib.import_module("gpytorch.kernels")
    interval = importlib.import_module("gpytorch.constraints").Interval
    likelihoods = importlib.import_module("gpytorch.likelihoods")
    models = importlib.import_module("botorch.models")
    fit = importlib.import_module("botorch.fit")
    mlls = importlib.import_module("gpytorch.mlls")

    likelihood = likelihoods.GaussianLikelihood(noise_constraint=interval(1e-8, 1e-3))
    kernel = kernels.ScaleKernel(
        kernels.MaternKernel(
            nu=2.5, ard_num_dims=x.shape[1], lengthscale_constraint=interval(0.005, 4.0)
        )
    )
    model = models.SingleTaskGP(
        x, y[:, None], covar_module=kernel, likelihood=likelihood, outcome_transform=None
    )
    if region.fitted is not None:
        model.load_state_dict(region.fitted)
    with settings.max_cholesky_size(float("inf")):
        fit.fit_gpytorch_mll(
            mlls.ExactMarginalLogLikelihood(likelihood, model),
            optimizer_kwargs={"options": {"maxiter": MAX_FIT_STEPS}},
        )
    region.fitted = model.state_dict()
    return model
