"""A study's complete trials in the order of completion, as a terminator needs them.

The t-th observation of a stopping criterion is the t-th *completion*, by the time at which trials
completed, then by number. Only complete trials count: a pruned or failed one has no final value.
A trial with parameters outside of their own ranges, as an enqueued one may have, does not count
either. An infinitely good value counts as the best finite one so far. A trial whose value is
infinitely bad or far worse than usual counts as failed
(:func:`~bbo_plugins.methods.observations.failures_with_value`), and so does one that the sampler,
whose hyperparameters are used, has left out (:mod:`bbo_plugins.methods.outliers`,
:mod:`bbo_plugins.methods.penalties`).

Trials that continue one another (:mod:`bbo_plugins.optuna.study.continuations`) are one
observation: its place is that of the first of them to complete, its value that of the one with the
longest training of those that had completed by the time of the t-th completion.

A parameter that has the same value in all completions, ten of them or more, counts as fixed there.

The t-th observation depends on the first t completions alone, the search space included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.gp.likelihood import MARGINAL
from bbo_plugins.methods.observations import failures_with_value, with_infinities_clipped
from bbo_plugins.methods.training_subset import MAX_MODELED
from bbo_plugins.optuna.stopping.cross_validation import scores_of
from bbo_plugins.optuna.study.parameters import ParameterLearner, is_value_of
from bbo_plugins.optuna.study.points import PlacedTrials
from bbo_plugins.optuna.study.trials import TrialRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from bbo_plugins.gp.likelihood import Hyperparameters
    from bbo_plugins.optuna.study.trials import StudyTrials
    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

# The complete trials of one configuration, the first to complete first: one, and its continuations.
Completion: TypeAlias = list[TrialRow]

_MIN_SHARE = 0.75  # of the observations, that a fit of the sampler's has to have been made on
_MAX_AGE = 32  # completions since it was used
_LEAST_CONSTANT = 10  # completions with one value of a parameter, for it to count as fixed


class LearnedSpace:
    """Places complete trials in the space that they span; one more is added to what is known.

    The space has all parameters that any of the trials has, each with its latest range; of a
    dependent one with that which holds all. A value outside is placed at the nearest end. One that
    some trial lacks has a condition (:mod:`bbo_plugins.optuna.study.parameters`). A parameter whose
    values are not of one kind, as a number and then a category, has no common scale and is left
    out.

    Only a cache: a pickled copy starts anew.
    """

    def __init__(self) -> None:
        """Start without a trial."""
        self._forget()
        self._placed = PlacedTrials({}, clips=True)

    def __reduce__(self) -> tuple[type[LearnedSpace], tuple[()]]:
        """Leave everything out."""
        return LearnedSpace, ()

    def _forget(self) -> None:
        self._rows: list[TrialRow] = []
        self._learner = ParameterLearner()

    def place(self, rows: Sequence[TrialRow]) -> tuple[SearchSpace, FloatArray]:
        """Return the space of complete trials, d dimensions, and their points (n, d).

        Args:
            rows: The trials, each inside its own ranges. Those of the last call need not be read
                again if they are the first ones now.
        """
        if len(rows) < len(self._rows) or not all(map(is_, rows, self._rows)):
            self._forget()
        for row in rows[len(self._rows) :]:
            self._rows.append(row)
            self._learner.add(row.trial)
        known, disputed = self._learner.all_parameters(), self._learner.disputed
        distributions = {
            name: distribution
            for name, distribution in known.distributions.items()
            if name not in disputed
        }
        self._placed = self._placed.over(distributions, known.conditions)
        _, X = self._placed.place(rows)
        return self._placed.space, X


@dataclass(frozen=True)
class CompletedTrials:
    """The first t completions as a stopping criterion sees them, with the values they had by then.

    Attributes:
        space: The parameters that any of them has, d of them; held if all of ten or more trials
            have the same value.
        X: Their points in the order of completion, shape (t, d).
        y: Their values, maximized and finite, shape (t,).
        n_infinite: How many values were infinite.
        n_violating: How many violate a constraint.
        has_failed: Which of them count as failed, outliers among them, shape (t,).
        estimate: The sampler's hyperparameters for this space, if it left any of late.
        best_scores: Cross-validation scores of the best of these trials; empty if not reported.
    """

    space: SearchSpace
    X: FloatArray
    y: FloatArray
    n_infinite: int
    n_violating: int
    has_failed: NDArray[np.bool_]
    estimate: Hyperparameters | None
    best_scores: tuple[float, ...]

    @classmethod
    def of(cls, order: Sequence[Completion], learned: LearnedSpace) -> CompletedTrials | None:
        """Read the completions, at least one; None if there is no parameter.

        Args:
            order: The completions in their order.
            learned: What is known of their space from earlier calls.
        """
        rows = [completion[0] for completion in order]
        space, X = learned.place(rows)
        if not len(space):
            return None
        end = max(row.finished_at for row in rows)
        latest = [latest_of(completion, until=end) for completion in order]
        values = np.array([row.values for row in latest], dtype=np.float64)
        y = with_infinities_clipped(values[:, 0])
        estimate, warps, has_failed = _latest_estimate(
            rows, latest, space.names, failures_with_value(X, values, space.active(X))
        )
        space = space.warped(warps)
        if space.warps != warps:  # the estimate is of another scale
            estimate = None
        return cls(
            space=space.held(_constant(rows, space)),
            X=space.stretched(X),
            y=y,
            n_infinite=int(np.isinf(values).sum()),
            n_violating=sum(row.violates for row in latest),
            has_failed=has_failed,
            estimate=estimate,
            best_scores=scores_of(latest[int(np.argmax(y))].trial.system_attrs),
        )


def completions_of(trials: StudyTrials) -> dict[int, Completion]:
    """Return the completions of a study, each by the number of the trial that completed first."""
    found: dict[int, Completion] = {}
    for row in trials.rows:
        if row.complete and not math.isnan(row.value) and row.is_inside:
            found.setdefault(trials.first_of(row.number), []).append(row)
    for rows in found.values():
        if len(rows) > 1:
            rows.sort(key=attrgetter("completion_order"))
    return {rows[0].number: rows for rows in found.values()}


def in_order(
    complete: Mapping[int, Completion], recorded: Mapping[int, int]
) -> tuple[Completion, ...]:
    """Return the completions in their order.

    Args:
        complete: The completions by number.
        recorded: Numbers of trials by the place, from 1 on, that they have been given already.
            They keep it even if a trial with an earlier time of completion has appeared since; the
            others fill the remaining places.
    """
    taken = set(recorded.values())
    rest = iter(
        sorted(
            (rows for number, rows in complete.items() if number not in taken),
            key=lambda rows: rows[0].completion_order,
        )
    )
    places = range(1, len(complete) + 1)
    return tuple(
        complete[recorded[place]] if recorded.get(place) in complete else next(rest)
        for place in places
    )


def latest_of(completion: Completion, until: float = math.inf) -> TrialRow:
    """Return the trial with the longest training of those that completed by then, in seconds."""
    if len(completion) == 1:
        return completion[0]
    return max((row for row in completion if row.finished_at <= until), key=attrgetter("number"))


def _constant(rows: Sequence[TrialRow], space: SearchSpace) -> dict[str, Any]:
    """Return the parameters that have the same value in all of these trials, ten of them or more.

    Most likely something fixes them, such as a PartialFixedSampler. Imported trials count, too: one
    trial elsewhere ends it.
    """
    if len(rows) < _LEAST_CONSTANT:
        return {}
    first = rows[0].params
    return {
        name: first[name]
        for name, dimension in zip(space.names, space.dimensions, strict=True)
        if name in first
        and all(name in row.params and row.params[name] == first[name] for row in rows)
        and is_value_of(dimension, first[name])
    }


def _latest_estimate(
    rows: Sequence[TrialRow],
    latest: Sequence[TrialRow],
    names: tuple[str, ...],
    has_failed: NDArray[np.bool_],
) -> tuple[Hyperparameters | None, Mapping[str, float], NDArray[np.bool_]]:
    """Return the estimate that the highest-numbered trial came from, unless it is out of date.

    With it the input warping that it is of, and which completions have failed, those among them
    that the estimate leaves out.

    Args:
        rows: The first trials of the t completions.
        latest: The trials that have their values.
        names: The parameters that it has to be of.
        has_failed: Which completions have failed in any case, shape (t,).
    """
    for row in sorted(rows[-_MAX_AGE:], key=attrgetter("number"), reverse=True):
        proposal = row.proposal
        if proposal is None or proposal.names != names:
            continue
        fit = WarmStart.from_json(proposal.fits.get(MARGINAL.name))
        estimate = None if fit is None else fit.hyperparameters(len(names))
        if fit is not None and estimate is not None:
            cutoff = -math.inf if proposal.cutoff is None else proposal.cutoff
            is_own = proposal.number in (None, row.number, *row.repeated)
            outliers = proposal.outliers if is_own else ()
            left_out = [one.number in outliers or one.value < cutoff for one in latest]
            failed = has_failed | np.array(left_out, dtype=np.bool_)
            if fit.n_points < _MIN_SHARE * min(int((~failed).sum()), MAX_MODELED):
                break
            return estimate, proposal.warps, failed
    return None, {}, has_failed
