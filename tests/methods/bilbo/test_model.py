"""The data and models of a bilevel problem: units, unanswered queries, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.targets import LogLogTransform
from bbo_plugins.methods.bilbo.model import (
    MAX_MODELED,
    BilevelModel,
    FunctionData,
    FunctionModel,
    training_data,
)
from bbo_plugins.methods.bilbo.solution import solve
from tests.oracles.bilevel import box_problem, data_of

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray


FEATURES = box_problem(1, 1).features
X = np.random.default_rng(0).random((12, 2))
Y = np.sin(5.0 * X[:, 0]) + X[:, 1]


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"y": Y[:3]}, r"y must have shape \(12,\), but got \(3,\)"),
        (
            {"unanswered": np.empty((2, 3))},
            r"unanswered must have shape \(2, 2\), but got \(2, 3\)",
        ),
        ({"failed": np.empty((2, 3))}, r"failed must have shape \(2, 2\), but got \(2, 3\)"),
        ({"failed_order": np.arange(2)}, r"failed_order must have shape \(0,\), but got \(2,\)"),
        ({"y": np.full(12, np.nan)}, "y must be finite"),
    ],
)
def test_data_check_their_shapes(wrong: dict[str, Any], message: str) -> None:
    """Arrays that do not fit each other are refused by name."""
    with pytest.raises(ValueError, match=message):
        replace(data_of(X, Y), **wrong)


@settings(deadline=None)
@given(
    y=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9).map(np.array),
    is_constraint=st.booleans(),
)
def test_units_lead_there_and_back(y: FloatArray, is_constraint: bool) -> None:
    """Units are finite, invertible and increasing; a constraint keeps its sign."""
    units = LogLogTransform.fit(y, is_constraint=is_constraint)
    z = units.forward(y)
    assert np.isfinite(z).all()
    assert units.scale > 0.0
    assert units.inverse(z) == pytest.approx(
        y, rel=1e-9, abs=max(1e-300, 1e-9 * float(np.abs(y).max()))
    )
    if is_constraint:
        assert (np.sign(z) == np.sign(np.where(np.abs(z) > 0.0, y, 0.0))).all()


def test_an_unanswered_query_is_not_known() -> None:
    """What is reported, and the unit of uncertainty, are those of the observations alone."""
    P = np.random.default_rng(1).random((20, 2))
    problem = box_problem(1, 1, upper_constraints=("C",), lower_constraints=("c",))
    data = {name: data_of(X, Y) for name in problem.functions}
    plain = BilevelModel.fit(problem, data)
    assert plain.without_unanswered is plain
    for name in problem.functions:
        of_one = BilevelModel.fit(problem, {**data, name: data_of(X, Y, P)})
        for model, known, expected in zip(
            of_one.functions, of_one.without_unanswered.functions, plain.functions, strict=True
        ):
            for ours, theirs in zip(known.predict(P), expected.predict(P), strict=True):
                assert ours == pytest.approx(theirs, abs=1e-12)
            assert model.scale == pytest.approx(expected.scale, abs=1e-12)
            assert (model.predict(P)[1].max() < 0.5 * known.predict(P)[1].max()) == (
                model.name == name
            )


def test_spread_estimates_the_variation_over_the_space() -> None:
    """Data that cluster have a small deviation of their own; the spread is that of the space."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random((40, 2)), 0.5 + 0.02 * rng.standard_normal((40, 2))])
    y = np.sin(5.0 * points[:, 0]) + points[:, 1]
    everywhere = rng.random((4000, 2))
    true = np.std(np.sin(5.0 * everywhere[:, 0]) + everywhere[:, 1])
    model = FunctionModel.fit("h", data_of(points, y), FEATURES, is_constraint=False)
    assert model.scale * model.transform.scale == pytest.approx(true, rel=0.1)
    assert np.std(y) < 0.8 * true


PAIR = box_problem(1, 1)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let each model have at most forty observations."""
    monkeypatch.setattr("bbo_plugins.methods.bilbo.model.MAX_MODELED", 40)
    return 40


def random_data(n: int, seed: int = 0, **queries: FloatArray) -> FunctionData:
    """Return ``n`` observations of which nothing coincides: ``y`` tells them apart."""
    rng = np.random.default_rng(seed)
    return data_of(rng.random((n, 2)), rng.permutation(n) / n, **queries)


def searched(n: int, seed: int = 0) -> FloatArray:
    """Return points of a search: a fifth all over the square, then around the solution."""
    rng = np.random.default_rng(seed)
    points = np.concatenate(
        [rng.random((n // 5, 2)), 0.5 + 0.05 * rng.standard_normal((n - n // 5, 2))]
    )
    clipped: FloatArray = np.clip(points, 0.0, 1.0)
    return clipped


@pytest.mark.parametrize("n", [1, MAX_MODELED - 1, MAX_MODELED])
def test_up_to_the_limit_all_are_training_data(n: int) -> None:
    """Below the limit nothing is different: not even a copy is made."""
    data = random_data(n)
    modeled, left_out = training_data(data, FEATURES)
    assert modeled is data
    assert left_out is None


@pytest.mark.parametrize("n", [41, 99, 400])
def test_beyond_it_every_observation_is_on_one_side(n: int, limit: int) -> None:
    """The training data are bounded, in order; the others are left out."""
    unanswered = np.full((2, 2), 0.25)
    data = random_data(n, unanswered=unanswered, failed=unanswered[:1])
    modeled, left_out = training_data(data, FEATURES)
    assert left_out is not None
    assert 0.9 * limit <= len(modeled.y) <= limit
    assert len(modeled.y) + len(left_out) == n
    rows = [int(np.flatnonzero(data.y == value)[0]) for value in modeled.y]
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(modeled.X, data.X[rows])
    np.testing.assert_array_equal(np.delete(data.X, rows, axis=0), left_out)
    assert modeled.unanswered is data.unanswered
    assert modeled.failed is data.failed


@pytest.mark.usefixtures("limit")
def test_observations_that_are_left_out_count_as_successes() -> None:
    """The margin to failure counts them, as they say where an evaluation has succeeded."""
    failed = np.random.default_rng(3).random((5, 2))
    data = random_data(300, unanswered=failed, failed=failed)
    model = FunctionModel.fit("h", data, FEATURES, is_constraint=False)
    P = np.random.default_rng(1).random((200, 2))
    expected = [
        min(np.linalg.norm(failed - p, axis=1)) - min(np.linalg.norm(data.X - p, axis=1)) for p in P
    ]
    np.testing.assert_allclose(model.margin_to_failure(P), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        model.without_unanswered.margin_to_failure(P), expected, rtol=0, atol=1e-12
    )


@pytest.mark.usefixtures("limit")
def test_a_long_search_knows_its_solution() -> None:
    """Five hundred noisy observations of each function, of which the models have forty.

    The upper level wants x = 0.8 and z = 0.2, the lower level answers with z = x.
    """
    rng = np.random.default_rng(0)
    P, Q = searched(500, 0), searched(500, 1)
    upper = -np.square(P - [0.8, 0.2]).sum(axis=1) + 1e-3 * rng.standard_normal(500)
    lower = -np.square(Q[:, 1] - Q[:, 0]) + 1e-3 * rng.standard_normal(500)
    model = BilevelModel.fit(PAIR, {"upper": data_of(P, upper), "lower": data_of(Q, lower)})
    pair = solve(model, PAIR, rng=np.random.default_rng(0))
    assert pair.tier == 0
    np.testing.assert_allclose(pair.point, [0.5, 0.5], atol=0.04)
