"""The arithmetic of horizons; symbols and sources: :mod:`bbo_plugins.methods.inner_horizon`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bbo_plugins import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

EXPONENTS: Final = {"convex": 1.0, "nonconvex": 2.0, "ucb-lean": 0.5}
MIN_OUTER = 10  # trials of a budget, if there are steps for so many
_OUTER_PER_PARAM = 5  # more trials per hyperparameter brought nothing
_ROUNDING = 1e-12  # relative error up to which c Tᵖ counts as the whole number next to it
_DIRECTIONS = ("maximize", "minimize")


def steps_by_law(
    constant: float, base: int, exponent: float, *, minimum: int, maximum: int | None
) -> int:
    """Return c baseᵖ as a whole number of steps within the limits.

    Raises:
        ValueError: The number would be beyond the floats.
    """
    try:
        n: float = constant * math.pow(base, exponent)
    except OverflowError:
        n = math.inf
    if maximum is not None and n >= maximum:
        return maximum
    if math.isinf(n):
        rule = "small enough for a finite number of steps"
        raise ValueError(errors.rule_message("constant", rule, constant))
    return max(minimum, math.ceil(n * (1.0 - _ROUNDING)))


def split_budget(
    total: int,
    *,
    constant: float,
    exponent: float,
    minimum: int,
    maximum: int | None,
    n_params: int | None,
) -> tuple[int, int]:
    """Return T and N for ``total`` steps, at least ``minimum``: see ``InnerHorizon.from_budget``.

    Raises:
        TypeError: ``n_params`` is not an integer.
        ValueError: ``n_params`` is below 1.
    """
    largest = min((total / constant) ** (1.0 / (1.0 + exponent)), float(total))
    wanted = max(math.floor(largest * (1.0 + _ROUNDING)), MIN_OUTER)
    cap = total
    if n_params is not None:
        n_params = errors.check_int("n_params", n_params, minimum=1)
        cap = max(_OUTER_PER_PARAM * n_params, MIN_OUTER)
    n_outer = min(wanted, cap, total)
    even = total // n_outer
    n_inner = max(even, minimum)
    if maximum is not None:
        n_inner = min(n_inner, maximum)
    if n_inner != even:
        n_outer = min(total // n_inner, cap)
    return n_outer, n_inner


def checked_table(
    values: Sequence[float], steps: Sequence[int], direction: str
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return both as arrays (n,), the values so that they are maximized.

    Raises:
        TypeError: ``direction`` is no text.
        ValueError: The lengths differ, or ``direction`` is not one.
    """
    sign = 1.0 if errors.check_word("direction", direction, _DIRECTIONS) == "maximize" else -1.0
    maximized, taken = np.asarray(values, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    if maximized.ndim != 1 or maximized.shape != taken.shape:
        message = (
            "values and steps must be sequences of equal length, but got shapes "
            f"{maximized.shape} and {taken.shape}."
        )
        raise ValueError(message)
    return sign * maximized, taken


def bilevel_beta(
    squared_errors: Sequence[float] | np.ndarray[Any, np.dtype[np.float64]],
    *,
    norm_bound: float = 1.0,
    noise_variance: float = 0.1,
) -> float:
    """Return β_t = √(B² + σ⁻² Σᵢ φ²(Nᵢ) / Nᵢ), the multiplier of σ in UCB.

    With the same N in all evaluations the sum is t φ²(N) / N. All arguments are in units of
    standardized values.

    Args:
        squared_errors: φ²(Nᵢ) / Nᵢ of each evaluation, not negative, shape (t,).
        norm_bound: B, positive.
        noise_variance: σ², positive.

    Returns:
        β_t.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range.
    """
    errors_made = np.asarray(squared_errors, dtype=np.float64)
    if not ((errors_made >= 0.0) & np.isfinite(errors_made)).all():
        rule = "finite numbers of at least 0"
        raise ValueError(errors.rule_message("squared_errors", rule, squared_errors))
    bound = errors.check_positive("norm_bound", norm_bound)
    sigma = math.sqrt(errors.check_positive("noise_variance", noise_variance))
    # Theorem 4, with the sum of Eq. (C.8)
    return math.hypot(bound, math.sqrt(float(errors_made.sum())) / sigma)
