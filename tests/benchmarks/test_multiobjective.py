"""The problems with several objectives: their hypervolumes, constraints and noise."""

import numpy as np
import optuna
import pytest
from numpy.typing import NDArray

from benchmarks.common.studies import run_study
from benchmarks.problems.hypervolume import hypervolume
from benchmarks.problems.multi_objective import CHOSEN_ON, HELD_OUT, PROBLEMS

BOXES = {**CHOSEN_ON, **HELD_OUT}


def _front(name: str) -> NDArray[np.float64]:
    """Return points (n, d) of a problem that are, or contain, its front."""
    line = np.linspace(0.0, 1.0, 400)[:, None]
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 25)] * 2), axis=-1).reshape(-1, 2)
    if name == "bnh":
        return np.vstack([3.0 * line * [1.0, 1.0], np.hstack([3.0 + 2.0 * line, 0 * line + 3.0])])
    d = len(BOXES[name].low)
    free = line if len(BOXES[name].reference) == 2 else grid
    rest = 0.5 if name in {"dtlz2", "noisy_circle"} else 0.0
    return np.hstack([free, np.full((len(free), d - free.shape[1]), rest)])


@pytest.mark.parametrize("name", ["zdt3", "dtlz2", "bnh", "noisy_zdt1", "dtlz7", "noisy_circle"])
def test_the_best_hypervolume_is_that_of_the_front(name: str) -> None:
    """Many points of the front come close to it, and not above."""
    case = BOXES[name]
    values = np.array([case.function(x)[0] for x in _front(name)])
    found = hypervolume(-values, -np.array(case.reference))
    assert 0.93 * case.best < found <= case.best * (1.0 + 1e-9)


@pytest.mark.parametrize("name", BOXES)
def test_regret_is_the_hypervolume_that_is_missing(name: str) -> None:
    """Of feasible values without noise; it never grows, and some random points do not reach it."""
    case, problem = BOXES[name], PROBLEMS[name]
    sampler = optuna.samplers.RandomSampler(seed=1)
    trials, _ = run_study(problem, sampler, seed=0, n_trials=25)
    regrets = problem.measured(trials)["regrets"]
    assert (np.diff(regrets) <= 0.0).all()
    assert 0.0 < regrets[-1] <= case.best
    kept = []
    for trial in trials:
        x = np.array([trial.params[f"x{i}"] for i in range(len(case.low))], dtype=float)
        values, limits = case.function(x)
        assert (np.abs(np.array(values) - trial.values) > 0.0).any() == (case.noise_sd > 0.0)
        if max(limits, default=0.0) <= 0.0:
            kept.append(values)
    known = hypervolume(-np.array(kept).reshape(len(kept), -1), -np.array(case.reference))
    assert regrets[-1] == pytest.approx(case.best - known)
