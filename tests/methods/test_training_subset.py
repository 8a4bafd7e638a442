"""Which observations a model has when there are too many: their parts, and slow changes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import Hyperparameters
from bbo_plugins.methods import gp_bo, training_subset
from bbo_plugins.methods.observations import Observations
from bbo_plugins.methods.regret_gap.algorithm import evaluate
from bbo_plugins.methods.regret_gap.rule import StoppingRule
from bbo_plugins.methods.training_subset import MAX_MODELED, Shares, modeled
from bbo_plugins.space import Dimension, SearchSpace
from tests.oracles.problems import unit_box

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

PLANE = FeatureMap((0, 0))


def observed(X: FloatArray, y: FloatArray, **fields: Any) -> Observations:
    """Return complete observations without pending ones, unless told otherwise."""
    return replace(Observations.of_complete(X, y), **fields)


def random_study(n: int, seed: int = 0) -> Observations:
    """Return ``n`` observations of which nothing coincides: ``y`` tells them apart."""
    rng = np.random.default_rng(seed)
    return observed(rng.random((n, 2)), rng.permutation(n).astype(float))


def rows_of(subset: Observations, whole: Observations) -> list[int]:
    """Return where each observation of ``subset`` stands in ``whole``; values tell them apart."""
    place = {value: row for row, value in enumerate(whole.y.tolist())}
    return [place[value] for value in subset.y.tolist()]


# --------------------------------------------------------------------------------- size and change


@given(st.integers(10, 60), st.integers(1, 200), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_the_size_is_bounded(limit: int, excess: int, best: float, latest: float) -> None:
    """Between nine tenths of the limit and the limit, in order, each once, whatever the shares."""
    study = random_study(limit + excess)
    shares = Shares(best=min(best, 1.0), latest=min(latest, 1.0 - best))
    rows = rows_of(modeled(study, PLANE, limit=limit, shares=shares), study)
    assert limit - limit // 10 <= len(rows) <= limit
    assert rows == sorted(set(rows))


def test_the_set_changes_by_what_is_new_only() -> None:
    """Within a block nothing goes; then the whole set is chosen anew, and the next block begins."""
    limit, block = 40, 4
    whole = random_study(100)
    before: list[int] | None = None
    n_renewed = 0
    for n in range(limit + 1, 100):
        first = whole.take(np.arange(n))
        rows = rows_of(modeled(first, PLANE, limit=limit), whole)
        if n % block and before is not None:
            assert rows == [*before, n - 1]
        elif before is not None:
            n_renewed += 1
            assert len(rows) == limit - block
        before = rows
    assert n_renewed == 14


# --------------------------------------------------------------------------------------- the parts


def test_the_parts_are_best_latest_and_far_apart() -> None:
    """Each part is what brute force finds: a sort, the end, and the farthest one after another."""
    study = random_study(200)
    rows = set(rows_of(modeled(study, PLANE, limit=40), study))
    order = np.argsort(-study.y).tolist()
    expected = set(order[:9])
    rest = [row for row in range(200) if row not in expected]
    expected |= set(rest[-18:])
    while len(expected) < 36:
        gaps = [
            min(math.dist(study.X[row], study.X[other]) for other in expected) for row in range(200)
        ]
        expected.add(int(np.argmax(gaps)))
    assert rows == expected


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_the_best_point_is_never_dropped(seed: int, constrained: bool, pruned: bool) -> None:
    """Of those that are complete and feasible, the largest value takes part in every set."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(21, 90))
    y = rng.permutation(n).astype(float)
    eligible = np.ones(n, bool)
    fields: dict[str, Any] = {}
    if constrained:
        constraints = rng.normal(size=(n, 2))
        constraints[rng.random((n, 2)) < 0.2] = math.nan
        fields["constraints"] = constraints
        eligible &= ~(constraints > 0.0).any(axis=1) & ~np.isnan(constraints).all(axis=1)
    if pruned:
        fields["complete"] = rng.random(n) < 0.7
        eligible &= fields["complete"]
    if not eligible.any():
        return
    subset = modeled(observed(rng.random((n, 2)), y, **fields), PLANE, limit=20)
    assert y[eligible].max() in subset.y


# ------------------------------------------------------------------------------------- constraints


def few_reporting(k: int = 20, n: int = 3000) -> Observations:
    """Return observations of which the first k report one constraint and the next k another.

    Those are pruned and not among the best. The first constraint holds where the first coordinate
    is at most 0.3, the other one where the second is at most 0.4; values are best at (0.7, 0.7).
    """
    X = np.random.default_rng(5).random((n, 2))
    X[:k, 0] = X[k : 2 * k, 1] = np.linspace(0.02, 0.98, k)
    constraints = np.full((n, 2), math.nan)
    constraints[:k, 0] = X[:k, 0] - 0.3
    constraints[k : 2 * k, 1] = X[k : 2 * k, 1] - 0.4
    y = -np.square(X - 0.7).sum(axis=1)
    return observed(X, y, constraints=constraints, complete=np.arange(n) >= 2 * k)


