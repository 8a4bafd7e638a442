"""What a scheduler reads off Tune's controller and trials."""

from __future__ import annotations

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
from ray.tune.search import Searcher
from ray.tune.trainable import FunctionTrainable, Trainable

from bbo_plugins.ray.search import BBOSearch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ray.tune.experiment import Trial


class ControllerView:
    """A controller as the base scheduler is to see it: without trials that are not its own.

    What the base scheduler stops through it has not reached its horizon, and our search algorithm
    is told so.
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
        search = bbo_search(self._controller)
        if search is not None:
            search.on_trial_stopped_early(trial.trial_id)
        self._controller.stop_trial(trial)


def bbo_search(tune_controller: Any) -> BBOSearch | None:
    """Return our own search algorithm, out of whatever it is wrapped in."""
    searcher = getattr(getattr(tune_controller, "search_alg", None), "searcher", None)
    while isinstance(searcher, Searcher) and not isinstance(searcher, BBOSearch):
        searcher = getattr(searcher, "searcher", None)
    return searcher if isinstance(searcher, BBOSearch) else None


def changes_configs(scheduler: TrialScheduler | None) -> bool:
    """Return whether a scheduler of Ray's changes the configs of trials that run."""
    pbt = PopulationBasedTraining | PopulationBasedTrainingReplay
    return isinstance(_unwrapped(scheduler), pbt)


def is_for_bohb(scheduler: TrialScheduler) -> bool:
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
