"""``python -m bbo_plugins``: the installation, told truthfully."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import TYPE_CHECKING

import bbo_plugins
from bbo_plugins.__main__ import report

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _rows(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines() if line)


def test_versions() -> None:
    """Those reported are of this interpreter's packages; the smoke tests run the command."""
    rows = _rows(report())
    assert rows["bbo_plugins"] == bbo_plugins.__version__
    assert rows["python"] == platform.python_version()
    for name in ("numpy", "scipy", "optuna"):
        assert rows[name] == metadata.version(name)


def test_states_of_extras(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An extra is usable, absent or broken, and the report says which and what to do."""
    (tmp_path / "broken_package.py").write_text("raise OSError('no library')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    extras = {"fine": ("json",), "gone": ("absent.inner",), "bad": ("broken_package",)}
    monkeypatch.setattr("bbo_plugins.__main__._EXTRAS", extras)
    rows = _rows(report())
    assert rows["[fine]"] == "usable"
    assert rows["[gone]"] == "not installed; in a clone of bbo_plugins: pip install '.[gone]'"
    assert rows["[bad]"] == "broken: import broken_package raises OSError: no library"
    assert rows["absent"] == "not installed"
