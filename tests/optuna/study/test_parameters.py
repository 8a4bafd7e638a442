"""Every distribution of Optuna becomes the dimension with the same values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from bbo_plugins.optuna.study.parameters import dimension_of, is_single

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.filterwarnings("ignore:The distribution is specified by")
@pytest.mark.parametrize(
    "make",
    [
        lambda: FloatDistribution(-10.2, 10.2, step=0.1),
        lambda: FloatDistribution(0.1, 0.9, step=0.3),
        lambda: FloatDistribution(0.0018700000000000001, 0.0019, step=1e-5),
        lambda: FloatDistribution(1e6, 1e6 + 1.0, step=0.01),
        lambda: IntDistribution(-7, 100, step=9),
    ],
)
def test_every_level_is_a_value_of_the_distribution(make: Callable[[], Any]) -> None:
    """All levels are accepted by Optuna, and its upper bound is one of them."""
    distribution = make()
    dimension = dimension_of(distribution)
    levels = range(dimension.n_levels or 0)
    values = [dimension.decode(u) for u in dimension.position_of(list(levels))]
    assert all(distribution._contains(distribution.to_internal_repr(v)) for v in values)
    assert values[0] == distribution.low
    assert values[-1] == distribution.high


NAN, OTHER_NAN = math.nan, math.nan * 2.0


@pytest.mark.parametrize(
    "choices, kept",
    [
        ([1, 1.0, True], [1]),
        ([True, 0, "a", 1, False], [True, 0, "a"]),
        ([None, 2.0, "2", 2], [None, 2.0, "2"]),
        ([NAN, "a", OTHER_NAN], [NAN, "a"]),
        (["a", "b"], ["a", "b"]),
    ],
)
def test_choices_that_optuna_conflates_are_one(choices: list[Any], kept: list[Any]) -> None:
    """Of equal choices only the first can ever be observed, so only it is a category."""
    distribution = CategoricalDistribution(choices)
    dimension = dimension_of(distribution)
    assert list(map(repr, dimension.choices)) == list(map(repr, kept))
    assert dimension.n_levels == len(kept)
    assert is_single(distribution) == (len(kept) == 1)
    for choice in choices:  # what was enqueued or is held is found all the same
        level = dimension.level_of(dimension.encode([choice]))[0]
        internal = distribution.to_internal_repr(choice)
        if choice is not OTHER_NAN:
            assert dimension.choices[level] is choices[int(internal)]
