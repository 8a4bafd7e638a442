"""The plot of the posterior: its numbers, its axes, and the same in both plotting packages."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from bbo_plugins.optuna.study.parameters import dimension_of
from bbo_plugins.visualization._data.axes import ParameterAxis
from bbo_plugins.visualization._data.axes import labels as labels_of
from bbo_plugins.visualization._data.objective import posterior_of
from bbo_plugins.visualization._data.posterior import plot_posterior
from bbo_plugins.visualization._style import FAINTEST
from tests.visualization.parts import labels, part
from tests.visualization.studies import MIXED, copied, modeled_study, sampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.visualization._data.panels import Panel, Plot

MEDIAN, INTERVAL = "posterior median", "95% interval"
BARS = f"{MEDIAN} and {INTERVAL}"


@dataclass(frozen=True)
class _Drawn:
    """What a panel shows of the posterior and of the trials."""

    panel: Panel

    @property
    def is_curve(self) -> bool:
        return MEDIAN in labels(self.panel)

    @property
    def x(self) -> Any:
        return part(self.panel, MEDIAN if self.is_curve else BARS).x

    @property
    def median(self) -> Any:
        return part(self.panel, MEDIAN if self.is_curve else BARS).y

    @property
    def interval(self) -> tuple[Any, Any]:
        if not self.is_curve:
            ends: tuple[Any, Any] = part(self.panel, BARS).interval
            return ends
        band = part(self.panel, INTERVAL)
        return band.low, band.high

    @property
    def trials(self) -> Any:
        return part(self.panel, labels(self.panel)[-2])

    @property
    def reference(self) -> Any:
        return part(self.panel, labels(self.panel)[-1])

    @property
    def limits(self) -> tuple[float, float]:
        assert self.panel.y.limits is not None
        return self.panel.y.limits


def _plot(
    study: Study, params: Sequence[str] | None = None, *, at: int | None = None, n_points: int = 20
) -> Plot:
    return plot_posterior(study, params, at=at, n_points=n_points)


def _slice_of(name: str, **options: Any) -> _Drawn:
    (panel,) = _plot(modeled_study(), [name], **options).panels
    return _Drawn(panel)


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
        assert drawn.panel.x.labels == ("a", "None", "True")
        values: list[Any] = ["a", None, True]
    else:
        values = drawn.x.tolist()
    points = posterior.space.encode([{**study.best_params, name: value} for value in values])
    expected = posterior.quantiles(points)
    low, high = drawn.interval
    np.testing.assert_allclose([low, drawn.median, high], expected, rtol=1e-6)
    assert (low < drawn.median).all()
    assert (drawn.median < high).all()


def test_what_is_drawn_for_each_kind() -> None:
    """Every choice and every one of a few numbers; else a curve over the whole range."""
    kinds = {name: _slice_of(name) for name in MIXED}
    assert {name for name, drawn in kinds.items() if drawn.is_curve} == {"lr", "units", "x"}
    assert {name for name, drawn in kinds.items() if drawn.panel.x.log} == {"lr", "units"}
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
    place = {"a": 0, None: 1, True: 2}
    for name in MIXED:
        drawn = _slice_of(name)
        best = study.best_trial
        others = [trial for trial in study.trials if trial.number != best.number]
        rows = [trial.params[name] for trial in others]
        assert drawn.trials.x.tolist() == ([place[v] for v in rows] if name == "choice" else rows)
        assert drawn.trials.y.tolist() == [trial.value for trial in others]
        assert drawn.trials.custom.tolist() == [trial.number for trial in others]
        assert drawn.reference.label == f"trial {best.number}"
        assert drawn.reference.y.tolist() == [best.value]
        assert FAINTEST <= drawn.trials.opacity.min() < drawn.trials.opacity.max() <= 1.0


def test_maximizing_the_negative_turns_the_picture_over() -> None:
    """Medians, intervals and the value axis of the mirrored study are mirrored."""
    down, up = _plot(copied(modeled_study())), _plot(copied(modeled_study(), negated=True))
    for up_panel, down_panel in zip(up.panels, down.panels, strict=True):
        above, below = _Drawn(up_panel), _Drawn(down_panel)
        assert above.reference.label == below.reference.label
        np.testing.assert_allclose(above.median, -below.median, rtol=1e-8)
        np.testing.assert_allclose(above.interval[0], -below.interval[1], rtol=1e-8)
        np.testing.assert_allclose(above.interval[1], -below.interval[0], rtol=1e-8)
        mirrored = [-end for end in reversed(below.limits)]
        np.testing.assert_allclose(above.limits, mirrored)


def test_the_best_in_the_latest_ranges_is_called_that() -> None:
    """The study's best trial has no place in them, and no slice can go through it."""
    study = optuna.create_study()
    for low, high, values in ((0.0, 1.0, (0.1, 0.3, 0.9)), (0.5, 2.0, (0.6, 1.2, 1.9))):
        for x in values:
            space: dict[str, BaseDistribution] = {"x": FloatDistribution(low, high)}
            value = (x - 0.3) ** 2
            study.add_trial(
                optuna.trial.create_trial(params={"x": x}, distributions=space, value=value)
            )
    assert study.best_trial.number == 1
    assert "trial 3 (the best in the latest ranges, 0.09)" in _plot(study).title


