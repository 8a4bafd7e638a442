"""Ray's search spaces as trees: parameters, constants, and choices that hold parameters.

Ray's own bridge turns its domains into Optuna's distributions. A domain that it would drop or alter
is refused first, by the name of the parameter and with a remedy. A parameter within nested dicts is
called by its path: ``{"optimizer": {"lr": tune.loguniform(...)}}`` has ``"optimizer/lr"``.

A choice among dicts with domains, which Ray's bridge does not resolve, is a parameter with one
label for each of them, and they have parameters of their own, called by label and path:

    {"model": tune.choice([{"kind": "svm", "C": tune.loguniform(1e-3, 1e3)},
                           {"kind": "forest", "depth": tune.randint(1, 20)}])}

has "model", which is "svm" or "forest", "model/svm/C" and "model/forest/depth". The labels are what
tells the dicts apart: their only keys, or the values of a constant; else their numbers.

A tuner puts placeholders in place of functions, classes, other objects and numbers of NumPy. No
storage would return them, so that choices among them have labels as well.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
    distribution_to_json,
    json_to_distribution,
)
from optuna.trial import FixedTrial
from ray.cloudpickle import dumps, loads
from ray.tune.impl.placeholder import _FunctionResolver, _RefResolver
from ray.tune.search.optuna import OptunaSearch
from ray.tune.search.sample import (
    Categorical,
    Domain,
    Function,
    Integer,
    LogUniform,
    Normal,
    Quantized,
)
from ray.tune.utils.util import unflatten_dict

from bbo_plugins import errors
from bbo_plugins.optuna.study.parameters import dimension_of, is_value_of, nearest_value
from bbo_plugins.optuna.study.storage import is_finite, suggest

SEPARATOR = "/"
_DOMAIN = "a domain that can be searched"
_GRID = "a grid has no place in a sequential search; use tune.choice"
_ROUNDING = 1e-15  # relative error of a multiple of a step
_PLAIN = (str, int, float, type(None))
_PLACEHOLDERS = (_RefResolver.TOKEN, _FunctionResolver.TOKEN)

Suggest: TypeAlias = Callable[[str, BaseDistribution], Any]


@dataclass(frozen=True)
class Found:
    """What a value of a config says of the parameters.

    Attributes:
        params: The parameters in it by name.
        is_whole: Whether none is missing.
    """

    params: dict[str, Any]
    is_whole: bool


@dataclass(frozen=True)
class Constant:
    """A value that is always the same."""

    value: Any

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """No parameter."""
        return {}

    def value_by(self, suggest: Suggest) -> Any:
        """Return the value in the config of a trial."""
        del suggest
        return self.value

    def find(self, value: Any) -> Found | None:
        """Return what a config's value says of the parameters; None if it is another one."""
        return Found({}, is_whole=True) if are_equal(value, self.value) else None


@dataclass(frozen=True)
class Parameter:
    """A parameter by name."""

    name: str
    distribution: BaseDistribution

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The parameter's."""
        return {self.name: self.distribution}

    def value_by(self, suggest: Suggest) -> Any:
        """Return the value in the config of a trial."""
        return suggest(self.name, self.distribution)

    def find(self, value: Any) -> Found | None:
        """Return what a config's value says of the parameters; None if it is not one of them."""
        dimension, value = dimension_of(self.distribution), _step_of(self.distribution, value)
        if not is_value_of(dimension, value):
            choices = getattr(self.distribution, "choices", ())
            value = next((one for one in choices if are_equal(one, value)), value)
            if not is_value_of(dimension, value):
                return None
        if isinstance(self.distribution, IntDistribution):
            is_on_grid = (value - self.distribution.low) % self.distribution.step == 0
            return Found({self.name: int(value)}, is_whole=True) if is_on_grid else None
        return Found({self.name: plain(value)}, is_whole=True)


