"""What importing the package drags in, asked of one fresh interpreter.

That the mathematics imports no framework is a contract of `lint-imports`.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FRAMEWORKS = {"matplotlib", "optuna", "plotly", "ray", "torch"}

# Prints one line for each step: a name, and the packages that are loaded when the step is done.
PROGRAM = """
import json, sys

def report(step):
    print(json.dumps([step, sorted({name.partition(".")[0] for name in sys.modules})]))

import bbo_plugins
report("the package")
import bbo_plugins.methods.gp_bo
report("the mathematics")
bbo_plugins.optuna.UHEBOSampler
report("the Optuna front door")
"""


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """Return the top-level packages that are loaded after each step of the program."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    return {step: set(names) for step, names in map(json.loads, run.stdout.splitlines())}


def test_package_itself_loads_next_to_nothing(loaded: dict[str, set[str]]) -> None:
    """``import bbo_plugins`` waits with everything heavy until a name is used."""
    assert not loaded["the package"] & (FRAMEWORKS | {"numpy", "scipy"})


def test_mathematics_loads_no_framework(loaded: dict[str, set[str]]) -> None:
    """A step of the Gaussian process can be used without Optuna, Ray or a plotting package."""
    assert not loaded["the mathematics"] & FRAMEWORKS


def test_optuna_front_door_loads_optuna_only(loaded: dict[str, set[str]]) -> None:
    """The front door is an attribute of the package and needs no framework but Optuna."""
    assert loaded["the Optuna front door"] & FRAMEWORKS == {"optuna"}
