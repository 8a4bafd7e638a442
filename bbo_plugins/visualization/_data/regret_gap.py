"""The records of a terminator in the course of a study."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from itertools import accumulate, islice
from typing import TYPE_CHECKING

from optuna.study import StudyDirection

from bbo_plugins import errors
from bbo_plugins.optuna.stopping.progress import StoredRecords
from bbo_plugins.optuna.study.trials import check_one_function
from bbo_plugins.optuna.terminator import RegretGapTerminator
from bbo_plugins.visualization._data.panels import (
    MARGIN,
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

    from optuna.study import Study

    from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule

# Of the regret gap: the terms that add up to it.
_TERMS = {
    "mean_change": "change of the incumbent's mean",
    "incumbent_change": "change of the incumbent",
    "information": "information gained",
}


_HOVER = "%{x}: %{y:.4g}"
_TERM_DECADES = 2.0  # that terms are shown below criterion and threshold
_logger = logging.getLogger(__name__)


def plot_regret_gap(study: Study, terminator: RegretGapTerminator | None = None) -> Plot:
    """Plot what a terminator has recorded: its criterion, the terms, the threshold and the stop.

    Below them are the values of the complete trials and the best so far, by the number of complete
    trials as well; values that are outliers on the worse side are out of sight. Everything is read
    from the study's storage; nothing is fitted.

    Args:
        study: A study that a :class:`~bbo_plugins.optuna.RegretGapTerminator` has looked at.
        terminator: One with the settings whose records are to be seen; None for those that cover
            most of the study.

    Returns:
        Plotly's figure; of matplotlib, an array (2,) with the axes of the criterion and of the
        objective. If no records are stored, an empty figure or an array (1,), with a warning in the
        log.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The study has several objectives, or is one of ``BILBOSampler``.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import RegretGapTerminator
            from bbo_plugins.visualization import plot_regret_gap

            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            terminator = RegretGapTerminator()
            study.optimize(
                lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2,
                n_trials=14,
                callbacks=[terminator],
            )
            figure = plot_regret_gap(study)
            figure.write_html("regret_gap.html")
    """
    check_one_function(study)
    if terminator is not None:
        words = "a RegretGapTerminator or None"
        errors.check_instance("terminator", terminator, RegretGapTerminator, words)
    history = _history(study, terminator)
    if history is None or not history.records:
        _logger.warning(
            "The study has no stored records of %s, so there is no stopping criterion to plot.",
            "a RegretGapTerminator" if terminator is None else "this terminator",
        )
        return Plot("Stopping criterion")
    rule, records = history.settings.rule, [stored.record for stored in history.records]
    records = [record for record in records if not record.has_failed]  # they have no criterion
    maximize = study.direction is StudyDirection.MAXIMIZE
    above, below = _criterion(rule, records), _objective(history.values, maximize=maximize)
    stop = next((record.n_trials for record in records if record.terminate), None)
    if stop is not None:
        above = _with_stop(above, stop, f"stop after {stop}")
        below = _with_stop(below, stop, "")
    threshold = rule.threshold if isinstance(rule.threshold, str) else f"{float(rule.threshold):g}"
    title = f"{rule.criterion_in_words.capitalize()} and its threshold ({threshold})"
    return Plot(title, (above, below), SHARED_STACK)


def _with_stop(panel: Panel, stop: int, label: str) -> Panel:
    rule = Rule(stop, vertical=True, label=label, width=1.5)
    return replace(panel, items=(*panel.items, rule))


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


def _criterion(rule: StoppingRule, records: Sequence[StoppingRecord]) -> Panel:
    """Return the criterion, the terms of one that is a sum, and the threshold."""
    n, name = [record.n_trials for record in records], rule.criterion_in_words
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
    items.append(Line(name, n, criterion, LineStyle(width=2.5), hover=_HOVER))
    items.append(Line("threshold", n, threshold, LineStyle(RED, DASHED), hover=_HOVER))
    logs = [math.log10(value) for value in (*criterion, *threshold) if value > 0.0] or [0.0]
    low = min(logs) - (_TERM_DECADES if terms else 0.0)
    margin = MARGIN * max(max(logs) - low, 1.0)
    # Powers beyond are 0 and infinite; what is smaller than 1e-307 lies below the axis.
    lowest, highest = max(low - margin, -307.0), min(max(logs) + margin, 308.25)
    limits = (10.0**lowest, 10.0**highest)
    title = name.capitalize() + ("" if rule.is_probability else " (the objective's units)")
    return Panel(Axis(whole=True), Axis(title, log=True, limits=limits), tuple(items))


def _objective(values: Sequence[float], *, maximize: bool) -> Panel:
    """Return the values of the complete trials in the order of completion, and the best so far."""
    n = list(range(1, len(values) + 1))
    good = math.inf if maximize else -math.inf  # counts as the best finite one so far
    counted = (-good if value == good else value for value in values)
    best = tuple(accumulate(counted, max if maximize else min))
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
