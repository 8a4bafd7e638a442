"""What docs/terminator.md tells its readers to type works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = (Path(__file__).parents[1] / "docs" / "terminator.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCS, flags=re.MULTILINE | re.DOTALL)


def test_docs_show_code() -> None:
    """The test below has something to run."""
    assert BLOCKS


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_block_runs(block: str) -> None:
    """Each one by itself, as if pasted into a new file."""
    exec(compile(block, "terminator.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
