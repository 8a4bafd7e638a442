"""Completions: their order, their search space, and the estimates that come with them."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.training_subset import MAX_MODELED
from bbo_plugins.optuna.stopping.completions import (
    CompletedTrials,
    LearnedSpace,
    completions_of,
    in_order,
)
from bbo_plugins.optuna.study.attributes import Proposal
from bbo_plugins.optuna.study.trials import TrialReader
from tests.optuna.stopping.studies import PLANE, add, completed_in, new_study

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

UNIT = FloatDistribution(0.0, 1.0)


def _study(minutes: list[int]) -> Study:
    study = new_study()
    for minute in minutes:
        add(study, {"x": 0.01 * minute, "y": 0.5}, float(minute), minute=minute)
    return study


@given(minutes=st.lists(st.integers(0, 9), max_size=9), data=st.data())
def test_recorded_places_are_kept_and_the_others_filled_by_time(
    minutes: list[int], data: st.DataObject
) -> None:
    """For any set of places given already: a permutation that keeps them, the rest in order."""
    complete = completions_of(TrialReader().read(_study(minutes)))
    n = len(minutes)
    places = data.draw(st.permutations(range(1, n + 1)))
    numbers = data.draw(st.permutations(range(n)))
    n_recorded = data.draw(st.integers(0, n))
    recorded = dict(list(zip(places, numbers, strict=True))[:n_recorded])
    order = [completion[0].number for completion in in_order(complete, recorded)]
    assert sorted(order) == list(range(n))
    assert all(order[place - 1] == number for place, number in recorded.items())
    rest = [number for number in order if number not in recorded.values()]
    assert rest == sorted(rest, key=lambda number: (minutes[number], number))


def test_points_are_those_of_the_trials_alone() -> None:
    """Whatever was asked before: more trials, fewer, another order, another space."""
    study = new_study()
    rng = np.random.default_rng(0)
    choice = CategoricalDistribution(["a", "b"])
    for index in range(8):
        distributions: dict[str, Any] = {**PLANE, "c": choice} if index < 5 else dict(PLANE)
        values: dict[str, Any] = {"x": rng.random(), "y": rng.random(), "c": "ab"[index % 2]}
        params = {name: values[name] for name in distributions}
        add(study, params, float(index), distributions=distributions)
    order = in_order(completions_of(TrialReader().read(study)), {})
    other = (*order[:2], order[3], order[2], *order[4:])
    learned = LearnedSpace()
    for asked in (order[:3], order[:5], order[:2], order, order[:7], other, other[:4], order):
        completed = CompletedTrials.of(asked, learned)
        expected = CompletedTrials.of(asked, LearnedSpace())
        assert completed is not None
        assert expected is not None
        assert completed.space == expected.space
        assert completed.space.names == ("c", "x", "y")
        is_missing = any(completion[0].number >= 5 for completion in asked)
        assert set(completed.space.conditions) == ({"c"} if is_missing else set())
        np.testing.assert_array_equal(completed.X, expected.X)
        rows = [completion[0] for completion in asked]
        np.testing.assert_array_equal(
            completed.X[:, -2:], [[row.params["x"], row.params["y"]] for row in rows]
        )
        np.testing.assert_array_equal(completed.y, [row.value for row in rows])


def test_times_with_a_zone_are_read_without_it() -> None:
    """Optuna's own have none; trials that another program has written may."""
    study = _study([2, 1])
    for trial in study.get_trials(deepcopy=False)[1:]:
        assert trial.datetime_complete is not None
        trial.datetime_complete = trial.datetime_complete.replace(tzinfo=UTC)
    assert completed_in(study).y.tolist() == [-1.0, -2.0]


