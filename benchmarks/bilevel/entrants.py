"""Who takes part in the ``bilevel`` benchmark, and how each of them spends function queries.

All start from the same noisy observations, three of each function, and are judged at the same
numbers of function queries.

============  ====================================================================================
ours          BILBO, one function per query
ours-coupled  BILBO where a query observes all functions and counts as that many
sobol         the control: functions in turn at Sobol points, the same read-out as ours
trusted-rand  the BILBO paper's TrustedRand, with means in place of bounds: a random x and, of the
              trusted responses to it, the one with the best upper value; all functions there; the
              same read-out as ours
nested        the BILBO paper's Nested: GP-UCB on F over x; for each x the lower level is solved by
              SLSQP (SciPy) on noisy values with finite differences of step ``NESTED_STEP`` of the
              box, from a random start; the solution is the best posterior mean among visited x.
              Every value that SLSQP asks for is a query; the solve that the end interrupts is
              lost. Judged at the end alone. Not for constraints or categories.
============  ====================================================================================
"""

import functools
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from optuna.distributions import FloatDistribution
from scipy.optimize import minimize

from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods.bilbo import algorithm as bilbo
from bbo_plugins.methods.bilbo import solution
from bbo_plugins.methods.bilbo.model import (
    BilevelModel,
    BilevelProblem,
    FunctionData,
    FunctionModel,
)
from bbo_plugins.methods.bilbo.search import best_of_table
from bbo_plugins.methods.bilbo.trusted_sets import TrustedSets
from benchmarks.bilevel.task import LOWER, UPPER, Array, BilevelTask
from benchmarks.problems.problem import cube_of

N_INITIAL = 3
NESTED_STEP = 0.05
_NESTED_ITERATIONS = 12
_N_RANDOM_X, _N_RANDOM_Z = 64, 256
_N_SOBOL = 4096


def data_of(points: Sequence[Array], values: Sequence[float]) -> FunctionData:
    """Return the observations of a function at points (d,) each, of which there is at least one."""
    X = np.array(points)
    return FunctionData(
        X=X, y=np.array(values), unanswered=X[:0], failed=X[:0], failed_order=np.arange(0)
    )


