"""The trials of a bilevel study as the observations of its functions.

In a study with one direction a trial observes one function, named by the parameter
:attr:`~bbo_plugins.optuna.bilevel.roles.Roles.query_param` (decoupled). In a study with two
directions it observes both objectives as its values, and the constraints as Optuna's constraint
values (coupled).

=================  ===============================================================================
state of a trial   use
=================  ===============================================================================
COMPLETE           an observation of its function, or of all that it has a value for; an infinite
                   value counts as the worst or best finite one of that function
RUNNING            a pending query, if its parameters and its function are known
FAIL, PRUNED       a failed query, if its parameters and its function are known, whatever it has
                   reported: no observation, but a point not to ask at again, near which fewer
                   queries are made and no solution is reported; the 64 latest are also pending
WAITING            none
=================  ===============================================================================

Values are signed here: objectives are maximized, a constraint holds where it is at least zero.

A trial also stores the reason of its query, as one system attribute::

    bbo_plugins: bilevel = {
        "v": 1,
        "reason": "optimism",
        "infeasible": false,
        "near_failure": false,
        "bounds": {...},
    }
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins.acquisition.validity import LATEST_FAILED
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.bilbo import BilevelProblem, FunctionData
from bbo_plugins.optuna.study.attributes import is_finite
from bbo_plugins.optuna.study.proposal import Proposal, is_stored
from bbo_plugins.optuna.study.trials import CONSTRAINTS_KEY, TrialRow
from bbo_plugins.space import CLOSE, SearchSpace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.methods.bilbo import Query
    from bbo_plugins.optuna.bilevel.roles import Roles
    from bbo_plugins.optuna.study.points import PlacedTrials
    from bbo_plugins.space.dimension import FloatArray

REASON_KEY = "bbo_plugins:bilevel"
_VERSION = 1
_TRUSTED_BOUND = 0.2  # largest r̄ but F's, in units of scale, of a trial for study.best_trial
_MAX_RECORDS = 64  # stored proposals that are read
_FAILED = (TrialState.FAIL, TrialState.PRUNED)


def store_reason(study: Study, trial: FrozenTrial, query: Query) -> None:
    """Store the reason of ``query`` with ``trial``."""
    reason = {
        "v": _VERSION,
        "reason": query.reason,
        "infeasible": query.infeasible,
        "near_failure": query.near_failure,
        "bounds": {name: round(bound, 6) for name, bound in query.regret_bounds.items()},
    }
    study._storage.set_trial_system_attr(trial._trial_id, REASON_KEY, reason)


def doubt(trial: FrozenTrial, roles: Roles, fixed: Mapping[str, Any]) -> float:
    """Return the constraint value by which ``study.best_trial`` takes or leaves a trial.

    Args:
        trial: A complete trial of a study with one direction.
        roles: The roles of parameters and functions.
        fixed: Its parameters that the sampler has not chosen.

    Returns:
        At most 0 if the other functions are known well at the trial, else more.
    """
    fits = roles.fits(trial.distributions, coupled=False)
    if not fits or trial.params[roles.query_param] != roles.upper:
        return 1.0
    stored = trial.system_attrs.get(REASON_KEY)
    if not isinstance(stored, dict) or stored.get("v") != _VERSION:
        return 1.0
    # The bounds hold for queries of the trusted sets only; a fixed response is the best of one.
    is_trusted = stored.get("reason") == "optimism" and not stored.get("near_failure")
    if not is_trusted or not fixed.keys().isdisjoint(roles.lower_params):
        return 1.0
    bounds = stored.get("bounds")
    others = [name for name in roles.functions if name != roles.upper]
    if not isinstance(bounds, dict) or not all(is_finite(bounds.get(name)) for name in others):
        return 1.0
    if min(bounds[name] for name in others) < 0.0:
        return 1.0
    return float(max(bounds[name] for name in others)) - _TRUSTED_BOUND


@dataclass(frozen=True)
class Stored:
    """The stored proposals of the latest suggestions; :meth:`read` builds one.

    Attributes:
        warm_starts: Starts of the next fits by function, from the latest proposal.
        n_damaged_fits: How many of that one's fits cannot be read.
        n_unreadable: How many of the finished trials have a proposal that cannot be read.
    """

    warm_starts: Mapping[str, WarmStart]
    n_damaged_fits: int
    n_unreadable: int

    @classmethod
    def read(cls, trials: Sequence[FrozenTrial], functions: Sequence[str]) -> Stored:
        """Read the latest 64 proposals."""
        storing = (trial for trial in reversed(trials) if is_stored(trial.system_attrs))
        latest = list(islice(storing, _MAX_RECORDS))
        proposals = [Proposal.from_attributes(trial.system_attrs) for trial in latest]
        n_unreadable = sum(
            proposal is None and trial.state.is_finished()
            for trial, proposal in zip(latest, proposals, strict=True)
        )
        fits = [p.fits for p in proposals if p is not None and len(p.fits) == len(functions)]
        starts = map(WarmStart.from_json, fits[0] if fits else ())
        found = {name: start for name, start in zip(functions, starts, strict=False) if start}
        return cls(found, (len(functions) if fits else 0) - len(found), n_unreadable)


@dataclass(frozen=True)
class BilevelTrials:
    """The observations of all functions in a study's trials; :meth:`read` builds one.

    Attributes:
        problem: The problem; parameters that are fixed for the asking trial are held.
        data: Observations and pending queries of each function.
        stored: The stored proposals of the latest suggestions.
        n_trials: Number of trials that were read, in any state.
        n_infinite: How many values were infinite and have been clipped.
        n_misfits: How many complete trials lack a parameter or have one on no level.
    """

    problem: BilevelProblem
    data: dict[str, FunctionData]
    stored: Stored
    n_trials: int
    n_infinite: int
    n_misfits: int

    @property
    def warm_starts(self) -> Mapping[str, WarmStart]:
        """Starts of the next fits, by function."""
        return self.stored.warm_starts

    @classmethod
    def read(
        cls,
        study: Study,
        roles: Roles,
        placed: PlacedTrials,
        *,
        asking: FrozenTrial | None = None,
        fixed: Mapping[str, Any] | None = None,
    ) -> BilevelTrials:
        """Read all trials.

        Args:
            study: The study.
            roles: The roles of parameters and functions.
            placed: The space of the parameters of both levels, and of the query if the study is
                decoupled; it remembers where trials are, so that reading again takes less time.
            asking: The trial to suggest for, which is left out.
            fixed: Its parameters that the sampler does not choose.

        Returns:
            The observations, signed.
        """
        coupled = roles.is_coupled(study)
        reader = _Reader(roles, placed, coupled=coupled)
        trials = study._get_trials(deepcopy=False, use_cache=False)
        others = [t for t in trials if asking is None or t.number != asking.number]
        misfits = {
            trial.number
            for trial in others
            if trial.state is TrialState.COMPLETE
            and not roles.fits(trial.distributions, coupled=coupled)
        }
        fitting = [trial for trial in others if trial.number not in misfits]
        data, n_infinite = reader.data(fitting, asking)
        return cls(
            problem=reader.problem(fixed or {}),
            data=data,
            stored=Stored.read(others, roles.functions),
            n_trials=len(others),
            n_infinite=n_infinite,
            n_misfits=len(misfits),
        )

    def remarks(self) -> dict[str, str]:
        """Return warnings about these trials for the log, by their kind."""
        remarks = {}
        if self.n_infinite:
            remarks["infinite"] = (
                f"{self.n_infinite} infinite values so far; each counts as its function's largest "
                "or smallest finite one."
            )
        if self.n_misfits:
            remarks["misfits"] = (
                f"{self.n_misfits} complete trials lack a parameter or have one on no level; they "
                "are left out."
            )
        if self.stored.n_unreadable:
            remarks["unreadable"] = (
                f"what is stored with {self.stored.n_unreadable} trials cannot be read and is "
                "ignored: it is damaged, or of another version of this package."
            )
        if self.stored.n_damaged_fits:
            remarks["fits"] = "a stored fit cannot be read, so the next one starts anew."
        return remarks

    def has_new_query_near(self, point: FloatArray, function: str, *, since: BilevelTrials) -> bool:
        """Return whether a query of ``function`` close to ``point`` (d,) was not there before."""
        old, new = since.data[function], self.data[function]
        known = {row.tobytes() for row in (*old.X, *old.pending)}
        rows = [row for row in (*new.X, *new.pending) if row.tobytes() not in known]
        if not rows:
            return False
        return bool((self.problem.space.distances(point[None], np.array(rows)) < CLOSE).any())


class _Reader:
    """Places trials in the joint space of a problem, one function at a time."""

    def __init__(self, roles: Roles, placed: PlacedTrials, *, coupled: bool) -> None:
        self.roles, self.placed, self.coupled = roles, placed, coupled
        names = self.placed.space.names
        self.columns = [names.index(name) for name in roles.params]
        self.query = None if coupled else names.index(roles.query_param)
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
            spaces.append(SearchSpace({n: self.dimensions[n] for n in level}).held(held))
        return BilevelProblem(
            upper_space=spaces[0],
            lower_space=spaces[1],
            upper=roles.upper,
            lower=roles.lower,
            upper_constraints=roles.upper_constraints,
            lower_constraints=roles.lower_constraints,
        )

    def data(
        self, trials: Sequence[FrozenTrial], asking: FrozenTrial | None
    ) -> tuple[dict[str, FunctionData], int]:
        """Return each function's data and the number of infinite values."""
        rows = [TrialRow.read(trial) for trial in trials]
        latest = asking or (trials[-1] if trials else None)
        failed = self.placed.failed(
            [row for row in rows if row.state in _FAILED and not row.never_ran]
        )
        pending = failed[-LATEST_FAILED:]
        if latest is not None:
            pending = np.concatenate([self.placed.pending(rows, latest.number), pending])
        known, X = self.placed.place([row for row in rows if row.complete])
        data, n_infinite = {}, 0
        for name in self.roles.functions:
            values = [self._value(row, name) for row in known]
            column = np.array(values, dtype=np.float64)
            has_value = ~np.isnan(column)
            y, n_clipped = _finite(column[has_value])
            n_infinite += n_clipped
            data[name] = FunctionData(
                X=X[has_value][: len(y), self.columns],
                y=y,
                pending=pending[self._asks_for(pending, name)][:, self.columns],
                failed=failed[self._asks_for(failed, name)][:, self.columns],
                failed_order=np.flatnonzero(self._asks_for(failed, name)),
            )
        return data, n_infinite

    def _asks_for(self, points: FloatArray, name: str) -> Any:
        """Return which points (p, ...) are queries of the function, shape (p,)."""
        if self.query is None:
            return np.ones(len(points), dtype=bool)
        position = self.dimensions[self.roles.query_param].encode([name])[0]
        return np.isclose(points[:, self.query], position)

    def _value(self, row: TrialRow, name: str) -> float:
        """Return the function's maximized value in a complete trial; NaN if it has none."""
        roles = self.roles
        if not self.coupled:
            asked = row.params.get(roles.query_param) == name
            return roles.sign(name) * row.value if asked else math.nan
        if name in {roles.upper, roles.lower}:
            index = 0 if name == roles.upper else 1
            return roles.sign(name) * float(row.trial.values[index])
        return -row.constraints.get(name, math.nan)


