"""Bayesian-optimization papers as plugins for Optuna and Ray Tune.

Importing this package loads no framework and no array library: a public name is looked up in the
module that defines it when it is first used. ``from bbo_plugins import *`` gives all names in
``__all__``; without Ray Tune these are the others, and a name of Ray's front door raises an
ImportError with the command that installs the extra where it is asked for by itself.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
    from bbo_plugins.optuna import (
        BBOSampler,
        BILBOSampler,
        BilevelSolution,
        GOUCBSampler,
        PromotionCallback,
        RegretGapTerminator,
        UHEBOSampler,
        continued_from,
        inner_steps,
        report_cross_validation_scores,
    )
    from bbo_plugins.ray import BBOSearch, InnerHorizonScheduler, RegretGapStopper

__version__ = "0.2.0"

# A new public name gets a row here, and an import in the block above, from which type checkers and
# editors learn what __getattr__ will find. One of Ray's front door is listed in _RAY too; another
# one that bbo_plugins.optuna does not export, in _MODULE_OF.
__all__ = [
    "BBOSampler",
    "BBOSearch",
    "BILBOSampler",
    "BilevelSolution",
    "GOUCBSampler",
    "InnerHorizon",
    "InnerHorizonScheduler",
    "PromotionCallback",
    "RegretGapStopper",
    "RegretGapTerminator",
    "UHEBOSampler",
    "__version__",
    "continued_from",
    "inner_steps",
    "report_cross_validation_scores",
]

_RAY: Final = ("BBOSearch", "InnerHorizonScheduler", "RegretGapStopper")
_MODULE_OF: Final = {
    **{name: "bbo_plugins.optuna" for name in __all__ if name != "__version__"},
    **dict.fromkeys(_RAY, "bbo_plugins.ray"),
    "InnerHorizon": "bbo_plugins.methods.inner_horizon.horizon",
}

# Sub-packages that are imported when first used as an attribute, without an import of their own.
_FRONT_DOORS: Final = ("optuna", "ray", "visualization")

# The modules each extra brings for the library itself.
_EXTRAS: Final = {"plot": ("matplotlib", "plotly"), "ray": ("ray.tune",)}

# Ray may be installed without Tune's extra; Tune refuses to be imported without any of these.
_NEEDED_BY_TUNE: Final = ("ray", "fsspec", "pandas", "pyarrow", "requests")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # an import hook refuses it, or it was put there by hand
        return package in sys.modules


_HAS_TUNE: Final = all(map(_is_installed, _NEEDED_BY_TUNE))
if not _HAS_TUNE:
    # Left out, as `import *` would raise for the other names too.
    __all__ = [name for name in __all__ if name not in _RAY]


def __getattr__(name: str) -> Any:
    if name in _FRONT_DOORS:
        return import_module(f"{__name__}.{name}")  # which makes it an ordinary attribute
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # so that the next access is an ordinary one
    return value


def __dir__() -> list[str]:
    doors = {*_FRONT_DOORS} if _HAS_TUNE else {*_FRONT_DOORS} - {"ray"}
    return sorted({*globals(), *__all__, *doors})
