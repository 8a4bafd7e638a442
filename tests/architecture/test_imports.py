"""What importing a module drags in, asked of one fresh interpreter."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import bbo_plugins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FRAMEWORKS = {"matplotlib", "optuna", "plotly", "ray", "torch"}
FRONT_DOORS = {"optuna", "ray", "visualization"}
ROOMS = {"acquisition", "errors", "gp", "methods", "space"}

# Prints one line for each step: a name, and the packages that are loaded when the step is done.
# Each module is imported with no other of the package loaded, so that none relies on an order.
PROGRAM = """
import importlib, json, sys

def report(step):
    print(json.dumps([step, sorted({name.partition(".")[0] for name in sys.modules})]))

import bbo_plugins
report("the package")
for module in sys.argv[1:]:
    for name in [name for name in sys.modules if name.startswith("bbo_plugins")]:
        del sys.modules[name]
    importlib.import_module(module)
    report(module)
import bbo_plugins
bbo_plugins.optuna.UHEBOSampler
report("the Optuna front door")
"""


def _modules(path: Iterable[str], prefix: str) -> Iterator[str]:
    """List the modules below ``path`` without importing one, front doors left out."""
    for found in pkgutil.iter_modules(path):
        name = prefix + found.name
        if name.removeprefix("bbo_plugins.") in FRONT_DOORS | {"__main__"}:
            continue
        yield name
        if found.ispkg:
            folders = [f"{folder}/{found.name}" for folder in path]
            yield from _modules(folders, f"{name}.")


MODULES = sorted(_modules(list(bbo_plugins.__path__), "bbo_plugins."))


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """Return the top-level packages that are loaded after each step of the program."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *MODULES], check=True, capture_output=True, text=True
    )
    return {step: set(names) for step, names in map(json.loads, run.stdout.splitlines())}


def test_every_room_is_discovered() -> None:
    """The test below covers something: each room, and modules inside the rooms."""
    assert {name.split(".")[1] for name in MODULES} >= ROOMS
    assert "bbo_plugins.gp.kernels" in MODULES


def test_package_itself_loads_next_to_nothing(loaded: dict[str, set[str]]) -> None:
    """``import bbo_plugins`` waits with everything heavy until a name is used."""
    assert not loaded["the package"] & (FRAMEWORKS | {"numpy", "scipy"})


def test_mathematics_loads_no_framework(loaded: dict[str, set[str]]) -> None:
    """Everything below the front doors can be used without Optuna, Ray or a plotting package."""
    assert [name for name in MODULES if loaded[name] & FRAMEWORKS] == []


def test_optuna_front_door_loads_optuna_only(loaded: dict[str, set[str]]) -> None:
    """The front door is an attribute of the package and needs no framework but Optuna."""
    assert loaded["the Optuna front door"] & FRAMEWORKS == {"optuna"}
