"""The plot of length-scales shows what is stored, the same in both plotting packages."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest

import bbo_plugins.visualization as ours
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.optuna import GOUCBSampler
from bbo_plugins.optuna.study.proposal import Proposal
from bbo_plugins.visualization import matplotlib
from bbo_plugins.visualization._data.objective import suggestions_of
from tests.visualization.studies import MIXED, N_STARTUP, N_TRIALS, modeled_study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from optuna.study import Study

LABELS = {
    "choice": "choice (categorical)",
    "layers": "layers",
    "lr": "lr (log scale)",
    "units": "units (log scale)",
    "x": "x",
}


def _by_label(axes: Axes) -> dict[str, Any]:
    return {str(line.get_label()): line for line in axes.get_lines()}


def test_both_show_what_is_stored() -> None:
    """One line per parameter over the trials with an estimate, with the values of the storage."""
    study = modeled_study()
    traces = {trace.name: trace for trace in ours.plot_lengthscales(study).data}
    lines = _by_label(matplotlib.plot_lengthscales(study))
    assert set(traces) == set(LABELS.values()) <= set(lines)
    stored = [record for record in suggestions_of(study) if record.length_scales]
    for name in MIXED:
        trace, line = traces[LABELS[name]], lines[LABELS[name]]
        assert list(trace.x) == list(line.get_xdata()) == list(range(N_STARTUP, N_TRIALS))
        expected = [record.length_scales[name] for record in stored]
        assert list(trace.y) == list(line.get_ydata()) == expected


def test_axes() -> None:
    """Length-scales on a log axis that says its unit; trials from 0 on, so start-up is blank."""
    study = modeled_study()
    layout = ours.plot_lengthscales(study).layout
    axes = matplotlib.plot_lengthscales(study)
    assert layout.yaxis.type == axes.get_yscale() == "log"
    assert layout.title.text == axes.get_title()
    assert layout.xaxis.title.text == axes.get_xlabel() == "Trial"
    assert layout.yaxis.title.text == axes.get_ylabel()
    assert "1 = the parameter's whole range" in axes.get_ylabel()
    np.testing.assert_allclose(layout.xaxis.range, axes.get_xlim())
    np.testing.assert_allclose(layout.yaxis.range, np.log10(axes.get_ylim()))
    assert axes.get_xlim()[0] < 0.0
    assert axes.get_xlim()[1] > N_TRIALS - 1
    low, high = axes.get_ylim()
    shown = [scale for record in suggestions_of(study) for scale in record.length_scales.values()]
    assert low < min(*shown, 1.0) < max(*shown, 1.0) < high


RANDOM_LABEL, MODEL_LABEL = "bandit: suggested at random", "bandit: left to the model"


def _bandit_study(*arms: str | None) -> Study:
    """Return a study with an estimate for each trial but those of the random arm."""
    study = optuna.create_study()
    for number, arm in enumerate(arms):
        proposal = replace(_suggested("Usual", -0.3 * number), arm=arm)
        if arm == "random":
            proposal = replace(proposal, fits=(), loss=None)
        attributes = proposal.to_attributes()
        study.add_trial(optuna.trial.create_trial(value=1.0, system_attrs=attributes))
    return study


def test_random_arm_is_marked() -> None:
    """Trials that a bandit suggested at random get a mark at the bottom, below all lines."""
    study = _bandit_study(None, None, "random", "random", None, None)
    figure, axes = ours.plot_lengthscales(study), matplotlib.plot_lengthscales(study)
    rug, mark = figure.data[-1], _by_label(axes)[RANDOM_LABEL]
    assert rug.name == RANDOM_LABEL
    assert list(rug.x) == list(mark.get_xdata()) == [2, 3]
    assert list(rug.y) == list(mark.get_ydata()) == [0.02, 0.02]  # of the height of the axes
    assert rug.yaxis == "y2"
    assert mark.get_transform() == axes.get_xaxis_transform()
    low, high = np.log10(axes.get_ylim())
    shortest = min(scale for r in suggestions_of(study) for scale in r.length_scales.values())
    assert (np.log10(shortest) - low) / (high - low) > 0.05
    without = _bandit_study(None, None)
    assert len(ours.plot_lengthscales(without).data) == 1
    assert RANDOM_LABEL not in _by_label(matplotlib.plot_lengthscales(without))


def test_the_arms_have_different_marks() -> None:
    """Trials that a bandit left to the model have a mark of their own."""
    study = _bandit_study("model", "random", "random", "model")
    random, model = ours.plot_lengthscales(study).data[-2:]
    marks = _by_label(matplotlib.plot_lengthscales(study))
    assert (random.name, model.name) == (RANDOM_LABEL, MODEL_LABEL)
    assert list(model.x) == list(marks[MODEL_LABEL].get_xdata()) == [0, 3]
    assert random.marker.symbol != model.marker.symbol
    assert marks[RANDOM_LABEL].get_marker() != marks[MODEL_LABEL].get_marker()


def _suggested(loss: str, log_scale: float) -> Proposal:
    fit = WarmStart(np.array([log_scale, 0.0, 0.0]), np.eye(3), -1.0, 5).to_json()
    return Proposal({"x": 0.5}, (fit,), loss=loss)


def test_other_losses_are_hollow() -> None:
    """The line follows the more frequent loss; the others' estimates are points, named once."""
    study = optuna.create_study()
    for loss, log_scale in (("Usual", 0.0), ("LeaveOneOut", 2.0), ("Usual", 0.5), ("Usual", 0.25)):
        attributes = _suggested(loss, log_scale).to_attributes()
        study.add_trial(optuna.trial.create_trial(value=1.0, system_attrs=attributes))
    label = "hollow: by leave one out"
    line, hollow, name = ours.plot_lengthscales(study).data
    assert [list(line.x), list(hollow.x), list(name.x)] == [[0, 2, 3], [1], [None]]
    np.testing.assert_allclose([*line.y, *hollow.y], np.exp([0.0, 0.5, 0.25, 2.0]))
    assert hollow.marker.symbol == f"{line.marker.symbol}-open"
    assert hollow.mode == "markers"
    assert hollow.legendgroup == line.legendgroup
    assert [trace.showlegend for trace in (hollow, name)] == [False, True]
    assert name.name == label
    axes = matplotlib.plot_lengthscales(study)
    drawn: list[Any] = axes.get_lines()
    line, hollow = drawn[1:3]
    np.testing.assert_allclose(line.get_xydata(), [[0, 1], [2, np.exp(0.5)], [3, np.exp(0.25)]])
    np.testing.assert_allclose(hollow.get_xydata(), [[1, np.exp(2.0)]])
    assert hollow.get_linestyle() == "None"
    assert hollow.get_markerfacecolor() == "none"
    assert hollow.get_markeredgecolor() == line.get_color()
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["x", label]
    assert axes.get_ylim()[1] > np.exp(2.0)