def test_through_another_trial() -> None:
    """The slices go through the trial that is asked for, and the title says so."""
    study = modeled_study()
    number = (study.best_trial.number + 1) % len(study.trials)
    plot = _plot(study, ["x"], at=number)
    drawn = _Drawn(plot.panels[0])
    assert drawn.reference.label == f"trial {number}"
    assert f"trial {number} " in plot.title
    assert "best" not in plot.title
    assert "(the best, " in _plot(study).title
    assert drawn.reference.x.tolist() == [study.trials[number].params["x"]]
    assert number not in drawn.trials.custom
    for other in (0, 5, 11):
        assert len(_plot(_branches(), at=other).panels) == 5


def _unit(n: int) -> dict[str, BaseDistribution]:
    return {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(n)}


def test_at_most_nine_panels_unless_asked() -> None:
    """Of more parameters those with the largest effects; the title says how many."""
    rng = np.random.default_rng(0)
    names = _unit(11)
    rows = [dict(zip(names, row, strict=True)) for row in rng.random((30, 11)).tolist()]
    values = [float(np.sin(5.0 * row["x7"]) + row["x10"] ** 2) for row in rows]
    study = _study(names, rows, values)
    plot, everything = _plot(study), _plot(study, list(names))
    effects = {panel.x.title: np.ptp(_Drawn(panel).median) for panel in everything.panels}
    left_out = effects.keys() - {panel.x.title for panel in plot.panels}
    assert left_out == set(sorted(effects, key=lambda name: effects[name])[:2])
    assert [panel.x.title for panel in plot.panels] == sorted(effects.keys() - left_out)
    assert not left_out & {"x7", "x10"}
    assert "9 of 11 parameters" in plot.title
    assert len(everything.panels) == 11
    assert "of 11" not in everything.title + _plot(study, ["x0"]).title


@pytest.mark.parametrize("negated", [False, True])
def test_outliers_do_not_flatten_the_rest(negated: bool) -> None:
    """The value axis keeps the good values apart; what it leaves out is counted in the legend."""
    rows = [{"x0": x} for x in np.linspace(0.0, 1.0, 12).tolist()]
    values = [(row["x0"] - 0.4) ** 2 for row in rows]
    values[-2:] = [1e6, 1e30]
    study = copied(_study(_unit(1), rows, values), negated=negated)
    (panel,) = _plot(study).panels
    limits = _Drawn(panel).limits
    low, high = sorted(-end if negated else end for end in limits)
    assert low < min(values)
    assert max(values[:-2]) < high < 10.0
    assert _Drawn(panel).trials.label.endswith("(2 beyond the axis)")


@pytest.mark.parametrize("n_far, n_close", [(13, 17), (4, 8), (6, 3)])
@pytest.mark.parametrize("negated", [False, True])
def test_a_converged_search_hides_few_trials(negated: bool, n_far: int, n_close: int) -> None:
    """Most values are the same, so others are no outliers for being far from them."""
    rng = np.random.default_rng(0)
    close = (0.4 + 1e-6 * rng.random(n_close)).tolist()
    rows = [{"x0": x} for x in [*rng.random(n_far).tolist(), *close]]
    values = [abs(row["x0"] - 0.4) for row in rows]
    values[3] = 1e9
    plot = _plot(copied(_study(_unit(1), rows, values), negated=negated))
    (panel,) = plot.panels
    low, high = sorted(-end if negated else end for end in _Drawn(panel).limits)
    shown = np.array([low < value < high for value in values])
    assert shown.mean() >= 0.8
    assert not shown[3]


