"""EXP3 as the textbook has it, with plain weights that grow, and UHE-BO's pairs one by one.

Auer, Cesa-Bianchi, Freund & Schapire (2002), "The Nonstochastic Multiarmed Bandit Problem",
Figure 1; Ha et al. (2023), "Provably Efficient Bayesian Optimization with Unknown Gaussian Process
Hyperparameter Estimation", Algorithm 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    # number -> (arm or None, finished, value or None)
    Trials = dict[int, tuple[int | None, bool, float | None]]


def paper_rate(n_trials: int) -> float:
    """Return γ of Algorithm 1, line 5, for T trials and two arms."""
    return min(1.0, math.sqrt(4.0 * math.log(2.0) / ((math.e - 1.0) * n_trials)))


def textbook(
    rounds: Sequence[tuple[int | None, float | None]], gamma: float, n_arms: int = 2
) -> tuple[list[float], list[float]]:
    """Return weights and probabilities after ``rounds`` at a constant rate, Figure 1."""
    weights = [1.0] * n_arms

    def mixed() -> list[float]:
        total = sum(weights)
        return [(1.0 - gamma) * w / total + gamma / n_arms for w in weights]

    for arm, reward in rounds:
        if arm is None or reward is None:
            continue
        estimate = reward / mixed()[arm]
        weights[arm] *= math.exp(gamma * estimate / n_arms)
    return weights, mixed()


def anytime(
    rounds: Sequence[tuple[int | None, float | None]], rate: Callable[[int], float], n_arms: int = 2
) -> tuple[list[float], list[float]]:
    """Return weights and probabilities after ``rounds``, round i (from 1) at ``rate(i)``.

    The weights of a round are those that its rate would have given to all rewards before it.
    """
    estimates: list[list[float]] = [[] for _ in range(n_arms)]

    def state(i: int) -> tuple[list[float], list[float]]:
        gamma = rate(i)
        weights = [
            math.prod(math.exp(gamma * estimate / n_arms) for estimate in arm) for arm in estimates
        ]
        mixed = [(1.0 - gamma) * w / sum(weights) + gamma / n_arms for w in weights]
        return weights, mixed

    for i, (arm, reward) in enumerate(rounds, start=1):
        if arm is not None and reward is not None:
            estimates[arm].append(reward / state(i)[1][arm])
    return state(len(rounds) + 1)


def pair_rounds(
    trials: Trials, number: int, first: int, rule: str
) -> list[tuple[int | None, float | None]]:
    """Return (arm, reward) of each pair before that of trial ``number``."""
    rounds: list[tuple[int | None, float | None]] = []
    start = first
    while start + 2 <= number:
        arm = trials.get(start, (None, False, None))[0]
        pair = [trials.get(n, (None, False, None)) for n in (start, start + 1)]
        rounds.append((arm, _reward(trials, pair, start, first, rule)))
        start += 2
    return rounds


def _reward(
    trials: Trials,
    pair: list[tuple[int | None, bool, float | None]],
    start: int,
    first: int,
    rule: str,
) -> float | None:
    if not all(finished for _, finished, _ in pair):
        return None
    values = [value for _, _, value in pair if value is not None]
    if not values:
        return 0.0
    best = max(values)

    def values_below(limit: int) -> list[float]:
        return [
            value
            for n, (_, finished, value) in trials.items()
            if n < limit and finished and value is not None
        ]

    if rule == "improvement":
        return float(all(best > value for value in values_below(start)))
    startup = values_below(first)
    if not startup:
        return None
    low, high = min(startup), max(startup)
    if low == high:
        return float(best > high)
    return min(1.0, max(0.0, (best - low) / (high - low)))
