"""Inner horizon: how many SGD steps N each of T outer trials is to train for.

Tuning by training is a bilevel problem: Bayesian optimization outside, SGD inside. What SGD has not
reached after N steps is the noise of the outer level, so too few steps mislead the search and too
many are wasted. Two rules for N:

- :class:`InnerHorizon`: T is known (or a total number of steps is), and N follows from it.
- :class:`GrowingHorizon`: T is not known. Trial t gets N_t = c tᵖ steps, and whenever N has grown,
  the best few trials are continued to the new N from where they stopped. Recommended: the best are
  always compared at equal and long training, and the budget may end at any time.

| symbol | meaning                                                                               |
|--------|---------------------------------------------------------------------------------------|
| T, t   | number of outer trials (configurations); the t-th of them, from 1                     |
| N, η   | SGD steps of one trial, their constant length                                         |
| c, p   | N = c Tᵖ or c tᵖ                                                                      |
| φ(N)   | N^(-1/2) φ(N) bounds the excess risk after N steps (Theorem 1)                        |
| B, σ²  | bound on the RKHS norm of the outer objective, variance by which the GP regularizes   |

Source: Fu et al. (2024), "Convergence of Bayesian Bilevel Optimization": Theorems 1, 3, 4 and
section F.1. With convex losses the excess risk is N^(-1/2) up to logarithms, so N ≍ T gives regret
O(√(T γ_T)); with non-convex, gradient-dominated ones it is N^(-1/4), which takes N ≍ T². For UCB,
N ≍ √T still gives sublinear regret (not for expected improvement).

Deviations: the theorems leave c open; 8 was best where real learning curves were searched at
random. There the exponents looked right; with Bayesian optimization the best T saturates at four to
six per hyperparameter, so that a budget's T can be capped by ``n_params``. The growing horizon is
this project's, not the paper's. Theorem 18 has steps that shrink during training; here their length
is constant in all modes, as in Theorem 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from bbo_plugins import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

EXPONENTS: Final = {"convex": 1.0, "nonconvex": 2.0, "ucb-lean": 0.5}
_CONSTANT = 8.0
_GROWING_CONSTANT, _SMALL_GROWING_CONSTANT = 4.0, 1.0
_SMALL_BUDGET = 5_000  # steps below which a horizon that grows fast leaves too few trials
_MIN_OUTER = 10  # trials of a budget, if there are steps for so many
_OUTER_PER_PARAM = 5  # more trials per hyperparameter brought nothing
_ROUNDING = 1e-12  # relative error up to which c Tᵖ counts as the whole number next to it


@dataclass(frozen=True, kw_only=True)
class InnerHorizon:
    """The number of SGD steps of each outer trial, the same for all of them.

    N = ceil(c T) for convex training losses, ceil(c T²) for non-convex ones, ceil(c √T) as the
    least that the theory allows for "ucb". See :meth:`from_budget` if the total number of steps is
    known rather than T, and :meth:`growing` if neither T nor N is to be chosen beforehand.

    Args:
        n_outer: T, the number of outer trials.
        loss: "convex", "nonconvex" or "ucb-lean".
        constant: c, positive.
        minimum: The least N.
        maximum: The largest N; None for no limit.
        learning_rate: Step length times √N, positive.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range, or N would be beyond the floats.
    """

    n_outer: int | None
    loss: str = "convex"
    constant: float = _CONSTANT
    minimum: int = 1
    maximum: int | None = None
    learning_rate: float = 1.0

    _words: ClassVar = tuple(EXPONENTS)

    def __post_init__(self) -> None:
        """Check the arguments, and that N can be computed."""
        errors.check_word("loss", self.loss, self._words)
        _set(self, "constant", errors.check_positive("constant", self.constant))
        _set(self, "minimum", errors.check_int("minimum", self.minimum, minimum=1))
        if self.maximum is not None:
            maximum = errors.check_int("maximum", self.maximum, minimum=self.minimum)
            _set(self, "maximum", maximum)
        _set(self, "learning_rate", errors.check_positive("learning_rate", self.learning_rate))
        self._check_size()

    def _check_size(self) -> None:
        _set(self, "n_outer", errors.check_int("n_outer", self.n_outer, minimum=1))
        _ = self.n_inner

    @classmethod
    def from_budget(
        cls,
        total_steps: int,
        *,
        loss: str = "convex",
        constant: float = _CONSTANT,
        minimum: int = 1,
        maximum: int | None = None,
        learning_rate: float = 1.0,
        n_params: int | None = None,
    ) -> InnerHorizon:
        """Choose T and N for a total number of SGD steps, with T N <= ``total_steps``.

        T is the largest with c T Tᵖ <= ``total_steps``, but at least 10 and, if ``n_params`` is
        given, at most 5 per hyperparameter (never below 10). All that is left goes into N, so that
        fewer than T steps remain unspent. Where ``minimum`` or ``maximum`` bind, T gives way.

        In experiments on real learning curves, ``loss="nonconvex"`` with ``n_params`` given was
        within about 10% of the best T for any training loss.

        Args:
            total_steps: Steps of all trials together.
            loss: As for :class:`InnerHorizon`.
            constant: c, from which T follows; that of the returned horizon is what came out.
            minimum: The least N.
            maximum: The largest N; None for no limit.
            learning_rate: Step length times √N, positive.
            n_params: Number of hyperparameters that are searched; None for no cap on T.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument has a value outside its range, or the steps are fewer than
                ``minimum``.
        """
        total = errors.check_int("total_steps", total_steps, minimum=1)
        # The checks of the other arguments are those of the horizon; T = 1 passes them all.
        plan = InnerHorizon(
            n_outer=1,
            loss=loss,
            constant=constant,
            minimum=minimum,
            maximum=maximum,
            learning_rate=learning_rate,
        )
        if total < plan.minimum:
            rule = f"at least minimum={plan.minimum}"
            raise ValueError(errors.rule_message("total_steps", rule, total_steps))
        exponent = EXPONENTS[plan.loss]
        largest = min((total / plan.constant) ** (1.0 / (1.0 + exponent)), float(total))
        wanted = max(math.floor(largest * (1.0 + _ROUNDING)), _MIN_OUTER)
        if n_params is not None:
            cap = _OUTER_PER_PARAM * errors.check_int("n_params", n_params, minimum=1)
            wanted = min(wanted, max(cap, _MIN_OUTER))
        n_outer = min(wanted, total)
        even = total // n_outer
        n_inner = max(even, plan.minimum)
        if plan.maximum is not None:
            n_inner = min(n_inner, plan.maximum)
        if n_inner != even:
            n_outer = total // n_inner
        return InnerHorizon(
            n_outer=n_outer,
            loss=plan.loss,
            constant=n_inner / n_outer**exponent,
            minimum=plan.minimum,
            maximum=plan.maximum,
            learning_rate=plan.learning_rate,
        )

    @staticmethod
    def growing(
        *,
        constant: float | None = None,
        exponent: float = 2.0,
        promote: int = 3,
        maximum: int | None = None,
        minimum: int = 1,
        learning_rate: float = 1.0,
        total_steps: int | None = None,
    ) -> GrowingHorizon:
        """Return a horizon that grows with the number of trials; see :class:`GrowingHorizon`.

        Args:
            constant: c, positive. None for 4, or for 1 if ``total_steps`` is below 5,000.
            exponent: p, not negative.
            promote: How many of the best trials are continued whenever N has grown.
            maximum: The largest N; None for no limit.
            minimum: The least N.
            learning_rate: Step length times √N, positive.
            total_steps: Steps of all trials together, continuations included, where the search
                ends; None for no end.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument has a value outside its range.
        """
        if constant is None:
            small = total_steps is not None and total_steps < _SMALL_BUDGET
            constant = _SMALL_GROWING_CONSTANT if small else _GROWING_CONSTANT
        return GrowingHorizon(
            constant=constant,
            exponent=exponent,
            promote=promote,
            maximum=maximum,
            minimum=minimum,
            learning_rate=learning_rate,
            total_steps=total_steps,
        )

    @property
    def n_inner(self) -> int:
        """N, the number of SGD steps of each trial.

        Raises:
            AttributeError: The horizon grows, so that there is no single N.
        """
        return self._clipped(self.n_outer or 1, EXPONENTS[self.loss])

    @property
    def step_size(self) -> float:
        """η = ``learning_rate`` / √N, the length of the steps (Theorem 1).

        Raises:
            AttributeError: The horizon grows, so that there is no single N.
        """
        return self.step_size_for(self.n_inner)

    def step_size_for(self, n_steps: int) -> float:
        """Return ``learning_rate`` / √n for a trial of n >= 1 steps."""
        return self.learning_rate / math.sqrt(errors.check_int("n_steps", n_steps, minimum=1))

    def steps(self, trial_number: int) -> int:
        """Return N, the number of SGD steps of one trial.

        Args:
            trial_number: How many configurations came before it; a continuation is none.

        Raises:
            TypeError: ``trial_number`` is not an integer.
            ValueError: ``trial_number`` is negative.
        """
        errors.check_int("trial_number", trial_number, minimum=0)
        return self.n_inner

    def within_budget(self, n_steps: int, *, spent: int) -> int:
        """Return ``n_steps``, as only a growing horizon knows of a total; ``spent`` are taken.

        Raises:
            TypeError: An argument is not an integer.
            ValueError: An argument is negative.
        """
        errors.check_int("spent", spent, minimum=0)
        return errors.check_int("n_steps", n_steps, minimum=0)

    def promotions(self, values: Sequence[float], steps: Sequence[int]) -> list[int]:
        """Return which trials should be continued now, the best first: here none, as N stays.

        Args:
            values: The value of each configuration after its longest training, to be *maximized*;
                NaN where there is none (running or failed). One for every configuration started,
                shape (n,).
            steps: Number of steps behind each value, shape (n,).

        Returns:
            Indices of configurations to be continued to ``steps(n - 1)`` steps.

        Raises:
            ValueError: The lengths differ.
        """
        _checked_table(values, steps)
        return []

    def _clipped(self, base: int, exponent: float) -> int:
        """Return c baseᵖ as a whole number of steps within the limits."""
        try:
            n: float = self.constant * math.pow(base, exponent)
        except OverflowError:
            n = math.inf
        if self.maximum is not None and n >= self.maximum:
            return self.maximum
        if math.isinf(n):
            rule = "small enough for a finite number of steps"
            raise ValueError(errors.rule_message("constant", rule, self.constant))
        return max(self.minimum, math.ceil(n * (1.0 - _ROUNDING)))


@dataclass(frozen=True, kw_only=True)
class GrowingHorizon(InnerHorizon):
    """A horizon that grows with the number of trials: N_t = ceil(c tᵖ), t = 1, 2, ...

    Without more, late trials would win by their training alone, and early ones mislead the model.
    So whenever N has grown, the best ``promote`` trials are continued to the new N, and only each
    configuration's latest value counts. T need not be known: after B steps it is about
    (3 B / c)^(1/3), less what the continuations take. Made by :meth:`InnerHorizon.growing`.

    Args:
        constant: c, positive.
        exponent: p, not negative.
        promote: How many of the best trials are continued whenever N has grown.
        minimum: The least N.
        maximum: The largest N; None for no limit.
        learning_rate: Step length times √N, positive.
        total_steps: Steps of all trials together, continuations included; None for no end.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range.
    """

    n_outer: int | None = field(default=None, init=False)
    loss: str = field(default="growing", init=False)
    constant: float = _GROWING_CONSTANT
    exponent: float = 2.0
    promote: int = 3
    total_steps: int | None = None

    _words: ClassVar = ("growing",)

    def _check_size(self) -> None:
        rule = "a finite number of at least 0"
        exponent = errors.check_real(
            "exponent", self.exponent, rule, lambda number: 0.0 <= number < math.inf
        )
        _set(self, "exponent", exponent)
        _set(self, "promote", errors.check_int("promote", self.promote, minimum=0))
        if self.total_steps is not None:
            total = errors.check_int("total_steps", self.total_steps, minimum=1)
            _set(self, "total_steps", total)

    @property
    def n_inner(self) -> int:
        """Not there: every trial has its own N.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError("A growing horizon has no single n_inner: use steps(trial_number).")

    def steps(self, trial_number: int) -> int:
        """Return N_t, t = ``trial_number`` + 1.

        Args:
            trial_number: How many configurations came before it; a continuation is none.

        Raises:
            TypeError: ``trial_number`` is not an integer.
            ValueError: ``trial_number`` is negative, or N is beyond the floats.
        """
        number = errors.check_int("trial_number", trial_number, minimum=0)
        return self._clipped(number + 1, self.exponent)

    def within_budget(self, n_steps: int, *, spent: int) -> int:
        """Return how many of ``n_steps`` more steps may be taken after ``spent`` ones.

        All of them without a total number of steps, else down to 0.

        Raises:
            TypeError: An argument is not an integer.
            ValueError: An argument is negative.
        """
        wanted = super().within_budget(n_steps, spent=spent)
        return wanted if self.total_steps is None else max(min(wanted, self.total_steps - spent), 0)

    def promotions(self, values: Sequence[float], steps: Sequence[int]) -> list[int]:
        """Return which of the best ``promote`` configurations have less training than the newest.

        Args:
            values: The value of each configuration after its longest training, to be *maximized*;
                NaN where there is none (running or failed). One for every configuration started,
                shape (n,).
            steps: Number of steps behind each value, shape (n,).

        Returns:
            Indices of configurations to be continued to ``steps(n - 1)`` steps, the best first; of
            equal values the earlier one is the better.

        Raises:
            ValueError: The lengths differ.
        """
        maximized, taken = _checked_table(values, steps)
        if not len(maximized):
            return []
        goal = self._clipped(len(maximized), self.exponent)
        order = np.argsort(-maximized, kind="stable")  # NaN last
        best: list[int] = order[: self.promote].tolist()
        return [index for index in best if maximized[index] > -np.inf and taken[index] < goal]


