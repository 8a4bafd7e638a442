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
        c
        for c in pyproject["tool"]["importlinter"]["contracts"]
        if c["type"] == "layers" and c["containers"] == ["bbo_plugins"]
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


def test_rooms_on_the_page_have_these_files() -> None:
    """The tree names every file of the rooms that it opens, and no other."""
    (tree,) = re.findall(r"^```none\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    package = ROOT / "bbo_plugins"
    rooms = ["space", "gp", "acquisition", "methods/uhe_bo", "methods/go_ucb", "ray/tune"]
    rooms += [f"optuna/{name}" for name in ("sampling", "study", "stopping", "bilevel")]
    for room in rooms:
        name = room.rpartition("/")[2]
        lines = re.search(rf"^ +{name}/ +(.*(?:\n {{12,}}.*)*)$", tree, flags=re.MULTILINE)
        assert lines is not None, room
        named = set(re.findall(r"[a-z_]+", re.sub(r"\([^)]*\)|:.*", "", lines[1])))
        assert named == {path.stem for path in (package / room).glob("[a-z]*.py")}, room


def test_files_exist() -> None:
    """Each file that the page names is there."""
    named = re.findall(r"`([a-z0-9_/]+\.py)`", PAGE)
    assert len(named) > 10
    missing = [
        n for n in named if not (ROOT / n).exists() and not list((ROOT / "bbo_plugins").rglob(n))
    ]
    assert set(missing) <= {"run.py", "algorithm.py"}
