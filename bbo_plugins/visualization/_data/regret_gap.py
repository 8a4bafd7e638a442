"""What a terminator has recorded in the course of a study, as records to be drawn."""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from optuna.study import Study, StudyDirection

from bbo_plugins import errors
from bbo_plugins.optuna.stopping.progress import StoredRecords
from bbo_plugins.optuna.terminator import RegretGapTerminator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule

EMPTY_TITLE = "Stopping criterion"


X_TITLE = "Complete trials"


VALUE_TITLE = "Objective value"


THRESHOLD_LABEL = "threshold"


TRIALS_LABEL = "trials"


BEST_LABEL = "best so far"


# Of the regret gap: the terms that add up to it.
_TERMS = {
    "mean_change": "change of the incumbent's mean",
    "incumbent_change": "change of the incumbent",
    "information": "information gained",
}


_MARGIN = 0.05


_TERM_DECADES = 2.0  # that terms are shown below criterion and threshold


_FENCE = 1.5  # interquartile ranges beyond the quartiles, as in a box plot


_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Curve:
    """A quantity by the number of complete trials.

    Attributes:
        label: What it is.
        points: Number of complete trials and quantity; NaN, which leaves a gap, where there is no
            positive, finite one.
    """

    label: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class RegretGapInfo:
    """What the plot shows.

    Attributes:
        title: The plot's title.
        criterion: The criterion; its label says what it is.
        y_title: The criterion with its unit.
        terms: What it is made of, if it is a sum.
        threshold: What it has to be at most.
        stop: Number of complete trials at which it first said to stop, None if it never did.
        values: Values of the complete trials in the order of completion.
        best: The best of them so far.
        value_range: Ends of the objective's axis; outliers on the worse side are left out.
    """

    title: str
    criterion: Curve
    y_title: str
    terms: tuple[Curve, ...]
    threshold: Curve
    stop: int | None
    values: tuple[float, ...]
    best: tuple[float, ...]
    value_range: tuple[float, float]

    @property
    def stop_label(self) -> str:
        """What the line at the stop is called."""
        return f"stop after {self.stop}"

    @property
    def log10_range(self) -> tuple[float, float]:
        """Ends of the criterion's axis as decimal logarithms; much smaller terms are below it."""
        points = [*self.criterion.points, *self.threshold.points]
        logs = [math.log10(value) for _, value in points if value > 0.0] or [0.0]
        low = min(logs) - (_TERM_DECADES if self.terms else 0.0)
        margin = _MARGIN * max(max(logs) - low, 1.0)
        return low - margin, max(logs) + margin


def regret_gap_info(study: Study, terminator: RegretGapTerminator | None) -> RegretGapInfo | None:
    """Read the records of a terminator, by default of the one that has come furthest.

    Returns:
        None, with a warning in the log, if there are none.

    Raises:
        TypeError: ``study`` is not a study or ``terminator`` not a terminator.
        ValueError: The study has several objectives.
    """
    errors.check_instance("study", study, Study, "an Optuna study")
    if terminator is not None:
        rule = "a RegretGapTerminator or None"
        errors.check_instance("terminator", terminator, RegretGapTerminator, rule)
    if len(study.directions) != 1:
        raise ValueError(f"study must have one objective, but got {len(study.directions)}.")
    history = _history(study, terminator)
    if history is None or not history.records:
        _logger.warning(
            "The study has no stored records of %s, so there is no stopping criterion to plot.",
            "a RegretGapTerminator" if terminator is None else "this terminator",
        )
        return None
    return _info(history, maximize=study.direction is StudyDirection.MAXIMIZE)


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


def _info(history: StoredRecords, *, maximize: bool) -> RegretGapInfo:
    rule, records = history.settings.rule, [stored.record for stored in history.records]
    name = rule.criterion.replace("-", " ").capitalize()
    has_sum = rule.criterion == "regret-gap"
    better = max if maximize else min
    best = tuple(itertools.accumulate(history.values, better))
    return RegretGapInfo(
        title=f"{name} and its threshold ({_threshold_name(rule)})",
        criterion=Curve(name.lower(), _points(records, [record.value for record in records])),
        y_title=name if rule.is_probability else f"{name} (the objective's units)",
        terms=tuple(
            Curve(label, _points(records, [record.terms.get(term, 0.0) for record in records]))
            for term, label in _TERMS.items()
            if has_sum
        ),
        threshold=Curve(THRESHOLD_LABEL, _points(records, [r.threshold for r in records])),
        stop=next((record.n_trials for record in records if record.terminate), None),
        values=history.values,
        best=best,
        value_range=_value_range(history.values, best, maximize=maximize),
    )


def _points(
    records: Sequence[StoppingRecord], values: Sequence[float]
) -> tuple[tuple[int, float], ...]:
    """Return the values with the number of trials, NaN for what has no place on a log axis."""
    return tuple(
        (record.n_trials, value if 0.0 < value < math.inf else math.nan)
        for record, value in zip(records, values, strict=True)
    )


def _threshold_name(rule: StoppingRule) -> str:
    return rule.threshold if isinstance(rule.threshold, str) else f"{float(rule.threshold):g}"


def _value_range(
    values: Sequence[float], best: Sequence[float], *, maximize: bool
) -> tuple[float, float]:
    """Return the range of all values but the outliers on the worse side."""
    finite = np.array([value for value in values if math.isfinite(value)] or [0.0])
    low, high = float(finite.min()), float(finite.max())
    first, third = np.quantile(finite, [0.25, 0.75])
    fence = _FENCE * float(third - first)
    reached = [value for value in best if math.isfinite(value)]
    if maximize:
        low = max(low, min(float(first) - fence, reached[-1] if reached else low))
    else:
        high = min(high, max(float(third) + fence, reached[-1] if reached else high))
    margin = _MARGIN * ((high - low) or 1.0)
    return low - margin, high + margin
