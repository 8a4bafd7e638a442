"""What a finished trial tells a model, in the objective's own direction and units.

Values and constraint values of finished trials as the numbers that a model takes.

The one place where the sign is flipped: what leaves it is maximized.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins import errors

if TYPE_CHECKING:
    from datetime import datetime

    from bbo_plugins.space.dimension import FloatArray

CONSTRAINTS_KEY = "constraints"  # Optuna's: a list here, or one value per "constraints:<name>"


@dataclass(frozen=True, slots=True)
class FinishedTrial:
    """What is read from a complete or pruned trial.

    Attributes:
        params: Its parameters.
        finished_at: When it finished, which tells it from another trial of the same number.
        value: Its value, or if pruned the last one it reported; NaN if there is none to be used.
        complete: Whether it was not pruned.
        constraints: Its constraint values by name.
        noise_variance: Known variance of the value's noise, NaN if unknown.
    """

    params: Mapping[str, Any]
    finished_at: datetime | None
    value: float
    complete: bool
    constraints: Mapping[str, float]
    noise_variance: float

    @classmethod
    def read(
        cls, trial: FrozenTrial, noise_func: Callable[[FrozenTrial], float] | None
    ) -> FinishedTrial:
        """Read ``trial``, which must be complete or pruned."""
        value = value_of(trial)
        noise = math.nan
        if noise_func is not None and not math.isnan(value):
            noise = _variance(noise_func(trial))
        return cls(
            params=trial.params,
            finished_at=trial.datetime_complete,
            value=value,
            complete=trial.state is TrialState.COMPLETE,
            constraints=_constraints_of(trial),
            noise_variance=noise,
        )


def value_of(trial: FrozenTrial) -> float:
    """Return the value of a complete trial or the last one a pruned trial reported, else NaN."""
    value = trial.values[0] if trial.values else None
    if trial.state is TrialState.PRUNED and trial.last_step is not None:
        value = trial.intermediate_values[trial.last_step]
    if value is None or (trial.state is TrialState.PRUNED and not math.isfinite(value)):
        return math.nan
    return float(value)


def _variance(returned: Any) -> float:
    """Return what ``noise_func`` returned if it is a variance, else NaN."""
    if not isinstance(returned, numbers.Real):
        return math.nan
    try:
        variance = float(returned)
    except OverflowError:
        return math.nan
    return variance if 0.0 <= variance < math.inf else math.nan


def _constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """Return the constraint values of a trial by name, without what is no number."""
    values: dict[str, Any] = {}
    listed = trial.system_attrs.get(CONSTRAINTS_KEY)
    if isinstance(listed, list | tuple):
        values.update({str(index): value for index, value in enumerate(listed)})
    prefix = f"{CONSTRAINTS_KEY}:"
    for key, value in trial.system_attrs.items():
        if key.startswith(prefix):
            values[key.removeprefix(prefix)] = value
    return {name: float(value) for name, value in values.items() if _is_number(value)}


def _is_number(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) <= sys.float_info.max
    return isinstance(value, float) and not math.isnan(value)


# Each constraint has a model of its own, and a storage may hold any number of them.
MAX_CONSTRAINTS = 16


OTHERS = "(others)"  # name of the last of so many, which stands for all those reported less often


def maximized(study: Study, values: Sequence[float]) -> tuple[FloatArray, int]:
    """Turn the values of a study so that they are maximized, and clip infinite ones.

    Returns:
        The values, shape (n,), an infinite one as the worst or best finite one, and how many were
        infinite.
    """
    return _finite(_sign(study) * np.array(values, dtype=np.float64))


def constraint_table(trials: Sequence[FinishedTrial]) -> tuple[tuple[str, ...], FloatArray]:
    """Return the names of all constraints and their values (n, m), NaN where missing.

    Beyond :data:`MAX_CONSTRAINTS`, the largest value of those reported least stands for them.
    """
    names = constraint_names(trials)
    table = np.full((len(trials), len(names)), np.nan)
    named = set(names)
    for column, name in enumerate(names):
        values = [trial.constraints.get(name, math.nan) for trial in trials]
        if name == OTHERS and len(names) == MAX_CONSTRAINTS:
            named.discard(OTHERS)
            rest = [[c for key, c in t.constraints.items() if key not in named] for t in trials]
            values = [max(row, default=math.nan) for row in rest]
        table[:, column] = _finite_constraints(np.array(values, dtype=np.float64))
    return names, table


def constraint_names(trials: Sequence[FinishedTrial]) -> tuple[str, ...]:
    """Return the names of all constraints in alphabetical order, :data:`OTHERS` last."""
    names = {name for trial in trials for name in trial.constraints}
    if len(names) <= MAX_CONSTRAINTS and OTHERS not in names:
        return tuple(sorted(names))
    counts = Counter(name for trial in trials for name in trial.constraints if name != OTHERS)
    kept = sorted(counts, key=lambda name: (-counts[name], name))[: MAX_CONSTRAINTS - 1]
    return (*sorted(kept), OTHERS)


def feasible_values(study: Study, finished: Mapping[int, FinishedTrial]) -> dict[int, float]:
    """Return the maximized values of the complete trials that violate no constraint.

    If any trial reports constraints, one that reports none is not known to be feasible.
    """
    sign = _sign(study)
    constrained = any(trial.constraints for trial in finished.values())
    return {
        number: sign * trial.value
        for number, trial in finished.items()
        if trial.complete
        and bool(trial.constraints) >= constrained
        and not any(value > 0.0 for value in trial.constraints.values())
    }


def _finite(values: FloatArray) -> tuple[FloatArray, int]:
    """Clip infinite values to the range of the finite ones (to ±1 if there are none).

    Returns:
        The values, NaN where they were NaN, and how many were infinite.
    """
    infinite = np.isinf(values)
    if not infinite.any():
        return values, 0
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (-1.0, 1.0)
    return np.clip(values, low, high), int(infinite.sum())


def _finite_constraints(values: FloatArray) -> FloatArray:
    """Clip infinite constraint values to the largest finite magnitude, at least 1, signs kept."""
    bound = np.abs(values[np.isfinite(values)]).max(initial=1.0)
    return np.clip(values, -bound, bound)


def lower_median(values: FloatArray) -> float:
    """Return the median, of an even number of values the lower one: a mean could overflow."""
    middle = (len(values) - 1) // 2
    return float(np.partition(values, middle)[middle])


def _sign(study: Study) -> float:
    return 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0


def checked_constraints(values: Any) -> list[float]:
    """Return what a ``constraints_func`` returned as a list of floats, infinite ones allowed.

    Raises:
        TypeError: It is not a sequence of numbers.
        ValueError: One of them is NaN or beyond the floats.
    """
    rule = "a sequence of numbers to be returned by constraints_func"
    if isinstance(values, str | bytes | Mapping | AbstractSet):
        raise TypeError(errors.rule_message("constraints", rule, values))
    try:
        numbers = [_constraint_value(value) for value in values]
    except (TypeError, ValueError) as error:
        raise TypeError(errors.rule_message("constraints", rule, values)) from error
    except OverflowError as error:
        rule = f"{rule}, none of them beyond the floats"
        raise ValueError(errors.rule_message("constraints", rule, values)) from error
    if any(math.isnan(number) for number in numbers):
        raise ValueError(errors.rule_message("constraints", f"{rule}, none of them NaN", values))
    return numbers


def _constraint_value(value: Any) -> float:
    # float() would read digits in a text and take an array of one element for a number.
    if isinstance(value, str | bytes | bytearray) or getattr(value, "ndim", None):
        raise TypeError
    return float(value)
