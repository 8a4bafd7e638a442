"""The data and models of a bilevel problem: units, pending queries, what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.targets import LogLogTransform
from bbo_plugins.methods.bilbo.model import BilevelModel, FunctionData, FunctionModel
from tests.oracles.bilevel import box_problem, data_of

if TYPE_CHECKING:
    from bbo_plugins.space.dimension import FloatArray

FEATURES = box_problem(1, 1).features
X = np.random.default_rng(0).random((12, 2))
Y = np.sin(5.0 * X[:, 0]) + X[:, 1]


def _fit(y: FloatArray, *, is_constraint: bool = False, **data: Any) -> FunctionModel:
    of = FunctionData(**{"X": X, "y": y, "pending": np.empty((0, 2)), **data})
    return FunctionModel.fit("h", of, FEATURES, is_constraint=is_constraint)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"y": Y[:3]}, r"y must have shape \(12,\), but got \(3,\)"),
        ({"pending": np.empty((2, 3))}, r"pending must have shape \(2, 2\), but got \(2, 3\)"),
        ({"failed": np.empty((2, 3))}, r"failed must have shape \(2, 2\), but got \(2, 3\)"),
        ({"failed_order": np.arange(2)}, r"failed_order must have shape \(0,\), but got \(2,\)"),
        ({"y": np.full(12, np.nan)}, "y must be finite"),
    ],
)
def test_data_check_their_shapes(wrong: dict[str, Any], message: str) -> None:
    """Arrays that do not fit each other are refused by name."""
    with pytest.raises(ValueError, match=message):
        FunctionData(**{"X": X, "y": Y, "pending": np.empty((0, 2)), **wrong})


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


def test_units_standardize() -> None:
    """An objective gets mean 0 and deviation 1, a constraint root mean square 1."""
    y = np.array([3.0, 5.0, 10.0])
    objective = LogLogTransform.fit(y, is_constraint=False).forward(y)
    assert (objective.mean(), objective.std()) == (pytest.approx(0.0), pytest.approx(1.0))
    constraint = LogLogTransform.fit(y, is_constraint=True).forward(y)
    assert np.mean(constraint**2) == pytest.approx(1.0)
    assert constraint / constraint[0] == pytest.approx(y / y[0])


def test_a_pending_query_is_not_known() -> None:
    """What is reported, and the unit of uncertainty, are those of the observations alone."""
    P = np.random.default_rng(1).random((20, 2))
    problem = box_problem(1, 1, upper_constraints=("C",), lower_constraints=("c",))
    data = {name: data_of(X, Y) for name in problem.functions}
    plain = BilevelModel.fit(problem, data)
    assert plain.without_pending is plain
    for name in problem.functions:
        of_one = BilevelModel.fit(problem, {**data, name: data_of(X, Y, P)})
        for model, known, expected in zip(
            of_one.functions, of_one.without_pending.functions, plain.functions, strict=True
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


def test_bounds_are_mean_and_deviations() -> None:
    """The bound at a multiplier is μ plus as many σ, and its gradient belongs to it."""
    model = _fit(Y)
    P = np.random.default_rng(1).random((5, 2))
    mean, sd = model.predict(P)
    assert model.bound(P, -1.5) == pytest.approx(mean - 1.5 * sd)
    value, gradient = model.bound_with_gradient(P, 2.0)
    assert value == pytest.approx(mean + 2.0 * sd, abs=1e-6)
    step = np.array([1e-4, 0.0])
    slope = (model.bound(P + step, 2.0) - model.bound(P - step, 2.0)) / 2e-4
    assert gradient[:, 0] == pytest.approx(slope, rel=1e-3, abs=1e-4)
