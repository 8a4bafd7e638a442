"""The problems with constraints: what their points and their minima are said to be."""

import numpy as np
import optuna
import pytest

from benchmarks.common.studies import run_study
from benchmarks.constrained.run import problem_named
from benchmarks.problems.constrained import ALL, CHOSEN_ON, HELD_OUT


@pytest.mark.parametrize("name", ALL)
def test_the_minimum_is_feasible_and_locally_least(name: str) -> None:
    """To seven digits; no feasible point among many near it, or anywhere, is clearly better."""
    case, problem = ALL[name], problem_named(name)
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


def test_half_of_them_is_held_out_and_all_have_a_scale() -> None:
    """Two groups without a common problem; regrets can be called negligible on each."""
    assert not CHOSEN_ON.keys() & HELD_OUT.keys()
    assert len(HELD_OUT) >= len(CHOSEN_ON) >= 5
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    assert all(np.isfinite(problem_named(name).scale) for name in ("g6", "gramacy"))


def test_regret_is_that_of_the_best_feasible_value() -> None:
    """Infeasible values do not count, however good."""
    problem = problem_named("gramacy")
    trials, _ = run_study(problem, optuna.samplers.RandomSampler(seed=0), seed=0, n_trials=12)
    kept = [t.value for t in trials if max(t.constraints.values()) <= 0.0 and t.value is not None]
    assert 0 < len(kept) < len(trials)
    assert problem.regret(trials) == pytest.approx(min(kept) - problem.minimum)
