"""Runs of BILBO on functions that are given as Python functions of a joint point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins.methods.bilbo.algorithm import Query, suggest
from tests.oracles.bilevel import data_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.methods.bilbo.model import BilevelProblem, FunctionData
    from bbo_plugins.space.dimension import FloatArray

Functions = dict[str, "Callable[[FloatArray], float]"]
SMOOTH: Functions = {
    "upper": lambda p: -((p[0] - 0.8) ** 2) - (p[1] - 0.2) ** 2,
    "lower": lambda p: -((p[1] - p[0]) ** 2),
}


def observations(problem: BilevelProblem, n: int, seed: int = 0) -> dict[str, FunctionData]:
    """Return ``n`` observations of each function at points of its own."""
    rng = np.random.default_rng(seed)
    data = {}
    for name in problem.functions:
        X = problem.space.snap(rng.random((n, len(problem.space))))
        data[name] = data_of(X, [SMOOTH[name](x) for x in X])
    return data


def step(
    problem: BilevelProblem, data: Mapping[str, FunctionData], seed: int = 0, **arguments: Any
) -> Query:
    """Return the next query with a generator of seed ``seed``."""
    rng = np.random.default_rng(seed)
    return suggest(problem, data, rng=rng, **arguments)


def run(
    problem: BilevelProblem,
    functions: Functions,
    n_queries: int,
    *,
    coupled: bool = False,
    **arguments: Any,
) -> tuple[list[Query], dict[str, FunctionData]]:
    """Query one function per step, or all of them if coupled."""
    data = {name: data_of(np.empty((0, len(problem.space))), []) for name in problem.functions}
    queries: list[Query] = []
    warm_starts: Mapping[str, WarmStart | None] = {}
    for t in range(n_queries):
        query = suggest(
            problem,
            data,
            rng=np.random.default_rng(t),
            coupled=coupled,
            warm_starts=warm_starts,
            **arguments,
        )
        warm_starts = query.warm_starts or warm_starts
        queries.append(query)
        asked = problem.functions if coupled else (query.function,)
        for name in asked:
            X = np.concatenate([data[name].X, query.x[None]])
            y = np.append(data[name].y, functions[name](query.x))
            data[name] = data_of(X, y)
    return queries, data
