"""What importing a module drags in, asked of a fresh interpreter each time."""

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


def _loaded_by(statement: str) -> set[str]:
    """Return the top-level packages in ``sys.modules`` after one statement in a new process."""
    program = f"import json, sys\n{statement}\nprint(json.dumps(list(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return {name.partition(".")[0] for name in json.loads(run.stdout)}


def test_every_room_is_discovered() -> None:
    """The test below covers something: each room, and modules inside the rooms."""
    assert {name.split(".")[1] for name in MODULES} >= ROOMS
    assert "bbo_plugins.gp.kernels" in MODULES


@pytest.mark.parametrize("module", MODULES)
def test_mathematics_loads_no_framework(module: str) -> None:
    """Everything below the front doors can be used without Optuna, Ray or a plotting package."""
    loaded = _loaded_by(f"import {module}")
    assert "bbo_plugins" in loaded
    assert not loaded & FRAMEWORKS


def test_package_itself_loads_next_to_nothing() -> None:
    """``import bbo_plugins`` waits with everything heavy until a name is used."""
    loaded = _loaded_by("import bbo_plugins")
    assert not loaded & (FRAMEWORKS | {"numpy", "scipy"})


def test_optuna_front_door_loads_optuna_only() -> None:
    """The Optuna front door asks for no framework but Optuna."""
    loaded = _loaded_by("import bbo_plugins.optuna")
    assert loaded & FRAMEWORKS == {"optuna"}


def test_front_door_is_an_attribute() -> None:
    """``bbo_plugins.optuna`` needs no import of its own, and is imported when it is used."""
    program = "import bbo_plugins; bbo_plugins.optuna.UHEBOSampler"
    assert "optuna" in _loaded_by(program)


def test_the_probe_sees_a_framework() -> None:
    """The check is able to fail: a lazily resolved sampler does load Optuna."""
    assert "optuna" in _loaded_by("import bbo_plugins; bbo_plugins.UHEBOSampler")
