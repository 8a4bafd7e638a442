"""The horizon benchmark: trainings, and the ways of spending steps."""

import itertools
from typing import Any

import numpy as np
import pytest

from benchmarks.common.samplers import quiet
from benchmarks.horizon.methods import METHODS, PEERS
from benchmarks.horizon.tasks import TASKS, Training, digits

PARAMS: dict[str, dict[str, Any]] = {
    "logistic": {"rate": 0.1, "one_minus_momentum": 0.3, "decay": 1e-5},
    "network": {"rate": 0.1, "one_minus_momentum": 0.3, "decay": 1e-5, "init": 1.0, "width": 8},
}


def _training(task: str, **changes: Any) -> Training:
    return Training(digits(), {**PARAMS[task], **changes}, (0, 1))


@pytest.mark.parametrize("task", PARAMS)
def test_interrupted_training_is_the_same(task: str) -> None:
    """In parts, and from a copy, it makes the steps that it makes at once; the copy is its own."""
    whole, parts = _training(task), _training(task)
    whole.train(50)
    parts.train(20)
    twin = parts.copy()
    for other in (parts, twin):
        other.train(30)
        assert other.validation_loss() == whole.validation_loss()
    twin.train(5)
    assert parts.validation_loss() == whole.validation_loss()


@pytest.mark.parametrize("task", PARAMS)
def test_step_follows_the_gradient(task: str) -> None:
    """Against the numeric gradient: a small step changes the loss by -rate |gradient|²."""
    data = digits()
    rng = np.random.default_rng((0, 1))
    training = _training(task, rate=1e-3, one_minus_momentum=1.0, decay=0.0)
    for weight in training._weights:  # the initial weights come from the same numbers
        rng.standard_normal((len(weight) - 1, weight.shape[1]))
    batch = rng.integers(len(data.train.y), size=(64, 8))[0]
    weights = [w.astype(np.float64) for w in training._weights]

    def loss(weights: list[Any]) -> float:
        X = data.train.X[batch, :-1].astype(np.float64)
        for W in weights[:-1]:
            X = np.maximum(X @ W[:-1] + W[-1], 0.0)
        outputs = X @ weights[-1][:-1] + weights[-1][-1]
        log_sum = np.log(np.exp(outputs).sum(axis=1))
        return float((log_sum - outputs[np.arange(8), data.train.y[batch]]).mean())

    training.train(1)
    for index, row in itertools.product(range(len(weights)), (3, 6, -1)):
        h = 1e-5
        ends = []
        for sign in (1.0, -1.0):
            moved = [w.copy() for w in weights]
            moved[index][row, 3] += sign * h
            ends.append(loss(moved))
        gradient = (ends[0] - ends[1]) / (2.0 * h)
        step = float(training._weights[index][row, 3]) - weights[index][row, 3]
        assert step == pytest.approx(-1e-3 * gradient, rel=1e-2, abs=2e-7)


@pytest.mark.parametrize("method", ["growing-ucb", "phi=1-ei", "T=5-ei", *PEERS])
def test_methods_spend_what_they_are_given(method: str) -> None:
    """Every step that there is (a fixed horizon: but for the division's rest), and none more."""
    quiet()
    outcome = METHODS[method](TASKS["logistic"], 403, 0)
    assert 403 - 12 < outcome["spent"] <= 403
    if method in PEERS or method.startswith(("growing", "phi")):
        assert outcome["spent"] == 403
    assert outcome["n_steps"] <= outcome["n_longest"] <= 403
    assert outcome["validation_loss"] < 2.3
    assert outcome["n_configurations"] >= 5
