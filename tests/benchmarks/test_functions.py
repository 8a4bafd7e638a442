"""The test problems: known minima, places of optima, and mappings between cube and space."""

import math

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution

from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import Problem, from_unit, to_unit

PUBLISHED = {
    "branin": 0.397887,
    "hartmann3": -3.86278,
    "hartmann6": -3.32237,
    "rosenbrock5": 0.0,
    "ackley5": 0.0,
    "levy6": 0.0,
    "griewank5": 0.0,
    "styblinski_tang5": -39.166166 * 5,
    "michalewicz5": -4.687658,
    "schwefel4": 0.0,
    "h1": -2.0,
    "ellipsoid10": 0.0,
    "levy20": 0.0,
    "log_sphere5": 0.0,
    "noisy_branin": 0.397887,
    "noisy_hartmann6": -3.32237,
    "noisy_levy4": 0.0,
    "mixed_sphere6": 0.0,
    "stepped_ackley5": 0.0,
    "mixed_interaction5": 0.0,
    "levy10": 0.0,
    "deceptive2": -1.0,
    "deceptive3": -1.0,
    "schwefel2": 0.0,
    "michalewicz2": -1.801303,
    "noisy_h1": -2.0,
    "paper_branin": 0.397887,
    "paper_deceptive2": -1.0,
    "paper_hartmann3": -3.86278,
    "paper_h1": -2.0,
}
# Their minima have no literature; tests/benchmarks/test_formulas.py proves them.
MOVED = [problem for problem in PROBLEMS.values() if problem.group != "paper"]
problems = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS.keys())


@pytest.mark.parametrize("name", PUBLISHED)
def test_minimum_is_the_published_one(name: str) -> None:
    """The stated minimum agrees with the literature (or the construction) to its printed digits."""
    assert PROBLEMS[name].minimum == pytest.approx(PUBLISHED[name], abs=2e-5)


@problems
def test_minimum_is_attained_at_argmin(problem: Problem) -> None:
    """The stated argmin is in the space and has the stated value, up to rounding."""
    for name, distribution in problem.space.items():
        internal = distribution.to_internal_repr(problem.argmin[name])
        assert distribution._contains(internal), name
    assert problem.value(problem.argmin) == pytest.approx(problem.minimum, abs=1e-9 * problem.scale)


@problems
def test_nothing_is_below_the_minimum(problem: Problem) -> None:
    """Random points, and local searches from the best of them and the argmin, stay above."""
    rng = np.random.default_rng(0)
    points = rng.random((200, problem.dimension))
    values = [problem.value(from_unit(problem.space, point)) for point in points]
    lowest = math.inf
    for start in (points[int(np.argmin(values))], to_unit(problem.space, problem.argmin)):
        best = start
        best_value = problem.value(from_unit(problem.space, best))
        for step in np.geomspace(0.2, 1e-6, 400):
            trial = np.clip(best + step * rng.standard_normal(problem.dimension), 0.0, 1.0)
            value = problem.value(from_unit(problem.space, trial))
            if value < best_value:
                best, best_value = trial, value
        lowest = min(lowest, best_value)
    assert min(lowest, *values) >= problem.minimum - 1e-9 * problem.scale


@pytest.mark.parametrize("problem", MOVED, ids=[problem.name for problem in MOVED])
def test_optimum_is_neither_central_nor_at_an_edge(problem: Problem) -> None:
    """No numeric coordinate of the optimum is within 2% of the center or within 5% of an edge."""
    place = to_unit(problem.space, problem.argmin)
    for u, distribution in zip(place, problem.space.values(), strict=True):
        if not isinstance(distribution, CategoricalDistribution):
            assert 0.05 < u < 0.95
            assert abs(u - 0.5) > 0.02


@problems
def test_cube_and_space_agree(problem: Problem) -> None:
    """Mapping parameters to the cube and back gives the same parameters."""
    rng = np.random.default_rng(1)
    for point in rng.random((20, problem.dimension)):
        params = from_unit(problem.space, point)
        again = from_unit(problem.space, to_unit(problem.space, params))
        for name, value in params.items():
            expected = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert again[name] == expected, name


def test_noise_depends_on_seed_and_trial_only() -> None:
    """The same trial of the same seed meets the same noise; its spread is the stated one."""
    problem = PROBLEMS["noisy_branin"]
    value = problem.value(problem.argmin)

    def noise(seed: int, number: int) -> float:
        return problem.observe(problem.argmin, seed=seed, number=number) - value

    assert noise(3, 7) == noise(3, 7)
    assert len({noise(seed, number) for seed in range(3) for number in range(3)}) == 9
    sample = [noise(0, number) for number in range(400)]
    assert np.std(sample) == pytest.approx(problem.noise_sd, rel=0.15)


def test_paper_problems_are_where_the_paper_has_them() -> None:
    """The paper's own cases have their usual boxes and optima."""
    places = {
        name: (list(problem.argmin.values()), [vars(d) for d in problem.space.values()])
        for name, problem in PROBLEMS.items()
        if problem.group == "paper"
    }
    expected = {
        "paper_branin": ([math.pi, 2.275], [(-5, 10), (0, 15)]),
        "paper_deceptive2": ([1 / 3, 2 / 3], [(0, 1)] * 2),
        "paper_hartmann3": ([0.1146, 0.5556, 0.8525], [(0, 1)] * 3),
        "paper_h1": ([8.6998, 6.7665], [(-25, 25)] * 2),
    }
    assert places.keys() == expected.keys()
    for name, (argmin, limits) in expected.items():
        assert places[name][0] == pytest.approx(argmin, abs=1e-4)
        assert [(box["low"], box["high"]) for box in places[name][1]] == limits
