"""Arguments of a search algorithm: objective, points to evaluate, values of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bbo_plugins import errors
from bbo_plugins.optuna.dimensions import dimension_of
from bbo_plugins.optuna.placement import is_value_of
from bbo_plugins.ray.spaces import flattened

if TYPE_CHECKING:
    from collections.abc import Collection

    from optuna.distributions import BaseDistribution

_MODES = ("min", "max")


def check_objective(metric: object, mode: object) -> None:
    """Check the name of the metric and the mode, either of which may be None.

    Raises:
        TypeError: One is no string.
        ValueError: There are several, or the mode is not one of the two.
    """
    for argument, value in (("metric", metric), ("mode", mode)):
        if isinstance(value, list | tuple):
            rule = "that of one objective (for several use ray.tune.search.optuna.OptunaSearch)"
            raise ValueError(errors.rule_message(argument, rule, value))  # noqa: TRY004 - a limit
    if metric is not None:
        errors.check_instance("metric", metric, str, "the name of a result")
    if mode is not None:
        errors.check_word("mode", mode, _MODES)


def check_points(points: object, rewards: object) -> None:
    """Check that points and their rewards are lists, as many of one as of the other.

    Raises:
        TypeError: One is no list, or a point is no dict.
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


def params_of(
    argument: str,
    config: Mapping[str, Any],
    space: Mapping[str, BaseDistribution],
    constants: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the parameters in a config by path, in the order of the space.

    Args:
        argument: Name of the argument, for the messages.
        config: Values, nested or by path; those of some parameters may be missing.
        space: The distributions of the parameters by path.
        constants: What else a config may hold, by path; None for anything.

    Raises:
        ValueError: There is something else, or a value is not one of its parameter.
    """
    flat = flattened(config, space)
    unknown = [name for name in flat if name not in space and name not in (constants or ())]
    if unknown and constants is not None:
        rule = f"a point of the search space, which has no {unknown[0]!r}"
        raise ValueError(errors.rule_message(argument, rule, dict(config)))
    params = {name: flat[name] for name in space if name in flat}
    for name, value in params.items():
        if not is_value_of(dimension_of(space[name]), value):
            place = f"{argument}[{name!r}]"
            raise ValueError(errors.rule_message(place, f"a value of {space[name]}", value))
    return params
