"""The example in the docstring of each public class and plot runs as it stands."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt

import bbo_plugins.optuna
import bbo_plugins.visualization as plotly_plots
from bbo_plugins.methods.inner_horizon.horizon import GrowingHorizon, InnerHorizon
from bbo_plugins.methods.regret_gap.rule import StoppingRecord
from bbo_plugins.visualization import matplotlib
from tests.docstrings import example_of, shorten_studies

if TYPE_CHECKING:
    from pathlib import Path

CLASSES: list[Any] = [
    InnerHorizon,
    GrowingHorizon,
    StoppingRecord,
    *filter(inspect.isclass, (getattr(bbo_plugins.optuna, n) for n in bbo_plugins.optuna.__all__)),
]
PLOTS: list[Any] = [
    getattr(package, name)
    for package in (plotly_plots, matplotlib)
    for name in package.__all__
    if name.startswith("plot_")
]


@pytest.mark.parametrize("thing", [*CLASSES, *PLOTS], ids=lambda thing: thing.__qualname__)
def test_example_runs(thing: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By itself, as if pasted into a new file; a picture is really written."""
    code = example_of(thing)
    assert code, f"{thing} has no example"
    monkeypatch.chdir(tmp_path)
    shorten_studies(monkeypatch, code)
    with mpl.rc_context({"backend": "agg"}):
        exec(compile(code, thing.__qualname__, "exec"), {"__name__": "__main__"})  # noqa: S102
    plt.close("all")
    if thing in PLOTS:
        (picture,) = tmp_path.iterdir()
        assert picture.stat().st_size > 1_000


def test_every_public_class_is_here_or_rays() -> None:
    """Those of ``bbo_plugins.__all__``; Ray's are run beside the tests of Ray."""
    public = [getattr(bbo_plugins, n) for n, m in bbo_plugins._MODULE_OF.items() if "ray" not in m]
    assert {one for one in public if inspect.isclass(one)} <= set(CLASSES)
