"""A bilevel problem, its observations, and its models: one Gaussian process per function.

Every function has observations of its own, as a query observes one function unless evaluations are
coupled; its model is over the joint unit cube.

Model units (:class:`bbo_plugins.gp.targets.LogLogTransform`): an objective is standardized by its
own observations; a constraint is divided by their root mean square and never shifted, so that the
prior's mean, zero, is the border of what is feasible. Values far out are compressed first where
that makes the values likelier.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from bbo_plugins import errors
from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.acquisition.validity import Validity, fit_validity
from bbo_plugins.gp.fit import Fit, WarmStart, fit_map
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.targets import LogLogTransform
from bbo_plugins.methods import training_subset
from bbo_plugins.methods.observations import Observations
from bbo_plugins.space import SearchSpace
from bbo_plugins.space.search_space import keys_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.space import Condition
    from bbo_plugins.space.dimension import FloatArray, IntArray

MAX_MODELED: Final = 500  # observations that the model of one function is fitted to, at most
SHARES: Final = training_subset.Shares(best=0.0, latest=0.5)
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
        conditions: Where parameters of either level are active in the joint space, as of
            :class:`SearchSpace`.
    """

    upper_space: SearchSpace
    lower_space: SearchSpace
    upper: str = "upper"
    lower: str = "lower"
    upper_constraints: tuple[str, ...] = ()
    lower_constraints: tuple[str, ...] = ()
    conditions: Mapping[str, Condition] = field(default_factory=dict)

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
            },
            self.conditions,
        )

    @cached_property
    def features(self) -> FeatureMap:
        """The kernel's feature map of the joint space."""
        return FeatureMap.of(self.space)


@dataclass(frozen=True, kw_only=True)
class FunctionData:
    """The observations and the unanswered queries of one function.

    Attributes:
        X: Observed joint points, shape (n, d).
        y: Values there, an objective's to be maximized, a constraint's at least 0 where it holds;
            finite, shape (n,).
        unanswered: Joint points of queries without a value, running or failed, shape (p, d).
        failed: Joint points of failed queries, the latest of them also in ``unanswered``, shape
            (k, d).
        failed_order: Numbers that grow in the order in which queries of any function failed, shape
            (k,).

    Raises:
        ValueError: The shapes disagree or a value is not finite.
    """

    X: FloatArray
    y: FloatArray
    unanswered: FloatArray
    failed: FloatArray
    failed_order: IntArray

    def __post_init__(self) -> None:
        """Check shapes and finiteness."""
        n, d = self.X.shape
        for name, array, shape in (
            ("y", self.y, (n,)),
            ("unanswered", self.unanswered, (len(self.unanswered), d)),
            ("failed", self.failed, (len(self.failed), d)),
            ("failed_order", self.failed_order, (len(self.failed),)),
        ):
            if array.shape != shape:
                message = f"{name} must have shape {shape}, but got {array.shape}."
                raise ValueError(message)
        if not np.isfinite(self.y).all():
            raise ValueError(errors.rule_message("y", "finite", self.y))


def training_data(
    data: FunctionData, features: FeatureMap
) -> tuple[FunctionData, FloatArray | None]:
    """Return the training data of a function's model, and the points that are left out.

    Args:
        data: The observations of the function; n of them.
        features: The kernel's feature map, by which distances are measured.

    Returns:
        At most :data:`MAX_MODELED` observations with all unanswered and failed queries, and the
        joint points of the other observations, shape (k, d), or None if none is left out.
    """
    n = len(data.y)
    if n <= MAX_MODELED:
        return data, None
    observations = Observations.of_complete(data.X, data.y)
    rows = training_subset.indices(observations, features, limit=MAX_MODELED, shares=SHARES)
    return replace(data, X=data.X[rows], y=data.y[rows]), np.delete(data.X, rows, axis=0)


def _likeliest_fit(
    data: FunctionData,
    features: FeatureMap,
    warm_start: WarmStart | None,
    *,
    everywhere: FloatArray,
    is_constraint: bool,
) -> tuple[LogLogTransform, Fit]:
    """Return the likelier fit of those with and, if any value is far out, without compression.

    ``everywhere`` (m, d) fills the space; a value's share is the part of it that is nearest.
    """

    def fitted(transform: LogLogTransform) -> tuple[LogLogTransform, Fit]:
        fit = fit_map(data.X, transform.forward(data.y), features, warm_start=warm_start)
        return transform, fit

    def log_evidence(found: tuple[LogLogTransform, Fit]) -> float:
        """Return the log density of the values in their own units plus the log prior."""
        transform, fit = found
        if fit.note is not None:
            return -np.inf
        slope = np.maximum(transform.derivative(data.y), np.finfo(np.float64).tiny)
        return fit.log_posterior + float(np.log(slope).sum())

    plain = LogLogTransform.fit(data.y, is_constraint=is_constraint)
    columns = features.columns(data.X)
    nearest = cdist(features.columns(everywhere), columns).argmin(axis=1)
    shares = np.bincount(nearest, minlength=len(columns)).astype(np.float64)
    compressing = LogLogTransform.fit(data.y, is_constraint=is_constraint, shares=shares)
    if not compressing.compresses(data.y):
        return fitted(plain)
    return max(fitted(plain), fitted(compressing), key=log_evidence)


