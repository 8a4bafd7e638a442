"""Completions: their order, their search space, and that each trial is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.training_subset import MAX_MODELED
from bbo_plugins.optuna.stopping import completions
from bbo_plugins.optuna.stopping.completions import StudyCompletions, in_order
from bbo_plugins.optuna.study.proposal import Proposal
from tests.optuna.stopping.studies import PLANE, add, new_study

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.optuna.stopping.completions import Completion


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
    complete, _ = StudyCompletions().read(_study(minutes))
    n = len(minutes)
    places = data.draw(st.permutations(range(1, n + 1)))
    numbers = data.draw(st.permutations(range(n)))
    n_recorded = data.draw(st.integers(0, n))
    recorded = dict(list(zip(places, numbers, strict=True))[:n_recorded])
    order = [completion.number for completion in in_order(complete, recorded)]
    assert sorted(order) == list(range(n))
    assert all(order[place - 1] == number for place, number in recorded.items())
    rest = [number for number in order if number not in recorded.values()]
    assert rest == sorted(rest, key=lambda number: (minutes[number], number))


def test_each_trial_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often and while others run, finish, fail or are enqueued."""
    read: list[int] = []
    original = completions._completion

    def counted(row: Any) -> Completion | None:
        read.append(row.number)
        return original(row)

    monkeypatch.setattr(completions, "_completion", counted)
    study, reader = new_study(), StudyCompletions()
    running = study.ask(PLANE)
    for index in range(6):
        study.enqueue_trial({"x": 0.5})
        add(study, {"x": 0.1, "y": 0.2}, 1.0)
        add(study, {"x": 0.1, "y": 0.2}, None, state=TrialState.FAIL)
        if index == 3:
            study.tell(running, 2.0)
        complete, same = reader.read(study)
        assert same
        assert len(complete) == index + 1 + (index >= 3)
    assert sorted(read) == sorted(complete)
    assert len(read) == len(set(read))


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
    reader = StudyCompletions()
    order = in_order(reader.read(study)[0], {})
    other = (*order[:2], order[3], order[2], *order[4:])
    for asked in (order[:3], order[:5], order[:2], order, order[:7], other, other[:4], order):
        completed = reader.completed(asked)
        assert completed is not None
        assert completed.space.names == ("c", "x", "y")
        is_missing = any(completion.number >= 5 for completion in asked)
        assert set(completed.space.conditions) == ({"c"} if is_missing else set())
        expected = StudyCompletions().completed(asked)
        assert expected is not None
        assert completed.space == expected.space
        np.testing.assert_array_equal(completed.X, expected.X)
        np.testing.assert_array_equal(
            completed.X[:, -2:], [[c.trial.params["x"], c.trial.params["y"]] for c in asked]
        )
        np.testing.assert_array_equal(completed.y, [c.trial.value for c in asked])


@pytest.mark.parametrize("loss, is_used", [("Marginal", True), ("WeightedLeaveOneOut", False)])
def test_estimates_by_other_losses_are_not_taken_over(loss: str, is_used: bool) -> None:
    """Only those by the loss that the terminator would minimize itself."""
    fit = WarmStart(np.log([0.3, 0.7, 2.0, 0.1]), np.eye(4), -1.0, 9).to_json()
    study = new_study()
    for index in range(3):
        proposal = Proposal({"x": 0.5, "y": 0.5}, (fit,), loss=loss)
        add(study, {"x": 0.1 * index, "y": 0.5}, 1.0, system_attrs=proposal.to_attributes())
    reader = StudyCompletions()
    completed = reader.completed(in_order(reader.read(study)[0], {}))
    assert completed is not None
    assert (completed.estimate is not None) is is_used
    if completed.estimate is not None:
        np.testing.assert_allclose(completed.estimate.length_scales, [0.3, 0.7])


@pytest.mark.parametrize("names, is_used", [("xy", True), ("xz", False)])
def test_estimates_for_other_parameters_are_not_taken_over(names: str, is_used: bool) -> None:
    """A model of a parameter that no completion has is none of their space."""
    fit = WarmStart(np.log([0.3, 0.7, 2.0, 0.1]), np.eye(4), -1.0, 9).to_json()
    proposal = Proposal(dict.fromkeys(names, 0.5), (fit,), loss="Marginal")
    study = new_study()
    for index in range(3):
        attributes = proposal.to_attributes()
        add(study, {"x": 0.1 * index, "y": 0.5}, 1.0, system_attrs=attributes)
    reader = StudyCompletions()
    completed = reader.completed(in_order(reader.read(study)[0], {}))
    assert completed is not None
    assert (completed.estimate is not None) is is_used