@dataclass(frozen=True)
class Choice:
    """A parameter whose choices may have parameters of their own.

    Attributes:
        name: Its name.
        labels: What stands for the choices in the study.
        branches: The choices, in the same order.
    """

    name: str
    labels: CategoricalDistribution
    branches: tuple[Node, ...]

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Those of the choice and of the parameters of all its branches."""
        found: dict[str, BaseDistribution] = {self.name: self.labels}
        for branch in self.branches:
            found |= branch.distributions
        return found

    def value_by(self, suggest: Suggest) -> Any:
        """Return the value in the config of a trial: the branch that is chosen, with its values."""
        label = suggest(self.name, self.labels)
        return self.branches[self.labels.choices.index(label)].value_by(suggest)

    def find(self, value: Any) -> Found | None:
        """Return what a config's value says of the parameters; None if it is none of the choices.

        Of several choices that it may be, a part of one that is left out counts against it. A label
        alone stands for a choice without its parameters.
        """
        fitting = [
            Found({self.name: label, **found.params}, is_whole=found.is_whole)
            for label, branch in zip(self.labels.choices, self.branches, strict=True)
            if (found := branch.find(value)) is not None
        ]
        whole = [found for found in fitting if found.is_whole]
        if whole or len(fitting) == 1:
            return (whole or fitting)[0]
        if not fitting and is_value_of(dimension_of(self.labels), value):
            return Found({self.name: value}, is_whole=False)
        return None


@dataclass(frozen=True)
class Tree:
    """Nested dicts of parameters, constants and choices; a whole search space is one.

    Attributes:
        nodes: What is at each path.
    """

    nodes: Mapping[str, Node]

    @property
    def distributions(self) -> dict[str, BaseDistribution]:
        """The distributions of all parameters by name."""
        found: dict[str, BaseDistribution] = {}
        for node in self.nodes.values():
            found |= node.distributions
        return found

    @property
    def constants(self) -> dict[str, Any]:
        """The constants by path, those of choices not among them."""
        return {path: node.value for path, node in self.nodes.items() if isinstance(node, Constant)}

    @property
    def searched(self) -> dict[str, Parameter | Choice]:
        """Everything else by path."""
        return {
            path: node for path, node in self.nodes.items() if isinstance(node, Parameter | Choice)
        }

    @property
    def is_conditional(self) -> bool:
        """Whether some parameters exist for some choices only."""
        return any(isinstance(node, Choice) for node in self.nodes.values())

    def value_by(self, suggest: Suggest) -> dict[str, Any]:
        """Return the nested values in the config of a trial."""
        values = {path: node.value_by(suggest) for path, node in self.nodes.items()}
        nested: dict[str, Any] = unflatten_dict(values)
        return nested

    def values_by(self, suggest: Suggest) -> dict[str, Any]:
        """Return the values in the config of a trial by path, without constants."""
        return {path: node.value_by(suggest) for path, node in self.searched.items()}

    def __call__(self, trial: Any) -> dict[str, Any]:
        """Return the same for an Optuna trial: a define-by-run function."""
        return self.values_by(functools.partial(suggest, trial))

    def find(self, value: Any) -> Found | None:
        """Return what a config's value says of the parameters; None if it is not of this form."""
        if not isinstance(value, Mapping):
            return None
        flat = self._with_choices_whole(flattened(value, self.nodes))
        if not flat.keys() <= self.nodes.keys():
            return None
        found = [self.nodes[path].find(part) for path, part in flat.items()]
        params: dict[str, Any] = {}
        for one in found:
            if one is None:
                return None
            params |= one.params
        is_whole = len(flat) == len(self.nodes) and all(one.is_whole for one in found if one)
        return Found(params, is_whole=is_whole)

    def params_of(
        self,
        argument: str,
        config: Mapping[str, Any],
        constants: Collection[str] | None = None,
        *,
        whole: bool = False,
    ) -> dict[str, Any]:
        """Return the parameters in a config by name, in the order of the space.

        Args:
            argument: Name of the argument, for the messages.
            config: Values, nested, by path or by the names of the parameters.
            constants: Paths that a config may hold besides; None for any.
            whole: Whether no parameter may be missing.

        Returns:
            The values of the parameters that are given.

        Raises:
            ValueError: There is something else, or a value is not one of its parameter.
        """
        if self.is_conditional and not whole:
            by_name = self._params_by_name(config)
            if by_name is not None:
                return by_name
        flat = self._with_choices_whole(flattened(config, self.searched))
        known = {*self.searched, *(constants or ())}
        unknown = [path for path in flat if path not in known]
        if unknown and constants is not None:
            rule = f"a point of the search space, which has no {unknown[0]!r}"
            raise ValueError(errors.rule_message(argument, rule, dict(config)))
        params: dict[str, Any] = {}
        for path, node in self.searched.items():
            if path in flat or whole:
                found = node.find(flat[path]) if path in flat else None
                if found is None or (whole and not found.is_whole):
                    place = f"{argument}[{path!r}]"
                    raise ValueError(errors.rule_message(place, _rule_of(node), flat.get(path)))
                params |= found.params
        return params

    def _params_by_name(self, config: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the parameters in a config by the study's names; None if it is another one."""
        known, params = self.distributions, dict[str, Any]()
        for name, value in config.items():
            found = Parameter(name, known[name]).find(value) if name in known else None
            if found is None:
                return None
            params |= found.params
        return {name: params[name] for name in known if name in params}

    def _with_choices_whole(self, flat: dict[str, Any]) -> dict[str, Any]:
        """Return a flat config with the paths below each choice as one dict in its place."""
        choices = [path for path, node in self.searched.items() if isinstance(node, Choice)]
        whole: dict[str, Any] = {}
        for path, value in flat.items():
            above = next((name for name in choices if path.startswith(name + SEPARATOR)), None)
            if above is None or above in flat:
                whole[path] = value
            else:
                whole.setdefault(above, {})[path.removeprefix(above + SEPARATOR)] = value
        return whole

    def read(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """Return the parameters of a trial and their distributions, both by name.

        Args:
            config: The trial's whole config, nested.

        Raises:
            ValueError: Something is missing or out of its range.
        """
        params, distributions = self.params_of("config", config, whole=True), self.distributions
        return params, {name: distributions[name] for name in params}


Node: TypeAlias = Constant | Parameter | Choice | Tree


def _rule_of(node: Parameter | Choice) -> str:
    if isinstance(node, Parameter):
        return f"a value of {node.distribution}"
    if any(isinstance(one, Constant) and has_placeholder(one.value) for one in node.branches):
        hidden = "as Ray hides objects and numbers of NumPy from search algorithms"
        return f"one of the labels {list(node.labels.choices)}, {hidden}"
    return f"one of the choices {list(node.labels.choices)}, with what tells it from the others"


def replayed(
    function: Callable[[Any], Any], config: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
    """Return the parameters that a define-by-run function asks for where they have given values.

    Args:
        function: The function of an Optuna trial.
        config: The values, nested or by path; what else there is is ignored.

    Returns:
        The values and the distributions, both by name.

    Raises:
        ValueError: A parameter is missing or has a value out of its range.
    """
    trial = FixedTrial(flattened(config, ()))
    with warnings.catch_warnings():
        # It is refused below.
        warnings.filterwarnings("ignore", "The value .* is out of the range", UserWarning)
        function(trial)
    for name, value in trial.params.items():
        if not is_value_of(dimension_of(trial.distributions[name]), value):
            rule = f"a value of {trial.distributions[name]}"
            raise ValueError(errors.rule_message(repr(name), rule, value))
    return dict(trial.params), dict(trial.distributions)


def read_space(argument: str, space: object) -> Tree:
    """Return a search space as a tree.

    Args:
        argument: Name of the argument, for the messages.
        space: Ray's domains, Optuna's distributions and constants, in nested dicts.

    Raises:
        TypeError: ``space`` is not a dict, or a name is not a string.
        ValueError: A parameter cannot be searched, or a name contains a slash.
    """
    errors.check_instance(argument, space, Mapping, "a dict of domains or distributions")
    return _tree(argument, space, "")


def plain(value: Any) -> Any:
    """Return the Python number of NumPy's or a tensor's, which no storage takes; else the value."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def _step_of(distribution: BaseDistribution, value: Any) -> Any:
    """Return the step of a range of floats that a value is, but for rounding; else the value.

    Ray draws multiples such as 3 * 0.1, which is beyond 0.3.
    """
    has_steps = isinstance(distribution, FloatDistribution) and distribution.step is not None
    if not has_steps or not is_finite(plain(value)):
        return value
    step = nearest_value(distribution, value)
    return step if math.isclose(step, value, rel_tol=_ROUNDING) else value


def check_choices_come_back(argument: str, distributions: Mapping[str, BaseDistribution]) -> None:
    """Check that the choices are equal to what other processes return of them.

    Raises:
        ValueError: One is not, as a function of a notebook.
    """
    for name, distribution in distributions.items():
        for choice in getattr(distribution, "choices", ()):
            try:
                copy = loads(dumps(choice))
            except Exception as error:
                raise ValueError(_no_copy(argument, name, choice)) from error
            if not is_value_of(dimension_of(distribution), copy):
                raise ValueError(_no_copy(argument, name, choice))


def _no_copy(argument: str, name: str, choice: Any) -> str:
    rule = "a choice of values that are equal to their copies, such as texts"
    return errors.rule_message(f"{argument}[{name!r}]", rule, choice)


def check_choices_are_storable(
    argument: str, distributions: Mapping[str, BaseDistribution]
) -> None:
    """Check that a storage returns the choices that it is given, which it has as JSON.

    Raises:
        ValueError: It does not.
    """
    for name, distribution in distributions.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # Optuna says so of lists, too
                stored = json_to_distribution(distribution_to_json(distribution))
            check_distribution_compatibility(stored, distribution)
        except (TypeError, ValueError) as error:
            rule = "a choice of JSON values, with lists in place of tuples, if there is a storage"
            raise ValueError(
                errors.rule_message(f"{argument}[{name!r}]", rule, distribution)
            ) from error


def _tree(argument: str, space: Any, prefix: str) -> Tree:
    return Tree(
        {path: _node(argument, prefix + path, value) for path, value in _leaves(argument, space)}
    )


def _node(argument: str, name: str, value: Any) -> Node:
    place = f"{argument}[{name!r}]"
    is_choice = isinstance(value, Categorical) and not value.is_grid()
    if is_choice and (_has_domain(value.categories) or has_placeholder(value.categories)):
        return _choice(argument, name, value.categories)
    if isinstance(value, Domain):
        _check_domain(place, value)
        if isinstance(value, Categorical):
            value = CategoricalDistribution([*map(plain, value.categories)])
            _check_comparable(place, value)
            return Parameter(name, value)
        sampler = value.get_sampler()
        if isinstance(value, Integer) and isinstance(sampler, Quantized):
            return Parameter(name, _quantized(place, value, sampler.q))
        # One at a time, as paths are no names that Ray's conversion would take.
        converted = OptunaSearch.convert_search_space({"value": value})
        return Parameter(name, converted["value"])
    if isinstance(value, BaseDistribution):
        _check_comparable(place, value)
        return Parameter(name, value)
    _check_constant(place, value)
    return Constant(value)


def _quantized(place: str, domain: Integer, q: float) -> IntDistribution:
    """Return the multiples of the step in a range, which are what Ray draws.

    Optuna's own grid begins at the lower end of the range. Ray leaves the upper end out if the step
    is 1.
    """
    step = int(q)
    if step != q:
        raise ValueError(errors.rule_message(place, f"{_DOMAIN}, with a whole step", q))
    upper = domain.upper - (step == 1)
    low, high = -(-domain.lower // step) * step, upper // step * step
    if low > high:
        rule = f"{_DOMAIN}: its range holds no multiple of {step}"
        raise ValueError(errors.rule_message(place, rule, f"{domain.lower} to {domain.upper}"))
    return IntDistribution(low, high, step=step)


def _choice(argument: str, name: str, categories: Sequence[Any]) -> Choice:
    by_key, labels = _labels(categories)
    branches: list[Node] = []
    for label, category in zip(labels, categories, strict=True):
        below = f"{name}{SEPARATOR}{label}"
        if _is_dict(category):
            stem = name if by_key else below
            branches.append(_tree(argument, category, stem + SEPARATOR))
        else:
            branches.append(_node(argument, below, category))
    return Choice(name, CategoricalDistribution(labels), tuple(branches))


def _labels(categories: Sequence[Any]) -> tuple[bool, list[Any]]:
    """Return what stands for each choice, and whether that is a dict's only key."""
    dicts = [category for category in categories if _is_dict(category)]
    are_plain = [_is_plain(category) for category in categories]

    def labels_by(label: Callable[[Mapping[str, Any]], Any]) -> list[Any]:
        return [
            category if is_plain else str(label(category) if _is_dict(category) else index)
            for index, (category, is_plain) in enumerate(zip(categories, are_plain, strict=True))
        ]

    if all(len(category) == 1 for category in dicts):
        labels = labels_by(lambda category: next(iter(category)))
        if _are_labels(labels):
            return True, labels
    for key in dicts[0] if dicts else ():
        if all(key in category and _is_plain(category[key]) for category in dicts):
            labels = labels_by(lambda category, key=key: category[key])  # type: ignore[misc]
            if _are_labels(labels):
                return False, labels
    return False, [str(index) for index in range(len(categories))]


def _are_labels(labels: Sequence[Any]) -> bool:
    texts = {str(label) for label in labels}
    distinct = len(texts) == len(set(labels)) == len(labels)
    return distinct and not any(SEPARATOR in text for text in texts)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _is_dict(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value) and not _is_special(value)


def example_of_domain(constants: Mapping[str, Any]) -> str:
    """Return a domain to write in place of the first list of constants, for a message."""
    for path, value in constants.items():
        if isinstance(value, list | tuple) and value and not has_placeholder(value):
            is_interval = len(value) == 2 and all(
                isinstance(end, int | float) and not isinstance(end, bool) for end in value
            )
            if is_interval and value[0] < value[1]:
                return f"such as tune.uniform({value[0]!r}, {value[1]!r}) for {path!r}"
            return f"such as tune.choice({list(value)!r}) for {path!r}"
    return "such as tune.uniform(0, 1)"


def _leaves(argument: str, space: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in space.items():
        if not isinstance(key, str):
            raise TypeError(errors.rule_message(f"a name in {argument}", "a string", key))
        if SEPARATOR in key:
            rule = f"without {SEPARATOR!r}: write nested dicts instead"
            raise ValueError(errors.rule_message(f"a name in {argument}", rule, key))
        path = prefix + key
        if _is_dict(value):
            yield from _leaves(argument, value, path + SEPARATOR)
        else:
            yield path, value


def _is_special(value: Any) -> bool:
    return isinstance(value, Mapping) and tuple(value) in {("grid_search",), ("eval",)}


def _check_domain(place: str, domain: Domain) -> None:
    """Refuse a domain that Optuna cannot express.

    Raises:
        ValueError: It is one of those; the message has the remedy.
    """
    sampler = domain.get_sampler()
    is_quantized = isinstance(sampler, Quantized)
    inner = sampler.get_sampler() if is_quantized else sampler
    remedy = None
    if domain.is_grid():
        remedy = _GRID
    elif isinstance(domain, Function):
        remedy = "a function of the config cannot be modeled; compute it in the trainable"
    elif isinstance(inner, Normal):
        remedy = "a normal distribution has no bounds; use tune.uniform or tune.quniform"
    elif is_quantized and isinstance(inner, LogUniform):
        remedy = (
            "quantized values on a log scale would lose their quantization; use tune.loguniform "
            "or tune.lograndint and round in the trainable"
        )
    if remedy is not None:
        raise ValueError(f"{place} must be {_DOMAIN}: {remedy}.")


def _check_comparable(place: str, distribution: BaseDistribution) -> None:
    """Refuse choices of which Optuna cannot find out which one a value is.

    Raises:
        ValueError: They are arrays, for example.
    """
    choices = getattr(distribution, "choices", ())
    try:
        for choice in (one for one in choices if not isinstance(one, _PLAIN)):
            distribution.to_internal_repr(choice)
    except Exception as error:
        rule = "a choice of values that can be compared, such as array.tolist() for an array"
        raise ValueError(errors.rule_message(place, rule, choices)) from error


def _check_constant(place: str, value: Any) -> None:
    if isinstance(value, Mapping) and _is_special(value):
        expression = "an expression cannot be modeled; compute it in the trainable"
        remedy = {"grid_search": _GRID, "eval": expression}[next(iter(value))]
        raise ValueError(f"{place} must be {_DOMAIN} or a constant: {remedy}.")
    if _has_domain(value):
        raise ValueError(
            f"{place} must not hold a domain, as it is a list: use a dict instead, whose keys name "
            "the entries."
        )


def _has_domain(value: Any) -> bool:
    """Return whether a domain or distribution is anywhere within ``value``."""
    if isinstance(value, Domain | BaseDistribution) or _is_special(value):
        return True
    if isinstance(value, Mapping):
        return any(map(_has_domain, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_domain, value))


def are_equal(one: Any, other: Any) -> bool:
    """Return whether values are equal, as some of Ray's searches return them: lists as tuples."""
    try:
        return bool(_with_tuples(one) == _with_tuples(other))
    except ValueError:  # arrays
        return False


def _with_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_tuples(inner) for key, inner in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list | tuple) else value


def has_placeholder(value: Any) -> bool:
    """Return whether anything within ``value`` stands for what a tuner puts in its place later."""
    if isinstance(value, Mapping):
        return any(map(has_placeholder, value.values()))
    if not isinstance(value, list | tuple):
        return False
    is_one = len(value) == 2 and isinstance(value[0], str) and value[0] in _PLACEHOLDERS
    return is_one or any(map(has_placeholder, value))


def flattened(config: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a nested config by path; a mapping under one of ``names`` stays whole."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if key not in names and isinstance(value, Mapping) and value:
            start = f"{key}{SEPARATOR}"
            inner = {name.removeprefix(start) for name in names if name.startswith(start)}
            flat |= {start + path: leaf for path, leaf in flattened(value, inner).items()}
        else:
            flat[key] = value
    return flat
