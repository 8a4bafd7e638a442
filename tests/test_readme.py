"""What README.md tells a newcomer to type works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


PYTHON_BLOCKS = _blocks("python")


def test_readme_shows_code() -> None:
    """The test below has something to run."""
    assert PYTHON_BLOCKS


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=range(len(PYTHON_BLOCKS)))
def test_python_block_runs(block: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each block runs by itself, as if pasted into a new file."""
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own file


@pytest.mark.parametrize(
    "command",
    [
        "python -m pip install '.[examples]' && python examples/quickstart.py",
        "python -m pip install '.[test]' && python -m pytest",
    ],
)
def test_setup_command_is_a_block_of_its_own(command: str) -> None:
    """The two promised commands stand in the README verbatim; CI takes them from there."""
    assert f"{command}\n" in _blocks("bash")
