"""The step with several objectives: what it maximizes, and what must not change it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bbo_plugins.acquisition.functions import ConstraintModel, Feasibility
from bbo_plugins.acquisition.hypervolume import ExpectedHypervolumeImprovement, n_dominating
from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.gp_bo import Options
from bbo_plugins.methods.multi_objective import FrontAcquisition, _modeled, combine, suggest
from tests.oracles.differences import numeric_gradients
from tests.oracles.problems import observe, random_points, random_process, unit_box

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.acquisition.maximize import Exclusions
    from bbo_plugins.methods.observations import Observations, Suggestion
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray


def two_bowls(X: FloatArray) -> FloatArray:
    """Return minus the squared distances from two places, (n, 2)."""
    places = np.array([[0.2, 0.3], [0.8, 0.6]])
    return -np.asarray(np.square(X[:, None, :2] - places).sum(axis=2))


def known(Y: FloatArray, X: FloatArray, **given: Any) -> list[Observations]:
    """Return the observations of values (n, k) at points (n, d)."""
    return [observe(X, y, **given) for y in Y.T]


def step(space: SearchSpace, objectives: list[Observations], **options: object) -> Suggestion:
    """Return the suggestion with the seed 0, which must come from the models."""
    found = suggest(
        space,
        objectives,
        rng=np.random.default_rng(0),
        options=Options(**options),  # type: ignore[arg-type]
    )
    assert not found.notes
    return found


def box(n: int, seed: int = 0) -> tuple[SearchSpace, FloatArray]:
    """Return the unit square and n random points of it."""
    space = unit_box(2)
    return space, random_points(space, n, np.random.default_rng(seed))


def test_the_front_is_found_between_the_two_optima() -> None:
    """After twenty steps most points are near the line that connects the places."""
    space, X = box(8)
    warm_starts: Mapping[str, object] = {}
    for _ in range(20):
        found = step(space, known(two_bowls(X), X), warm_starts=warm_starts)
        X, warm_starts = np.vstack([X, found.x]), found.warm_starts
        assert warm_starts.keys() == {"Marginal", "Marginal 1"}
    direction = np.array([0.6, 0.3]) / np.hypot(0.6, 0.3)
    away = X[8:] - [0.2, 0.3]
    off_line = np.abs(away[:, 0] * direction[1] - away[:, 1] * direction[0])
    along = away @ direction
    assert (off_line < 0.05).sum() >= 15
    assert np.histogram(along, bins=4, range=(0.0, np.hypot(0.6, 0.3)))[0].min() >= 2


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_an_objective_without_a_difference_changes_nothing(constant: float) -> None:
    """Not one bit."""
    space, X = box(10)
    Y = two_bowls(X)
    wide = np.column_stack([Y[:, 0], np.full(len(Y), constant), Y[:, 1]])
    assert step(space, known(wide, X)).x.tolist() == step(space, known(Y, X)).x.tolist()


def test_with_one_objective_that_varies_it_is_the_plain_step() -> None:
    """Up to where the target's map has its center, and the anchors of the search."""
    space, X = box(12)
    y = two_bowls(X)[:, 0]
    found = step(space, known(np.column_stack([y, np.zeros(12)]), X))
    plain = gp_bo.suggest(space, observe(X, y), rng=np.random.default_rng(0))
    assert found.x == pytest.approx(plain.x, abs=0.02)


def test_gradients_agree_with_differences() -> None:
    """Three objectives, a constraint and a model of failures, by the coordinates."""
    space = unit_box(2)
    processes = tuple(random_process(space, 9, seed) for seed in range(3))
    front = np.column_stack([process.mean_at_observations for process in processes])
    improvement = ExpectedHypervolumeImprovement.of(front, front.min(axis=0) - 0.1)
    constraint = ConstraintModel(random_process(space, 9, 7), 0.2)
    feasibility = Feasibility((constraint,))
    acquisition = FrontAcquisition(improvement, processes, feasibility)
    X = np.random.default_rng(3).random((6, 2))
    value, gradient = acquisition.value_and_gradient(X)
    assert value == pytest.approx(acquisition.value(X))
    assert gradient == pytest.approx(
        numeric_gradients(acquisition.value, X, step=1e-5), rel=1e-5, abs=1e-5
    )


