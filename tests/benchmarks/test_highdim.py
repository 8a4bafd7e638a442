"""The highdim benchmark: same start for everyone, resuming in pieces, statistics of uneven runs."""

import dataclasses
import importlib.util
import math
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution

from benchmarks.common.report import Report
from benchmarks.highdim import run as highdim
from benchmarks.highdim import speed as highdim_speed
from benchmarks.highdim import tables as highdim_tables
from benchmarks.highdim import turbo as highdim_turbo
from benchmarks.highdim.entrants import OURS, UHE_BO, LiteralSampler, entrants, source_of
from benchmarks.highdim.problems import CASES
from benchmarks.problems.problem import from_unit, space_filling

needs_torch = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "botorch")),
    reason="torch and botorch are not installed",
)


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Return a report that writes to a temporary folder."""
    return Report(name="highdim", directory=tmp_path, command="test")


def a_run(sampler: str, **values: object) -> highdim.Run:
    """Return one small run."""
    case = CASES["alpine-20"]
    run = highdim.Run(
        problem=case.name,
        fingerprint=case.fingerprint(),
        sampler=sampler,
        source=source_of(entrants(1)[sampler]),
        seed=100,
        n_trials=14,
    )
    return dataclasses.replace(run, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [OURS, UHE_BO, "literal", "tpe", "cma-es", "random"])
def test_everyone_starts_alike(name: str) -> None:
    """The first values of every entrant are those of the Latin hypercube of the seed."""
    if entrants(1)[name].missing():
        pytest.skip("a peer is not installed")
    case = CASES["f2"]
    record = highdim.execute(a_run(name, problem="f2", n_trials=11))
    points = space_filling(case.n_startup, 20, np.random.default_rng(100))
    expected = [case.value(from_unit(case.space, point)) for point in points]
    assert record["values"][: case.n_startup] == pytest.approx(expected, rel=1e-8)
    assert len(record["values"]) == len(record["seconds"]) == 11
    assert len(set(record["values"])) == 11


def test_statistics_of_uneven_runs() -> None:
    """Ranks and ratios are over common runs only and agree with a hand calculation."""
    cells = {
        ("rosenbrock-20", 0): {"a": 1.0, "b": 2.0, "c": 3.0},
        ("rosenbrock-20", 1): {"a": 4.0, "b": 2.0},
        ("alpine-20", 0): {"a": 8.0, "b": 1.0, "c": 8.0},
    }
    ranks, n = highdim_tables.mean_ranks(cells, ["a", "b", "c"], "all")
    assert ranks is not None
    assert (ranks.tolist(), n) == ([1.75, 1.5, 2.75], 2)
    ranks, n = highdim_tables.mean_ranks(cells, ["a", "b"], "seen")
    assert ranks is not None
    assert (ranks.tolist(), n) == ([1.5, 1.5], 2)
    assert highdim_tables.mean_ranks(cells, ["a", "d"], "all") == (None, 0)
    result = highdim_tables.paired(cells, "a", "b", "all")
    assert result is not None
    assert (result["wins"], result["ties"], result["losses"]) == (1, 0, 2)
    # Rosenbrock: the mean of log 1/2 and log 2 is 0; Alpine: log 8.
    assert result["ratio"] == pytest.approx(math.sqrt(8.0))
    assert highdim_tables.paired(cells, "a", "d", "all") is None
    held_out = highdim_tables.paired(cells, "a", "c", "held out")
    assert held_out is not None
    assert (held_out["ratio"], held_out["ties"]) == (1.0, 1)
    assert highdim_tables.lost_problems(cells, "a", "b") == pytest.approx(
        {"alpine-20": 8.0, "rosenbrock-20": 1.25}
    )
    assert highdim_tables.lost_problems(cells, "a", "c") == {}


def test_a_run_counts_up_to_its_length() -> None:
    """After five trials a run of three is not compared; after three both are, floored."""
    values = {"alpine-20": {"a": {100: np.array([9.0, 8, 7, 6, 0])}, "b": {100: np.full(3, 4.0)}}}
    assert highdim_tables.cells_after(values, 3) == {("alpine-20", 100): {"a": 7.0, "b": 4.0}}
    scale = CASES["alpine-20"].scale
    assert scale is not None
    floor = highdim_tables.RELATIVE_FLOOR * scale()
    assert highdim_tables.cells_after(values, 5) == {("alpine-20", 100): {"a": floor}}


def test_growth_of_the_suggestion_time() -> None:
    """The exponent of 25-fold time for five times the trials is 2."""
    times = {200: {OURS: [1.0, 2.0, 3.0]}, 1000: {OURS: [50.0, 40.0, 60.0]}}
    assert highdim_speed.exponent(times) == pytest.approx(2.0)


class Recorder:
    """Stands in for the literal method: keeps what it is told and suggests a fixed point."""

    def __init__(self, bounds: np.ndarray) -> None:
        """Keep the limits."""
        self.bounds = bounds
        self.told: list[tuple[list[float], float]] = []

    def ask(self) -> np.ndarray:
        """Return the upper ends."""
        return self.bounds[:, 1]

    def tell(self, x: np.ndarray, y: float) -> None:
        """Keep the pair."""
        self.told.append((x.tolist(), y))


def test_literal_adapter_tells_everything_once_with_the_sign_turned() -> None:
    """The method maximizes: it is told negated values, each once and in order."""
    made: list[Recorder] = []

    def make(bounds: np.ndarray) -> Recorder:
        made.append(Recorder(bounds))
        return made[-1]

    study = optuna.create_study(sampler=LiteralSampler(make, seed=0))
    space = {"b": FloatDistribution(-1.0, 2.0), "a": FloatDistribution(0.0, 5.0)}
    study.enqueue_trial({"a": 1.0, "b": 0.5})
    for value in (3.0, 1.0, 2.0):
        trial = study.ask(dict(space))
        study.tell(trial, value)
    (method,) = made
    assert method.bounds.tolist() == [[0.0, 5.0], [-1.0, 2.0]]
    assert method.told == [([1.0, 0.5], -3.0), ([5.0, 2.0], -1.0)]
    assert study.trials[1].params == {"a": 5.0, "b": 2.0}


def test_turbo_region_follows_the_tutorials_rules() -> None:
    """Ten successes double the length up to the longest, d failures in a row halve it."""
    region = highdim_turbo.Region(first=0, best=0.0)
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
    study = optuna.create_study(sampler=highdim_turbo.TuRBOSampler(seed=0, n_startup_trials=6))
    space = {f"x{i}": FloatDistribution(-1.0, 1.0) for i in range(6)}
    for _ in range(35):
        trial = study.ask(dict(space))
        study.tell(trial, sum((x - 0.3) ** 2 for x in trial.params.values()))
    values = [trial.value or 0.0 for trial in study.trials]
    assert min(values) < 0.5 * min(values[:6])
