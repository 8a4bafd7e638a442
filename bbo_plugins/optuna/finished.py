"""What a finished trial tells a model, in the objective's own direction and units."""

from __future__ import annotations

import math
import numbers
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from optuna.trial import FrozenTrial

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
