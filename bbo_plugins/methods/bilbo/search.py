"""Search for the best pair of a bilevel problem, as a :class:`PairScore` compares pairs.

A pair is an upper-level point x, its best response z̄(x), and a response z that takes part: z̄(x)
itself, or any that is trusted. Pairs are compared by tiers, and within a tier by one number:

| tier | the pair                                              | compared by               |
|------|-------------------------------------------------------|---------------------------|
| 0    | is in S and P                                         | value of the upper level  |
| 1    | is in P; an upper-level constraint is violated        | that constraint's slack   |
| 2    | no response to x satisfies the lower level's          | that constraint's slack   |

A joint space of at most 10⁵ points is enumerated. Elsewhere a search takes three steps:

1. Sobol points and promising observed ones of the upper level meet those of the lower level.
2. The best two distant responses to each x climb by projected gradients.
3. Rounds of ever smaller perturbations of the best pairs meet the same responses, their parents'
   own, and some near those.

Parameters with conditions are candidates like others; pairs are scored where inactive coordinates
are set, so that they make no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bbo_plugins.acquisition.candidates import shifted_sobol
from bbo_plugins.methods.bilbo.trusted_sets import LowerLevel, PairScore, TrustedSets, UpperLevel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bbo_plugins.methods.bilbo.model import BilevelProblem
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

MAX_ENUMERATED = 10**5  # finite products of this size are compared point by point
_MAX_LISTED = 128  # finite spaces of one level up to this size are listed instead of sampled
_BLOCK = 8192  # joint points that are scored together

_N_UPPER, _N_LOWER = 64, 96  # Sobol points
_N_ANCHORS = 8
_N_FEASIBLE = 2048  # joint points among which one in S is looked for first
_FAR = 0.2  # in some coordinate: the least distance of the two responses that climb
_N_PARENTS, _N_CHILDREN, _N_RESPONSES = 6, 8, 6

_FEW_LEVELS = 16  # numeric dimensions with more levels climb as if they were continuous
_FIRST_STEP, _LONGEST_STEP = 0.1, 0.3  # of an ascent, in units of the cube
_SHORTEN = 0.25
_BEHIND_ALL = -1e6  # standardized values are above it
_KEEP = 0.5  # chance that a perturbation keeps a coordinate


class SearchBudget(NamedTuple):
    """The effort of a search that cannot enumerate.

    Attributes:
        n_climbs: Steps of each ascent in z.
        radii: Standard deviation of the perturbations in each round, in units of the cube.
    """

    n_climbs: int
    radii: tuple[float, ...]


QUERY = SearchBudget(10, (0.1, 0.03, 0.01))
SOLUTION = SearchBudget(16, (0.1, 0.05, 0.02, 0.01, 0.004, 0.0015))


class Pairs(NamedTuple):
    """One pair for each of m upper-level points.

    Attributes:
        X: Upper-level points, shape (m, d_x).
        Z: Responses that take part, shape (m, d_z).
        best: Best responses z̄(x), shape (m, d_z).
        tier: Tier of each pair, shape (m,).
        key: The number by which pairs of the same tier are compared, shape (m,).
    """

    X: FloatArray
    Z: FloatArray
    best: FloatArray
    tier: NDArray[np.int64]
    key: FloatArray

    def ranked(self, n: int) -> Pairs:
        """Return the ``n`` best pairs, best first; of equal ones, the first."""
        order = np.lexsort((-self.key, self.tier))[:n]
        return Pairs._make(column[order] for column in self)

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """Return the pairs of all parts, in their order."""
        return cls._make(map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Pair:
    """The pair that a search found.

    Attributes:
        point: Joint point (x, z), shape (d,).
        best: Joint point (x, z̄(x)), shape (d,).
        tier: 0, 1 or 2, see the module.
        value: Value of the upper level (tier 0), or the slack of the most violated constraint.
    """

    point: FloatArray
    best: FloatArray
    tier: int
    value: float


@dataclass(frozen=True)
class _OnActive:
    """A score of the active coordinates alone, over a joint space with conditions."""

    score: PairScore
    space: SearchSpace

    @property
    def many_responses(self) -> bool:
        return self.score.many_responses

    def lower_level(self, P: FloatArray) -> LowerLevel:
        return self.score.lower_level(self.space.with_inactive_set(P))

    def upper_level(self, P: FloatArray, best: FloatArray) -> UpperLevel:
        points = (self.space.with_inactive_set(one) for one in (P, best))
        return self.score.upper_level(*points)

    def penalized(self, P: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, gradient = self.score.penalized(self.space.with_inactive_set(P))
        return value, np.where(self.space.active(P), gradient, 0.0)


def _on_active(score: PairScore, problem: BilevelProblem) -> PairScore:
    return _OnActive(score, problem.space) if problem.space.is_conditional else score


def joint(X: FloatArray, Z: FloatArray) -> FloatArray:
    """Return the joint points (m k, d) of m upper-level points (m, d_x) with ``Z`` (m, k, d_z)."""
    return np.concatenate([np.repeat(X, Z.shape[1], axis=0), Z.reshape(-1, Z.shape[2])], axis=1)


def best_pair(
    score: PairScore,
    problem: BilevelProblem,
    *,
    rng: np.random.Generator,
    anchors: FloatArray,
    budget: SearchBudget = QUERY,
) -> Pair:
    """Return the best pair of the whole space; exact if enumerated.

    Args:
        score: How pairs are compared.
        problem: The spaces.
        rng: Source of the candidates.
        anchors: Promising joint points whose surroundings are searched too, shape (a, d).
        budget: The effort where the space cannot be enumerated.

    Returns:
        The pair; its tier says whether it is in S and P.
    """
    score, space = _on_active(score, problem), problem.space
    if problem.space.has_at_most(MAX_ENUMERATED):
        pairs = _enumerated(score, problem.upper_space.enumerate(), problem.lower_space.enumerate())
    else:
        pairs = _Search(score, problem, rng, budget).run(anchors)
    first = pairs.ranked(1)  # Eq. (4.6)
    return Pair(
        point=space.with_inactive_set(joint(first.X, first.Z[None]))[0],
        best=space.with_inactive_set(joint(first.X, first.best[None]))[0],
        tier=int(first.tier[0]),
        value=float(first.key[0]),
    )


def best_response(
    score: PairScore, problem: BilevelProblem, x: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return the best response to one upper-level point.

    Args:
        score: How pairs are compared.
        problem: The spaces.
        x: The upper-level point, shape (d_x,).
        rng: Source of the candidates.

    Returns:
        The joint point (x, z̄(x)), shape (d,).
    """
    nothing = np.empty((0, len(problem.space)))
    pairs = best_pairs(score, problem, x[None, :], rng=rng, anchors=nothing)
    response: FloatArray = problem.space.with_inactive_set(joint(x[None], pairs.best[None]))[0]
    return response


