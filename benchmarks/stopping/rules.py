"""The rules that are compared: a criterion with a threshold each, Optuna's own, and controls.

All rules of the package share its defaults for patience and the number of trials before which
nothing is stopped. They are replayed over stored series by :class:`StoppingRule` itself.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from bbo_plugins.methods.regret_gap.bound import cross_validation_threshold
from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule
from benchmarks.stopping.series import PEER, Series

DEFAULT = "gap-relative"
STAGNATION = 30  # trials without a better value: the default of Optuna's BestValueStagnation
FIXED = 65  # trials: a blind stop that saves what the default is to save


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One way to stop.

    Attributes:
        name: What it is called in options and tables.
        rule: The package's rule; None for the peer and the controls.
        noise_free_only: Whether it presumes an objective without noise.
    """

    name: str
    rule: StoppingRule | None = None
    noise_free_only: bool = False

    @property
    def criterion(self) -> str | None:
        """The series that it is applied to, None for a control."""
        if self.rule is None:
            return PEER if self.name == PEER else None
        if self.rule.is_probability:
            return "expected-improvement"  # which comes with its probability
        return self.rule.criterion

    @property
    def threshold(self) -> str:
        """The threshold that decides on the series' smallest noise; all share it but of the gap."""
        if self.rule is None or self.rule.criterion != "regret-gap":
            return "relative"
        return str(self.rule.threshold)

    @property
    def is_deterministic(self) -> bool:
        """Whether the criterion is told that the objective is free of noise."""
        return self.rule is not None and self.rule.deterministic_objective


_RULES: Mapping[str, StoppingRule] = {
    DEFAULT: StoppingRule(),
    "gap-relative-deterministic": StoppingRule(deterministic_objective=True),
    "gap-auto": StoppingRule(threshold="auto"),
    "gap-median": StoppingRule(threshold="median"),
    "bound-median": StoppingRule(criterion="regret-bound", threshold="median"),
    "bound-cv": StoppingRule(criterion="regret-bound", threshold="cross-validation"),
    "ei-median": StoppingRule(criterion="expected-improvement", threshold="median"),
    "pi": StoppingRule(criterion="probability-of-improvement"),
}
_ENTRIES = (
    *(
        Entrant(name=name, rule=rule, noise_free_only=rule.deterministic_objective)
        for name, rule in _RULES.items()
    ),
    Entrant(name="stagnation"),
    Entrant(name="fixed"),
    Entrant(name=PEER),
)
ENTRANTS: Mapping[str, Entrant] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
DEFAULT_ENTRANTS = tuple(name for name in ENTRANTS if name != PEER)


def stop_of(rule: StoppingRule, series: Series, scores: Sequence[Sequence[float]]) -> int | None:
    """Return the first completion at which ``rule`` says stop, None if there is none.

    Args:
        rule: The rule.
        series: Its criterion after each of n completions.
        scores: Scores on the folds of the best trial so far after each of them; empty if there are
            none.
    """
    records: list[StoppingRecord] = []
    name = "probability_of_improvement"
    values = series.term(name, math.inf) if rule.is_probability else series.values
    thresholds = _thresholds(rule, series, scores)
    for n, (value, threshold) in enumerate(zip(values, thresholds, strict=True), start=1):
        record = StoppingRecord(
            n_trials=n, value=value, threshold=threshold, terms={}, terminate=False
        )
        if rule.decides(record, records):
            return n
        records.append(record)
    return None


def _thresholds(
    rule: StoppingRule, series: Series, scores: Sequence[Sequence[float]]
) -> list[float]:
    """Return the threshold after each completion, minus infinity where there is none."""
    n = len(series.values)
    if rule.threshold == "relative":
        if rule.is_probability:
            return [rule.fraction] * n
        return [rule.fraction * std for std in series.term("std", -math.inf)]
    if rule.threshold == "auto":
        return series.term("auto_threshold", -math.inf)
    if rule.threshold == "median":
        finite = [m for m, value in enumerate(series.values) if value < math.inf][: rule.n_initial]
        if len(finite) < rule.n_initial:
            return [-math.inf] * n
        threshold = rule.fraction * float(np.median([series.values[m] for m in finite]))
        return [-math.inf if m < finite[-1] else threshold for m in range(n)]
    assert rule.threshold == "cross-validation"
    return [cross_validation_threshold(best) if best else -math.inf for best in scores]


def stagnation_stop(values: Sequence[float], *, patience: int = STAGNATION) -> int | None:
    """Return the first completion with more than ``patience`` since the smallest value, or None."""
    best, since = math.inf, 0
    for n, value in enumerate(values, start=1):
        if value < best:
            best, since = value, n
        if n - since > patience:
            return n
    return None
