"""One step of UHE-BO: which arm, which criterion, which point (see the package for the paper).

Trials come in pairs. At the first trial of a pair the bandit pulls one of two arms. The random arm
takes a random point, and at the second trial a model whose hyperparameters are estimated by the
consistent criterion. The model's arm takes two ordinary steps of :mod:`bbo_plugins.methods.gp_bo`.
The better of the two values decides the reward.

By default the bandit is asked only while the search has stagnated: the model expects next to
nothing of its suggestions, and the latest trials brought next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bbo_plugins.acquisition.maximize import keys_inside, unseen_point
from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.likelihood import MARGINAL, FitCriterion, name_of
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.observations import Suggestion
from bbo_plugins.methods.uhe_bo.bandit import pair_of, pair_rewards, replay
from bbo_plugins.methods.uhe_bo.losses import NearestNeighborPseudoData, WeightedLeaveOneOut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.methods.observations import Observations, TrialHistory
    from bbo_plugins.methods.uhe_bo.bandit import RewardRule
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

RANDOM_ARM: Final = 0
MODEL_ARM: Final = 1

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
    number: int,
    rng: np.random.Generator,
    options: gp_bo.Options = gp_bo.DEFAULT_OPTIONS,
    variant: Variant = EXPLORE_WHEN_STAGNATED,
    n_trials: int | None = None,
    warm_starts: Mapping[str, Sequence[WarmStart | None]] | None = None,
) -> Suggestion:
    """Return the next point to evaluate.

    A pure function of its arguments (``rng`` counts by its state); it does not raise for odd data.

    Args:
        space: The search space, d dimensions.
        observations: What is known of the study; at least one evaluated point.
        history: The study's other trials, by number.
        number: Number of the trial to suggest.
        rng: Source of randomness of the arm, the random point and the candidate points.
        options: Acquisition function and noise; criterion and warm starts are set here.
        variant: Which parts of the method are on.
        n_trials: Planned number of trials, start-up included, from which T follows; None if
            unknown.
        warm_starts: The latest :attr:`Suggestion.warm_starts` by the name of their criterion.

    Returns:
        The point, of shape (d,), with the arm that was pulled (None if the bandit was not asked)
        and the criterion that was used (None for a random point).
    """
    first = history.first_suggested(number)
    _, place = pair_of(number, first)
    asked = place == 0 and (not variant.on_stagnation or _is_stagnated(history.before(number)))
    arm = None
    if asked and variant.explores:
        rounds = pair_rewards(history, number=number, first=first, rule=variant.reward)
        n_rounds = None if n_trials is None else max((n_trials - first) // 2, 1)
        bandit = replay(rounds, n_rounds=n_rounds)
        arm = int(rng.random() >= bandit.probabilities[RANDOM_ARM])  # Algorithm 1, lines 6-10
    if arm == RANDOM_ARM:
        return Suggestion(_random_point(space, observations, rng, variant.n_draws), arm=arm)
    after_random = place == 1 and history.arm_of(number - 1) == RANDOM_ARM
    consistent = after_random or not variant.on_stagnation
    criterion = variant.criterion if consistent else MARGINAL
    fits = warm_starts or {}
    options = replace(
        options,
        criterion=criterion,
        warm_starts=fits.get(name_of(criterion), ()),
        marginal_start=next(iter(fits.get(name_of(MARGINAL), ())), None),
    )
    step = gp_bo.suggest(space, observations, rng=rng, options=options)  # Algorithm 1, lines 15-16
    # Whether the search has stagnated is for the ordinary model to say.
    gain = None if after_random and variant.on_stagnation else step.expected_gain
    return replace(step, arm=arm, expected_gain=gain)


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
    known = [observations.X, observations.pending]
    if observations.failed is not None:
        known.append(observations.failed)
    points = np.concatenate(known)
    # One draw at a time: all distances at once would be an array of draws x points x dimensions.
    distances = [space.distances(draw[None, :], points) for draw in draws]
    gaps = np.array([row.min(initial=np.inf) for row in distances])
    if gaps.max() < _SAME and space.size is not None:
        found = unseen_point(space, keys_inside(points, space), rng)
        return draws[0] if found is None else found
    # A dimension that is held has no walls: at one, every draw would be its own mirror image.
    has_walls = [not (axis.is_categorical or axis.held_at is not None) for axis in space.dimensions]
    numeric = draws[:, has_walls]
    walls = 2.0 * np.minimum(numeric, 1.0 - numeric).min(axis=1, initial=np.inf)
    furthest: FloatArray = draws[np.minimum(gaps, walls).argmax()]
    return furthest