@dataclass
class Campaign:
    """A run in progress: the task, its observations so far, and what is counted.

    Attributes:
        task: The task.
        seed: Seed of noise, start and decisions.
        n_queries: Function queries so far.
        seconds: Processor time spent on decisions.
        declared: Queries after which the problem was first declared infeasible.
        declared_at_end: Whether the latest decision said so.
        warm_starts: What the latest fits left.
    """

    task: BilevelTask
    seed: int
    n_queries: int = 0
    seconds: float = 0.0
    declared: int | None = None
    declared_at_end: bool = False
    warm_starts: Mapping[str, WarmStart | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Observe each function at its own initial points."""
        self.problem = BilevelProblem(
            upper_space=cube_of(self.task.upper_space),
            lower_space=cube_of(self.task.lower_space),
            upper=UPPER,
            lower=LOWER,
            upper_constraints=self.task.upper_constraints,
            lower_constraints=self.task.lower_constraints,
        )
        self.rng = np.random.default_rng([self.seed, zlib.crc32(self.task.name.encode())])
        self.points: dict[str, list[Array]] = {name: [] for name in self.problem.functions}
        self.values: dict[str, list[float]] = {name: [] for name in self.problem.functions}
        for name in self.problem.functions:
            for point in shifted_sobol(N_INITIAL, len(self.problem.space), self.rng):
                self.observe(name, self.problem.space.snap(point[None])[0])

    def observe(self, function: str, point: Array) -> float:
        """Query one function at a joint point (d,) of the cube; returns what is maximized."""
        value = self.task.value(function, self.problem.space.decode(point))
        value = -(value + self.task.noise_sd * float(self.rng.standard_normal()))
        self.points[function].append(point)
        self.values[function].append(value)
        self.n_queries += 1
        return value

    def data(self) -> dict[str, FunctionData]:
        """Return all observations."""
        return {name: data_of(at, self.values[name]) for name, at in self.points.items()}

    def model(self) -> BilevelModel:
        """Return models of all functions."""
        model = BilevelModel.fit(self.problem, self.data(), self.warm_starts)
        self.warm_starts = {one.name: one.warm_start for one in model.functions}
        return model

    def solution(self) -> Array:
        """Return our read-out, a joint point (d,)."""
        rng = np.random.default_rng([self.seed, self.n_queries])
        return solution.solve(
            self.model(), self.problem, rng=rng, many_responses=self.task.many_responses
        ).point


# Makes queries until `n` have been made; returns the solution (d,) if it is not our read-out.
Strategy: TypeAlias = Callable[[Campaign, int], Array | None]


def ours(campaign: Campaign, n: int, *, coupled: bool = False) -> None:
    """Run BILBO up to ``n`` function queries; a coupled one is counted as one per function."""
    options = bilbo.Options(many_responses=campaign.task.many_responses)
    asked = campaign.problem.functions
    while campaign.n_queries + (len(asked) if coupled else 1) <= n:
        start = time.process_time()
        query = bilbo.suggest(
            campaign.problem,
            campaign.data(),
            rng=np.random.default_rng([campaign.seed, campaign.n_queries]),
            options=options,
            n_initial=N_INITIAL,
            coupled=coupled,
            warm_starts=campaign.warm_starts,
        )
        campaign.seconds += time.process_time() - start
        campaign.warm_starts = query.warm_starts or campaign.warm_starts
        campaign.declared_at_end = query.infeasible
        if query.infeasible and campaign.declared is None:
            campaign.declared = campaign.n_queries
        for name in asked if coupled else (query.function,):
            campaign.observe(name, query.x)


def sobol(campaign: Campaign, n: int) -> None:
    """Query the functions in turn at the points of one Sobol sequence."""
    names, space = campaign.problem.functions, campaign.problem.space
    rng = np.random.default_rng([campaign.seed, 1])
    sequence = space.snap(shifted_sobol(_N_SOBOL, len(space), rng))
    while campaign.n_queries < n:
        campaign.observe(names[campaign.n_queries % len(names)], sequence[campaign.n_queries])


def trusted_rand(campaign: Campaign, n: int) -> None:
    """Query all functions at a random x and the trusted response with the best upper value, β = 0.

    Only x is random; it is drawn from those with a pair of the best tier that occurs.
    """
    problem = campaign.problem
    while campaign.n_queries + len(problem.functions) <= n:
        start = time.process_time()
        rng = np.random.default_rng([campaign.seed, campaign.n_queries])
        trusted = TrustedSets(campaign.model(), 0.0, 0.0, campaign.task.many_responses)
        X = problem.upper_space.snap(rng.random((_N_RANDOM_X, problem.n_upper)))
        Z = problem.lower_space.snap(rng.random((_N_RANDOM_Z, len(problem.lower_space))))
        pairs = best_of_table(trusted, X, np.broadcast_to(Z, (_N_RANDOM_X, *Z.shape)))
        row = int(rng.choice(np.flatnonzero(pairs.tier == pairs.tier.min())))
        campaign.seconds += time.process_time() - start
        for name in problem.functions:
            campaign.observe(name, np.concatenate([pairs.X[row], pairs.Z[row]]))


class _OutOfQueriesError(Exception):
    pass


def nested(campaign: Campaign, n: int) -> Array:
    """Optimize F over x by GP-UCB with the lower level solved by SLSQP at each x."""
    problem, rng = campaign.problem, np.random.default_rng([campaign.seed, 2])
    d_x, d_z = problem.n_upper, len(problem.lower_space)
    visited: list[Array] = []
    values: list[float] = []

    def query(function: str, point: Array) -> float:
        if campaign.n_queries >= n:
            raise _OutOfQueriesError
        return campaign.observe(function, point)

    while True:
        x = rng.random(d_x) if len(visited) < N_INITIAL else _ucb_argmax(visited, values, d_x, rng)
        try:
            point = np.concatenate([x, _solve_lower(query, x, rng.random(d_z))])
            values.append(query(UPPER, point))
        except _OutOfQueriesError:
            break
        visited.append(point)
    if not visited:
        return campaign.points[UPPER][0]
    model = _upper_model(visited, values, d_x)
    mean, _ = model.predict(np.array(visited)[:, :d_x])
    return visited[int(np.argmax(mean))]


def _upper_model(visited: list[Array], values: list[float], d_x: int) -> FunctionModel:
    data = data_of([point[:d_x] for point in visited], values)
    return FunctionModel.fit(UPPER, data, FeatureMap((0,) * d_x), is_constraint=False)


def _ucb_argmax(
    visited: list[Array], values: list[float], d_x: int, rng: np.random.Generator
) -> Array:
    X = np.concatenate([rng.random((1024, d_x)), np.array(visited)[:, :d_x]])
    near = np.clip(X[-1] + 0.05 * rng.standard_normal((256, d_x)), 0.0, 1.0)
    X = np.concatenate([X, near])
    return np.asarray(X[_upper_model(visited, values, d_x).bound(X, 2.0).argmax()])


def _solve_lower(query: Callable[[str, Array], float], x: Array, start: Array) -> Array:
    """Return SLSQP's answer (d_z,) to ``x``."""

    def loss(z: Array) -> float:
        return -query(LOWER, np.concatenate([x, np.clip(z, 0.0, 1.0)]))

    found = minimize(
        loss,
        start,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        options={"eps": NESTED_STEP, "maxiter": _NESTED_ITERATIONS},
    )
    return np.clip(found.x, 0.0, 1.0)


def can_nest(task: BilevelTask) -> bool:
    """Return whether Nested applies: no constraints, and numbers that vary continuously only."""
    at = (*task.upper_space.values(), *task.lower_space.values())
    return not task.constraints and all(isinstance(one, FloatDistribution) for one in at)


STRATEGIES: Mapping[str, Strategy] = {
    "ours": ours,
    "ours-coupled": functools.partial(ours, coupled=True),
    "sobol": sobol,
    "trusted-rand": trusted_rand,
    "nested": nested,
}
