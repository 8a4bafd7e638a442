"""Names whose plotting package is loaded when they are first used."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from bbo_plugins.errors import MissingExtraError


def resolve(package: str, name: str, *, module: str, library: str) -> Any:
    """Return what ``module`` calls ``name``, and keep it as an attribute of ``package``.

    Args:
        package: The package that was asked for the name, and lists it in its ``__all__``.
        name: The name.
        module: Where it is defined.
        library: The plotting package that ``module`` imports.

    Raises:
        AttributeError: The name is none of the package's public ones.
        MissingExtraError: The plotting package is not installed.
    """
    if name not in sys.modules[package].__all__:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise MissingExtraError(f"{package}.{name}", "plot") from error
    setattr(sys.modules[package], name, value)  # so that the next access is an ordinary one
    return value
