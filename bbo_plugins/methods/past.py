"""What a study's other trials say about the search itself: arms pulled, values, expectations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.methods.exp3 import NO_ARM, TrialTable

if TYPE_CHECKING:
    from bbo_plugins.gp.kernels import FloatArray


@dataclass(frozen=True, kw_only=True)
class Past:
    """A study's trials but the one to be suggested, start-up included, by number.

    Attributes:
        trials: Numbers, arms, states and values of the n trials.
        expected_gains: What a model expected of each trial when it suggested it, NaN for a trial
            that no model suggested, shape (n,).

    Raises:
        ValueError: The shapes disagree.
    """

    trials: TrialTable
    expected_gains: FloatArray

    def __post_init__(self) -> None:
        """Check the shape."""
        shape = self.trials.numbers.shape
        if self.expected_gains.shape != shape:
            message = (
                f"expected_gains must have shape {shape}, but got {self.expected_gains.shape}."
            )
            raise ValueError(message)

    def first_suggested(self, number: int) -> int:
        """Return the first trial that an arm or a model suggested, ``number`` if none before it."""
        suggested = (self.trials.arms != NO_ARM) | ~np.isnan(self.expected_gains)
        numbers: list[int] = self.trials.numbers[suggested].tolist()
        return min([number, *numbers[:1]])

    def before(self, number: int) -> Past:
        """Return the trials with smaller numbers."""
        known = self.trials.numbers < number
        trials = TrialTable(
            numbers=self.trials.numbers[known],
            arms=self.trials.arms[known],
            finished=self.trials.finished[known],
            values=self.trials.values[known],
        )
        return Past(trials=trials, expected_gains=self.expected_gains[known])

    def count(self, arm: int) -> int:
        """Return how many trials pulled ``arm``."""
        return int((self.trials.arms == arm).sum())

    def arm_of(self, number: int) -> int:
        """Return the arm that trial ``number`` pulled, ``NO_ARM`` if none or not known."""
        arms: list[int] = self.trials.arms[self.trials.numbers == number].tolist()
        return arms[0] if arms else NO_ARM
