"""The parameters of a study: Optuna's distributions as dimensions, and which of them there are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState

from bbo_plugins.optuna.study.attributes import is_stored
from bbo_plugins.optuna.study.learned_conditions import Column, Evidence
from bbo_plugins.space import Condition, Dimension, SearchSpace, Split

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from optuna.trial import FrozenTrial


def dimension_of(distribution: BaseDistribution) -> Dimension:
    """Return the dimension with the values of ``distribution``.

    Of choices that Optuna takes for one and the same, such as 1 and True, only the first is kept:
    it is the one that comes back from a storage, so the others could never be observed.

    Raises:
        TypeError: The distribution is of none of Optuna's three kinds.
        ValueError: Its range overflows.
    """
    if isinstance(distribution, FloatDistribution):
        return Dimension.float(
            distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    if isinstance(distribution, IntDistribution):
        return Dimension.int(
            distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    if isinstance(distribution, CategoricalDistribution):
        return Dimension.categorical(_distinct_choices(distribution))
    raise TypeError(
        "distribution must be a FloatDistribution, IntDistribution or CategoricalDistribution, "
        f"but got {distribution!r}."
    )


def is_single(distribution: BaseDistribution) -> bool:
    """Return whether there is one value only, or several choices that Optuna takes for one."""
    if isinstance(distribution, CategoricalDistribution):
        return len(list(islice(_distinct_choices(distribution), 2))) == 1
    return distribution.single()


def is_modeled(distribution: BaseDistribution) -> bool:
    """Return whether there are several values, in a range that does not overflow."""
    if is_single(distribution):
        return False
    try:
        dimension_of(distribution)
    except ValueError:  # any program may have added a trial with such a range
        return False
    return True


def _distinct_choices(distribution: CategoricalDistribution) -> Iterator[Any]:
    """Yield the choices that Optuna finds at their own index, and of several NaNs the first."""
    nan_seen = False
    for index, choice in enumerate(distribution.choices):
        if isinstance(choice, float) and math.isnan(choice):
            if nan_seen:
                continue
            nan_seen = True
        if distribution.to_internal_repr(choice) == index:
            yield choice


def space_of(
    distributions: Mapping[str, BaseDistribution],
    conditions: Mapping[str, Condition] = MappingProxyType({}),
) -> SearchSpace:
    """Return the search space of these parameters, its columns sorted by name."""
    dimensions = {name: dimension_of(distributions[name]) for name in sorted(distributions)}
    return SearchSpace(dimensions, conditions)


def is_value_of(dimension: Dimension, value: Any) -> bool:
    """Return whether ``value`` is a choice of ``dimension`` or a number in its range."""
    try:
        dimension.encode([value])
    except (TypeError, ValueError, OverflowError):
        return False
    return is_in_range(dimension, value)


def is_in_range(range_: Dimension | BaseDistribution, value: Any) -> bool:
    """Return whether a number lies within the bounds; choices are not looked at."""
    if isinstance(range_, Dimension):
        return range_.is_categorical or bool(range_.low <= value <= range_.high)
    if isinstance(range_, FloatDistribution | IntDistribution):
        return bool(range_.low <= value <= range_.high)
    return True


@dataclass(frozen=True)
class Parameters:
    """The parameters of a study.

    Attributes:
        distributions: The latest distribution of each that has several values, in a range that
            does not overflow. Left out are those whose type trials disagree about, until a trial of
            these samplers has decided.
        conditions: Conditions of those that do not exist everywhere.
    """

    distributions: Mapping[str, BaseDistribution]
    conditions: Mapping[str, Condition]


class ParameterLearner:
    """Collects the parameters of finished trials; the order in which they come does not matter."""

    def __init__(self) -> None:
        """Start without a trial."""
        self._trials: list[FrozenTrial] = []
        self._latest: dict[str, tuple[FrozenTrial, BaseDistribution]] = {}
        self._types: dict[str, set[object]] = {}
        self._first: dict[str, BaseDistribution] = {}
        self._moving: set[str] = set()  # parameters whose distribution has not stayed the same
        self._n_complete_with: dict[str, int] = {}
        self._n_complete = 0
        self._cut_off: set[frozenset[str]] = set()  # what pruned and failed trials had
        self._evidence = Evidence({})
        self._columns: dict[str, tuple[BaseDistribution, bool, Column]] = {}
        self._learned: Parameters | None = None

    def add(self, trial: FrozenTrial) -> None:
        """Add a finished trial."""
        self._learned = None
        self._trials.append(trial)
        complete = trial.state is TrialState.COMPLETE
        self._n_complete += complete
        if not complete:
            self._cut_off.add(frozenset(trial.params))
        for name, distribution in trial.distributions.items():
            latest = self._latest.get(name)
            is_known = latest is not None and latest[1] == distribution
            is_latest = latest is None or trial.number > latest[0].number
            if is_latest and (is_known or is_modeled(distribution)):
                self._latest[name] = trial, distribution
            if self._first.setdefault(name, distribution) != distribution:
                self._moving.add(name)
            self._types.setdefault(name, set()).add(_type_of(distribution))
            if complete:
                self._n_complete_with[name] = self._n_complete_with.get(name, 0) + 1

    @property
    def disputed(self) -> set[str]:
        """Names of parameters about whose type trials disagree."""
        return {name for name, types in self._types.items() if len(types) > 1}

    def parameters(self) -> Parameters:
        """Return what the trials say by now; nothing as long as none of them is complete."""
        if not self._n_complete:
            return Parameters({}, {})
        if self._learned is None:
            disputed = self.disputed
            distributions = {
                name: distribution
                for name, (trial, distribution) in sorted(self._latest.items())
                # An added trial does not show what type the objective asks for.
                if name not in disputed or is_stored(trial.system_attrs)
            }
            self._learned = Parameters(distributions, self._conditions(distributions))
        return self._learned

    def _conditions(self, distributions: Mapping[str, BaseDistribution]) -> dict[str, Condition]:
        missing = [
            name for name in distributions if self._n_complete_with.get(name, 0) < self._n_complete
        ]
        cut_off = [
            name
            for name in distributions
            if name not in missing and any(name not in names for names in self._cut_off if names)
        ]
        if not missing and not cut_off:
            return {}
        columns = {name: self._column(name, one) for name, one in distributions.items()}
        if not self._evidence.holds_for(columns):
            self._evidence = Evidence(columns)
        self._evidence.update(columns, self._trials)
        return self._evidence.conditions(missing, cut_off)

    def _column(self, name: str, distribution: BaseDistribution) -> Column:
        """Return how a parameter may serve as a parent, made anew with its distribution."""
        is_fixed = name not in self._moving
        made_of, was_fixed, column = self._columns.get(name, (None, False, None))
        if column is None or made_of is not distribution or was_fixed != is_fixed:
            column = Column.of(dimension_of(distribution), is_fixed=is_fixed)
            self._columns[name] = distribution, is_fixed, column
        return column


def conditions_among(
    names: Collection[str], conditions: Mapping[str, Condition]
) -> dict[str, Condition]:
    """Return the conditions of these parameters; True for one that looks at another one."""

    def is_among(condition: Condition) -> bool:
        return not isinstance(condition, Split) or all(one in names for one in condition.parents())

    return {
        name: condition if is_among(condition) else True
        for name, condition in conditions.items()
        if name in names
    }


def _type_of(distribution: BaseDistribution) -> object:
    """Return what Optuna does not allow to change."""
    if isinstance(distribution, CategoricalDistribution):
        return repr(distribution.choices)
    return type(distribution), getattr(distribution, "log", False)
