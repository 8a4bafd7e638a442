"""The problems of the highdim benchmark: minima where they are said to be, the paper's formulas."""

import warnings

import numpy as np
import pytest
from sklearn.model_selection import PredefinedSplit, cross_val_score

from benchmarks.highdim.problems import PROBLEMS
from benchmarks.problems.breast_cancer import SIDE, TASKS, Task, data
from benchmarks.problems.formulas import Vector
from benchmarks.problems.problem import Problem, cube_of


def value_at(case: Problem, x: Vector) -> float:
    """Return a problem's value at the coordinates ``x`` (d,) of its box."""
    return case.value(dict(zip(case.space, x.tolist(), strict=True)))


def test_papers_functions_are_as_printed() -> None:
    """The formulas of section 6.1, written down again and negated, at random points and optima."""
    rng = np.random.default_rng(0)
    for x in rng.uniform(-5.0, 5.0, (20, 20)):
        hidden = 1.0 / (1.0 + np.exp(-(np.ones((25, 20)) @ x + 1.0)))
        f1 = float(np.ones(25) @ hidden + 1.0)
        f2 = -0.5 * float((x**4 - 16.0 * x**2 + 5.0 * x).sum())
        f3 = -200.0 + float((10.0 * np.cos(2.0 * np.pi * x) - x**2).sum())
        for name, printed in (("f1", f1), ("f2", f2), ("f3", f3)):
            assert value_at(PROBLEMS[name], x) == pytest.approx(-printed, rel=1e-9, abs=1e-9)
    assert [PROBLEMS[name].n_trials for name in ("f1", "f2", "f3")] == [5 + 25, 8 + 64, 8 + 64]
    assert [PROBLEMS[name].n_startup for name in ("f1", "f2", "f3")] == [5, 8, 8]


@pytest.mark.parametrize("task, n", list(zip(TASKS, (7, 8, 11), strict=True)))
def test_tuning_boxes_have_the_papers_corners(task: Task, n: int) -> None:
    """The ends of the box are the first and the last of all hyperparameters' values."""
    assert len(task.box) == len(task.hyperparameters) == n
    for corner, end in ((0.0, 0), (SIDE, -1)):
        decoded = task.decoded(dict.fromkeys(task.box, corner))
        for name, at in task.hyperparameters.items():
            ends = getattr(at, "choices", None) or (vars(at)["low"], vars(at)["high"])
            assert decoded[name] == ends[end]


def test_tuning_value_is_a_cross_validated_error() -> None:
    """scikit-learn's own cross-validation on the same folds gives the same error rate."""
    task = TASKS[2]
    params = cube_of(task.box).decode([0.1, 0.3, 0.0, *[0.4] * 8])
    X, y, fold_of = data()
    model = task.model(random_state=0, **task.decoded(params))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(model, X, y, cv=PredefinedSplit(fold_of))
    assert task.value(params) == pytest.approx(1.0 - scores.mean())
