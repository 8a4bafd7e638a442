"""The steps that each trial of a Ray Tune experiment is to make, and has made.

Tune does not save schedulers, so the trials keep everything: N and the length of the steps are in a
trial's config and, as a restored config is made anew, in its evaluated parameters; the steps it has
made are in its last result. Beside them stand the functions by which a scheduler reads Tune's
controller and trials.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from ray.tune.result import SHOULD_CHECKPOINT
from ray.tune.schedulers import (
    FIFOScheduler,
    HyperBandForBOHB,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
    TrialScheduler,
)
from ray.tune.search import Repeater, Searcher
from ray.tune.trainable import FunctionTrainable, Trainable

from bbo_plugins import errors
from bbo_plugins.methods.inner_horizon.horizon import GrowingHorizon, InnerHorizon
from bbo_plugins.ray.tune.conversions import entry_of, finite_or_none
from bbo_plugins.ray.tune.recording import RecordingSearch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ray.tune.experiment import Trial


class ControllerView:
    """A controller as the base scheduler is to see it: without trials that are not its own.

    A trial that the base scheduler stops through it has not reached its horizon, and our search
    algorithm hears of it.
    """

    def __init__(self, tune_controller: Any, ids: Collection[str]) -> None:
        """Wrap a controller; ``ids`` are the trials that the base scheduler has."""
        self._controller = tune_controller
        self._ids = ids

    def __getattr__(self, name: str) -> Any:
        """Return whatever else the controller has."""
        return getattr(self._controller, name)

    def get_trials(self) -> list[Trial]:
        """Return the base scheduler's trials."""
        return [t for t in self._controller.get_trials() if t.trial_id in self._ids]

    def get_live_trials(self) -> set[Trial]:
        """Return those of them that have not ended."""
        return {t for t in self._controller.get_live_trials() if t.trial_id in self._ids}

    def stop_trial(self, trial: Trial) -> None:
        """Stop one of them."""
        tell_stopped_early(self._controller, trial)
        self._controller.stop_trial(trial)


def bbo_search(tune_controller: Any) -> RecordingSearch | None:
    """Return our own search algorithm, out of whatever it is wrapped in."""
    return next((s for s in _searchers(tune_controller) if isinstance(s, RecordingSearch)), None)


def check_is_not_repeated(tune_controller: Any) -> None:
    """Check that the search algorithm does not have each trial repeated, to get the average.

    Raises:
        ValueError: It does.
    """
    if any(isinstance(searcher, Repeater) for searcher in _searchers(tune_controller)):
        raise ValueError(
            "search_alg must be without a Repeater beside a horizon that grows, as it would "
            "average trainings of different lengths, but has one."
        )


def searcher_name(tune_controller: Any) -> str:
    """Return the class name of the search algorithm, out of whatever it is wrapped in."""
    return type([*_searchers(tune_controller)][-1]).__name__


def _searchers(tune_controller: Any) -> Iterator[Searcher]:
    """Yield the search algorithm, the outermost wrapper first."""
    searcher = getattr(getattr(tune_controller, "search_alg", None), "searcher", None)
    while isinstance(searcher, Searcher):
        yield searcher
        searcher = getattr(searcher, "searcher", None)


def tell_stopped_early(tune_controller: Any, trial: Trial) -> None:
    """Tell our search algorithm, if there is one, that a trial stops before its horizon."""
    search = bbo_search(tune_controller)
    if search is not None:
        search.on_trial_stopped_early(trial.trial_id)


def changes_configs(scheduler: TrialScheduler | None) -> bool:
    """Return whether a scheduler of Ray's changes the configs of trials that run."""
    pbt = PopulationBasedTraining | PopulationBasedTrainingReplay
    return isinstance(_unwrapped(scheduler), pbt)


def needs_tune_bohb(scheduler: TrialScheduler) -> bool:
    """Return whether a scheduler is the one of Ray's that needs a search algorithm of its own."""
    return isinstance(_unwrapped(scheduler), HyperBandForBOHB)


def can_be_saved(scheduler: TrialScheduler) -> bool:
    """Return whether a scheduler has a method ``save``, or nothing to be saved."""
    kind: Any = type(_unwrapped(scheduler))
    return kind is FIFOScheduler or kind.save is not TrialScheduler.save


def _unwrapped(scheduler: TrialScheduler | None) -> TrialScheduler | None:
    while isinstance(scheduler, ResourceChangingScheduler):
        scheduler = scheduler._base_scheduler
    return scheduler


def can_checkpoint(trial: Trial, result: Mapping[str, Any]) -> bool:
    """Return whether a trial can be paused at ``result`` and resumed from there."""
    trainable = trial.get_trainable_cls()
    if trainable is None or issubclass(trainable, FunctionTrainable):
        return bool(result.get(SHOULD_CHECKPOINT)) or has_checkpoint(trial)
    return trainable.save_checkpoint is not Trainable.save_checkpoint


def has_checkpoint(trial: Trial) -> bool:
    """Return whether a trial can be resumed from somewhere."""
    return trial.latest_checkpoint_result is not None


