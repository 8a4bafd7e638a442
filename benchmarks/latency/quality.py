"""Is the fast suggestion also a good one? Fit and acquisition search, judged by the same formulas.

On the data of one suggestion of ``GPSampler``:

(a) *fit*: the log posterior (marginal likelihood + Optuna's prior, which is written down again
here) at GPSampler's hyperparameters against its value where our optimizer ends; (b) *acquisition*:
on the posterior with GPSampler's hyperparameters and with its incumbent, log EI at GPSampler's
point against log EI at the point that our search returns.

Both values of a pair come from this package's formulas, so nothing but the optimizers differs.
Differences are in nats, ours minus theirs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import GPSampler
from optuna.trial import FrozenTrial

from bbo_plugins.acquisition.functions import ConstrainedAcquisition
from bbo_plugins.acquisition.maximize import maximize
from bbo_plugins.gp.fit import WarmStart, fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import NOISE_FLOOR, Hyperparameters, MarginalLikelihood
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.methods import gp_bo
from bbo_plugins.space import Dimension, SearchSpace

FloatArray = NDArray[np.float64]

TOLERANCE = 1e-3  # nats below theirs that still count as "no worse"


@dataclass(frozen=True, kw_only=True)
class Captured:
    """The model behind one suggestion of GPSampler, in its own standardized units (maximized)."""

    length_scales: FloatArray
    signal_variance: float
    noise_variance: float
    X: FloatArray
    y: FloatArray
    incumbent: float


class CapturingGPSampler(GPSampler):
    """GPSampler that keeps the model of its last suggestion; what it suggests is unchanged."""

    captured: Captured | None = None

    def _optimize_acqf(self, acqf: Any, best_params: Any) -> Any:
        gpr = acqf._gpr  # noqa: SLF001 - there is no public way to the fitted model
        self.captured = Captured(
            length_scales=np.array(gpr.length_scales),
            signal_variance=float(gpr.kernel_scale),
            noise_variance=float(gpr.noise_var),
            X=gpr._X_train.numpy().copy(),  # noqa: SLF001
            y=gpr._y_train.numpy().ravel().copy(),  # noqa: SLF001
            incumbent=float(acqf._threshold),  # noqa: SLF001
        )
        return super()._optimize_acqf(acqf, best_params)


@dataclass(frozen=True)
class OptunaPrior:
    """The prior of Optuna's GP as a log density over θ = (log l (d,), log s², log(σ_n² - floor)).

    Up to a constant: the sum of -0.1 (l² + l⁻²) over the length-scales l, + log s² - s²
    + 0.1 log σ_n² - 30 σ_n². Like there, it is a density of the natural parameters that is
    maximized over their logarithms: no Jacobian.
    """

    n_dimensions: int

    @property
    def location(self) -> FloatArray:
        """The density's mode, shape (d + 2,)."""
        return np.array([0.0] * (self.n_dimensions + 1) + [np.log(1.0 / 300.0)])

    @property
    def scale(self) -> FloatArray:
        """The inverse square root of the curvature at the mode, shape (d + 2,)."""
        return np.array([np.sqrt(1.25)] * self.n_dimensions + [1.0, np.sqrt(10.0)])

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log density and its gradient at ``theta`` (d + 2,)."""
        with np.errstate(over="ignore"):  # an overflow makes the density zero, as it should
            squared = np.exp(2.0 * theta[:-2])
            signal, excess = np.exp(theta[-2:])
        noise = NOISE_FLOOR + excess
        value = -0.1 * float((squared + 1.0 / squared).sum())
        value += float(theta[-2] - signal + 0.1 * np.log(noise) - 30.0 * noise)
        gradient = np.empty_like(theta)
        gradient[:-2] = -0.2 * (squared - 1.0 / squared)
        gradient[-2] = 1.0 - signal
        gradient[-1] = excess * (0.1 / noise - 30.0)
        return value, gradient


def search_space(space: Mapping[str, BaseDistribution]) -> SearchSpace:
    """Return our search space for Optuna's distributions, sorted by name as theirs is."""
    return SearchSpace({name: _dimension(space[name]) for name in sorted(space)})


