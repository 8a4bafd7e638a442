"""What docstrings and pages show of Ray runs as it stands, by itself, as if pasted into a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.docstrings import example_of

ray = pytest.importorskip("bbo_plugins.ray", exc_type=ImportError)

PAGES = sorted((Path(__file__).parents[2] / "docs").glob("*.md"))
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{index}")
    for page in PAGES
    for index, block in enumerate(
        re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
    if "ray" in re.findall(r"^from (\w+) import", block, flags=re.MULTILINE)
]
EXAMPLES = [
    pytest.param(example_of(getattr(ray, name)), id=name, marks=pytest.mark.slow)
    for name in ray.__all__
]


def test_there_is_something_to_run() -> None:
    """On the pages, and an example of each class, which is Python."""
    assert len(BLOCKS) > 1
    for example in EXAMPLES:
        (code,) = example.values
        assert code
        compile(str(code), str(example.id), "exec")


@pytest.mark.parametrize("code", [*BLOCKS, *EXAMPLES])
def test_code_runs(
    code: str, local_ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A whole experiment each."""
    assert local_ray.is_initialized()
    monkeypatch.setenv("HOME", str(tmp_path))
    exec(compile(code, "code", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
