"""Synthetic histories like those of Bayesian optimization: space-filling, then near the optimum."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, create_trial

from benchmarks.problems.problem import Problem, from_unit, space_filling

SPACE_FILLING = 0.2  # share of the history that is space-filling before anything else
EXPLORING = 0.3  # share of the rest that is space-filling still
SPREAD = (0.01, 0.2)  # range of the distances to the optimum per coordinate, log-uniform


def to_unit(
    space: Mapping[str, BaseDistribution], params: Mapping[str, Any]
) -> NDArray[np.float64]:
    """Return unit-cube coordinates (d,) that ``from_unit`` maps back to ``params``."""
    return np.array([_position(space[name], params[name]) for name in space])


def _position(distribution: BaseDistribution, value: Any) -> float:
    if isinstance(distribution, CategoricalDistribution):
        return (distribution.to_internal_repr(value) + 0.5) / len(distribution.choices)
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        raise TypeError(f"distribution must be a known one, but got {distribution!r}.")
    low, high, half = distribution.low, distribution.high, 0.5 * (distribution.step or 0.0)
    if distribution.log:
        log_low, log_high = math.log(low - half), math.log(high + half)
        return (math.log(value) - log_low) / (log_high - log_low)
    return float((value - low + half) / (high - low + 2.0 * half))


def history(problem: Problem, n: int, seed: int) -> list[FrozenTrial]:
    """Return ``n`` complete trials of ``problem``, the same ones for the same seed."""
    rng = np.random.default_rng([seed, problem.dimension])
    spread_out = space_filling(n, problem.dimension, rng)
    best = to_unit(problem.space, problem.argmin)
    trials = []
    for number in range(n):
        # Drawn for every trial, used or not: what comes later does not depend on what was chosen.
        explores = bool(rng.random() < EXPLORING)
        spread = math.exp(rng.uniform(math.log(SPREAD[0]), math.log(SPREAD[1])))
        near = np.clip(best + spread * rng.standard_normal(problem.dimension), 0.0, 1.0)
        point = spread_out[number] if explores or number < SPACE_FILLING * n else near
        params = from_unit(problem.space, point)
        trials.append(
            create_trial(
                params=params,
                distributions=dict(problem.space),
                value=problem.observe(params, seed=seed, number=number),
            )
        )
    return trials
