"""The rule that decides: its arguments, its defaults, and patience."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule


def _record(n: int, value: float, threshold: float = 1.0) -> StoppingRecord:
    return StoppingRecord(n_trials=n, value=value, threshold=threshold, terms={}, terminate=False)


@pytest.mark.parametrize(
    "arguments, eta",
    [
        ({}, 0.1),
        ({"deterministic_objective": True}, 0.2),
        ({"threshold": "median"}, 0.01),
        ({"criterion": "probability-of-improvement"}, 0.01),
        ({"eta": 0.3}, 0.3),
    ],
)
def test_eta_has_a_default_for_each_threshold(arguments: dict[str, Any], eta: float) -> None:
    """The documented defaults, unless η was given."""
    assert StoppingRule(**arguments).fraction == eta


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"criterion": "gap"}, "criterion must be one of 'regret-gap' or"),
        ({"threshold": "best"}, "threshold must be a positive number or one of 'relative', 'auto'"),
        ({"threshold": 0.0}, "threshold must be a positive number or one of 'relative', 'auto'"),
        ({"eta": 0.0}, "eta must be a number between 0 and 1, but got 0.0"),
        ({"delta": 0.0}, "delta must be a number between 0 and 1"),
        ({"eta": 0.1, "threshold": "auto"}, "eta must be None with threshold='auto'"),
        ({"patience": 0}, "patience must be an integer of at least 1"),
        ({"n_initial": 0}, "n_initial must be an integer of at least 1"),
        ({"min_n_trials": 1}, "min_n_trials must be an integer of at least 2"),
        (
            {"criterion": "regret-bound", "threshold": "auto"},
            "threshold must be another one with criterion='regret-bound', but got 'auto'",
        ),
        (
            {"criterion": "probability-of-improvement", "threshold": "cross-validation"},
            "threshold must be another one",
        ),
        (
            {"criterion": "probability-of-improvement", "threshold": 2.0},
            "threshold must be a number between 0 and 1",
        ),
    ],
)
def test_rule_refuses_bad_values(arguments: dict[str, Any], message: str) -> None:
    """The message names the argument, the rule, and the value."""
    with pytest.raises(ValueError, match=message):
        StoppingRule(**arguments)


def test_arguments_are_kept_as_plain_numbers() -> None:
    """So the settings can be stored as JSON, whatever numbers were given."""
    arguments: dict[str, Any] = {
        "criterion": "regret-gap",
        "threshold": np.str_("median"),
        "eta": np.float32(0.5),
        "delta": Fraction(1, 4),
        "patience": np.int64(2),
        "n_initial": np.int64(9),
        "min_n_trials": np.int64(5),
        "deterministic_objective": np.bool_(True),
    }
    kept = vars(StoppingRule(**arguments))
    assert kept == arguments
    assert {type(value) for value in kept.values()} == {str, float, int, bool}
    number: Any = np.float32(0.5)
    assert type(StoppingRule(threshold=number).threshold) is float


def test_patience_asks_for_completions_in_a_row() -> None:
    """Three at or below the threshold, none of them missing, and enough completions in all."""
    rule = StoppingRule(patience=3, min_n_trials=10)
    below = [_record(n, 0.5) for n in range(6, 14)]  # 6, 7, ..., 13
    assert rule.decides(below[6], below[:6])
    assert rule.decides(replace(below[6], value=1.0), below[:6])
    assert not rule.decides(_record(12, 1.1), below[:6])
    assert not rule.decides(below[6], [*below[:5], _record(11, 1.1)])
    assert not rule.decides(below[6], below[:5])  # the record of the 11th is missing
    assert not rule.decides(below[6], [below[5]])
    assert not rule.decides(below[3], below[:3])  # the 9th
    assert rule.decides(below[4], below[:4])  # the 10th; the run may have begun before
    assert not rule.decides(replace(below[4], n_failed=1), below[:4])  # the 9th that has a value
    assert not rule.decides(_record(12, math.inf, math.inf), below[:6])
    assert StoppingRule(patience=1).decides(_record(20, 0.5), [])


def test_failed_completions_neither_count_nor_interrupt() -> None:
    """As if they had not been: patience goes on with the next one, if its record is the next."""
    rule = StoppingRule(patience=3, min_n_trials=2)
    failed = [StoppingRecord(n_trials=n, has_failed=True) for n in range(40)]
    row = [_record(20, 0.5), failed[21], _record(22, 0.5), failed[23], failed[24]]
    assert rule.decides(_record(25, 0.5), row)
    assert not rule.decides(failed[25], [_record(22, 0.5), _record(23, 0.5), _record(24, 0.5)])
    assert not rule.decides(_record(25, 0.5), row[1:])
    assert not rule.decides(_record(25, 0.5), [row[0], *row[2:]])  # the 21st is missing
    assert not rule.decides(_record(25, 0.5), [row[0], failed[21], _record(22, 1.1), *row[3:]])
