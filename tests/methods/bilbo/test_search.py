"""The search for the best pair: against enumeration, in mixed spaces, where sets are empty."""

from __future__ import annotations

import numpy as np
import pytest

from bbo_plugins.methods.bilbo.model import BilevelModel, BilevelProblem
from bbo_plugins.methods.bilbo.search import (
    Pair,
    anchors_of,
    best_pair,
    best_pairs,
    best_response,
    most_feasible,
    perturbed,
)
from bbo_plugins.methods.bilbo.trusted_sets import TrustedSets
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles.bilevel import (
    assembled,
    box_problem,
    data_of,
    grid_problem,
    known_model,
    random_model,
)

BOTH = {"upper_constraints": ("C",), "lower_constraints": ("c",)}


def _search(trusted: TrustedSets, problem: BilevelProblem, seed: int = 0) -> Pair:
    anchors = anchors_of(trusted, trusted.model.observed)
    return best_pair(trusted, problem, rng=np.random.default_rng(seed), anchors=anchors)


@pytest.mark.parametrize("many", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_continuous_search_is_as_good_as_a_fine_grid(seed: int, many: bool) -> None:
    """On two dimensions it comes as close to the best pair as 200 x 200 points do."""
    grid, box = grid_problem(200, 200, **BOTH), box_problem(1, 1, **BOTH)
    trusted = TrustedSets(random_model(box, 12, seed), 2.0, 0.0, many)
    exact = _search(trusted, grid)
    found = _search(trusted, box)
    assert exact.tier == found.tier == 0
    assert found.value >= exact.value - 0.02


@pytest.mark.parametrize("many", [True, False])
def test_answers_in_a_finite_space_are_exact(many: bool) -> None:
    """With more responses than a search samples, none of them is overlooked."""
    kinds = {f"z{i}": Dimension.categorical(["a", "b", "c", "d"]) for i in range(5)}
    problem = BilevelProblem(
        upper_space=SearchSpace({"x": Dimension.integers(0, 4)}),
        lower_space=SearchSpace(kinds),
        upper_constraints=("C",),
        lower_constraints=("c",),
    )
    points = problem.space.enumerate()
    assert len(points) == 5120
    rng = np.random.default_rng(0)
    observed = points[rng.integers(len(points), size=40)]
    data = {name: data_of(observed, rng.standard_normal(40)) for name in problem.functions}
    trusted = TrustedSets(BilevelModel.fit(problem, data), 1.0, 0.0, many)
    X, nothing = problem.upper_space.enumerate(), np.empty((0, 6))
    pairs = best_pairs(trusted, problem, X, rng=rng, anchors=nothing)
    for i, x in enumerate(X):
        P = points[points[:, 0] == x]
        u_F, u_f, u_C, u_c = (f.bound(P, 1.0) for f in trusted.model.functions)
        best = np.argmax(np.where(u_c >= 0.0, u_f, -np.inf))
        level = trusted.model.lower.bound(P[best][None], -1.0)
        member = (u_c >= 0.0) & (u_f >= level) if many else np.arange(len(P)) == best
        assert u_f[np.all(best_response(trusted, problem, x, rng) == P, axis=1)] == u_f[best]
        assert (pairs.best[i] == P[best, 1:]).all()
        assert (pairs.tier[i] == 0) == bool((member & (u_C >= 0.0)).any())
        value = u_F[member & (u_C >= 0.0)] if pairs.tier[i] == 0 else u_C[member]
        assert pairs.key[i] == pytest.approx(value.max())


def _flat(problem: BilevelProblem, **values: float) -> BilevelModel:
    """Return models that know each named function to have one value everywhere, others 0."""
    X = np.random.default_rng(0).random((60, len(problem.space)))
    return assembled(
        problem,
        {
            name: known_model(name, X, np.full(60, values.get(name, 0.0)), length_scale=2.0)
            for name in problem.functions
        },
    )


@pytest.mark.parametrize(
    "values, tier, is_empty",
    [
        ({"C": 1.0, "c": 1.0}, 0, False),
        ({"C": -1.0, "c": 1.0}, 1, True),
        ({"C": 1.0, "c": -1.0}, 2, True),
    ],
)
@pytest.mark.parametrize("box", [True, False])
def test_the_tier_shows_which_set_is_empty(
    values: dict[str, float], tier: int, is_empty: bool, box: bool
) -> None:
    """A search returns a pair in any case; S is empty where a constraint is violated everywhere."""
    problem = (box_problem if box else grid_problem)(1 if box else 5, 1 if box else 5, **BOTH)
    trusted = TrustedSets(_flat(problem, **values), 2.0)
    pair = _search(trusted, problem)
    rng = np.random.default_rng(0)
    _, slack = most_feasible(trusted, problem, rng=rng, anchors=np.empty((0, 2)))
    assert pair.tier == tier
    assert (slack < 0.0) == is_empty


@pytest.mark.parametrize("box", [True, False])
def test_failed_queries_do_not_make_the_trusted_set_look_empty(box: bool) -> None:
    """Queries fail where the constraint holds: the query keeps away, yet S is not empty."""
    only = {"upper_constraints": ("C",)}
    problem = box_problem(1, 1, **only) if box else grid_problem(40, 20, **only)
    rng = np.random.default_rng(0)
    X = problem.space.snap(rng.random((25, 2)) * [0.62, 1.0])
    failed = problem.space.snap(np.array([0.7, 0.0]) + rng.random((12, 2)) * [0.3, 1.0])
    data = {
        "upper": data_of(X, -np.square(X[:, 0] - 0.3), failed=failed),
        "lower": data_of(X, -np.square(X[:, 1] - X[:, 0]), failed=failed),
        "C": data_of(X, X[:, 0] - 0.75, failed=failed),
    }
    trusted = TrustedSets(BilevelModel.fit(problem, data), 2.0)
    point, largest = most_feasible(trusted, problem, rng=rng, anchors=np.empty((0, 2)))
    assert largest >= trusted.feasibility(failed).max() > 0.0
    assert largest > trusted.feasibility(point[None])[0]


def test_perturbed_levels_move() -> None:
    """However small the radius, and also where the levels of a logarithmic scale are far apart."""
    space = SearchSpace(
        {"n": Dimension.integers(1, 1000, log=True), "k": Dimension.integers(0, 10)}
    )
    X = space.encode([{"n": 2, "k": 5}] * 200)
    for radius in (0.1, 0.0015):
        moved = perturbed(space, X, radius, np.random.default_rng(0))
        np.testing.assert_array_equal(moved, space.snap(moved))
        assert (moved != X).any(axis=1).all()
        assert {1, 3} <= {params["n"] for params in map(space.decode, moved)}


def test_a_response_of_another_kind_is_not_overlooked_near_a_parent() -> None:
    """Where the best kind of response changes with x, no x is given its neighbor's kind."""
    problem = BilevelProblem(
        upper_space=SearchSpace({"x": Dimension.floats(0.0, 1.0)}),
        lower_space=SearchSpace(
            {"amount": Dimension.floats(0.0, 1.0), "kind": Dimension.categorical(["a", "b"])}
        ),
    )
    X = problem.space.snap(np.random.default_rng(0).random((160, 3)))
    is_b = X[:, 2] > 0.5
    data = {
        "upper": data_of(X, is_b - X[:, 0]),  # kind b at small x would be best
        "lower": data_of(X, 0.5 * is_b * (X[:, 0] - 0.5) - np.square(X[:, 1] - 0.5)),
    }
    trusted = TrustedSets(BilevelModel.fit(problem, data), 0.1)
    for seed in range(5):
        pair = _search(trusted, problem, seed)
        assert pair.point[2] > 0.5
        assert 0.48 < pair.point[0] < 0.53
