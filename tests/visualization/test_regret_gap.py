"""The plot of a stopping criterion shows what is stored."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest

from bbo_plugins.methods.regret_gap.rule import StoppingRecord
from bbo_plugins.optuna import RegretGapTerminator
from bbo_plugins.optuna.stopping.records import StoredRecord, store_record, store_settings
from bbo_plugins.visualization import _draw_matplotlib, _draw_plotly
from bbo_plugins.visualization._data.panels import Rule
from bbo_plugins.visualization._data.regret_gap import plot_regret_gap
from tests.visualization.parts import labels, part, xy

if TYPE_CHECKING:
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


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_lines_are_what_is_stored(direction: str) -> None:
    """Criterion, terms and threshold by the number of trials, and below them the best so far."""
    study = _watched_study(direction)
    before = study._storage.get_study_system_attrs(study._study_id).copy()
    history = _terminator().history(study)
    plot = plot_regret_gap(study)
    upper, lower = plot.panels
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
    for label, row in expected.items():
        row = [v if 0.0 < v < math.inf else math.nan for v in row]  # noqa: PLW2901
        np.testing.assert_array_equal(part(upper, label).x, range(1, 27))
        np.testing.assert_array_equal(part(upper, label).y, row)
    assert np.isfinite(part(upper, "change of the incumbent").y).sum() < N_TRIALS // 2
    np.testing.assert_array_equal(part(lower, "trials").y, values)
    best = part(lower, "best so far")
    np.testing.assert_array_equal(best.y, [*itertools.accumulate(values, better)])
    assert best.step
    titles = ["Regret gap (the objective's units)", "Objective value"]
    assert [panel.y.title for panel in plot.panels] == titles
    assert (upper.y.log, lower.x.title) == (True, "Complete trials")
    assert plot.title == "Regret gap and its threshold (relative)"
    assert study._storage.get_study_system_attrs(study._study_id) == before


@pytest.mark.parametrize("direction, sign", [("minimize", 1.0), ("maximize", -1.0)])
def test_infinitely_good_values_do_not_hide_the_best_one(direction: Any, sign: float) -> None:
    """They count as the best finite value so far, as for the terminator."""
    study = optuna.create_study(direction=direction)
    for value in (3.0, -math.inf, 2.0, 4.0):
        study.add_trial(optuna.trial.create_trial(value=sign * value))
    _store(study, [_record(n, 0.5 / n) for n in (1, 2, 3, 4)], _terminator())
    best = part(plot_regret_gap(study).panels[-1], "best so far")
    assert list(best.y) == [sign * value for value in (3.0, 3.0, 2.0, 2.0)]


def test_failed_completions_leave_no_gap() -> None:
    """Their records have no criterion, so the line goes on to the next one."""
    terminator = _terminator()
    failed = [
        StoredRecord(n - 1, StoppingRecord(n_trials=n, n_failed=1, has_failed=True)) for n in (1, 2)
    ]
    study = _study_with([_record(1, 0.9), failed[1], _record(3, 0.7)], terminator)
    criterion = part(plot_regret_gap(study).panels[0], "regret gap")
    assert (list(criterion.x), list(criterion.y)) == ([1, 3], [0.9, 0.7])
    nothing = plot_regret_gap(_study_with(failed[:1], terminator))
    assert len(nothing.panels) == 2


def test_stop_is_a_line_across_both() -> None:
    """Named once."""
    study = _watched_study()
    stop = next(r.n_trials for r in _terminator().history(study) if r.terminate)
    for panel, label in zip(plot_regret_gap(study).panels, (f"stop after {stop}", ""), strict=True):
        rule = panel.items[-1]
        assert isinstance(rule, Rule)
        assert (rule.at, rule.vertical, rule.label) == (stop, True, label)


def test_what_a_log_axis_cannot_show_leaves_gaps() -> None:
    """No signal, no threshold yet and zero are no points, and do not stretch the axes."""
    rows = [(math.inf, -math.inf), (2.0, -math.inf), (0.0, 0.5), (1.0, 0.5)]
    records = [_record(n, *row) for n, row in enumerate(rows, start=1)]
    terminator = RegretGapTerminator(threshold="median", criterion="expected-improvement")
    study = _study_with(records, terminator)
    upper = plot_regret_gap(study).panels[0]
    assert labels(upper) == ["expected improvement", "threshold"]
    criterion, threshold = (xy(part(upper, label)) for label in labels(upper))
    np.testing.assert_array_equal(criterion, [(1, math.nan), (2, 2.0), (3, math.nan), (4, 1.0)])
    np.testing.assert_array_equal(threshold, [(1, math.nan), (2, math.nan), (3, 0.5), (4, 0.5)])
    assert upper.y.limits is not None
    low, high = upper.y.limits
    assert 10**-0.5 < low < 0.5
    assert 2.0 < high < 10**0.5
    nothing = _study_with([_record(1, math.inf, -math.inf)], terminator)
    huge = _study_with([_record(1, 1e-3), _record(2, 1.7e308)], terminator)
    assert plot_regret_gap(huge).panels[0].y.limits[1] >= 1.7e308  # type: ignore[index]
    tiny = _study_with([_record(1, 1e-310), _record(2, 1e-3)], terminator)
    assert plot_regret_gap(tiny).panels[0].y.limits[0] > 0.0  # type: ignore[index]
    for drawn in (study, nothing, tiny):
        _draw_plotly.draw(plot_regret_gap(drawn))
        _draw_matplotlib.draw(plot_regret_gap(drawn))


def test_terminator_can_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    """By default the one that came furthest, with a warning if there are several."""
    short, long = RegretGapTerminator(patience=1), RegretGapTerminator(threshold=7.5)
    study = _study_with([_record(n, 1.0) for n in range(1, 6)], long)
    assert plot_regret_gap(study).panels
    assert not caplog.records
    _store(study, [_record(n, 2.0) for n in range(1, 5)], short)
    plot = plot_regret_gap(study)
    assert len(part(plot.panels[0], "regret gap").x) == 5
    assert "(7.5)" in plot.title
    (record,) = caplog.records
    assert "2 terminators with different settings" in record.getMessage()
    chosen = part(plot_regret_gap(study, short).panels[0], "regret gap")
    assert chosen.y == [2.0] * 4


def test_bad_arguments_are_refused() -> None:
    """By name."""
    three: Any = 3
    with pytest.raises(TypeError, match="study must be an Optuna study, but got 3"):
        plot_regret_gap(three)
    with pytest.raises(TypeError, match="terminator must be a RegretGapTerminator or None"):
        plot_regret_gap(_watched_study(), three)
    with pytest.raises(ValueError, match="study must have one objective, but got 2"):
        plot_regret_gap(optuna.create_study(directions=["minimize", "minimize"]))