class TrialHorizons:
    """The horizons of all trials of one experiment.

    Args:
        horizon: The horizon; None to make it from ``kwargs`` and the number of trials.
        kwargs: Arguments of :class:`~bbo_plugins.InnerHorizon` then.
        time_attr: Name of the result that says how many steps have been made.
        config_key: Name of N in the config.
        step_size_key: Name of the steps' length in the config.
    """

    def __init__(
        self,
        horizon: InnerHorizon | None,
        kwargs: dict[str, Any],
        *,
        time_attr: str,
        config_key: str,
        step_size_key: str,
    ) -> None:
        """Start without any trial."""
        self.horizon = self._given = horizon
        self._kwargs = kwargs
        self._time_attr = time_attr
        self._config_key = config_key
        self._step_size_key = step_size_key
        self._continued_key = f"{config_key}_continued_from"
        self.trials: dict[str, Trial] = {}  # all that were added, by age as far as is known

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the trials, which Tune keeps and adds anew."""
        return {**self.__dict__, "trials": {}}

    def leave_experiment(self) -> None:
        """Forget the trials of an experiment before the next one, if there are any."""
        if self.trials:
            self.trials, self.horizon = {}, self._given

    @property
    def grow(self) -> bool:
        """Whether the horizon grows with the number of trials."""
        return isinstance(self.horizon, GrowingHorizon)

    def known(self, tune_controller: Any) -> InnerHorizon:
        """Return the horizon; make it first if it follows from the number of trials.

        Raises:
            ValueError: There is no horizon, and the number of trials is not known either.
        """
        if self.horizon is None:
            search_alg = getattr(tune_controller, "search_alg", None)
            n_outer = getattr(search_alg, "total_samples", None)
            if not isinstance(n_outer, int) or not 0 < n_outer < sys.maxsize:
                rule = "an InnerHorizon, or n_outer given, as Tune knows no number of trials"
                raise ValueError(errors.rule_message("horizon", rule, None))
            self.horizon = InnerHorizon(**{**self._kwargs, "n_outer": n_outer})
        return self.horizon

    def assign(self, tune_controller: Any, trial: Trial, n_before: int) -> None:
        """Write the horizon of a trial into its config, where ``n_before`` trials are older.

        Raises:
            TypeError: The config has a horizon that is not an integer.
            ValueError: It has one below 1, or there is no horizon.
        """
        given = trial.config.get(self._config_key, trial.evaluated_params.get(self._config_key))
        if given is not None:
            n = errors.check_int(f"config[{self._config_key!r}]", given, minimum=1)
        else:
            horizon = self.known(tune_controller)
            n = horizon.within_budget(horizon.steps(n_before), spent=self.spent())
        self._set_target(tune_controller, trial, max(n, 1))

    def extend(self, tune_controller: Any, trial: Trial, n: int, *, start: int) -> None:
        """Give a trial that has made ``start`` steps a larger horizon."""
        trial.evaluated_params = {**trial.evaluated_params, self._continued_key: start}
        self._set_target(tune_controller, trial, n)

    def _set_target(self, tune_controller: Any, trial: Trial, n: int) -> None:
        """Set N and the steps' length, unless that is the user's; end the search if N was last."""
        horizon = self.known(tune_controller)
        written: dict[str, Any] = {self._config_key: n}
        old_n = trial.config.get(self._config_key)
        old_size = trial.config.get(self._step_size_key)
        stored = trial.evaluated_params
        if old_size is None and self._config_key in stored and self._step_size_key in stored:
            written[self._step_size_key] = stored[self._step_size_key]  # of a restored config
        elif old_size is None or (old_n and old_size == horizon.step_size_for(old_n)):
            written[self._step_size_key] = horizon.step_size_for(n)
        trial.evaluated_params = {**stored, **written}
        trial.set_config({**trial.config, **written})
        self.end_if_spent(tune_controller)

    def are_spent(self, tune_controller: Any, just_done: Mapping[str, float] | None = None) -> bool:
        """Return whether no step is left; for ``just_done`` see :meth:`spent`."""
        return self.known(tune_controller).within_budget(1, spent=self.spent(just_done)) == 0

    def end_if_spent(
        self, tune_controller: Any, just_done: Mapping[str, float] | None = None
    ) -> None:
        """End the search if no step is left; for ``just_done`` see :meth:`spent`."""
        if self.are_spent(tune_controller, just_done):
            search_alg = getattr(tune_controller, "search_alg", None)
            if search_alg is not None:
                search_alg.set_finished()

    def is_continued(self, trial: Trial) -> bool:
        """Return whether a trial has had its horizon extended."""
        return self._continued_key in trial.evaluated_params

    def start(self, trial: Trial) -> int:
        """Return how many steps a trial had made when its horizon was set last."""
        return int(trial.evaluated_params.get(self._continued_key, 0))

    def target(self, trial: Trial) -> float:
        """Return N of a trial, infinite if it has none."""
        return float(trial.config.get(self._config_key, math.inf))

    def done(self, trial: Trial) -> float:
        """Return how many steps a trial has made as far as is known."""
        return finite_or_none(entry_of(trial.run_metadata.last_result, self._time_attr)) or 0.0

    def spent(self, just_done: Mapping[str, float] | None = None) -> int:
        """Return the steps that are made or given out.

        A trial that has ended has made those that it reported last; if it has reported none since
        its horizon was set, all of them, as nobody knows how far it got. One that has not ended
        counts with all of them, or with those it reported if it went beyond its horizon, as one
        that makes its steps in large chunks does.

        Args:
            just_done: Steps of trials whose result Tune still holds, by the trial's name.
        """
        done = {i: self.done(trial) for i, trial in self.trials.items()} | dict(just_done or {})
        return sum(
            int(self._spent_by(trial, done[i]))
            for i, trial in self.trials.items()
            if self._counts(trial)
        )

    def _counts(self, trial: Trial) -> bool:
        return self._config_key in trial.config or trial.is_finished()

    def _spent_by(self, trial: Trial, done: float) -> float:
        n = self.target(trial)
        has_reported = done > self.start(trial)
        is_known = math.isinf(n) or (trial.is_finished() and has_reported)
        return done if is_known else max(done, n)
