"""The plots of :mod:`bbo_plugins.visualization`, drawn by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bbo_plugins.visualization._lazy import resolve

if TYPE_CHECKING:
    from bbo_plugins.visualization.matplotlib._bilevel import plot_bilevel
    from bbo_plugins.visualization.matplotlib._horizon import plot_horizon
    from bbo_plugins.visualization.matplotlib._lengthscales import plot_lengthscales
    from bbo_plugins.visualization.matplotlib._posterior import plot_posterior
    from bbo_plugins.visualization.matplotlib._regret_gap import plot_regret_gap

__all__ = ["plot_bilevel", "plot_horizon", "plot_lengthscales", "plot_posterior", "plot_regret_gap"]


def __getattr__(name: str) -> Any:
    module = f"{__name__}.{name.replace('plot_', '_', 1)}"
    return resolve(__name__, name, module=module, library="matplotlib")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
