"""When to stop: a stopping criterion, a threshold, and patience.

A stopping criterion estimates the gain that is left (:mod:`bbo_plugins.methods.regret_gap.bound`),
a threshold is the smallest gain worth a trial. The study is over when the criterion has been at or
below its threshold for ``patience`` completions in a row and at least ``min_n_trials`` are there.
Completions that count as failed are passed over.

| threshold          | the criterion has to be at most                                       |
|--------------------|-----------------------------------------------------------------------|
| "relative"         | η times the standard deviation of y_1..y_t; η for a probability       |
| "median"           | η times the median of the first ``n_initial`` values, section 4.3     |
| "auto"             | s_t, Eq. (7); for the regret gap only                                 |
| "cross-validation" | standard deviation of the best trial's cross-validated value, Eq. (5) |
| a number           | that number, in the objective's units (or a probability)              |

The noise variance λ⁻¹ of the regret gap is the fitted one, but at least
:attr:`StoppingRule.noise_floor` of the variance of the values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins import errors
from bbo_plugins.methods.regret_gap.bound import cross_validation_threshold
from bbo_plugins.methods.regret_gap.model import LEAST_NOISE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CRITERIA = ("regret-gap", "regret-bound", "expected-improvement", "probability-of-improvement")
THRESHOLDS = ("relative", "auto", "median", "cross-validation")
WITH_ETA = ("relative", "median")

# Smallest noise variance for the regret gap, of the variance of the standardized targets, by the
# threshold: docs/terminator.md, "The noise floor".
_GAP_NOISE = 1e-2
_GAP_NOISE_OF = {"median": 1e-4, "auto": LEAST_NOISE}


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """Criterion, threshold and patience; checked at construction.

    Attributes:
        threshold: One of :data:`THRESHOLDS` or a positive number, see the module.
        criterion: One of :data:`CRITERIA`.
        eta: η of "relative" and "median", in (0, 1). None for 0.1 with "relative" (0.2 if the
            objective is deterministic, 0.01 for a probability) and 0.01 with "median".
        patience: Number of completions in a row that have to agree.
        n_initial: Number of recorded criteria whose median the "median" threshold takes.
        delta: δ, the probability with which confidence bounds may fail.
        min_n_trials: Number of completions, failed ones aside, before which nothing is stopped.
        deterministic_objective: Whether the same point always has the same value.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range, the threshold is not one of this
            criterion, or ``eta`` is given with a threshold that has none.
    """

    threshold: str | float = "relative"
    criterion: str = "regret-gap"
    eta: float | None = None
    patience: int = 3
    n_initial: int = 20
    delta: float = 0.1
    min_n_trials: int = 20
    deterministic_objective: bool = False

    def __post_init__(self) -> None:
        """Check the arguments, and keep them as plain numbers and words."""
        deterministic = errors.check_bool("deterministic_objective", self.deterministic_objective)
        checked = {
            "criterion": errors.check_word("criterion", self.criterion, CRITERIA),
            "threshold": self._checked_threshold(),
            "eta": None if self.eta is None else _checked_fraction("eta", self.eta),
            "delta": _checked_fraction("delta", self.delta),
            "patience": errors.check_int("patience", self.patience, minimum=1),
            "n_initial": errors.check_int("n_initial", self.n_initial, minimum=1),
            "min_n_trials": errors.check_int("min_n_trials", self.min_n_trials, minimum=2),
            "deterministic_objective": deterministic,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.eta is not None and self.threshold not in WITH_ETA:
            rule = f"None with threshold={self.threshold!r}, which has no eta"
            raise ValueError(errors.rule_message("eta", rule, self.eta))

    def _checked_threshold(self) -> str | float:
        number, end = "a positive number", math.inf
        if self.is_probability:
            number, end = "a number between 0 and 1", 1.0
        rule = f"{number} or one of {', '.join(map(repr, THRESHOLDS))}"
        if not isinstance(self.threshold, str):
            return errors.check_real("threshold", self.threshold, rule, lambda x: 0.0 < x < end)
        if self.threshold not in THRESHOLDS:
            raise ValueError(errors.rule_message("threshold", rule, self.threshold))
        unfit = (self.threshold == "auto" and self.criterion != "regret-gap") or (
            self.threshold == "cross-validation" and self.is_probability
        )
        if unfit:
            rule = f"another one with criterion={self.criterion!r}"
            raise ValueError(errors.rule_message("threshold", rule, self.threshold))
        return str(self.threshold)

    @property
    def criterion_in_words(self) -> str:
        """The name of the criterion in words."""
        return self.criterion.replace("-", " ")

    @property
    def is_probability(self) -> bool:
        """Whether the criterion is one, and has no unit."""
        return self.criterion == "probability-of-improvement"

    @property
    def fraction(self) -> float:
        """η, also where it was left at its default."""
        if self.eta is not None:
            return self.eta
        if self.threshold == "median" or self.is_probability:
            return 0.01
        return 0.2 if self.deterministic_objective else 0.1

    @property
    def noise_floor(self) -> float:
        """The smallest λ⁻¹ that the model has, of the variance of the standardized targets."""
        if self.criterion != "regret-gap" or self.deterministic_objective:
            return LEAST_NOISE
        return _GAP_NOISE_OF.get(str(self.threshold), _GAP_NOISE)

    def threshold_of(
        self,
        value: float,
        terms: Mapping[str, float],
        std: float,
        previous: Sequence[StoppingRecord],
        fold_scores: Sequence[float] | None,
    ) -> float:
        """Return the largest criterion of a stop, s_t; minus infinity if it is not known (yet).

        Args:
            value: The newest criterion, in the objective's units.
            terms: The numbers it is made of, by name.
            std: Standard deviation of the values, in the objective's units.
            previous: Records of earlier completions, oldest first.
            fold_scores: Cross-validation scores of the best trial; None if not reported.
        """
        if not isinstance(self.threshold, str):
            return self.threshold
        if self.threshold == "relative":
            return self.fraction * (1.0 if self.is_probability else std)
        if self.threshold == "median":
            return self.median_threshold(value, previous)
        if self.threshold == "auto":
            return terms.get("auto_threshold", -math.inf)
        return -math.inf if fold_scores is None else cross_validation_threshold(fold_scores)

    def median_threshold(self, value: float, previous: Sequence[StoppingRecord]) -> float:
        """Return η times the median of the first criteria; minus infinity until there are enough.

        Args:
            value: The newest criterion.
            previous: Records of earlier completions, oldest first.
        """
        for record in reversed(previous):
            if record.threshold > -math.inf:
                return record.threshold
        values = [*(record.value for record in previous), value]
        initial = [value for value in values if value < math.inf][: self.n_initial]
        if len(initial) < self.n_initial:
            return -math.inf
        # Section 4.3
        return self.fraction * float(np.median(initial))

    def decides(self, record: StoppingRecord, previous: Sequence[StoppingRecord]) -> bool:
        """Return whether ``record`` is the last of enough consecutive ones below the threshold."""
        if record.has_failed or record.n_trials - record.n_failed < self.min_n_trials:
            return False
        # Algorithm 1, line 9
        return self.n_agreeing(record, previous) == self.patience

    def n_agreeing(self, record: StoppingRecord, previous: Sequence[StoppingRecord]) -> int:
        """Return how many consecutive records, ``record`` the last, are below the threshold.

        Those of failed completions are passed over. No more than ``patience`` are counted.
        """
        agreeing = 0
        for back, earlier in enumerate((record, *reversed(previous))):
            is_next = earlier.n_trials == record.n_trials - back
            if agreeing == self.patience or not is_next:
                break
            if earlier.has_failed:
                continue
            if not earlier.is_below:
                break
            agreeing += 1
        return agreeing


@dataclass(frozen=True, kw_only=True)
class StoppingRecord:
    """The criterion after one completion, in the objective's own units, and the verdict.

    A record can be stored as the JSON of its ``dataclasses.asdict``.

    Attributes:
        n_trials: Number of completions it is about.
        value: The criterion; infinite where there is no signal, as for a constant objective.
        threshold: The upper bound of a stop; minus infinity where there is none (yet).
        terms: The numbers that the criterion is made of, by name; empty without a signal.
        terminate: Whether the rule says to stop.
        has_failed: Whether the newest completion counts as failed, and so brings no criterion.
        n_failed: How many of the completions count as failed.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import RegretGapTerminator

            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0) ** 2, n_trials=8)
            record = RegretGapTerminator().evaluate(study)
            assert record.n_trials == 8
            assert record.is_below == (record.value <= record.threshold)
    """

    n_trials: int
    value: float = math.inf
    threshold: float = -math.inf
    terms: Mapping[str, float] = field(default_factory=dict)
    terminate: bool = False
    has_failed: bool = False
    n_failed: int = 0

    @property
    def is_below(self) -> bool:
        """Whether there is a signal, at or below its threshold; patience aside."""
        return self.value < math.inf and self.value <= self.threshold


def _checked_fraction(argument: str, value: object) -> float:
    return errors.check_real(argument, value, "a number between 0 and 1", lambda x: 0.0 < x < 1.0)
