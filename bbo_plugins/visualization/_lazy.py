"""Public names: plots with their drawer, whose package is loaded when they are first used."""

from __future__ import annotations

import inspect
import sys
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from bbo_plugins.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Arguments = ParamSpec("_Arguments")
_Plot = TypeVar("_Plot")
_Figure = TypeVar("_Figure")


def drawn(
    plot: Callable[_Arguments, _Plot],
    draw: Callable[[_Plot], _Figure],
    package: str,
    words: Mapping[str, str],
) -> Callable[_Arguments, _Figure]:
    """Return the public function of ``package`` that draws what ``plot`` returns.

    Args:
        plot: Its signature and its docstring, with plotly's example, are those of the function.
        draw: How its plot is drawn.
        package: Where the function is looked up.
        words: What stands in place of parts of the example.
    """

    @wraps(plot)
    def public(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Figure:
        return draw(plot(*args, **kwargs))

    for old, new in words.items():
        public.__doc__ = (public.__doc__ or "").replace(old, new)
    public.__module__ = package
    figure = inspect.signature(draw).return_annotation
    signature = inspect.signature(plot).replace(return_annotation=figure)
    vars(public)["__signature__"] = signature
    public.__annotations__ = {**plot.__annotations__, "return": figure}
    return public


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
