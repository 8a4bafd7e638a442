"""The plot of a stopping criterion shows what is stored, the same in both plotting packages."""

from __future__ import annotations

import functools
import itertools
import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest

import bbo_plugins.visualization as ours
from bbo_plugins.methods.regret_gap import algorithm as stopping
from bbo_plugins.methods.regret_gap.rule import StoppingRecord
from bbo_plugins.optuna import RegretGapTerminator
from bbo_plugins.optuna.stopping.records import StoredRecord, store_record, store_settings
from bbo_plugins.visualization import matplotlib
from bbo_plugins.visualization._data.regret_gap import regret_gap_plot
from tests.visualization.parts import labels, part, xy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from optuna.study import Study

N_TRIALS = 26
TERMS = {
    "change of the incumbent's mean": "mean_change",
    "change of the incumbent": "incumbent_change",
    "information gained": "information",
}


def _terminator() -> RegretGapTerminator:
    return RegretGapTerminator(eta=0.9, min_n_trials=8, patience=2)


@functools.cache
def _watched_study(direction: Any = "minimize") -> Study:
    """Return a study with records of all trials; not to be changed."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0), direction=direction)
    sign = 1.0 if direction == "minimize" else -1.0
    terminator = _terminator()
    for _ in range(N_TRIALS):
        trial = study.ask({"x": optuna.distributions.FloatDistribution(0.0, 1.0)})
        study.tell(trial, sign * (trial.params["x"] - 0.3) ** 2)
        terminator.evaluate(study)
    return study


def _study_with(records: list[StoredRecord], terminator: RegretGapTerminator) -> Study:
    """Return a study with as many trials as there are records, and these records."""
    study = optuna.create_study()
    _store(study, records, terminator)
    return study


def _store(study: Study, records: list[StoredRecord], terminator: RegretGapTerminator) -> None:
    while len(study.trials) < len(records):
        study.tell(study.ask(), float(len(study.trials)))
    store_settings(study, terminator.settings)
    for record in records:
        store_record(study, terminator.settings, record)


def _record(n: int, value: float, threshold: float = 0.5) -> StoredRecord:
    return StoredRecord(
        n - 1,
        StoppingRecord(n_trials=n, value=value, threshold=threshold, terms={}, terminate=False),
    )


def _by_label(axes: Axes) -> dict[str, Any]:
    return {str(line.get_label()): line for line in axes.get_lines()}


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_both_show_what_is_stored(direction: str) -> None:
    """Criterion, terms and threshold by the number of trials, and below them the best so far."""
    study = _watched_study(direction)
    history = _terminator().history(study)
    traces = {trace.name: trace for trace in ours.plot_regret_gap(study).data}
    panels: Any = matplotlib.plot_regret_gap(study)
    upper, lower = panels
    lines = {**_by_label(upper), **_by_label(lower)}
    values = [trial.values[0] for trial in study.trials]
    better = max if direction == "maximize" else min
    expected: dict[str, list[Any]] = {
        "regret gap": [record.value for record in history],
        "threshold": [record.threshold for record in history],
        **{
            label: [record.terms.get(name, 0.0) for record in history]
            for label, name in TERMS.items()
        },
    }
    expected = {
        label: [v if 0.0 < v < math.inf else math.nan for v in row]
        for label, row in expected.items()
    }
    expected |= {"trials": values, "best so far": list(itertools.accumulate(values, better))}
    assert set(traces) == set(expected)
    assert set(expected) < set(lines)
    for label, row in expected.items():
        assert list(traces[label].x) == list(lines[label].get_xdata()) == list(range(1, 27))
        np.testing.assert_array_equal(traces[label].y, row)
        np.testing.assert_array_equal(lines[label].get_ydata(), row)
    assert traces["best so far"].line.shape == "hv"
    assert lines["best so far"].get_drawstyle() == "steps-post"
    assert sum(math.isfinite(v) for v in expected["change of the incumbent"]) < N_TRIALS // 2


def test_axes_and_stop() -> None:
    """The criterion on a log axis with its unit, shared trials, and a line where it stopped."""
    study = _watched_study()
    stop = next(r.n_trials for r in _terminator().history(study) if r.terminate)
    figure = ours.plot_regret_gap(study)
    panels: Any = matplotlib.plot_regret_gap(study)
    upper, lower = panels
    layout = figure.layout
    assert layout.yaxis.type == upper.get_yscale() == "log"
    assert layout.yaxis.title.text == upper.get_ylabel() == "Regret gap (the objective's units)"
    assert layout.yaxis2.title.text == lower.get_ylabel() == "Objective value"
    assert layout.xaxis2.title.text == lower.get_xlabel() == "Complete trials"
    assert layout.title.text == upper.get_title() == "Regret gap and its threshold (relative)"
    assert layout.xaxis.matches == "x2"
    assert upper.get_shared_x_axes().joined(upper, lower)
    np.testing.assert_allclose(layout.yaxis.range, np.log10(upper.get_ylim()))
    np.testing.assert_allclose(layout.yaxis2.range, lower.get_ylim())
    assert [shape.x0 for shape in layout.shapes] == [stop, stop]
    assert {shape.yref for shape in layout.shapes} == {"y domain", "y2 domain"}
    assert [note.text for note in layout.annotations] == [f"stop after {stop}"]
    label = f"stop after {stop}"
    assert list(_by_label(upper)[label].get_xdata()) == [stop, stop]
    assert any(list(line.get_xdata()) == [stop, stop] for line in lower.get_lines())
    (legend,) = upper.figure.legends
    assert label in [text.get_text() for text in legend.get_texts()]


def test_what_a_log_axis_cannot_show_leaves_gaps() -> None:
    """No signal, no threshold yet and zero are no points, and do not stretch the axes."""
    rows = [(math.inf, -math.inf), (2.0, -math.inf), (0.0, 0.5), (1.0, 0.5)]
    records = [_record(n, *row) for n, row in enumerate(rows, start=1)]
    terminator = RegretGapTerminator(threshold="median", criterion="expected-improvement")
    study = _study_with(records, terminator)
    upper = regret_gap_plot(study, None).panels[0]
    assert labels(upper) == ["expected improvement", "threshold"]
    criterion, threshold = (xy(part(upper, label)) for label in labels(upper))
    np.testing.assert_array_equal(criterion, [(1, math.nan), (2, 2.0), (3, math.nan), (4, 1.0)])
    np.testing.assert_array_equal(threshold, [(1, math.nan), (2, math.nan), (3, 0.5), (4, 0.5)])
    assert upper.y.limits is not None
    low, high = upper.y.limits
    assert 10**-0.5 < low < 0.5
    assert 2.0 < high < 10**0.5
    nothing = _study_with([_record(1, math.inf, -math.inf)], terminator)
    for drawn in (study, nothing):
        ours.plot_regret_gap(drawn)
        matplotlib.plot_regret_gap(drawn)


def test_terminator_can_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    """By default the one that came furthest, with a warning if there are several."""
    short, long = RegretGapTerminator(patience=1), RegretGapTerminator(threshold=7.5)
    study = _study_with([_record(n, 1.0) for n in range(1, 6)], long)
    assert regret_gap_plot(study, None).panels
    assert not caplog.records
    _store(study, [_record(n, 2.0) for n in range(1, 5)], short)
    plot = regret_gap_plot(study, None)
    assert len(part(plot.panels[0], "regret gap").x) == 5
    assert "(7.5)" in plot.title
    (record,) = caplog.records
    assert "2 terminators with different settings" in record.getMessage()
    chosen = ours.plot_regret_gap(study, short).data[-4]
    assert list(chosen.y) == [2.0] * 4


def test_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage has it all, and is left as it is."""
    study = _watched_study()
    before = study._storage.get_study_system_attrs(study._study_id).copy()
    monkeypatch.delattr(stopping, "evaluate")
    ours.plot_regret_gap(study)
    matplotlib.plot_regret_gap(study)
    assert study._storage.get_study_system_attrs(study._study_id) == before


def test_no_records(caplog: pytest.LogCaptureFixture) -> None:
    """As Optuna's plots do: a warning in the log, and a figure without data."""
    for plot in (ours.plot_regret_gap, matplotlib.plot_regret_gap):
        for arguments in ((), (RegretGapTerminator(seed=5),)):
            caplog.clear()
            study = _watched_study() if arguments else optuna.create_study()
            figure: Any = plot(study, *arguments)
            (record,) = caplog.records
            assert record.levelno == logging.WARNING
            assert "no stored records" in record.getMessage()
            drawn = figure.data if plot is ours.plot_regret_gap else figure.get_lines()
            assert len(drawn) == 0


def test_bad_arguments_are_refused() -> None:
    """Both name the argument."""
    three: Any = 3
    several = optuna.create_study(directions=["minimize", "minimize"])
    for plot in (ours.plot_regret_gap, matplotlib.plot_regret_gap):
        with pytest.raises(TypeError, match="study must be an Optuna study, but got 3"):
            plot(three)
        with pytest.raises(TypeError, match="terminator must be a RegretGapTerminator or None"):
            plot(_watched_study(), three)
        with pytest.raises(ValueError, match="study must have one objective, but got 2"):
            plot(several)
