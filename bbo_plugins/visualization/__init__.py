"""Plots of studies, drawn by plotly; :mod:`bbo_plugins.visualization.matplotlib` has the same ones.

For each plot, a function of one file of ``_data/`` says what it shows, as panels of lines, bands,
points and heat maps, without any plotting package. Two drawers, ``_draw_plotly.py`` and
``_draw_matplotlib.py``, draw any list of panels, so that both pictures show the same numbers. The
public functions have signature and docstring of the function that says what they show.
Importing this package loads no plotting package: the first use of a name does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bbo_plugins.visualization._lazy import resolve

if TYPE_CHECKING:
    from bbo_plugins.visualization import matplotlib
    from bbo_plugins.visualization._draw_plotly import (
        plot_bilevel,
        plot_horizon,
        plot_lengthscales,
        plot_posterior,
        plot_regret_gap,
    )

__all__ = [
    "matplotlib",
    "plot_bilevel",
    "plot_horizon",
    "plot_lengthscales",
    "plot_posterior",
    "plot_regret_gap",
]


def __getattr__(name: str) -> Any:
    if name == "matplotlib":
        return import_module(f"{__name__}.matplotlib")
    return resolve(__name__, name, module=f"{__name__}._draw_plotly", library="plotly")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
