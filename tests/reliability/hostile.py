"""Damage done to what a study has stored, by someone who knows its form."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import optuna
from hypothesis import strategies as st
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins.optuna.study.proposal import PREFIX
from tests.reliability.front_door import sampler_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.study import Study

Json = Any

# What JSON can hold and Python reads: numbers beyond the floats and NaN are among it.
LEAVES: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([10**400, -(10**400), 2**63, 1e308, 5e-324, -0.0, math.inf, math.nan]),
    st.sampled_from(["", "\x00", "\ud800", "x" * 3_000, "1e999", "NaN", "-1", "random", "model"]),
    st.sampled_from(
        [[[[]]], [0] * 3_000, {"": {}}, [math.nan] * 9, {str(i): i for i in range(99)}]
    ),
)
VALUES: st.SearchStrategy[Json] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
TEXTS: st.SearchStrategy[str] = st.sampled_from(
    [
        "",
        " ",
        "null",
        "{",
        "[" * 2_000,
        '{"a":' * 400,
        "9" * 2_000,
        "1e" + "9" * 2_000,
        '"' + "\\u0000" * 300,
        "\ud800",
        "x" * 100_000,
    ]
)


@st.composite
def damaged(draw: st.DrawFn, value: Json) -> Json:
    """Return ``value`` with a part of it, possibly all, missing or replaced."""
    if isinstance(value, str) and value[:1] in {"{", "["}:  # JSON in a text
        if draw(st.booleans()):
            return json.dumps(draw(damaged(json.loads(value))))
        start, stop = sorted(draw(st.tuples(*[st.integers(0, len(value))] * 2)))
        return value[:start] + draw(TEXTS) + value[stop:]
    if type(value) in {int, float} and draw(st.booleans()):  # a lie, not damage
        return draw(st.floats() if isinstance(value, float) else st.integers())
    go_inside = bool(value) and isinstance(value, dict | list) and draw(st.integers(0, 4)) > 0
    if not go_inside:
        return draw(VALUES | TEXTS)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = draw(st.sampled_from(keys))
    copy = value.copy()
    if draw(st.integers(0, 4)) == 0:
        del copy[key]
    else:
        copy[key] = draw(damaged(value[key]))
    return copy


@st.composite
def damaged_attributes(draw: st.DrawFn, attributes: Mapping[str, Json]) -> dict[str, Json]:
    """Return attributes, joined from chunks beforehand, some of which are damaged or exchanged."""
    keys = sorted(attributes)
    chosen = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=4, unique=True))
    result = dict(attributes)
    for key in chosen:
        other = attributes[draw(st.sampled_from(keys))]
        result[key] = draw(st.just(other) | damaged(attributes[key]))
    return result


def joined(attributes: Mapping[str, Json]) -> dict[str, Json]:
    """Return a trial's attributes with its proposal in one piece."""
    n, text = 0, ""
    while chunk := attributes.get(f"{PREFIX}{n}"):
        n, text = n + 1, text + chunk
    rest = {key: value for key, value in attributes.items() if not key.startswith(PREFIX)}
    return {**rest, f"{PREFIX}0": text} if text else rest


def cut(attributes: Mapping[str, Json]) -> dict[str, Json]:
    """Return attributes in which a proposal is in chunks again, if it can be cut at all."""
    text = attributes.get(f"{PREFIX}0")
    if not isinstance(text, str) or len(text) > 200_000:
        return dict(attributes)
    size = 1_000
    chunks = {f"{PREFIX}{i // size}": text[i : i + size] for i in range(0, len(text), size)}
    return {**attributes, f"{PREFIX}0": "", **chunks}


def copy_of(
    study: Study, name: str, attributes: Mapping[int, Mapping[str, Json]], own: Mapping[str, Json]
) -> Study:
    """Return a study with the same trials and a sampler of this name, but other attributes.

    Args:
        study: The study.
        name: Name of the sampler.
        attributes: System attributes by trial, where they are other ones.
        own: System attributes of the study.
    """
    made = optuna.create_study(sampler=sampler_of(name))
    for trial in study.trials:
        made.add_trial(with_attributes(trial, attributes.get(trial.number, trial.system_attrs)))
    for key, value in own.items():
        made._storage.set_study_system_attr(made._study_id, key, value)
    return made


def with_attributes(trial: FrozenTrial, attributes: Mapping[str, Json]) -> FrozenTrial:
    """Return a copy of ``trial`` with other system attributes."""
    values = trial.values if trial.state is TrialState.COMPLETE else None
    return FrozenTrial(
        number=-1,
        trial_id=-1,
        state=trial.state,
        value=None,
        values=values,
        datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs=trial.user_attrs,
        system_attrs=dict(attributes),
        intermediate_values=trial.intermediate_values,
    )
