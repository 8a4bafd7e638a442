"""Between Ray Tune and plain data: search spaces, points and results.

Ray's own bridge turns its domains into Optuna's distributions. A domain that it would drop or alter
is refused first, by the name of the parameter and with a remedy. A parameter within nested dicts is
called by its path: ``{"optimizer": {"lr": tune.loguniform(...)}}`` has ``"optimizer/lr"``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from optuna.distributions import BaseDistribution
from ray.tune.result import AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, TRIAL_ID
from ray.tune.search.optuna import OptunaSearch
from ray.tune.search.sample import Categorical, Domain, Function, LogUniform, Normal, Quantized

from bbo_plugins import errors
from bbo_plugins.optuna.study.points import dimension_of, is_value_of

MODES = ("min", "max")
SEPARATOR = "/"
CONFIG_PREFIX = "config/"  # of a trial's config in a flattened result
STOPPED_EARLY = "stopped_early"  # in the last result of a trial that our stopper has stopped
# Tune adds these to every result by itself.
_NOT_RESULTS = {*AUTO_RESULT_KEYS, DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, TRIAL_ID}
_MAX_TEXT = 2_000  # characters of a reported text that are kept
_DOMAIN = "a domain that can be searched"


def split_space(argument: str, space: object) -> tuple[dict[str, BaseDistribution], dict[str, Any]]:
    """Return the parameters of a search space and its constants, both by path.

    Args:
        argument: Name of the argument, for the messages.
        space: Ray's domains, Optuna's distributions and constants, in nested dicts.

    Returns:
        Optuna's distributions, and the constants.

    Raises:
        TypeError: ``space`` is not a dict, or a name is not a string.
        ValueError: A parameter cannot be searched, or a name contains a slash.
    """
    errors.check_instance(argument, space, Mapping, "a dict of domains or distributions")
    distributions: dict[str, BaseDistribution] = {}
    domains: dict[str, Domain] = {}
    constants: dict[str, Any] = {}
    for path, value in _leaves(argument, space):
        if isinstance(value, Domain):
            _check_domain(_place(argument, path), value)
            domains[path] = value
        elif isinstance(value, BaseDistribution):
            distributions[path] = value
        else:
            _check_constant(_place(argument, path), value)
            constants[path] = value
    # One at a time, as paths are no names that Ray's conversion would take.
    for path, domain in domains.items():
        distributions[path] = OptunaSearch.convert_search_space({"value": domain})["value"]
    return distributions, constants


def example_of_domain(constants: Mapping[str, Any]) -> str:
    """Return a domain to write in place of the first list of constants, for a message."""
    for path, value in constants.items():
        if isinstance(value, list | tuple) and value:
            is_interval = len(value) == 2 and all(
                isinstance(end, int | float) and not isinstance(end, bool) for end in value
            )
            if is_interval and value[0] < value[1]:
                return f"such as tune.uniform({value[0]!r}, {value[1]!r}) for {path!r}"
            return f"such as tune.choice({list(value)!r}) for {path!r}"
    return "such as tune.uniform(0, 1)"


def _leaves(argument: str, space: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in space.items():
        if not isinstance(key, str):
            raise TypeError(errors.rule_message(f"a name in {argument}", "a string", key))
        if SEPARATOR in key:
            rule = f"without {SEPARATOR!r}: write nested dicts instead"
            raise ValueError(errors.rule_message(f"a name in {argument}", rule, key))
        path = prefix + key
        if isinstance(value, Mapping) and value and not _is_special(value):
            yield from _leaves(argument, value, path + SEPARATOR)
        else:
            yield path, value


def _place(argument: str, path: str) -> str:
    return f"{argument}[{path!r}]"


def _is_special(value: Any) -> bool:
    return isinstance(value, Mapping) and tuple(value) in {("grid_search",), ("eval",)}


def _check_domain(place: str, domain: Domain) -> None:
    """Refuse a domain that Optuna cannot express.

    Raises:
        ValueError: It is one of those; the message has the remedy.
    """
    sampler = domain.get_sampler()
    is_quantized = isinstance(sampler, Quantized)
    inner = sampler.get_sampler() if is_quantized else sampler
    remedy = None
    if domain.is_grid():
        remedy = "a grid has no place in a sequential search; use tune.choice"
    elif isinstance(domain, Function):
        remedy = "a function of the config cannot be modeled; compute it in the trainable"
    elif isinstance(inner, Normal):
        remedy = "a normal distribution has no bounds; use tune.uniform or tune.quniform"
    elif is_quantized and isinstance(inner, LogUniform):
        remedy = (
            "quantized values on a log scale would lose their quantization; use tune.loguniform "
            "or tune.lograndint and round in the trainable"
        )
    elif isinstance(domain, Categorical) and any(map(_has_domain, domain.categories)):
        remedy = "choices cannot hold domains; give these a place of their own in the search space"
    if remedy is not None:
        raise ValueError(f"{place} must be {_DOMAIN}: {remedy}.")


def _check_constant(place: str, value: Any) -> None:
    if isinstance(value, Mapping) and _is_special(value):
        kind = next(iter(value))
        remedy = {
            "grid_search": "a grid has no place in a sequential search; use tune.choice",
            "eval": "an expression cannot be modeled; compute it in the trainable",
        }[kind]
        raise ValueError(f"{place} must be {_DOMAIN} or a constant: {remedy}.")
    if _has_domain(value):
        raise ValueError(
            f"{place} must not hold a domain, as it is a list: use a dict instead, whose keys name "
            "the entries."
        )


def _has_domain(value: Any) -> bool:
    """Return whether a domain or distribution is anywhere within ``value``."""
    if isinstance(value, Domain | BaseDistribution) or _is_special(value):
        return True
    if isinstance(value, Mapping):
        return any(map(_has_domain, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_domain, value))


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
        errors.check_word("mode", mode, MODES)


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
        constants: Paths that a config may hold besides; None for any.

    Returns:
        The values of the parameters that are given.

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


def flattened(config: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a nested config by path; a mapping under one of ``names`` stays whole."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if key not in names and isinstance(value, Mapping) and value:
            start = f"{key}{SEPARATOR}"
            inner = {name.removeprefix(start) for name in names if name.startswith(start)}
            flat |= {start + path: leaf for path, leaf in flattened(value, inner).items()}
        else:
            flat[key] = value
    return flat


def field(result: Mapping[str, Any], path: str) -> Any:
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
    value = finite(field(result, metric))
    return value if value is None or mode == "max" else -value


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
