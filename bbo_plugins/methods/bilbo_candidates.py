"""Search for the best pair of a bilevel problem, as a view of its models sees it.

A pair is an upper-level point x, its best response z̄(x), and the response z that takes part: z̄(x)
itself, or any that the view trusts. Pairs are compared by three tiers, and by one number in each:

| tier | the pair                                              | compared by               |
|------|-------------------------------------------------------|---------------------------|
| 0    | is in S and P                                         | the view's upper value    |
| 1    | is in P; an upper-level constraint is violated        | that constraint's slack   |
| 2    | no response to x satisfies the lower level's          | that constraint's slack   |

so that a search always returns a pair, and says by its tier what it is worth.

Where the product of the two spaces is finite and has at most 10⁵ points, all of them are compared.
Elsewhere candidates are: Sobol points and promising observed ones on the upper level, each with the
same Sobol points and promising observed ones on the lower level (all of them, if the lower space is
small); from the best two distant responses to each x, a projected-gradient ascent in z; then rounds
of ever smaller perturbations of the best pairs, with all those responses and some near the parents'
own. Discrete numeric
dimensions with many levels climb as if they were continuous and are snapped to representable
points.

Source: the sets of Chew, Nguyen & Low (2025), "BILBO: BILevel Bayesian Optimization", section 4.

Deviations: the paper compares the points of a uniform grid. It leaves open what to query where
S ∩ P is empty; here the tiers decide. (P is empty only where S is.)
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bbo_plugins.acquisition.quasirandom import shifted_sobol
from bbo_plugins.methods.bilbo_moves import climb, climbing_dimensions, perturbed
from bbo_plugins.methods.trusted_sets import LowerLevel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bbo_plugins.gp.kernels import FloatArray
    from bbo_plugins.methods.bilbo_model import BilevelProblem
    from bbo_plugins.methods.trusted_sets import TrustedSets, View
    from bbo_plugins.space import SearchSpace

MAX_ENUMERATED = 10**5  # finite products of this size are compared point by point
_MAX_LISTED = 128  # finite spaces of one level up to this size are listed instead of sampled
_BLOCK = 8192  # joint points looked at together
_N_UPPER, _N_LOWER = 64, 96
_N_ANCHORS = 8
_N_FEASIBLE = 2048  # joint points among which one in S is looked for first
_FAR = 0.2  # in some coordinate; a second response that climbs is so far from the first
_N_PARENTS, _N_CHILDREN, _N_RESPONSES = 6, 8, 6


class Effort(NamedTuple):
    """How hard a search tries where it cannot enumerate.

    Attributes:
        n_climbs: Steps of each ascent in z.
        radii: Standard deviation of the perturbations in each round, in units of the cube.
    """

    n_climbs: int
    radii: tuple[float, ...]


QUERY = Effort(10, (0.1, 0.03, 0.01))
SOLUTION = Effort(16, (0.1, 0.05, 0.02, 0.01, 0.004, 0.0015))


@dataclass(frozen=True)
class Pairs:
    """One pair for each of m upper-level points.

    Attributes:
        X: Upper-level points, shape (m, d_x).
        Z: Responses that take part, shape (m, d_z).
        best: Best responses z̄(x), shape (m, d_z).
        tier: Tier of each pair, shape (m,).
        key: What pairs of the same tier are compared by, shape (m,).
    """

    X: FloatArray
    Z: FloatArray
    best: FloatArray
    tier: NDArray[np.int64]
    key: FloatArray

    def ranked(self, n: int) -> Pairs:
        """Return the ``n`` best pairs, best first; of equal ones, the first."""
        order = np.lexsort((-self.key, self.tier))[:n]
        return Pairs(*(getattr(self, field.name)[order] for field in fields(self)))

    def joined(self, other: Pairs) -> Pairs:
        """Return these pairs and the others."""
        both = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Pairs(*(np.concatenate(arrays) for arrays in both))


@dataclass(frozen=True)
class Pair:
    """The pair that a search found.

    Attributes:
        point: Joint point (x, z), shape (d,).
        best: Joint point (x, z̄(x)), shape (d,).
        tier: What the pair is worth, see the module.
        value: The view's upper value (tier 0), or the slack of the most violated constraint.
    """

    point: FloatArray
    best: FloatArray
    tier: int
    value: float


def joint(X: FloatArray, Z: FloatArray) -> FloatArray:
    """Return the joint points (m k, d) of m upper-level points (m, d_x) with ``Z`` (m, k, d_z)."""
    return np.concatenate([np.repeat(X, Z.shape[1], axis=0), Z.reshape(-1, Z.shape[2])], axis=1)


def best_pair(
    view: View,
    problem: BilevelProblem,
    *,
    rng: np.random.Generator,
    anchors: FloatArray,
    effort: Effort = QUERY,
) -> Pair:
    """Return the best pair of the whole space, exactly if the space can be enumerated.

    Args:
        view: How points are seen.
        problem: The spaces.
        rng: Source of the candidates.
        anchors: Promising joint points whose surroundings are searched too, shape (a, d).
        effort: How hard to try where the space cannot be enumerated.
    """
    if _can_enumerate(problem):
        pairs = _enumerated(view, problem.upper_space.enumerate(), problem.lower_space.enumerate())
    else:
        pairs = _Search(view, problem, rng, effort).run(anchors)
    first = pairs.ranked(1)
    return Pair(
        point=np.concatenate([first.X[0], first.Z[0]]),
        best=np.concatenate([first.X[0], first.best[0]]),
        tier=int(first.tier[0]),
        value=float(first.key[0]),
    )


def best_response(
    view: View, problem: BilevelProblem, x: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return the joint point (d,) of ``x`` (d_x,) and its best response z̄(x)."""
    nothing = np.empty((0, len(problem.space)))
    pairs = best_pairs(view, problem, x[None, :], rng=rng, anchors=nothing)
    return np.concatenate([x, pairs.best[0]])


