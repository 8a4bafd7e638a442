"""The example on a deceptive task, run the way a user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import bbo_plugins

SCRIPT = Path(__file__).parents[1] / "examples" / "registration.py"


def test_registration_reports_both_estimates_and_draws(tmp_path: Path) -> None:
    """A small budget gives one line for either sampler and two pictures."""
    package = Path(bbo_plugins.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--n-trials", "14", "--out", "result"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    truth = re.search(r"correlation is (0\.\d+)", done.stdout)
    assert truth is not None
    found = dict(re.findall(r"(\w+): right in [01] of 1, median best value (0\.\d+)", done.stdout))
    assert set(found) == {"uhe", "map"}
    assert all(0.0 < float(value) <= float(truth[1]) for value in found.values())
    for name in ("registration.png", "lengthscales.png"):
        assert (tmp_path / "result" / name).read_bytes().startswith(b"\x89PNG")
