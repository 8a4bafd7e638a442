"""What BILBO knows of a bilevel problem: its space, its observations, one model per function.

Inside, both objectives are maximized and a constraint holds where it is at least zero. Every
function has its own data, as a query observes one function only, and its own Gaussian process over
the joint unit cube: upper-level coordinates first, then lower-level ones.

| symbol   | shape  | meaning                                                             |
|----------|--------|---------------------------------------------------------------------|
| x, z     |        | upper- and lower-level point in the unit cube                       |
| P        | (n, d) | joint points (x, z)                                                 |
| F, f     |        | upper- and lower-level objective                                    |
| μ_h, σ_h | (n,)   | posterior mean and standard deviation of function h, in model units |

Model units (:class:`bbo_plugins.gp.targets.LogLogTransform`): an objective is standardized by its
own data; a constraint is divided by the root mean square of its data and never shifted, so that the
prior's mean, zero, is the border of what is feasible. Values far out are compressed before.

Source: Chew, Nguyen & Low (2025), "BILBO: BILevel Bayesian Optimization", sections 3 and D.2.

Deviations: the paper standardizes by the true mean and deviation of each test function over its
box, which are not known in practice. Observations cluster near the solution, so that their own
deviation is too small a unit to compare functions by: uncertainties are compared in units of
:attr:`FunctionModel.spread`, the model's estimate of the true one. The paper's values are not
compressed. Hyperparameters have priors, as everywhere in this package. While a query is chosen,
those that are still being evaluated or have failed are believed at their posterior means, so that
they are not made again; what is reported (:attr:`BilevelModel.without_pending`) does not count
them, as nothing has been learned from them. The paper has no parallel queries.

Which observations BILBO's models have, once there are too many for all of them.

A step looks at tens of thousands of points, at each of which a variance costs n² time. Up to
:data:`MAX_MODELED` observations of a function its model has all of them; beyond, it has half the
latest ones and half as far apart as possible, chosen and renewed in blocks as by
:mod:`bbo_plugins.methods.training_subset`, which depends on the observations of that function and
their
order alone. The limit was chosen by cost: with 10,000 queries of two functions of four parameters a
suggestion took 0.9 s of processor time, and 4.7 s with twice the limit.

Each function has a set of its own, as BILBO asks for some many times more often than for others.
There is no share for the best values, as they are not what matters: F counts at the solution, f at
the answers to any x, a constraint at its border. The search knows where that is, and its latest
queries are there; those far apart keep the rest of the space from being forgotten, which a search
for the best answer would otherwise take for promising again and again. (One place is still that of
the largest value, of a constraint the best satisfied.)

Measured on Branin/Goldstein-Price and the bounded SMD2 and SMD6 with models that remember 50
observations of a function: geometric mean of the regrets after 140, 160, 180 and 200 queries, in
orders of magnitude above that with all observations, for the same 13 pairs of searches (seeds 300
to 304), mean ± standard error:

| what is remembered                                                         | above all     |
|----------------------------------------------------------------------------|---------------|
| half the latest, half far apart (this rule)                                | 0.48 ± 0.16   |
| three quarters the latest, the rest far apart                              | 0.54 ± 0.19   |
| half the latest, a quarter the best, a quarter far apart                   | 0.52 ± 0.16   |
| a quarter the latest, the rest far apart                                   | 1.02 ± 0.20   |
| half the latest, a quarter nearest to the solution of a model with the     | 0.35 ± 0.19   |
| first rule, a quarter far apart; at twice the time                         |               |

So it takes half for the latest; differences beyond that are within the noise, and this rule is the
simplest. Fifty observations are few for five parameters: with 100 of each function, and 300 queries
of SMD2 and SMD6, it was 0.15 ± 0.21 (6 pairs). The loss at the real limit has not been measured.

The rule is this project's own; the paper's runs are too short to need one.

Hyperparameters of one function of a bilevel problem, in the units that suit it best.

Whether values far out are compressed (:mod:`bbo_plugins.gp.targets`) is decided by the log
density of the values in their own units, to which each kind of units contributes its Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.acquisition.validity import Validity
from bbo_plugins.gp.fit import Fit, WarmStart, fit_map
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.surrogate import transformed_noise
from bbo_plugins.gp.targets import LogLogTransform
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.observations import Observations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.methods.bilbo.problem import BilevelProblem, FunctionData
    from bbo_plugins.space.dimension import FloatArray

MAX_MODELED: Final = 500  # observations that the model of one function is fitted to, at most


SHARES: Final = training_subset.Shares(best=0.0, latest=0.5)


def told_and_untold(
    data: FunctionData, features: FeatureMap
) -> tuple[FunctionData, FloatArray | None]:
    """Return what the model of a function is told, and the joint points (k, d) of the rest.

    The rest is None where the model is told everything. Pending and failed queries stay.

    Args:
        data: What is known of the function.
        features: The kernel's feature map, by which distances are measured.
    """
    n = len(data.y)
    if n <= MAX_MODELED:
        return data, None
    observations = Observations(
        X=data.X, y=data.y, complete=np.ones(n, dtype=np.bool_), pending=data.pending
    )
    rows = training_subset.indices(observations, features, limit=MAX_MODELED, shares=SHARES)
    noise = data.noise_variance
    told = replace(
        data, X=data.X[rows], y=data.y[rows], noise_variance=None if noise is None else noise[rows]
    )
    return told, np.delete(data.X, rows, axis=0)


@dataclass(frozen=True)
class FittedUnits:
    """Hyperparameters in some units.

    Attributes:
        units: The units.
        fit: The fit in them.
        known_noise: Known noise variances in squared model units, shape (n,), or None.
        log_evidence: Log density of the values in their own units, whatever the model's are, plus
            log prior; -inf if no hyperparameters could be fitted.
    """

    units: LogLogTransform
    fit: Fit
    known_noise: FloatArray | None
    log_evidence: float

    @classmethod
    def of(
        cls,
        data: FunctionData,
        features: FeatureMap,
        units: LogLogTransform,
        warm_start: WarmStart | None,
    ) -> FittedUnits:
        """Fit in ``units``; does not raise where nothing can be fitted."""
        slope = units.derivative(data.y)
        known = None
        if data.noise_variance is not None:
            known = transformed_noise(data.noise_variance, slope)
        targets = units.forward(data.y)
        fit = fit_map(data.X, targets, features, known_noise=known, warm_start=warm_start)
        if fit.note is not None:
            return cls(units, fit, known, -np.inf)
        log_jacobian = float(np.log(np.maximum(slope, np.finfo(np.float64).tiny)).sum())
        return cls(units, fit, known, fit.log_posterior + log_jacobian)


def fit_in_best_units(
    data: FunctionData,
    features: FeatureMap,
    warm_start: WarmStart | None,
    *,
    everywhere: FloatArray,
    is_constraint: bool,
) -> FittedUnits:
    """Fit without and, if any value is far out, with compression; return the likelier fit.

    Args:
        data: The observations.
        features: The kernel's feature map.
        warm_start: What an earlier fit left, in units of either kind.
        everywhere: Points that fill the space, shape (m, d).
        is_constraint: Whether the function is a constraint.
    """
    plain = LogLogTransform.fit(data.y, is_constraint=is_constraint)
    fitted = FittedUnits.of(data, features, plain, warm_start)
    shares = _shares(features.columns(data.X), features.columns(everywhere))
    compressing = LogLogTransform.fit(data.y, is_constraint=is_constraint, shares=shares)
    if not compressing.compresses(data.y):
        return fitted
    other = FittedUnits.of(data, features, compressing, warm_start)
    return max(fitted, other, key=lambda one: one.log_evidence)


def _shares(columns: FloatArray, everywhere: FloatArray) -> FloatArray:
    """Return of how many points (m, D) of the space each observed one (n, D) is the nearest."""
    nearest = cdist(everywhere, columns).argmin(axis=1)
    return np.bincount(nearest, minlength=len(columns)).astype(np.float64)


_N_EVERYWHERE = 256  # points that stand for the whole space


@dataclass(frozen=True)
class FunctionModel:
    """The posterior of one function; :meth:`fit` builds one.

    Attributes:
        name: The function's name.
        process: Posterior in model units, pending queries included.
        units: The map between the function's own units and the model's.
        warm_start: What the next fit may start from.
        n_observed: Number of observations that ``process`` has, without the pending queries that
            are its last.
        spread: How much the function varies over the whole space, in model units: standard
            deviation of an objective, root mean square of a constraint, as the model has it from
            the observations.
        observations_only: Posterior in model units without the pending queries; None if there are
            none.
        failed: Joint points at which queries failed, shape (k, d), or None.
        unmodeled: Feature columns of the joint points whose observations ``process`` is not told
            of, for searches of the nearest one; None if it is told of all.
    """

    name: str
    process: GaussianProcess
    units: LogLogTransform
    warm_start: WarmStart
    n_observed: int
    spread: float
    observations_only: GaussianProcess | None = None
    failed: FloatArray | None = None
    unmodeled: KDTree | None = None

    @classmethod
    def fit(
        cls,
        name: str,
        data: FunctionData,
        features: FeatureMap,
        *,
        is_constraint: bool,
        warm_start: WarmStart | None = None,
    ) -> FunctionModel:
        """Fit to at least one observation; of too many, to those that are to be modeled.

        Raises:
            ValueError: The covariance matrix could not be factorized at all.
        """
        data, untold = told_and_untold(data, features)
        everywhere = _everywhere(data.X.shape[1])
        fitted = fit_in_best_units(
            data, features, warm_start, everywhere=everywhere, is_constraint=is_constraint
        )
        units, fit = fitted.units, fitted.fit
        process = GaussianProcess.from_data(
            data.X,
            units.forward(data.y),
            fit.hyperparameters,
            features,
            known_noise=fitted.known_noise,
            cholesky=fit.cholesky,
        )
        spread = _spread(process, everywhere, centered=not is_constraint)
        function = cls(
            name,
            process,
            units,
            fit.warm_start,
            len(data.y),
            spread,
            failed=data.failed,
            unmodeled=None if untold is None else KDTree(features.columns(untold)),
        )
        if not len(data.pending):
            return function
        believed = process.condition_on(data.pending, process.predict_mean(data.pending))
        return replace(function, process=believed, observations_only=process)

    @property
    def without_pending(self) -> FunctionModel:
        """The posterior after the observations alone."""
        if self.observations_only is None:
            return self
        return replace(self, process=self.observations_only, observations_only=None)

    def predict(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and standard deviation at ``P`` (n, d), each (n,), model units."""
        mean, variance = self.process.predict(P)
        return mean, np.sqrt(variance)

    def success(self, P: FloatArray) -> FloatArray:
        """Return how much nearer the nearest observation is than the nearest failed query, (n,).

        Distances from ``P`` (n, d) are those of the cube, two categories being 1 apart, as failures
        need not follow the length-scales of values; infinite if no query failed. Where it is
        negative there is no reason to think that the function has a value.
        """
        if self.failed is None or not len(self.failed):
            return np.full(len(P), np.inf)
        points, known, failed = (
            self.process.features.columns(rows)
            for rows in (P, self.process.X[: self.n_observed], self.failed)
        )
        to_known = cdist(points, known).min(axis=1)
        if self.unmodeled is not None:
            np.minimum(to_known, self.unmodeled.query(points)[0], out=to_known)
        nearer: FloatArray = cdist(points, failed).min(axis=1) - to_known
        return nearer

    def bound(self, P: FloatArray, multiplier: float) -> FloatArray:
        """Return μ + ``multiplier`` σ at ``P`` (n, d), shape (n,)."""
        mean, sd = self.predict(P)
        return mean + multiplier * sd

    def bound_with_gradient(
        self, P: FloatArray, multiplier: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return μ + ``multiplier`` σ (n,) and its gradient (n, d) at ``P`` (n, d)."""
        mean, variance, mean_gradient, variance_gradient = self.process.predict_with_gradients(P)
        sd = np.sqrt(variance)
        slope = 0.5 * multiplier / sd
        return mean + multiplier * sd, mean_gradient + slope[:, None] * variance_gradient


def _everywhere(n_dimensions: int) -> FloatArray:
    """Return points that fill the unit cube, the same ones at every call, shape (n, d)."""
    return shifted_sobol(_N_EVERYWHERE, n_dimensions, np.random.default_rng(0))


def _spread(process: GaussianProcess, P: FloatArray, *, centered: bool) -> float:
    """Return the root mean square of a draw from ``process`` over ``P``, about its mean or zero."""
    mean, variance = process.predict(P)
    offset = mean.mean() if centered else 0.0
    return float(np.sqrt(np.mean(np.square(mean - offset) + variance)))


@dataclass(frozen=True)
class BilevelModel:
    """The models of all functions; :meth:`fit` builds one.

    Attributes:
        upper: F.
        lower: f.
        upper_constraints: Constraints of the upper level.
        lower_constraints: Constraints of the lower level.
        validity: Where queries of all functions return values; None if none has failed.
    """

    upper: FunctionModel
    lower: FunctionModel
    upper_constraints: tuple[FunctionModel, ...] = ()
    lower_constraints: tuple[FunctionModel, ...] = ()
    validity: Validity | None = None

    @classmethod
    def fit(
        cls,
        problem: BilevelProblem,
        data: Mapping[str, FunctionData],
        warm_starts: Mapping[str, WarmStart] | None = None,
    ) -> BilevelModel:
        """Fit every function's model to its own data, each with at least one observation.

        Raises:
            ValueError: As :meth:`FunctionModel.fit`.
        """
        starts = warm_starts or {}

        def model(name: str, *, is_constraint: bool) -> FunctionModel:
            return FunctionModel.fit(
                name,
                data[name],
                problem.features,
                is_constraint=is_constraint,
                warm_start=starts.get(name),
            )

        return cls(
            model(problem.upper, is_constraint=False),
            model(problem.lower, is_constraint=False),
            tuple(model(name, is_constraint=True) for name in problem.upper_constraints),
            tuple(model(name, is_constraint=True) for name in problem.lower_constraints),
            _validity(data, problem.features),
        )

    @property
    def constraints(self) -> tuple[FunctionModel, ...]:
        """The constraints of both levels, upper level first."""
        return self.upper_constraints + self.lower_constraints

    @property
    def functions(self) -> tuple[FunctionModel, ...]:
        """All models: F, f, then the constraints."""
        return (self.upper, self.lower, *self.constraints)

    @cached_property
    def without_pending(self) -> BilevelModel:
        """The models after the observations alone: what is known, as opposed to expected."""
        if all(function.observations_only is None for function in self.functions):
            return self
        return BilevelModel(
            self.upper.without_pending,
            self.lower.without_pending,
            tuple(constraint.without_pending for constraint in self.upper_constraints),
            tuple(constraint.without_pending for constraint in self.lower_constraints),
            self.validity,
        )

    def success(self, P: FloatArray, best: FloatArray) -> FloatArray:
        """Return the smallest :meth:`FunctionModel.success` at ``P`` and of f at ``best``, (n,)."""
        smallest = self.lower.success(best)
        for function in self.functions:
            np.minimum(smallest, function.success(P), out=smallest)
        return smallest

    @cached_property
    def observed(self) -> FloatArray:
        """Distinct joint points of the observations that are modeled, of any function, (n, d)."""
        points = [model.process.X[: model.n_observed] for model in self.functions]
        return np.unique(np.concatenate(points), axis=0)


def failed_points(data: Mapping[str, FunctionData]) -> FloatArray:
    """Return the joint points (f, d) at which some function failed and has no value since."""
    rows = []
    for of in data.values():
        known = {row.tobytes() for row in of.X}
        rows += [
            row
            for row in (of.X[:0] if of.failed is None else of.failed)
            if row.tobytes() not in known
        ]
    d = next(iter(data.values())).X.shape[1]
    return np.array(list({row.tobytes(): row for row in rows}.values())).reshape(-1, d)


def _validity(data: Mapping[str, FunctionData], features: FeatureMap) -> Validity | None:
    """Fit to where all queries succeeded, and where one failed."""
    failed = failed_points(data)
    if not len(failed):
        return None
    keys = {row.tobytes() for row in failed}
    X = np.unique(np.concatenate([of.X for of in data.values()]), axis=0)
    return Validity.of(X[[row.tobytes() not in keys for row in X]], failed, features)
