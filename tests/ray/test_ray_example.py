"""The Ray example, run the way a user runs it: as a script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.example_scripts import run_example

if TYPE_CHECKING:
    from pathlib import Path


pytest.importorskip("ray.tune", reason="needs the extra 'ray'")


@pytest.mark.slow  # starts Ray twice
def test_budget_is_spent_and_a_second_run_finds_it(tmp_path: Path) -> None:
    """All steps are made, by a few trials; run again, the experiment is found finished."""
    arguments = ("--total-steps", "30", "--seed", "1")
    first = run_example("ray_sgd", tmp_path, *arguments)
    assert first.returncode == 0, first.stderr
    assert re.search(r"^\d+ trials, 30 of 30 steps$", first.stdout, flags=re.MULTILINE)
    assert "Test error of the best: " in first.stdout
    second = run_example("ray_sgd", tmp_path, *arguments)
    assert second.returncode == 0, second.stderr
    assert "Going on with the experiment" in second.stdout
    results = [
        re.findall(r"trials, .*|^ +0\.\d+ .*|Test error.*", run.stdout) for run in (first, second)
    ]
    assert results[0] == results[1]