@pytest.mark.parametrize("k", [1, 20])
def test_the_few_that_report_a_constraint_are_modeled(k: int) -> None:
    """All of them take part, though they are neither good nor late nor far from others."""
    subset = modeled(few_reporting(k), PLANE)
    assert subset.constraints is not None
    assert np.isfinite(subset.constraints).sum(axis=0).tolist() == [k, k]
    assert len(subset.y) == 900


# ------------------------------------------------------------------------------------------ copies


def test_copies_leave_room_for_others() -> None:
    """Of a point evaluated hundreds of times the latest few are modeled, and the other points."""
    X = random_study(400).X
    X[100:] = X[7]
    y = np.arange(400.0)
    subset = modeled(observed(X, y), PLANE, limit=40, shares=Shares(best=1.0, latest=0.0))
    copies = subset.y[(X[7] == subset.X).all(axis=1)]
    np.testing.assert_array_equal(copies, [396.0, 397.0, 398.0, 399.0])
    assert len(np.unique(subset.X, axis=0)) == 33


# ---------------------------------------------------------------------------- in a step of a search


def bowl(X: FloatArray) -> FloatArray:
    """Return a concave function with its maximum inside the square."""
    heights: FloatArray = -np.square(X - 0.4).sum(axis=1)
    return heights


def test_a_step_is_one_with_the_training_subset() -> None:
    """Beyond the limit a suggestion is, bit for bit, that of a study that has only those."""
    rng = np.random.default_rng(1)
    X = rng.random((MAX_MODELED + 120, 2))
    whole = observed(X, bowl(X) + 0.1 * rng.standard_normal(len(X)), pending=rng.random((2, 2)))
    part = modeled(whole, PLANE)
    assert len(part.y) == 920
    one, other = (
        gp_bo.suggest(unit_box(2), study, rng=np.random.default_rng(0)) for study in (whole, part)
    )
    np.testing.assert_array_equal(one.x, other.x)
    assert one.warm_starts["Marginal"].n_points == 920
    assert one.notes == ()
    assert np.linalg.norm(one.x - 0.4) < 0.3


def test_points_without_a_part_in_the_model_are_not_suggested_again() -> None:
    """Without noise an evaluated point stays one: of 1,024 points the only new one is left."""
    levels = Dimension.integers(0, 31)
    space = SearchSpace({"a": levels, "b": levels})
    X = np.random.default_rng(2).permutation(space.enumerate())[:1023]
    step = gp_bo.suggest(
        space,
        observed(X, bowl(X)),
        rng=np.random.default_rng(0),
        options=gp_bo.Options(deterministic=True),
    )
    assert step.x.tolist() not in X.tolist()


# -------------------------------------------------------------------------------- what follows it


@given(st.integers(1, 90), st.integers(1, 5))
def test_the_newest_comes_last_and_the_best_is_there(n: int, n_points: int) -> None:
    """Also where points are repeated again and again: a stopping rule looks at these two."""
    rng = np.random.default_rng(n)
    X = rng.random((n_points, 2))[rng.integers(n_points, size=n)]
    study = observed(X, rng.standard_normal(n))
    chosen = training_subset.indices(study, PLANE, limit=20)
    assert chosen[-1] == n - 1
    assert (np.diff(chosen) > 0).all()
    means = [study.y[(x == X).all(axis=1)].mean() for x in X]
    assert (X[chosen] == X[int(np.argmax(means))]).all(axis=1).any()


def test_unmodeled_values_do_not_move_the_criterion() -> None:
    """The stopping model has what is chosen, the newest completion with it; the unit is of all."""
    X = np.random.default_rng(0).random((MAX_MODELED + 130, 2))
    y, rule = bowl(X), StoppingRule(threshold=0.1)
    shared = Hyperparameters(np.array([0.3, 0.3]), 1.0, 1e-4)
    left_out = np.setdiff1d(np.arange(len(y)), training_subset.indices(observed(X, y), PLANE))
    swapped, moved = y.copy(), y.copy()
    swapped[left_out] = y[left_out][::-1]  # the same mean and deviation
    moved[-1] += 0.5
    first, same, other = (
        evaluate(unit_box(2), X, values, rule=rule, shared=shared).record.value
        for values in (y, swapped, moved)
    )
    assert math.isfinite(first)
    assert same == pytest.approx(first, rel=1e-9)
    assert other != pytest.approx(first, rel=1e-3)


def test_a_constraint_that_nobody_reports_takes_no_room() -> None:
    """As many trials are kept that report a rare one as without it."""
    X = np.random.default_rng(2).random((3_000, 2))
    rare = np.where(np.arange(len(X)) < 300, 1.0, np.nan)
    kept = []
    for n_empty in (0, 9):
        empty = np.full((len(X), n_empty), np.nan)
        table = np.column_stack([X[:, 0] - 2.0, empty, rare])
        part = modeled(observed(X, bowl(X), constraints=table), PLANE)
        assert part.constraints is not None
        kept.append(int(np.isfinite(part.constraints[:, -1]).sum()))
    assert kept[0] == kept[1]
