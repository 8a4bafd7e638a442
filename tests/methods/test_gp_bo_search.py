"""Sequences of steps: pending and failed points, convergence."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.surrogate import Surrogate
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.gp_bo import suggest
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles.problems import (
    BRANIN_MINIMUM,
    branin,
    categories_of,
    observe,
    random_points,
    random_process,
    unit_box,
)

if TYPE_CHECKING:
    from bbo_plugins.acquisition.functions import AcquisitionName
    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.space.dimension import FloatArray
from tests.oracles.steps import NAMES, smooth, step

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
    believed = gp_bo.condition_on_pending(process, pending)
    np.testing.assert_allclose(believed.predict_mean(new), process.predict_mean(new), atol=1e-8)
    assert (believed.predict(new)[1] <= process.predict(new)[1] + 1e-12).all()
    assert (believed.predict(pending)[1] < process.predict(pending)[1]).all()
    assert gp_bo.condition_on_pending(process, np.empty((0, 2))) is process


@pytest.mark.parametrize("deterministic", [True, False])
def test_pending_points_are_not_suggested_again(deterministic: bool) -> None:
    """In a finite space with two points left, one of them pending, the other is chosen."""
    space = SearchSpace({"a": Dimension.int(1, 2), "b": Dimension.categorical("xy")})
    everything = space.enumerate()
    observations = observe(everything[:2], [1.0, 2.0], pending=everything[3:])
    suggestion = step(observations, space, deterministic=deterministic)
    assert not np.array_equal(suggestion.x, everything[3])
    if deterministic:
        assert np.array_equal(suggestion.x, everything[2])


def test_the_best_mean_is_not_suggested_while_it_is_pending() -> None:
    """Not even of a noisy objective and by the greedy UCB with β = 0, until it has finished."""
    space = SearchSpace({"a": Dimension.int(1, 9)})
    everything = space.enumerate()
    observed, best = everything[:8], everything[8:]
    y = observed[:, 0]
    options: dict[str, Any] = {"acquisition": "ucb", "beta": 0.0}
    assert np.array_equal(step(observe(observed, y), space, **options).x, best[0])
    waiting = step(observe(observed, y, pending=best), space, **options)
    assert np.array_equal(waiting.x, everything[7])


# ----------------------------------------------------------------------- failures, parallel asks


def test_failures_drive_the_search_away() -> None:
    """The model's optimum fails every time; after a few failures the search is elsewhere."""
    X = np.random.default_rng(11).random((20, 2)) * np.array([0.7, 1.0])
    observations = observe(X, X[:, 0] - np.square(X[:, 1] - 0.5))
    failed = np.empty((0, 2))
    for seed in range(12):
        made = step(dataclasses.replace(observations, failed=failed), seed=seed)
        if made.x[0] > 0.75:
            failed = np.vstack([failed, made.x])
    assert 1 <= len(failed) <= 8


def test_failed_points_are_not_suggested_again() -> None:
    """On a finite space the point that fails is left for good, noise or not."""
    space = SearchSpace({"a": Dimension.int(0, 9)})
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


# ----------------------------------------------------------------------------------- convergence


@pytest.mark.parametrize("acquisition", NAMES)
def test_finite_space_of_a_deterministic_objective_is_not_repeated(
    acquisition: AcquisitionName,
) -> None:
    """All 24 points are visited once before any is visited again; then the search goes on."""
    space = SearchSpace(
        {
            "a": Dimension.int(1, 4),
            "b": Dimension.categorical("xyz"),
            "c": Dimension.float(0.0, 0.5, step=0.5),
        }
    )
    X = space.enumerate()[:1]
    warm: tuple[WarmStart, ...] = ()
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
        warm: tuple[WarmStart, ...] = ()
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
            "a": Dimension.float(-1.0, 1.0),
            "b": Dimension.int(1, 64, log=True),
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


def test_noise_does_not_stop_the_search() -> None:
    """With noise of a fifth of the range the *mean* of the best region is found."""
    n_found = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.random((6, 1))

        def noisy(X: FloatArray, rng: np.random.Generator = rng) -> FloatArray:
            return -3.0 * np.square(X[:, 0] - 0.65) + 0.2 * rng.standard_normal(len(X))

        y = noisy(X)
        for _ in range(20):
            x = suggest(unit_box(1), observe(X, y), rng=rng).x
            X, y = np.vstack([X, x]), np.append(y, noisy(x[None, :]))
        process = Surrogate.fit(X, y, FeatureMap((0,))).process
        best = X[np.argmax(process.predict_mean(X)), 0]
        n_found += abs(best - 0.65) < 0.15
    assert n_found >= 2


def test_larger_beta_explores_more() -> None:
    """UCB with β = 0 stays with the best mean, a large one goes where the variance is."""
    X = np.random.default_rng(0).random((15, 2))
    observations = observe(X, smooth(X))
    process = Surrogate.fit(X, smooth(X), FeatureMap((0, 0))).process
    deviations = [
        float(process.predict(step(observations, acquisition="ucb", beta=beta).x[None, :])[1][0])
        for beta in (0.0, 1.96, 100.0)
    ]
    assert deviations == sorted(deviations)
    grid = np.random.default_rng(1).random((2000, 2))
    greedy = step(observations, acquisition="ucb", beta=0.0).x
    assert process.predict_mean(greedy[None, :])[0] >= process.predict_mean(grid).max() - 1e-2
    assert deviations[-1] >= 0.9 * process.predict(grid)[1].max()


def test_categories_reach_the_kernel() -> None:
    """The model sees categories as categories: the best one is chosen, not the one between."""
    space = SearchSpace({"a": Dimension.categorical("pqrst"), "b": Dimension.float(0.0, 1.0)})
    assert categories_of(space) == (5, 0)
    X = random_points(space, 40, np.random.default_rng(0))
    good = np.array([1.0, -5.0, 0.9, -5.0, 0.95])
    y = good[np.floor(X[:, 0] * 5).astype(int)] - 0.1 * np.square(X[:, 1] - 0.5)
    assert space.decode(step(observe(X, y), space).x)["a"] in {"p", "r", "t"}
