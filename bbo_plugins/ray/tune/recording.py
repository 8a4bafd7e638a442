"""The trials of a Ray experiment as trials of an Optuna study.

====================================  ============================================================
Ray trial                             Optuna trial
====================================  ============================================================
completed with finite values          COMPLETE; the other reported numbers are user attributes
ended with NaN or ±infinity           FAIL, never left RUNNING, also if a scheduler stopped it
completed without the metric          PRUNED, with the last value it reported; without any, or with
                                      several objectives, samplers take it for one that failed
removed before it ran                 PRUNED, and samplers take it for nothing
stopped before its horizon            PRUNED, if :class:`InnerHorizonScheduler` said so
stopped by another scheduler          PRUNED: a better one had gone on after the same iteration
ended by Ray while it was paused      the same, with the last result that it has reported; PRUNED
                                      if another trial had been trained twice as long by then
failed for good                       FAIL; one of several repeats that have an average, COMPLETE
failed, and restarted after that      another Optuna trial with the same parameters
completed, and continued after that   another one, which names the trial it continues
lost with a driver that was killed    FAIL, and another one if Tune runs it again after all
====================================  ============================================================

Results never raise: those of an unknown trial, and late ones, change nothing.

Several Optuna trials may stand for the same steps of one Ray trial, and the study may have trials
that Tune has forgotten. A horizon's budget counts what Tune knows, once. The others are listed in a
user attribute of the study, as attributes of a trial that has ended cannot be changed.
"""

from __future__ import annotations

import logging
import math
import numbers
import uuid
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial, Trial, TrialState, create_trial
from ray.tune.result import DEFAULT_METRIC, TRAINING_ITERATION
from ray.tune.search.optuna import OptunaSearch

from bbo_plugins import errors
from bbo_plugins.optuna.study.continuations import (
    CONTINUED_FROM,
    STEPS,
    STEPS_MADE,
    continued_from,
    steps_of,
    steps_taken,
)
from bbo_plugins.optuna.study.storage import (
    GRID_KEYS,
    as_stored,
    begin_trial,
    set_intermediate_value,
    tell,
)
from bbo_plugins.optuna.study.trials import Once, mark_never_ran, signs_of
from bbo_plugins.ray.tune.conversions import CONFIG_PREFIX, finite_or_none, listed, reported
from bbo_plugins.ray.tune.spaces import are_equal, flattened, has_placeholder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bbo_plugins.ray.tune.spaces import Tree

_logger = logging.getLogger(__name__)

OWNER_KEY = "bbo_plugins:ray"  # system attribute: whose trial it is, and of which Ray trial
# User attribute of the study, followed by the owner: numbers of its trials that no budget counts.
NOT_COUNTED = "bbo_plugins:not_counted:"


def owner_of(trial: FrozenTrial) -> tuple[str | None, str]:
    """Return the owner of a trial and the name of its Ray trial; None and "" if there is none."""
    match trial.system_attrs.get(OWNER_KEY):
        case [str(owner), str(trial_id)]:
            return owner, trial_id
    return None, ""


