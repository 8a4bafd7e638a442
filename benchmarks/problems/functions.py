"""The test problems of the regret benchmark, by name, with known minima.

The optimum of each sits at a fixed pseudo-random place, neither at the center of the box nor near
its edges, and all but the separable ones (Michalewicz, Schwefel, Deceptive) are rotated by a fixed
random rotation.  Only the paper's own cases, marked by their group, are left where they are.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from benchmarks.problems import formulas
from benchmarks.problems.deceptive_functions import deceptive_problems
from benchmarks.problems.paper_functions import paper_problems
from benchmarks.problems.problem import (
    BOX_HIGH,
    BOX_LOW,
    Params,
    Problem,
    moved,
    noisy,
    rng_of,
    rotation,
)


def _log_sphere() -> Problem:
    """Squared distance, in decades, over five log-scaled floats of very different ranges."""
    ranges = {
        "lr": (1e-6, 1e0),
        "decay": (1e-10, 1e-2),
        "eps": (1e-12, 1e-4),
        "tau": (1e-3, 1e3),
        "c": (1e-2, 1e5),
    }
    argmin = {"lr": 2e-3, "decay": 3e-5, "eps": 5e-11, "tau": 4e-2, "c": 2e1}

    def value(params: Params) -> float:
        return sum(math.log10(params[name] / best) ** 2 for name, best in argmin.items())

    space = {name: FloatDistribution(low, high, log=True) for name, (low, high) in ranges.items()}
    return Problem(
        name="log_sphere5", space=space, value=value, argmin=argmin, minimum=0.0, n_trials=60
    )


def _mixed(
    name: str,
    space: Mapping[str, BaseDistribution],
    value: Callable[[Params], float],
    argmin: Params,
) -> Problem:
    """Return a problem with discrete or categorical parameters whose minimum is 0."""
    return Problem(
        name=name, space=space, value=value, argmin=argmin, minimum=0.0, n_trials=80, group="mixed"
    )


def _stepped_ackley() -> Problem:
    """Rotated Ackley on a grid of step 0.25 that contains the optimum."""
    argmin = {"x0": 1.25, "x1": -2.5, "x2": 3.0, "x3": -1.75, "x4": 2.25}
    center = np.array(list(argmin.values()))
    turn = 2.0 * rotation(rng_of("stepped_ackley5"), center.size)

    def value(params: Params) -> float:
        return formulas.ackley(turn @ (np.array([params[name] for name in argmin]) - center))

    space = {name: FloatDistribution(BOX_LOW, BOX_HIGH, step=0.25) for name in argmin}
    return _mixed("stepped_ackley5", space, value, argmin)


def _mixed_sphere() -> Problem:
    """Floats, an int, a log int, and two categorical parameters that add an offset each."""
    shape = {"round": 0.8, "square": 0.0, "star": 3.0, "cross": 1.5}
    space: dict[str, BaseDistribution] = {
        "x0": FloatDistribution(-5.0, 5.0),
        "x1": FloatDistribution(-5.0, 5.0),
        "n": IntDistribution(0, 30),
        "width": IntDistribution(4, 512, log=True),
        "shape": CategoricalDistribution(list(shape)),
        "flag": CategoricalDistribution([False, True, None]),
    }
    argmin = {"x0": 1.7, "x1": -2.9, "n": 22, "width": 24, "shape": "square", "flag": True}

    def value(params: Params) -> float:
        floats = sum(0.25 * (params[name] - argmin[name]) ** 2 for name in ("x0", "x1"))
        ints = 0.02 * (params["n"] - 22) ** 2 + 0.5 * math.log2(params["width"] / 24) ** 2
        return float(
            floats + ints + shape[params["shape"]] + (0.0 if params["flag"] is True else 1.0)
        )

    return _mixed("mixed_sphere6", space, value, argmin)


def _mixed_interaction() -> Problem:
    """A choice of optimizer that moves the best rate, its sharpness, and the best depth."""
    # choice: (floor, best log10 rate, curvature, best depth)
    choices = {
        "sgd": (0.35, -0.8, 1.0, 4),
        "momentum": (0.0, -1.7, 2.0, 9),
        "adam": (0.1, -3.1, 0.7, 7),
        "lion": (0.6, -4.0, 3.0, 3),
    }
    space: dict[str, BaseDistribution] = {
        "optimizer": CategoricalDistribution(list(choices)),
        "rate": FloatDistribution(1e-6, 1e1, log=True),
        "depth": IntDistribution(1, 12),
        "dropout": FloatDistribution(0.0, 0.8, step=0.05),
        "mix": FloatDistribution(0.0, 1.0),
    }
    argmin = {
        "optimizer": "momentum",
        "rate": 10.0**-1.7,
        "depth": 9,
        "dropout": 0.35,
        "mix": 0.2 + 0.05 * 9,
    }

    def value(params: Params) -> float:
        floor, log_rate, curvature, depth = choices[params["optimizer"]]
        rate_term = curvature * (math.log10(params["rate"]) - log_rate) ** 2
        depth_term = 0.05 * (params["depth"] - depth) ** 2
        drop_term = 6.0 * (params["dropout"] - 0.35) ** 2
        # The best mixture moves with the depth: a continuous-integer interaction.
        mix_term = 3.0 * (params["mix"] - (0.2 + 0.05 * params["depth"])) ** 2
        return float(floor + rate_term + depth_term + drop_term + mix_term)

    return _mixed("mixed_interaction5", space, value, argmin)


def _smooth() -> tuple[Problem, ...]:
    """Return the problems on which no basin misleads, or on which many do so equally."""
    f, tang = formulas, np.full(5, formulas.STYBLINSKI_TANG_ARGMIN)
    return (
        moved("branin", f.branin, f.BRANIN_ARGMIN, width=15.0, n_trials=60),
        moved("hartmann3", f.hartmann3, f.HARTMANN3_ARGMIN, width=1.0, n_trials=60),
        moved("hartmann6", f.hartmann6, f.HARTMANN6_ARGMIN, width=1.0, n_trials=80),
        moved("rosenbrock5", f.rosenbrock, np.ones(5), width=10.0, n_trials=80),
        moved("ackley5", f.ackley, np.zeros(5), width=20.0, n_trials=80),
        moved("levy6", f.levy, np.ones(6), width=20.0, n_trials=80),
        moved("levy10", f.levy, np.ones(10), width=20.0, n_trials=100),
        moved("levy20", f.levy, np.ones(20), width=20.0, n_trials=100),
        moved("griewank5", f.griewank, np.zeros(5), width=40.0, n_trials=80),
        moved("styblinski_tang5", f.styblinski_tang, tang, width=10.0, n_trials=80),
        moved("ellipsoid10", f.ellipsoid, np.zeros(10), width=10.0, n_trials=100),
        _log_sphere(),
    )


def _noisy(noise_free: Mapping[str, Problem]) -> tuple[Problem, ...]:
    """Return the noisy problems; all but one are a noise-free one's, with noise."""
    return (
        noisy(noise_free["branin"], 5.0),
        noisy(noise_free["hartmann6"], 0.2),
        replace(
            moved("noisy_levy4", formulas.levy, np.ones(4), width=20.0, n_trials=80),
            noise_sd=1.0,
            group="noisy",
        ),
        noisy(noise_free["h1"], 0.1),
    )


def _problems() -> tuple[Problem, ...]:
    """Return every problem, in the order of the report."""
    mixed = (_mixed_sphere(), _stepped_ackley(), _mixed_interaction())
    noise_free = (*_smooth(), *deceptive_problems(), *mixed)
    return (*noise_free, *_noisy({p.name: p for p in noise_free}), *paper_problems())


PROBLEMS: Mapping[str, Problem] = {problem.name: problem for problem in _problems()}


def problem_named(name: str) -> Problem:
    """Return a problem."""
    return PROBLEMS[name]