def best_pairs(
    view: View,
    problem: BilevelProblem,
    X: FloatArray,
    *,
    rng: np.random.Generator,
    anchors: FloatArray,
) -> Pairs:
    """Return the best pair of each of the upper-level points ``X`` (m, d_x).

    Exact if the joint space can be enumerated.

    Args:
        view: How points are seen.
        problem: The spaces.
        X: Upper-level points, shape (m, d_x).
        rng: Source of the candidates.
        anchors: Promising joint points, whose responses are candidates too, shape (a, d).
    """
    if _can_enumerate(problem):
        return _enumerated(view, X, problem.lower_space.enumerate())
    search = _Search(view, problem, rng, SOLUTION)
    Z = search.lower_candidates(anchors)
    return search.best_of(X, np.broadcast_to(Z, (len(X), *Z.shape)))


def most_feasible(
    trusted: TrustedSets, problem: BilevelProblem, *, rng: np.random.Generator, anchors: FloatArray
) -> tuple[FloatArray, float]:
    """Return the joint point (d,) with the largest smallest u_c, and that; S is empty if it is < 0.

    Exact if the space can be enumerated.

    Args:
        trusted: The trusted sets.
        problem: The spaces.
        rng: Source of the candidates.
        anchors: Promising joint points, shape (a, d).
    """
    space = problem.space
    if _can_enumerate(problem):
        points = space.enumerate()
        slack = trusted.feasibility(points)
        best = int(np.argmax(slack + trusted.log_validity(points)))
        return points[best], float(slack[best])
    sobol = shifted_sobol(_N_FEASIBLE, len(space), rng)
    points = space.snap(np.concatenate([sobol, anchors]))
    slack = trusted.feasibility(points)
    for radius in SOLUTION.radii:
        order = np.argsort(-slack - trusted.log_validity(points), kind="stable")[:_N_PARENTS]
        points, slack = points[order], slack[order]
        near = perturbed(space, np.repeat(points, _N_CHILDREN**2, axis=0), radius, rng)
        points = np.concatenate([points, near])
        slack = np.concatenate([slack, trusted.feasibility(near)])
    best = int(np.argmax(slack + trusted.log_validity(points)))
    return points[best], float(slack[best])


def anchors_of(view: View, observed: FloatArray) -> FloatArray:
    """Return the observed joint points (n, d) that look best by themselves, shape (a, d)."""
    if not len(observed):
        return observed
    upper, lower = view.upper_level(observed, observed), view.lower_level(observed)
    slack = np.minimum(upper.slack, lower.slack)
    order = np.lexsort((-upper.value, np.maximum(-slack, 0.0)))
    return observed[order[:_N_ANCHORS]]


