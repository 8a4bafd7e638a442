"""SMAC3 behind Optuna's sampler interface: random forests on a ConfigSpace, conditional or not.

SMAC has to be told beforehand which parameter exists where. Without a fixed space its ConfigSpace
is made from random trials of the problem, which cost it nothing; thresholds are those between which
no such trial lies.
Its hyperparameter-optimization facade has its defaults, but for its initial design: as all entrants
it begins with the start-up points of the benchmark.
"""

import functools
import importlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins.optuna.study.parameters import ParameterLearner, Parameters, dimension_of
from bbo_plugins.space import Condition, Split
from benchmarks.common.peer import Peer, from_positions, limits, to_positions
from benchmarks.problems.problem import ObjectiveProblem, Problem, StudyProblem

_N_RANDOM = 400
# Two parameters with one condition on two parents at once: the learner takes them for each other's.
_ON_AND_LARGE = Split("use", (0.5,), (Split("size", (0.5,), (False, True, False)), False, False))
_BY_HAND = {"threshold_and_switch": {"share": _ON_AND_LARGE, "order": _ON_AND_LARGE}}


class SMACSampler(Peer):
    """SMAC3 for one study of a problem, from its first trial on, which is to be minimized."""

    def __init__(self, *, seed: int, n_startup_trials: int, problem: StudyProblem) -> None:
        """Remember what SMAC is made of; it is at the first suggestion."""
        super().__init__(seed=seed, n_startup_trials=n_startup_trials)
        self._parameters = parameters_of(problem)
        self._folder = tempfile.TemporaryDirectory()
        self._smac: Any = None
        self._asked: dict[int, Any] = {}
        self._n_told = 0

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that some random trial has."""
        del study, trial
        return dict(self._parameters.distributions)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return what SMAC asks for, once the start-up points are known."""
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(trials) < self._n_startup_trials:
            return {}
        if self._smac is None:
            self._smac = self._made(trials)
        for told in trials[self._n_told :]:
            self._tell(told)
        self._n_told = len(trials)
        info = self._smac.ask()
        self._asked[trial.number] = info
        return from_positions(search_space, dict(info.config))

    def _made(self, trials: list[FrozenTrial]) -> Any:
        smac = importlib.import_module("smac")
        self._space = config_space(self._parameters, self._seed)
        scenario = smac.Scenario(
            self._space,
            output_directory=self._folder.name,
            deterministic=True,
            n_trials=100_000,
            seed=self._seed,
        )
        facade = smac.HyperparameterOptimizationFacade
        first = [self._configuration(trial) for trial in trials]
        return facade(
            scenario,
            lambda config, seed: 0.0,  # noqa: ARG005 - it is asked, and calls nothing
            initial_design=facade.get_initial_design(
                scenario, n_configs=0, additional_configs=first
            ),
            logging_level=False,
            overwrite=True,
        )

    def _tell(self, trial: FrozenTrial) -> None:
        runhistory = importlib.import_module("smac.runhistory")
        info = self._asked.pop(trial.number, None)
        if info is None:
            info = runhistory.TrialInfo(self._configuration(trial), seed=0)
        self._smac.tell(info, runhistory.TrialValue(cost=trial.values[0]), save=False)

    def _configuration(self, trial: FrozenTrial) -> Any:
        """Return a trial's configuration; at a threshold the space may differ from it."""
        util = importlib.import_module("ConfigSpace.util")
        values = {name: self._space[name].default_value for name in self._space}
        values |= to_positions(self._parameters.distributions, trial.params)
        return util.deactivate_inactive_hyperparameters(values, self._space)


def parameters_of(problem: StudyProblem) -> Parameters:
    """Return the parameters of a problem with their conditions."""
    if isinstance(problem, Problem):
        return Parameters(dict(problem.space), {})
    return _learned(problem)


@functools.cache
def _learned(problem: ObjectiveProblem) -> Parameters:
    """Return what random trials say."""
    learner = ParameterLearner()
    for trial in problem.random_trials(_N_RANDOM, 2):
        learner.add(trial)
    learned = learner.parameters()
    conditions = {**learned.conditions, **_BY_HAND.get(problem.name, {})}
    return Parameters(learned.distributions, conditions)


def config_space(parameters: Parameters, seed: int) -> Any:
    """Return the ConfigSpace with these parameters and conditions."""
    library = importlib.import_module("ConfigSpace")
    space = library.ConfigurationSpace(seed=seed)
    space.add([_hyperparameter(*item) for item in parameters.distributions.items()])
    for name, condition in parameters.conditions.items():
        clauses = list(_clauses(name, condition, space, parameters))
        if clauses:
            space.add(clauses[0] if len(clauses) == 1 else library.OrConjunction(*clauses))
    return space


def _hyperparameter(name: str, distribution: BaseDistribution) -> Any:
    library = importlib.import_module("ConfigSpace")
    low, high, log = limits(distribution)
    if isinstance(distribution, CategoricalDistribution):
        return library.CategoricalHyperparameter(name, list(range(high + 1)))
    whole = isinstance(distribution, IntDistribution) or isinstance(high, int)
    kind = library.UniformIntegerHyperparameter if whole else library.UniformFloatHyperparameter
    return kind(name, low, high, log=log)


def _clauses(name: str, condition: Condition, space: Any, parameters: Parameters) -> Iterator[Any]:
    """Yield the conditions of ConfigSpace, one of which has to hold; none if there is no rule."""
    if not isinstance(condition, Split):
        return
    if not condition.cuts:  # it is where its parent is
        inherited = parameters.conditions.get(condition.parent, True)
        yield from _clauses(name, inherited, space, parameters)
        return
    library = importlib.import_module("ConfigSpace")
    child, parent = space[name], space[condition.parent]
    space_of_parent = {condition.parent: parameters.distributions[condition.parent]}
    dimension = dimension_of(space_of_parent[condition.parent])

    def position(u: float) -> Any:
        return to_positions(space_of_parent, {condition.parent: dimension.decode(u)})[
            condition.parent
        ]

    cells = condition.cells[:-1]
    if dimension.n_levels == len(cells):
        levels = [position(u) for u in dimension.position_of(np.arange(len(cells)))]
        tests = [library.InCondition(child, parent, [level]) for level in levels]
        whole = [level for level, cell in zip(levels, cells, strict=True) if cell is True]
        if whole:
            yield library.InCondition(child, parent, whole)
    else:
        value = position(condition.cuts[0])
        tests = [
            library.LessThanCondition(child, parent, value),
            library.GreaterThanCondition(child, parent, value),
        ]
        yield from (test for test, cell in zip(tests, cells, strict=True) if cell is True)
    for test, cell in zip(tests, cells, strict=True):
        for inner in _clauses(name, cell, space, parameters):
            yield library.AndConjunction(test, inner)
