"""TuRBO-1 on BoTorch, behind Optuna's sampler interface so that all meet the same loop.

The settings are those of BoTorch's TuRBO tutorial (Eriksson et al. 2019) with batches of one: a
Matérn-5/2 process with one length-scale per input in [0.005, 4] and noise variance in [1e-8, 1e-3],
inputs in the unit cube, standardized outcomes; Thompson sampling in a box around the best point,
shaped by the length-scales, of first length 0.8, doubled after 10 successes and halved after d
failures in a row; min(5000, max(2000, 200 d)) Sobol candidates, of whose coordinates on average 20
differ from the center's.

Four things differ, for speed or because the tutorial stops there: the fit continues from the one
before, by at most 50 steps of L-BFGS; the sample is drawn by Matheron's rule from 1,024 random
features (``draw_matheron_paths``) and not from the joint posterior of the candidates; a box shorter
than 2⁻⁷ starts over with as many Sobol points as the run had start-up points and with their data
alone, as in the paper; a fit whose line search fails keeps what it has reached. Float parameters on
a linear scale only.

``benchmarks.common.scbo`` is the same under constraints. So outcomes are the value, which is
maximized, and after it the constraints, kept at most at zero; TuRBO has none of them.
"""

import importlib
import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
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
        best: The best of its data: violation of the constraints, negated, then value.
        successes: Successes in a row.
        failures: Failures in a row.
        startup: Points (s, d) of the unit cube to be evaluated before it has a model.
        fitted: The last models' states by outcome, from which the next fits continue.
    """

    first: int
    length: float = LENGTH
    best: tuple[float, float] = (-math.inf, -math.inf)
    successes: int = 0
    failures: int = 0
    startup: list[Floats] = field(default_factory=list)
    fitted: dict[int, Any] = field(default_factory=dict)

    def update(self, y: float, dimension: int, violation: float = 0.0) -> None:
        """Count a value that was suggested from within the box, and resize it."""
        feasibility, best = self.best
        success = (-violation, y) > (feasibility, best + LEAST_RISE * abs(best))
        self.successes = self.successes + 1 if success else 0
        self.failures = 0 if success else self.failures + 1
        if self.successes == SUCCESSES:
            self.length, self.successes = min(2.0 * self.length, LONGEST), 0
        elif self.failures == max(4, dimension):
            self.length, self.failures = 0.5 * self.length, 0
        self.best = max(self.best, (-violation, y))


class TuRBOSampler(Peer):
    """TuRBO-1 for one study from its first trial on, which is to be minimized."""

    shaped = True  # the box, by the length-scales

    def __init__(self, *, seed: int, n_startup_trials: int = 10) -> None:
        """Begin with a region that has no model."""
        super().__init__(seed=seed, n_startup_trials=n_startup_trials)
        self._region = Region(first=0)
        self._n_known = 0

    def suggest(self, y: Floats, points: Points, number: int, space: Space) -> dict[str, Any]:
        """Return the best candidate of a sample of the posterior in the box."""
        outcomes = self.outcomes(y)
        self._account_for(outcomes, len(space), number)
        region = self._region
        if region.startup:
            return decode(space, region.startup.pop())
        x = np.array([encode(space, point) for point in points])
        point = suggest(
            x[region.first :],
            outcomes[region.first :],
            region,
            seed=self._seed * 100_003 + number,
            shaped=self.shaped,
        )
        return decode(space, point)

    def outcomes(self, y: Floats) -> Floats:
        """Return the outcomes (n, 1 + m) of trials whose values are y (n,)."""
        return y[:, None]

    def _account_for(self, outcomes: Floats, dimension: int, number: int) -> None:
        """Update the region by the trials since the last call; start over if it is too short."""
        violations = violation(outcomes)
        for i in range(self._n_known, len(outcomes)):
            y, violated = float(outcomes[i, 0]), float(violations[i])
            if i < self._region.first + self._n_startup_trials:
                self._region.best = max(self._region.best, (-violated, y))
            else:
                self._region.update(y, dimension, violated)
        self._n_known = len(outcomes)
        if self._region.length < SHORTEST:
            sobol = qmc.Sobol(dimension, rng=np.random.default_rng([self._seed, number]))
            points = sobol.random(2 ** math.ceil(math.log2(self._n_startup_trials)))
            self._region = Region(
                first=len(outcomes), startup=list(points[: self._n_startup_trials])
            )


def suggest(
    x: Floats, outcomes: Floats, region: Region, *, seed: int, shaped: bool = True
) -> Floats:
    """Return the next point (d,) for data x (n, d) in the unit cube and outcomes (n, 1 + m)."""
    # Imported by name: the package's own type check runs without torch.
    torch = importlib.import_module("torch")
    pathwise = importlib.import_module("botorch.sampling.pathwise")
    torch.set_num_threads(1)
    torch.manual_seed(seed % 2**31)
    means, spreads = outcomes.mean(axis=0), outcomes.std(axis=0, ddof=1)
    spreads[spreads == 0.0] = 1.0
    standardized = torch.from_numpy((outcomes - means) / spreads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [_fitted(torch.from_numpy(x), y, i, region) for i, y in enumerate(standardized.T)]
        scales = models[0].covar_module.base_kernel.lengthscale.detach().numpy().ravel()
        scales = scales if shaped else np.ones(x.shape[1])
        points = candidates(x[best_of(outcomes)], scales, region.length, seed=seed)
        with torch.no_grad():
            paths = [pathwise.draw_matheron_paths(m, sample_shape=torch.Size([1])) for m in models]
            sample = [path(torch.from_numpy(points)).numpy().ravel() for path in paths]
    return np.asarray(points[best_of(means + spreads * np.stack(sample, axis=1))])


def violation(outcomes: Floats) -> Floats:
    """Return the total violation (n,) of the constraints."""
    return np.asarray(np.maximum(outcomes[:, 1:], 0.0).sum(axis=1))


def best_of(outcomes: Floats) -> int:
    """Return the index of the best feasible outcomes; if none, of those that violate least."""
    return int(np.lexsort((-outcomes[:, 0], violation(outcomes)))[0])


def candidates(center: Floats, scales: Floats, length: float, *, seed: int) -> Floats:
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


def _fitted(x: Any, y: Any, i: int, region: Region) -> Any:
    """Return outcome i's process for tensors x (n, d) and y (n,), continuing from the last fit."""
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
    if i in region.fitted:
        model.load_state_dict(region.fitted[i])
    with settings.max_cholesky_size(float("inf")):
        fit.fit_gpytorch_mll(
            mlls.ExactMarginalLogLikelihood(likelihood, model),
            # A line search that finds no rise keeps what it reached: a retry would begin alike.
            warning_handler=lambda _warning: True,
            optimizer_kwargs={"options": {"maxiter": MAX_FIT_STEPS}},
        )
    region.fitted[i] = model.state_dict()
    return model
