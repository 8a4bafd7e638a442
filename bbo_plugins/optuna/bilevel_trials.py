"""A study's trials as the observations of a bilevel problem's functions.

In a study with one direction a trial observes one function, named by the parameter
:attr:`Roles.query_param` (decoupled). In a study with two directions it observes both objectives as
its values, and the constraints as Optuna's constraint values (coupled).

What becomes of a trial:

=================  ===============================================================================
COMPLETE           an observation of its function, or of all that it has a value for; an infinite
                   value counts as the worst or best finite one of that function
RUNNING            a pending query, if its parameters and its function are known
FAIL, PRUNED       a pending query for ever (the 64 latest): where an evaluation failed the model
                   learns nothing, but does not ask there again
WAITING            nothing
=================  ===============================================================================

Values leave this file as the mathematics has them: objectives are maximized, a constraint holds
where it is at least zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import CategoricalDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState

from bbo_plugins import errors
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.bilbo_model import BilevelProblem, FunctionData
from bbo_plugins.optuna.finished import CONSTRAINTS_KEY, FinishedTrial
from bbo_plugins.optuna.placement import PlacedTrials, fixed_params
from bbo_plugins.optuna.proposals import Proposal
from bbo_plugins.space import CLOSE, SearchSpace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from bbo_plugins.space.dimension import FloatArray


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which parameters and functions play which part, by their names.

    Attributes:
        upper_params: Parameters of the upper level.
        lower_params: Parameters of the lower level.
        query_param: Categorical parameter that says which function a trial evaluates.
        upper: Upper-level objective.
        lower: Lower-level objective.
        upper_constraints: Constraints of the upper level.
        lower_constraints: Constraints of the lower level.
        maximized: Those of the objectives that are maximized.
    """

    upper_params: tuple[str, ...]
    lower_params: tuple[str, ...]
    query_param: str
    upper: str
    lower: str
    upper_constraints: tuple[str, ...]
    lower_constraints: tuple[str, ...]
    maximized: frozenset[str]

    @property
    def params(self) -> tuple[str, ...]:
        """Parameters of both levels."""
        return self.upper_params + self.lower_params

    @property
    def functions(self) -> tuple[str, ...]:
        """All functions: objectives, upper level first, then constraints likewise."""
        return (self.upper, self.lower, *self.upper_constraints, *self.lower_constraints)

    def sign(self, function: str) -> float:
        """Return 1 for a function that is maximized, -1 for others and constraints."""
        return 1.0 if function in self.maximized else -1.0

    def is_coupled(self, study: Study) -> bool:
        """Return whether a trial of ``study`` observes all functions.

        Raises:
            ValueError: The study's directions are not those of the objectives.
        """
        given = [direction.name.lower() for direction in study.directions]
        wanted = [
            (
                StudyDirection.MAXIMIZE if name in self.maximized else StudyDirection.MINIMIZE
            ).name.lower()
            for name in (self.upper, self.lower)
        ]
        if given not in (wanted[:1], wanted):
            raise ValueError(
                f"study must have the direction {wanted[0]!r} (one function per trial) or the "
                f"directions {wanted!r} (all functions in each trial), as upper_direction and "
                f"lower_direction say, but got {given!r}."
            )
        return len(given) > 1

    def check_query(self, distribution: BaseDistribution) -> None:
        """Check the choices of the query parameter.

        Raises:
            ValueError: They are not the names of the functions.
        """
        choices: Sequence[Any] = ()
        if isinstance(distribution, CategoricalDistribution):
            choices = distribution.choices
        if len(choices) != len(self.functions) or set(choices) != set(self.functions):
            rule = f"categorical with the choices {self.functions}"
            argument = f"parameter {self.query_param!r}"
            raise ValueError(errors.rule_message(argument, rule, distribution))

    def check_params(self, names: Iterable[str], *, coupled: bool) -> None:
        """Check the parameters that a complete trial had.

        Raises:
            ValueError: One is missing, or one is on no level.
        """
        expected = {*self.params, *(() if coupled else (self.query_param,))}
        missing = sorted(expected - set(names))
        if missing:
            raise ValueError(
                f"every trial must suggest the parameters {sorted(expected)}, but got one without "
                f"{missing}: conditional parameters are not supported."
            )
        for name in names:
            self.check_level(name)

    def check_constraints(self, attributes: Mapping[str, Any]) -> None:
        """Check that a coupled trial has reported all constraints.

        Args:
            attributes: The trial's system attributes.

        Raises:
            ValueError: It has not.
        """
        names = self.upper_constraints + self.lower_constraints
        missing = [name for name in names if f"{CONSTRAINTS_KEY}:{name}" not in attributes]
        if missing:
            raise ValueError(
                f"every trial must report the constraints {names} with set_constraint, but got one "
                f"without {missing}."
            )

    def check_level(self, name: str) -> None:
        """Check that a parameter is on one of the levels, or is the query.

        Raises:
            ValueError: It is not.
        """
        if name not in self.params and name != self.query_param:
            rule = f"among upper_params, lower_params or the query {self.query_param!r}"
            raise ValueError(errors.rule_message("parameter", rule, name))


