"""Every distribution of Optuna becomes the dimension with the same values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from bbo_plugins.optuna.study.parameters import (
    ParameterLearner,
    dimension_of,
    is_single,
    is_value_of,
)
from bbo_plugins.space import Split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from optuna.distributions import BaseDistribution


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


@pytest.mark.parametrize(
    "choices, in_order",
    [
        ([64, 16, 32], [16, 32, 64]),
        ([0.3, 1, 1.0, 0, True], [0, 0.3, 1]),
        ([10**30, 0.0, -5], [-5, 0.0, 10**30]),
        ([3, 1, 2], None),
        ([2.0, 0, 1], None),
        ([0.5, 2.5, 1.5], [0.5, 1.5, 2.5]),
        ([3, 1, 4, 2, 6], [1, 2, 3, 4, 6]),
        ([64, 16], None),
        ([False, True, None], None),
        (["64", "16", "32"], None),
        ([None, 16, 32], None),
        ([math.inf, 16, 32], None),
        ([math.nan, 16, 32], None),
        ([10**400, 16, 32], None),
    ],
)
@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
def test_numbers_have_an_order(choices: list[Any], in_order: list[Any] | None) -> None:
    """Two of them have none, nor has anything else; those that follow one another may be codes."""
    dimension = dimension_of(CategoricalDistribution(choices))
    assert dimension.kind == ("categorical" if in_order is None else "ordinal")
    if in_order is not None:
        assert list(dimension.choices) == in_order
        assert [type(one) for one in dimension.choices] == [type(one) for one in in_order]
    else:
        assert repr(dimension.choices[0]) == repr(choices[0])


def learner_of(*runs: tuple[int, dict[str, float]]) -> ParameterLearner:
    """Return what has been learned of runs of equal complete trials: how many, and which."""
    learner = ParameterLearner()
    names = [params for count, params in runs for _ in range(count)]
    for number, params in enumerate(names):
        ranges: dict[str, BaseDistribution] = {n: FloatDistribution(0.0, 1.0) for n in params}
        trial = create_trial(params=params, distributions=ranges, value=0.0)
        trial.number = number
        learner.add(trial)
    return learner


def learner_of_ranges(ranges: Sequence[BaseDistribution], order: Sequence[int]) -> ParameterLearner:
    """Return what has been learned of trials with these ranges of "x", read in an order."""
    learner = ParameterLearner()
    for number in order:
        one: Any = ranges[number]
        trial = create_trial(params={"x": one.low}, distributions={"x": one}, value=0.0)
        trial.number = number
        learner.add(trial)
    return learner


A, B, C, D = (FloatDistribution(low, low + 1.0) for low in (0.0, 0.5, -2.0, 4.0))


@pytest.mark.parametrize(
    "ranges, expected, depends",
    [
        ([A] * 6, A, False),
        ([A, A, B, A, B], FloatDistribution(0.0, 1.5), True),  # it goes back and forth
        ([A, B, C, D], FloatDistribution(-2.0, 5.0), True),  # it is another one in each trial
        ([A] * 3 + [B] * 2, B, False),  # edited once
        ([A] * 5 + [B] * 5 + [C] * 5 + [D] * 5, D, False),  # edited three times
        ([A] * 10 + [B] * 5 + [A] * 5, A, False),  # edited, and taken back
        ([A] * 10 + [B, A, B, B, A, A, B] + [B] * 5, B, False),  # some workers are late
        ([A] * 10 + [B, A] * 5, FloatDistribution(0.0, 1.5), True),
        ([A, FloatDistribution(3.0, 3.0), A, B], FloatDistribution(0.0, 3.0), True),
        ([IntDistribution(1, n) for n in (9, 3, 1, 30, 2)], IntDistribution(1, 30), True),
        (
            [IntDistribution(n, 20, step=5) for n in (0, 5, 10, 0)],
            IntDistribution(0, 20, step=5),
            True,
        ),
        ([IntDistribution(n, n + 10, step=5) for n in (0, 5, 8, 0)], IntDistribution(0, 18), True),
        (
            [FloatDistribution(n / 10, 1.0, step=0.1) for n in (0, 2, 1, 2)],
            FloatDistribution(0.0, 1.0, step=0.1),
            True,
        ),
        (
            [FloatDistribution(0.0, 1.0, step=s) for s in (0.1, 0.25, 0.1, 0.5)],
            FloatDistribution(0.0, 1.0),
            True,
        ),
        (
            [FloatDistribution(low, 1.0, log=True) for low in (0.1, 0.01, 0.1, 0.5)],
            FloatDistribution(0.01, 1.0, log=True),
            True,
        ),
        ([A, FloatDistribution(-1.7e308, 0.0), FloatDistribution(0.0, 1.7e308), A], A, False),
        ([B, FloatDistribution(-math.inf, 1.0), B, FloatDistribution(0.0, math.inf), A], A, False),
    ],
)
def test_a_range_that_depends_on_others_counts_as_the_one_that_holds_all(
    ranges: list[BaseDistribution], expected: BaseDistribution, *, depends: bool
) -> None:
    """One that was edited for good counts as the latest; whatever the order trials are read in."""
    for order in (range(len(ranges)), reversed(range(len(ranges)))):
        learned = learner_of_ranges(ranges, list(order)).parameters()
        assert learned.distributions == {"x": expected}
        assert learned.dependent == ({"x"} if depends else set())


@pytest.mark.parametrize(
    "one, other",
    [
        (FloatDistribution(1.0, 2.0, log=True), FloatDistribution(-1.0, 2.0)),
        (IntDistribution(1, 2, log=True), IntDistribution(-1, 2)),
        (IntDistribution(1, 5), FloatDistribution(0.5, 2.0)),
        (FloatDistribution(1.0, 2.0), CategoricalDistribution([1.0, 2.0])),
    ],
)
def test_trials_may_disagree_about_a_type_in_any_way(
    one: BaseDistribution, other: BaseDistribution
) -> None:
    """As trials added from another study; there is no range that holds both."""
    for order in ((one, other), (other, one)):
        learner = ParameterLearner()
        for number, distribution in enumerate(order):
            ranges = {"x": distribution, "y": A}
            trial = create_trial(params={"x": 1, "y": 0.5}, distributions=ranges, value=0.0)
            trial.number = number
            learner.add(trial)
        assert learner.parameters().disputed == {"x"}
        assert learner.parameters().distributions == {"y": A}


@given(st.permutations(range(12)), st.randoms(use_true_random=False))
def test_the_order_in_which_ranges_are_read_does_not_matter(order: list[int], rng: Random) -> None:
    """As several processes see trials end in different orders."""
    ranges = [IntDistribution(rng.randint(0, 2), rng.randint(3, 6)) for _ in order]
    expected = learner_of_ranges(ranges, range(len(ranges))).parameters()
    assert learner_of_ranges(ranges, order).parameters() == expected


BOTH = {"old": 0.5, "kept": 0.5}
RENAMED = {"new": 0.5, "kept": 0.5}


def test_a_name_that_was_replaced_is_gone_after_ten_trials() -> None:
    """Nine trials may be chance; after ten the new parameter exists always, the old one never."""
    early = learner_of((25, BOTH), (9, RENAMED)).parameters()
    assert set(early.distributions) == {"old", "new", "kept"}
    assert early.conditions == {"old": True, "new": True}
    late = learner_of((25, BOTH), (10, RENAMED))
    assert set(late.parameters().distributions) == {"new", "kept"}
    assert late.parameters().conditions == {}
    assert late.all_parameters() == early


def test_a_name_that_comes_back_is_a_parameter_again() -> None:
    """The old name is dropped no longer; both are as undecided as they were."""
    learned = learner_of((25, BOTH), (10, RENAMED), (1, BOTH)).parameters()
    assert set(learned.distributions) == {"old", "new", "kept"}
    assert learned.conditions == {"old": True, "new": True}


@pytest.mark.parametrize("meanwhile", [RENAMED, {"kept": 0.5}])
def test_a_change_that_is_taken_back_is_recognized(meanwhile: dict[str, float]) -> None:
    """Ten trials later, whether the parameter had another name or was left out."""
    undecided = learner_of((25, BOTH), (12, meanwhile), (9, BOTH)).parameters()
    assert undecided.conditions["old"] is True
    again = learner_of((25, BOTH), (12, meanwhile), (10, BOTH)).parameters()
    assert set(again.distributions) == {"old", "kept"}
    assert again.conditions == {}
    short = learner_of((25, BOTH), (9, meanwhile), (10, BOTH)).parameters()
    assert short.conditions["old"] is True


def test_two_changes_are_recognized_one_after_the_other() -> None:
    """Each counts from its own first trial, and what was learned of the first is no rule then."""
    twice = {"new": 0.5, "other": 0.5}
    learner = learner_of((25, BOTH), (10, RENAMED))
    assert set(learner.parameters().distributions) == {"new", "kept"}
    learned = learner_of((25, BOTH), (15, RENAMED), (10, twice)).parameters()
    assert set(learned.distributions) == {"new", "other"}
    assert learned.conditions == {}


def test_what_pruned_trials_lacked_before_a_change_is_no_condition() -> None:
    """They were cut off before the objective asked for the parameter."""
    learner = ParameterLearner()
    for number in range(40):
        params = BOTH if number < 20 else RENAMED
        is_cut_off = number in (3, 7)
        trial = create_trial(
            params={"kept": 0.5} if is_cut_off else params,
            distributions={
                name: FloatDistribution(0.0, 1.0) for name in (["kept"] if is_cut_off else params)
            },
            value=None if is_cut_off else 0.0,
            state=TrialState.PRUNED if is_cut_off else TrialState.COMPLETE,
        )
        trial.number = number
        learner.add(trial)
    assert learner.parameters().conditions == {}


def test_parameters_that_alternate_are_neither_added_nor_dropped() -> None:
    """One of two in each trial, as by a switch that the objective does not tell of."""
    learned = learner_of(*[(1, BOTH), (1, RENAMED)] * 20).parameters()
    assert set(learned.distributions) == {"old", "new", "kept"}
    assert learned.conditions == {"old": True, "new": True}


def test_a_parameter_that_was_added_needs_no_condition() -> None:
    """What exists in all trials since is no conditional parameter, however many came before."""
    learned = learner_of((40, {"kept": 0.5}), (10, RENAMED)).parameters()
    assert set(learned.distributions) == {"new", "kept"}
    assert learned.conditions == {}


def test_a_branch_without_visits_keeps_its_parameters() -> None:
    """A condition that another parameter decides is no change of the objective."""
    inside, outside = {"kept": 0.1, "child": 0.5}, {"kept": 0.9}
    learned = learner_of((10, inside), (30, outside)).parameters()
    assert set(learned.distributions) == {"kept", "child"}
    assert isinstance(learned.conditions["child"], Split)


def test_after_a_change_conditions_are_learned_of_later_trials() -> None:
    """The parent was renamed: its children depend on the new name."""

    def branches(parent: str) -> list[tuple[int, dict[str, float]]]:
        return [(1, {parent: 0.1, "child": 0.5}), (1, {parent: 0.9})]

    learned = learner_of(*branches("kind") * 10, *branches("type") * 10).parameters()
    assert set(learned.distributions) == {"type", "child"}
    condition = learned.conditions["child"]
    assert isinstance(condition, Split)
    assert condition.parent == "type"
    assert condition.cells[:2] == (True, False)


def test_what_no_trial_has_had_since_a_change_is_gone() -> None:
    """Nobody knows of a branch below the new parent yet."""
    branches = [(1, {"kind": 0.1, "child": 0.5}), (1, {"kind": 0.9})]
    learned = learner_of(*branches * 10, (10, {"type": 0.9})).parameters()
    assert set(learned.distributions) == {"type"}
    assert learned.conditions == {}


def test_a_number_in_a_text_is_no_value() -> None:
    """It is one for NumPy, but cannot be compared with the bounds."""
    for value in ("3", "0.5"):
        assert not is_value_of(dimension_of(IntDistribution(0, 5)), value)
        assert not is_value_of(dimension_of(FloatDistribution(0.0, 5.0)), value)
