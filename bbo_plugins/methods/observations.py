"""Input and output of a method.

A method is given evaluated points in the unit cube (:class:`Observations`) and, if its search
depends on it, what suggested earlier trials (:class:`TrialHistory`). It returns a
:class:`Suggestion`. All values are maximized.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bbo_plugins.acquisition.candidates import far_apart, shifted_sobol
from bbo_plugins.acquisition.maximize import Exclusions, clearance_of
from bbo_plugins.acquisition.validity import Validities
from bbo_plugins.errors import note_without_model
from bbo_plugins.gp.targets import MAD_TO_STD, median_of
from bbo_plugins.methods.learning_curves import predict_finals
from bbo_plugins.space.search_space import keys_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from bbo_plugins.gp.fit import WarmStart
    from bbo_plugins.gp.kernels import FeatureMap
    from bbo_plugins.methods.learning_curves import LearningCurve
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray, IntArray

NO_ARM = -1
# Fields of Observations, but X, that have an entry for each evaluated point, or are None.
_BY_POINT = ("y", "complete", "noise_variance", "constraints", "has_value", "progress", "n_beside")
LATEST_FAILED: Final = 64  # failed points that a model of values has
_ENOUGH_REPEATS = 3
_N_USUAL = 10  # values that say what is usual
_FEW_FEASIBLE = 5  # the same of feasible points, at least
_FAR_WORSE = 30.0  # robust standard deviations below their median
_SHARED = 3  # a value shared by this many evaluations is not counted as usual
_GAP = 1.0  # robust standard deviations between a shared worst value and the next better one


@dataclass(frozen=True, kw_only=True)
class Observations:
    """Evaluated and pending points of one study.

    Attributes:
        X: Evaluated points of the unit cube, shape (n, d).
        y: Their objective values, maximized, finite, shape (n,).
        complete: False for a value that is not final (a pruned trial's, mostly predicted): it
            informs the model but cannot be the incumbent, shape (n,).
        pending: Points being evaluated elsewhere, shape (p, d).
        failed: Points at which an evaluation failed, those evaluated since among them, shape
            (f, d).
        has_value: False for a point whose value says nothing, so that it teaches at most the
            constraints, shape (n,).
        noise_variance: Known noise variances in squared units of ``y``, that of a prediction among
            them, NaN where unknown, shape (n,), or None.
        constraints: Constraint values, positive where violated, NaN where unknown, shape (n, m),
            or None.
        constraint_names: Names of the m constraints, by which their models are named; without any
            these are 0, 1, and so on.
        progress: How far each evaluation came before it was cut off: the share of all that came
            less far, 1 at the end, shape (n,); None if that is not known.
        n_beside: How many others were pending when each point was suggested, shape (n,), or None
            for none.
        n_left_out: How many more points were evaluated, which are not to be modeled.
        repeats_agreed: Whether repeats agree in the whole study, of which these observations are a
            part; None if they are all, and tell it.

    Raises:
        ValueError: The shapes disagree or a target is not finite.
    """

    X: FloatArray
    y: FloatArray
    complete: NDArray[np.bool_]
    pending: FloatArray
    failed: FloatArray
    has_value: NDArray[np.bool_]
    noise_variance: FloatArray | None = None
    constraints: FloatArray | None = None
    constraint_names: tuple[str, ...] = ()
    progress: FloatArray | None = None
    n_beside: IntArray | None = None
    n_left_out: int = 0
    repeats_agreed: bool | None = None

    def __post_init__(self) -> None:
        """Check shapes and finiteness."""
        n, d = self.X.shape
        arrays = {**self._by_point(), "pending": self.pending, "failed": self.failed}
        for name, array in arrays.items():
            shape: tuple[int, ...] = (n,)
            if name in {"pending", "failed"}:
                shape = (len(array), d)
            elif name == "constraints":
                shape = (n, array.shape[1] if array.ndim > 1 else 1)
            if array.shape != shape:
                message = f"{name} must have shape {shape}, but got {array.shape}."
                raise ValueError(message)
        if not np.isfinite(self.y).all():
            message = f"y must be finite, but got {self.y}."
            raise ValueError(message)

    @classmethod
    def of_complete(
        cls, X: FloatArray, y: FloatArray, constraints: FloatArray | None = None
    ) -> Observations:
        """Return observations of complete evaluations only, of which nothing more is known.

        Args:
            X: Evaluated points of the unit cube, shape (n, d).
            y: Their objective values, maximized, finite, shape (n,).
            constraints: Constraint values, shape (n, m), or None.
        """
        every = np.ones(len(y), dtype=np.bool_)
        return cls(
            X=X,
            y=y,
            complete=every,
            pending=X[:0],
            failed=X[:0],
            has_value=every,
            constraints=constraints,
        )

    def _by_point(self) -> dict[str, Any]:
        """Return the fields, but X, that have an entry for each evaluated point."""
        values = {name: getattr(self, name) for name in _BY_POINT}
        return {name: value for name, value in values.items() if value is not None}

    @cached_property
    def still_failed(self) -> FloatArray:
        """The points (f, d) that failed and have not been evaluated since."""
        if not len(self.failed):
            return self.failed
        evaluated = set(keys_of(self.X))
        return self.failed[[key not in evaluated for key in keys_of(self.failed)]]

    @property
    def are_final(self) -> bool:
        """Whether every evaluation returned a final value: none failed, none was cut off."""
        return self.progress is None and not len(self.still_failed)

    @property
    def mostly_failed(self) -> bool:
        """Whether more points failed than have a value."""
        return len(self.still_failed) > len(self.y) + self.n_left_out

    @property
    def presumed_bad(self) -> FloatArray:
        """The last failed points (f, d), if more failed than have a value; else none.

        Then a model of the few values promises much wherever it has none, and should know them.
        Those with a value, as a penalty, come after all others.
        """
        return self.still_failed[-LATEST_FAILED:] if self.mostly_failed else self.X[:0]

    @property
    def has_known_noise(self) -> bool:
        """Whether a known noise variance of a final value is larger than 0."""
        known = self.noise_variance
        return known is not None and bool((known[self.complete] > 0.0).any())

    def repeats_agree(self, space: SearchSpace) -> bool:
        """Whether some points were evaluated again, and each that was had the same value each time.

        Three repeats are enough, as values may be equal by accident; one where parameters are
        conditional. Pruned trials do not count. Known noise is noise.
        """
        if self.repeats_agreed is not None:
            return self.repeats_agreed
        if self.has_known_noise:
            return False
        final = self.complete & self.has_value
        keys = list(keys_of(self.X[final]))
        n_points, n_pairs = len(set(keys)), len(set(zip(keys, self.y[final], strict=True)))
        least = 1 if space.is_conditional else _ENOUGH_REPEATS
        return n_points == n_pairs <= len(keys) - least

    @property
    def reported_constraints(self) -> dict[str, FloatArray]:
        """The values (n,) of each constraint that at least one trial reports, by its name."""
        if self.constraints is None:
            return {}
        names = self.constraint_names or [str(j) for j in range(self.constraints.shape[1])]
        columns = zip(names, self.constraints.T, strict=True)
        return {name: column for name, column in columns if np.isfinite(column).any()}

    @property
    def violated(self) -> NDArray[np.bool_]:
        """Whether each evaluated point violates a constraint, shape (n,)."""
        if self.constraints is None:
            return np.zeros(len(self.y), dtype=np.bool_)
        is_violated: NDArray[np.bool_] = np.any(self.constraints > 0.0, axis=1)
        return is_violated  # NaN, not reported, is no violation

    @property
    def eligible(self) -> NDArray[np.bool_]:
        """Whether each evaluated point may be the best: complete, feasible if constrained, (n,).

        With constraints others may be, too, as long as none is complete. A trial that reports some
        constraints is judged by those, one that reports none is not feasible.
        """
        columns = [*self.reported_constraints.values()]
        if not columns:
            return self.complete
        counts = self.complete if self.complete.any() else ~self.complete
        is_unknown = np.isnan(np.column_stack(columns)).all(axis=1)
        is_eligible: NDArray[np.bool_] = counts & ~is_unknown & ~self.violated
        return is_eligible

    @property
    def lacks_direction(self) -> bool:
        """Whether nothing tells where to look.

        This holds if no constraint varies, and either no point is feasible or all values are equal.
        But if most points failed, those with a value show where to search.
        """
        reported = self.reported_constraints.values()
        columns = [column[np.isfinite(column)] for column in reported]
        if not len(self.y) or any(column.min() < column.max() for column in columns):
            return False
        if columns and not self.eligible.any():
            return True
        y = self.valued.y
        return len(y) > 1 and bool(y.min() == y.max()) and not self.mostly_failed

    @property
    def best_feasible(self) -> int | None:
        """Index of the best feasible value under constraints; None without them, or without one."""
        if not self.reported_constraints or not self.eligible.any():
            return None
        return int(np.argmax(np.where(self.eligible, self.y, -np.inf)))

    @property
    def center(self) -> float | None:
        """The value around which the objective matters under constraints, None without them.

        It is the median of the values, or that of the feasible ones where these are worse: the
        better values of the others are out of reach.
        """
        if self.best_feasible is None:
            return None
        everywhere, feasible = self.valued.y, self.y[self.eligible & self.has_value]
        return min(median_of(y) for y in (everywhere, feasible) if len(y))

    @property
    def valued(self) -> Observations:
        """These observations without the points whose values say nothing."""
        return self if self.has_value.all() else self.take(np.flatnonzero(self.has_value))

    def exclusions(
        self, space: SearchSpace, *, unrepeated: bool, accidents: bool, noisy: bool
    ) -> Exclusions:
        """Return which points are not to be suggested.

        Args:
            space: The search space.
            unrepeated: Whether no evaluated point is to be suggested again.
            accidents: Whether failures say nothing about the points nearby.
            noisy: Whether values have noise.
        """
        failed = self.still_failed
        avoided = np.concatenate([self.pending, failed]) if accidents else self.pending
        return Exclusions(
            known=np.concatenate([self.X, failed]) if unrepeated else failed,
            avoided=avoided,
            clearance=clearance_of(avoided, self.X, space, noisy=noisy),
        )

    def validities(
        self, features: FeatureMap, warm_starts: Mapping[str, WarmStart | None]
    ) -> Validities:
        """Return the models of where evaluations return a final value, none if all of them did.

        Args:
            features: The kernel's feature map, without a trend.
            warm_starts: What the latest fits left, by the models' names.
        """
        if self.are_final:
            return Validities()
        return Validities.fit(
            self.X,
            self.still_failed,
            self.progress,
            features,
            mostly_failed=self.mostly_failed,
            warm_starts=warm_starts,
        )

    def with_failures(self, failed: NDArray[np.bool_]) -> Observations:
        """Return these observations with the evaluated points at ``failed`` (n,) as failed ones."""
        kept = self.take(np.flatnonzero(~failed))
        all_failed = np.concatenate([kept.still_failed, self.X[failed]])
        return replace(kept, failed=all_failed, n_left_out=self.n_left_out)

    def take(self, rows: IntArray) -> Observations:
        """Return these observations with the evaluated points at ``rows`` (k,) only.

        Failed points that have been evaluated since are left out, as :attr:`still_failed` does.
        """
        by_point = {name: values[rows] for name, values in self._by_point().items()}
        return replace(
            self,
            **by_point,
            X=self.X[rows],
            failed=self.still_failed,
            n_left_out=self.n_left_out + len(self.y) - len(rows),
        )

    def part(
        self, contains: Callable[[FloatArray], NDArray[np.bool_]], space: SearchSpace
    ) -> Observations:
        """Return these observations in a part of the space, but that all repeats count.

        Args:
            contains: Takes points (m, d) and returns which are in that part, shape (m,).
            space: The search space.
        """
        taken, failed = self.take(np.flatnonzero(contains(self.X))), self.still_failed
        return replace(
            taken,
            pending=self.pending[contains(self.pending)],
            failed=failed[contains(failed)],
            n_left_out=self.n_left_out,
            repeats_agreed=self.repeats_agree(space),
        )


def with_values(
    objectives: Sequence[Observations],
    values: FloatArray,
    space: SearchSpace,
    *,
    curves: Sequence[LearningCurve] | None = None,
    outliers: NDArray[np.bool_] | None = None,
    cutoff: float = -np.inf,
) -> tuple[Observations, ...]:
    """Return the observations of k objectives with their values.

    A value that says nothing of the objective (:func:`failures_with_value`) makes a failed point;
    but where a constraint is violated a point that teaches the constraints only. An outlier
    leaves its point out of all objectives; the constraints there still count.

    Args:
        objectives: Observations of n points whose values are still to be set.
        values: The values, maximized, may be infinite; of an evaluation that was cut off the last
            report, shape (n, k).
        space: The search space.
        curves: What the n evaluations reported, if some of them were cut off; then k is 1.
        outliers: At which points a value is an outlier, shape (n,), or None.
        cutoff: Values below it say nothing of the objective, as of :func:`failures_with_value`.
    """
    X, complete = objectives[0].X, objectives[0].complete
    variances, progress = None, None
    if curves is not None:
        progress = _progress(curves, complete)
        y, variances = _with_predictions(
            objectives[0], values[:, 0], space, curves, outliers, cutoff
        )
        values = y[:, None]
    violated = objectives[0].violated
    has_failed = failures_with_value(X, values, space.active(X), violated, cutoff=cutoff)
    is_void = has_failed & violated
    has_failed &= ~is_void
    if outliers is not None:
        is_void |= outliers & ~has_failed
    counts = ~(has_failed | is_void)
    result = []
    for objective, column in zip(objectives, values.T, strict=True):
        y, noise = with_infinities_clipped(column), objective.noise_variance
        has_value = objective.has_value
        if variances is not None:
            is_report = ~complete & np.isnan(variances)
            if (complete & counts).any() and is_report.any():
                lower_median = np.quantile(y[complete & counts], 0.5, method="lower")
                y[is_report] = np.minimum(y[is_report], lower_median)
            noise = _larger(variances, noise)
        if is_void.any() and counts.any():
            y[is_void], has_value = y[counts].min(), ~is_void
        one = replace(objective, y=y, noise_variance=noise, has_value=has_value, progress=progress)
        result.append(one.with_failures(has_failed) if has_failed.any() else one)
    return tuple(result)


def _with_predictions(
    observations: Observations,
    values: FloatArray,
    space: SearchSpace,
    curves: Sequence[LearningCurve],
    outliers: NDArray[np.bool_] | None,
    cutoff: float,
) -> tuple[FloatArray, FloatArray]:
    """Return values (n,), predicted where evaluations were cut off, and the variances (n,) or NaN.

    A complete one that counts as failed, or is an outlier, says nothing of what others would have
    come to.
    """
    X, complete = observations.X, observations.complete
    finals = np.where(complete & np.isfinite(values), values, np.nan)
    failed = failures_with_value(
        X[complete],
        values[complete, None],
        space.active(X[complete]),
        observations.violated[complete],
        cutoff=cutoff,
    )
    teaches = ~complete
    teaches[complete] = ~failed & np.isfinite(values[complete])
    if outliers is not None:
        teaches &= ~outliers
    rows = np.flatnonzero(teaches)
    predicted, variances = np.full((2, len(values)), np.nan)
    predicted[rows], variances[rows] = predict_finals(
        [curves[row] for row in rows.tolist()], finals[rows]
    )
    if np.isnan(variances).all():
        return values, variances
    # A better value would draw the search to where trials are cut off, again and again.
    predicted = np.minimum(predicted, np.nanmax(finals))
    return np.where(np.isnan(variances), values, predicted), variances


def _progress(curves: Sequence[LearningCurve], complete: NDArray[np.bool_]) -> FloatArray:
    """Return what share of n evaluations came less far than each, 1 for the complete ones, (n,)."""
    lasts = [curve.steps[-1] if len(curve.steps) else -np.inf for curve in curves]
    last = np.where(complete, np.inf, lasts)
    shares = np.searchsorted(np.sort(last), last) / max(len(last), 1)
    return np.where(complete, 1.0, shares)


def _larger(variances: FloatArray, known: FloatArray | None) -> FloatArray | None:
    """Return the larger one of two arrays of variances (n,), NaN where neither is known."""
    larger: FloatArray = variances if known is None else np.fmax(variances, known)
    return None if np.isnan(larger).all() else larger


def with_infinities_clipped(values: FloatArray) -> FloatArray:
    """Return values (n,) with each infinite one as the worst or best finite one, ±1 without any."""
    infinite = np.isinf(values)
    if not infinite.any():
        return values.copy()
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if known.size else (-1.0, 1.0)
    return np.clip(values, low, high)


def failures_with_value(
    X: FloatArray,
    values: FloatArray,
    active: NDArray[np.bool_],
    violated: NDArray[np.bool_] | None = None,
    *,
    cutoff: float = -np.inf,
) -> NDArray[np.bool_]:
    """Return which evaluations count as failed although they have a value, shape (n,).

    Those with an infinitely bad value do, and those whose values are far worse than usual, or
    shared and worse than all others by a gap: penalties of invalid settings, losses of trainings
    that diverged. A model of all values would bend for what no search wants. With several
    objectives this must hold for all of them, as the best value of one may have the worst of
    another. What is usual is asked of the points with the same active parameters, as a branch may
    be far worse than another one until it is tuned. Feasible points must also be far worse than is
    usual among the feasible ones, as far better values may be out of reach.

    Args:
        X: Evaluated points of the unit cube, shape (n, d).
        values: Their values by each of k objectives, of pruned ones those that are predicted or
            were reported last, maximized, may be infinite, shape (n, k).
        active: Which parameters are active at the points, shape (n, d).
        violated: Which points violate a constraint, shape (n,); None for none.
        cutoff: Values below it count as failed in any case (:mod:`bbo_plugins.methods.penalties`);
            minus infinity with several objectives.
    """
    failed: NDArray[np.bool_] = np.logical_or.reduce([np.isneginf(y) for y in values.T])
    failed |= (values < cutoff).all(axis=1)
    allowed = np.ones(len(X), dtype=np.bool_) if violated is None else ~violated
    branches = np.zeros(len(X), dtype=np.int64)
    if not active.all():
        branches = np.unique(active, axis=0, return_inverse=True)[1].reshape(len(X))
    # In a smaller branch nothing is far worse than usual.
    for branch in np.flatnonzero(np.bincount(branches) >= _N_USUAL).tolist():
        rows = branches == branch
        is_far = _are_all_far_worse(X, values, rows)
        feasible = rows & allowed
        if feasible.any() and not allowed[rows].all():
            is_far &= ~feasible | _are_all_far_worse(X, values, feasible, least=_FEW_FEASIBLE)
        failed |= is_far
    return failed


def _are_all_far_worse(
    X: FloatArray, values: FloatArray, rows: NDArray[np.bool_], least: int = _N_USUAL
) -> NDArray[np.bool_]:
    """Return which points (n,) are far worse than usual among ``rows`` (n,) by all objectives."""
    found = rows.copy()
    found[rows] = np.logical_and.reduce([_are_far_worse(X[rows], y[rows], least) for y in values.T])
    return found


def _are_far_worse(X: FloatArray, y: FloatArray, least: int) -> NDArray[np.bool_]:
    """Return which values ``y`` (n,) at ``X`` (n, d), maximized, are far worse than usual.

    Usual are the values at a few points far apart, as a search gathers its points near the best. A
    value that several evaluations share is none of them, as it may be a penalty. It is one if it is
    the worst of those that are not far worse, at several points, with a gap to all better ones.
    With fewer than ``least`` usual ones, none is far worse.
    """
    _, index, counts = np.unique(y, return_inverse=True, return_counts=True)
    known = np.flatnonzero(np.isfinite(y) & (counts[index] < _SHARED))
    if len(known) < least:
        return np.zeros(len(y), dtype=np.bool_)
    usual = y[known[far_apart(X[known], X[:0], min(_N_USUAL, len(known)))]]
    with np.errstate(over="ignore", invalid="ignore"):  # of the largest values
        median = np.median(usual)
        deviation = MAD_TO_STD * np.median(np.abs(usual - median))
        is_far: NDArray[np.bool_] = y < median - _FAR_WORSE * deviation
        rest = y[np.isfinite(y) & ~is_far]
        worst = rest.min()
        gap = rest[rest > worst].min(initial=np.inf) - worst
        if gap > _GAP * deviation and len(np.unique(X[y == worst], axis=0)) >= _SHARED:
            is_far |= y == worst
    return is_far


@dataclass(frozen=True, kw_only=True)
class TrialHistory:
    """A study's configurations except the one to be suggested, start-up included, one per row.

    Attributes:
        indices: Which configuration of the study it is, increasing; some may be absent, (n,).
        arms: The arm that the bandit pulled for the trial, or ``NO_ARM``, shape (n,).
        finished: False while a trial runs or waits, shape (n,).
        values: Objective values, maximized, possibly infinite; NaN for a trial that finished
            without one. Not looked at where ``finished`` is False. Shape (n,).
        expected_gains: Improvement that a model expected of the trial when it suggested it, NaN for
            a trial that no model suggested, shape (n,).
        criteria: Name of what that model was fitted by, empty without a model, shape (n,).
    """

    indices: NDArray[np.int64]
    arms: NDArray[np.int64]
    finished: NDArray[np.bool_]
    values: FloatArray
    expected_gains: FloatArray
    criteria: NDArray[np.object_]

    def first_suggested(self, index: int, *, with_gain: bool = False) -> int:
        """Return the first trial that a bandit or a model suggested, or ``index``.

        Args:
            index: The trial to suggest.
            with_gain: Only count models that expect a gain, as a Gaussian process does.
        """
        by_model = ~np.isnan(self.expected_gains) if with_gain else self.criteria != ""
        indices: list[int] = self.indices[by_model | (self.arms != NO_ARM)].tolist()
        return min([index, *indices[:1]])

    def before(self, index: int) -> TrialHistory:
        """Return the trials with smaller indices than ``index``."""
        known = self.indices < index
        return TrialHistory(**{name: array[known] for name, array in vars(self).items()})

    def count(self, arm: int) -> int:
        """Return how many trials pulled ``arm``."""
        return int((self.arms == arm).sum())

    def improvements(self, rows: NDArray[np.bool_]) -> tuple[int, int]:
        """Return how many of the trials at ``rows`` (n,) improved, and how many have finished.

        A trial improves if it is better than all finished ones before it. Infinite values do not
        count: behind one that is infinitely good nothing would improve.
        """
        values = np.where(self.finished & np.isfinite(self.values), self.values, -np.inf)
        best_before = np.maximum.accumulate(np.concatenate([[-np.inf], values]))[:-1]
        return int((values > best_before)[rows].sum()), int((rows & self.finished).sum())

    def arm_of(self, index: int) -> int:
        """Return the arm that trial ``index`` pulled, ``NO_ARM`` if none or not known."""
        arms: list[int] = self.arms[self.indices == index].tolist()
        return arms[0] if arms else NO_ARM


@dataclass(frozen=True)
class Suggestion:
    """The outcome of one step.

    Attributes:
        x: The suggested point, representable in the search space, shape (d,).
        warm_starts: What the next fit of each model starts from, by the model's name; each has a
            ``to_json``.
        notes: Fallbacks taken, in words; empty when all went well.
        expected_gain: Improvement that the model expects at ``x``, in standard deviations of its
            transformed targets; None without a model.
        criterion: Name of what the model was fitted by, None without a model.
        arm: The arm that the bandit pulled for this trial, None if it was not asked.
    """

    x: FloatArray
    warm_starts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    expected_gain: float | None = None
    criterion: str | None = None
    arm: int | None = None

    @classmethod
    def at_random(
        cls, space: SearchSpace, rng: np.random.Generator, error: Exception
    ) -> Suggestion:
        """Return a random point of the space, and the note that a model failed by ``error``."""
        x = space.snap(shifted_sobol(1, len(space), rng))[0]
        return cls(x, notes=(note_without_model(error, "the point is random"),))

    @property
    def is_by_model(self) -> bool:
        """Whether a model or the bandit made it, not the start-up's design or a fallback."""
        return self.criterion is not None or self.arm is not None
