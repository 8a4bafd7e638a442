"""The power transform of the targets: order, shape, units, odd data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.gp.targets import BoxCoxTransform
from tests.oracles.differences import numeric_gradient

POWERS = (1.0, 0.5, 0.0)


@pytest.mark.parametrize("power", POWERS)
def test_transformed_targets_are_the_documented_formula(power: float) -> None:
    """Standardized powers of the distance from the best target over the median's distance."""
    y = np.array([3.0, -1.0, 2.0, -40.0, 0.5])
    u = (3.0 - y) / 2.5
    v = -np.log1p(u) if power == 0.0 else -((1.0 + u) ** power - 1.0) / power
    z = BoxCoxTransform.fit(y, power).forward(y)
    np.testing.assert_allclose(z, (v - v.mean()) / v.std(), rtol=1e-12)


def test_power_one_is_linear() -> None:
    """Then the transform is plain standardization, above the best target too."""
    y = np.random.default_rng(0).standard_normal(20)
    more = np.append(y, y.max() + 3.0)
    z = BoxCoxTransform.fit(y, 1.0).forward(more)
    np.testing.assert_allclose(z, (more - y.mean()) / y.std(), rtol=1e-10)


@pytest.mark.parametrize("power", POWERS)
@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=12),
    st.floats(1e-3, 1e3) | st.just(1e240),
    st.floats(-1e3, 1e3),
)
def test_order_is_kept_and_units_do_not_matter(
    power: float, values: list[int], scale: float, shift: float
) -> None:
    """Finite, increasing, and the same after a change of the objective's units."""
    y = np.array(values, dtype=np.float64)
    z = BoxCoxTransform.fit(y, power).forward(y)
    assert np.isfinite(z).all()
    assert (np.diff(z[np.argsort(y)]) >= 0.0).all()
    moved = scale * y + shift
    if len(set(values)) > 1:
        other = BoxCoxTransform.fit(moved, power).forward(moved)
        np.testing.assert_allclose(other, z, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("power", POWERS)
def test_inverse(power: float) -> None:
    """It undoes the transform above the best target and far below all; overflow stays finite."""
    y = np.array([3.0, -1.0, 2.0, -40.0, 0.5])
    transform = BoxCoxTransform.fit(y, power)
    more = np.append(y, [5.0, 3.0 + 1e-9, -1e4])
    np.testing.assert_allclose(transform.inverse(transform.forward(more)), more, rtol=1e-9)
    near = transform.inverse(transform.forward(np.array([3.0])) - 1e-9 / transform.std)
    np.testing.assert_allclose(3.0 - near, 1e-9 * transform.scale, rtol=1e-5)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(transform.inverse(np.array([-1e300, 1e300]))).all()


@pytest.mark.parametrize("power", POWERS)
def test_derivative_and_jacobian(power: float) -> None:
    """The derivative agrees with a numeric one; the Jacobian is its logarithm's sum."""
    y = np.array([3.0, -1.0, 2.0, -40.0, 0.5])
    transform = BoxCoxTransform.fit(y, power)
    inside = np.array([2.9, 0.0, -37.0])
    numeric = [
        numeric_gradient(lambda v: float(transform.forward(v)[0]), inside[i : i + 1])[0]
        for i in range(3)
    ]
    np.testing.assert_allclose(transform.derivative(inside), numeric, rtol=1e-8)
    linear = BoxCoxTransform.fit(y, 1.0)
    difference = np.log(transform.derivative(y) / linear.derivative(y)).sum()
    assert transform.log_jacobian(y) - linear.log_jacobian(y) == pytest.approx(difference)


@pytest.mark.parametrize("power", POWERS)
def test_a_feasible_best_is_where_the_bend_begins(power: float) -> None:
    """Distances count from it, and what is above, out of reach, is linear."""
    y = np.array([30.0, 3.0, -1.0, 2.0, -40.0, 0.5])
    transform = BoxCoxTransform.fit(y, power, best=3.0)
    slopes = transform.derivative(np.array([3.0, 10.0, 30.0]))
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-12)
    assert power == 1.0 or transform.derivative(y)[-2] < 0.5 * slopes[0]
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y, rtol=1e-9)
