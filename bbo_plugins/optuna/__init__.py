"""The Optuna front door: samplers to pass to :func:`optuna.create_study`, callbacks to stop it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bbo_plugins.optuna.bilbo_sampler import BILBOSampler
from bbo_plugins.optuna.bilevel_solution import BilevelSolution
from bbo_plugins.optuna.continuations import continued_from
from bbo_plugins.optuna.cross_validation import report_cross_validation_scores
from bbo_plugins.optuna.go_ucb_sampler import GOUCBSampler
from bbo_plugins.optuna.promotion import PromotionCallback, inner_steps
from bbo_plugins.optuna.samplers import UHEBOSampler

if TYPE_CHECKING:
    from bbo_plugins.optuna.terminator import RegretGapTerminator

__all__ = [
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
    if name != "RegretGapTerminator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported when first used: it needs SciPy's linear algebra, which would double the import time.
    from bbo_plugins.optuna.terminator import RegretGapTerminator  # noqa: PLC0415

    globals()[name] = RegretGapTerminator  # so that the next access is an ordinary one
    return RegretGapTerminator


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
