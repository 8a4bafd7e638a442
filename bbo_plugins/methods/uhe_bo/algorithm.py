"""Algorithm 1, one step of UHE-BO: which arm, which criterion, which point.

Trials come in pairs. At the first trial of a pair the bandit pulls one of two arms. The random arm
takes a random point, and at the second trial a model whose hyperparameters are estimated by the
consistent criterion. The model's arm takes two ordinary steps of :mod:`bbo_plugins.methods.gp_bo`.
The better of the two values decides the reward.

By default the bandit is asked only while the search has stagnated: the model expects next to
nothing of its suggestions, and the latest trials brought next to nothing.

The bandit is EXP3 with two arms; a pair of consecutive trials after start-up is a round. Nothing is
kept between calls: it is replayed from the known pairs in the order of their numbers, so that every
process that sees the same study computes the same probabilities. Workers in parallel overlap: a
pair without a reward yet is passed over, and a reward is divided by the p of the replay.

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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.likelihood import MARGINAL, FitCriterion
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.observations import NO_ARM, Suggestion
from bbo_plugins.methods.uhe_bo.criteria import NearestNeighborPseudoData, WeightedLeaveOneOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bbo_plugins.methods.observations import Observations, TrialHistory
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

RANDOM_ARM: Final = 0
MODEL_ARM: Final = 1
RewardRule = Literal["improvement", "scaled"]

_N_ARMS: Final = 2
_SMALL_GAIN = 5e-3  # expected improvement, in standard deviations of the transformed targets
_SMALL_RISE = 1e-3  # of the best value over the latest finished trials, in the same unit
_N_RECENT = 4  # finished trials: two pairs
_SAME = 1e-10  # points that agree to this distance are the same point


@dataclass(frozen=True)
class Variant:
    """Which parts of the method are on.

    Attributes:
        criterion: What estimates the hyperparameters after a random point.
        explores: Whether the bandit has its random arm; without it the model suggests every trial.
        on_stagnation: Whether both wait until the search has stagnated. Else, as in the paper,
            the bandit decides every pair and ``criterion`` estimates for every trial.
        n_draws: Uniformly random points of which the random arm takes the one in the largest gap;
            the paper's arm draws one.
        reward: What the bandit is rewarded for.
    """

    criterion: FitCriterion = field(default_factory=WeightedLeaveOneOut)
    explores: bool = True
    on_stagnation: bool = True
    n_draws: int = 32
    reward: RewardRule = "improvement"


EXPLORE_WHEN_STAGNATED: Final = Variant()
MAP_ONLY: Final = Variant(criterion=MARGINAL, explores=False)  # the parent method
AS_IN_THE_PAPER: Final = Variant(
    criterion=NearestNeighborPseudoData(), on_stagnation=False, n_draws=1, reward="scaled"
)


@one_blas_thread()
def suggest(
    space: SearchSpace,
    observations: Observations,
    history: TrialHistory,
    *,
    index: int,
    rng: np.random.Generator,
    options: gp_bo.Options = gp_bo.DEFAULT_OPTIONS,
    variant: Variant = EXPLORE_WHEN_STAGNATED,
    n_trials: int | None = None,
) -> Suggestion:
    """Return the next point to evaluate.

    A pure function of its arguments (``rng`` counts by its state); it does not raise for odd data.

    Args:
        space: The search space, d dimensions.
        observations: What is known of the study; at least one evaluated point.
        history: The study's other trials.
        index: Index of the trial to suggest among those that continue no other one.
        rng: Source of randomness of the arm, the random point and the candidate points.
        options: Acquisition function, noise and warm starts; the criterion is set here.
        variant: Which parts of the method are on.
        n_trials: Planned number of trials, start-up included, from which T follows; None if
            unknown.

    Returns:
        The point, of shape (d,), with the arm that was pulled (None if the bandit was not asked)
        and the criterion that was used (None for a random point).
    """
    first = history.first_suggested(index, with_gain=True)
    _, place = pair_of(index, first)
    arm = None
    if variant.explores and place == 0 and _is_asked(variant, history, index):
        rounds = pair_rewards(history, index=index, first=first, rule=variant.reward)
        n_rounds = None if n_trials is None else max((n_trials - first) // 2, 1)
        bandit = replay(rounds, n_rounds=n_rounds)
        arm = int(rng.random() >= bandit.probabilities[RANDOM_ARM])  # Algorithm 1, lines 6-10
    if arm == RANDOM_ARM:
        return Suggestion(_random_point(space, observations, rng, variant.n_draws), arm=arm)
    after_random = place == 1 and history.arm_of(index - 1) == RANDOM_ARM
    consistent = after_random or not variant.on_stagnation
    criterion = variant.criterion if consistent else MARGINAL
    options = replace(options, criterion=criterion)
    step = gp_bo.suggest(space, observations, rng=rng, options=options)  # Algorithm 1, lines 15-16
    # Whether the search has stagnated is for the ordinary model to say.
    gain = None if after_random and variant.on_stagnation else step.expected_gain
    return replace(step, arm=arm, expected_gain=gain)


def _is_asked(variant: Variant, history: TrialHistory, index: int) -> bool:
    """Whether the bandit decides on the pair that begins with the trial."""
    return not variant.on_stagnation or _is_stagnated(history.before(index))


def _is_stagnated(history: TrialHistory) -> bool:
    """Whether the model expects next to nothing and the latest trials brought next to nothing.

    Of the model's last two expectations the smaller counts: a search that has converged looks near
    and far alternately, and that may coincide with the pairs. As long as no trial has a value
    that counts (none is feasible, say), the expectations alone decide.
    """
    gains = history.expected_gains[~np.isnan(history.expected_gains)][-2:]
    values = history.values[history.finished & np.isfinite(history.values)]
    if not len(gains) or gains.min() >= _SMALL_GAIN:
        return False
    if len(values) <= _N_RECENT:
        return not len(values)
    z = OutputTransform.fit(values).forward(values)
    return bool(z.max() - z[:-_N_RECENT].max() < _SMALL_RISE)


def _random_point(
    space: SearchSpace, observations: Observations, rng: np.random.Generator, n_draws: int
) -> FloatArray:
    """Return, of several uniformly random points, the one (d,) furthest from what is known.

    Pending points are known, and so is the mirror image of each point in the walls of the cube:
    without it the corners, which are far from everything, would be filled first. In a finite space
    a point that is known is returned only if all are, or if there are too many to look through.
    """
    draws: FloatArray = space.snap(rng.random((n_draws, len(space))))  # Algorithm 1, line 12
    points = np.concatenate([observations.X, observations.pending, observations.failed])
    gaps = space.distances(draws, points).min(axis=1, initial=np.inf)
    if gaps.max() < _SAME and space.size is not None:
        found = space.unseen_point(space.keys_inside(points), rng)
        return draws[0] if found is None else found
    # A dimension that is held has no walls: at one, every draw would be its own mirror image.
    has_walls = [not (axis.is_categorical or axis.held_at is not None) for axis in space.dimensions]
    numeric = draws[:, has_walls]
    walls = 2.0 * np.minimum(numeric, 1.0 - numeric).min(axis=1, initial=np.inf)
    furthest: FloatArray = draws[np.minimum(gaps, walls).argmax()]
    return furthest


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
    # Algorithm 1, line 5: K log K / ((e-1) n) with K = 2, n = T/2 is 4 log 2 / ((e-1) T)
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


def pair_of(index: int, first: int) -> tuple[int, int]:
    """Return the pair to which a trial belongs and its place in there, both from 0.

    Args:
        index: The trial's index.
        first: Index of the first trial after start-up.
    """
    return divmod(index - first, 2)


def pair_rewards(
    history: TrialHistory, *, index: int, first: int, rule: RewardRule
) -> tuple[Round, ...]:
    """Return the rounds of all pairs before the pair of one trial, in order.

    The arm of a pair is that of its first member. There is a reward as soon as both members have
    finished; it may still change when an earlier trial finishes later.

    Args:
        history: The study's trials; those that do not precede the pair of ``index`` are ignored.
        index: Index of the trial to be suggested.
        first: Index of the first trial after start-up.
        rule: What is rewarded. "improvement": 1 if the pair's better value is above all values of
            the trials before the pair, infinitely good ones aside, else 0.
            "scaled": the pair's better value, scaled so that the finite start-up values span
            [0, 1], and clipped; no reward as long as there is none of them, and if all are equal,
            1 above them and 0 otherwise.
    """
    n_pairs, _ = pair_of(index, first)
    values = np.where(history.finished & ~np.isnan(history.values), history.values, -np.inf)

    row = history.indices - first
    inside = (row >= 0) & (row < 2 * n_pairs)
    arms = np.full(2 * n_pairs, NO_ARM)
    arms[row[inside]] = history.arms[inside]
    finished = np.zeros(2 * n_pairs, dtype=np.bool_)
    finished[row[inside]] = history.finished[inside]
    members = np.full(2 * n_pairs, -np.inf)
    members[row[inside]] = values[inside]
    best = members.reshape(n_pairs, 2).max(axis=1)  # Algorithm 1, line 19; -inf if both failed

    if rule == "improvement":
        ordinary = np.where(values < np.inf, values, -np.inf)
        record = np.maximum.accumulate(np.concatenate([[-np.inf], ordinary]))
        starts = first + 2 * np.arange(n_pairs)
        rewards = (best > record[np.searchsorted(history.indices, starts)]).astype(np.float64)
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
