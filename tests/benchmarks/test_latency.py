"""The latency benchmark's machinery, with peers that need nothing installed."""

import math

import pytest

from bbo_plugins.optuna.study.trials import TrialRow
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.latency import run as latency
from benchmarks.problems.functions import PROBLEMS

SETTING = latency.Setting("hartmann6", 12, 1e9)


def timing(entrant: str, step: int, wall: float, *, warm: bool = True) -> latency.Timing:
    """Return a made-up measurement."""
    return latency.Timing(
        problem=SETTING.problem,
        dimension=6,
        n=SETTING.n,
        seed=0,
        step=step,
        entrant=entrant,
        warm=warm,
        wall=wall,
        cpu=wall,
    )


@pytest.mark.slow  # the quick form of the benchmark does it
def test_entrants_are_asked_in_turn_on_the_same_history() -> None:
    """Every entrant is timed once per step, warm and cold, and the order alternates."""
    entrants = [SAMPLERS["tpe"], SAMPLERS["random"]]
    timings = latency.measure(SETTING, entrants, seed=0, repetitions=3, log=None)
    cold = [t.entrant for t in timings if not t.warm]
    warm = [(t.step, t.entrant) for t in timings if t.warm]
    assert cold == ["tpe", "random"]
    assert warm == [(0, "tpe"), (0, "random"), (1, "random"), (1, "tpe"), (2, "tpe"), (2, "random")]
    assert all(t.wall > 0.0 for t in timings)


def test_asked_trials_teach_nothing() -> None:
    """They are neither values nor failures, whose model would be part of the next time."""
    study = latency.study_with([], SAMPLERS["random"].build(0))
    latency.abandon(study, latency.timed_ask(study, PROBLEMS["hartmann6"])[0])
    (row,) = [TrialRow.read(trial) for trial in study.trials]
    assert row.state.is_finished()
    assert math.isnan(row.value)
    assert not row.failed


def test_ratio_is_of_medians_and_targets_are_judged(report: Report) -> None:
    """The table divides the peer's median by ours, and names a missed target."""
    walls = {latency.OURS: (1.0, 2.0, 4.0), latency.TARGET_PEER: (10.0, 30.0, 20.0)}
    timings = [
        timing(entrant, step, wall)
        for entrant, values in walls.items()
        for step, wall in enumerate(values)
    ]
    missed = latency.add_ratio_table(report, [SETTING], timings, [latency.TARGET_PEER])
    assert missed == [SETTING]
    row = report.sections[0].splitlines()[-1].replace(" ", "")
    times = "20000.0/20000.0/29000.0|2000.0/2333.3/3800.0"  # median, mean, 95th percentile
    assert row == f"|6|12|warm|gpsampler|10.0|5.0-15.0|10.0|{times}|>=1e+09|MISSED|"
