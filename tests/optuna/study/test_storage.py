"""Stored proposals come back, fit into every storage, and cannot be broken by what is stored."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from bbo_plugins.optuna.study.storage import (
    ARMS,
    PREFIX,
    Proposal,
    joined_chunks,
    store_proposal,
    to_chunks,
)

DISTRIBUTIONS = {
    "x": FloatDistribution(0.0, 1.0),
    "n": IntDistribution(-(2**62), 2**62),
    "c": CategoricalDistribution([None, "a", math.nan]),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_parameters_come_back_as_they_were() -> None:
    """Numbers keep type and precision; choices are found again although JSON has no NaN or None."""
    params = {"x": 0.1 + 0.2, "n": 2**62 - 1, "c": "a"}
    attributes = Proposal.of(params, DISTRIBUTIONS).to_attributes()
    back = Proposal.from_attributes(attributes)
    assert back is not None
    assert back.values(DISTRIBUTIONS) == params
    assert type(back.values(DISTRIBUTIONS)["n"]) is int
    nan = Proposal.of({"c": float("nan")}, DISTRIBUTIONS).values(DISTRIBUTIONS)
    assert math.isnan(nan["c"])


def test_choices_that_are_gone_are_left_out() -> None:
    """The search space may have fewer choices than when the proposal was stored."""
    proposal = Proposal.of({"x": 0.5, "c": math.nan}, DISTRIBUTIONS)
    fewer = {**DISTRIBUTIONS, "c": CategoricalDistribution([None, "a"])}
    assert proposal.values(fewer) == {"x": 0.5}
    assert Proposal({"c": 1.0}).values(DISTRIBUTIONS) == {}  # the storage may hold any number


@given(
    st.dictionaries(st.text(), JSON, max_size=4),
    st.dictionaries(st.text(), st.floats(-1e300, 1e300), max_size=5),
    st.none() | st.text(),
    st.none() | st.sampled_from(ARMS),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(0), max_size=3),
    st.dictionaries(st.text(), st.text(), max_size=2),
)
def test_any_proposal_survives_storage(
    fits: dict[str, Any],
    params: dict[str, float],
    loss: str | None,
    arm: str | None,
    gain: float | None,
    outliers: list[int],
    digests: dict[str, str],
) -> None:
    """Whatever JSON the fits are made of, the attributes restore it, also as stored text."""
    proposal = Proposal(params, fits, loss, arm, gain, outliers=tuple(outliers), digests=digests)
    stored = {key: json.dumps(chunk) for key, chunk in proposal.to_attributes().items()}
    assert all(len(text) <= 2_047 for text in stored.values())
    back = Proposal.from_attributes({key: json.loads(text) for key, text in stored.items()})
    assert back is not None
    assert json.dumps(back.fits) == json.dumps(proposal.fits)
    assert dict(back.params) == params
    assert (back.criterion, back.arm, back.expected_gain) == (loss, arm, gain)
    assert back.outliers == tuple(outliers)
    assert dict(back.digests) == digests


def test_a_proposal_replaces_longer_ones() -> None:
    """A suggestion that makes way for another one is stored anew, for the same trial."""
    study = optuna.create_study()
    trial, n_chunks = study._storage.get_trial(study.ask()._trial_id), 0
    for size in (9_000, 3_000, 5_000):
        proposal = Proposal({"x": float(size)}, fits={"Marginal": "a" * size})
        n_chunks = store_proposal(study, trial, proposal, replacing=n_chunks)
        assert Proposal.from_attributes(study.trials[0].system_attrs) == proposal


def test_a_proposal_ends_before_a_longer_one_that_a_retried_trial_inherits() -> None:
    """The chunks behind it are not its own."""
    study = optuna.create_study()
    longer, shorter = Proposal({"x": 1.0}, {"Marginal": "a" * 9_000}), Proposal({"x": 2.0})
    inherited = dict(longer.to_attributes())
    study.add_trial(create_trial(state=TrialState.RUNNING, system_attrs=inherited))
    store_proposal(study, study.trials[0], shorter)
    assert Proposal.from_attributes(study.trials[0].system_attrs) == shorter


def test_a_text_ends_where_another_owner_begins() -> None:
    """What a longer text of an earlier owner has left is no part of it."""
    longer = to_chunks("p:", {"a": "x" * 5_000}, owner=1)
    shorter = to_chunks("p:", {"b": "y"}, owner=2)
    assert json.loads(joined_chunks("p:", longer, owned=True)) == {"a": "x" * 5_000}
    assert json.loads(joined_chunks("p:", longer | shorter, owned=True)) == {"b": "y"}


def test_of_a_proposal_that_is_too_long_the_fits_are_left_out() -> None:
    """The last ones first; what is read is what is left."""
    half, whole = "a" * 300_000, "a" * 600_000
    both = Proposal({"x": 1.0}, fits={"Marginal": half, "Failures": half})
    kept = replace(both, fits={"Marginal": half})
    assert Proposal.from_attributes(both.to_attributes()) == kept
    longer = replace(both, fits={"Marginal": whole, "Failures": half})
    assert Proposal.from_attributes(longer.to_attributes()) == Proposal({"x": 1.0})


@pytest.mark.parametrize("text", ["[", "x" * 3_000, "[]"])
def test_a_damaged_proposal_is_none(text: str) -> None:
    """It is read without an error."""
    assert Proposal.from_attributes({f"{PREFIX}0": text}) is None


@pytest.mark.parametrize(
    "field",
    [
        {"v": 2},
        {"params": [1.0]},
        {"params": {"x": "far"}},
        {"params": {"x": 10**400}},
        {"warps": [30.0]},
        {"warps": {"x": "a"}},
        {"outliers": [True]},
        {"outliers": {"1": 1}},
        {"fits": [{}]},
        {"digests": ["warps"]},
        {"inactive": "x"},
        {"inactive": [1]},
        {"criterion": 3},
        {"arm": "both"},
        {"expected_gain": "much"},
        {"cutoff": [1.0]},
        {"number": "1"},
        {"number": True},
        {"number": 1.5},
    ],
    ids=str,
)
def test_what_is_no_proposal_is_none(field: dict[str, Any]) -> None:
    """Of another version, or with one field of another form: it is read without an error."""
    content = {"v": 1, "params": {}}
    assert Proposal.from_attributes({f"{PREFIX}0": json.dumps(content)}) is not None
    assert Proposal.from_attributes({f"{PREFIX}0": json.dumps(content | field)}) is None
