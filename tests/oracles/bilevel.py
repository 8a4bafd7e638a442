"""Bilevel problems on small grids, models of known processes, and sets by definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.gp.posterior import GaussianProcess
from bbo_plugins.gp.targets import LogLogTransform
from bbo_plugins.methods.bilbo.model import (
    BilevelModel,
    BilevelProblem,
    FunctionData,
    FunctionModel,
)
from bbo_plugins.space import Dimension, SearchSpace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]


def grid_problem(
    n_upper: int,
    n_lower: int,
    *,
    upper_constraints: tuple[str, ...] = (),
    lower_constraints: tuple[str, ...] = (),
) -> BilevelProblem:
    """Return a problem with ``n_upper`` values of x and ``n_lower`` of z."""
    return BilevelProblem(
        upper_space=SearchSpace({"x": Dimension.integers(1, n_upper)}),
        lower_space=SearchSpace({"z": Dimension.integers(1, n_lower)}),
        upper_constraints=upper_constraints,
        lower_constraints=lower_constraints,
    )


def box_problem(
    n_upper: int,
    n_lower: int,
    *,
    upper_constraints: tuple[str, ...] = (),
    lower_constraints: tuple[str, ...] = (),
) -> BilevelProblem:
    """Return a problem with so many continuous dimensions on each level."""
    return BilevelProblem(
        upper_space=SearchSpace({f"x{i}": Dimension.floats(0.0, 1.0) for i in range(n_upper)}),
        lower_space=SearchSpace({f"z{i}": Dimension.floats(0.0, 1.0) for i in range(n_lower)}),
        upper_constraints=upper_constraints,
        lower_constraints=lower_constraints,
    )


class Draw(NamedTuple):
    """Functions drawn from the prior, and the model after noisy observations of them.

    Attributes:
        points: Joint points of the whole grid, shape (m, d).
        truth: Each function's values there, shape (m,).
        model: Posteriors with the true hyperparameters.
    """

    points: FloatArray
    truth: Mapping[str, FloatArray]
    model: BilevelModel


def known_model(
    name: str, X: FloatArray, y: FloatArray, *, noise: float = 1e-4, length_scale: float = 0.3
) -> FunctionModel:
    """Return a model of unit prior variance whose hyperparameters are given, not fitted."""
    d = X.shape[1]
    hyperparameters = Hyperparameters(np.full(d, length_scale), 1.0, noise)
    process = GaussianProcess.from_data(X, y, hyperparameters, FeatureMap((0,) * d))
    warm_start = WarmStart(np.zeros(d + 2), np.eye(d + 2), 0.0, len(y))
    return FunctionModel(name, process, LogLogTransform(), warm_start, len(y), 1.0, X[:0])


def draw(problem: BilevelProblem, n_observed: int, seed: int, *, noise: float = 1e-4) -> Draw:
    """Draw every function of a finite numeric problem and observe each at random points."""
    rng = np.random.default_rng(seed)
    points = problem.space.enumerate()
    truth, models = {}, {}
    for name in problem.functions:
        K = _covariance(points, points, 0.3) + 1e-10 * np.eye(len(points))
        truth[name] = np.linalg.cholesky(K) @ rng.standard_normal(len(points))
        rows = rng.integers(len(points), size=n_observed)
        y = truth[name][rows] + np.sqrt(noise) * rng.standard_normal(n_observed)
        models[name] = known_model(name, points[rows], y, noise=noise)
    return Draw(points, truth, assembled(problem, models))


def assembled(problem: BilevelProblem, models: Mapping[str, FunctionModel]) -> BilevelModel:
    """Return the model of the problem made of each function's."""
    return BilevelModel(
        models[problem.upper],
        models[problem.lower],
        tuple(models[name] for name in problem.upper_constraints),
        tuple(models[name] for name in problem.lower_constraints),
    )


def random_model(problem: BilevelProblem, n_observed: int, seed: int) -> BilevelModel:
    """Return posteriors after observations of unrelated random values."""
    rng = np.random.default_rng(seed)
    d = len(problem.space)
    return assembled(
        problem,
        {
            name: known_model(name, rng.random((n_observed, d)), rng.standard_normal(n_observed))
            for name in problem.functions
        },
    )


class Sets(NamedTuple):
    """The trusted sets by their definitions, of shape (n_upper, n_lower) but for ``best``.

    Attributes:
        s_lo: Membership of S_lo.
        s: Membership of S.
        p: Membership of P⁺ or P̄.
        best: Index of z̄(x), -1 where S_lo(x) is empty, shape (n_upper,).
    """

    s_lo: NDArray[np.bool_]
    s: NDArray[np.bool_]
    p: NDArray[np.bool_]
    best: NDArray[np.int64]


def sets_by_definition(
    problem: BilevelProblem,
    bounds: Callable[[str], tuple[FloatArray, FloatArray]],
    *,
    epsilon: float,
    many: bool,
) -> Sets:
    """Return the sets of a finite problem, point by point.

    Args:
        problem: The problem.
        bounds: Function name to (l, u) on the grid, each (n_upper, n_lower).
        epsilon: ε.
        many: P⁺ instead of P̄.
    """
    lower_bound, upper_bound = bounds(problem.lower)
    n, m = lower_bound.shape
    s_lo, s, p = np.zeros((3, n, m), dtype=bool)
    best = np.full(n, -1)
    for i in range(n):
        for j in range(m):
            s_lo[i, j] = all(bounds(c)[1][i, j] >= 0.0 for c in problem.lower_constraints)
            s[i, j] = s_lo[i, j] and all(
                bounds(c)[1][i, j] >= 0.0 for c in problem.upper_constraints
            )
        feasible = [j for j in range(m) if s_lo[i, j]]
        if feasible:
            best[i] = max(feasible, key=lambda j: upper_bound[i, j])
            level = lower_bound[i, best[i]]
            for j in feasible:
                p[i, j] = upper_bound[i, j] + epsilon >= level if many else j == best[i]
    return Sets(s_lo, s, p, best)


def _covariance(A: FloatArray, B: FloatArray, length_scale: float) -> FloatArray:
    """Return the Matérn-5/2 covariance (n, m) of unit variance, R&W Eq. (4.17)."""
    r = np.sqrt(5.0) * np.linalg.norm(A[:, None, :] - B[None, :, :], axis=2) / length_scale
    covariance: FloatArray = (1.0 + r + r**2 / 3.0) * np.exp(-r)
    return covariance


def posterior(model: FunctionModel, P: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation at ``P`` (n, d) of a :func:`known_model`, by textbook."""
    process = model.process
    length_scale = float(process.hyperparameters.length_scales[0])
    K = _covariance(process.X, process.X, length_scale) + np.diag(process.noise)
    k = _covariance(P, process.X, length_scale)
    mean: FloatArray = k @ np.linalg.solve(K, process.y)
    variance = 1.0 - np.einsum("ij,ji->i", k, np.linalg.solve(K, k.T))
    return mean, np.sqrt(np.maximum(variance, 0.0))


def data_of(
    X: FloatArray,
    y: ArrayLike,
    unanswered: FloatArray | None = None,
    failed: FloatArray | None = None,
) -> FunctionData:
    """Return observations of one function, none unanswered or failed unless told otherwise."""
    return FunctionData(
        X=X,
        y=np.asarray(y, dtype=np.float64),
        unanswered=X[:0] if unanswered is None else unanswered,
        failed=X[:0] if failed is None else failed,
        failed_order=np.arange(0 if failed is None else len(failed)),
    )