@pytest.mark.parametrize("n_trials", [2, 6])
def test_a_network_has_something_else(n_trials: int, caplog: pytest.LogCaptureFixture) -> None:
    """The warning of a GO-UCB study, in start-up and after it, names the plot of its network."""
    sampler = GOUCBSampler(n_startup_trials=3, hidden_units=3, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=n_trials)
    if n_trials > 3:  # whoever looks at it later
        study.sampler = optuna.samplers.RandomSampler()
    for plot in (ours.plot_lengthscales, matplotlib.plot_lengthscales):
        caplog.clear()
        plot(study)
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "GOUCBSampler is a network, which has none. plot_posterior(" in record.getMessage()


def test_what_is_no_study_is_refused() -> None:
    """Both name the argument."""
    no_study: Any = 3
    for plot in (ours.plot_lengthscales, matplotlib.plot_lengthscales):
        with pytest.raises(TypeError, match="study must be an Optuna study, but got 3"):
            plot(no_study)


def test_no_estimates(caplog: pytest.LogCaptureFixture) -> None:
    """As Optuna's plots do: a warning in the log, and a figure without data."""
    for plot in (ours.plot_lengthscales, matplotlib.plot_lengthscales):
        caplog.clear()
        figure: Any = plot(optuna.create_study())
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert "no stored estimates" in record.getMessage()
        drawn = figure.data if plot is ours.plot_lengthscales else figure.get_lines()
        assert len(drawn) == 0
