"""The problems with constraints: what their points and their minima are said to be."""

import numpy as np
import pytest

from benchmarks.problems.constrained import ALL, PROBLEMS


@pytest.mark.parametrize("name", ALL)
def test_the_minimum_is_feasible_and_locally_least(name: str) -> None:
    """To seven digits; no feasible point among many near it, or anywhere, is clearly better."""
    case, problem = ALL[name], PROBLEMS[name]
    best = np.array(case.argmin)
    low, high = np.array(case.low, dtype=float), np.array(case.high, dtype=float)
    value, constraints = float(np.asarray(case.function(best)[0])), case.function(best)[1]
    assert value == problem.minimum
    sizes = np.maximum(np.abs(case.function(0.5 * (low + high))[1]), 1.0)
    assert (np.array(constraints) <= 1e-6 * sizes).all()
    rng = np.random.default_rng(0)
    steps = 10.0 ** rng.uniform(-5.0, 0.0, (3000, 1)) * rng.standard_normal((3000, len(best)))
    points = np.clip(best + steps * (high - low), low, high)
    points[:, list(case.integers)] = points[:, list(case.integers)].round()
    found = [case.function(point) for point in points]
    feasible = [float(np.asarray(v)) for v, limits in found if max(limits) <= 0.0]
    assert min(feasible, default=np.inf) > value - 1e-6 * max(abs(value), 1.0)
