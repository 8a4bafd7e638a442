"""Fixtures of the benchmarks' tests."""

from pathlib import Path

import pytest

from benchmarks.common.report import Report


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Return a report that writes to a temporary folder."""
    return Report(name="test", directory=tmp_path, command="test")
