"""Both packages draw what a plot's panels say; each public function draws its plot."""

from __future__ import annotations

import inspect
import itertools
import math
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.text import Text
from plotly import graph_objects as go

import bbo_plugins.visualization as by_plotly
from bbo_plugins import BBOSampler, RegretGapTerminator
from bbo_plugins.visualization import _draw_matplotlib, _draw_plotly
from bbo_plugins.visualization import matplotlib as by_matplotlib
from bbo_plugins.visualization._data.panels import (
    Axis,
    HeatMap,
    Line,
    Panel,
    Plot,
    Points,
    Rule,
    estimate,
)
from bbo_plugins.visualization._style import (
    PAIRS,
    SHARED_STACK,
    SLICES,
    STACK,
    TRIALS,
    Layout,
    LineStyle,
    hollow,
    line_styles,
    marked,
)
from tests.visualization.parts import xy
from tests.visualization.studies import MIXED, modeled_study

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

X = np.array([1.0, 2.0, 3.0])
LOW, MIDDLE, HIGH = X - 0.5, X**2, X**2 + 2.0
BROKEN = Line("broken", [1, 2, 3], [4.0, math.nan, 6.0], LineStyle("black"), step=True)
(BAND, CURVE) = estimate(X, (LOW, MIDDLE, HIGH), "middle", each=False)
(ENDS,) = estimate(X, (LOW, MIDDLE, HIGH), "middle", each=True)
FAINT = Points("trials", X, MIDDLE, TRIALS, np.array([0.2, 0.6, 1.0]), hover="%{y}")
HOLLOW = Points("apart", X, LOW, hollow(LineStyle("red")), clip=False)
SURFACE = HeatMap("height", X, np.array([0.0, 1.0]), np.array([X, 2.0 * X]), contours=True)
CELLS = HeatMap(
    "kind", X, np.array([0.0, 1.0]), np.ones((2, 3)), labels=("a", "b"), limits=(0.0, 1.0)
)
NUMBERS = Axis("number", limits=(0.0, 4.0))


def _both(*panels: Panel, layout: Layout = PAIRS, **options: Any) -> tuple[Any, Any]:
    """Return plotly's figure and matplotlib's axes of a plot."""
    plot = Plot("title", panels, layout, **options)
    return _draw_plotly.draw(plot), _draw_matplotlib.draw(plot)


def _panel(*items: Any, x: Axis = NUMBERS, y: Axis = NUMBERS, title: str = "") -> Panel:
    return Panel(x, y, items, title)


def test_no_points_are_drawn_as_none() -> None:
    """As where the best trial, which has a mark of its own, is the only one."""
    none = Points("trials", X[:0], X[:0], TRIALS, X[:0])
    figure, (axes,) = _both(_panel(none))
    assert len(figure.data[0].x) == 0
    assert len(axes.collections[0].get_offsets()) == 0


