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

Model units (:class:`bbo_plugins.methods.bilbo_units.Units`): an objective is standardized by its
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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from bbo_plugins import errors
from bbo_plugins.acquisition.quasirandom import shifted_sobol
from bbo_plugins.gp.kernels import FeatureMap, FloatArray
from bbo_plugins.gp.regression import GaussianProcess
from bbo_plugins.methods.bilbo_active_set import told_and_untold
from bbo_plugins.methods.bilbo_fit import fit_in_best_units
from bbo_plugins.methods.validity import Validity
from bbo_plugins.space import SearchSpace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.methods.bilbo_units import Units

_N_EVERYWHERE = 256  # points that stand for the whole space


@dataclass(frozen=True, kw_only=True)
class BilevelProblem:
    """The spaces of the two levels and the names of the functions.

    Attributes:
        upper_space: Space of x.
        lower_space: Space of z.
        upper: Name of the upper-level objective F.
        lower: Name of the lower-level objective f.
        upper_constraints: Names of the constraints of the upper level.
        lower_constraints: Names of the constraints of the lower level.

    Raises:
        ValueError: A parameter is on both levels, a level has none, or two functions share a name.
    """

    upper_space: SearchSpace
    lower_space: SearchSpace
    upper: str = "upper"
    lower: str = "lower"
    upper_constraints: tuple[str, ...] = ()
    lower_constraints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the names."""
        for argument, space in (("upper", self.upper_space), ("lower", self.lower_space)):
            if not len(space):
                rule = "a space of at least one parameter"
                raise ValueError(errors.rule_message(f"{argument}_space", rule, space))
        both = sorted(set(self.upper_space.names) & set(self.lower_space.names))
        if both:
            rule = "on one level only"
            raise ValueError(errors.rule_message("parameters", rule, both))
        if len(set(self.functions)) < len(self.functions):
            rule = "different names"
            raise ValueError(errors.rule_message("functions", rule, self.functions))

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of all functions: F, f, then the constraints of the upper and the lower level."""
        return (self.upper, self.lower, *self.upper_constraints, *self.lower_constraints)

    @property
    def n_upper(self) -> int:
        """Number of upper-level coordinates."""
        return len(self.upper_space)

    @cached_property
    def space(self) -> SearchSpace:
        """The joint space: upper-level parameters first."""
        spaces = (self.upper_space, self.lower_space)
        return SearchSpace(
            {
                name: dimension
                for space in spaces
                for name, dimension in zip(space.names, space.dimensions, strict=True)
            }
        )

    @cached_property
    def features(self) -> FeatureMap:
        """The kernel's feature map of the joint space."""
        return FeatureMap(tuple(self.space.n_categories.tolist()))


@dataclass(frozen=True, kw_only=True)
class FunctionData:
    """What is known of one function.

    Attributes:
        X: Joint points at which it was observed, shape (n, d).
        y: Its values there: an objective's to be maximized, a constraint's at least 0 where it
            holds; finite, shape (n,).
        pending: Joint points at which it is being evaluated elsewhere, or without a value because
            that failed, shape (p, d).
        failed: Joint points at which it failed; the latest of them are also in ``pending``, shape
            (k, d), or None.
        noise_variance: Known noise variances in squared units of ``y``, NaN where unknown, shape
            (n,), or None.

    Raises:
        ValueError: The shapes disagree or a value is not finite.
    """

    X: FloatArray
    y: FloatArray
    pending: FloatArray
    failed: FloatArray | None = None
    noise_variance: FloatArray | None = None

    def __post_init__(self) -> None:
        """Check shapes and finiteness."""
        n, d = self.X.shape
        noise = self.y if self.noise_variance is None else self.noise_variance
        failed = self.X[:0] if self.failed is None else self.failed
        for name, array, shape in (
            ("y", self.y, (n,)),
            ("noise_variance", noise, (n,)),
            ("pending", self.pending, (len(self.pending), d)),
            ("failed", failed, (len(failed), d)),
        ):
            if array.shape != shape:
                message = f"{name} must have shape {shape}, but got {array.shape}."
                raise ValueError(message)
        if not np.isfinite(self.y).all():
            raise ValueError(errors.rule_message("y", "finite", self.y))


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
    units: Units
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
