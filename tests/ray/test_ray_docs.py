"""What docs/ray.md tells its readers to type works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "ray.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_page_shows_code() -> None:
    """The test below has something to run."""
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block_runs(
    block: str, local_ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each one by itself, as if pasted into a new file."""
    assert local_ray.is_initialized()
    monkeypatch.setenv("HOME", str(tmp_path))
    exec(compile(block, "ray.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
