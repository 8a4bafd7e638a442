"""The public names: complete, lazy, and clear about what is missing."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import bbo_plugins


def _skip_without_ray(module: str) -> None:
    """Skip the test if ``module`` is Ray's front door and Ray cannot be imported."""
    if module == "bbo_plugins.ray":
        pytest.importorskip("ray.tune", exc_type=ImportError)


def test_tables_of_public_names_agree() -> None:
    """The lazy table, ``__all__`` and what type checkers see name the same things."""
    source = ast.parse(Path(bbo_plugins.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.name: node.module
        for block in source.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == bbo_plugins._MODULE_OF
    literal = next(
        ast.literal_eval(block.value)
        for block in source.body
        if isinstance(block, ast.Assign) and ast.unparse(block.targets[0]) == "__all__"
    )
    assert set(literal) == {*typed, "__version__"}


HIDE_RAY = {
    "absent": "sys.modules['ray'] = None",
    "refused": """
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ray":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())
""",
}
HIDE_RAY["without Tune's extra"] = "sys.modules['pyarrow'] = None"
STAR = """
from bbo_plugins import *

names = {name for name in dir() if not name.startswith("_")} - {"sys", "Refusing"}
import bbo_plugins
print(*sorted(names))
assert names == set(bbo_plugins.__all__) - {"__version__"}, bbo_plugins.__all__
import inspect
inspect.getmembers(bbo_plugins)  # of names that cannot be had it would raise
try:
    bbo_plugins.BBOSearch
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("how", HIDE_RAY)
def test_star_without_ray_gives_everything_else(how: str) -> None:
    """A name of Ray's front door still says how to install what it needs."""
    program = f"import sys\n{HIDE_RAY[how]}\n{STAR}"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    names, message = done.stdout.splitlines()
    others = {n for n, module in bbo_plugins._MODULE_OF.items() if module != "bbo_plugins.ray"}
    assert set(names.split()) == others
    assert "pip install '.[ray]'" in message


@pytest.mark.parametrize("name", bbo_plugins._MODULE_OF)
def test_public_name_is_the_one_its_module_defines(name: str) -> None:
    """A lazily resolved name is the very object, and ``dir`` lists it beforehand."""
    assert name in dir(bbo_plugins)
    _skip_without_ray(bbo_plugins._MODULE_OF[name])
    module = import_module(bbo_plugins._MODULE_OF[name])
    assert getattr(bbo_plugins, name) is getattr(module, name)


def test_unknown_name_is_an_attribute_error() -> None:
    """The message is the one Python itself would give."""
    with pytest.raises(AttributeError, match="module 'bbo_plugins' has no attribute 'Sampler'"):
        bbo_plugins.Sampler  # noqa: B018 - the access is what is tested