def best_pairs(
    score: PairScore,
    problem: BilevelProblem,
    X: FloatArray,
    *,
    rng: np.random.Generator,
    anchors: FloatArray,
) -> Pairs:
    """Return the best pair of each of some upper-level points; exact if enumerated.

    Args:
        score: How pairs are compared.
        problem: The spaces.
        X: Upper-level points, shape (m, d_x).
        rng: Source of the candidates.
        anchors: Promising joint points, whose responses are candidates too, shape (a, d).

    Returns:
        One pair for each x.
    """
    score = _on_active(score, problem)
    if problem.space.has_at_most(MAX_ENUMERATED):
        return _enumerated(score, X, problem.lower_space.enumerate())
    search = _Search(score, problem, rng, SOLUTION)
    Z = search.lower_candidates(anchors)
    return search.best_of(X, np.broadcast_to(Z, (len(X), *Z.shape)))


def most_feasible(
    trusted: TrustedSets, problem: BilevelProblem, *, rng: np.random.Generator, anchors: FloatArray
) -> tuple[FloatArray, float]:
    """Return where the smallest u_c is largest, away from failed queries; exact if enumerated.

    Args:
        trusted: The trusted sets.
        problem: The spaces.
        rng: Source of the candidates.
        anchors: Promising joint points, shape (a, d).

    Returns:
        The point, shape (d,), and the largest smallest u_c of all points, which may be that of
        another point if queries have failed; S is empty if it is negative.
    """
    space = problem.space
    if space.has_at_most(MAX_ENUMERATED):
        points = space.enumerate()
        slack = trusted.feasibility(points)
        best = int(np.argmax(slack + trusted.log_validity(points)))
        return points[best], float(slack.max())
    sobol = shifted_sobol(_N_FEASIBLE, len(space), rng)
    points = space.snap(np.concatenate([sobol, anchors]))
    slack = trusted.feasibility(points)
    largest = slack.max()
    for radius in SOLUTION.radii:
        order = np.argsort(-slack - trusted.log_validity(points), kind="stable")[:_N_PARENTS]
        points, slack = points[order], slack[order]
        near = perturbed(space, np.repeat(points, _N_CHILDREN**2, axis=0), radius, rng)
        points = np.concatenate([points, near])
        slack = np.concatenate([slack, trusted.feasibility(near)])
        largest = max(largest, slack.max())
    best = int(np.argmax(slack + trusted.log_validity(points)))
    return points[best], float(largest)


