"""Between Ray Tune and plain data: objectives, lists of points, and results."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ray.tune.result import AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, TRIAL_ID

from bbo_plugins import errors
from bbo_plugins.ray.tune.spaces import SEPARATOR, plain

MODES = ("min", "max")
CONFIG_PREFIX = "config/"  # of a trial's config in a flattened result
# How InnerHorizonScheduler calls the steps made in results, and the horizon in configs, by default.
TIME_ATTR, CONFIG_KEY = "sgd_steps", "inner_horizon"
STOPPED_EARLY = "stopped_early"  # in the last result of a trial that our stopper has stopped
# Tune adds these to every result by itself.
_NOT_RESULTS = {*AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, TRIAL_ID}
_MAX_TEXT = 2_000  # characters of a reported text that are kept


def check_objective(metric: object, mode: object, whose: str) -> None:
    """Check the name of the only metric and its mode, either of which may be None.

    Args:
        metric: The name.
        mode: "min" or "max".
        whose: Who has one objective only.

    Raises:
        TypeError: One is no string.
        ValueError: There are several, or the mode is not one of the two.
    """
    for argument, value in (("metric", metric), ("mode", mode)):
        if isinstance(value, list | tuple):
            rule = f"that of one objective for {whose}"
            raise ValueError(errors.rule_message(argument, rule, value))  # noqa: TRY004 - a limit
    _check_each([] if metric is None else [metric], [] if mode is None else [mode])


def check_objectives(metric: object, mode: object) -> None:
    """Check the names of metrics and their modes, one of each or lists of several.

    Raises:
        TypeError: One is no string.
        ValueError: There are not as many modes as metrics, or a mode is not one of the two.
    """
    n_lists = sum(isinstance(one, list | tuple) for one in (metric, mode))
    if n_lists == 0:
        check_objective(metric, mode, "BBOSearch")
        return
    metrics, modes = listed(metric), listed(mode)
    if n_lists == 1 or len(metrics) != len(modes) or not metrics:
        rule = "a list of modes, one for each of a list of metrics"
        raise ValueError(errors.rule_message("mode", rule, mode))
    _check_each(metrics, modes)
    if len(set(metrics)) < len(metrics):
        raise ValueError(errors.rule_message("metric", "a list of different names", metric))


def _check_each(metrics: Iterable[object], modes: Iterable[object]) -> None:
    for name in metrics:
        errors.check_instance("metric", name, str, "the name of a result")
    for word in modes:
        errors.check_word("mode", word, MODES)


def listed(one_or_several: Any) -> list[Any]:
    """Return the items of a list or a tuple, else the argument alone, nothing of None."""
    if isinstance(one_or_several, list | tuple):
        return [*one_or_several]
    return [] if one_or_several is None else [one_or_several]


def check_points(points: object, rewards: object) -> None:
    """Check that points and their rewards are lists, as many of one as of the other.

    Raises:
        TypeError: One is no list, a point is no dict, or a reward is no number.
        ValueError: There are not as many rewards as points.
    """
    if points is not None and not isinstance(points, list | tuple):
        raise TypeError(errors.rule_message("points_to_evaluate", "a list of dicts", points))
    for index, point in enumerate(points or ()):
        errors.check_instance(f"points_to_evaluate[{index}]", point, Mapping, "a dict")
    if rewards is None:
        return
    if not isinstance(rewards, list | tuple):
        raise TypeError(errors.rule_message("evaluated_rewards", "a list of numbers", rewards))
    if len(rewards) != len(points or ()):
        rule = f"as long as points_to_evaluate, which has {len(points or ())} entries"
        raise ValueError(errors.rule_message("evaluated_rewards", rule, rewards))
    for index, reward in enumerate(rewards):
        values = listed(reward)
        if any(isinstance(v, bool) or not isinstance(v, numbers.Real) for v in values):
            rule = "None, a number, or a list with a number for each metric"
            raise TypeError(errors.rule_message(f"evaluated_rewards[{index}]", rule, reward))


def entry_of(result: Mapping[str, Any], path: str) -> Any:
    """Return an entry of a result, nested or flattened, by its path; None if it is not there."""
    if path in result:
        return result[path]
    value: Any = result
    for name in path.split(SEPARATOR):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def maximized(result: Mapping[str, Any], metric: str, mode: str) -> float | None:
    """Return the objective in a result, signed so that it is maximized; None if not finite.

    Args:
        result: A result, nested or flattened.
        metric: Path of the objective.
        mode: "min" or "max".
    """
    value = finite_or_none(entry_of(result, metric))
    return value if value is None or mode == "max" else -value


def finite_or_none(value: Any) -> float | None:
    """Return ``value`` as a float, None if it is no finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def reported(result: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the numbers and texts in a flattened result that the trainable has reported."""
    for name, value in result.items():
        # A wrapper of Ray's that was made before the metric was known adds one named None.
        if not isinstance(name, str) or name in _NOT_RESULTS or name.startswith(CONFIG_PREFIX):
            continue
        entry = plain(value)
        if isinstance(entry, bool | int | float):
            yield name, entry
        elif isinstance(entry, str):
            yield name, entry[:_MAX_TEXT]
