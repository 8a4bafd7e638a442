"""How tests run and load the scripts in ``examples/``."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bbo_plugins

if TYPE_CHECKING:
    import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in ``folder`` the way a user does; what it leaves goes to ``result`` there."""
    # A script finds what is installed; what is to be tested is the package these tests import.
    package = Path(bbo_plugins.__file__).parents[1]
    return subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "--out", "result", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(package)},
        check=False,
        capture_output=True,
        text=True,
    )


def load_example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a script as a module, whose functions a test can call."""
    monkeypatch.syspath_prepend(EXAMPLES)  # as when it is run: there is what scripts share
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # where dataclasses look themselves up
    spec.loader.exec_module(module)
    return module
