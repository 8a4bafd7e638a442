"""Optuna's distributions as dimensions of the unit cube."""

from __future__ import annotations

import math
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from bbo_plugins.space import Condition, Dimension, SearchSpace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def dimension_of(distribution: BaseDistribution) -> Dimension:
    """Return the dimension with the values of ``distribution``.

    Of choices that Optuna takes for one and the same, such as 1 and True, only the first is kept:
    it is the one that comes back from a storage, so the others could never be observed.

    Raises:
        TypeError: The distribution is of none of Optuna's three kinds.
    """
    if isinstance(distribution, FloatDistribution):
        return Dimension.float(
            distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    if isinstance(distribution, IntDistribution):
        return Dimension.int(
            distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    if isinstance(distribution, CategoricalDistribution):
        return Dimension.categorical(_distinct_choices(distribution))
    raise TypeError(
        "distribution must be a FloatDistribution, IntDistribution or CategoricalDistribution, "
        f"but got {distribution!r}."
    )


def is_single(distribution: BaseDistribution) -> bool:
    """Return whether there is one value only, or several choices that Optuna takes for one."""
    if isinstance(distribution, CategoricalDistribution):
        return len(list(islice(_distinct_choices(distribution), 2))) == 1
    return distribution.single()


def _distinct_choices(distribution: CategoricalDistribution) -> Iterator[Any]:
    """Yield the choices that Optuna finds at their own index, and of several NaNs the first."""
    nan_seen = False
    for index, choice in enumerate(distribution.choices):
        if isinstance(choice, float) and math.isnan(choice):
            if nan_seen:
                continue
            nan_seen = True
        if distribution.to_internal_repr(choice) == index:
            yield choice


def space_of(
    distributions: Mapping[str, BaseDistribution],
    conditions: Mapping[str, Condition] = MappingProxyType({}),
) -> SearchSpace:
    """Return the search space of these parameters, its columns sorted by name."""
    dimensions = {name: dimension_of(distributions[name]) for name in sorted(distributions)}
    return SearchSpace(dimensions, conditions)


def is_value_of(dimension: Dimension, value: Any) -> bool:
    """Return whether ``value`` is a choice of ``dimension`` or a number in its range."""
    try:
        dimension.encode([value])
    except (TypeError, ValueError, OverflowError):
        return False
    return is_in_range(dimension, value)


def is_in_range(range_: Dimension | BaseDistribution, value: Any) -> bool:
    """Return whether a number lies within the bounds; choices are not looked at."""
    if isinstance(range_, Dimension):
        return range_.is_categorical or bool(range_.low <= value <= range_.high)
    if isinstance(range_, FloatDistribution | IntDistribution):
        return bool(range_.low <= value <= range_.high)
    return True