@pytest.mark.parametrize("n_points, is_used", [(0.9, True), (0.7, False)])
def test_estimates_of_long_studies_are_taken_over(n_points: float, is_used: bool) -> None:
    """Where the sampler models a part of the trials, three quarters of that part are enough."""
    n = int(n_points * MAX_MODELED)
    fit = WarmStart(np.log([0.3, 0.7, 2.0, 0.1]), np.eye(4), -1.0, n).to_json()
    proposal = Proposal({"x": 0.5, "y": 0.5}, (fit,), loss="Marginal")
    study = _study([i % 100 for i in range(MAX_MODELED * 3 // 2)])
    add(study, {"x": 0.5, "y": 0.5}, 1.0, minute=10**5, system_attrs=proposal.to_attributes())
    reader = StudyCompletions()
    completed = reader.completed(in_order(reader.read(study)[0], {}))
    assert completed is not None
    assert (completed.estimate is not None) is is_used


def test_the_latest_range_counts() -> None:
    """A value beyond it is placed at its end, and its trial still counts."""
    study = new_study()
    for high, x in ((1.0, 0.5), (2.0, 1.5), (4.0, 2.0), (1.0, 0.5)):
        distributions = {**PLANE, "x": FloatDistribution(0.0, high)}
        add(study, {"x": x, "y": 0.5}, 1.0, distributions=distributions)
    reader = StudyCompletions()
    order = in_order(reader.read(study)[0], {})
    seen = [reader.completed(order[:n]) for n in range(1, 5)]
    columns = [completed.X[:, 0].tolist() for completed in seen if completed is not None]
    assert columns == [[0.5], [0.25, 0.75], [0.125, 0.375, 0.5], [0.5, 1.0, 1.0, 0.5]]


def test_parameter_of_several_kinds_is_left_out() -> None:
    """A number that becomes a category has no common scale; the trials count by the others."""
    study = new_study()
    kinds: list[tuple[BaseDistribution, Any]] = [
        (FloatDistribution(0.0, 1.0), 0.5),
        (CategoricalDistribution(["a", "b"]), "a"),
    ]
    for distribution, value in kinds:
        params: dict[str, Any] = {"x": value, "y": 0.5, "z": 0.5}
        distributions = {"x": distribution, "y": PLANE["y"], "z": PLANE["y"]}
        add(study, params, 1.0, distributions=distributions)
    reader = StudyCompletions()
    order = in_order(reader.read(study)[0], {})
    seen = [reader.completed(order[:n]) for n in (1, 2)]
    names = [completed.space.names for completed in seen if completed is not None]
    assert names == [("x", "y", "z"), ("y", "z")]
    assert seen[1] is not None
    assert seen[1].X.shape == (2, 2)


def test_conditions_follow_from_the_completions_so_far() -> None:
    """A parameter that one branch has is inactive in the other, and is learned as such."""
    study = new_study()
    choice, unit = CategoricalDistribution(["a", "b"]), FloatDistribution(0.0, 1.0)
    rng = np.random.default_rng(0)
    for index in range(12):
        k = "ab"[index % 2]
        params: dict[str, Any] = {"k": k, f"{k}1": rng.random()}
        distributions = {"k": choice, f"{k}1": unit}
        add(study, params, float(index), distributions=distributions)
    reader = StudyCompletions()
    order = in_order(reader.read(study)[0], {})
    first, both = reader.completed(order[:1]), reader.completed(order)
    assert first is not None
    assert both is not None
    assert (first.space.names, dict(first.space.conditions)) == (("a1", "k"), {})
    assert both.space.names == ("a1", "b1", "k")
    expected = [[k == "a", k == "b", True] for k in "ab" * 6]
    np.testing.assert_array_equal(both.space.active(both.X), expected)
    assert [both.space.decode(x) for x in both.X] == [dict(c.trial.params) for c in order]


def test_estimates_of_a_conditional_model_are_taken_over() -> None:
    """Its proposals have the active parameters only, and a checksum of all names."""
    fit = WarmStart(np.log([0.3, 0.4, 0.7, 2.0, 0.1]), np.eye(5), -1.0, 9).to_json()
    unit = FloatDistribution(0.0, 1.0)
    distributions = {"a1": unit, "b1": unit, "k": CategoricalDistribution(["a", "b"])}
    study = new_study()
    for k in "abab":
        params: dict[str, Any] = {"k": k, f"{k}1": 0.5}
        proposal = Proposal.of(params, distributions, fits=(fit,), loss="Marginal")
        own = {name: distributions[name] for name in params}
        add(study, params, 1.0, distributions=own, system_attrs=proposal.to_attributes())
    reader = StudyCompletions()
    order = in_order(reader.read(study)[0], {})
    first, all_ = reader.completed(order[:1]), reader.completed(order)
    assert first is not None
    assert first.estimate is None
    assert all_ is not None
    assert all_.estimate is not None
    np.testing.assert_allclose(all_.estimate.length_scales, [0.3, 0.4, 0.7])


def test_value_that_is_not_a_number_is_no_observation() -> None:
    """Optuna stores none; a storage that was edited may hold one."""
    study = _study([1, 2, 3])
    study.get_trials(deepcopy=False)[1].values = [np.nan]
    complete, _ = StudyCompletions().read(study)
    assert sorted(complete) == [0, 2]
