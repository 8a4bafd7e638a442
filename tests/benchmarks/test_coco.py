"""The functions of COCO: what is taken from them."""

import numpy as np
import pytest

from benchmarks.problems.coco import NAMES, SUITES, best_point, box_function, problem_named

FEW = [*NAMES[::17], "bbob-f24-10", "mixint-f24-10", "constrained-f54-5"]


@pytest.mark.parametrize("name", FEW)
def test_the_minimum_is_feasible_and_locally_least(name: str) -> None:
    """In the box; no feasible point among many near it is better."""
    box, best = box_function(name), best_point(name)
    low, high, integers = np.array(box.low), np.array(box.high), list(box.integers)
    assert ((low <= best) & (best <= high)).all()
    assert (best[integers] == best[integers].round()).all()
    value, constraints = box.function(best)
    assert value == problem_named(name).minimum
    assert max(constraints, default=0.0) <= 1e-6
    rng = np.random.default_rng(0)
    steps = 10.0 ** rng.uniform(-8.0, 0.0, (500, 1)) * rng.standard_normal((500, len(best)))
    points = np.clip(best + steps * (high - low), low, high)
    points[:, integers] = points[:, integers].round()
    found = [box.function(point) for point in points]
    feasible = [float(np.asarray(v)) for v, limits in found if max(limits, default=0.0) <= 0.0]
    assert min(feasible, default=np.inf) > float(np.asarray(value)) - 1e-6


def test_parameters_are_of_the_kinds_that_are_said() -> None:
    """Four of five of the mixed suite are integers; the others have none."""
    for kind, n_integers in (("bbob", 0), ("mixint", 4), ("constrained", 0)):
        (trial,) = problem_named(f"{kind}-f1-5").random_trials(1, seed=0)
        assert len(trial.params) == 5
        assert sum(isinstance(value, int) for value in trial.params.values()) == n_integers
        assert bool(trial.constraints) == (kind == "constrained")


def test_every_problem_has_a_name_of_its_own() -> None:
    """As many as the suites have."""
    n = sum(suite.n_functions * len(suite.dimensions) for suite in SUITES.values())
    assert len(set(NAMES)) == n == 228
