"""The number of SGD steps of each trial: the same for all, or growing with their number.

Symbols, theorems and deviations: :mod:`bbo_plugins.methods.inner_horizon`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bbo_plugins import errors
from bbo_plugins.methods.inner_horizon.laws import (
    EXPONENTS,
    checked_table,
    split_budget,
    steps_by_law,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONSTANT = 8.0
_GROWING_CONSTANT, _SMALL_GROWING_CONSTANT = 4.0, 1.0
_SMALL_BUDGET = 5_000  # steps below which a horizon that grows fast leaves too few trials


@dataclass(frozen=True, kw_only=True)
class InnerHorizon:
    """The number of SGD steps of each outer trial, the same for all of them.

    N = ceil(c T) for convex training losses, ceil(c T²) for non-convex ones. ceil(c √T) is fewer
    steps for "ucb", whose bound still vanishes in the mean (section 4.2.2). See
    :meth:`from_budget` if the total number of steps is known rather than T, and :meth:`growing` if
    neither T nor N is to be chosen beforehand.

    Args:
        n_outer: T, the number of outer trials.
        loss: "convex", "nonconvex" or "ucb-lean".
        constant: c, positive.
        minimum: The least N.
        maximum: The largest N; None for no limit.
        learning_rate: Step length times √N, positive.
        phi: φ, so that a value after n steps has noise of standard deviation φ / √n (Theorem 1),
            in the objective's units; positive. None if it is not known: a model estimates one noise
            for all values then.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range, or N would be beyond the floats.

    Example:
        .. code-block:: python

            from bbo_plugins import InnerHorizon

            plan = InnerHorizon(n_outer=50)  # T is known
            assert plan.n_inner == 400
            plan = InnerHorizon.from_budget(20_000, n_params=3)  # all steps are known
            assert plan.n_outer * plan.n_inner <= 20_000
            plan = InnerHorizon.growing()  # nothing is known
            assert [plan.steps(number) for number in range(3)] == [4, 16, 36]
    """

    n_outer: int | None
    loss: Literal["convex", "nonconvex", "ucb-lean"] = "convex"
    constant: float = _CONSTANT
    minimum: int = 1
    maximum: int | None = None
    learning_rate: float = 1.0
    phi: float | None = None

    def __post_init__(self) -> None:
        """Check the arguments, and that N can be computed."""
        _set(self, "constant", errors.check_positive("constant", self.constant))
        _set(self, "minimum", errors.check_int("minimum", self.minimum, minimum=1))
        if self.maximum is not None:
            maximum = errors.check_int("maximum", self.maximum, minimum=self.minimum)
            _set(self, "maximum", maximum)
        _set(self, "learning_rate", errors.check_positive("learning_rate", self.learning_rate))
        if self.phi is not None:
            _set(self, "phi", errors.check_positive("phi", self.phi))
        self._check_law()

    def _check_law(self) -> None:
        """Check the arguments that only this kind of horizon has."""
        _set(self, "loss", errors.check_word("loss", self.loss, tuple(EXPONENTS)))
        _set(self, "n_outer", errors.check_int("n_outer", self.n_outer, minimum=1))
        _ = self.n_inner

    @classmethod
    def from_budget(
        cls,
        total_steps: int,
        *,
        loss: Literal["convex", "nonconvex", "ucb-lean"] = "convex",
        constant: float = _CONSTANT,
        minimum: int = 1,
        maximum: int | None = None,
        learning_rate: float = 1.0,
        phi: float | None = None,
        n_params: int | None = None,
    ) -> InnerHorizon:
        """Choose T and N for a total number of SGD steps, with T N <= ``total_steps``.

        T is the largest with c T Tᵖ <= ``total_steps``, but at least 10 and, if ``n_params`` is
        given, at most 5 per hyperparameter (or 10, if that is more). All that is left goes into N,
        so that fewer than T steps remain unspent. Where ``minimum`` or ``maximum`` bind, T gives
        way, but not beyond what ``n_params`` allows: then T N may be far below ``total_steps``.

        Args:
            total_steps: Steps of all trials together.
            loss: As for :class:`InnerHorizon`.
            constant: c, from which T follows; that of the returned horizon is what came out.
            minimum: The least N.
            maximum: The largest N; None for no limit.
            learning_rate: Step length times √N, positive.
            phi: As for :class:`InnerHorizon`.
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
            phi=phi,
        )
        if total < plan.minimum:
            rule = f"at least minimum={plan.minimum}"
            raise ValueError(errors.rule_message("total_steps", rule, total_steps))
        exponent = EXPONENTS[plan.loss]
        n_outer, n_inner = split_budget(
            total,
            constant=plan.constant,
            exponent=exponent,
            minimum=plan.minimum,
            maximum=plan.maximum,
            n_params=n_params,
        )
        return replace(plan, n_outer=n_outer, constant=n_inner / n_outer**exponent)

    @staticmethod
    def growing(
        *,
        constant: float | None = None,
        exponent: float = 2.0,
        promote: int = 3,
        maximum: int | None = None,
        minimum: int = 1,
        learning_rate: float = 1.0,
        phi: float | None = None,
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
            phi: As for :class:`InnerHorizon`.
            total_steps: Steps of all trials together, continuations included, where the search
                ends; None for no end.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: An argument has a value outside its range.
        """
        if total_steps is not None:
            total_steps = errors.check_int("total_steps", total_steps, minimum=1)
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
            phi=phi,
            total_steps=total_steps,
        )

    @property
    def n_inner(self) -> int:
        """N, the number of SGD steps of each trial.

        Raises:
            AttributeError: The horizon grows, so that there is no single N.
        """
        # Theorem 3: N ≍ T for "convex". Section F.1: N ≍ T² for "nonconvex".
        return self._clipped(self.n_outer or 1, EXPONENTS[self.loss])

    @property
    def step_size(self) -> float:
        """η = ``learning_rate`` / √N, the length of the steps (Theorem 1).

        Raises:
            AttributeError: The horizon grows, so that there is no single N.
        """
        return self.step_size_for(self.n_inner)

    def step_size_for(self, n_steps: int) -> float:
        """Return ``learning_rate`` / √n for a trial of n >= 1 steps.

        Args:
            n_steps: n.

        Returns:
            η, the length of the steps.

        Raises:
            TypeError: ``n_steps`` is not an integer.
            ValueError: ``n_steps`` is below 1.
        """
        n_steps = errors.check_int("n_steps", n_steps, minimum=1)
        # Theorem 1: steps of constant length in proportion to N^(-1/2)
        return self.learning_rate / math.sqrt(n_steps)

    def noise_variance(self, n_steps: int) -> float | None:
        """Return φ² / n, the noise variance of a value after n >= 1 steps; None without ``phi``.

        Args:
            n_steps: n.

        Returns:
            The variance in squared units of the objective.

        Raises:
            TypeError: ``n_steps`` is not an integer.
            ValueError: ``n_steps`` is below 1.
        """
        n_steps = errors.check_int("n_steps", n_steps, minimum=1)
        # Theorem 1: the excess risk is at most N^(-1/2) φ(N)
        return None if self.phi is None else self.phi**2 / n_steps

    def steps(self, trial_number: int) -> int:
        """Return N, the number of SGD steps of one trial.

        Args:
            trial_number: How many configurations came before it, continuations not counted.

        Raises:
            TypeError: ``trial_number`` is not an integer.
            ValueError: ``trial_number`` is negative.
        """
        errors.check_int("trial_number", trial_number, minimum=0)
        return self.n_inner

    def within_budget(self, n_steps: int, *, spent: int) -> int:
        """Return ``n_steps``: only a growing horizon has a total.

        Args:
            n_steps: How many more steps are wanted.
            spent: Steps taken so far by all trials.

        Raises:
            TypeError: An argument is not an integer.
            ValueError: An argument is negative.
        """
        errors.check_int("spent", spent, minimum=0)
        return errors.check_int("n_steps", n_steps, minimum=0)

    def promotions(
        self,
        values: Sequence[float],
        steps: Sequence[int],
        *,
        direction: Literal["maximize", "minimize"] = "maximize",
    ) -> list[int]:
        """Return which trials should be continued now, the best first: here none, as N stays.

        Args:
            values: The value of each configuration after its longest training; NaN where there is
                none (running or failed). One for every configuration started, shape (n,).
            steps: Number of steps behind each value, shape (n,).
            direction: "maximize" if the largest values are the best, "minimize" for losses.

        Returns:
            Indices of configurations to be continued to ``steps(n - 1)`` steps.

        Raises:
            TypeError: ``direction`` is no text.
            ValueError: The lengths differ, or ``direction`` is neither of the two.
        """
        checked_table(values, steps, direction)
        return []

    def _clipped(self, base: int, exponent: float) -> int:
        """Return c baseᵖ as a whole number of steps within the limits."""
        return steps_by_law(
            self.constant, base, exponent, minimum=self.minimum, maximum=self.maximum
        )


@dataclass(frozen=True, kw_only=True)
class GrowingHorizon(InnerHorizon):
    """A horizon that grows with the number of trials: N_t = ceil(c tᵖ), t = 1, 2, ...

    Without continuations, late trials would win by their training alone and early ones mislead the
    model. So whenever N has grown, the best ``promote`` trials are continued to the new N, and only
    each configuration's latest value counts. T need not be known: after B steps it is about
    (3 B / c)^(1/3), less the share of the continuations. Made by :meth:`InnerHorizon.growing`.

    Args:
        constant: c, positive.
        exponent: p, not negative.
        promote: How many of the best trials are continued whenever N has grown.
        minimum: The least N.
        maximum: The largest N; None for no limit.
        learning_rate: Step length times √N, positive.
        phi: As for :class:`InnerHorizon`.
        total_steps: Steps of all trials together, continuations included; None for no end.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range.

    Example:
        .. code-block:: python

            from bbo_plugins import InnerHorizon

            horizon = InnerHorizon.growing(constant=1.0, promote=1)
            losses, steps = [0.3, 0.1, 0.2], [1, 4, 9]  # of three configurations
            assert horizon.promotions(losses, steps, direction="minimize") == [1]
            assert horizon.steps(2) == 9  # to which the second one is continued
    """

    n_outer: int | None = field(default=None, init=False)
    loss: Literal["growing"] = field(default="growing", init=False)  # type: ignore[assignment]
    constant: float = _GROWING_CONSTANT
    exponent: float = 2.0
    promote: int = 3
    total_steps: int | None = None

    def _check_law(self) -> None:
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
            trial_number: How many configurations came before it, continuations not counted.

        Raises:
            TypeError: ``trial_number`` is not an integer.
            ValueError: ``trial_number`` is negative, or N is beyond the floats.
        """
        number = errors.check_int("trial_number", trial_number, minimum=0)
        return self._clipped(number + 1, self.exponent)

    def within_budget(self, n_steps: int, *, spent: int) -> int:
        """Return how many of ``n_steps`` more steps may be taken after ``spent`` ones.

        All of them without a total number of steps, else down to 0.

        Args:
            n_steps: How many more steps are wanted.
            spent: Steps taken so far by all trials.

        Raises:
            TypeError: An argument is not an integer.
            ValueError: An argument is negative.
        """
        wanted = super().within_budget(n_steps, spent=spent)
        return wanted if self.total_steps is None else max(min(wanted, self.total_steps - spent), 0)

    def promotions(
        self,
        values: Sequence[float],
        steps: Sequence[int],
        *,
        direction: Literal["maximize", "minimize"] = "maximize",
    ) -> list[int]:
        """Return which of the best ``promote`` configurations have less training than the newest.

        Args:
            values: The value of each configuration after its longest training; NaN where there is
                none (running or failed). One for every configuration started, shape (n,).
            steps: Number of steps behind each value, shape (n,).
            direction: "maximize" if the largest values are the best, "minimize" for losses.

        Returns:
            Indices of configurations to be continued to ``steps(n - 1)`` steps, the best first; of
            equal values the earlier one is the better.

        Raises:
            TypeError: ``direction`` is no text.
            ValueError: The lengths differ, or ``direction`` is neither of the two.
        """
        maximized, taken = checked_table(values, steps, direction)
        if not len(maximized):
            return []
        goal = self._clipped(len(maximized), self.exponent)
        order = np.argsort(-maximized, kind="stable")  # NaN last
        best: list[int] = order[: self.promote].tolist()
        return [index for index in best if maximized[index] > -np.inf and taken[index] < goal]


def _set(horizon: InnerHorizon, name: str, value: object) -> None:
    """Replace an argument by its checked plain Python form while ``horizon`` is being made."""
    object.__setattr__(horizon, name, value)