def reduce_table(
    view: View, X: FloatArray, Z: FloatArray, lower: LowerLevel | None = None
) -> Pairs:
    """Return the best pair of each x of a table of candidates.

    Args:
        view: How points are seen.
        X: Upper-level points, shape (m, d_x).
        Z: Candidate responses to each of them, shape (m, k, d_z).
        lower: What the view says of the lower level there, if that is known already.
    """
    m, k = Z.shape[:2]
    P = joint(X, Z)
    lower = lower or view.lower_level(P)
    feasible = (lower.slack >= 0.0).reshape(m, k)  # S_lo
    any_feasible = np.logical_or.reduce(feasible, axis=1)
    value = lower.value.reshape(m, k)
    score = np.where(feasible, value, -np.inf)
    slack = lower.slack.reshape(m, k)
    score[~any_feasible] = slack[~any_feasible]
    rows = np.arange(m)
    best = np.argmax(score, axis=1)  # Eq. (4.5)
    if view.many_responses:
        threshold = lower.threshold.reshape(m, k)[rows, best]
        trusted = feasible & (lower.reach.reshape(m, k) >= threshold[:, None])  # Eq. (4.4)
    else:
        trusted = np.zeros((m, k), dtype=bool)
    trusted[rows, best] = True
    members = np.flatnonzero(trusted)
    upper = view.upper_level(P[members], P[members // k * k + best[members // k]])
    tier = np.where(upper.slack >= 0.0, 0, 1)
    key = np.where(upper.slack >= 0.0, upper.value, upper.slack)
    lost = np.logical_not(any_feasible[members // k])
    tier[lost], key[lost] = 2, lower.slack[members[lost]]
    order = np.lexsort((-key, tier, members // k))
    _, first = np.unique(members[order] // k, return_index=True)
    chosen = order[first]
    return Pairs(X, Z[rows, members[chosen] % k], Z[rows, best], tier[chosen], key[chosen])


def _can_enumerate(problem: BilevelProblem) -> bool:
    return problem.space.size is not None and problem.space.size <= MAX_ENUMERATED


def _enumerated(view: View, X: FloatArray, Z: FloatArray) -> Pairs:
    """Return the best pair of each of ``X`` (m, d_x) with all of ``Z`` (k, d_z), in blocks."""
    rows = max(1, _BLOCK // len(Z))
    pairs = None
    for start in range(0, len(X), rows):
        block = X[start : start + rows]
        found = reduce_table(view, block, np.broadcast_to(Z, (len(block), *Z.shape)))
        pairs = found if pairs is None else pairs.joined(found)
    if pairs is None:
        raise AssertionError
    return pairs


class _Search:
    """A search where the space cannot be enumerated."""

    def __init__(
        self, view: View, problem: BilevelProblem, rng: np.random.Generator, effort: Effort
    ) -> None:
        self.view, self.rng, self.effort = view, rng, effort
        self.upper, self.lower = problem.upper_space, problem.lower_space
        self.n_upper = problem.n_upper
        self.lower_is_listed = _is_small(self.lower)
        self.climbing = climbing_dimensions(self.lower)

    def run(self, anchors: FloatArray) -> Pairs:
        """Return pairs of the search, the best one among them."""
        X = self._level_candidates(self.upper, anchors[:, : self.n_upper], _N_UPPER)
        responses = self.lower_candidates(anchors)
        pairs = self.best_of(X, np.broadcast_to(responses, (len(X), *responses.shape)))
        for radius in self.effort.radii:
            pairs = self._children(pairs.ranked(_N_PARENTS), responses, radius)
        return pairs

    def lower_candidates(self, anchors: FloatArray) -> FloatArray:
        """Return responses (k, d_z) that every x is given."""
        return self._level_candidates(self.lower, anchors[:, self.n_upper :], _N_LOWER)

    def best_of(self, X: FloatArray, Z: FloatArray) -> Pairs:
        """Return the best pair of each of ``X`` (m, d_x) with ``Z`` (m, k, d_z).

        Where the lower level is not listed, its two best, distant responses to each x climb first.
        """
        lower = self.view.lower_level(joint(X, Z))
        if self.lower_is_listed or not self.climbing.any():
            return reduce_table(self.view, X, Z, lower)
        m, k = Z.shape[:2]
        starts = self._starts(Z, _penalized(lower).reshape(m, k))
        P = climb(self.view, joint(X, starts), self.n_upper, self.climbing, self.effort.n_climbs)
        P[:, self.n_upper :] = self.lower.snap(P[:, self.n_upper :])
        summits = P[:, self.n_upper :].reshape(m, starts.shape[1], -1)
        both = zip(lower, self.view.lower_level(P), strict=True)
        lower = LowerLevel(
            *(np.column_stack([a.reshape(m, -1), b.reshape(m, -1)]).ravel() for a, b in both)
        )
        return reduce_table(self.view, X, np.concatenate([Z, summits], axis=1), lower)

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

        Each x is given the responses ``lower`` (k, d_z) that every x is given, its parent's, and
        some near those. With its parent's alone, an x whose response is not found would look
        better than it is, and be taken for it.
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
        if _is_small(space):
            return space.enumerate()
        points = np.concatenate([shifted_sobol(n, len(space), self.rng), anchors])
        return np.unique(space.snap(points), axis=0)


def _penalized(lower: LowerLevel) -> FloatArray:
    """Return the value of responses with infeasible ones behind all others, shape (n,)."""
    return np.where(lower.slack >= 0.0, lower.value, -1e6 + np.minimum(lower.slack, 0.0))


def _is_small(space: SearchSpace) -> bool:
    return space.size is not None and space.size <= _MAX_LISTED
