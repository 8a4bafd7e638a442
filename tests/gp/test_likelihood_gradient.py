"""What every criterion of the hyperparameters promises, whatever it measures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.likelihood import MarginalLikelihood
from bbo_plugins.methods.uhe_bo.losses import LeaveOneOut
from tests.gp.random_data import random_theta

if TYPE_CHECKING:
    from collections.abc import Callable

    from bbo_plugins.gp.likelihood import BoundCriterion
    from bbo_plugins.space.dimension import FloatArray

Make: TypeAlias = "Callable[[FloatArray, FloatArray, FloatArray, FeatureMap, bool], BoundCriterion]"

# Each from points, targets, weights >= 0, the feature map and whether noise is estimated.
MAKERS: dict[str, Make] = {
    "likelihood": lambda X, y, _, features, fit_noise: MarginalLikelihood(
        X, y, features, fit_noise=fit_noise
    ),
    "leave one out": lambda X, y, weights, features, fit_noise: LeaveOneOut(
        X, y, features, weights, fit_noise=fit_noise
    ),
}
every_criterion = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@every_criterion
def test_evaluations_do_not_disturb_one_another(make: Make) -> None:
    """Work arrays are shared between evaluations, results and inputs are not."""
    rng = np.random.default_rng(3)
    X, y, weights = rng.random((20, 3)), rng.standard_normal(20), rng.random(20)
    first, second = (random_theta(rng, 3, trend=True) for _ in range(2))
    inputs = (X, y, weights, first)
    before = [array.copy() for array in inputs]
    criterion = make(X, y, weights, FeatureMap((0, 3, 0), trend=True), True)
    value, gradient = criterion(first)
    kept = gradient.copy()
    criterion(second)
    again, gradient_again = criterion(first)
    assert again == value
    assert np.array_equal(gradient, kept)
    assert np.array_equal(gradient_again, kept)
    for array, original in zip(inputs, before, strict=True):
        assert np.array_equal(array, original)


@every_criterion
@given(
    theta=st.lists(st.floats(-250.0, 250.0), min_size=6, max_size=6),
    trend=st.booleans(),
    fit_noise=st.booleans(),
    twins=st.booleans(),
)
@settings(max_examples=300)
def test_extreme_hyperparameters_give_a_value_or_minus_infinity(
    make: Make, theta: list[float], trend: bool, fit_noise: bool, twins: bool
) -> None:
    """However far a line search goes, there is no exception, no warning and no NaN."""
    rng = np.random.default_rng(11)
    X = np.full((6, 2), 0.25) if twins else rng.random((6, 2))
    y, weights = rng.standard_normal(6), np.array([0.0, 0.5, 1.0, 1.0, 1.5, 2.0])
    criterion = make(X, y, weights, FeatureMap((0, 2), trend=trend), fit_noise)
    value, gradient = criterion(np.array(theta)[: criterion.n_parameters])
    if math.isfinite(value):
        assert np.isfinite(gradient).all()
    else:
        assert value == -math.inf
        assert not gradient.any()