@pytest.mark.parametrize("n", [12, 13])
def test_the_reference_points_take_turns(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is below a point far from the front, the other one between that and the front."""
    asked: list[tuple[FloatArray, FloatArray]] = []
    build = ExpectedHypervolumeImprovement.of

    def spy(values: FloatArray, reference: FloatArray) -> ExpectedHypervolumeImprovement:
        asked.append((values, reference))
        return build(values, reference)

    monkeypatch.setattr(ExpectedHypervolumeImprovement, "of", spy)
    space, X = box(n)
    Y = two_bowls(X)
    far = int(np.argmax(n_dominating(Y)))
    Y[far] -= 3.0
    step(space, known(Y, X))
    ((values, reference),) = asked
    assert (reference < values[far]).all() == (n % 2 == 0)
    assert (reference > values[far]).all() == (n % 2 == 1)
    assert (reference < values).all(axis=1).sum() >= 2


@pytest.mark.parametrize("n", [12, 13])
def test_pending_and_failed_points_are_kept_away_from(n: int) -> None:
    """The same point would be suggested without."""
    space, X = box(n)
    Y = two_bowls(X)
    alone = step(space, known(Y, X)).x
    pending = step(space, known(Y, X, pending=alone[None, :])).x
    assert np.linalg.norm(pending - alone) > 0.02
    failed = step(space, known(Y, X, failed=alone[None, :])).x
    assert np.linalg.norm(failed - alone) > 0.02


@pytest.mark.parametrize("is_noisy", [False, True])
def test_a_step_comes_closer_to_pending_points_if_no_objective_has_noise(
    is_noisy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise in one is enough to keep half of the distance to the nearest evaluated point."""
    kept: list[FloatArray | float] = []

    def spy(*arguments: Any, exclusions: Exclusions, **options: Any) -> Any:
        kept.append(exclusions.clearance)
        return real(*arguments, exclusions=exclusions, **options)

    name = "maximize"
    real = getattr(gp_bo, name)
    monkeypatch.setattr(gp_bo, name, spy)
    space, X = box(30)
    Y = two_bowls(X)
    Y[:, 1] += is_noisy * np.random.default_rng(3).standard_normal(30)
    step(space, known(Y, X, pending=X[:1] + 0.01))
    np.testing.assert_allclose(kept[0], (0.5 if is_noisy else 0.1) * math.hypot(0.01, 0.01))


@pytest.mark.parametrize("n", [12, 13])
def test_a_constraint_is_kept(n: int) -> None:
    """The side of the square on which the point would be without is infeasible."""
    space, X = box(n)
    Y = two_bowls(X)
    side = np.sign(step(space, known(Y, X)).x[0] - 0.5)
    found = step(space, known(Y, X, constraints=side * (X[:, :1] - 0.5)))
    assert side * (found.x[0] - 0.5) < 0.05
    assert found.warm_starts.keys() == {"Marginal", "Marginal 1", "Constraint 0"}


@pytest.mark.parametrize("n", [10, 11])
def test_without_a_feasible_point_the_probability_of_feasibility_counts(n: int) -> None:
    """The search goes to where the constraint is violated least."""
    space, X = box(n)
    X[:, 0] *= 0.5
    found = step(space, known(two_bowls(X), X, constraints=0.7 - X[:, :1]))
    assert found.x[0] > 0.6


def test_many_objectives_are_combined_by_random_weights() -> None:
    """A point that dominates another one is better by any weights; the best one depends on them."""
    space, X = box(12)
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((12, 6))
    Y[1] = Y[0] - 0.3  # dominated
    objectives = known(Y, X, noise_variance=np.full(12, 0.04))
    best = set()
    for seed in range(20):
        combined = combine(objectives, np.random.default_rng(seed))
        assert combined.y[0] > combined.y[1]
        assert combined.noise_variance is not None
        assert (combined.noise_variance > 0.0).all()
        best.add(int(np.argmax(combined.y)))
    assert best <= set(np.flatnonzero(n_dominating(Y) == 0).tolist())
    assert len(best) > 3
    assert step(space, objectives).x.shape == (2,)


def test_many_objectives_without_a_feasible_point_are_combined_by_all() -> None:
    """The front of all points says what a difference is worth."""
    space, X = box(12)
    constraints = 1.0 + X[:, :1]
    objectives = known(np.random.default_rng(0).random((12, 5)), X, constraints=constraints)
    assert np.isfinite(combine(objectives, np.random.default_rng(1)).y).all()
    step(space, objectives)
    step(space, known(np.ones((12, 2)), X, constraints=constraints))  # all of them are constant


def test_huge_known_noise_of_many_objectives_is_no_error() -> None:
    """Such values tell nothing."""
    space, X = box(12)
    noise = np.where(np.arange(12) < 2, 1e300, 0.01)
    objectives = known(np.random.default_rng(0).standard_normal((12, 6)), X, noise_variance=noise)
    combined = combine(objectives, np.random.default_rng(0))
    assert combined.noise_variance is not None
    assert np.isfinite(combined.noise_variance).all()
    step(space, objectives)


def test_unknown_noise_of_one_objective_is_that_of_their_combination() -> None:
    """The known noise of another one does not stand for it."""
    _, X = box(8)
    first, second = known(np.random.default_rng(0).random((8, 2)), X, noise_variance=np.ones(8))
    combined = combine([replace(first, noise_variance=None), second], np.random.default_rng(1))
    assert combined.noise_variance is not None
    assert np.isnan(combined.noise_variance).all()


def test_many_objectives_have_one_fit_together() -> None:
    """One fit of all objectives together, and one of each constraint, which go on."""
    space, X = box(16)
    rng = np.random.default_rng(0)
    constraints = np.column_stack([X[:, 0] - 0.5, X[:, 1] ** 2 - 0.9])
    objectives = known(rng.standard_normal((16, 5)), X, constraints=constraints)
    first = step(space, objectives).warm_starts
    assert first.keys() == {"Marginal", "Constraint 0", "Constraint 1"}
    again = step(space, objectives, warm_starts=first).warm_starts
    for name in ("Constraint 0", "Constraint 1"):
        np.testing.assert_allclose(again[name].theta, first[name].theta, atol=0.05)


def test_many_trials_are_modeled_by_a_subset_with_the_front() -> None:
    """The same ones for all objectives."""
    space, X = box(1100)
    Y = two_bowls(X)
    kept = _modeled(known(Y, X), FeatureMap.of(space))
    assert 900 <= len(kept[0].y) <= 1000
    np.testing.assert_array_equal(kept[0].X, kept[1].X)
    front = {row.tobytes() for row in X[n_dominating(Y) == 0]}
    assert front <= {row.tobytes() for row in kept[0].X}


def test_data_that_no_model_can_be_fitted_to_give_a_random_point() -> None:
    """With a note, not an exception."""
    space, X = box(3)
    broken = replace(observe(X, np.array([0.0, 1.0, 2.0])), X=np.full_like(X, np.nan))
    found = suggest(space, [broken, broken], rng=np.random.default_rng(0))
    assert space.snap(found.x[None, :])[0].tolist() == found.x.tolist()
    assert "the point is random" in found.notes[0]
