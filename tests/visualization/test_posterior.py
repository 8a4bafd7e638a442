"""The plot of the posterior: its numbers, its axes, and the same in both plotting packages."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from matplotlib.axes import Axes
from optuna.distributions import FloatDistribution

import bbo_plugins.visualization as ours
from bbo_plugins.visualization import matplotlib
from bbo_plugins.visualization._data.objective import posterior_of
from bbo_plugins.visualization._data.posterior import PosteriorInfo, Slice, posterior_info
from bbo_plugins.visualization._style import FAINTEST
from tests.visualization.studies import MIXED, copied, modeled_study

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

PLOTS: list[Any] = [ours.plot_posterior, matplotlib.plot_posterior]


def _info(
    study: Study, params: Sequence[str] | None = None, *, at: int | None = None, n_points: int = 20
) -> PosteriorInfo:
    info = posterior_info(study, params, at=at, n_points=n_points)
    assert info is not None
    return info


def _slice_of(name: str, **options: Any) -> Slice:
    (found,) = _info(modeled_study(), [name], **options).slices
    return found


def _study(
    distributions: dict[str, BaseDistribution],
    rows: Sequence[dict[str, Any]],
    values: Sequence[float],
) -> Study:
    """Return a study of given trials, which no model suggested."""
    study = optuna.create_study()
    for params, value in zip(rows, values, strict=True):
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions=distributions, value=value)
        )
    return study


@pytest.mark.parametrize("name", MIXED)
def test_slices_are_the_models_quantiles(name: str) -> None:
    """At each x, the quantiles of the posterior with all other parameters as in the best trial."""
    study = modeled_study()
    posterior = posterior_of(study)
    assert posterior is not None
    drawn = _slice_of(name)
    if name == "choice":
        assert drawn.labels == ("a", "None", "True")
        values: list[Any] = ["a", None, True]
    else:
        values = drawn.x.tolist()
    points = posterior.space.encode([{**study.best_params, name: value} for value in values])
    expected = posterior.quantiles(points)
    np.testing.assert_allclose([drawn.low, drawn.median, drawn.high], expected, rtol=1e-6)
    assert (drawn.low < drawn.median).all()
    assert (drawn.median < drawn.high).all()


def test_what_is_drawn_for_each_kind() -> None:
    """Every choice and every one of a few numbers; else a curve over the whole range."""
    kinds = {name: _slice_of(name) for name in MIXED}
    assert {name: drawn.kind for name, drawn in kinds.items()} == {
        "choice": "choices",
        "layers": "bars",
        "lr": "curve",
        "units": "curve",
        "x": "curve",
    }
    assert {name for name, drawn in kinds.items() if drawn.log} == {"lr", "units"}
    assert kinds["choice"].x.tolist() == [0, 1, 2]
    assert kinds["layers"].x.tolist() == [1, 2, 3, 4, 5, 6]
    for name, low, high in (("lr", 1e-5, 1.0), ("units", 4, 512), ("x", -1.0, 1.0)):
        x = kinds[name].x
        assert x[0] == pytest.approx(low)
        assert x[-1] == pytest.approx(high)
        assert (np.diff(x) > 0.0).all()
    assert (kinds["units"].x % 1.0 == 0.0).all()


def test_trials_are_where_they_were() -> None:
    """Values and parameters of the trials are those stored, choices by their place in the list."""
    study = modeled_study()
    for name in MIXED:
        info = _info(study, [name])
        assert info.values.tolist() == [trial.value for trial in study.trials]
        assert info.numbers.tolist() == [trial.number for trial in study.trials]
        place = {"a": 0, None: 1, True: 2}
        x = [trial.params[name] for trial in study.trials]
        assert info.slices[0].trials_x.tolist() == (
            [place[v] for v in x] if name == "choice" else x
        )
        assert info.numbers[info.reference] == study.best_trial.number


def test_maximizing_the_negative_turns_the_picture_over() -> None:
    """Medians, intervals and the value axis of the mirrored study are mirrored."""
    down = _info(copied(modeled_study()))
    up = _info(copied(modeled_study(), negated=True))
    assert up.reference == down.reference
    for ours_up, ours_down in zip(up.slices, down.slices, strict=True):
        np.testing.assert_allclose(ours_up.median, -ours_down.median, rtol=1e-8)
        np.testing.assert_allclose(ours_up.low, -ours_down.high, rtol=1e-8)
        np.testing.assert_allclose(ours_up.high, -ours_down.low, rtol=1e-8)
    np.testing.assert_allclose(up.value_range, [-end for end in reversed(down.value_range)])


def test_through_another_trial() -> None:
    """The slices go through the trial that is asked for, and the title says so."""
    study = modeled_study()
    number = (study.best_trial.number + 1) % len(study.trials)
    info = _info(study, ["x"], at=number)
    assert info.numbers[info.reference] == number
    assert f"trial {number} " in info.title
    assert "best" not in info.title
    assert "(the best, " in _info(study).title
    assert info.slices[0].closeness[info.reference] == 1.0
    assert number not in info.numbers[info.others]


def _of_plotly(figure: Any, panel: int) -> list[Any]:
    axis = "x" if panel == 0 else f"x{panel + 1}"
    return [trace for trace in figure.data if trace.xaxis in {axis, None}]


def test_both_draw_the_same_numbers() -> None:
    """Band, median, bars, trials and reference of each panel agree between the packages."""
    study = modeled_study()
    info = _info(study)
    figure = ours.plot_posterior(study, n_points=20)
    panels = matplotlib.plot_posterior(study, n_points=20)
    assert isinstance(panels, np.ndarray)
    assert panels.shape == (len(MIXED),)
    for index, (drawn, axes) in enumerate(zip(info.slices, panels, strict=True)):
        *posterior, trials, reference = _of_plotly(figure, index)
        median = posterior[-1]
        np.testing.assert_array_equal(median.x, drawn.x)
        np.testing.assert_array_equal(median.y, drawn.median)
        np.testing.assert_array_equal(axes.get_lines()[0].get_xdata(), drawn.x)
        np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), drawn.median)
        if drawn.kind == "curve":
            band = np.column_stack([posterior[0].x, posterior[0].y])
            shape = axes.collections[0].get_paths()[0].vertices
            for low_or_high in (drawn.low, drawn.high):
                for point in zip(drawn.x, low_or_high, strict=True):
                    assert (band == point).all(axis=1).any()
                    assert (shape == point).all(axis=1).any()
        else:
            np.testing.assert_allclose(median.y + median.error_y.array, drawn.high)
            np.testing.assert_allclose(median.y - median.error_y.arrayminus, drawn.low)
            (bars,) = axes.containers[0].lines[2]
            ends = np.array([bar[:, 1] for bar in bars.get_segments()])
            np.testing.assert_allclose(ends, np.column_stack([drawn.low, drawn.high]))
        others = info.others
        points = np.column_stack([drawn.trials_x, info.values])
        np.testing.assert_array_equal(np.column_stack([trials.x, trials.y]), points[others])
        scattered = next(c for c in axes.collections if len(c.get_offsets()) == len(others))
        np.testing.assert_array_equal(scattered.get_offsets(), points[others])
        faded = FAINTEST + (1.0 - FAINTEST) * drawn.closeness[others]
        np.testing.assert_allclose(trials.marker.opacity, faded)
        np.testing.assert_allclose(scattered.get_facecolor()[:, 3], faded)
        star = axes.get_lines()[-1]
        np.testing.assert_array_equal([[*reference.x, *reference.y]], points[[info.reference]])
        np.testing.assert_array_equal(star.get_xydata(), points[[info.reference]])


def test_axes_of_both() -> None:
    """Names, log scales, choices as ticks, and one and the same value axis."""
    study = modeled_study()
    info = _info(study)
    layout = ours.plot_posterior(study).layout
    panels: Any = matplotlib.plot_posterior(study)
    assert layout.title.text == panels[0].figure.get_suptitle() == info.title
    n_axes = [sum(name.startswith("xaxis") for name in layout), len(panels[0].figure.axes)]
    assert n_axes == [len(MIXED)] * 2  # the place of a sixth panel is left empty
    for index, (name, axes) in enumerate(zip(sorted(MIXED), panels, strict=True)):
        number = "" if index == 0 else str(index + 1)
        x_axis, y_axis = layout[f"xaxis{number}"], layout[f"yaxis{number}"]
        assert x_axis.title.text == axes.get_xlabel() == name
        is_log = name in {"lr", "units"}
        assert (x_axis.type == "log") == (axes.get_xscale() == "log") == is_log
        np.testing.assert_allclose(y_axis.range, info.value_range)
        np.testing.assert_allclose(axes.get_ylim(), info.value_range)
        assert axes.get_ylabel() == ("Objective value" if index % 3 == 0 else "")
    ticks = [label.get_text() for label in panels[0].get_xticklabels()]
    assert ticks == list(layout.xaxis.ticktext) == ["a", "None", "True"]


def _overlapping_labels(figure: Figure) -> list[str]:
    """Return the tick labels that lie on one another when ``figure`` is drawn."""
    figure.canvas.draw()
    found = []
    for axis in [axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]:
        low, high = sorted(axis.get_view_interval())
        shown = [
            label
            for tick in axis.get_major_ticks()
            if low <= tick.get_loc() <= high
            and (label := tick.label1).get_visible()
            and label.get_text()
        ]
        boxes = [label.get_window_extent() for label in shown]
        found += [
            f"{left.get_text()} on {right.get_text()}"
            for (i, left), (j, right) in itertools.combinations(enumerate(shown), 2)
            if boxes[i].overlaps(boxes[j])
        ]
    return found


def test_labels_of_logarithmic_axes_do_not_overlap() -> None:
    """In one panel and in many, whatever the range: short, long, of small and of large numbers."""
    ranges = [(1e-3, 1.0), (1e2, 9e4), (16.0, 256.0), (0.2, 0.9), (2.1, 4.9), (1e-5, 1.0)]
    logs = {f"x{i}": FloatDistribution(*ends, log=True) for i, ends in enumerate(ranges)}
    rows = [{name: one.low if row else one.high for name, one in logs.items()} for row in range(3)]
    study = _study(dict(logs), rows, [3.0, 1.0, 2.0])
    for params in (None, *([name] for name in logs)):
        panels = np.ravel(np.array(matplotlib.plot_posterior(study, params), dtype=object))
        assert _overlapping_labels(panels[0].figure) == []
        for axes in panels:
            low, high = axes.get_xlim()
            shown = [tick for tick in axes.get_xticks() if low <= tick <= high]
            assert len(shown) > 1, axes.get_xlabel()


def _unit(n: int) -> dict[str, BaseDistribution]:
    return {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(n)}


def test_at_most_nine_panels_unless_asked() -> None:
    """Of more parameters those with the largest effects; the title says how many."""
    rng = np.random.default_rng(0)
    names = _unit(11)
    rows = [dict(zip(names, row, strict=True)) for row in rng.random((30, 11)).tolist()]
    values = [float(np.sin(5.0 * row["x7"]) + row["x10"] ** 2) for row in rows]
    study = _study(names, rows, values)
    info = _info(study)
    everything = _info(study, list(names))
    effects = {drawn.name: np.ptp(drawn.median) for drawn in everything.slices}
    left_out = effects.keys() - {drawn.name for drawn in info.slices}
    assert left_out == set(sorted(effects, key=lambda name: effects[name])[:2])
    assert [drawn.name for drawn in info.slices] == sorted(effects.keys() - left_out)
    assert not left_out & {"x7", "x10"}
    assert "9 of 11 parameters" in info.title
    assert len(everything.slices) == 11
    assert "of 11" not in everything.title + _info(study, ["x0"]).title


@pytest.mark.parametrize("negated", [False, True])
def test_outliers_do_not_flatten_the_rest(negated: bool) -> None:
    """The value axis keeps the good values apart; what it leaves out is counted in the legend."""
    rows = [{"x0": x} for x in np.linspace(0.0, 1.0, 12).tolist()]
    values = [(row["x0"] - 0.4) ** 2 for row in rows]
    values[-2:] = [1e6, 1e30]
    study = copied(_study(_unit(1), rows, values), negated=negated)
    info = _info(study)
    low, high = sorted(-end if negated else end for end in info.value_range)
    assert low < min(values)
    assert max(values[:-2]) < high < 10.0
    assert info.trials_label.endswith("(2 beyond the axis)")
    figure = ours.plot_posterior(study, n_points=20)
    axes = matplotlib.plot_posterior(study, n_points=20)
    assert isinstance(axes, Axes)
    np.testing.assert_allclose(figure.layout.yaxis.range, info.value_range)
    np.testing.assert_allclose(axes.get_ylim(), info.value_range)
    assert info.trials_label in [trace.name for trace in figure.data]
    assert info.trials_label in axes.get_legend_handles_labels()[1]


@pytest.mark.parametrize("plot", PLOTS)
def test_a_single_trial(plot: Any) -> None:
    """A study's first result can be looked at already."""
    figure = plot(_study(_unit(2), [{"x0": 0.5, "x1": 0.2}], [3.0]))
    assert figure is not None


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"params": ["y"]}, ValueError, "params must be .*complete trials share.*'lr'.*got .'y'."),
        ({"params": ["x", "y"]}, ValueError, "params must be None or names"),
        ({"params": []}, ValueError, "params must be None or names"),
        ({"params": "x"}, TypeError, "params must be a sequence of names or None, but got 'x'"),
        ({"at": 99}, ValueError, "at must be None or the number of a complete trial.*got 99"),
        ({"at": 1.0}, TypeError, "at must be an integer"),
        ({"n_points": 1}, ValueError, "n_points must be an integer of at least 2, but got 1"),
        ({"n_points": None}, TypeError, "n_points must be an integer"),
    ],
)
@pytest.mark.parametrize("plot", PLOTS)
def test_arguments_are_checked(
    plot: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The message names argument, rule and value."""
    with pytest.raises(error, match=message):
        plot(modeled_study(), **options)


@pytest.mark.parametrize("plot", PLOTS)
def test_several_objectives_are_refused(plot: Any) -> None:
    """There is no single posterior to draw."""
    with pytest.raises(ValueError, match="study must have one objective, but got 2"):
        plot(optuna.create_study(directions=["minimize", "maximize"]))
