"""Optuna's distributions as dimensions of the unit cube."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from bbo_plugins.space import Dimension, SearchSpace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution


def dimension_of(distribution: BaseDistribution) -> Dimension:
    """Return the dimension with the values of ``distribution``.

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
        return Dimension.categorical(distribution.choices)
    raise TypeError(
        "distribution must be a FloatDistribution, IntDistribution or CategoricalDistribution, "
        f"but got {distribution!r}."
    )


def space_of(distributions: Mapping[str, BaseDistribution]) -> SearchSpace:
    """Return the search space of these parameters, its columns sorted by name."""
    return SearchSpace({name: dimension_of(distributions[name]) for name in sorted(distributions)})
