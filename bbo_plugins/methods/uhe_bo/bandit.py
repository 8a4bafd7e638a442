"""EXP3, the two-armed bandit that decides when UHE-BO evaluates a random point.

Trials after start-up come in pairs of consecutive numbers; a pair is a round of the bandit. Nothing
is kept between calls: the bandit is replayed from the known pairs in the order of their numbers, so
that every process that sees the same study computes the same probabilities. Workers in parallel
overlap: a pair without a reward yet is passed over, and a reward is divided by the p of the replay.

| symbol | meaning                                                                               |
|--------|---------------------------------------------------------------------------------------|
| K      | number of arms, 2                                                                     |
| T      | number of *trials* after start-up, as in the paper; they make n = T/2 rounds (pairs)  |
| i      | number of a round, from 1                                                             |
| γ      | rate of exploration: every arm has at least probability γ/K                           |
| p      | probabilities of the arms, K of them                                                  |
| r      | reward of a round, in [0, 1]                                                          |
| Ĝ      | estimated total rewards of the arms, Σ r/p over the rounds that pulled it, K of them  |
| ω      | weights exp(γ Ĝ / K), kept as logarithms, K of them                                   |

Sources: Ha et al., Algorithm 1 and section 5.1; Auer, Cesa-Bianchi, Freund & Schapire (2002), "The
Nonstochastic Multiarmed Bandit Problem", Figure 1 and Corollary 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from bbo_plugins.methods.observations import NO_ARM, TrialHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bbo_plugins.space.dimension import FloatArray

RewardRule = Literal["improvement", "scaled"]
_N_ARMS: Final = 2


class Round(NamedTuple):
    """One round of the bandit, as far as it is known.

    Attributes:
        arm: The arm pulled, 0 or 1; None if the bandit did not decide.
        reward: The reward in [0, 1]; None if there is none, or not yet.
    """

    arm: int | None
    reward: float | None


@dataclass(frozen=True)
class Bandit:
    """The state of the bandit between two rounds.

    Attributes:
        gains: Ĝ, one per arm.
        n_played: How many rounds there have been, those without arm or reward included.
        n_rounds: How many rounds there will be; None if unknown.
    """

    gains: tuple[float, ...]
    n_played: int
    n_rounds: int | None

    @property
    def gamma(self) -> float:
        """γ of the next round."""
        return exploration_rate(self.n_played + 1 if self.n_rounds is None else self.n_rounds)

    @property
    def log_weights(self) -> tuple[float, ...]:
        """Logarithms of the weights ω before the next round, one per arm."""
        rate = self.gamma / _N_ARMS
        return tuple(rate * gain for gain in self.gains)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Probabilities p of the arms in the next round."""
        return probabilities(self.log_weights, self.gamma)

    def after(self, arm: int | None, reward: float | None) -> Bandit:
        """Return the state after one more :class:`Round`."""
        gains = list(self.gains)
        if arm is not None and reward:  # Algorithm 1, line 20: the exponent but for its γ/K
            gains[arm] += reward / self.probabilities[arm]
        return replace(self, gains=tuple(gains), n_played=self.n_played + 1)


def exploration_rate(n_rounds: int) -> float:
    """Return γ in (0, 1] for a number of rounds, half the paper's T; Auer et al., Corollary 3.2."""
    # Algorithm 1, line 5: n_rounds = T/2
    return min(1.0, math.sqrt(_N_ARMS * math.log(_N_ARMS) / ((math.e - 1.0) * n_rounds)))


def probabilities(log_weights: Sequence[float], gamma: float) -> tuple[float, ...]:
    """Return the probabilities p of the arms for their log ω and γ in [0, 1]."""
    largest = max(log_weights)
    weights = [math.exp(log_weight - largest) for log_weight in log_weights]
    share = (1.0 - gamma) / sum(weights)
    # Algorithm 1, line 7
    return tuple(share * weight + gamma / len(weights) for weight in weights)


def replay(rounds: Iterable[Round], *, n_rounds: int | None = None) -> Bandit:
    """Return the state of the bandit after the given rounds.

    A round without arm or reward does not change Ĝ, but counts as a round played: the rate of a
    round depends on its place only, not on what has finished.

    Args:
        rounds: All rounds before the one to be played, in order.
        n_rounds: How many rounds there will be, half the paper's T, at least 1; None if unknown.
            More may be played, at the same rate.
    """
    bandit = Bandit(gains=(0.0,) * _N_ARMS, n_played=0, n_rounds=n_rounds)
    for arm, reward in rounds:
        bandit = bandit.after(arm, reward)
    return bandit


def pair_of(number: int, first: int) -> tuple[int, int]:
    """Return the pair to which a trial belongs and its place in there, both from 0.

    Args:
        number: The trial's number.
        first: Number of the first trial after start-up.
    """
    return divmod(number - first, 2)


def pair_rewards(
    history: TrialHistory, *, number: int, first: int, rule: RewardRule
) -> tuple[Round, ...]:
    """Return the rounds of all pairs before the pair of one trial, in order.

    The arm of a pair is that of its first member. There is a reward as soon as both members have
    finished; it may still change when a trial with a smaller number finishes later.

    Args:
        history: The study's trials; those that do not precede the pair of ``number`` are ignored.
        number: Number of the trial to be suggested.
        first: Number of the first trial after start-up.
        rule: What is rewarded. "improvement": 1 if the pair's better value is above all values of
            trials with smaller numbers than the pair's, else 0. "scaled": the pair's better value,
            scaled so that the finite start-up values span [0, 1], and clipped; no reward as long as
            there is none of them, and if all are equal, 1 above them and 0 otherwise.
    """
    n_pairs, _ = pair_of(number, first)
    values = np.where(history.finished & ~np.isnan(history.values), history.values, -np.inf)

    row = history.numbers - first
    inside = (row >= 0) & (row < 2 * n_pairs)
    arms = np.full(2 * n_pairs, NO_ARM)
    arms[row[inside]] = history.arms[inside]
    finished = np.zeros(2 * n_pairs, dtype=np.bool_)
    finished[row[inside]] = history.finished[inside]
    members = np.full(2 * n_pairs, -np.inf)
    members[row[inside]] = values[inside]
    best = members.reshape(n_pairs, 2).max(axis=1)  # Algorithm 1, line 19; -inf if both failed

    if rule == "improvement":
        record = np.maximum.accumulate(np.concatenate([[-np.inf], values]))
        starts = first + 2 * np.arange(n_pairs)
        rewards = (best > record[np.searchsorted(history.numbers, starts)]).astype(np.float64)
    else:
        rewards = _scaled(best, values[row < 0])
    known = finished.reshape(n_pairs, 2).all(axis=1) & ~np.isnan(rewards)
    return tuple(
        Round(None if arm == NO_ARM else arm, reward if is_known else None)
        for arm, reward, is_known in zip(
            arms[::2].tolist(), rewards.tolist(), known.tolist(), strict=True
        )
    )


def _scaled(best: FloatArray, startup: FloatArray) -> FloatArray:
    """Map ``best`` (n,) to [0, 1] by the range of the finite start-up values, NaN without any."""
    startup = startup[np.isfinite(startup)]
    if not len(startup):
        return np.where(best > -np.inf, np.nan, 0.0)
    low, high = float(startup.min()), float(startup.max())
    if low == high:
        return (best > high).astype(np.float64)
    size = max(-low, high)  # the larger magnitude: without it, high - low might overflow
    return (np.clip(best, low, high) / size - low / size) / (high / size - low / size)
