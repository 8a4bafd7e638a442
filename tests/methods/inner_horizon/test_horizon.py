"""The laws of the inner horizon, from T, from a budget and growing, and the weight of Theorem 4."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbo_plugins.methods.inner_horizon.horizon import GrowingHorizon, InnerHorizon

if TYPE_CHECKING:
    from collections.abc import Callable

BAD: Any = 2.5
LOSSES = {"convex": 1.0, "nonconvex": 2.0, "ucb-lean": 0.5}


def _simulated(horizon: GrowingHorizon, quality: list[float]) -> tuple[list[int], list[int]]:
    """Run a search whose configurations have fixed values, until the budget is spent.

    Returns:
        The steps each configuration has had in the end, and those of every run made.
    """
    steps: list[int] = []
    runs: list[int] = []
    while len(steps) < len(quality):
        n = horizon.within_budget(horizon.steps(len(steps)), spent=sum(runs))
        if n == 0:
            break
        steps.append(n)
        runs.append(n)
        for index in horizon.promotions(quality[: len(steps)], steps):
            goal = horizon.steps(len(steps) - 1)
            more = horizon.within_budget(goal - steps[index], spent=sum(runs))
            steps[index] += more
            runs.append(more)
    return steps, runs


@pytest.mark.parametrize(
    "loss, constant, n_outer, expected",
    [
        ("convex", 8.0, 25, 200),
        ("convex", 0.3, 25, 8),  # 7.5
        ("nonconvex", 0.5, 7, 25),  # 24.5
        ("nonconvex", 8.0, 20, 3200),
        ("nonconvex", 8.0, 40, 5000),  # the maximum
        ("convex", 1.0, 2, 4),  # the minimum
        ("ucb-lean", 2.0, 49, 14),
        ("ucb-lean", 1.0, 50, 8),  # 7.07
    ],
)
def test_law_of_each_loss(loss: Any, constant: float, n_outer: int, expected: int) -> None:
    """N = ceil(c T), ceil(c T²), ceil(c √T) within its limits: worked by hand."""
    horizon = InnerHorizon(n_outer=n_outer, loss=loss, constant=constant, minimum=4, maximum=5000)
    assert horizon.n_inner == expected
    assert [horizon.steps(number) for number in (0, 1, n_outer, 10 * n_outer)] == [expected] * 4


@given(
    st.sampled_from(sorted(LOSSES)),
    st.fractions(Fraction(1, 50), 50, max_denominator=50),
    st.integers(1, 1000),
)
def test_law_is_the_ceiling_of_exact_arithmetic(loss: Any, constant: Fraction, n: int) -> None:
    """Against rational arithmetic, which has no rounding (the root by squares of integers)."""
    horizon = InnerHorizon(n_outer=n, loss=loss, constant=float(constant))
    if loss == "ucb-lean":
        square = constant * constant * n  # N is the least integer whose square is at least that
        assert (horizon.n_inner - 1) ** 2 < square <= horizon.n_inner**2
    else:
        assert horizon.n_inner == math.ceil(constant * n ** int(LOSSES[loss]))


def test_step_size_falls_with_the_root_of_the_steps() -> None:
    """η = learning_rate / √N (Theorem 1)."""
    horizon = InnerHorizon(n_outer=25, constant=4.0, learning_rate=0.5)
    assert horizon.step_size == 0.05
    assert horizon.step_size_for(25) == 0.1


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: InnerHorizon(n_outer=0), ValueError, "n_outer must be an integer of at least 1"),
        (lambda: InnerHorizon(n_outer=BAD), TypeError, "n_outer must be an integer of at least 1"),
        (lambda: InnerHorizon(n_outer=3, loss=BAD), TypeError, "loss must be one of"),
        (lambda: InnerHorizon(n_outer=3, constant=math.nan), ValueError, "constant must be a pos"),
        (lambda: InnerHorizon(n_outer=3, minimum=5, maximum=4), ValueError, "maximum must be an"),
        (lambda: InnerHorizon(n_outer=3, learning_rate=-1.0), ValueError, "learning_rate must be"),
        (lambda: InnerHorizon(n_outer=3, phi=0.0), ValueError, "phi must be a positive number"),
        (lambda: InnerHorizon(n_outer=9, constant=1e308), ValueError, "constant must be small"),
        (lambda: InnerHorizon.from_budget(0), ValueError, "total_steps must be an integer of at"),
        (lambda: InnerHorizon.from_budget(9, n_params=0), ValueError, "n_params must be an integ"),
        (lambda: InnerHorizon.growing(exponent=-1.0), ValueError, "exponent must be a finite"),
        (lambda: InnerHorizon.growing(promote=-1), ValueError, "promote must be an integer of at"),
        (lambda: InnerHorizon.growing(total_steps=0), ValueError, "total_steps must be an integ"),
        (lambda: InnerHorizon.growing(total_steps=BAD), TypeError, "total_steps must be an integ"),
        (lambda: InnerHorizon.growing(exponent=1e4).steps(500), ValueError, "constant must be sm"),
    ],
)
def test_impossible_arguments_are_refused(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    """By name, with the rule."""
    with pytest.raises(error, match=message):
        make()


def test_noise_falls_with_the_steps() -> None:
    """φ² / n for every kind of horizon, and None where φ is not known (Theorem 1)."""
    for horizon in (
        InnerHorizon(n_outer=3, phi=0.6),
        InnerHorizon.from_budget(500, phi=0.6),
        InnerHorizon.growing(phi=0.6),
    ):
        assert [horizon.noise_variance(n) for n in (1, 4, 36)] == pytest.approx([0.36, 0.09, 0.01])
        with pytest.raises(ValueError, match="n_steps must be an integer of at least 1"):
            horizon.noise_variance(0)
    for horizon in (InnerHorizon(n_outer=3), InnerHorizon.from_budget(9), InnerHorizon.growing()):
        assert horizon.noise_variance(4) is None


# --- from a budget --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "total, arguments, n_outer, n_inner",
    [
        (20_000, {}, 50, 400),  # 8 T² = 20,000
        (64_000, {"loss": "nonconvex"}, 20, 3_200),  # 8 T³ = 64,000
        (8_000, {"loss": "nonconvex"}, 10, 800),  # the cube root of 1,000 is not 9.99
        (4_000, {"loss": "nonconvex"}, 10, 400),  # 7.9 is below the least T
        (64_000, {"loss": "nonconvex", "n_params": 3}, 15, 4_266),
        (64_000, {"loss": "nonconvex", "n_params": 1}, 10, 6_400),
        (64_000, {"loss": "nonconvex", "maximum": 1_000}, 64, 1_000),
        (64_000, {"loss": "nonconvex", "maximum": 1_000, "n_params": 3}, 15, 1_000),
        (64_000, {"loss": "nonconvex", "maximum": 5_000, "n_params": 1}, 10, 5_000),
        (1_000, {"minimum": 300}, 3, 300),
        (1_000, {"minimum": 300, "n_params": 2}, 3, 300),
        (7, {}, 7, 1),
        (1, {}, 1, 1),
    ],
)
def test_budget_is_divided(
    total: int, arguments: dict[str, Any], n_outer: int, n_inner: int
) -> None:
    """T by the law within its limits, N = B / T: worked by hand."""
    horizon = InnerHorizon.from_budget(total, **arguments)
    assert (horizon.n_outer, horizon.n_inner) == (n_outer, n_inner)


@given(
    total=st.integers(1, 10**9),
    loss=st.sampled_from(sorted(LOSSES)),
    constant=st.floats(1e-6, 1e6),
    minimum=st.integers(1, 1000),
    more=st.none() | st.integers(0, 10**6),
    n_params=st.none() | st.integers(1, 100),
)
def test_budget_is_never_exceeded_and_hardly_wasted(
    total: int, loss: Any, constant: float, minimum: int, more: int | None, n_params: int | None
) -> None:
    """T N <= B, and what is left would not do for another step of each trial or another trial.

    Unless both are at their limits, N at ``maximum`` and T at what ``n_params`` allows.
    """
    maximum = None if more is None else minimum + more
    arguments: dict[str, Any] = {
        "loss": loss,
        "constant": constant,
        "minimum": minimum,
        "maximum": maximum,
        "n_params": n_params,
    }
    if total < minimum:
        with pytest.raises(ValueError, match="total_steps must be at least minimum="):
            InnerHorizon.from_budget(total, **arguments)
        return
    horizon = InnerHorizon.from_budget(total, **arguments)
    assert horizon.n_outer is not None
    assert minimum <= horizon.n_inner <= (maximum or total)
    left = total - horizon.n_outer * horizon.n_inner
    assert left >= 0
    most = math.inf if n_params is None else max(5 * n_params, 10)
    assert horizon.n_outer <= most
    if horizon.n_outer < most or horizon.n_inner != maximum:
        assert left < max(horizon.n_outer, horizon.n_inner)
    assert horizon == InnerHorizon(
        n_outer=horizon.n_outer,
        loss=loss,
        constant=horizon.constant,
        minimum=minimum,
        maximum=maximum,
    )


# --- growing --------------------------------------------------------------------------------------


def test_growing_horizon_is_quadratic() -> None:
    """N_t = 4 t², t = 1 for trial number 0, and the documented defaults; 1 t² of a small budget."""
    assert InnerHorizon.growing(total_steps=4_999).constant == 1.0
    assert InnerHorizon.growing(total_steps=5_000).constant == 4.0
    horizon = InnerHorizon.growing()
    assert isinstance(horizon, InnerHorizon)
    assert [horizon.steps(number) for number in range(4)] == [4, 16, 36, 64]
    assert (horizon.constant, horizon.exponent, horizon.promote) == (4.0, 2.0, 3)
    assert (horizon.n_outer, horizon.total_steps, horizon.loss) == (None, None, "growing")


def test_steps_are_plain_integers() -> None:
    """A database that keeps them as JSON knows no others."""
    limits: dict[str, Any] = {"minimum": np.int64(2), "maximum": np.int64(5)}
    growing = InnerHorizon.growing(total_steps=np.int64(9), **limits)  # type: ignore[arg-type]
    fixed = InnerHorizon(n_outer=np.int64(30), **limits)  # type: ignore[arg-type]
    found = [fixed.n_inner, growing.steps(0), growing.steps(9), growing.within_budget(7, spent=4)]
    assert found == [5, 2, 5, 5]
    assert [type(n) for n in found] == [int] * 4


def test_best_with_too_little_training_are_promoted() -> None:
    """The top three are indices 3, 1 and 4, of which 4 has all the training there is."""
    horizon = InnerHorizon.growing(constant=1.0)
    values = [0.1, 0.8, 0.2, 0.9, 0.7]
    assert horizon.promotions(values, [1, 4, 9, 16, 25]) == [3, 1]
    assert horizon.promotions(values, [25, 25, 9, 25, 25]) == []


def test_trials_without_a_value_count_but_are_not_promoted() -> None:
    """A running or failed configuration lets N grow; -inf is no value to build on either."""
    horizon = InnerHorizon.growing(constant=1.0)
    assert horizon.promotions([0.5, math.nan, -math.inf], [4, 0, 0]) == [0]
    assert horizon.promotions([0.5], [1]) == []
    assert horizon.promotions([math.nan, math.nan], [0, 0]) == []
    assert horizon.promotions([], []) == []


@pytest.mark.parametrize("horizon", [InnerHorizon(n_outer=3), InnerHorizon.growing()])
def test_arguments_of_promotions_are_checked(horizon: InnerHorizon) -> None:
    """A value without its steps, or an unknown direction, is an error of the caller."""
    with pytest.raises(ValueError, match="values and steps must be sequences of equal length"):
        horizon.promotions([1.0, 2.0], [1])
    bad: Any = "min"
    with pytest.raises(ValueError, match="direction must be one of 'maximize' or 'minimize'"):
        horizon.promotions([1.0], [1], direction=bad)


@given(
    total=st.integers(1, 20_000),
    constant=st.none() | st.floats(0.1, 20.0),
    promote=st.integers(0, 5),
    quality=st.lists(st.floats(-1.0, 1.0), min_size=300, max_size=300),
)
def test_growing_search_spends_its_budget_exactly(
    total: int, constant: float | None, promote: int, quality: list[float]
) -> None:
    """Continuations included: never a step more, and none left while there are configurations."""
    horizon = InnerHorizon.growing(total_steps=total, constant=constant, promote=promote)
    steps, runs = _simulated(horizon, quality)
    assert sum(runs) == sum(steps) <= total
    if len(steps) < len(quality):
        assert sum(runs) == total


def test_steps_within_the_budget() -> None:
    """Only a growing horizon with a total has an end; there the last steps are cut."""
    for endless in (InnerHorizon.growing(), InnerHorizon(n_outer=3)):
        assert endless.within_budget(7, spent=10**9) == 7
    horizon = InnerHorizon.growing(total_steps=10)
    assert [horizon.within_budget(4, spent=spent) for spent in (0, 6, 7, 10, 13)] == [4, 4, 3, 0, 0]
    with pytest.raises(ValueError, match=r"spent must be an integer of at least 0, but got -1\."):
        horizon.within_budget(3, spent=-1)
    with pytest.raises(ValueError, match=r"n_steps must be an integer of at least 0, but got -1\."):
        horizon.within_budget(-1, spent=3)
