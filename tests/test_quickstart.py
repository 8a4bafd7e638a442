"""The main job, run the way a user runs it: as a script, twice."""

from __future__ import annotations

import re
import struct
import zlib
from typing import TYPE_CHECKING

import optuna
import pytest

from tests.example_scripts import run_example

if TYPE_CHECKING:
    from pathlib import Path


def _trial_counts(folder: Path) -> dict[str, int]:
    storage = f"sqlite:///{folder / 'result' / 'quickstart.db'}"
    return {
        name: len(optuna.load_study(study_name=name, storage=storage).trials)
        for name in optuna.get_all_study_names(storage)
    }


def _assert_is_png(path: Path) -> None:
    """Walk the file's chunks: signature, checksums, and an end where it should be."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, kinds = 8, []
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        chunk = data[position + 4 : position + 8 + length]
        (checksum,) = struct.unpack(">I", data[position + 8 + length : position + 12 + length])
        assert zlib.crc32(chunk) == checksum
        kinds.append(chunk[:4])
        position += 12 + length
    assert kinds[0] == b"IHDR"
    assert kinds[-1] == b"IEND"


def test_second_run_resumes_the_first(tmp_path: Path) -> None:
    """Run it, run it again, raise the budget: the studies hold what was asked for, no more."""
    first = run_example("quickstart", tmp_path, "--n-trials", "3")
    assert first.returncode == 0, first.stderr
    counts = _trial_counts(tmp_path)
    assert len(counts) == 2
    assert set(counts.values()) == {3}
    _assert_is_png(tmp_path / "result" / "optimization_history.png")

    table = re.findall(r"^(\S.*?)  +(0\.\d{4})  (0\.\d{4})$", first.stdout, flags=re.MULTILINE)
    assert [name for name, _, _ in table] == [
        "scikit-learn's defaults",
        "random search, 3 trials",
        "UHEBOSampler, 3 trials",
    ]
    assert "3/3" in first.stderr, "Optuna's progress bar is shown"

    second = run_example("quickstart", tmp_path, "--n-trials", "3")
    assert second.returncode == 0, second.stderr
    assert "UHEBOSampler: 3 trials stored, 0 to run" in second.stdout
    assert _trial_counts(tmp_path) == counts

    third = run_example("quickstart", tmp_path, "--n-trials", "4")
    assert third.returncode == 0, third.stderr
    assert "UHEBOSampler: 3 trials stored, 1 to run" in third.stdout
    assert set(_trial_counts(tmp_path).values()) == {4}


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_impossible_budget_is_refused(tmp_path: Path, number: str) -> None:
    """A budget without trials is a usage error, and nothing is written."""
    run = run_example("quickstart", tmp_path, "--n-trials", number)
    assert run.returncode == 2
    assert "--n-trials" in run.stderr
    assert not (tmp_path / "result").exists()