def test_the_trial_of_the_slice_is_within_the_axis() -> None:
    """Even one that is far worse than all others, if it is asked for."""
    rows = [{"x0": x} for x in np.linspace(0.0, 1.0, 12).tolist()]
    values = [(row["x0"] - 0.4) ** 2 for row in rows]
    values[5] = 50.0
    study = _study(_unit(1), rows, values)
    (there,), (elsewhere,) = _plot(study, at=5).panels, _plot(study).panels
    assert _Drawn(elsewhere).limits[1] < 50.0 < _Drawn(there).limits[1]


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"params": ["y"]}, ValueError, "params must be .*complete trials have.*'lr'.*got .'y'."),
        ({"params": []}, ValueError, "params must be None or names"),
        ({"params": "x"}, TypeError, "params must be a sequence of names or None, but got 'x'"),
        ({"params": 5}, TypeError, "params must be a sequence of names or None, but got 5"),
        ({"params": [["x"]]}, TypeError, "params must be a sequence of names or None, but got"),
        ({"at": 99}, ValueError, "at must be None or the number of a complete trial.*got 99"),
        ({"n_points": 1}, ValueError, "n_points must be an integer of at least 2, but got 1"),
    ],
)
def test_arguments_are_checked(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The message names argument, rule and value."""
    with pytest.raises(error, match=message):
        plot_posterior(modeled_study(), **options)


# ------------------------------------------------------------------------ conditional spaces


@functools.cache
def _branches() -> Study:
    """Return a study in which three parameters exist for one value of others; not to be changed."""
    study = optuna.create_study(sampler=sampler())

    def objective(trial: optuna.Trial) -> float:
        if trial.suggest_categorical("k", ["a", "b"]) == "a":
            x = trial.suggest_float("ax", 0.0, 1.0)
            return 0.5 + (x - 0.2) ** 2 + (trial.suggest_float("ay", 0.0, 1.0) - 0.5) ** 2
        m = trial.suggest_float("bm", 0.0, 1.0)
        return (m - 0.7) ** 2 + (0.1 if m < 0.5 else (trial.suggest_int("deep", 1, 9) - 4) ** 2)

    study.optimize(objective, n_trials=24)
    return study


def _best_with_a(study: Study) -> optuna.trial.FrozenTrial:
    values = [(trial.values[0], trial) for trial in study.trials if trial.params["k"] == "a"]
    return min(values, key=lambda pair: pair[0])[1]


def test_conditional_parameters_are_drawn_where_they_exist() -> None:
    """Through the best trial that has them, with the trials that have them, and the branch."""
    study = _branches()
    assert study.best_params["k"] == "b"
    best_a = _best_with_a(study)
    posterior = posterior_of(study)
    assert posterior is not None
    plot = _plot(study)
    assert [panel.x.title for panel in plot.panels] == ["ax", "ay", "bm", "deep", "k"]
    for name, panel in zip(posterior.space.names, plot.panels, strict=True):
        drawn = _Drawn(panel)
        having = [trial for trial in study.trials if name in trial.params]
        assert len(drawn.trials.x) == len(having) - 1
        through = best_a if name in {"ax", "ay"} else study.best_trial
        assert drawn.reference.y == [through.value]
        expected = {"ax": "k = a", "ay": "k = a", "bm": "k = b", "deep": "k = b, bm = ", "k": ""}
        assert panel.title.startswith(expected[name])
        assert (f"through trial {best_a.number}" in panel.title) is (name in {"ax", "ay"})
        # The curve is the model's, at points where the parameter exists.
        if name in {"ax", "bm"}:
            x = posterior.X[posterior.numbers.index(through.number)]
            column = posterior.space.names.index(name)
            X = posterior.slice_at(x, column, np.linspace(0.0, 1.0, 5))
            assert posterior.space.active(X)[:, column].all()
            np.testing.assert_array_equal(X, posterior.space.snap(X))


def test_nothing_to_model(caplog: pytest.LogCaptureFixture) -> None:
    """As Optuna's plots do: a warning in the log, and a figure without data."""
    assert not _plot(optuna.create_study()).panels
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "no posterior to plot" in record.getMessage()


def test_choices_with_equal_or_long_texts() -> None:
    """Equal texts are told apart, and long ones are shortened so that they stay distinct."""
    assert labels_of([1, "1", None]) == ("1", "'1'", "None")
    assert labels_of(["a choice with a long name"]) == ("a choice with a…",)
    long = [f"a choice with a long name {i}" for i in range(2)]
    assert labels_of(long) == ("…h a long name 0", "…h a long name 1")
    both_ends = [f"/models/of/the/company/{i}/checkpoints/latest" for i in range(2)]
    assert labels_of(both_ends) == ("1 …points/latest", "2 …points/latest")


def test_few_values_have_half_a_place_at_either_end() -> None:
    """As have choices; a logarithmic axis has half a unit."""
    for log, expected in ((False, (5.0, 35.0)), (True, (9.5, 30.5))):
        dimension = dimension_of(IntDistribution(10, 30, step=1 if log else 10, log=log))
        assert dimension.n_levels is not None
        positions = dimension.position_of(np.arange(dimension.n_levels))
        axis = ParameterAxis("n", dimension, positions)
        assert axis.is_discrete
        assert axis.limits == expected
