"""The plots, drawn by plotly."""

from bbo_plugins.visualization._plotly.bilevel import plot_bilevel
from bbo_plugins.visualization._plotly.horizon import plot_horizon
from bbo_plugins.visualization._plotly.lengthscales import plot_lengthscales
from bbo_plugins.visualization._plotly.posterior import plot_posterior
from bbo_plugins.visualization._plotly.regret_gap import plot_regret_gap

__all__ = ["plot_bilevel", "plot_horizon", "plot_lengthscales", "plot_posterior", "plot_regret_gap"]
