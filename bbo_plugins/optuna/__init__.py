"""The Optuna front door: samplers to pass to :func:`optuna.create_study`, callbacks to stop it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from bbo_plugins.optuna.messages import follow_optuna
from bbo_plugins.optuna.promotion import PromotionCallback, inner_steps
from bbo_plugins.optuna.stopping.cross_validation import report_cross_validation_scores
from bbo_plugins.optuna.study.continuations import continued_from

if TYPE_CHECKING:
    from bbo_plugins.optuna.bbo_sampler import BBOSampler
    from bbo_plugins.optuna.bilbo_sampler import BILBOSampler
    from bbo_plugins.optuna.bilevel.posterior import BilevelSolution
    from bbo_plugins.optuna.go_ucb_sampler import GOUCBSampler
    from bbo_plugins.optuna.terminator import RegretGapTerminator
    from bbo_plugins.optuna.uhe_bo_sampler import UHEBOSampler

# Imported when first used: they need SciPy's linear algebra, which would double the import time.
_MODULE_OF: Final = {
    "BBOSampler": "bbo_sampler",
    "BILBOSampler": "bilbo_sampler",
    "BilevelSolution": "bilevel.posterior",
    "GOUCBSampler": "go_ucb_sampler",
    "RegretGapTerminator": "terminator",
    "UHEBOSampler": "uhe_bo_sampler",
}

follow_optuna()

__all__ = [
    "BBOSampler",
    "BILBOSampler",
    "BilevelSolution",
    "GOUCBSampler",
    "PromotionCallback",
    "RegretGapTerminator",
    "UHEBOSampler",
    "continued_from",
    "inner_steps",
    "report_cross_validation_scores",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # so that the next access is an ordinary one
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
