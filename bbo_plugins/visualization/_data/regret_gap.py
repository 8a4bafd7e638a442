"""The records of a terminator in the course of a study."""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from optuna.study import Study, StudyDirection

from bbo_plugins import errors
from bbo_plugins.optuna.stopping.progress import StoredRecords
from bbo_plugins.optuna.terminator import RegretGapTerminator
from bbo_plugins.visualization._data.panels import (
    Axis,
    Item,
    Line,
    Panel,
    Plot,
    Points,
    Rule,
    limits_without_outliers,
)
from bbo_plugins.visualization._style import (
    DASHED,
    DOT,
    GRAY,
    RED,
    SHARED_STACK,
    LineStyle,
    MarkerStyle,
    line_styles,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule

# Of the regret gap: the terms that add up to it.
_TERMS = {
    "mean_change": "change of the incumbent's mean",
    "incumbent_change": "change of the incumbent",
    "information": "information gained",
}


_HOVER = "%{x}: %{y:.4g}"
_MARGIN = 0.05
_TERM_DECADES = 2.0  # that terms are shown below criterion and threshold
_logger = logging.getLogger(__name__)


def regret_gap_plot(study: Study, terminator: RegretGapTerminator | None) -> Plot:
    """Read the records of a terminator.

    Args:
        study: The study.
        terminator: The terminator; None for the one that has come furthest.

    Returns:
        The criterion and the objective by the number of complete trials; without panels, with a
        warning in the log, if there are no records.

    Raises:
        TypeError: ``study`` is not a study or ``terminator`` not a terminator.
        ValueError: The study has several objectives.
    """
    errors.check_instance("study", study, Study, "an Optuna study")
    if terminator is not None:
        words = "a RegretGapTerminator or None"
        errors.check_instance("terminator", terminator, RegretGapTerminator, words)
    if len(study.directions) != 1:
        raise ValueError(f"study must have one objective, but got {len(study.directions)}.")
    history = _history(study, terminator)
    if history is None or not history.records:
        _logger.warning(
            "The study has no stored records of %s, so there is no stopping criterion to plot.",
            "a RegretGapTerminator" if terminator is None else "this terminator",
        )
        return Plot("Stopping criterion")
    rule, records = history.settings.rule, [stored.record for stored in history.records]
    maximize = study.direction is StudyDirection.MAXIMIZE
    stop = next((record.n_trials for record in records if record.terminate), None)
    panels: tuple[Panel, ...] = (
        _criterion(rule, records),
        _objective(history.values, maximize=maximize),
    )
    if stop is not None:
        labels = (f"stop after {stop}", "")
        panels = tuple(
            replace(panel, items=(*panel.items, Rule(stop, vertical=True, label=label, width=1.5)))
            for panel, label in zip(panels, labels, strict=True)
        )
    threshold = rule.threshold if isinstance(rule.threshold, str) else f"{float(rule.threshold):g}"
    title = f"{_name(rule)} and its threshold ({threshold})"
    return Plot(title, panels, SHARED_STACK)


def _history(study: Study, terminator: RegretGapTerminator | None) -> StoredRecords | None:
    if terminator is not None:
        return StoredRecords.read(study, terminator.settings)
    histories = StoredRecords.read_all(study)
    if len(histories) > 1:
        _logger.warning(
            "The study has records of %d terminators with different settings; those of %r are "
            "plotted. Pass terminator= to choose.",
            len(histories),
            histories[-1].settings.rule,
        )
    return histories[-1] if histories else None


def _name(rule: StoppingRule) -> str:
    return rule.criterion.replace("-", " ").capitalize()


def _criterion(rule: StoppingRule, records: Sequence[StoppingRecord]) -> Panel:
    """Return the criterion, the terms of one that is a sum, and the threshold."""
    n, name = [record.n_trials for record in records], _name(rule)
    terms = _TERMS if rule.criterion == "regret-gap" else {}
    styles = [
        replace(style, width=1.0, marker=DOT, size=(4, 6.0))
        for style in islice(line_styles(2 + len(terms)), 2, None)  # after those of the two others
    ]
    criterion = _on_log_axis([record.value for record in records])
    threshold = _on_log_axis([record.threshold for record in records])
    items: list[Item] = [
        Line(label, n, _on_log_axis([r.terms.get(term, 0.0) for r in records]), style, hover=_HOVER)
        for (term, label), style in zip(terms.items(), styles, strict=True)
    ]
    items.append(Line(name.lower(), n, criterion, LineStyle(width=2.5), hover=_HOVER))
    items.append(Line("threshold", n, threshold, LineStyle(RED, DASHED), hover=_HOVER))
    logs = [math.log10(value) for value in (*criterion, *threshold) if value > 0.0] or [0.0]
    low = min(logs) - (_TERM_DECADES if terms else 0.0)
    margin = _MARGIN * max(max(logs) - low, 1.0)
    limits = (10.0 ** (low - margin), 10.0 ** (max(logs) + margin))
    title = name if rule.is_probability else f"{name} (the objective's units)"
    return Panel(Axis(whole=True), Axis(title, log=True, limits=limits), tuple(items))


def _objective(values: Sequence[float], *, maximize: bool) -> Panel:
    """Return the values of the complete trials in the order of completion, and the best so far."""
    n = list(range(1, len(values) + 1))
    best = tuple(itertools.accumulate(values, max if maximize else min))
    trials = MarkerStyle(DOT, (5, 6.0), GRAY, opacity=0.6)
    items = (
        Points("trials", n, values, trials, hover=_HOVER),
        Line("best so far", n, best, LineStyle(), step=True, hover=_HOVER),
    )
    limits = limits_without_outliers(values, maximize=maximize)
    y = Axis("Objective value", limits=limits)
    return Panel(Axis("Complete trials", whole=True), y, items)


def _on_log_axis(values: Sequence[float]) -> list[float]:
    """Return the values, NaN for those without a place on a logarithmic axis."""
    return [value if 0.0 < value < math.inf else math.nan for value in values]