def _dimension(distribution: BaseDistribution) -> Dimension:
    if isinstance(distribution, CategoricalDistribution):
        return Dimension.categorical(distribution.choices)
    if isinstance(distribution, IntDistribution):
        low, high = distribution.low, distribution.high
        return Dimension.int(low, high, log=distribution.log, step=distribution.step)
    if isinstance(distribution, FloatDistribution):
        low_float, high_float = distribution.low, distribution.high
        return Dimension.float(low_float, high_float, log=distribution.log, step=distribution.step)
    raise TypeError(f"distribution must be a known one, but got {distribution!r}.")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Values reached on one suggestion's data; ``warm`` says whether our fit had an earlier one."""

    fit_ours: float
    fit_theirs: float
    acquisition_ours: float
    acquisition_theirs: float
    warm: bool
    warm_start: WarmStart


def compare(
    captured: Captured,
    trials: list[FrozenTrial],
    suggested: Mapping[str, Any],
    space: SearchSpace,
    *,
    seed: int,
    warm_start: WarmStart | None,
) -> Comparison:
    """Compare fit and acquisition search on the data of GPSampler's suggestion.

    Args:
        captured: GPSampler's model.
        trials: The complete trials that it was built from, in order.
        suggested: The parameters that it suggested.
        space: The search space.
        seed: Seed of our acquisition search.
        warm_start: What our fit on an earlier stage of this history left, or None.
    """
    X = space.encode([trial.params for trial in trials])
    numeric = np.asarray(space.n_categories) == 0
    assert np.allclose(X[:, numeric], captured.X[:, numeric], atol=1e-9), "not the same data"
    features = FeatureMap(tuple(int(n) for n in space.n_categories))
    prior = OptunaPrior(len(space))

    fit = fit_map(X, captured.y, features, prior=prior, warm_start=warm_start)
    theta = _theta(captured)
    likelihood = MarginalLikelihood(X, captured.y, features)
    fit_theirs = likelihood(theta)[0] + prior.value_and_gradient(theta)[0]
    reached = _theta_of(fit.hyperparameters)
    # Computed again rather than taken from the fit's own report.
    fit_ours = likelihood(reached)[0] + prior.value_and_gradient(reached)[0]

    theirs = Hyperparameters(
        captured.length_scales, captured.signal_variance, captured.noise_variance
    )
    process = GaussianProcess.from_data(X, captured.y, theirs, features)
    beta = gp_bo.DEFAULT_OPTIONS.beta
    log_ei = ConstrainedAcquisition("logei", process, captured.incumbent, beta)
    point = _search(log_ei, process, space, X, np.random.default_rng([seed, len(trials)]))
    values = log_ei.value(np.stack([point, space.encode([suggested])[0]]))
    return Comparison(
        fit_ours=fit_ours,
        fit_theirs=fit_theirs,
        acquisition_ours=float(values[0]),
        acquisition_theirs=float(values[1]),
        warm=warm_start is not None,
        warm_start=fit.warm_start,
    )


def _search(
    acquisition: ConstrainedAcquisition,
    process: GaussianProcess,
    space: SearchSpace,
    X: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the point (d,) that our search finds, with the settings of ``gp_bo.suggest``."""
    best_first = np.argsort(-process.predict_mean(X), kind="stable")
    point, _ = maximize(
        acquisition,
        space,
        rng=rng,
        length_scales=process.hyperparameters.length_scales,
        anchors=X[best_first[: gp_bo._N_ANCHORS]],  # noqa: SLF001 - the product's own setting
    )
    return point


def _theta(captured: Captured) -> FloatArray:
    """Return GPSampler's hyperparameters as our log ones."""
    hyperparameters = Hyperparameters(
        captured.length_scales, captured.signal_variance, captured.noise_variance
    )
    return _theta_of(hyperparameters)


def _theta_of(hyperparameters: Hyperparameters) -> FloatArray:
    excess = max(hyperparameters.noise_variance - NOISE_FLOOR, 1e-30)
    scales = np.log(hyperparameters.length_scales)
    return np.append(scales, np.log([hyperparameters.signal_variance, excess]))
