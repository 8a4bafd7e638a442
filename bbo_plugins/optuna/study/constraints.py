"""Constraints of a study's trials: their table, which trials are feasible, and what is stored.

Trials may report different constraints, by ``constraints_func`` or one by one with
``Trial.set_constraint``. A suggestion for a study without any does not come here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import numpy as np

from bbo_plugins import errors
from bbo_plugins.gp.targets import median_of
from bbo_plugins.optuna.study.storage import CONSTRAINTS_KEY, set_trial_attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.optuna.study.trials import TrialRow
    from bbo_plugins.space.dimension import FloatArray, IntArray

# Each constraint has a model of its own, and a storage may hold any number of them.
MAX_CONSTRAINTS = 64
OTHERS = "(others)"  # name of the last of so many, which stands for all those reported less often


def constraint_table(rows: Sequence[TrialRow]) -> tuple[tuple[str, ...], FloatArray]:
    """Return the names of all constraints and their values (n, m), NaN where missing.

    Beyond :data:`MAX_CONSTRAINTS`, the largest value of those reported least stands for them. A
    constraint that is never reported as met is reported where it is violated only. So a feasible
    trial without it meets it. By how much is not known: it counts as minus the least violation. In
    a branch where no complete trial reports that it meets what is met elsewhere, feasible trials
    without the constraint count as the median of the values that meet it.
    """
    names = _constraint_names(rows)
    table = np.full((len(rows), len(names)), np.nan)
    named = set(names)
    for column, name in enumerate(names):
        values = [row.constraints.get(name, math.nan) for row in rows]
        if name == OTHERS and len(names) == MAX_CONSTRAINTS:
            named.discard(OTHERS)
            rest = [[c for key, c in row.constraints.items() if key not in named] for row in rows]
            values = [max(others, default=math.nan) for others in rest]
        # An infinite value becomes the largest finite magnitude, at least 1, and keeps its sign.
        bound = max((abs(value) for value in values if math.isfinite(value)), default=1.0)
        table[:, column] = np.clip(values, -max(bound, 1.0), max(bound, 1.0))
    if not np.isnan(table).any():
        return names, table
    feasible, branches = np.array(are_feasible(rows), dtype=np.bool_), _branches(rows)
    complete = np.array([row.complete for row in rows], dtype=np.bool_)
    for reported in table.T:
        is_met = reported <= 0.0
        missing = np.isnan(reported) & feasible & ~np.isin(branches, branches[is_met & complete])
        if is_met.any():
            reported[missing] = median_of(reported[is_met])
        else:
            reported[missing] = -np.nanmin(reported)
    return names, table


def _branches(rows: Sequence[TrialRow]) -> IntArray:
    """Return the same number for trials with the same parameters, shape (n,)."""
    numbers: dict[frozenset[str], int] = {}
    found = [numbers.setdefault(frozenset(row.params), len(numbers)) for row in rows]
    return np.array(found, dtype=np.int64)


def _constraint_names(rows: Sequence[TrialRow]) -> tuple[str, ...]:
    """Return the names of all constraints in alphabetical order, :data:`OTHERS` last."""
    names = {name for row in rows for name in row.constraints}
    if len(names) <= MAX_CONSTRAINTS and OTHERS not in names:
        return tuple(sorted(names))
    counts = Counter(name for row in rows for name in row.constraints if name != OTHERS)
    kept = sorted(counts, key=lambda name: (-counts[name], name))[: MAX_CONSTRAINTS - 1]
    return (*sorted(kept), OTHERS)


def are_feasible(rows: Sequence[TrialRow]) -> list[bool]:
    """Return which of these trials are complete and violate no constraint.

    In a branch, that is the trials with the same parameters, constraints may be reported where they
    are violated only, or not at all. So a trial that reports none is feasible, unless a complete
    one of its branch reports that it meets one. And a complete one that reports none must have been
    added since the first trial with constraints: before, the objective may not have had any.
    """
    known = np.array([bool(row.constraints) for row in rows], dtype=np.bool_)
    if not known.any():
        known[:] = True
    elif not known.all():
        branches, complete = _branches(rows), np.array([row.complete for row in rows])
        is_met = [any(value <= 0.0 for value in row.constraints.values()) for row in rows]
        numbers = np.array([row.number for row in rows])
        is_since = numbers > numbers[known].min()
        believes = np.isin(branches, branches[complete & ~known & is_since])
        known |= believes & ~np.isin(branches, branches[complete & is_met])
    return [
        row.complete and is_known and not row.violates
        for row, is_known in zip(rows, known.tolist(), strict=True)
    ]


def checked_constraints(values: Any) -> list[float]:
    """Return what a ``constraints_func`` returned as a list of floats, infinite ones allowed.

    Raises:
        TypeError: It is not a sequence of numbers.
        ValueError: One of them is NaN or beyond the floats.
    """
    what, rule = "what constraints_func returns", "a sequence of numbers"
    if isinstance(values, str | bytes | Mapping | AbstractSet):
        raise TypeError(errors.rule_message(what, rule, values))
    try:
        numbers = [_constraint_value(value) for value in values]
    except (TypeError, ValueError) as error:
        raise TypeError(errors.rule_message(what, rule, values)) from error
    except OverflowError as error:
        rule = f"{rule}, none of them beyond the floats"
        raise ValueError(errors.rule_message(what, rule, values)) from error
    if any(math.isnan(number) for number in numbers):
        raise ValueError(errors.rule_message(what, f"{rule}, none of them NaN", values))
    return numbers


def _constraint_value(value: Any) -> float:
    # float() would read digits in a text and take an array of one element for a number.
    if isinstance(value, str | bytes | bytearray) or getattr(value, "ndim", None):
        raise TypeError
    return float(value)


def store_constraints(study: Study, trial: FrozenTrial, values: Sequence[float] | None) -> None:
    """Write constraint values where Optuna looks for them, None if there are none to be had."""
    stored = None if values is None else list(values)
    set_trial_attribute(study, trial, CONSTRAINTS_KEY, stored)
