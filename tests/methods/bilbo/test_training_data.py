"""The training subset of a long search, and the observations that are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.methods.bilbo import model
from bbo_plugins.methods.bilbo.model import MAX_MODELED, BilevelModel, FunctionModel, training_data
from bbo_plugins.methods.bilbo.solution import solve
from tests.oracles.bilevel import box_problem, data_of

if TYPE_CHECKING:
    from bbo_plugins.methods.bilbo.model import FunctionData
    from bbo_plugins.space.dimension import FloatArray

PAIR = box_problem(1, 1)
FEATURES = PAIR.features


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> int:
    """Let each model have at most forty observations."""
    monkeypatch.setattr(model, "MAX_MODELED", 40)
    return 40


def random_data(n: int, seed: int = 0) -> FunctionData:
    """Return ``n`` observations of which nothing coincides: ``y`` tells them apart."""
    rng = np.random.default_rng(seed)
    return data_of(rng.random((n, 2)), rng.permutation(n) / n)


def upper(P: FloatArray) -> FloatArray:
    """Return F, which wants x = 0.8 and z = 0.2."""
    values: FloatArray = -np.square(P - [0.8, 0.2]).sum(axis=1)
    return values


def lower(P: FloatArray) -> FloatArray:
    """Return f, whose best answer to x is z = x: the solution is x = z = 0.5."""
    values: FloatArray = -np.square(P[:, 1] - P[:, 0])
    return values


def constraint(P: FloatArray) -> FloatArray:
    """Return a constraint that moves the solution to x = z = 0.6."""
    values: FloatArray = P[:, 0] - 0.6
    return values


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
    data = random_data(n)
    pending = np.full((2, 2), 0.25)
    data = replace(data, pending=pending, failed=pending[:1])
    modeled, left_out = training_data(data, FEATURES)
    assert left_out is not None
    assert 0.9 * limit <= len(modeled.y) <= limit
    assert len(modeled.y) + len(left_out) == n
    rows = [int(np.flatnonzero(data.y == value)[0]) for value in modeled.y]
    assert rows == sorted(set(rows))
    np.testing.assert_array_equal(modeled.X, data.X[rows])
    np.testing.assert_array_equal(np.delete(data.X, rows, axis=0), left_out)
    assert modeled.pending is data.pending
    assert modeled.failed is data.failed


@pytest.mark.usefixtures("limit")
def test_observations_that_are_left_out_count_as_successes() -> None:
    """The margin to failure counts them, as they say where an evaluation has succeeded."""
    data = random_data(300)
    failed = np.random.default_rng(3).random((5, 2))
    data = replace(data, pending=failed, failed=failed)
    model = FunctionModel.fit("h", data, FEATURES, is_constraint=False)
    P = np.random.default_rng(1).random((200, 2))
    expected = [
        min(np.linalg.norm(failed - p, axis=1)) - min(np.linalg.norm(data.X - p, axis=1)) for p in P
    ]
    np.testing.assert_allclose(model.margin_to_failure(P), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        model.without_pending.margin_to_failure(P), expected, rtol=0, atol=1e-12
    )


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("constrained", [False, True])
def test_a_long_search_knows_its_solution(constrained: bool) -> None:
    """Five hundred noisy observations of each function, of which the models have forty."""
    names = ("C",) if constrained else ()
    problem = box_problem(1, 1, upper_constraints=names)
    rng = np.random.default_rng(0)
    functions = {"upper": upper, "lower": lower, "C": constraint}
    best = 0.6 if constrained else 0.5
    data = {}
    for seed, name in enumerate(problem.functions):
        P = np.clip(searched(500, seed) + best - 0.5, 0.0, 1.0)
        data[name] = data_of(P, functions[name](P) + 1e-3 * rng.standard_normal(500))
    model = BilevelModel.fit(problem, data)
    pair = solve(model, problem, rng=np.random.default_rng(0))
    assert pair.tier == 0
    np.testing.assert_allclose(pair.point, [best, best], atol=0.04)
