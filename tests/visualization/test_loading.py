"""What the plots load, and what they say where it is missing, asked of fresh interpreters."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

BLOCK = """
import json, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
"""
LOADED = """
{statement}
packages = {{name.partition(".")[0] for name in sys.modules}}
print(json.dumps([name for name in ("matplotlib", "plotly") if name in packages]))
"""
CAUGHT = """
from bbo_plugins.errors import MissingExtraError
try:
    {statement}
except MissingExtraError as error:
    print(json.dumps([str(error), type(error.__cause__).__name__]))
"""


def _run(program: str, statement: str, *, blocked: str = "nothing") -> Any:
    """Return what the program prints in a new process where one package cannot be found."""
    text = BLOCK.format(blocked=blocked) + program.format(statement=statement)
    run = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "statement, loaded, other",
    [
        ("from bbo_plugins.visualization import _data, matplotlib", [], "nothing"),
        ("from bbo_plugins.visualization import plot_posterior", ["plotly"], "matplotlib"),
        (
            "from bbo_plugins.visualization.matplotlib import plot_posterior",
            ["matplotlib"],
            "plotly",
        ),
    ],
)
def test_plotting_packages_are_loaded_when_needed(
    statement: str, loaded: list[str], other: str
) -> None:
    """Nothing but the plot itself loads its package, and none needs the other's."""
    assert _run(LOADED, statement, blocked=other) == loaded


@pytest.mark.parametrize("package, path", [("plotly", ""), ("matplotlib", ".matplotlib")])
def test_missing_package_names_the_command(package: str, path: str) -> None:
    """By attribute and by import, and the error is one that says what to install."""
    module, name = f"bbo_plugins.visualization{path}", "plot_posterior"
    for statement in (f"from {module} import {name}", f"import bbo_plugins; {module}.{name}"):
        message, cause = _run(CAUGHT, statement, blocked=package)
        assert message == (
            f"{module}.{name} needs packages that are not installed; "
            "in a clone of bbo_plugins: pip install '.[plot]'"
        )
        assert cause == "ModuleNotFoundError"


def test_broken_installation_is_not_blamed_on_the_extra() -> None:
    """A package that something else misses is reported as it is."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        _run(LOADED, "from bbo_plugins.visualization import plot_posterior", blocked="scipy")
    assert "MissingExtraError" not in caught.value.stderr
    assert "ModuleNotFoundError: No module named 'scipy'" in caught.value.stderr


@pytest.mark.parametrize(
    "package", ["bbo_plugins.visualization", "bbo_plugins.visualization.matplotlib"]
)
def test_public_names(package: str) -> None:
    """``dir`` lists each one, each resolves to the same object twice, others are not there."""
    module = import_module(package)
    for name in module.__all__:
        assert name in dir(module)
        assert getattr(module, name) is getattr(module, name)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'plot_all'"):
        module.plot_all  # noqa: B018 - the access is what is tested
