"""What the pages in docs/ tell their readers to type works, where it needs Ray."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{index}")
    for page in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
    for index, block in enumerate(
        re.findall(
            r"^```python\n(.*?)^```$",
            page.read_text(encoding="utf-8"),
            flags=re.MULTILINE | re.DOTALL,
        )
    )
    if "ray" in re.findall(r"^from (\w+) import", block, flags=re.MULTILINE)
]


def test_pages_show_code() -> None:
    """The test below has something to run."""
    assert len(BLOCKS) > 1


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(
    block: str, local_ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each one by itself, as if pasted into a new file."""
    assert local_ray.is_initialized()
    monkeypatch.setenv("HOME", str(tmp_path))
    exec(compile(block, "docs", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