def bilevel_beta(
    t: int, n_inner: int, *, phi: float = 1.0, norm_bound: float = 1.0, noise_variance: float = 0.1
) -> float:
    """Return β_t = √(B² + σ⁻² t φ²(N) / N) of Theorems 3 and 4, the multiplier of σ in UCB.

    The bound on the outer objective and the noise are in standardized units, the defaults those
    that worked there; ``phi`` depends on the problem. Its square divided by N is a variance: that
    of an evaluation's noise.

    Args:
        t: The trial's number, from 1.
        n_inner: N, its number of SGD steps.
        phi: φ(N), not negative.
        norm_bound: B, positive.
        noise_variance: σ², positive.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range.
    """
    t = errors.check_int("t", t, minimum=1)
    n_inner = errors.check_int("n_inner", n_inner, minimum=1)
    rule = "a finite number of at least 0"
    phi = errors.check_real("phi", phi, rule, lambda number: 0.0 <= number < math.inf)
    bound = errors.check_positive("norm_bound", norm_bound)
    sigma = math.sqrt(errors.check_positive("noise_variance", noise_variance))
    return math.hypot(bound, phi / sigma * math.sqrt(t / n_inner))  # Theorem 4


def _checked_table(
    values: Sequence[float], steps: Sequence[int]
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return both as arrays (n,)."""
    maximized, taken = np.asarray(values, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    if maximized.ndim != 1 or maximized.shape != taken.shape:
        message = (
            "values and steps must be sequences of equal length, but got shapes "
            f"{maximized.shape} and {taken.shape}."
        )
        raise ValueError(message)
    return maximized, taken


def _set(horizon: InnerHorizon, name: str, value: object) -> None:
    """Replace an argument by its checked plain Python form while ``horizon`` is being made."""
    object.__setattr__(horizon, name, value)
