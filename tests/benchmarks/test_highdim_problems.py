"""The problems of the highdim benchmark: minima where they are said to be, the paper's formulas."""

import warnings

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
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
def test_tuning_boxes_decode_as_in_the_paper(task: Task, n: int) -> None:
    """Equal parts for choices and integers, linear for floats, and corners are legal."""
    assert len(task.box) == len(task.hyperparameters) == n
    rng = np.random.default_rng(0)
    points = rng.uniform(0.0, SIDE, (4000, n))
    points[0], points[1] = 0.0, SIDE
    decoded = [task.decoded(dict(zip(task.box, x.tolist(), strict=True))) for x in points]
    for column, (name, at) in enumerate(task.hyperparameters.items()):
        values = [params[name] for params in decoded]
        assert all(at._contains(at.to_internal_repr(value)) for value in values)
        if isinstance(at, FloatDistribution):
            expected = at.low + points[:, column] / SIDE * (at.high - at.low)
            assert values == pytest.approx(expected.tolist())
            continue
        levels: list[object] = (
            list(at.choices)
            if isinstance(at, CategoricalDistribution)
            else list(range(at.low, at.high + 1))
            if isinstance(at, IntDistribution)
            else []
        )
        shares = np.array([values.count(level) for level in levels]) / len(values)
        assert shares == pytest.approx(1.0 / len(levels), abs=0.05)
        assert values[:2] == [levels[0], levels[-1]]


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
