"""The plots of :mod:`bbo_plugins.visualization`, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bbo_plugins.visualization._lazy import resolve

if TYPE_CHECKING:
    from bbo_plugins.visualization._draw_matplotlib import (
        plot_bilevel,
        plot_horizon,
        plot_lengthscales,
        plot_posterior,
        plot_regret_gap,
    )

__all__ = ["plot_bilevel", "plot_horizon", "plot_lengthscales", "plot_posterior", "plot_regret_gap"]


def __getattr__(name: str) -> Any:
    module = "bbo_plugins.visualization._draw_matplotlib"
    return resolve(__name__, name, module=module, library="matplotlib")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
