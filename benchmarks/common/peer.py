"""What samplers written here for comparison have in common: Optuna's interface around a model."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins.optuna.study.parameters import dimension_of
from bbo_plugins.space import Dimension

Floats: TypeAlias = NDArray[np.float64]
Points: TypeAlias = Sequence[Mapping[str, Any]]
Space: TypeAlias = Mapping[str, BaseDistribution]


class Peer(BaseSampler):
    """A sampler for a study with one value: random until there are enough complete trials."""

    def __init__(self, *, seed: int, n_startup_trials: int = 10) -> None:
        """Remember the seed; what a peer needs is imported at its first suggestion."""
        self._seed = seed
        self._n_startup_trials = n_startup_trials
        self._random = RandomSampler(seed=seed)
        self._search_space = IntersectionSearchSpace()

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that every finished trial has and that can vary."""
        del trial
        space = self._search_space.calculate(study)
        return {name: dist for name, dist in space.items() if not dist.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return what the peer suggests from all complete trials."""
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if not search_space or len(trials) < self._n_startup_trials:
            return {}
        sign = 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0
        y = np.array([sign * float(each.value or 0.0) for each in trials])
        return self.suggest(y, [each.params for each in trials], trial.number, search_space)

    def suggest(self, y: Floats, points: Points, number: int, space: Space) -> dict[str, Any]:
        """Return the parameters of a trial.

        Args:
            y: Values of the complete trials, to be maximized, shape (n,).
            points: Their parameters.
            number: The trial's number.
            space: The parameters to suggest.
        """
        raise NotImplementedError

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw a random value for a parameter that the model does not cover."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)


def limits(distribution: BaseDistribution) -> tuple[Any, Any, bool]:
    """Return both ends and whether the scale is logarithmic.

    Of a category and of a number with a step it is the position that counts, from 0 on, an integer.
    """
    at = dimension_of(distribution)
    return (0, (at.n_levels or 1) - 1, False) if _is_counted(at) else (at.low, at.high, at.log)


def to_positions(space: Space, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with positions in place of categories and of numbers with a step."""
    told = {}
    for name, value in params.items():
        at = dimension_of(space[name])
        told[name] = int(at.level_of(at.encode([value]))[0]) if _is_counted(at) else value
    return told


def from_positions(space: Space, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that ``to_positions`` maps to these values, within their limits."""
    params = {}
    for name, value in values.items():
        at = dimension_of(space[name])
        if _is_counted(at):
            params[name] = at.decode(float(at.position_of(round(float(value)))))
        else:
            within = min(max(value, at.low), at.high)
            params[name] = round(within) if at.kind == "int" else float(within)
    return params


def _is_counted(at: Dimension) -> bool:
    """Tell whether a parameter is told by its position."""
    return at.is_categorical or at.step not in {None, 1} or (at.kind == "float" and at.step == 1)
