"""Units of bilevel problems: far values are compressed, and nothing else is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbo_plugins.gp.kernels import FeatureMap
from bbo_plugins.gp.targets import LogLogTransform
from bbo_plugins.methods.bilbo.model import FunctionModel
from bbo_plugins.space.dimension import FloatArray
from tests.oracles.bilevel import data_of

BULK = np.linspace(-1.0, 1.0, 21)


def _fit(y: FloatArray, *, is_constraint: bool = False) -> LogLogTransform:
    """Return compressing units of values that share the space evenly."""
    return LogLogTransform.fit(y, is_constraint=is_constraint, shares=np.ones(len(y)))


@pytest.mark.parametrize("worst", [-1e6, -1e15])
def test_a_diverged_value_does_not_decide_the_unit(worst: float) -> None:
    """One value however much worse leaves the others distinct, and is still the worst."""
    y = np.append(0.1 * BULK, worst)
    units = _fit(y)
    z = units.forward(y)
    assert units.compresses(y)
    assert np.diff(z[:-1]).min() > 0.5 * np.diff(z[:-1]).max()
    assert z[-1] < z[0] - 0.1
    assert z[:-1].std() > 0.05
    assert units.inverse(z) == pytest.approx(y, rel=1e-6)
    plain = LogLogTransform.fit(y, is_constraint=False)
    assert not plain.compresses(y)
    assert plain.forward(y)[:-1].std() < 1e-5


def test_better_values_are_never_compressed() -> None:
    """An objective's best value stays as far from the others as it is."""
    units = _fit(np.append(BULK, 1000.0))
    z = units.forward(np.array([0.0, 500.0, 1000.0, 20000.0]))
    assert np.diff(z) == pytest.approx(np.array([500.0, 500.0, 19000.0]) / units.scale)


@settings(deadline=None)
@given(
    y=st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=12).map(
        lambda thousandths: np.array(thousandths) / 1000.0
    ),
    is_constraint=st.booleans(),
)
def test_the_map_increases(y: FloatArray, is_constraint: bool) -> None:
    """No two values change places, but for rounding where compression begins."""
    z = _fit(y, is_constraint=is_constraint).forward(np.sort(y))
    assert (np.diff(z) >= -1e-14 * np.abs(z).max()).all()


@pytest.mark.parametrize("is_constraint", [False, True])
@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_the_derivative_is_the_numerical_one(is_constraint: bool, unit: float) -> None:
    """At values near and far, better and worse, compressed or not."""
    units = _fit(unit * np.append(BULK, -1e4), is_constraint=is_constraint)
    far = np.geomspace(1e-3, 1e4, 50)
    y = unit * np.concatenate([-far, [0.0], far])
    h = 1e-6 * np.maximum(np.abs(y), 1e-3 * unit)
    numerical = (units.forward(y + h) - units.forward(y - h)) / (2.0 * h)
    assert units.derivative(y) == pytest.approx(numerical, rel=1e-4)
    assert units.derivative(y).min() < 1e-2 * units.derivative(y).max()


def _model(X: FloatArray, y: FloatArray) -> FunctionModel:
    return FunctionModel.fit("f", data_of(X, y), FeatureMap((0, 0)), is_constraint=False)


def test_each_value_counts_for_its_part_of_the_space() -> None:
    """A cluster at the best of a smooth function does not make the model compress it."""
    rng = np.random.default_rng(0)
    spread, cluster = rng.random((25, 2)), 0.5 + 0.003 * rng.standard_normal((75, 2))
    X = np.concatenate([spread, cluster])
    y = -np.abs(X - 0.5).max(axis=1)
    assert _fit(y).compresses(y)
    assert not _model(X, y).transform.compresses(y)