@dataclass(frozen=True)
class BilevelTrials:
    """What a study's trials tell about the functions; :meth:`read` builds one.

    Attributes:
        problem: The problem; parameters that are fixed for the asking trial are held.
        data: Observations and pending queries of each function.
        warm_starts: What the latest suggestion's fits left.
        n_trials: Number of trials that were read, in any state.
        n_infinite: How many values were infinite and have been clipped.
    """

    problem: BilevelProblem
    data: dict[str, FunctionData]
    warm_starts: dict[str, WarmStart]
    n_trials: int
    n_infinite: int

    @classmethod
    def read(
        cls,
        study: Study,
        roles: Roles,
        distributions: Mapping[str, BaseDistribution],
        *,
        asking: FrozenTrial | None = None,
    ) -> BilevelTrials:
        """Read all trials.

        Args:
            study: The study.
            roles: Which parameters and functions play which part.
            distributions: Distributions of the parameters of both levels, and of the query if the
                study is decoupled.
            asking: The trial to suggest for, which is left out.
        """
        coupled = roles.is_coupled(study)
        reader = _Reader(roles, distributions, coupled=coupled)
        trials = study._get_trials(deepcopy=False, use_cache=False)
        others = [t for t in trials if asking is None or t.number != asking.number]
        fixed = {} if asking is None else fixed_params(asking, distributions)
        data, n_infinite = reader.data(others, asking)
        return cls(
            reader.problem(fixed), data, _warm_starts(others, roles), len(others), n_infinite
        )

    def has_new_query_near(self, point: FloatArray, function: str, *, since: BilevelTrials) -> bool:
        """Return whether a query of ``function`` close to ``point`` (d,) was not there before."""
        old, new = since.data[function], self.data[function]
        known = {row.tobytes() for row in (*old.X, *old.pending)}
        rows = [row for row in (*new.X, *new.pending) if row.tobytes() not in known]
        if not rows:
            return False
        return bool((self.problem.space.distances(point[None], np.array(rows)) < CLOSE).any())


_FAILED = (TrialState.FAIL, TrialState.PRUNED)


class _Reader:
    """Places trials in the joint space of a problem, one function at a time."""

    def __init__(
        self, roles: Roles, distributions: Mapping[str, BaseDistribution], *, coupled: bool
    ) -> None:
        self.roles, self.coupled = roles, coupled
        self.placed = PlacedTrials(distributions)
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
        complete = [trial for trial in trials if trial.state is TrialState.COMPLETE]
        finished = {trial.number: FinishedTrial.read(trial, None) for trial in complete}
        latest = asking or (trials[-1] if trials else None)
        pending = self.placed.failed([trial for trial in trials if trial.state in _FAILED])
        if latest is not None:
            pending = np.concatenate([self.placed.pending(trials, latest), pending])
        data, n_infinite = {}, 0
        for name in self.roles.functions:
            known, X = self.placed.place(
                {
                    trial.number: replace(
                        finished[trial.number],
                        value=self._value(trial, finished[trial.number], name),
                    )
                    for trial in complete
                }
            )
            y, n_clipped = _finite(np.array([row.value for row in known], dtype=np.float64))
            n_infinite += n_clipped
            data[name] = FunctionData(
                X=X[: len(y), self.columns],
                y=y,
                pending=pending[self._asks_for(pending, name)][:, self.columns],
            )
        return data, n_infinite

    def _asks_for(self, points: FloatArray, name: str) -> Any:
        """Return which points (p, ...) are queries of the function, shape (p,)."""
        if self.query is None:
            return np.ones(len(points), dtype=bool)
        position = self.dimensions[self.roles.query_param].encode([name])[0]
        return np.isclose(points[:, self.query], position)

    def _value(self, trial: FrozenTrial, row: FinishedTrial, name: str) -> float:
        """Return the function's maximized value in a complete trial; NaN if it has none."""
        roles = self.roles
        if not self.coupled:
            asked = row.params.get(roles.query_param) == name
            return roles.sign(name) * row.value if asked else math.nan
        if name in {roles.upper, roles.lower}:
            index = 0 if name == roles.upper else 1
            return roles.sign(name) * float(trial.values[index])
        return -row.constraints.get(name, math.nan)


def _finite(y: FloatArray) -> tuple[FloatArray, int]:
    """Return ``y`` with infinite values as the largest or smallest finite one; none without one."""
    finite = np.isfinite(y)
    if not finite.any():
        return y[:0], len(y)
    return np.clip(y, y[finite].min(), y[finite].max()), int((~finite).sum())


def _warm_starts(trials: Sequence[FrozenTrial], roles: Roles) -> dict[str, WarmStart]:
    """Return what the latest readable suggestion's fits left, by function."""
    for trial in reversed(trials):
        proposal = Proposal.from_attributes(trial.system_attrs)
        if proposal is None or len(proposal.fits) != len(roles.functions):
            continue
        starts = zip(roles.functions, map(WarmStart.from_json, proposal.fits), strict=True)
        return {name: start for name, start in starts if start is not None}
    return {}


def shared_distributions(
    study: Study, roles: Roles, *, coupled: bool
) -> dict[str, BaseDistribution] | None:
    """Return the distributions of the levels' parameters and the query; None before any is known.

    Raises:
        ValueError: A complete trial lacks one of the parameters or has one on no level; or the
            query's choices are not the functions.
    """
    shared: dict[str, BaseDistribution] | None = None
    for trial in study._get_trials(deepcopy=False, use_cache=False):
        if trial.state is not TrialState.COMPLETE:
            continue
        roles.check_params(trial.distributions, coupled=coupled)
        shared = dict(trial.distributions)
    if shared is None:
        return None
    if not coupled:
        roles.check_query(shared[roles.query_param])
    used = {*roles.params, *(() if coupled else (roles.query_param,))}
    return {name: shared[name] for name in sorted(used)}
