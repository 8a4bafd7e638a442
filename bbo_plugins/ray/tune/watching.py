"""What a stopper cannot learn from results: whether Tune has ended a trial.

The last result of a trial comes before its end, as Tune may have to save a checkpoint first. To
stop the experiment in between loses the checkpoint, and the search algorithm never hears of the
end. A trial that is silent may have been stopped, or be slow. A scheduler has the trials, and shows
them to our stopper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune.experiment import Trial
from ray.tune.stopper import CombinedStopper, Stopper

if TYPE_CHECKING:
    from collections.abc import KeysView


class WatchingStopper(Stopper):  # type: ignore[misc,unused-ignore] # Any without Ray
    """A stopper that sees the trials which a scheduler shows it."""

    def __init__(self) -> None:
        """Start without any trial."""
        self._watched: dict[str, Trial] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the trials, which Tune keeps and a scheduler shows anew."""
        return {**self.__dict__, "_watched": {}}

    def watch(self, trial: Trial) -> None:
        """Look at a trial's status from now on. A scheduler calls this."""
        self._watched[trial.trial_id] = trial

    @property
    def watched(self) -> KeysView[str]:
        """The trials that can be seen."""
        return self._watched.keys()

    def is_watched_and_goes_on(self, trial_id: str) -> bool:
        """Return whether a trial runs, saves its last checkpoint, or waits to be started."""
        trial = self._watched.get(trial_id)
        return trial is not None and trial.status in {Trial.PENDING, Trial.RUNNING}

    def is_watched_and_over(self, trial_id: str, *, if_waiting: bool) -> bool:
        """Return whether a trial has ended; ``if_waiting`` says whether one has that does not run.

        A trial that has made its steps waits until a horizon that grows continues it, and then for
        its turn.
        """
        trial = self._watched.get(trial_id)
        if trial is None or trial.status == Trial.RUNNING:
            return False
        return if_waiting or trial.status not in {Trial.PAUSED, Trial.PENDING}


def show_to_stoppers(tune_controller: Any, trial: Trial) -> None:
    """Let our stopper see a trial, if the experiment has one, alone or among others."""
    # Out of the wrapper that Tune gives to schedulers, which warns of all that it does not list.
    controller = getattr(tune_controller, "_tune_controller", tune_controller)
    stoppers = [getattr(controller, "_stopper", None)]
    while stoppers:
        stopper = stoppers.pop()
        if isinstance(stopper, WatchingStopper):
            stopper.watch(trial)
        elif isinstance(stopper, CombinedStopper):
            stoppers.extend(stopper._stoppers)
