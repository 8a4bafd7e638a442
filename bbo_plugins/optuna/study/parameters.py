"""The parameters of a study: Optuna's distributions as dimensions, and which of them there are."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise, takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState

from bbo_plugins.optuna.study.learned_conditions import MAX_CHILDREN, Column, Evidence
from bbo_plugins.optuna.study.storage import is_finite, is_stored
from bbo_plugins.space import Condition, Dimension, SearchSpace, Split

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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
        return Dimension.floats(
            distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    if isinstance(distribution, IntDistribution):
        return Dimension.integers(
            distribution.low, distribution.high, log=distribution.log, step=distribution.step
        )
    if isinstance(distribution, CategoricalDistribution):
        choices = [*_distinct_choices(distribution)]
        return (
            Dimension.ordinal(choices) if _have_order(choices) else Dimension.categorical(choices)
        )
    raise TypeError(
        "distribution must be a FloatDistribution, IntDistribution or CategoricalDistribution, "
        f"but got {distribution!r}."
    )


def _have_order(choices: Sequence[Any]) -> bool:
    """Return whether choices are numbers whose order says something, such as 16, 32 and 64.

    That of two says nothing. Whole numbers that follow one another, such as 0, 1 and 2, may be
    codes: there is ``suggest_int`` for those with an order.
    """
    if len(choices) < 3 or not all(map(is_finite, choices)):
        return False
    are_whole = all(choice == int(choice) for choice in choices)
    return not (are_whole and all(high - low == 1 for low, high in pairwise(sorted(choices))))


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
        return is_in_range(dimension, value)  # a number in a text can be encoded, not compared
    except (TypeError, ValueError, OverflowError):
        return False


def is_in_range(range_: Dimension | BaseDistribution, value: Any) -> bool:
    """Return whether a number lies within the bounds; choices are not looked at."""
    if isinstance(range_, Dimension):
        return range_.has_choices or bool(range_.low <= value <= range_.high)
    if isinstance(range_, FloatDistribution | IntDistribution):
        return bool(range_.low <= value <= range_.high)
    return True


def nearest_value(range_: BaseDistribution, number: float) -> Any:
    """Return the value of a range of numbers that is nearest to ``number``."""
    dimension = dimension_of(range_)
    return dimension.decode(float(dimension.encode([number])[0]))


# Complete trials after which it is believed that the objective asks for other parameters now.
N_CHANGED = 10
# Changes of a range, from one trial with it to the next one, that are no edits of the code: among
# the first ten trials, and among all.
_FIRST_CHANGES, _MANY_CHANGES = 3, 10


_Purpose: TypeAlias = Literal["all", "now"]
_Numeric: TypeAlias = FloatDistribution | IntDistribution


@dataclass(frozen=True)
class Parameters:
    """The parameters of a study.

    Attributes:
        distributions: The latest distribution of each that has several values, in a range that
            does not overflow; of those with a dependent range, the range that holds all. Left out
            are those whose type trials disagree about, until a trial of these samplers has decided.
        conditions: Conditions of those that do not exist everywhere.
        dependent: Names of those whose range depends on other parameters.
        disputed: Names of parameters about whose type trials disagree.
    """

    distributions: Mapping[str, BaseDistribution]
    conditions: Mapping[str, Condition]
    dependent: frozenset[str] = frozenset()
    disputed: frozenset[str] = frozenset()


class _Ranges:
    """The ranges that trials gave a numeric parameter; the order they come in does not matter.

    A range that the objective computes from other parameters changes from the first trials on, or
    again and again. One that was edited changes once, or a few times while workers still run the
    old code, or are given it back.

    Attributes:
        hull: The range that holds all; it becomes another object only if it changes.
    """

    def __init__(self, distribution: _Numeric) -> None:
        """Start with a range, but without a trial."""
        self.hull = distribution
        self._kinds: dict[_Numeric, int] = {}  # a number for each different range
        self._kind_of: dict[int, int] = {}  # by trial number
        self._are_dependent: bool | None = None

    def add(self, distribution: _Numeric, number: int) -> None:
        """Add the range of trial ``number``."""
        if distribution != self.hull:
            hull = _hull(self.hull, distribution)
            self.hull = self.hull if hull == self.hull else hull
        self._kind_of[number] = self._kinds.setdefault(distribution, len(self._kinds))
        self._are_dependent = None

    @property
    def are_dependent(self) -> bool:
        """Whether the range depends on other parameters."""
        if len(self._kinds) == 1:
            return False
        if self._are_dependent is None:
            kinds = [self._kind_of[number] for number in sorted(self._kind_of)]
            changes = [one != other for one, other in pairwise(kinds)]
            at_first = sum(changes[: N_CHANGED - 1])
            self._are_dependent = at_first >= _FIRST_CHANGES or sum(changes) >= _MANY_CHANGES
        return self._are_dependent


class ParameterLearner:
    """Collects the parameters of finished trials; the order in which they come does not matter."""

    def __init__(self) -> None:
        """Start without a trial."""
        self._trials: list[FrozenTrial] = []
        self._latest: dict[str, tuple[FrozenTrial, BaseDistribution]] = {}
        self._types: dict[str, set[object]] = {}
        self._first: dict[str, BaseDistribution] = {}
        self._ranges: dict[str, _Ranges] = {}
        self._moving: set[str] = set()  # parameters whose distribution has not stayed the same
        self._complete: list[int] = []  # numbers of the complete trials
        self._complete_with: dict[str, list[int]] = {}  # of those that had the parameter
        self._cut_off: set[frozenset[str]] = set()  # what pruned and failed trials had
        # What was counted for all parameters and for those of now, of the trials from a number on.
        self._evidence: dict[_Purpose, tuple[int, Evidence]] = {}
        self._columns: dict[str, tuple[BaseDistribution, bool, Column]] = {}
        self._learned: Parameters | None = None
        self._learned_now: Parameters | None = None

    def add(self, trial: FrozenTrial) -> None:
        """Add a finished trial."""
        self._learned = self._learned_now = None
        self._trials.append(trial)
        complete = trial.state is TrialState.COMPLETE
        if complete:
            self._complete.append(trial.number)
        else:
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
            if isinstance(distribution, FloatDistribution | IntDistribution):
                ranges = self._ranges.get(name)
                if ranges is None:
                    ranges = self._ranges[name] = _Ranges(distribution)
                ranges.add(distribution, trial.number)
            if complete:
                self._complete_with.setdefault(name, []).append(trial.number)

    @property
    def disputed(self) -> set[str]:
        """Names of parameters about whose type trials disagree."""
        return {name for name, types in self._types.items() if len(types) > 1}

    def all_parameters(self) -> Parameters:
        """Return the parameters of all trials; nothing as long as none of them is complete."""
        if not self._complete:
            return Parameters({}, {})
        if self._learned is None:
            disputed, dependent = self.disputed, self._dependent()
            distributions = {
                name: self._ranges[name].hull if name in dependent else distribution
                for name, (trial, distribution) in sorted(self._latest.items())
                # An added trial does not show what type the objective asks for.
                if name not in disputed or is_stored(trial.system_attrs)
            }
            self._learned = self._with_conditions(distributions, "all", 0)
        return self._learned

    def _dependent(self) -> frozenset[str]:
        """Return the names of parameters whose range depends on other parameters."""
        disputed = self.disputed
        return frozenset(
            name
            for name, ranges in self._ranges.items()
            if ranges.are_dependent and name not in disputed and is_modeled(ranges.hull)
        )

    def parameters(self) -> Parameters:
        """Return the parameters that the objective asks for now.

        Its code may have changed during the study. A parameter whose condition cannot be learned
        was dropped if ten complete trials have come without it. It was added if the latest ten or
        more have it, after as many without it or none with it: then only they say what exists when,
        and it exists always, so that earlier trials have no place in the space.
        """
        everything = self.all_parameters()
        if self._learned_now is None:
            conditions = everything.conditions
            undecided = [name for name, one in conditions.items() if one is True]
            if len(conditions) > MAX_CHILDREN:  # then not all of them were looked for
                undecided = []
            dropped = {name for name in undecided if self._was_dropped(name)}
            added_at = [self._added_at(name) for name in undecided]
            since = max((number for number in added_at if number is not None), default=None)
            kept = {
                name: distribution
                for name, distribution in everything.distributions.items()
                if name not in dropped and (since is None or self._latest[name][0].number >= since)
            }
            has_changed = dropped or since is not None
            self._learned_now = (
                self._with_conditions(kept, "now", since or 0) if has_changed else everything
            )
        return self._learned_now

    def _was_dropped(self, name: str) -> bool:
        """Return whether ten complete trials are later than the last one with the parameter."""
        trial, _ = self._latest[name]
        return _n_since(trial.number + 1, self._complete) >= N_CHANGED

    def _added_at(self, name: str) -> int | None:
        """Return the first complete trial since the parameter was added; None if it was not."""
        having = set(self._complete_with.get(name, ()))
        backwards = sorted(self._complete, reverse=True)
        since = [*takewhile(having.__contains__, backwards)]
        before = backwards[len(since) :]
        gap = [*takewhile(lambda number: number not in having, before)]
        is_gap = len(gap) >= N_CHANGED or len(gap) == len(before) > 0
        return since[-1] if len(since) >= N_CHANGED and is_gap else None

    def _with_conditions(
        self, distributions: Mapping[str, BaseDistribution], purpose: _Purpose, first: int
    ) -> Parameters:
        """Return these parameters, with their conditions by the trials from ``first`` on."""
        n_complete = _n_since(first, self._complete)
        missing = [
            name
            for name in distributions
            if _n_since(first, self._complete_with.get(name, ())) < n_complete
        ]
        cut_off = [
            name
            for name in distributions
            if name not in missing and any(names and name not in names for names in self._cut_off)
        ]
        disputed, dependent = frozenset(self.disputed), self._dependent() & distributions.keys()
        if not missing and not cut_off:
            return Parameters(distributions, {}, dependent, disputed)
        columns = {name: self._column(name, one) for name, one in distributions.items()}
        evidence = self._evidence_of(purpose, first, columns)
        evidence.update(columns, [one for one in self._trials if one.number >= first])
        conditions = evidence.conditions(missing, cut_off)
        return Parameters(distributions, conditions, dependent, disputed)

    def _evidence_of(
        self, purpose: _Purpose, first: int, columns: Mapping[str, Column]
    ) -> Evidence:
        """Return what was counted of the trials from ``first`` on."""
        counted_from, evidence = self._evidence.get(purpose, (first, None))
        if evidence is None or counted_from != first or not evidence.holds_for(columns):
            evidence = Evidence(columns)
            self._evidence[purpose] = first, evidence
        return evidence

    def _column(self, name: str, distribution: BaseDistribution) -> Column:
        """Return how a parameter may serve as a parent, made anew with its distribution."""
        is_fixed = name not in self._moving
        made_of, was_fixed, column = self._columns.get(name, (None, False, None))
        if column is None or made_of is not distribution or was_fixed != is_fixed:
            column = Column.of(dimension_of(distribution), is_fixed=is_fixed)
            self._columns[name] = distribution, is_fixed, column
        return column


def hull_of(ranges: Iterable[BaseDistribution]) -> BaseDistribution:
    """Return the smallest range that holds all of ``ranges``, at least one, of one numeric type."""
    return functools.reduce(_hull, ranges)  # type: ignore[arg-type]


def _hull(one: _Numeric, other: _Numeric) -> _Numeric:
    """Return the smallest range that holds two; the first one if their types differ.

    It has their step if both lie on the same grid.
    """
    if one == other or _type_of(one) != _type_of(other):
        return one
    share_grid = one.step == other.step
    if share_grid and one.step not in {None, 1}:
        gap = abs(Fraction(str(one.low)) - Fraction(str(other.low)))
        share_grid = not gap % Fraction(str(one.step))
    if isinstance(one, IntDistribution) and isinstance(other, IntDistribution):
        low, high = min(one.low, other.low), max(one.high, other.high)
        return IntDistribution(low, high, log=one.log, step=one.step if share_grid else 1)
    return FloatDistribution(
        min(one.low, other.low),
        max(one.high, other.high),
        log=one.log,
        step=one.step if share_grid else None,
    )


def _n_since(first: int, numbers: Collection[int]) -> int:
    """Return how many of the ``numbers`` are at least ``first``."""
    return len(numbers) if first <= 0 else sum(number >= first for number in numbers)


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
