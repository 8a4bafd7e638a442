"""Completions: their order, their search space, and the estimates that come with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.optuna.stopping.completions import completions_of, in_order
from bbo_plugins.optuna.study.storage import RETRY_HISTORY, Proposal
from bbo_plugins.optuna.study.trials import TrialReader
from tests.optuna.stopping.studies import add, completed_in, new_study

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


def test_the_estimate_is_of_the_scale_that_the_sampler_saw() -> None:
    """The points are stretched as its were; an estimate of a scale that cannot be is none."""
    fit = WarmStart(np.log([0.3, 0.4, 2.0, 0.1]), np.eye(4), -1.0, 12).to_json()
    distributions = {"k": CategoricalDistribution(["a", "b"]), "x": UNIT}
    for warps, is_usable in (({"x": 30.0}, True), ({"k": 30.0}, False), ({}, True)):
        study, rng = new_study(), np.random.default_rng(0)
        for k in "ab" * 6:
            params: dict[str, Any] = {"k": k, "x": rng.random()}
            proposal = Proposal.of(params, distributions)
            known = replace(proposal, fits={"Marginal": fit}, criterion="Marginal", warps=warps)
            stored = known.to_attributes()
            add(study, params, 1.0, distributions=distributions, system_attrs=stored)
        completed = completed_in(study)
        assert (completed.estimate is not None) == is_usable
        assert completed.space.warps == (warps if is_usable else {})
        X = completed.space.encode([trial.params for trial in study.trials])
        np.testing.assert_allclose(completed.X, X, atol=1e-12)


def test_what_the_estimate_leaves_out_counts_as_failed() -> None:
    """With an estimate that is too old its outliers, and what it cut off, are observations."""
    for n_points, name in ((9, "Marginal"), (9, "MarginalCosinesNotUsed"), (5, "Marginal")):
        fit = WarmStart(np.log([0.3, 2.0, 0.1]), np.eye(3), -1.0, n_points).to_json()
        study = new_study()
        distributions: dict[str, BaseDistribution] = {"x": UNIT}
        for i in range(12):
            left_out: dict[str, Any] = {"outliers": (2, 5, 7), "cutoff": -10.5}
            proposal = Proposal.of({"x": i / 12}, distributions)
            known = replace(proposal, fits={"Marginal": fit}, criterion=name, **left_out)
            stored = known.to_attributes()
            add(study, {"x": i / 12}, float(i), distributions=distributions, system_attrs=stored)
        completed = completed_in(study)
        assert (completed.estimate is not None) == (n_points == 9)
        expected = [2, 5, 7, 11] if n_points == 9 else []
        assert np.flatnonzero(completed.has_failed).tolist() == expected


def _fit(n_dimensions: int) -> dict[str, Any]:
    n = n_dimensions + 2
    return WarmStart(np.log(np.full(n, 0.3)), np.eye(n), -1.0, 12).to_json()


@pytest.mark.parametrize(
    "fits", [{}, {"Marginal": "damaged"}, {"Marginal": {}}, {"Marginal": _fit(2)}]
)
def test_an_estimate_that_cannot_be_read_is_looked_past(fits: dict[str, Any]) -> None:
    """As of a proposal that was too long for its fits; the one before it counts."""
    study = new_study()
    for known in [{"Marginal": _fit(1)}, fits]:
        for i in range(6):
            proposal = Proposal({"x": 0.5}, known, criterion="Marginal").to_attributes()
            add(study, {"x": i / 6}, 1.0, distributions={"x": UNIT}, system_attrs=dict(proposal))
    estimate = completed_in(study).estimate
    assert estimate is not None
    np.testing.assert_allclose(estimate.length_scales, 0.3)


@pytest.mark.parametrize(
    "number, repeated, expected",
    [(8, None, [2]), (11, None, []), (None, None, [2]), (5, [4, 5], [2]), (5, "damaged", [])],
)
def test_numbers_of_outliers_are_of_their_own_study(
    number: int | None, repeated: object, expected: list[int]
) -> None:
    """``study.add_trials`` numbers trials anew, but one that repeats a failed trial is of it.

    Without a number, as stored before, they count.
    """
    fit = WarmStart(np.log([0.3, 2.0, 0.1]), np.eye(3), -1.0, 9).to_json()
    study = new_study()
    distributions: dict[str, BaseDistribution] = {"x": UNIT}
    for i in range(9):
        proposal = replace(
            Proposal.of({"x": i / 9}, distributions),
            fits={"Marginal": fit},
            criterion="Marginal",
            outliers=(2,),
            number=number,
        )
        stored: dict[str, Any] = {**proposal.to_attributes()} if i == 8 else {}
        if i == 8 and repeated is not None:
            stored[RETRY_HISTORY] = repeated
        add(study, {"x": i / 9}, float(i), distributions=distributions, system_attrs=stored)
    assert np.flatnonzero(completed_in(study).has_failed).tolist() == expected


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
        proposal = Proposal.of(params, distributions)
        stored = replace(proposal, fits={"Marginal": fit}, criterion="Marginal").to_attributes()
        own = {name: distributions[name] for name in params}
        add(study, params, 1.0, distributions=own, system_attrs=stored)
    first, both = completed_in(study, 1), completed_in(study)
    assert (first.space.names, dict(first.space.conditions)) == (("a1", "k"), {})
    assert first.estimate is None
    assert both.space.names == ("a1", "b1", "k")
    expected = [[k == "a", k == "b", True] for k in "ab" * 6]
    np.testing.assert_array_equal(both.space.active(both.X), expected)
    assert [both.space.decode(x) for x in both.X] == [trial.params for trial in study.trials]
    assert both.estimate is not None
    np.testing.assert_allclose(both.estimate.length_scales, [0.3, 0.4, 0.7])


def test_a_parameter_that_never_varied_is_held() -> None:
    """From ten completions on, until one has another value, or none of it."""
    study = new_study()
    distributions: dict[str, BaseDistribution] = {
        "k": CategoricalDistribution(["a", "b"]),
        "x": UNIT,
    }
    for i in range(10):
        add(study, {"k": "b", "x": i / 10}, float(i), distributions=distributions)
    held = {n: [one.held_at for one in completed_in(study, n).space.dimensions] for n in (9, 10)}
    at = float(completed_in(study).X[0, 0])
    assert held == {9: [None, None], 10: [at, None]}
    fresh = completed_in(study).space.snap(np.random.default_rng(0).random((20, 2)))
    assert set(fresh[:, 0]) == {at}
    others: list[dict[str, Any]] = [{"k": "a", "x": 0.3}, {"x": 0.3}]
    for params in others:
        another = new_study()
        another.add_trials(study.get_trials())
        own = {name: distributions[name] for name in params}
        add(another, params, 1.0, distributions=own)
        assert all(one.held_at is None for one in completed_in(another).space.dimensions)
