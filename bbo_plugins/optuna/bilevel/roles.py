"""The roles of the parameters and functions of a bilevel study, and the checks that trials fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution, CategoricalDistribution

from bbo_plugins import errors
from bbo_plugins.optuna.study.storage import CONSTRAINTS_KEY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from optuna.study import Study

DIRECTIONS = ("minimize", "maximize")


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The roles of parameters and functions, by their names.

    Attributes:
        upper_params: Parameters of the upper level.
        lower_params: Parameters of the lower level.
        query_param: Categorical parameter that says which function a trial evaluates.
        upper: Upper-level objective.
        lower: Lower-level objective.
        upper_direction: "minimize" or "maximize".
        lower_direction: "minimize" or "maximize".
        upper_constraints: Constraints of the upper level.
        lower_constraints: Constraints of the lower level.
        coupled: Whether a trial observes all functions; else the one that its query names.

    Raises:
        ValueError: A name is used twice.
    """

    upper_params: tuple[str, ...]
    lower_params: tuple[str, ...]
    query_param: str
    upper: str
    lower: str
    upper_direction: str
    lower_direction: str
    upper_constraints: tuple[str, ...]
    lower_constraints: tuple[str, ...]
    coupled: bool = False

    def __post_init__(self) -> None:
        """Check that the names differ."""
        _check_distinct("parameters", (*self.params, self.query_param))
        _check_distinct("functions", self.functions)

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
        directions = {self.upper: self.upper_direction, self.lower: self.lower_direction}
        return 1.0 if directions.get(function) == "maximize" else -1.0

    def in_study(self, study: Study) -> Roles:
        """Return the roles in ``study``, which is coupled if it has two directions.

        Raises:
            ValueError: The study's directions are not those of the objectives.
        """
        given = [direction.name.lower() for direction in study.directions]
        wanted = [self.upper_direction, self.lower_direction]
        if given not in (wanted[:1], wanted):
            raise ValueError(
                f"study must have the direction {wanted[0]!r} (one function per trial) or the "
                f"directions {wanted!r} (all functions in each trial), as upper_direction and "
                f"lower_direction say, but got {given!r}."
            )
        return replace(self, coupled=len(given) > 1)

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

    def empty_level(self, names: Collection[str]) -> str | None:
        """Return which level has none of the parameters ``names``, in words; None if both have."""
        for argument in ("upper_params", "lower_params"):
            level = getattr(self, argument)
            if not set(level) & set(names):
                return f"{argument} {[*level]}"
        return None

    def check(self, distributions: Mapping[str, BaseDistribution]) -> None:
        """Check the parameters that a complete trial had.

        Raises:
            ValueError: There is none, the query is missing or has other choices, or one is on no
                level.
        """
        if distributions.keys().isdisjoint(self.params):
            raise ValueError(
                f"every trial must suggest at least one parameter of {[*self.params]}, but got one "
                f"with {sorted(distributions)}."
            )
        if not self.coupled and self.query_param not in distributions:
            raise ValueError(
                f"every trial must suggest {self.query_param!r}, but got one without it: "
                f"suggest_categorical({self.query_param!r}, sampler.functions) says which function "
                "the trial is to return."
            )
        for name in distributions:
            self.check_level(name)
        if not self.coupled:
            self.check_query(distributions[self.query_param])

    def fits(self, distributions: Mapping[str, BaseDistribution]) -> bool:
        """Return whether a complete trial with these parameters is of use."""
        try:
            self.check(distributions)
        except ValueError:
            return False
        return True

    def check_constraints(self, attributes: Mapping[str, Any]) -> None:
        """Check which constraints a complete trial has reported with ``Trial.set_constraint``.

        In a coupled study it must report all of them; else none, as a constraint's value is
        returned when the query asks for it.

        Args:
            attributes: The trial's system attributes.

        Raises:
            ValueError: It has reported others.
        """
        prefix = f"{CONSTRAINTS_KEY}:"
        reported = sorted(key.removeprefix(prefix) for key in attributes if key.startswith(prefix))
        if not self.coupled and reported:
            raise ValueError(
                f"a constraint's value must be returned when the query {self.query_param!r} asks "
                f"for it, but got a trial that set {reported} with set_constraint."
            )
        expected = sorted(self.upper_constraints + self.lower_constraints)
        if self.coupled and reported != expected:
            raise ValueError(
                f"every trial must report the constraints {expected} with set_constraint, but got "
                f"one that reported {reported}."
            )

    def check_level(self, name: str) -> None:
        """Check that a parameter is on one of the levels, or is the query of a decoupled study.

        Raises:
            ValueError: It is not.
        """
        if name in self.params or (name == self.query_param and not self.coupled):
            return
        rule = f"in upper_params {[*self.upper_params]} or lower_params {[*self.lower_params]}"
        if self.coupled:
            rule += ", in a study with two directions"
        else:
            rule += f", or the query {self.query_param!r}"
        raise ValueError(errors.rule_message("parameter", rule, name))


def name_of(argument: str, value: object) -> str:
    """Return a name that a user gives.

    Raises:
        TypeError: It is not a string.
        ValueError: It is empty.
    """
    rule = "a non-empty name"
    errors.check_instance(argument, value, str, rule)
    if not value:
        raise ValueError(errors.rule_message(argument, rule, value))
    return str(value)


def names_of(argument: str, values: object, *, least: int = 0) -> tuple[str, ...]:
    """Return the names in a sequence of any type that a user gives.

    Raises:
        TypeError: It is no sequence, or an entry is not a string.
        ValueError: It has fewer than ``least`` entries, or an entry is empty.
    """
    rule = "a sequence of names" if not least else "a sequence of at least one name"
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise TypeError(errors.rule_message(argument, rule, values))
    names = tuple(name_of(f"an entry of {argument}", value) for value in values)
    if len(names) < least:
        raise ValueError(errors.rule_message(argument, rule, values))
    return names


def _check_distinct(what: str, names: Sequence[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"{what} must have different names, but {repeated} are used twice.")
