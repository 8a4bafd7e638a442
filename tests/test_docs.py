"""What the pages in docs/ tell their readers to type works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{index}")
    for page in PAGES
    for index, block in enumerate(
        re.findall(
            r"^```python\n(.*?)^```$",
            page.read_text(encoding="utf-8"),
            flags=re.MULTILINE | re.DOTALL,
        )
    )
    if "ray" not in re.findall(r"^from (\w+) import", block, flags=re.MULTILINE)  # see tests/ray
]


def test_docs_show_code() -> None:
    """The test below has something to run."""
    assert len(BLOCKS) > 1


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each one by itself, as if pasted into a new file."""
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
