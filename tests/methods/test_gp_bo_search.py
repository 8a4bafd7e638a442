"""Sequences of steps: pending and failed points, convergence."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.gp_bo import suggest
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles.problems import (
    BRANIN_MINIMUM,
    branin,
    observe,
    random_points,
    random_process,
    unit_box,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.acquisition.functions import AcquisitionName
    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.space.dimension import FloatArray
from tests.oracles.steps import NAMES, bound_acquisition, smooth, step

# --------------------------------------------------------------------------------------- pending


@pytest.mark.parametrize("acquisition", NAMES)
@pytest.mark.parametrize("deterministic", [True, False])
def test_successive_suggestions_without_results_are_apart(
    acquisition: AcquisitionName, deterministic: bool
) -> None:
    """Four asks in a row, each seeing the earlier ones as pending."""
    X = np.random.default_rng(0).random((10, 2))
    pending = np.empty((0, 2))
    for seed in range(4):
        observations = observe(X, smooth(X), pending=pending)
        x = step(observations, seed=seed, acquisition=acquisition, deterministic=deterministic).x
        pending = np.vstack([pending, x])
    gaps = [np.linalg.norm(a - b) for a, b in itertools.combinations(pending, 2)]
    assert min(gaps) > 0.02


def test_believed_points_shrink_the_variance_and_keep_the_mean() -> None:
    """Conditioning on the own mean (Kriging believer) leaves the mean where it was, everywhere."""
    process = random_process(unit_box(2), 12, seed=0)
    pending, new = np.random.default_rng(1).random((3, 2)), np.random.default_rng(2).random((30, 2))
    believed = process.condition_on_means(pending)
    np.testing.assert_allclose(believed.predict_mean(new), process.predict_mean(new), atol=1e-8)
    assert (believed.predict(new)[1] <= process.predict(new)[1] + 1e-12).all()
    assert (believed.predict(pending)[1] < process.predict(pending)[1]).all()
    assert process.condition_on_means(np.empty((0, 2))) is process


@pytest.mark.parametrize("deterministic", [True, False])
def test_pending_points_are_not_suggested_again(deterministic: bool) -> None:
    """In a finite space with two points left, one of them pending, the other is chosen."""
    space = SearchSpace({"a": Dimension.integers(1, 2), "b": Dimension.categorical("xy")})
    everything = space.enumerate()
    observations = observe(everything[:2], [1.0, 2.0], pending=everything[3:])
    suggestion = step(observations, space, deterministic=deterministic)
    assert not np.array_equal(suggestion.x, everything[3])
    if deterministic:
        assert np.array_equal(suggestion.x, everything[2])


# ----------------------------------------------------------------------- failures, parallel asks


def test_failed_points_are_not_suggested_again() -> None:
    """On a finite space the point that fails is left for good, noise or not."""
    space = SearchSpace({"a": Dimension.integers(0, 9)})
    X = space.encode([{"a": a} for a in (0, 2, 4, 6)])
    failed = np.empty((0, 1))
    for seed in range(6):
        observations = observe(X, np.array([0.0, 2.0, 4.0, 6.0]), failed=failed)
        made = step(observations, space, seed=seed)
        assert not np.isclose(failed, made.x).any()
        if not np.isclose(X, made.x).any():
            failed = np.vstack([failed, made.x])
    assert len(failed) >= 2


def test_a_failure_that_was_repeated_with_success_is_forgotten() -> None:
    """A point that failed once and was evaluated later says what its value says, no more."""
    X = np.random.default_rng(12).random((15, 2))
    observations = observe(X, smooth(X))
    expected = step(observations).x
    again = step(dataclasses.replace(observations, failed=X[[np.argmax(smooth(X))]])).x
    assert np.array_equal(again, expected)


@pytest.mark.parametrize("n", [8, 9])
def test_failures_are_taken_for_bad_values_where_they_are_most(n: int) -> None:
    """Beside more values they say nothing of the objective: they may be accidents."""
    rng = np.random.default_rng(5)
    X, failed = rng.random((8, 2)), rng.random((n, 2))
    acquisition, surrogate = bound_acquisition(observe(X, smooth(X), failed=failed))
    before, after = surrogate.process.predict(failed), acquisition.objective.predict(failed)
    if n > len(X):
        assert (after[0] < before[0]).any()
        assert (after[1] < before[1]).all()
    else:
        np.testing.assert_array_equal(after, before)


def test_one_failure_moves_the_mean_halfway_to_the_median() -> None:
    """Where it is above; below the median it stays, as such a value would be no news."""
    process = random_process(unit_box(2), 12, seed=0)
    P, median = np.random.default_rng(1).random((20, 2)), np.median(process.y)
    before = process.predict_mean(P)
    after = [process.penalize_failures(x[None]).predict_mean(x[None])[0] for x in P]
    assert 0 < (before > median).sum() < len(P)
    np.testing.assert_allclose(after, 0.5 * (before + np.minimum(before, median)), atol=1e-6)


# ----------------------------------------------------------------------------------- convergence


@pytest.mark.parametrize("acquisition", NAMES)
def test_finite_space_of_a_deterministic_objective_is_not_repeated(
    acquisition: AcquisitionName,
) -> None:
    """All 24 points are visited once before any is visited again; then the search goes on."""
    space = SearchSpace(
        {
            "a": Dimension.integers(1, 4),
            "b": Dimension.categorical("xyz"),
            "c": Dimension.floats(0.0, 0.5, step=0.5),
        }
    )
    X = space.enumerate()[:1]
    warm: Mapping[str, WarmStart] = {}
    for seed in range(25):
        suggestion = step(
            observe(X, smooth(X)),
            space,
            seed=seed,
            acquisition=acquisition,
            deterministic=True,
            warm_starts=warm,
        )
        warm = suggestion.warm_starts
        X = np.vstack([X, suggestion.x])
        assert len(np.unique(X, axis=0)) == min(len(X), 24)


@pytest.mark.parametrize("acquisition, deterministic", [(name, name != "logei") for name in NAMES])
def test_every_acquisition_finds_the_minimum_of_branin(
    acquisition: AcquisitionName, deterministic: bool
) -> None:
    """Regret below 0.05 after 36 trials, 6 of them random, from at least 4 of 5 seeds."""
    space = unit_box(2)
    n_found = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.random((6, 2))
        y = np.array([-branin(x) for x in X])
        warm: Mapping[str, WarmStart] = {}
        for _ in range(30):
            suggestion = suggest(
                space,
                observe(X, y),
                rng=rng,
                options=gp_bo.Options(
                    acquisition=acquisition, deterministic=deterministic, warm_starts=warm
                ),
            )
            warm = suggestion.warm_starts
            X = np.vstack([X, suggestion.x])
            y = np.append(y, -branin(suggestion.x))
        n_found += -y.max() - BRANIN_MINIMUM < 0.05
    assert n_found >= 4


def test_mixed_optimum_is_found() -> None:
    """A quadratic over a float, an integer and a category: the exact discrete part in 30 trials."""
    space = SearchSpace(
        {
            "a": Dimension.floats(-1.0, 1.0),
            "b": Dimension.integers(1, 64, log=True),
            "c": Dimension.categorical(["p", "q", "r", "s"]),
        }
    )

    def value(x: FloatArray) -> float:
        params = space.decode(x)
        trap = 0.0 if params["c"] == "r" else 0.3
        loss: float = (params["a"] - 0.3) ** 2 + math.log(params["b"] / 11.0) ** 2 + trap
        return -loss

    n_found = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = random_points(space, 8, rng)
        y = np.array([value(x) for x in X])
        for _ in range(22):
            x = suggest(space, observe(X, y), rng=rng, options=gp_bo.Options(deterministic=True)).x
            X, y = np.vstack([X, x]), np.append(y, value(x))
        best = space.decode(X[np.argmax(y)])
        n_found += best["b"] in {10, 11, 12} and best["c"] == "r" and abs(best["a"] - 0.3) < 0.1
    assert n_found >= 2
