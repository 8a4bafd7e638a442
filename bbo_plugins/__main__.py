"""``python -m bbo_plugins``: what a bug report needs to say about the installation."""

from __future__ import annotations

import platform
from importlib import import_module, metadata

from bbo_plugins import _EXTRAS, __version__

_REQUIRED = ("numpy", "scipy", "optuna")


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _state(extra: str, modules: tuple[str, ...]) -> str:
    """Say whether an extra can be used, which only an import can tell for certain."""
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError:
            return f"not installed; in a clone of bbo_plugins: pip install '.[{extra}]'"
        except Exception as error:  # noqa: BLE001 - a broken package may raise anything; report it
            return f"broken: import {module} raises {type(error).__name__}: {error}"
    return "usable"


def report() -> str:
    """Return the versions of the package and of what it stands on, and the state of each extra."""
    optional = [module.partition(".")[0] for modules in _EXTRAS.values() for module in modules]
    versions = {
        "bbo_plugins": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in (*_REQUIRED, *optional)},
    }
    states = {f"[{extra}]": _state(extra, modules) for extra, modules in _EXTRAS.items()}
    width = max(map(len, (*versions, *states)))
    return "\n".join(
        [
            *(f"{name:{width}}  {version}" for name, version in versions.items()),
            "",
            *(f"{extra:{width}}  {state}" for extra, state in states.items()),
        ]
    )


if __name__ == "__main__":
    print(report())
