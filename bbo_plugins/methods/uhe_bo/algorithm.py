"""UHE-BO: Bayesian optimization that does not trust what its own biased data say about the kernel.

An optimizer samples where it expects much, so its data are biased, and kernel hyperparameters
fitted to them can be confidently wrong: the search then refines one basin for ever. UHE-BO spends
trials on exploration, as many as a bandit finds worth while, and estimates the hyperparameters by a
loss that weighs the data as if they had been sampled uniformly.

Trials come in pairs. At the first of a pair the bandit (EXP3,
:mod:`bbo_plugins.methods.uhe_bo.bandit`)
pulls one of two arms. The random arm doubts the model: a random point, then one that the model
suggests with hyperparameters estimated by the consistent loss. The model's arm suggests both as
ever. The better of the two decides the reward.

| the paper                                      | here (:data:`DEFAULT_POLICY`)                   |
|------------------------------------------------|-------------------------------------------------|
| the bandit decides every pair                  | only while the search is at rest, see below     |
| pseudo-data loss, Eq. (2), for every trial     | weighted leave-one-out after a random point,    |
|                                                | marginal likelihood elsewhere                   |
| the random arm draws a uniformly random point  | of 32 such points, the one in the largest gap   |
| reward: the pair's better value, scaled        | 1 if the pair improved the best value, else 0   |

A :class:`Policy` can be made to be the paper's in all of these.

The search is at rest when the model expects next to nothing of its suggestions and the latest
trials have brought next to nothing. Then another step of the same model is worth little by its own
account, and that account is what the bias may have spoiled; before, exploring costs what the model
would have gained. As long as the search moves, this is the parent method
(:mod:`bbo_plugins.methods.gp_bo`). With :data:`PLAIN_POLICY` it always is.

Why the second trial needs the other loss: a random point on the slope of an unknown basin is worse
than the incumbent. Whether the next point goes on from there depends on the length-scales, which
the marginal likelihood reads off the crowd of points in the basin that is known already.

What remains of the paper's guarantee, in outline. Let trials run one at a time without noise or
constraints, the objective be bounded and in the kernel's function space, its targets keep a spread
and the hyperparameters stay in a compact set. Then the search comes to rest again and again: values
cannot rise by a fixed step for ever, and the gain expected at the suggested points has 0 as a lower
limit, as points of a compact set accumulate and leave no variance where they do (Vazquez & Bect
2010, for fixed hyperparameters). Each time the random arm has at least probability γ_i/2: a
constant if T is known, of the order i^(-1/2) for pair i if not. It is pulled infinitely often
almost surely if these add up to infinity, which for unknown T asks that the rests do not become
ever rarer, as at the pairs 4, 16, 64, ... (no limit on their rarity is shown). All of its draws
fall into any given ball with a fixed probability, so the data become dense, which is what
consistency needs (:mod:`bbo_plugins.methods.uhe_bo.losses` says which loss is consistent in what
sense). Not claimed: the rate of Theorem 6.8, which needs a fixed share of random trials.

The thresholds and the number of draws were chosen on test functions, not derived. With noise the
model always expects something, so that the search hardly ever comes to rest: there this is little
more than the parent method.

Sources: Ha et al. (2023), "Provably Efficient Bayesian Optimization with Unknown Gaussian Process
Hyperparameter Estimation", Algorithm 1 and sections 5 and 6; Vazquez & Bect (2010), "Convergence
properties of the expected improvement algorithm with fixed mean and covariance functions".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from bbo_plugins.gp.blas import one_blas_thread
from bbo_plugins.gp.likelihood import MARGINAL, Loss
from bbo_plugins.gp.targets import OutputTransform
from bbo_plugins.methods import gp_bo
from bbo_plugins.methods.uhe_bo import bandit as exp3
from bbo_plugins.methods.uhe_bo.losses import WeightedLeaveOneOut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bbo_plugins.acquisition.functions import AcquisitionName
    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.methods.observations import Observations, Past
    from bbo_plugins.methods.uhe_bo.bandit import RewardRule
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

RANDOM_ARM: Final = 0


MODEL_ARM: Final = 1


_SMALL_GAIN = 5e-3  # expected improvement, in standard deviations of the transformed targets


_SMALL_RISE = 1e-3  # of the best value over the latest finished trials, in the same unit


_N_RECENT = 4  # finished trials: two pairs


_SAME = 1e-10  # points that agree to this distance are the same point


_MAX_ENUMERATED = 20_000  # finite spaces up to this size are listed to find a point not known yet


@dataclass(frozen=True)
class Policy:
    """Which parts of the method are on.

    Attributes:
        loss: What estimates the hyperparameters against the bias.
        explores: Whether the bandit has its random arm; without it the model suggests every trial.
        on_stagnation: Whether both wait until the search has come to rest. Else, as in the paper,
            the bandit decides every pair and ``loss`` estimates for every trial.
        n_draws: Uniformly random points of which the random arm takes the one in the largest gap;
            the paper's arm draws one.
        reward: What the bandit is rewarded for.
    """

    loss: Loss = field(default_factory=WeightedLeaveOneOut)
    explores: bool = True
    on_stagnation: bool = True
    n_draws: int = 32
    reward: RewardRule = "improvement"


DEFAULT_POLICY: Final = Policy()


PLAIN_POLICY: Final = Policy(loss=MARGINAL, explores=False)  # the parent method


@dataclass(frozen=True)
class Suggestion(gp_bo.Suggestion):
    """The outcome of one step.

    Attributes:
        arm: The arm that the bandit pulled for this trial, None if it was not asked.
        loss: What the hyperparameters were estimated by, None for a random point.
    """

    arm: int | None = None
    loss: Loss | None = None


@one_blas_thread()
def suggest(
    space: SearchSpace,
    observations: Observations,
    past: Past,
    *,
    number: int,
    rng: np.random.Generator,
    acquisition: AcquisitionName = "logei",
    beta: float = gp_bo.DEFAULT_BETA,
    deterministic: bool = False,
    n_trials: int | None = None,
    policy: Policy = DEFAULT_POLICY,
    warm_starts: Callable[[Loss], Sequence[WarmStart | None]] = lambda _: (),
) -> Suggestion:
    """Return the next point to evaluate.

    A pure function of its arguments (``rng`` counts by its state); it does not raise for odd data.

    Args:
        space: The search space, d dimensions.
        observations: What is known of the study; at least one evaluated point.
        past: The study's other trials, by number.
        number: Number of the trial to suggest.
        rng: Source of randomness of the arm, the random point and the candidate points.
        acquisition: Acquisition function to maximize.
        beta: Multiplier of σ for "ucb".
        deterministic: Whether the objective is free of noise.
        n_trials: T, the planned number of trials, start-up included; None if unknown.
        policy: Which parts of the method are on.
        warm_starts: Returns the latest :attr:`Suggestion.warm_starts` obtained with a given loss.
    """
    first = past.first_suggested(number)
    _, place = exp3.pair_of(number, first)
    asked = place == 0 and (not policy.on_stagnation or _is_at_rest(past.before(number)))
    arm = None
    if asked and policy.explores:
        rounds = exp3.pair_rewards(past.trials, number=number, first=first, rule=policy.reward)
        n_rounds = None if n_trials is None else max((n_trials - first) // 2, 1)
        bandit = exp3.replay(rounds, n_rounds=n_rounds)
        arm = int(rng.random() >= bandit.probabilities[RANDOM_ARM])
    if arm == RANDOM_ARM:
        x = _random_point(space, observations, rng, policy.n_draws)  # Algorithm 1, line 12
        return Suggestion(x, (), (), arm=arm)
    doubted = place == 1 and past.arm_of(number - 1) == RANDOM_ARM
    loss = policy.loss if doubted or not policy.on_stagnation else MARGINAL
    step = gp_bo.suggest(
        space,
        observations,
        rng=rng,
        acquisition=acquisition,
        beta=beta,
        deterministic=deterministic,
        loss=loss,
        warm_starts=warm_starts(loss),
        marginal_start=next(iter(warm_starts(MARGINAL)), None),
    )
    # Whether the search is at rest is the ordinary model's to say.
    gain = None if doubted and policy.on_stagnation else step.expected_gain
    used = loss if step.warm_starts else None  # no model could be used
    return Suggestion(step.x, step.warm_starts, step.notes, gain, arm=arm, loss=used)


def _is_at_rest(past: Past) -> bool:
    """Whether the model expects next to nothing and the latest trials brought next to nothing.

    Of its last two expectations the smaller counts: a search that has converged looks near and far
    by turns, and the turns may fall in with the pairs. As long as no trial has a value that counts,
    as while none is feasible, nothing can have risen and the expectations alone decide.
    """
    gains = past.expected_gains[~np.isnan(past.expected_gains)][-2:]
    values = past.trials.values[past.trials.finished & np.isfinite(past.trials.values)]
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
    draws: FloatArray = space.snap(rng.random((n_draws, len(space))))
    known = [observations.X, observations.pending]
    if observations.failed is not None:
        known.append(observations.failed)
    points = np.concatenate(known)
    # One draw at a time: all distances at once would be an array of draws x points x dimensions.
    distances = [space.distances(draw[None, :], points) for draw in draws]
    gaps = np.array([row.min(initial=np.inf) for row in distances])
    if gaps.max() < _SAME and space.size is not None and space.size <= _MAX_ENUMERATED:
        return _unknown_point(space, points, rng, otherwise=draws[0])
    # A dimension that is held has no walls: at one, every draw would be its own mirror image.
    has_walls = [not (axis.is_categorical or axis.held_at is not None) for axis in space.dimensions]
    numeric = draws[:, has_walls]
    walls = 2.0 * np.minimum(numeric, 1.0 - numeric).min(axis=1, initial=np.inf)
    furthest: FloatArray = draws[np.minimum(gaps, walls).argmax()]
    return furthest


def _unknown_point(
    space: SearchSpace, known: FloatArray, rng: np.random.Generator, *, otherwise: FloatArray
) -> FloatArray:
    """Return a random point (d,) of a finite space that is not in ``known``, if there is one."""
    points = rng.permutation(space.enumerate())
    distinct = {row.tobytes() for row in np.rint(known / _SAME) + 0.0}
    unknown = [row.tobytes() not in distinct for row in np.rint(points / _SAME) + 0.0]
    return points[np.argmax(unknown)] if any(unknown) else otherwise
