"""The public names: complete, lazy, and clear about what is missing."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path

import pytest

import bbo_plugins
from bbo_plugins.errors import MissingExtraError


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
    assert set(bbo_plugins.__all__) == {*typed, "__version__"}


@pytest.mark.parametrize("name", bbo_plugins._MODULE_OF)
def test_public_name_is_the_one_its_module_defines(name: str) -> None:
    """A lazily resolved name is the very object, and ``dir`` lists it beforehand."""
    assert name in dir(bbo_plugins)
    _skip_without_ray(bbo_plugins._MODULE_OF[name])
    module = import_module(bbo_plugins._MODULE_OF[name])
    assert getattr(bbo_plugins, name) is getattr(module, name)


@pytest.mark.parametrize("name", bbo_plugins._FRONT_DOORS)
def test_front_doors_are_attributes(name: str) -> None:
    """A front door is the sub-package of that name, and ``dir`` lists it beforehand."""
    assert name in dir(bbo_plugins)
    _skip_without_ray(f"bbo_plugins.{name}")
    assert bbo_plugins.__getattr__(name) is import_module(f"bbo_plugins.{name}")


def test_unknown_name_is_an_attribute_error() -> None:
    """The message is the one Python itself would give."""
    with pytest.raises(AttributeError, match="module 'bbo_plugins' has no attribute 'Sampler'"):
        bbo_plugins.Sampler  # noqa: B018 - the access is what is tested


@pytest.fixture
def front_door_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Add a public name whose module imports a package that cannot be found."""
    (tmp_path / "front_door.py").write_text("import absent.inner\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "front_door", raising=False)
    monkeypatch.setitem(bbo_plugins._MODULE_OF, "FutureName", "front_door")
    return "FutureName"


def test_missing_extra_names_the_command(
    monkeypatch: pytest.MonkeyPatch, front_door_without: str
) -> None:
    """A name that needs an extra says how to install it, and is an ImportError."""
    monkeypatch.setitem(bbo_plugins._EXTRAS, "future", ("absent.inner",))
    with pytest.raises(MissingExtraError, match=r"FutureName .*bbo-plugins\[future\]") as caught:
        getattr(bbo_plugins, front_door_without)
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_missing_package_of_no_extra_is_reported_as_it_is(front_door_without: str) -> None:
    """A broken installation is not blamed on an extra."""
    with pytest.raises(ModuleNotFoundError, match="'absent'"):
        getattr(bbo_plugins, front_door_without)
