"""Synthetic histories like those of Bayesian optimization: space-filling, then near the optimum."""

import math

import numpy as np
from optuna.trial import FrozenTrial, create_trial

from benchmarks.problems.problem import Problem, space_filling

SPACE_FILLING = 0.2  # share of the history that is space-filling before anything else
EXPLORING = 0.3  # share of the rest that is space-filling still
SPREAD = (0.01, 0.2)  # range of the distances to the optimum per coordinate, log-uniform


def history(problem: Problem, n: int, seed: int) -> list[FrozenTrial]:
    """Return ``n`` complete trials of ``problem``, the same ones for the same seed."""
    rng = np.random.default_rng([seed, problem.dimension])
    spread_out = space_filling(n, problem.dimension, rng)
    (best,) = problem.cube.encode([problem.argmin])
    trials = []
    for number in range(n):
        # Drawn for every trial, used or not: what comes later does not depend on what was chosen.
        explores = bool(rng.random() < EXPLORING)
        spread = math.exp(rng.uniform(math.log(SPREAD[0]), math.log(SPREAD[1])))
        near = np.clip(best + spread * rng.standard_normal(problem.dimension), 0.0, 1.0)
        point = spread_out[number] if explores or number < SPACE_FILLING * n else near
        params = problem.cube.decode(point)
        trials.append(
            create_trial(
                params=params,
                distributions=dict(problem.space),
                value=problem.observe(params, seed=seed, number=number),
            )
        )
    return trials
