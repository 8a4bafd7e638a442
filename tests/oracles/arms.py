"""Tables of past trials, and the probability with which UHE-BO's bandit explores, from the rules.

The table is that of :mod:`tests.oracles.exp3` with what a model expected of each trial added.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bbo_plugins.methods.observations import NO_ARM, TrialHistory
from tests.oracles import exp3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bbo_plugins.methods.uhe_bo.algorithm import Variant

# arm or None, finished, value or None, expected gain or None
Row: TypeAlias = tuple[int | None, bool, float | None, float | None]


def past_of(rows: Mapping[int, Row]) -> TrialHistory:
    """Return the table whose trials have these numbers."""
    numbers = sorted(rows)

    def column(index: int) -> list[float]:
        entries = [rows[number][index] for number in numbers]
        return [math.nan if entry is None else float(entry) for entry in entries]

    arms = np.array(column(0))
    return TrialHistory(
        indices=np.array(numbers, dtype=np.int64),
        arms=np.where(np.isnan(arms), NO_ARM, arms).astype(np.int64),
        finished=np.array([rows[number][1] for number in numbers], dtype=np.bool_),
        values=np.array(column(2), dtype=np.float64),
        expected_gains=np.array(column(3), dtype=np.float64),
        criteria=np.full(len(numbers), "", dtype=np.object_),
    )


def first_of(rows: Mapping[int, Row], number: int) -> int:
    """Return the first trial that an arm or a model suggested."""
    return min(
        [number, *(n for n, row in rows.items() if row[0] is not None or row[3] is not None)]
    )


def random_probability(
    rows: Mapping[int, Row], number: int, variant: Variant, n_trials: int | None
) -> float:
    """Return the probability of the random arm at the first trial of a pair."""
    first = first_of(rows, number)
    trials: exp3.Trials = {n: row[:3] for n, row in rows.items()}
    rounds = exp3.pair_rounds(trials, number, first, variant.reward)
    if n_trials is None:
        return exp3.anytime(rounds, lambda i: exp3.paper_rate(2 * i))[1][0]
    n_after_startup = 2 * max((n_trials - first) // 2, 1)  # a pair is not cut in two
    return exp3.textbook(rounds, exp3.paper_rate(n_after_startup))[1][0]