def test_lines_bands_and_points_have_the_same_numbers() -> None:
    """With gaps and steps, error bars, and the opacity of each point."""
    figure, (axes, bars) = _both(
        _panel(BAND, CURVE, BROKEN, FAINT, HOLLOW), _panel(ENDS), layout=STACK
    )
    band, curve, broken, faint, apart, ends = figure.data
    outline = np.column_stack([band.x, band.y])
    drawn_band, scattered = axes.collections[:2]
    for low_or_high in (LOW, HIGH):
        for point in zip(X, low_or_high, strict=True):
            assert (outline == point).all(axis=1).any()
            assert (drawn_band.get_paths()[0].vertices == point).all(axis=1).any()
    lines = axes.get_lines()
    for trace, line, item in zip(
        (curve, broken, apart), lines, (CURVE, BROKEN, HOLLOW), strict=True
    ):
        np.testing.assert_array_equal(xy(trace), xy(item))
        np.testing.assert_array_equal(line.get_xydata(), xy(item))
    assert not broken.connectgaps
    assert (broken.line.shape, lines[1].get_drawstyle()) == ("hv", "steps-post")
    np.testing.assert_array_equal(xy(faint), xy(FAINT))
    np.testing.assert_array_equal(scattered.get_offsets(), xy(FAINT))
    np.testing.assert_allclose(faint.marker.opacity, [0.2, 0.6, 1.0])
    np.testing.assert_allclose(scattered.get_facecolor()[:, 3], [0.2, 0.6, 1.0])
    assert (faint.hovertemplate, band.hoverinfo) == ("%{y}", "skip")
    assert (apart.marker.symbol, apart.mode, apart.cliponaxis) == ("circle-open", "markers", False)
    assert (lines[2].get_markerfacecolor(), lines[2].get_linestyle()) == ("none", "None")
    np.testing.assert_allclose(ends.y + ends.error_y.array, HIGH)
    np.testing.assert_allclose(ends.y - ends.error_y.arrayminus, LOW)
    segments = np.array([bar[:, 1] for bar in bars.containers[0].lines[2][0].get_segments()])
    np.testing.assert_allclose(segments, np.column_stack([LOW, HIGH]))


def test_surfaces_have_the_same_numbers() -> None:
    """Contours of numbers; each value by itself where they stand for words."""
    figure, (_, cells) = _both(_panel(SURFACE, HOLLOW), _panel(CELLS))
    assert [trace.type for trace in figure.data] == ["contour", "scatter", "heatmap"]
    for trace, item in zip(figure.data[::2], (SURFACE, CELLS), strict=True):
        np.testing.assert_array_equal(trace.z, item.values)
        assert trace.colorbar.title.text == item.title
    assert list(figure.data[2].colorbar.ticktext) == ["a", "b"]
    assert (figure.data[2].zmin, figure.data[2].zmax) == (0.0, 1.0)
    (mesh,) = cells.collections
    np.testing.assert_array_equal(mesh.get_array(), CELLS.values)
    assert mesh.get_clim() == (0.0, 1.0)
    *_, bar = cells.figure.axes
    assert [text.get_text() for text in bar.get_yticklabels()] == ["a", "b"]


def test_axes_of_both() -> None:
    """Titles, log scales, ends and choices as ticks; long ones are turned."""
    words = tuple(f"a choice with a long name {i}" for i in range(3))
    log = Axis("rate", log=True, limits=(0.1, 10.0))
    figure, (first, second) = _both(
        _panel(CURVE, x=Axis("choice", labels=words), title="slice"),
        _panel(CURVE, x=log, y=Axis("steps", whole=True)),
    )
    layout = figure.layout
    assert layout.title.text == first.figure.get_suptitle() == "title"
    assert layout.annotations[0].text == first.get_title() == "slice"
    for drawn, axes in ((layout.xaxis, first.get_xlabel()), (layout.xaxis2, second.get_xlabel())):
        assert drawn.title.text == axes
    assert tuple(layout.xaxis.ticktext) == words
    assert tuple(text.get_text() for text in first.get_xticklabels()) == words
    assert {text.get_rotation() for text in first.get_xticklabels()} == {30.0}
    assert layout.xaxis2.type == second.get_xscale() == "log"
    np.testing.assert_allclose(layout.xaxis2.range, np.log10(second.get_xlim()))
    assert second.get_xlim() == (0.1, 10.0)
    assert tuple(layout.yaxis.range) == first.get_ylim() == (0.0, 4.0)


def test_shared_axes_have_their_title_once() -> None:
    """The values of slices, and the trials of a stack; an empty place has no axes."""
    figure, panels = _both(*[_panel(CURVE)] * 4, layout=SLICES)
    assert [axes.get_ylabel() for axes in panels] == ["number", "", "", "number"]
    titles = [figure.layout[f"yaxis{i}"].title.text for i in ("", 2, 3, 4)]
    assert titles == ["number", None, None, "number"]
    assert len(panels[0].figure.axes) == sum(name.startswith("xaxis") for name in figure.layout)
    figure, (upper, lower) = _both(_panel(CURVE), _panel(CURVE), layout=SHARED_STACK)
    assert figure.layout.xaxis.matches == "x2"
    assert upper.get_shared_x_axes().joined(upper, lower)
    assert upper.get_title() == figure.layout.title.text == "title"


