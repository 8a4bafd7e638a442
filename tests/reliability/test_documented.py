"""The page that says what was done to studies on purpose names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

_HERE = Path(__file__).parent
_PAGE = _HERE.parents[1] / "docs" / "reliability.md"
_ROOT = _HERE.parents[1]
_NAMED = re.compile(r"`((?:tests/(?:\w+/)+)?test_\w+\.py)(?:::(\w+))?`")


def named() -> list[tuple[str, str]]:
    """Return the files and tests that the page names; an empty name stands for the whole file."""
    return _NAMED.findall(_PAGE.read_text(encoding="utf-8"))


def existing(file: str) -> set[str]:
    """Return the names of the tests in a file of this folder, or of another that is named, too."""
    path = _ROOT / file if "/" in file else _HERE / file
    if not path.exists():
        return set()
    return set(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_named_tests_exist() -> None:
    """A test that was renamed or removed is not promised any longer."""
    assert len(named()) > 20
    missing = [f"{file}::{test}" for file, test in named() if not ({test} - {""}) <= existing(file)]
    assert missing == []
    assert all(existing(file) for file, _ in named())
