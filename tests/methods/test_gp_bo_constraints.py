"""Steps under constraints: feasibility, missing values, slices of the space."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.oracles.problems import observe, unit_box

if TYPE_CHECKING:
    from bbo_plugins.acquisition.functions import AcquisitionName
from bbo_plugins.acquisition.functions import Feasibility
from bbo_plugins.gp.posterior import GaussianProcess
from tests.oracles.steps import (
    NAMES,
    bound_acquisition,
    dense_mean,
    maximized_function,
    smooth,
    step,
)

# ----------------------------------------------------------------------------------- constraints


@pytest.mark.parametrize("acquisition", NAMES)
def test_suggestions_are_feasible_where_feasibility_is_clear(acquisition: AcquisitionName) -> None:
    """The unconstrained maximum is at x = 1, feasible is x <= 0.5."""
    X = np.random.default_rng(0).random((20, 2))
    constraints = (X[:, 0] - 0.5)[:, None]
    observations = observe(X, 2.0 * X[:, 0] - np.square(X[:, 1] - 0.5), constraints=constraints)
    assert 0.3 < step(observations, acquisition=acquisition).x[0] < 0.55
    free = observe(X, observations.y)
    assert step(free, acquisition=acquisition).x[0] > 0.9


@pytest.mark.parametrize("acquisition", NAMES)
def test_without_any_feasible_point_feasibility_is_maximized(acquisition: AcquisitionName) -> None:
    """All of x >= 0.5 was infeasible and x <= 0.2 would be feasible: go left, whatever y is."""
    rng = np.random.default_rng(1)
    X = rng.random((15, 2))
    X[:, 0] = 0.5 + 0.5 * X[:, 0]
    constraints = (X[:, 0] - 0.2)[:, None]
    observations = observe(X, 10.0 * X[:, 0], constraints=constraints)
    bound, _ = maximized_function(observations, acquisition)
    assert isinstance(bound, Feasibility)
    suggestion = step(observations, acquisition=acquisition)
    assert suggestion.x[0] < 0.3
    value = bound.value(suggestion.x[None, :])[0]
    assert value >= bound.value(rng.random((2000, 2))).max() - 1e-2


def test_missing_constraint_values_are_unknown() -> None:
    """Trials without them inform the objective, not the constraint, and are no incumbent."""
    rng = np.random.default_rng(2)
    X = rng.random((20, 2))
    constraints = (X[:, 0] - 0.5)[:, None]
    constraints[::3] = math.nan
    observations = observe(X, X[:, 0], constraints=constraints)
    acquisition, _ = bound_acquisition(observations)
    (constraint,) = acquisition.feasibility.constraints
    sizes = [
        len(process.y)
        for process in (acquisition.objective, constraint.process)
        if isinstance(process, GaussianProcess)
    ]
    assert sizes == [20, int(np.isfinite(constraints).sum())]
    assert 0.3 < step(observations).x[0] < 0.6


# ------------------------------------------------------- partly reported constraints, held spaces


def test_trials_are_judged_by_the_constraints_they_report() -> None:
    """Branches that report different constraints are eligible; violating one disqualifies."""
    rng = np.random.default_rng(8)
    X = rng.random((16, 2))
    constraints = np.full((16, 2), math.nan)
    constraints[:8, 0] = -1.0
    constraints[8:, 1] = -1.0
    constraints[3, 0] = constraints[12, 1] = 1.0
    observations = observe(X, smooth(X), constraints=constraints)
    acquisition, surrogate = bound_acquisition(observations)
    feasible = ~np.isin(np.arange(16), (3, 12))
    assert acquisition.kind == "logei"
    expected = dense_mean(surrogate, X)[feasible].max()
    assert acquisition.incumbent == pytest.approx(expected, abs=1e-8)


def test_held_slice_is_judged_by_the_constraint_models_there() -> None:
    """x0 <= x1 is asked for and x1 is held at 0.3: no point with x0 > 0.3 counts as incumbent."""
    rng = np.random.default_rng(10)
    X = rng.random((30, 2))
    constraints = (X[:, 0] - X[:, 1])[:, None]
    space = unit_box(2).held({"x1": 0.3})
    found = []
    for seed in range(8):
        made = step(observe(X, X[:, 0], constraints=constraints), space, seed=seed)
        found.append(made.x)
        X = np.vstack([X, made.x])
        constraints = (X[:, 0] - X[:, 1])[:, None]
    feasible = [x[0] for x in found if x[0] <= 0.3]
    assert max(feasible) > 0.28