def anchors_of(score: PairScore, observed: FloatArray) -> FloatArray:
    """Return the observed joint points that score best by themselves.

    Args:
        score: How pairs are compared.
        observed: Joint points, shape (n, d).

    Returns:
        A few of them, shape (a, d).
    """
    if not len(observed):
        return observed
    upper, lower = score.upper_level(observed, observed), score.lower_level(observed)
    slack = np.minimum(upper.slack, lower.slack)
    order = np.lexsort((-upper.value, np.maximum(-slack, 0.0)))
    return observed[order[:_N_ANCHORS]]


def best_of_table(
    score: PairScore, X: FloatArray, Z: FloatArray, lower: LowerLevel | None = None
) -> Pairs:
    """Return the best pair of each x of a table of candidates.

    Args:
        score: How pairs are compared.
        X: Upper-level points, shape (m, d_x).
        Z: Candidate responses to each of them, shape (m, k, d_z).
        lower: Their scores on the lower level, if known already.

    Returns:
        One pair for each x.
    """
    m, k = Z.shape[:2]
    P = joint(X, Z)
    lower = lower or score.lower_level(P)
    feasible = (lower.slack >= 0.0).reshape(m, k)  # S_lo
    any_feasible = np.logical_or.reduce(feasible, axis=1)
    slack = lower.slack.reshape(m, k)
    response = np.where(feasible, lower.value.reshape(m, k), -np.inf)
    response[~any_feasible] = slack[~any_feasible]
    rows = np.arange(m)
    best = np.argmax(response, axis=1)  # Eq. (4.5)
    trusted = np.zeros((m, k), dtype=bool)  # P̄
    if score.many_responses:  # P⁺
        least = lower.lower_bound.reshape(m, k)[rows, best]
        trusted = feasible & (lower.upper_bound.reshape(m, k) >= least[:, None])  # Eq. (4.4)
    trusted[rows, best] = True
    members = np.flatnonzero(trusted)
    upper = score.upper_level(P[members], P[members // k * k + best[members // k]])
    tier = np.where(upper.slack >= 0.0, 0, 1)
    key = np.where(upper.slack >= 0.0, upper.value, upper.slack)
    lost = np.logical_not(any_feasible[members // k])
    tier[lost], key[lost] = 2, lower.slack[members[lost]]
    order = np.lexsort((-key, tier, members // k))
    _, first = np.unique(members[order] // k, return_index=True)
    chosen = order[first]
    return Pairs(X, Z[rows, members[chosen] % k], Z[rows, best], tier[chosen], key[chosen])


def _enumerated(score: PairScore, X: FloatArray, Z: FloatArray) -> Pairs:
    """Return the best pair of each of ``X`` (m, d_x) with all of ``Z`` (k, d_z), in blocks."""
    rows = max(1, _BLOCK // len(Z))
    blocks = (X[start : start + rows] for start in range(0, len(X), rows))
    tables = ((block, np.broadcast_to(Z, (len(block), *Z.shape))) for block in blocks)
    return Pairs.joined([best_of_table(score, *table) for table in tables])


class _Search:
    """A search where the space cannot be enumerated."""

    def __init__(
        self,
        score: PairScore,
        problem: BilevelProblem,
        rng: np.random.Generator,
        budget: SearchBudget,
    ) -> None:
        self.score, self.rng, self.budget = score, rng, budget
        self.upper, self.lower = problem.upper_space, problem.lower_space
        self.n_upper = problem.n_upper
        self.lower_is_listed = self.lower.has_at_most(_MAX_LISTED)
        self.climbing = np.array(
            [
                dimension.n_levels is None
                or (not dimension.is_categorical and dimension.n_levels > _FEW_LEVELS)
                for dimension in self.lower.dimensions
            ]
        )

    def run(self, anchors: FloatArray) -> Pairs:
        """Return pairs of the search, the best one among them."""
        X = self._level_candidates(self.upper, anchors[:, : self.n_upper], _N_UPPER)
        responses = self.lower_candidates(anchors)
        pairs = self.best_of(X, np.broadcast_to(responses, (len(X), *responses.shape)))
        for radius in self.budget.radii:
            pairs = self._children(pairs.ranked(_N_PARENTS), responses, radius)
        return pairs

    def lower_candidates(self, anchors: FloatArray) -> FloatArray:
        """Return the responses (k, d_z) that every x gets."""
        return self._level_candidates(self.lower, anchors[:, self.n_upper :], _N_LOWER)

    def best_of(self, X: FloatArray, Z: FloatArray) -> Pairs:
        """Return the best pair of each of ``X`` (m, d_x) with ``Z`` (m, k, d_z).

        Where the lower level is not listed, its two best, distant responses to each x climb first.
        """
        lower = self.score.lower_level(joint(X, Z))
        if self.lower_is_listed or not self.climbing.any():
            return best_of_table(self.score, X, Z, lower)
        m, k = Z.shape[:2]
        starts = self._starts(Z, _penalized(lower).reshape(m, k))
        P = climb(self.score, joint(X, starts), self.n_upper, self.climbing, self.budget.n_climbs)
        P[:, self.n_upper :] = self.lower.snap(P[:, self.n_upper :])
        summits = P[:, self.n_upper :].reshape(m, starts.shape[1], -1)
        both = zip(lower, self.score.lower_level(P), strict=True)
        lower = LowerLevel(
            *(np.column_stack([a.reshape(m, -1), b.reshape(m, -1)]).ravel() for a, b in both)
        )
        return best_of_table(self.score, X, np.concatenate([Z, summits], axis=1), lower)

    def _starts(self, Z: FloatArray, score: FloatArray) -> FloatArray:
        """Return the best of each row of ``Z`` (m, k, d_z), and the best one far from it."""
        rows = np.arange(len(Z))
        first = np.argmax(score, axis=1)
        gaps = np.abs(Z - Z[rows, first][:, None, :])
        near = gaps.max(axis=2) < _FAR
        categorical = self.lower.n_categories > 0
        near &= ~(gaps[:, :, categorical] > 0.0).any(axis=2)
        second = np.argmax(np.where(near, -np.inf, score), axis=1)
        return np.stack([Z[rows, first], Z[rows, second]], axis=1)

    def _children(self, parents: Pairs, lower: FloatArray, radius: float) -> Pairs:
        """Return pairs at and near the ``parents``.

        Each x gets the responses ``lower`` (k, d_z) that every x gets, its parent's, and some near
        those: with its parent's alone, an x whose best response is missing would look too good.
        """
        m = len(parents.X)
        moved = perturbed(self.upper, np.repeat(parents.X, _N_CHILDREN, axis=0), radius, self.rng)
        X = np.concatenate([parents.X, moved])
        family = np.concatenate([np.arange(m), np.repeat(np.arange(m), _N_CHILDREN)])
        Z = np.broadcast_to(lower, (len(X), *lower.shape))
        if self.lower_is_listed:
            return self.best_of(X, Z)
        inherited = np.stack([parents.Z[family], parents.best[family]], axis=1)
        centers = np.repeat(inherited, _N_RESPONSES // 2, axis=1)
        near = perturbed(
            self.lower, centers.reshape(-1, centers.shape[2]), radius, self.rng
        ).reshape(centers.shape)
        return self.best_of(X, np.concatenate([Z, inherited, near], axis=1))

    def _level_candidates(self, space: SearchSpace, anchors: FloatArray, n: int) -> FloatArray:
        if space.has_at_most(_MAX_LISTED):
            return space.enumerate()
        points = np.concatenate([shifted_sobol(n, len(space), self.rng), anchors])
        return np.unique(space.snap(points), axis=0)


def _penalized(lower: LowerLevel) -> FloatArray:
    """Return values (n,) that rank infeasible responses behind all others."""
    return np.where(lower.slack >= 0.0, lower.value, _BEHIND_ALL + np.minimum(lower.slack, 0.0))


def climb(
    score: PairScore, starts: FloatArray, n_upper: int, free: NDArray[np.bool_], n_steps: int
) -> FloatArray:
    """Raise the penalized value of responses by projected gradients.

    Step lengths follow Barzilai & Borwein (1988), for all starts at once; a step that does not
    improve its start is shortened and tried again.

    Args:
        score: How pairs are compared.
        starts: Joint points, shape (n, d).
        n_upper: Number of upper-level coordinates, which stay.
        free: Which lower-level coordinates move, shape (d_z,).
        n_steps: Number of steps.

    Returns:
        Where each start has come to, shape (n, d); not snapped.
    """
    columns = n_upper + np.flatnonzero(free)
    P = starts.copy()
    value, gradient = score.penalized(P)
    gradient = gradient[:, columns]
    steepest = np.abs(gradient).max(axis=1)
    step = _FIRST_STEP / np.maximum(steepest, 1e-12)
    for _ in range(n_steps):
        trial = P.copy()
        trial[:, columns] = np.clip(P[:, columns] + step[:, None] * gradient, 0.0, 1.0)
        new_value, new_gradient = score.penalized(trial)
        new_gradient = new_gradient[:, columns]
        better = new_value > value
        s = (trial - P)[better][:, columns]
        curvature = -np.einsum("ij,ij->i", s, new_gradient[better] - gradient[better])
        length = np.einsum("ij,ij->i", s, s)
        grown = 2.0 * step[better]
        step[better] = np.where(curvature > 0.0, length / np.maximum(curvature, 1e-300), grown)
        step[~better] *= _SHORTEN
        P[better], value[better], gradient[better] = (
            trial[better],
            new_value[better],
            new_gradient[better],
        )
        steepest = np.abs(gradient).max(axis=1)
        step = np.minimum(step, _LONGEST_STEP / np.maximum(steepest, 1e-12))
    return P


def perturbed(
    space: SearchSpace, X: FloatArray, radius: float, rng: np.random.Generator
) -> FloatArray:
    """Move about half of each point's coordinates.

    A categorical coordinate that moves goes anywhere, another discrete one by at least one level,
    unless it would leave its range.

    Args:
        space: The space of the points.
        X: The points, shape (n, d).
        radius: Standard deviation of the moves, in units of the cube.
        rng: Source of the moves.

    Returns:
        Representable points, shape (n, d).
    """
    moves = rng.random(X.shape) >= _KEEP
    moves[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = True
    step = radius * rng.standard_normal(X.shape)
    points = np.where(moves, X + step, X)
    fresh = rng.random(X.shape)
    replaced = moves & (space.n_categories > 0)
    points[replaced] = fresh[replaced]
    snapped = space.snap(points)
    stuck = moves & ~replaced & ~space.is_continuous & (snapped == X)
    if not stuck.any():
        return snapped
    for i in np.flatnonzero(stuck.any(axis=0)).tolist():
        axis, rows = space.dimensions[i], stuck[:, i]
        levels = axis.level_of(X[rows, i]) + np.where(step[rows, i] < 0.0, -1, 1)
        points[rows, i] = axis.position_of(np.clip(levels, 0, (axis.n_levels or 1) - 1))
    return space.snap(points)
