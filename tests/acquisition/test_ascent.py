"""Batched ascent on functions whose maximum in the box is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from bbo_plugins.acquisition.ascent import ascend

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.space.dimension import FloatArray


@dataclass
class Quadratic:
    """c - ½ (x - m)ᵀ P (x - m), with a record of the points at which it was asked for."""

    center: FloatArray
    P: FloatArray
    asked: list[FloatArray] = field(default_factory=list)

    def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (m,) and gradients (m, d)."""
        self.asked.append(X.copy())
        gaps = X - self.center
        slope = -gaps @ self.P
        return 0.5 * np.einsum("ij,ij->i", gaps, slope), slope

    def maximum_in_box(self, free: NDArray[np.bool_], start: FloatArray) -> FloatArray:
        """Return the constrained maximizer by non-negative least squares on the free coordinates.

        With P = LLᵀ it minimizes |Lᵀ(x - m)|², the fixed coordinates as in ``start``.
        """
        root = np.linalg.cholesky(self.P).T
        fixed = np.where(free, 0.0, start)
        target = root @ (self.center - fixed)
        found = optimize.lsq_linear(
            root[:, free], target, bounds=(0.0, 1.0), tol=1e-14, method="bvls"
        )
        x = start.copy()
        x[free] = found.x
        return x


def _random_quadratic(rng: np.random.Generator, d: int, log_condition: float) -> Quadratic:
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    eigenvalues = 10.0 ** rng.uniform(0.0, log_condition, size=d)
    # centers inside the box, on its faces and outside
    return Quadratic(rng.uniform(-0.5, 1.5, size=d), (basis * eigenvalues) @ basis.T)


def _all(d: int) -> NDArray[np.bool_]:
    return np.ones(d, dtype=bool)


@given(d=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_quadratics_reach_their_constrained_maximum(d: int, seed: int) -> None:
    """The best of a few starts is at the maximum of the box, found by an active-set solver."""
    rng = np.random.default_rng(seed)
    quadratic = _random_quadratic(rng, d, 1.0)
    X, values = ascend(quadratic, rng.random((4, d)), free=_all(d), scale=np.full(d, 0.5))
    expected = quadratic.maximum_in_box(_all(d), np.zeros(d))
    best, _ = quadratic.value_and_gradient(expected[None, :])
    assert values.max() >= best[0] - 1e-3
    np.testing.assert_allclose(X[np.argmax(values)], expected, atol=0.05)


@given(
    d=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
    fixed=st.integers(0, 31),
    log_scale=st.floats(-3.0, 0.0),
)
@settings(max_examples=30)
def test_never_worse_and_never_outside(d: int, seed: int, fixed: int, log_scale: float) -> None:
    """Monotone from every start, always inside the box, fixed coordinates untouched."""
    rng = np.random.default_rng(seed)
    quadratic = _random_quadratic(rng, d, 4.0)
    starts = rng.random((5, d))
    starts[0], starts[1] = 0.0, 1.0
    before = starts.copy()
    free = np.array([not (fixed >> i) & 1 for i in range(d)])
    X, values = ascend(quadratic, starts, free=free, scale=np.full(d, 10.0**log_scale))
    assert np.array_equal(starts, before)
    assert X.shape == starts.shape
    assert (values >= quadratic.value_and_gradient(starts)[0]).all()
    np.testing.assert_allclose(quadratic.value_and_gradient(X)[0], values, rtol=1e-9, atol=1e-12)
    for asked in [X, *quadratic.asked]:
        assert ((asked >= 0.0) & (asked <= 1.0)).all()
    assert np.array_equal(X[:, ~free], starts[:, ~free])
    for asked in quadratic.asked[1:-2]:
        rows = {row.tobytes() for row in starts[:, ~free]}
        assert {row.tobytes() for row in np.ascontiguousarray(asked[:, ~free])} <= rows


def test_maxima_on_faces_take_few_evaluations() -> None:
    """A coordinate that stays at its bound does not spoil the curvature of those that move."""
    on_a_face = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        quadratic = _random_quadratic(rng, 6, 3.0)
        start = rng.random((1, 6))
        _, values = ascend(
            quadratic, start, free=_all(6), scale=np.full(6, 0.5), max_iterations=200
        )
        assert len(quadratic.asked) <= 60
        maximum = quadratic.maximum_in_box(_all(6), np.zeros(6))
        best, _ = quadratic.value_and_gradient(maximum[None, :])
        assert best[0] - values[0] <= 0.02
        on_a_face += ((maximum == 0.0) | (maximum == 1.0)).any()
    assert on_a_face > 40


def test_curved_valley_is_followed() -> None:
    """Rosenbrock's function, which needs the curvature: close to the top from most starts."""

    class Rosenbrock:
        def value_and_gradient(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
            Z = 3.0 * X - 1.0
            values = [-float(optimize.rosen(z)) for z in Z]
            return np.array(values), np.array([-3.0 * optimize.rosen_der(z) for z in Z])

    starts = np.random.default_rng(2).random((10, 2))
    _, values = ascend(Rosenbrock(), starts, free=_all(2), scale=np.full(2, 0.3))
    assert values.max() > -1e-2
