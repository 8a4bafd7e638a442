"""The trials of a bilevel study as the observations of its functions.

In a study with one direction a trial observes one function, named by the parameter
:attr:`~bbo_plugins.optuna.bilevel.roles.Roles.query_param` (decoupled). In a study with two
directions it observes both objectives as its values, and the constraints as Optuna's constraint
values (coupled).

=================  ===============================================================================
state of a trial   use
=================  ===============================================================================
COMPLETE           an observation of its function, or of all that it has a value for. An
                   infinitely bad value of an objective is a failed query, an infinitely good one
                   counts as the best finite one. An infinite value of a constraint counts as its
                   largest finite magnitude, with its sign
RUNNING            an unanswered query, if its parameters and its function are known
FAIL, PRUNED       a failed query, if its parameters and its function are known, whatever it has
                   reported: no observation, but a point not to ask at again, near which fewer
                   queries are made and no solution is reported; the latest 64 count as unanswered
WAITING            none
=================  ===============================================================================

Values are signed here: objectives are maximized, a constraint holds where it is at least zero.

A trial also stores the reason of its query, as the system attribute ``bbo_plugins:bilevel``: a
version ``"v"``, the ``"reason"`` (such as ``"optimism"``), whether the problem looked
``"infeasible"`` and a failure was near (``"near_failure"``), and the ``"bounds"`` of the regrets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins.acquisition.maximize import CLOSE
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.bilbo import BilevelProblem, FunctionData
from bbo_plugins.methods.observations import LATEST_FAILED
from bbo_plugins.optuna.sampling.snapshot import StudySnapshot, latest_fits, notes_of
from bbo_plugins.optuna.study.parameters import conditions_among
from bbo_plugins.optuna.study.points import not_among
from bbo_plugins.optuna.study.storage import CONSTRAINTS_KEY, is_finite, of_version
from bbo_plugins.optuna.study.trials import BILEVEL_KEY
from bbo_plugins.space import SearchSpace, Split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from optuna.distributions import BaseDistribution

    from bbo_plugins.methods.bilbo import Query
    from bbo_plugins.optuna.bilevel.roles import Roles
    from bbo_plugins.optuna.study.points import PlacedTrials
    from bbo_plugins.optuna.study.trials import StudyTrials, TrialRow
    from bbo_plugins.space import Condition
    from bbo_plugins.space.dimension import FloatArray

_VERSION = 1
_TRUSTED_BOUND = 0.2  # largest r̄ but F's, in units of scale, of a trial for study.best_trial
_FAILED = (TrialState.FAIL, TrialState.PRUNED)


NO_REASON: Final = {"v": _VERSION}  # stored with a trial that BILBO has not proposed


def reason_of(query: Query, *, answer_is_given: bool) -> dict[str, Any]:
    """Return what is stored of the reason of ``query``.

    Args:
        query: The query.
        answer_is_given: Whether the sampler has not chosen all of its lower-level parameters.
    """
    return {
        "v": _VERSION,
        "reason": query.reason,
        "given": answer_is_given,
        "infeasible": query.infeasible,
        "near_failure": query.near_failure,
        "bounds": {name: round(bound, 6) for name, bound in query.regret_bounds.items()},
    }


def constraint_of(trial: FrozenTrial, roles: Roles) -> float:
    """Return the constraint value by which ``study.best_trial`` takes or leaves a trial.

    Args:
        trial: A complete trial of a study with one direction.
        roles: The roles of parameters and functions in it.

    Returns:
        At most 0 if the other functions are known well at the trial, else more.
    """
    stored = of_version(trial.system_attrs.get(BILEVEL_KEY), _VERSION) or {}
    # The bounds hold for queries of the trusted sets only; a given answer is the best of one.
    is_trusted = (
        stored.get("reason") == "optimism"
        and not stored.get("near_failure")
        and not stored.get("given")
    )
    fits = roles.fits(trial.distributions)
    is_upper = fits and trial.params[roles.query_param] == roles.upper
    bounds = stored.get("bounds")
    known = bounds if isinstance(bounds, dict) else {}
    others: list[Any] = [known.get(name) for name in roles.functions if name != roles.upper]
    if not (is_trusted and is_upper and all(map(is_finite, others))):
        return 1.0
    return float(max(others)) - _TRUSTED_BOUND


@dataclass(frozen=True, kw_only=True)
class BilevelTrials(StudySnapshot):
    """The observations of all functions in a study's trials; :meth:`read` builds one.

    Attributes:
        coupled: Whether a trial observes all functions.
        problem: The problem; fixed parameters are held.
        data: Observations and unanswered queries of each function.
        warm_starts: What the latest fit of each function left; None where that is unreadable.
    """

    coupled: bool
    problem: BilevelProblem
    data: dict[str, FunctionData]
    warm_starts: Mapping[str, WarmStart | None]

    @classmethod
    def read(
        cls,
        trials: StudyTrials,
        roles: Roles,
        placed: PlacedTrials,
        *,
        asking: int | None = None,
        fixed: Mapping[str, Any] | None = None,
        only_earlier: bool = False,
    ) -> BilevelTrials:
        """Make the functions' observations of a study's trials.

        Args:
            trials: The study's trials.
            roles: The roles of parameters and functions.
            placed: The space of the parameters of both levels, and of the query if the study is
                decoupled; it remembers where trials are, so that reading again takes less time.
            asking: Number of the trial to suggest for, which is left out.
            fixed: Its parameters that the sampler does not choose.
            only_earlier: Whether to leave out the data of trials with higher numbers, too.

        Returns:
            The observations, signed.
        """
        fixed = fixed or {}
        reader = _JointPlacement(roles, placed)
        rows = [row for row in trials.rows if row.number != asking]
        misfits = {
            row.number for row in rows if row.complete and not roles.fits(row.trial.distributions)
        }
        number = len(rows) if asking is None else asking
        fits = latest_fits(reversed(rows), placed.space.names)
        warm_starts = {name: WarmStart.from_json(fit) for name, fit in fits.items()}
        fitting = [row for row in rows if row.number not in misfits]
        data, n_infinite = reader.data(fitting, number, only_earlier=only_earlier)
        return cls(
            number=number,
            coupled=roles.coupled,
            distributions=placed.distributions,
            fixed=fixed,
            problem=reader.problem(fixed),
            data=data,
            warm_starts=warm_starts,
            notes=notes_of(
                clipped=n_infinite,
                unreadable=sum(row.has_unreadable_proposal for row in rows),
                misfits=len(misfits),
            ),
        )

    def is_taken(self, query: Query, *, since: BilevelTrials) -> bool:
        """Return whether a query of the same function close to ``query`` was not there before."""
        old, new = since.data[query.function], self.data[query.function]
        points = not_among(
            np.concatenate([new.X, new.unanswered]), np.concatenate([old.X, old.unanswered])
        )
        return bool((self.problem.space.distances(query.x[None], points) < CLOSE).any())


class _JointPlacement:
    """Places trials in the joint space of a problem, one function at a time."""

    def __init__(self, roles: Roles, placed: PlacedTrials) -> None:
        self.roles, self.placed = roles, placed
        names = self.placed.space.names
        self.columns = [names.index(name) for name in roles.params if name in names]
        self.query = None if roles.coupled else names.index(roles.query_param)
        self.dimensions = dict(zip(names, self.placed.space.dimensions, strict=True))

    def problem(self, fixed: Mapping[str, Any]) -> BilevelProblem:
        """Return the problem, with the fixed parameters held."""
        roles = self.roles
        spaces = []
        for level in (roles.upper_params, roles.lower_params):
            held = {
                name: fixed[name]
                for name in level
                if name in fixed and self.placed.can_hold(name, fixed[name])
            }
            known = {name: self.dimensions[name] for name in level if name in self.dimensions}
            spaces.append(SearchSpace(known).held(held))
        return BilevelProblem(
            upper_space=spaces[0],
            lower_space=spaces[1],
            upper=roles.upper,
            lower=roles.lower,
            upper_constraints=roles.upper_constraints,
            lower_constraints=roles.lower_constraints,
            conditions=conditions_among(roles.params, self.placed.space.conditions),
        )

    def data(
        self, rows: Sequence[TrialRow], asking: int, *, only_earlier: bool
    ) -> tuple[dict[str, FunctionData], int]:
        """Return each function's data and the number of infinite values."""
        running = self.placed.pending(rows, asking, only_earlier=only_earlier)
        if only_earlier:
            rows = [row for row in rows if row.number < asking]
        failed = self.placed.failed(
            [row for row in rows if row.state in _FAILED and not row.never_ran]
        )
        unanswered = np.concatenate([running, failed[-LATEST_FAILED:]])
        known, X = self.placed.place([row for row in rows if row.complete])
        X, data, n_infinite = X[:, self.columns], {}, 0
        for name in self.roles.functions:
            column = np.array([self._value(row, name) for row in known], dtype=np.float64)
            n_infinite += int(np.isinf(column).sum())
            y = self._without_infinities(column, name)
            no_value = X[np.isneginf(column) & np.isnan(y)]
            waits, fails = self._asks_for(unanswered, name), self._asks_for(failed, name)
            # Among all failures those with a value are taken for the latest.
            order = [np.flatnonzero(fails), len(failed) + np.arange(len(no_value))]
            data[name] = FunctionData(
                X=X[~np.isnan(y)],
                y=y[~np.isnan(y)],
                unanswered=np.concatenate(
                    [unanswered[waits][:, self.columns], no_value[-LATEST_FAILED:]]
                ),
                failed=np.concatenate([failed[fails][:, self.columns], no_value]),
                failed_order=np.concatenate(order),
            )
        return data, n_infinite

    def _without_infinities(self, column: FloatArray, name: str) -> FloatArray:
        """Return a function's values (n,), maximized, with NaN for those that are none."""
        finite = column[np.isfinite(column)]
        if name not in {self.roles.upper, self.roles.lower}:
            # Clipped to a finite one of either sign, a violation might count as satisfied.
            limit = float(np.abs(finite).max(initial=0.0)) or 1.0
            good, bad = limit, -limit
        else:
            good, bad = float(finite.max()) if len(finite) else math.nan, math.nan
        return np.where(np.isinf(column), np.where(column > 0.0, good, bad), column)

    def _asks_for(self, points: FloatArray, name: str) -> NDArray[np.bool_]:
        """Return which points (p, ...) are queries of the function, shape (p,)."""
        if self.query is None:
            return np.ones(len(points), dtype=np.bool_)
        position = self.dimensions[self.roles.query_param].encode([name])[0]
        asks: NDArray[np.bool_] = np.isclose(points[:, self.query], position)
        return asks

    def _value(self, row: TrialRow, name: str) -> float:
        """Return the function's maximized value in a complete trial; NaN if it has none."""
        roles = self.roles
        if not roles.coupled and row.params.get(roles.query_param) != name:
            return math.nan
        if roles.coupled and name not in {roles.upper, roles.lower}:
            return -row.constraints.get(name, math.nan)
        index = 1 if roles.coupled and name == roles.lower else 0
        return roles.sign(name) * float(row.trial.values[index])


