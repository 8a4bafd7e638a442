"""The example on a deceptive task, run the way a user runs it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.example_scripts import run_example

if TYPE_CHECKING:
    from pathlib import Path


def test_registration_reports_both_estimates_and_draws(tmp_path: Path) -> None:
    """A small budget gives one line for either sampler and two pictures."""
    done = run_example("registration", tmp_path, "--n-trials", "14")
    assert done.returncode == 0, done.stderr
    truth = re.search(r"correlation is (0\.\d+)", done.stdout)
    assert truth is not None
    found = dict(re.findall(r"(\w+): right in [01] of 1, median best value (0\.\d+)", done.stdout))
    assert set(found) == {"uhe", "map"}
    assert all(0.0 < float(value) <= float(truth[1]) for value in found.values())
    for name in ("registration.png", "lengthscales.png"):
        assert (tmp_path / "result" / name).read_bytes().startswith(b"\x89PNG")