class RecordingSearch(OptunaSearch):  # type: ignore[misc,unused-ignore] # Any without Ray
    """The half of :class:`~bbo_plugins.ray.BBOSearch` that records results."""

    # What is used of OptunaSearch beside its public methods; a test pins each.
    _metric: Any  # name of the result, or names in a list, None before it is known
    _ot_study: Any  # an optuna.Study, None before it is set up
    _ot_trials: dict[str, Trial | FrozenTrial]  # by Ray's name; the latter have ended

    def __init__(self, **arguments: Any) -> None:
        """Start without any trial."""
        self._once = Once()
        self._tree: Tree | None = None  # the search space, None if it is a function
        # Whose trials these are: the same after a restore, another one in another search.
        self._owner = uuid.uuid4().hex
        self._open: set[str] = set()  # Ray's trials whose Optuna trial is running
        self._errored: set[str] = set()  # those that failed, and that Ray may run again
        self._stopped_early: set[str] = set()  # those whose completion is still to come
        self._completed_at: dict[str, int] = {}  # the iteration at which those that completed did
        self._latest: dict[str, dict[str, Any]] = {}  # the last result of those that are open
        self._longest = 0  # the largest iteration that any trial has reported
        self._first_number = 0  # trials with lower numbers are of an experiment before this one
        super().__init__(**arguments)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Record an intermediate result; one without a finite value is passed over."""
        trial = self._open_trial(trial_id, result)
        # Tune passes on the result with which a trial has just completed once more, and by then it
        # may be another Optuna trial, which continues the one that the result belongs to.
        is_echo = self._completed_at.get(trial_id) == result.get(TRAINING_ITERATION, math.nan)
        if trial is not None and not is_echo:
            self._keep(trial_id, result)
            self._report(trial, result)

    def on_trial_complete(
        self,
        trial_id: str,
        result: dict[str, Any] | None = None,
        error: bool = False,  # noqa: FBT001, FBT002 - Ray's signature
    ) -> None:
        """Record the end of a trial, once, by the table of the module.

        Raises:
            ValueError: Nobody has named the metric, and the trial has reported something else than
                Ray's own. Ray fails it then, and goes on with the others.
        """
        trial = self._open_trial(trial_id, result)
        was_stopped = trial_id in self._stopped_early
        if result:
            self._keep(trial_id, result)
        latest = self._latest.pop(trial_id, None)
        self._stopped_early.discard(trial_id)
        self._open.discard(trial_id)
        if trial is None:
            return
        self._check_metric(trial_id, trial, {} if error else result or {})
        if not result and not error:
            result, was_dropped = self._ended_without_result(trial, latest)
        else:
            was_dropped = self._ended_where_a_better_one_went_on(trial, result or {})
        result = result or {}
        was_stopped = was_stopped or was_dropped
        metrics = listed(self._metric)
        found = [result.get(name) for name in metrics]
        values, state = [*map(finite_or_none, found)], TrialState.FAIL
        is_finite = None not in values
        # What comes with the error of a Repeater's last repeat is the average of the others.
        if error and not (is_finite and [*result] == metrics):
            self._errored.add(trial_id)
        elif any(one is None for one in found) or (was_stopped and is_finite):
            state = TrialState.PRUNED
            self._report(trial, result)
        elif is_finite:
            state = TrialState.COMPLETE
            self._completed_at[trial_id] = result.get(TRAINING_ITERATION, -1)
        elif self._once.first_time("value"):
            index = values.index(None)
            _logger.warning(
                "BBOSearch: trial %s ended with %s = %r, which is no finite number. Such trials "
                "count as failed.",
                trial_id,
                metrics[index],
                found[index],
            )
        for name, field in reported(result):
            if name not in metrics:
                trial.set_user_attr(name, field)
        self._tell(trial_id, trial, values if state is TrialState.COMPLETE else None, state)

    def _check_metric(
        self, trial_id: str, trial: Trial | FrozenTrial, result: Mapping[str, Any]
    ) -> None:
        """Refuse a result without the metric that Ray looks for where nobody has named one.

        A warning says so of one whose name a wrapper, such as a ``Repeater``, did not know.
        """
        is_named = any(name in result for name in listed(self._metric))
        if None in result and not is_named and self._once.first_time("unnamed"):
            _logger.warning(
                "BBOSearch: trial %s ended without its %r, as a wrapper such as Repeater does not "
                "know the metric: give metric and mode to BBOSearch.",
                trial_id,
                self._metric,
            )
        if self._metric != DEFAULT_METRIC or DEFAULT_METRIC in result or not any(reported(result)):
            return
        self._errored.add(trial_id)
        self._tell(trial_id, trial, None, TrialState.FAIL)
        rule = f"given to the tuner or to BBOSearch, as a result has no {DEFAULT_METRIC!r}"
        raise ValueError(errors.rule_message("metric", rule, None))

    def _tell(
        self, trial_id: str, trial: Trial | FrozenTrial, values: Any, state: TrialState
    ) -> None:
        """Store how a trial ended; an exception of the sampler does not fail Ray's trial."""
        failure = tell(self._ot_study, trial, values, state)
        if failure is not None and self._once.first_time("tell", type(failure)):
            _logger.warning(
                "BBOSearch: the sampler raised %r after trial %s, which counts all the same.",
                failure,
                trial_id,
                exc_info=failure,
            )

    def _ended_without_result(
        self, trial: Trial | FrozenTrial, latest: dict[str, Any] | None
    ) -> tuple[dict[str, Any] | None, bool]:
        """Return the last result of a trial that was paused, and whether a scheduler dropped it.

        Ray ends a trial that is paused without its result, and does not say why. HyperBand does so
        with those that have had all their training, and with those that it drops at half of it or
        earlier. Iterations need not be equal: its measure may be another one. One that has reported
        nothing was removed before it ran.
        """
        if latest is None:
            mark_never_ran(self._ot_study, trial)
            return None, False
        return latest, 2 * latest.get(TRAINING_ITERATION, 0) <= self._longest

    def _ended_where_a_better_one_went_on(self, trial: Trial, result: Mapping[str, Any]) -> bool:
        """Return whether a scheduler must have ended a running trial, which Ray does not say.

        Ray passes on an intermediate result unless it ends the trial there. So one that ended by
        itself has its last result already, and a limit of iterations, or a value that is good
        enough, would have ended the better one as well. A criterion of the trial's own cannot be
        told from a scheduler. ASHA and median stopping compare trials at the same iteration. A
        trial with a horizon has a scheduler that tells.
        """
        if isinstance(self._metric, list):  # no intermediate values are kept
            return False
        value, iteration = finite_or_none(result.get(self._metric)), result.get(TRAINING_ITERATION)
        own = as_stored(self._ot_study, trial)
        if value is None or not isinstance(iteration, numbers.Integral) or STEPS in own.user_attrs:
            return False
        step = int(iteration)
        (sign,) = signs_of(self._ot_study)
        if step in own.intermediate_values:
            return False
        for trial_id, other in self._own_trials():
            if other.number < self._first_number:
                continue
            reports = other.intermediate_values
            went_on = max([*reports, self._completed_at.get(trial_id, 0)], default=0) > step
            if went_on and step in reports and sign * reports[step] > sign * value:
                return True
        return False

    def on_trial_stopped_early(self, trial_id: str) -> None:
        """Expect the completion of a trial that was stopped for being bad before its horizon."""
        self._stopped_early.add(trial_id)

    def on_trial_continued(self, trial_id: str) -> None:
        """Expect more results of a trial that has been completed: it is trained further.

        The results belong to another Optuna trial, which has the same parameters and says which
        trial it continues. The sampler uses the longest-trained value of such a chain.
        """
        trial = self._ot_trials.get(trial_id)
        if trial is None:
            return
        if trial_id in self._errored:  # a continuation that was lost with its driver
            self._begin_again(trial_id, trial_id)
        elif as_stored(self._ot_study, trial).state is TrialState.COMPLETE:
            self._begin(trial_id, trial, continued_from=trial.number)

    def on_trial_horizon(self, trial_id: str, start: int, stop: int) -> None:
        """Take note of which steps a trial is to make, which a sampler with a horizon reads."""
        self._set_attr(trial_id, STEPS, [start, stop])
        self._leave_out(self._unknown_to_tune(trial_id, start, stop))

    def on_trial_steps_made(self, trial_id: str, n_steps: int) -> None:
        """Take note of the steps behind a trial that has ended or failed, of which the last counts.

        Intermediate values do not say so: they are recorded by Ray's training iteration.
        """
        self._set_attr(trial_id, STEPS_MADE, n_steps)

    def _set_attr(self, trial_id: str, key: str, value: Any) -> None:
        """Set a user attribute of a trial unless it has ended."""
        trial = self._ot_trials.get(trial_id)
        if isinstance(trial, Trial) and not as_stored(self._ot_study, trial).state.is_finished():
            trial.set_user_attr(key, value)

    def _open_trial(self, trial_id: str, result: Mapping[str, Any] | None) -> Trial | None:
        """Return the unfinished Optuna trial that results are to be recorded in, if any."""
        trial = self._ot_trials.get(trial_id)
        if trial is None:
            return self._restarted(trial_id, result or {})
        if isinstance(trial, Trial) and not as_stored(self._ot_study, trial).state.is_finished():
            return trial
        if trial_id not in self._errored or not result:
            return None
        return self._begin_again(trial_id, trial_id)  # Ray resumes it

    def _restarted(self, trial_id: str, result: Mapping[str, Any]) -> Trial | None:
        """Return a new Optuna trial for one that failed and is restarted under another name.

        Trials that differ in nothing but what Ray hides cannot be told apart, and none is taken.
        """
        fitting = [one for one in sorted(self._errored) if self._may_be(one, result)]
        params = [self._ot_trials[one].params for one in fitting]
        if params and params.count(params[0]) == len(params):
            return self._begin_again(trial_id, fitting[0])
        if result and self._once.first_time("unknown", trial_id):
            _logger.warning(
                "BBOSearch passes over the results of trial %s: %s.",
                trial_id,
                "it may be one of several that failed, which differ in what Ray hides only"
                if fitting
                else "it has not suggested it",
            )
        return None

    def _may_be(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Return whether a result is of the config of a trial, as far as Ray does not hide it."""
        config = self._config_of(self._ot_trials[trial_id])
        return bool(config) and all(
            CONFIG_PREFIX + path in result
            and (has_placeholder(value) or are_equal(result[CONFIG_PREFIX + path], value))
            for path, value in config.items()
        )

    def _config_of(self, trial: Trial | FrozenTrial) -> dict[str, Any]:
        """Return a trial's parameters by their path in the config; empty if some are missing."""
        params = trial.params
        if self._tree is None:
            return params
        try:
            return flattened(self._tree.values_by(lambda name, _: params[name]), ())
        except KeyError:
            return {}

    def _begin_again(self, trial_id: str, failed_id: str) -> Trial:
        """Return a new running Optuna trial that takes the place of one that failed."""
        failed = self._ot_trials[failed_id]
        self._errored.remove(failed_id)
        self._leave_out([failed.number])
        return self._begin(trial_id, failed)

    def _begin(
        self, trial_id: str, like: Trial | FrozenTrial, *, continued_from: int | None = None
    ) -> Trial:
        """Return a new running Optuna trial with the parameters of another one."""
        kept = (CONTINUED_FROM, STEPS) if continued_from is None else ()
        attributes = {key: like.user_attrs[key] for key in kept if key in like.user_attrs}
        if continued_from is not None:
            attributes[CONTINUED_FROM] = continued_from
        known = as_stored(self._ot_study, like).system_attrs
        return self._create(
            trial_id,
            params=like.params,
            distributions=like.distributions,
            user_attrs=attributes,
            # GridSampler would take another point for one that has been tried with this trial.
            system_attrs={key: known[key] for key in GRID_KEYS if key in known},
        )

    def _create(self, trial_id: str, **fields: Any) -> Trial:
        """Return a new running Optuna trial, which the storage never sees without its owner."""
        attributes = {**fields.pop("system_attrs", {}), OWNER_KEY: [self._owner, trial_id]}
        template = create_trial(state=TrialState.RUNNING, system_attrs=attributes, **fields)
        return self._take(trial_id, begin_trial(self._ot_study, template))

    def _take(self, trial_id: str, trial: Trial) -> Trial:
        """Return a running Optuna trial, which stands for Ray's trial from now on."""
        self._ot_trials[trial_id] = trial
        self._open.add(trial_id)
        return trial

    def _unknown_to_tune(self, trial_id: str, start: int, stop: int) -> Iterator[int]:
        """Yield the trials that a Ray trial has beyond the steps [start, stop) it is to make now.

        After a restore they may be what an earlier driver has recorded and Tune has not.
        """
        current = self._ot_trials.get(trial_id)
        if current is None or continued_from(current) is None:
            return
        trials = self._ot_study.get_trials(deepcopy=False)
        number: int | None = current.number
        is_running = not trials[current.number].state.is_finished()
        while number is not None:
            trial, steps = trials[number], steps_of(trials[number])
            is_earlier = is_running and number != current.number
            if steps is not None and (
                steps.start >= stop or (is_earlier and steps.start + steps_taken(trial) > start)
            ):
                yield number
            number = continued_from(trial)

    def _own_trials(self) -> Iterator[tuple[str, FrozenTrial]]:
        """Yield the trials of the study that this search has created, by Ray's names."""
        for trial in self._ot_study.get_trials(deepcopy=False):
            owner, trial_id = owner_of(trial)
            if owner == self._owner:
                yield trial_id, trial

    def _leave_out(self, trial_numbers: Iterable[int]) -> None:
        """List trials whose steps Tune counts in another trial, or not at all."""
        added, key = set(trial_numbers), NOT_COUNTED + self._owner
        if added:
            stored = self._ot_study.user_attrs.get(key)
            known = stored if isinstance(stored, list) else []
            added.update(number for number in known if isinstance(number, int))
            self._ot_study.set_user_attr(key, sorted(added))

    def _keep(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Keep a result, which may be a trial's last, and the length of the longest training."""
        kept = dict(reported(result))
        for name in (*listed(self._metric), TRAINING_ITERATION):
            if name in result:
                kept[name] = result[name]
        self._latest[trial_id] = kept
        iteration = result.get(TRAINING_ITERATION)
        if isinstance(iteration, numbers.Integral):
            self._longest = max(self._longest, int(iteration))

    def _report(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """Record an intermediate value, which Optuna has with one objective only."""
        if isinstance(self._metric, list):
            return
        value, step = finite_or_none(result.get(self._metric)), result.get(TRAINING_ITERATION)
        if value is not None and isinstance(step, numbers.Integral):
            # Not by Trial.report, which would keep the first value of a step that is done again.
            set_intermediate_value(self._ot_study, trial, int(step), value)
