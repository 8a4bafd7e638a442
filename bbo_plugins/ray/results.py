"""What Ray Tune reports, as plain numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ray.tune.result import AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, TRIAL_ID

from bbo_plugins.ray.spaces import SEPARATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONFIG_PREFIX = "config/"  # of a trial's config in a flattened result
STOPPED_EARLY = "stopped_early"  # in the last result of a trial that our stopper has stopped
# What Tune adds to every result by itself, and is no result.
_NOT_RESULTS = {*AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, TRIAL_ID}
_MAX_TEXT = 2_000  # characters of a reported text that are kept


def field(result: Mapping[str, Any], path: str) -> Any:
    """Return an entry of a result, nested or flattened, by its path; None if it is not there."""
    if path in result:
        return result[path]
    value: Any = result
    for name in path.split(SEPARATOR):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def finite(value: Any) -> float | None:
    """Return ``value`` as a float, None if it is no finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def reported(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the numbers and texts in a flattened result that the trainable has reported."""
    for name, value in result.items():
        if name in _NOT_RESULTS or name.startswith(CONFIG_PREFIX):
            continue
        plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
        if isinstance(plain, bool | int | float):
            yield name, plain
        elif isinstance(plain, str):
            yield name, plain[:_MAX_TEXT]
