"""docs/architecture.md shows the house as it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def _layers() -> list[str]:
    """Return the rooms, upper first, as the import contracts have them."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (
        c for c in pyproject["tool"]["importlinter"]["contracts"] if c["type"] == "layers"
    )
    return list(contract["layers"])


def test_rooms_are_those_of_the_contracts_in_their_order() -> None:
    """The list on the page is the list that is enforced."""
    (block,) = re.findall(r"^```text\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert [line.split()[0] for line in block.splitlines()] == _layers()


def test_rooms_exist() -> None:
    """Each room is a module of the package."""
    package = ROOT / "bbo_plugins"
    assert all((package / r).is_dir() or (package / f"{r}.py").is_file() for r in _layers())


def test_files_exist() -> None:
    """Each file that the page names is there."""
    named = re.findall(r"`([a-z0-9_*/]+\.py)`", PAGE)
    assert len(named) > 10
    missing = [name for name in named if not list((ROOT / "bbo_plugins").rglob(name))]
    assert not missing