def test_legend_names_each_once() -> None:
    """In the order of the plot if it has one; what has no label is not in it."""
    halo = Line("", X, MIDDLE, hover="")
    panel = _panel(halo, CURVE, FAINT, SURFACE)
    figure, axes = _both(panel, panel, legend=("trials", "elsewhere", "middle"))
    (legend,) = axes[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["trials", "middle"]
    assert [trace.name for trace in figure.data if trace.showlegend] == ["middle", "trials"]
    assert figure.data[0].hoverinfo == "skip"


def _overlapping_labels(figure: Figure) -> list[str]:
    """Return the tick labels that lie on one another when ``figure`` is drawn."""
    figure.canvas.draw()
    found = []
    for axis in [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]:
        low, high = sorted(axis.get_view_interval())
        ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        labels = [tick.label1 for tick in ticks]
        shown = [label for label in labels if label.get_visible() and label.get_text()]
        found += [
            f"{left.get_text()} on {right.get_text()}"
            for left, right in itertools.combinations(shown, 2)
            if left.get_window_extent().overlaps(right.get_window_extent())
        ]
    return found


def test_labels_of_logarithmic_axes_do_not_overlap() -> None:
    """In one panel and in many, whatever the range: short, long, of small and of large numbers."""
    ranges = [(1e-3, 1.0), (1e2, 9e4), (16.0, 256.0), (0.2, 0.9), (1e-3, 0.0395), (1e-5, 1.0)]
    logs = [Axis("rate", log=True, limits=ends) for ends in ranges]
    every = [_panel(Line("x", axis.limits or (), (1.0, 2.0)), x=axis) for axis in logs]
    for panels in (every, *([panel] for panel in every[::4])):
        drawn = _draw_matplotlib.draw(Plot("", tuple(panels), SLICES))
        assert _overlapping_labels(drawn[0].figure) == []
        for axes in drawn:
            low, high = axes.get_xlim()
            assert sum(low <= tick <= high for tick in axes.get_xticks()) > 1


# ------------------------------------------------------------------------------ public functions

NAMES = [name for name in by_plotly.__all__ if name != "matplotlib"]


@pytest.mark.parametrize("name", NAMES)
def test_both_packages_have_the_plot(name: str) -> None:
    """With the arguments and the docstring of what it draws, and an example of its own."""
    data = import_module(f"bbo_plugins.visualization._data.{name.removeprefix('plot_')}")
    for package in (by_plotly, by_matplotlib):
        function = getattr(package, name)
        signature, plot = inspect.signature(function), inspect.signature(getattr(data, name))
        assert signature.parameters == plot.parameters
        assert function.__annotations__["return"] == signature.return_annotation
        assert function.__doc__.count(f"from {package.__name__} import {name}") == 1
        assert function.__module__ == package.__name__
    assert ".write_html(" in getattr(by_plotly, name).__doc__
    assert ".savefig(" in getattr(by_matplotlib, name).__doc__
    assert "figure." not in getattr(by_matplotlib, name).__doc__.replace(".figure.savefig(", "")


def test_figures_and_axes_are_returned() -> None:
    """The axes of one panel by themselves, those of several in an array."""
    study = modeled_study()
    assert isinstance(by_plotly.plot_posterior(study), go.Figure)
    assert isinstance(by_matplotlib.plot_posterior(study, ["x"]), Axes)
    assert isinstance(by_matplotlib.plot_lengthscales(study), Axes)
    several = by_matplotlib.plot_posterior(study)
    assert isinstance(several, np.ndarray)
    assert several.shape == (len(MIXED),)
    assert isinstance(several[0], Axes)
    for plot in (by_matplotlib.plot_regret_gap, by_matplotlib.plot_horizon):
        (empty,) = plot(optuna.create_study())  # an array as with panels
        assert isinstance(empty, Axes)


def test_rules_cross_the_panel() -> None:
    """At a value of either axis, with what is said of them."""
    figure, (axes,) = _both(_panel(CURVE, Rule(2.0, vertical=True, label="stop"), Rule(1.0)))
    stop, one = figure.layout.shapes
    assert (stop.x0, one.y0) == (2.0, 1.0)
    assert [note.text for note in figure.layout.annotations if note.text] == ["stop"]
    vertical, horizontal = axes.get_lines()[1:]
    assert (list(vertical.get_xdata()), list(horizontal.get_ydata())) == ([2.0] * 2, [1.0] * 2)


def test_long_lines_take_turns_with_their_markers() -> None:
    """A marker at some points of a line, at others of the next; lines look different."""
    n = np.arange(100.0)
    styles = [*line_styles(2)]
    lines = [Line(str(i), n, n, styles[i], marked=marked(100, i)) for i in range(2)]
    figure, (axes,) = _both(_panel(*lines), layout=STACK)
    shown = [np.flatnonzero(trace.marker.size).tolist() for trace in figure.data]
    assert [len(one) for one in shown] == [20, 20]
    assert not set(shown[0]) & set(shown[1])
    assert axes.get_lines()[0].get_markevery() == lines[0].marked
    assert figure.data[0].line.color != figure.data[1].line.color


@pytest.mark.parametrize("name", ["$x^$", "$x$"])
def test_dollars_in_names_are_no_formulas(name: str) -> None:
    """A name, a choice or a title is the user's: Matplotlib would raise, or leave out the signs."""
    cells = HeatMap(name, X, np.array([0.0, 1.0]), np.ones((2, 3)), labels=(name, "b"))
    axis = Axis(name, labels=(name, "b"))
    panel = _panel(cells, Line(name, [0, 1], [0, 1]), x=axis, y=axis, title=name)
    for layout in (PAIRS, STACK):
        (axes,) = _draw_matplotlib.draw(Plot(name, (panel,), layout))
        axes.legend()
        axes.figure.canvas.draw()
        texts = [text.get_text() for text in axes.figure.findobj(Text)]
        shown = [text for text in texts if "x" in text]
        assert len(shown) >= 6  # titles, both axes and their ticks, the legends
        assert set(shown) == {name.replace("$", r"\$")}
    (axes,) = _draw_matplotlib.draw(Plot(name))
    axes.figure.canvas.draw()


def test_nothing_to_show() -> None:
    """A figure with the title, as Optuna's plots have it."""
    figure, (axes,) = _both()
    assert (figure.layout.title.text, axes.get_title()) == ("title", "title")
    assert not figure.data
    assert not axes.lines


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # by matplotlib's limits
@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_penalties_as_large_as_a_float_can_be_are_no_error(
    share: float, sign: float, tmp_path: Path
) -> None:
    """Neither their differences nor the ticks of their axes are infinite."""

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        return sign * (sys.float_info.max if x < share else x * x)

    study = optuna.create_study(
        direction="minimize" if sign > 0.0 else "maximize",
        sampler=BBOSampler(n_startup_trials=4, seed=0),
    )
    study.optimize(objective, 12, callbacks=[RegretGapTerminator(min_n_trials=2, patience=100)])
    assert sum(abs(trial.value or 0.0) > 1.0 for trial in study.trials) > 1
    for draw in (by_matplotlib.plot_posterior, by_matplotlib.plot_regret_gap):
        drawn: Any = draw(study)
        axes = np.ravel(drawn)
        for one in axes:
            low, high = one.get_ylim()
            assert math.isfinite(high - low)
        axes[0].figure.savefig(tmp_path / "plot.png")
    plt.close("all")
