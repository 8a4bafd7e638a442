"""Saving the search algorithm of a Ray experiment, and restoring it after a crash.

When a driver is killed, three records of the same trials stay behind, of three different moments:

- the study in its storage is as new as the crash;
- the state of the search and the state of Tune's trials are those of some earlier snapshots. Tune
  writes one after the other and copies them while it goes on, so either may be the older one.

A restore settles the differences. Nobody else can finish an Optuna trial
that this search has created (each names its owner from the moment it exists), so one that is not
under way in Tune is recorded as failed rather than left RUNNING. Should Tune run it again after
all, it gets another Optuna trial with its first result. Trials of other owners are never touched.

The study lists the trials that nobody finishes, and those that Tune does not know at all: their
steps are in no budget (:mod:`bbo_plugins.ray.tune.recording`).

One gap remains: a trial that somebody else has enqueued changes hands in two writes, so a kill
between the two leaves it RUNNING without an owner.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState
from ray import cloudpickle
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial as RayTrial
from ray.tune.search import Repeater, SearchGenerator
from ray.tune.utils.util import _load_newest_checkpoint, flatten_dict

from bbo_plugins.optuna.study.continuations import continued_from
from bbo_plugins.optuna.study.storage import FIXED_PARAMS, as_stored
from bbo_plugins.ray.tune.conversions import finite_or_none
from bbo_plugins.ray.tune.recording import NOT_COUNTED, RecordingSearch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.storages import BaseStorage

_logger = logging.getLogger(__name__)


class RestoringSearch(RecordingSearch):
    """The part of :class:`~bbo_plugins.ray.BBOSearch` that saves and restores it."""

    # What is used of OptunaSearch beside its public methods; a test pins each.
    _storage: BaseStorage | None

    def __init__(self, **arguments: Any) -> None:
        """Start without any trial."""
        self._points: list[dict[str, Any]] = []  # by path, to be run before anything is suggested
        super().__init__(**arguments)

    def save(self, checkpoint_path: str) -> None:
        """Write the state, a function that is defined within another one included."""
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(self.__dict__))

    def restore(self, checkpoint_path: str) -> None:
        """Read the state back, whatever this object was before.

        With a storage, trials that were begun after the state was written are not in it. Those that
        have not ended are recorded as failed.
        """
        super().restore(checkpoint_path)
        if self._ot_study is None or self._storage is None:
            return
        for trial_id, trial in dict(self._own_trials()).items():  # the newest of each
            known = self._ot_trials.get(trial_id)
            if known is None or known.number != trial.number:
                self._ot_trials[trial_id] = trial
                if not trial.state.is_finished():
                    self._give_up(trial_id)
            if trial.state.is_finished():
                self._open.discard(trial_id)

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Read the state back from the folder of an experiment.

        Trials that are running in it but not in the experiment, as the state is of a later moment
        than that of the experiment or of an earlier one, end as they have in the experiment; as
        failed if it does not know them.
        """
        super().restore_from_dir(checkpoint_dir)
        trials = saved_trials(Path(checkpoint_dir))
        if self._ot_study is None or trials is None:
            return
        repeats = _repeats(checkpoint_dir) if self._open else {}
        for trial_id in sorted(self._open):
            if trial_id in repeats and trial_id in trials:
                self._settle_repeats(trial_id, repeats[trial_id], trials)
            else:
                self._settle(trial_id, trials.get(trial_id))
        forgotten = [trial.number for name, trial in self._own_trials() if name not in trials]
        if forgotten:
            self._leave_out(forgotten)
            _logger.info(
                "BBOSearch: Tune does not know %d of the study's trials any more; no budget of "
                "steps counts those that the study's user attribute %r lists.",
                len(forgotten),
                NOT_COUNTED + self._owner,
            )

    def _settle(self, trial_id: str, trial: RayTrial | None) -> None:
        """End an open trial as it has in the experiment."""
        if trial is None:
            self._give_up(trial_id)
            fixed = as_stored(self._ot_study, self._ot_trials[trial_id]).system_attrs.get(
                FIXED_PARAMS
            )
            if fixed is not None:  # Tune will ask for it once more
                self._points.insert(0, fixed)
        elif trial.status == RayTrial.PAUSED:
            # One that waits may not be continued for long, and must not take a place meanwhile.
            if continued_from(as_stored(self._ot_study, self._ot_trials[trial_id])) is not None:
                self._give_up(trial_id)
        elif trial.status == RayTrial.ERROR:
            self.on_trial_complete(trial_id, error=True)
        elif trial.status == RayTrial.TERMINATED:
            self.on_trial_complete(trial_id, flatten_dict(trial.last_result))

    def _settle_repeats(self, trial_id: str, group: Any, trials: Mapping[str, RayTrial]) -> None:
        """End an open trial with the average of its repeats, unless a ``Repeater`` will.

        The ``Repeater`` will if each repeat that it waits for is under way in the experiment.
        """
        awaited = [trials.get(name) for name, score in group._trials.items() if score is None]
        lost = [trial for trial in awaited if trial is None or trial.is_finished()]
        if not lost and not group.finished_reporting():
            return
        ended = [trial for trial in lost if trial and trial.status == RayTrial.TERMINATED]
        last = [flatten_dict(trial.last_result).get(self._metric) for trial in ended]
        scores = [one for one in map(finite_or_none, [*group.scores(), *last]) if one is not None]
        if scores:
            self.on_trial_complete(trial_id, {self._metric: fmean(scores)})
        else:
            self._give_up(trial_id)

    def leave_experiment(self) -> None:
        """Give up the trials of an experiment with which nobody goes on."""
        for trial_id in sorted(self._open):
            self._give_up(trial_id)
        self._latest, self._longest = {}, 0
        if self._ot_study is not None:  # there is one if this object was in another experiment
            self._first_number = len(self._ot_study.get_trials(deepcopy=False))

    def _give_up(self, trial_id: str) -> None:
        """Record a trial that nobody will finish as failed, unless Tune runs it again."""
        trial = self._ot_trials[trial_id]
        if not as_stored(self._ot_study, trial).state.is_finished():
            self._tell(trial_id, trial, None, TrialState.FAIL)
        self._leave_out([trial.number])
        self._open.discard(trial_id)
        self._errored.add(trial_id)


def _repeats(folder: str) -> dict[str, Any]:
    """Return the groups of trials that a ``Repeater`` averages, by the one that a search knows."""
    state = _load_newest_checkpoint(folder, SearchGenerator.CKPT_FILE_TMPL.format("*")) or {}
    groups = state.get(f"name:{Repeater.__name__}", {}).get("_groups", ())
    return {group.primary_trial_id: group for group in groups}


def saved_trials(folder: Path) -> Mapping[str, RayTrial] | None:
    """Return the trials of the experiment whose state is in a folder, by name; None without one.

    They are the same that Tune restores, read in the same way.
    """
    states = folder.glob(TuneController.CKPT_FILE_TMPL.format("*"))
    newest = max(states, default=None, key=lambda path: path.name)
    if newest is None:
        return None
    trials = {}
    for state, metadata in json.loads(newest.read_bytes())["trial_data"]:
        trial = RayTrial.from_json_state(state, stub=True)
        trial.restore_run_metadata(metadata)
        trials[trial.trial_id] = trial
    return trials
