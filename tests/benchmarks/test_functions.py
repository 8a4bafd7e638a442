"""The test problems: known minima, places of optima, and mappings between cube and space."""

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.highdim import problems as highdim
from benchmarks.problems.functions import PROBLEMS
from benchmarks.stopping.problems import problem_named

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
    "integer_ellipsoid5": 0.0,
    "integer_ridge10": 0.0,
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
    "holder_table": -19.208503,
    "cross_in_tray": -2.062612,
    "six_hump_camel": -1.031628,
    "easom": -1.0,
    "rosenbrock2": 0.0,
    "booth": 0.0,
    "f1": -26.0,
    "f2": -39.166166 * 20,
    "f3": 0.0,
}
# Values at (1/2, 2) by the published definitions.
ELSEWHERE = {
    "holder_table": -0.2813667,
    "cross_in_tray": -1.8984037,
    "six_hump_camel": 49.8739583,
    "easom": 9.24773e-05,
    "rosenbrock2": 306.5,
    "booth": 10.25,
}
ALL = {
    **PROBLEMS,
    **{name: problem_named(name, Path()) for name in ELSEWHERE},
    **{name: problem for name, problem in highdim.PROBLEMS.items() if problem.group != "table"},
}
# Minima of the others have no literature; tests/benchmarks/test_formulas.py proves them.
MOVED = [name for name, problem in ALL.items() if problem.group != "paper"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_minimum_is_the_published_one(name: str) -> None:
    """The stated minimum agrees with the literature (or the construction) to its printed digits."""
    assert ALL[name].minimum == pytest.approx(PUBLISHED[name], abs=2e-5)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_formulas_away_from_the_minimum(name: str) -> None:
    """One more value of each; two of them are the same in every quadrant."""
    problem = ALL[name]
    assert problem.value({"x0": 0.5, "x1": 2.0}) == pytest.approx(ELSEWHERE[name], abs=1e-6)
    if name in {"holder_table", "cross_in_tray"}:
        for signs in ((-1, 1), (1, -1), (-1, -1)):
            best = zip(problem.argmin.items(), signs, strict=True)
            mirrored = {name: sign * x for (name, x), sign in best}
            assert problem.value(mirrored) == pytest.approx(problem.minimum)


@pytest.mark.parametrize("name", ALL)
def test_minimum_is_attained_at_argmin_and_nothing_is_below(name: str) -> None:
    """Random points, and local searches from the best of them and the argmin, stay above."""
    problem, rng = ALL[name], np.random.default_rng(0)
    for parameter, distribution in problem.space.items():
        internal = distribution.to_internal_repr(problem.argmin[parameter])
        assert distribution._contains(internal), parameter
    tolerance = 1e-9 * problem.scale
    assert problem.value(problem.argmin) == pytest.approx(problem.minimum, abs=tolerance)

    def value(point: np.ndarray) -> float:
        return problem.value(problem.cube.decode(point))

    points = rng.random((200, problem.dimension))
    lowest = min(values := [value(point) for point in points])
    for start in (points[int(np.argmin(values))], problem.cube.encode([problem.argmin])[0]):
        best, best_value = start, value(start)
        for step in np.geomspace(0.2, 1e-6, 150):
            near = np.clip(best + step * rng.standard_normal(problem.dimension), 0.0, 1.0)
            if value(near) < best_value:
                best, best_value = near, value(near)
        lowest = min(lowest, best_value)
    assert lowest >= problem.minimum - tolerance


@pytest.mark.parametrize("name", MOVED)
def test_optimum_is_neither_central_nor_at_an_edge(name: str) -> None:
    """No numeric coordinate of the optimum is within 2% of the center or within 5% of an edge."""
    problem = ALL[name]
    (place,) = problem.cube.encode([problem.argmin])
    place = place[problem.cube.n_categories == 0]
    assert ((place > 0.05) & (place < 0.95)).all()
    assert (np.abs(place - 0.5) > 0.02).all()


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
