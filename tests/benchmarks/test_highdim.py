"""The highdim benchmark: TuRBO's rules and the literal method's adapter."""

import importlib.util

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution

from benchmarks.common import turbo
from benchmarks.highdim import literal
from benchmarks.highdim.literal import LiteralGOUCB

needs_torch = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "botorch")),
    reason="torch and botorch are not installed",
)


def test_literal_adapter_tells_everything_once_with_the_sign_turned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The method maximizes: it is told negated values, each once and in order."""
    told: list[tuple[list[float], float]] = []

    class Recorder(LiteralGOUCB):
        def tell(self, x: np.ndarray, y: float) -> None:
            told.append((x.tolist(), y))
            super().tell(x, y)

    monkeypatch.setattr(literal, "LiteralGOUCB", Recorder)
    sampler = literal.LiteralSampler(seed=0, budget=4, n_startup_trials=1, exact=False)
    study = optuna.create_study(sampler=sampler)
    space = {"b": FloatDistribution(-1.0, 2.0), "a": FloatDistribution(4.0, 5.0)}
    study.enqueue_trial({"a": 4.5, "b": 0.5})
    for value in (3.0, 1.0, 2.0):
        study.tell(study.ask(dict(space)), value)
    first, second, _ = ([t.params["a"], t.params["b"]] for t in study.trials)
    assert told == [(first, -3.0), (second, -1.0)]


def test_turbo_region_follows_the_tutorials_rules() -> None:
    """Ten successes double the length up to the longest, d failures in a row halve it."""
    region = turbo.Region(first=0, best=(0.0, 0.0))
    for i in range(9):
        region.update(float(i + 1), 6)
    assert region.length == 0.8
    region.update(10.0, 6)
    assert (region.length, region.successes) == (1.6, 0)
    for i in range(10):
        region.update(20.0 + i, 6)
    assert region.length == 1.6
    for _ in range(5):
        region.update(29.0 * (1.0 + 1e-4), 6)  # too small a rise
    assert (region.length, region.failures) == (1.6, 5)
    region.update(0.0, 6)
    assert (region.length, region.failures) == (0.8, 0)
    for _ in range(4):
        region.update(0.0, 2)
    assert region.length == 0.4


@needs_torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, when BoTorch loads
def test_turbo_closes_in_on_a_bowl() -> None:
    """On a quadratic of six parameters it ends well below the best of its start-up points."""
    study = optuna.create_study(sampler=turbo.TuRBOSampler(seed=0, n_startup_trials=6))
    space = {f"x{i}": FloatDistribution(-1.0, 1.0) for i in range(6)}
    for _ in range(35):
        trial = study.ask(dict(space))
        study.tell(trial, sum((x - 0.3) ** 2 for x in trial.params.values()))
    values = [trial.value or 0.0 for trial in study.trials]
    assert min(values) < 0.5 * min(values[:6])