def names_in_complete(rows: Sequence[TrialRow]) -> set[str]:
    """Return the names of all parameters that a complete trial has had."""
    return {name for row in rows if row.complete for name in row.trial.distributions}


def distributions_of(rows: Sequence[TrialRow], roles: Roles) -> dict[str, BaseDistribution]:
    """Return the distributions of the levels' parameters and the query; none if a level has none.

    The latest complete trial that has a parameter decides, or failed one as long as none is
    complete; trials of this sampler go before trials that a user has added.
    """
    used = {*roles.params, *(() if roles.coupled else (roles.query_param,))}
    own: dict[str, BaseDistribution] = {}
    others: dict[str, BaseDistribution] = {}
    is_complete = any(row.complete for row in rows)
    used_states = (TrialState.COMPLETE,) if is_complete else _FAILED
    for row in reversed(rows):
        if row.state not in used_states:
            continue
        is_own = row.has_proposal or CONSTRAINTS_KEY in row.trial.system_attrs
        found = own if is_own else others
        if not roles.fits(row.trial.distributions):
            continue
        for name, distribution in row.trial.distributions.items():
            found.setdefault(name, distribution)
        if used <= own.keys():
            break
    known = {**others, **own}
    if roles.empty_level(known):
        return {}
    return {name: known[name] for name in sorted(used & known.keys())}


def conditions_of(trials: StudyTrials, roles: Roles) -> dict[str, Condition]:
    """Return the conditions of the levels' parameters that some complete trial of use lacks.

    A parameter that is not asked for in queries of one function exists there all the same: the
    function is observed at the proposed value. Where one exists that looks at a dependent range is
    not known: the thresholds are in the range that holds all, the models have the latest one.
    """
    missing: set[str] = set()
    for row in trials.rows:
        lacks = row.complete and not row.params.keys() >= {*roles.params}
        if lacks and roles.fits(row.trial.distributions):
            missing |= {*roles.params} - row.params.keys()
    if not missing:
        return {}
    known = names_in_complete(trials.rows)
    conditions = {
        name: condition
        for name, condition in conditions_among(roles.params, trials.parameters.conditions).items()
        if not isinstance(condition, Split)
        or trials.parameters.dependent.isdisjoint(condition.parents())
    }
    return {name: conditions.get(name, True) for name in sorted(missing & known)}