@pytest.mark.parametrize(
    "names, loss, n_points, is_used",
    [
        ("xy", "Marginal", 0.9, True),
        ("xy", "Marginal", 0.7, False),
        ("xy", "WeightedLeaveOneOut", 0.9, False),
        ("xz", "Marginal", 0.9, False),
    ],
    ids=["usable", "of too few trials", "by another loss", "of other parameters"],
)
@pytest.mark.parametrize("n", [10, MAX_MODELED * 3 // 2], ids=["short", "long"])
def test_estimates_of_the_sampler(
    names: str, loss: str, n_points: float, n: int, *, is_used: bool
) -> None:
    """Used is the latest one by the same loss, of this space, and of three quarters of the model.

    A model of a long study has a part of the trials.
    """
    n_modeled = int(n_points * min(n, MAX_MODELED))
    fit = WarmStart(np.log([0.3, 0.7, 2.0, 0.1]), np.eye(4), -1.0, n_modeled).to_json()
    proposal = Proposal(dict.fromkeys(names, 0.5), (fit,), loss=loss)
    study = _study([i % 100 for i in range(n - 1)])
    attributes = proposal.to_attributes()
    add(study, {"x": 0.5, "y": 0.5}, 1.0, minute=10**5, system_attrs=attributes)
    estimate = completed_in(study).estimate
    assert (estimate is not None) is is_used
    if estimate is not None:
        np.testing.assert_allclose(estimate.length_scales, [0.3, 0.7])


def test_the_latest_range_counts() -> None:
    """A value beyond it is placed at its end, and its trial still counts."""
    study = new_study()
    for high, x in ((1.0, 0.5), (2.0, 1.5), (4.0, 2.0), (1.0, 0.5)):
        distributions = {**PLANE, "x": FloatDistribution(0.0, high)}
        add(study, {"x": x, "y": 0.5}, 1.0, distributions=distributions)
    columns = [completed_in(study, n).X[:, 0].tolist() for n in range(1, 5)]
    assert columns == [[0.5], [0.25, 0.75], [0.125, 0.375, 0.5], [0.5, 1.0, 1.0, 0.5]]


def test_parameter_of_several_kinds_is_left_out() -> None:
    """A number that becomes a category has no common scale; the trials count by the others."""
    study = new_study()
    kinds: list[tuple[BaseDistribution, Any]] = [
        (UNIT, 0.5),
        (CategoricalDistribution(["a", "b"]), "a"),
    ]
    for distribution, value in kinds:
        params: dict[str, Any] = {"x": value, "y": 0.5, "z": 0.5}
        add(study, params, 1.0, distributions={"x": distribution, "y": UNIT, "z": UNIT})
    assert completed_in(study, 1).space.names == ("x", "y", "z")
    assert completed_in(study).space.names == ("y", "z")
    assert completed_in(study).X.shape == (2, 2)


def test_conditional_parameters_and_estimates_for_them() -> None:
    """A parameter that one branch has is inactive in the other, and is learned as such.

    Proposals have the active parameters only, and the names of the others.
    """
    fit = WarmStart(np.log([0.3, 0.4, 0.7, 2.0, 0.1]), np.eye(5), -1.0, 12).to_json()
    choice = CategoricalDistribution(["a", "b"])
    distributions = {"a1": UNIT, "b1": UNIT, "k": choice}
    study = new_study()
    rng = np.random.default_rng(0)
    for k in "ab" * 6:
        params: dict[str, Any] = {"k": k, f"{k}1": rng.random()}
        proposal = Proposal.of(params, distributions, fits=(fit,), loss="Marginal")
        own = {name: distributions[name] for name in params}
        add(study, params, 1.0, distributions=own, system_attrs=proposal.to_attributes())
    first, both = completed_in(study, 1), completed_in(study)
    assert (first.space.names, dict(first.space.conditions)) == (("a1", "k"), {})
    assert first.estimate is None
    assert both.space.names == ("a1", "b1", "k")
    expected = [[k == "a", k == "b", True] for k in "ab" * 6]
    np.testing.assert_array_equal(both.space.active(both.X), expected)
    assert [both.space.decode(x) for x in both.X] == [trial.params for trial in study.trials]
    assert both.estimate is not None
    np.testing.assert_allclose(both.estimate.length_scales, [0.3, 0.4, 0.7])
