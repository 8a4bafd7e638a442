"""The latency benchmark's machinery, with peers that need nothing installed."""

import gc
import math
from collections.abc import Iterator
from typing import Any, ClassVar

import optuna
import pytest
from optuna.samplers import RandomSampler

from bbo_plugins.optuna.study.trials import TrialRow
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS, Entrant
from benchmarks.common.timing import Timing
from benchmarks.latency import run as latency
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import N_STARTUP


@pytest.fixture(autouse=True)
def small_heap() -> Iterator[None]:
    """Leave what other tests have loaded out of the garbage collection before each timing."""
    gc.freeze()
    yield
    gc.unfreeze()


def test_entrants_are_asked_in_turn_and_learn_nothing() -> None:
    """Each is timed once per step, the order alternates; asked trials are no failures."""
    entrants = [SAMPLERS["tpe"], SAMPLERS["random"]]
    found = latency.measure(latency.Setting("hartmann6", 12), entrants, seed=0, n_steps=3)
    assert [one.entrant for one in found["cold"]] == ["tpe", "random"]
    steps = [(one.step, one.entrant) for one in found["warm"]]
    turns = [(0, "tpe"), (0, "random"), (1, "random"), (1, "tpe"), (2, "tpe"), (2, "random")]
    assert steps == turns
    study = latency.study_with([], SAMPLERS["random"], 0)
    latency.abandon(study, latency.timed_ask(study, PROBLEMS["hartmann6"])[0])
    (row,) = [TrialRow.read(trial) for trial in study.trials]
    assert row.state.is_finished()
    assert math.isnan(row.value)
    assert not row.failed


class NotesNumbers(RandomSampler):
    """Remembers which trials it suggested a parameter for."""

    numbers: ClassVar[set[int]] = set()

    def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
        """Draw at random, and remember the trial."""
        self.numbers.add(trial.number)
        return super().sample_independent(study, trial, name, distribution)


def test_six_steps_time_each_number_modulo_six() -> None:
    """By its number modulo six a trial is one model's turn; none may be timed more often."""
    entrant = Entrant(name="notes", target=f"{__name__}:NotesNumbers")
    latency.measure(latency.Setting("hartmann6", 24), [entrant], seed=0, n_steps=6)
    asked = sorted(NotesNumbers.numbers)[-6:]
    assert {number % 6 for number in asked} == set(range(6))


def test_own_studies_hold_what_their_entrants_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    """All begin at the same points, later ones differ; only steps after the first n are timed."""
    studies = []

    def study_with(*args: Any) -> optuna.Study:
        studies.append(build(*args))
        return studies[-1]

    build = latency.study_with
    monkeypatch.setattr(latency, "study_with", study_with)
    entrants = [SAMPLERS["tpe"], SAMPLERS["random"]]
    found = latency.measure_own(latency.Setting("hartmann6", 12), entrants, seed=0, n_steps=1)
    assert [one.step for one in found["own study"]] == [0, 0, 1, 1, 2, 2, 3, 3]
    params = [[trial.params for trial in study.trials] for study in studies]
    assert params[0][:N_STARTUP] == params[1][:N_STARTUP]
    assert params[0][N_STARTUP:] != params[1][N_STARTUP:]
    for trial in studies[0].trials:
        assert trial.value == PROBLEMS["hartmann6"].value(trial.params)


def test_ratio_is_of_medians_and_targets_are_judged(report: Report) -> None:
    """The table divides the peer's median by that of the first entrant."""
    walls = {"ours-map": (1.0, 2.0, 4.0), "gpsampler": (10.0, 30.0, 20.0)}
    timings = [
        Timing(entrant=entrant, seed=0, step=step, wall=wall, cpu=wall)
        for entrant, values in walls.items()
        for step, wall in enumerate(values)
    ]
    found = {("warm", latency.Setting("hartmann6", n)): timings for n in (100, 500)}
    latency.add_ratio_table(report, found, list(walls))
    rows = [row.replace(" ", "") for row in report.sections[0].splitlines()[-2:]]
    times = "20000.0/20000.0/29000.0|2000.0/2333.3/3800.0"  # median, mean, 95th percentile
    assert rows[0] == f"|6|100|warm|gpsampler|10.0|5.0-15.0|10.0|{times}|>=8|met|"
    assert rows[1] == f"|6|500|warm|gpsampler|10.0|5.0-15.0|10.0|{times}|>=25|MISSED|"
