"""What docstrings and pages show of Ray runs as it stands, by itself, as if pasted into a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.docstrings import example_of

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@pytest.fixture(scope="module")
def one_processor(local_ray: Any) -> Iterator[Any]:
    """Take one of two away, as each process that Ray starts for an experiment takes seconds."""
    util = pytest.importorskip("ray.util")
    taken = util.placement_group([{"CPU": 1}])
    local_ray.get(taken.ready(), timeout=60.0)
    yield local_ray
    util.remove_placement_group(taken)


@pytest.mark.parametrize("code", [*BLOCKS, *EXAMPLES])
def test_code_runs(
    code: str, one_processor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A whole experiment each."""
    assert one_processor.is_initialized()
    monkeypatch.setenv("HOME", str(tmp_path))
    exec(compile(code, "code", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