@dataclass(frozen=True)
class FunctionModel:
    """The posterior of one function; :meth:`fit` builds one.

    Attributes:
        name: The function's name.
        process: Posterior in model units, unanswered queries included as its last observations.
        transform: The map between the function's own units and the model's.
        warm_start: Start of the next fit.
        n_observed: Number of observations in ``process`` that are no unanswered queries.
        scale: How much the function varies over the whole space, in model units: standard
            deviation of an objective, root mean square of a constraint.
        failed: Joint points of failed queries, shape (k, d).
        observations_only: Posterior without the unanswered queries; None if there are none.
        left_out: Feature columns of the observed joint points that are no training data; None if
            there are none.
    """

    name: str
    process: GaussianProcess
    transform: LogLogTransform
    warm_start: WarmStart
    n_observed: int
    scale: float
    failed: FloatArray
    observations_only: GaussianProcess | None = None
    left_out: KDTree | None = None

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
        """Fit to at least one observation.

        Args:
            name: The function's name.
            data: Its observations and unanswered queries.
            features: The kernel's feature map.
            is_constraint: Whether the function is a constraint, whose zero keeps its place.
            warm_start: The :attr:`warm_start` of an earlier fit.

        Returns:
            The model, conditioned on the unanswered queries.

        Raises:
            ValueError: The covariance matrix could not be factorized at all.
        """
        data, left_out = training_data(data, features)
        everywhere = shifted_sobol(_N_EVERYWHERE, data.X.shape[1], np.random.default_rng(0))
        transform, fit = _likeliest_fit(
            data, features, warm_start, everywhere=everywhere, is_constraint=is_constraint
        )
        process = GaussianProcess.of_fit(data.X, transform.forward(data.y), fit, features)
        return cls(
            name=name,
            process=process.condition_on_means(data.unanswered),
            transform=transform,
            warm_start=fit.warm_start,
            n_observed=len(data.y),
            scale=_scale(process, everywhere, centered=not is_constraint),
            failed=data.failed,
            observations_only=process if len(data.unanswered) else None,
            left_out=None if left_out is None else KDTree(features.columns(left_out)),
        )

    @property
    def without_unanswered(self) -> FunctionModel:
        """The posterior after the observations alone."""
        if self.observations_only is None:
            return self
        return replace(self, process=self.observations_only, observations_only=None)

    def predict(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and standard deviation at ``P`` (n, d), each (n,), model units."""
        mean, variance = self.process.predict(P)
        return mean, np.sqrt(variance)

    def margin_to_failure(self, P: FloatArray) -> FloatArray:
        """Return how much nearer the nearest observation is than the nearest failed query.

        Where it is negative, nothing says that the function has a value. Failures need not follow
        the length-scales of values, so distances are those of the cube, two categories 1 apart.

        Args:
            P: Joint points, shape (n, d).

        Returns:
            Differences of distances, shape (n,); infinite if no query failed.
        """
        if not len(self.failed):
            return np.full(len(P), np.inf)
        points, known, failed = (
            self.process.features.columns(rows)
            for rows in (P, self.process.X[: self.n_observed], self.failed)
        )
        to_known = cdist(points, known).min(axis=1)
        if self.left_out is not None:
            np.minimum(to_known, self.left_out.query(points)[0], out=to_known)
        margin: FloatArray = cdist(points, failed).min(axis=1) - to_known
        return margin

    def bound(self, P: FloatArray, multiplier: float) -> FloatArray:
        """Return μ + ``multiplier`` σ at ``P`` (n, d), shape (n,)."""
        mean, sd = self.predict(P)
        # Eq. (4.1); Eq. (4.2) with a negative multiplier
        return mean + multiplier * sd

    def bound_with_gradient(
        self, P: FloatArray, multiplier: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return μ + ``multiplier`` σ (n,) and its gradient (n, d) at ``P`` (n, d)."""
        mean, variance, pullback = self.process.predict_with_pullback(P)
        sd = np.sqrt(variance)
        return mean + multiplier * sd, pullback(np.ones_like(mean), 0.5 * multiplier / sd)


def _scale(process: GaussianProcess, P: FloatArray, *, centered: bool) -> float:
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
        validity: Where queries of all functions return values; None if none failed, or by accident.
        notes: Fallbacks taken, in words; empty when all went well.
    """

    upper: FunctionModel
    lower: FunctionModel
    upper_constraints: tuple[FunctionModel, ...] = ()
    lower_constraints: tuple[FunctionModel, ...] = ()
    validity: Validity | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        problem: BilevelProblem,
        data: Mapping[str, FunctionData],
        warm_starts: Mapping[str, WarmStart | None] = MappingProxyType({}),
    ) -> BilevelModel:
        """Fit every function's model to its own observations, at least one each.

        Args:
            problem: The spaces and the names of the functions.
            data: The observations of each function, by its name.
            warm_starts: The :attr:`FunctionModel.warm_start` of earlier fits, by the functions.

        Returns:
            The models, each conditioned on its unanswered queries.

        Raises:
            ValueError: As :meth:`FunctionModel.fit`.
        """
        constraints = (*problem.upper_constraints, *problem.lower_constraints)
        models = {
            name: FunctionModel.fit(
                name,
                data[name],
                problem.features,
                is_constraint=name in constraints,
                warm_start=warm_starts.get(name),
            )
            for name in problem.functions  # Algorithm 1, line 1
        }
        validity, notes = _validity(data, problem.features)
        return cls(
            upper=models[problem.upper],
            lower=models[problem.lower],
            upper_constraints=tuple(models[name] for name in problem.upper_constraints),
            lower_constraints=tuple(models[name] for name in problem.lower_constraints),
            validity=validity,
            notes=notes,
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
    def without_unanswered(self) -> BilevelModel:
        """The models after the observations alone."""
        if all(function.observations_only is None for function in self.functions):
            return self
        return replace(
            self,
            upper=self.upper.without_unanswered,
            lower=self.lower.without_unanswered,
            upper_constraints=tuple(c.without_unanswered for c in self.upper_constraints),
            lower_constraints=tuple(c.without_unanswered for c in self.lower_constraints),
        )

    def margin_to_failure(self, P: FloatArray, best: FloatArray) -> FloatArray:
        """Return the smallest margin of any function at ``P`` (n, d), and of f at ``best`` (n, d).

        Args:
            P: Joint points (x, z), shape (n, d).
            best: Joint points (x, z̄(x)), shape (n, d).

        Returns:
            The smallest :meth:`FunctionModel.margin_to_failure`, shape (n,).
        """
        smallest = self.lower.margin_to_failure(best)
        for function in self.functions:
            np.minimum(smallest, function.margin_to_failure(P), out=smallest)
        return smallest

    @cached_property
    def observed(self) -> FloatArray:
        """Distinct joint points of the training data of all functions, shape (n, d)."""
        points = [model.process.X[: model.n_observed] for model in self.functions]
        return np.unique(np.concatenate(points), axis=0)


def failed_points(data: Mapping[str, FunctionData]) -> FloatArray:
    """Return the joint points (f, d) at which some function failed and has no value.

    In the order of the failures, of all functions together, as far as it is known.
    """
    rows: list[tuple[int, FloatArray]] = []
    for one in data.values():
        known, places = set(keys_of(one.X)), one.failed_order.tolist()
        rows += [
            (place, row)
            for place, row, key in zip(places, one.failed, keys_of(one.failed), strict=True)
            if key not in known
        ]
    rows.sort(key=operator.itemgetter(0))
    d = next(iter(data.values())).X.shape[1]
    points = np.array([row for _, row in rows]).reshape(-1, d)
    return np.array([*dict(zip(keys_of(points), points, strict=True)).values()]).reshape(-1, d)


def _validity(
    data: Mapping[str, FunctionData], features: FeatureMap
) -> tuple[Validity | None, tuple[str, ...]]:
    """Fit to where all queries succeeded, and where one failed; a note if that is impossible."""
    failed = failed_points(data)
    if not len(failed):
        return None, ()
    keys = set(keys_of(failed))
    X = np.unique(np.concatenate([one.X for one in data.values()]), axis=0)
    X = X[[key not in keys for key in keys_of(X)]]
    fit = fit_validity(X, failed, features, mostly_failed=len(failed) > len(X))
    return fit.model, fit.notes
