"""The problems with constraints: what their points and minima are said to be. SCBO's rules."""

import importlib.util

import numpy as np
import pytest

from benchmarks.common import turbo
from benchmarks.common.scbo import SCBOSampler
from benchmarks.common.studies import run_study
from benchmarks.problems.constrained import ALL, PROBLEMS

needs_torch = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "botorch")),
    reason="torch and botorch are not installed",
)


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


def test_scbo_prefers_feasible_points_then_little_violation() -> None:
    """The best value counts among feasible points alone; else the sum of what is above zero."""
    outcomes = np.array([[9.0, 0.1, -5.0], [1.0, -1.0, 0.0], [2.0, -3.0, -3.0], [5.0, -9.0, 0.3]])
    assert turbo.violation(outcomes).tolist() == [0.1, 0.0, 0.0, 0.3]
    assert turbo.best_of(outcomes) == 2
    assert turbo.best_of(outcomes[:2]) == 1
    assert turbo.best_of(outcomes[[3, 0]]) == 1


def test_scbo_counts_less_violation_and_then_better_values_as_successes() -> None:
    """A worse value is a success if less is violated; a better one is not if more is."""
    region = turbo.Region(first=0)
    for y, violation, successes, failures in (
        (5.0, 2.0, 1, 0),
        (1.0, 1.0, 2, 0),
        (9.0, 1.5, 0, 1),
        (-3.0, 0.0, 1, 0),
        (7.0, 0.1, 0, 1),
        (-3.0 + 1e-4, 0.0, 0, 2),  # too small a rise
        (-2.0, 0.0, 1, 0),
    ):
        region.update(y, 2, violation)
        assert (region.successes, region.failures) == (successes, failures)
    assert region.best == (0.0, -2.0)


@needs_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, when BoTorch loads
def test_scbo_finds_the_feasible_set_and_closes_in() -> None:
    """No start-up point of far_corner is feasible; 15 trials later the regret is below 0.05."""
    problem = PROBLEMS["far_corner"]
    trials, _ = run_study(problem, SCBOSampler(seed=0), seed=0, n_trials=25)
    regrets = problem.measured(trials)["regrets"]
    assert set(regrets[:10]) == {None}
    assert regrets[-1] is not None
    assert regrets[-1] < 0.05
