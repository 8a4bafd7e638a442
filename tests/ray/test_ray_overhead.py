"""The benchmark of the overhead: what it makes of its measurements, and what it leaves out."""

from __future__ import annotations

import argparse
import importlib.util
from typing import TYPE_CHECKING

import pytest

from benchmarks.common.report import Report
from benchmarks.ray import run as ray_overhead

if TYPE_CHECKING:
    from pathlib import Path

OURS, PEER = ray_overhead.OURS, ray_overhead.PEER


def _rounds(*more: float) -> list[dict[str, dict[str, float]]]:
    """Return rounds of 20 trials in which ours takes so many milliseconds per trial longer."""
    return [
        {
            OURS: {"wall": 3.0 + 0.02 * ms, "processor": 1.0 + 0.002 * ms},
            PEER: {"wall": 3.0, "processor": 1.0},
        }
        for ms in more
    ]


def test_overhead_is_that_of_one_trial() -> None:
    """It is a difference within each round, in milliseconds; ours may be the faster one."""
    rounds = _rounds(10.0, -5.0)
    assert ray_overhead.overheads(rounds, "wall", 20) == pytest.approx([10.0, -5.0])
    assert ray_overhead.overheads(rounds, "processor", 20) == pytest.approx([1.0, -0.5])


@pytest.mark.parametrize("ms, verdict", [(49.0, "< 50: met"), (51.0, "< 50: MISSED")])
def test_median_decides(tmp_path: Path, ms: float, verdict: str) -> None:
    """The table has the median of the rounds with its range, and says whether that will do."""
    report = Report(name="ray", directory=tmp_path, command="ray")
    ray_overhead._add_table(report, _rounds(ms, 0.0, 1_000.0), 20)
    assert f"{ms} [0.0, 1000.0]" in report.text()
    assert verdict in report.text()


def test_missing_ray_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ray nothing is measured, and the report names what is missing."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    report = Report(name="ray", directory=tmp_path, command="ray", facts={"versions": {}})
    ray_overhead.run(argparse.Namespace(seeds=None, quick=True, trials=None), report)
    assert report.sections == ["**SKIPPED everything: not installed: ray.**"]
