"""Ray Tune's search spaces as Optuna's distributions.

Ray's own bridge does the conversion; what it would drop, alter or trip over is refused here first,
by the name of the parameter and with what to write instead. A parameter within nested dicts is
called by its path: ``{"optimizer": {"lr": tune.loguniform(...)}}`` has ``"optimizer/lr"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution
from ray.tune.search.optuna import OptunaSearch
from ray.tune.search.sample import Categorical, Domain, Function, LogUniform, Normal, Quantized

from bbo_plugins import errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SEPARATOR = "/"
_DOMAIN = "a domain that can be searched"


def split_space(argument: str, space: object) -> tuple[dict[str, BaseDistribution], dict[str, Any]]:
    """Return the parameters of a search space and its constants, both by path.

    Args:
        argument: Name of the argument, for the messages.
        space: Ray's domains, Optuna's distributions and constants, in nested dicts.

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


def flattened(config: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the values of a nested config by path; what ``names`` has is not looked into."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if key not in names and isinstance(value, Mapping) and value:
            start = f"{key}{SEPARATOR}"
            inner = {name.removeprefix(start) for name in names if name.startswith(start)}
            flat |= {start + path: leaf for path, leaf in flattened(value, inner).items()}
        else:
            flat[key] = value
    return flat


def example_of_domain(constants: Mapping[str, Any]) -> str:
    """Return what to write in place of the first list of constants, for a message."""
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
    """Refuse what Optuna cannot express.

    Raises:
        ValueError: The domain is one of those; the message says what to write instead.
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