def _finite(y: FloatArray) -> tuple[FloatArray, int]:
    """Return ``y`` with infinite values as the largest or smallest finite one; none without one."""
    finite = np.isfinite(y)
    if not finite.any():
        return y[:0], len(y)
    return np.clip(y, y[finite].min(), y[finite].max()), int((~finite).sum())


def shared_distributions(
    study: Study, roles: Roles, *, coupled: bool
) -> dict[str, BaseDistribution] | None:
    """Return the distributions of the levels' parameters and the query; None before any is known.

    The latest complete trial that has them all decides, or failed one as long as none is complete;
    trials of this sampler go before trials that a user has added.
    """
    shared: Mapping[str, BaseDistribution] | None = None
    trials = study._get_trials(deepcopy=False, use_cache=False)
    is_complete = any(trial.state is TrialState.COMPLETE for trial in trials)
    used_states = (TrialState.COMPLETE,) if is_complete else _FAILED
    for trial in reversed(trials):
        if trial.state not in used_states:
            continue
        is_own = is_stored(trial.system_attrs) or CONSTRAINTS_KEY in trial.system_attrs
        if (is_own or shared is None) and roles.fits(trial.distributions, coupled=coupled):
            shared = trial.distributions
            if is_own:
                break
    if shared is None:
        return None
    used = {*roles.params, *(() if coupled else (roles.query_param,))}
    return {name: shared[name] for name in sorted(used)}
