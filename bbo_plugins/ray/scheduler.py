"""Giving each trial of a Ray Tune experiment its number of training steps.

When a trial has made its N steps:

- The horizon is the same for all: the trial is stopped, as if it had ended by itself.
- The horizon grows: the trial is paused. Its value counts from now on, for the search algorithm
  too. If it is among the best when later trials have a larger N, its config gets that N and it goes
  on from its checkpoint; its new value replaces the old one, for our search algorithm too. When no
  trial is to come any more, those that are paused are stopped.

Up to N the trial is in the hands of the base scheduler, which may stop or pause it. After that the
base scheduler is told that the trial is complete and does not see it again: trials that wait for a
continuation are no competitors of those under way.

A trial that ends below N has not been trained as it should be. If it was a base scheduler or
:class:`~bbo_plugins.ray.RegretGapStopper` that stopped it, our search algorithm is told so.

Tune does not save schedulers, so each trial keeps its own state
(:mod:`bbo_plugins.ray.tune.horizons`); a waiting trial is paused and has made its N steps.
"""

from __future__ import annotations

import inspect
import logging
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import cloudpickle
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import SearchGenerator

from bbo_plugins import errors
from bbo_plugins.methods.inner_horizon.horizon import GrowingHorizon, InnerHorizon
from bbo_plugins.optuna.study.trials import Once
from bbo_plugins.ray.tune.conversions import (
    CONFIG_KEY,
    STOPPED_EARLY,
    TIME_ATTR,
    check_objective,
    finite_or_none,
    maximized,
)
from bbo_plugins.ray.tune.horizons import (
    ControllerView,
    TrialHorizons,
    bbo_search,
    can_be_saved,
    can_checkpoint,
    changes_configs,
    check_is_not_repeated,
    has_checkpoint,
    needs_tune_bohb,
    searcher_name,
    tell_stopped_early,
)
from bbo_plugins.ray.tune.watching import show_to_stoppers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bbo_plugins.ray.tune.recording import RecordingSearch

_logger = logging.getLogger(__name__)


class InnerHorizonScheduler(TrialScheduler):  # type: ignore[misc,unused-ignore]
    """Sets, for each trial, for how many SGD steps it is to be trained.

    Before a trial starts, ``config["inner_horizon"]`` is set to N, its number of steps, and
    ``config["step_size"]`` to the length of the steps that goes with it. The trainable makes N
    steps in all and reports how many it has made::

        def train(config):
            model, done = load_or_create(tune.get_checkpoint())
            while done < config["inner_horizon"]:
                done = train_a_chunk(model, config)
                tune.report({"loss": loss(model), "sgd_steps": done}, checkpoint=save(model, done))


        horizon = InnerHorizon.growing(total_steps=100_000)
        tuner = tune.Tuner(
            train,
            param_space=space,
            tune_config=tune.TuneConfig(
                search_alg=BBOSearch(),
                scheduler=InnerHorizonScheduler(horizon),
                metric="loss",
                mode="min",
                num_samples=-1,
                max_concurrent_trials=2,
            ),
        )

    A report takes 10 to 20 ms, so report in chunks of steps. A trial that goes on after it has
    reported N steps or more is stopped, or paused if the horizon grows. Pausing needs checkpoints:
    a function has to give one to ``tune.report`` together with the N-th step, a class has to have
    ``save_checkpoint``. Where there is none, trials are stopped at their horizon and never
    continued, and a warning says so once. Where the horizon grows, any search algorithm but
    :class:`~bbo_plugins.ray.BBOSearch` learns of each trial its first value only; a warning says so
    once, too.

    A horizon with ``total_steps`` ends the search when these are given out, so ``num_samples`` may
    be -1. A value that the config has for one of the two keys already is kept.

    Args:
        horizon: The horizon. None to make one from the other arguments and the tuner's
            ``num_samples``.
        time_attr: Name of the result that says how many steps have been made.
        config_key: Name of N in the config.
        step_size_key: Name of the steps' length in the config.
        base_scheduler: Another scheduler of Ray's that may stop or pause trials before their
            horizon: ASHA, HyperBand, median stopping, or ``ResourceChangingScheduler`` around
            one of them; also population based training (without a search algorithm, as Ray refuses
            any beside it) or its replay, neither with a growing horizon. Not ``HyperBandForBOHB``,
            which needs Ray's ``TuneBOHB``. None for none. Its ``max_t`` should not be below N.
        **inner_horizon_kwargs: Arguments of :class:`~bbo_plugins.InnerHorizon`, if ``horizon`` is
            None; ``n_outer`` is the tuner's ``num_samples`` unless it is given.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range, ``horizon`` is given together with
            arguments to make one, or it grows and the base scheduler is population based training.
            As soon as there is a trial: it grows, and the search algorithm is in a ``Repeater``,
            the metric or the mode is not known, or there are several.

    Example:
        .. code-block:: python

            from bbo_plugins.ray import BBOSearch, InnerHorizonScheduler
            from ray import tune


            def trainable(config):
                weight = 0.0
                for step in range(config["inner_horizon"]):
                    weight -= config["rate"] * (weight - 1.0)
                    tune.report({"loss": abs(weight - 1.0), "sgd_steps": step + 1})


            tuner = tune.Tuner(
                trainable,
                param_space={"rate": tune.loguniform(1e-2, 1.0)},
                tune_config=tune.TuneConfig(
                    search_alg=BBOSearch(seed=0),
                    scheduler=InnerHorizonScheduler(constant=2.0),
                    metric="loss",
                    mode="min",
                    num_samples=4,
                    max_concurrent_trials=2,
                ),
                run_config=tune.RunConfig(verbose=0),
            )
            print(tuner.fit().get_best_result().config)
    """

    def __init__(
        self,
        horizon: InnerHorizon | None = None,
        *,
        time_attr: str = TIME_ATTR,
        config_key: str = CONFIG_KEY,
        step_size_key: str = "step_size",
        base_scheduler: TrialScheduler | None = None,
        **inner_horizon_kwargs: Any,
    ) -> None:
        """Check and keep the arguments."""
        super().__init__()
        unknown = inner_horizon_kwargs.keys() - inspect.signature(InnerHorizon).parameters.keys()
        if unknown:
            rule = "keyword arguments of InnerHorizon (metric and mode belong to tune.TuneConfig)"
            raise TypeError(errors.rule_message("inner_horizon_kwargs", rule, sorted(unknown)))
        if horizon is not None:
            errors.check_instance("horizon", horizon, InnerHorizon, "an InnerHorizon")
            if inner_horizon_kwargs:
                rule = f"None with {', '.join(inner_horizon_kwargs)}"
                raise ValueError(errors.rule_message("horizon", rule, horizon))
        else:  # with the true number of trials once that is known
            InnerHorizon(**{"n_outer": 1, **inner_horizon_kwargs})
            if "n_outer" in inner_horizon_kwargs:
                horizon = InnerHorizon(**inner_horizon_kwargs)
        names = {"time_attr": time_attr, "config_key": config_key, "step_size_key": step_size_key}
        for argument, name in names.items():
            errors.check_instance(argument, name, str, "a name")
        if config_key == step_size_key:
            rule = f"another name than config_key={config_key!r}"
            raise ValueError(errors.rule_message("step_size_key", rule, step_size_key))
        if base_scheduler is not None:
            errors.check_instance("base_scheduler", base_scheduler, TrialScheduler, "a scheduler")
        self._horizons = TrialHorizons(horizon, inner_horizon_kwargs, **names)
        if self._horizons.grow and changes_configs(base_scheduler):
            rule = "None or another scheduler with a growing horizon, as configs must not change"
            raise ValueError(errors.rule_message("base_scheduler", rule, base_scheduler))
        self._time_attr = time_attr
        self._has_own_base = base_scheduler is None
        self._base = FIFOScheduler() if base_scheduler is None else base_scheduler
        self._metric: str | None = None
        self._mode: str | None = None
        self._forget()
        self._once = Once()

    def _forget(self) -> None:
        self._with_base: set[str] = set()
        self._values: dict[str, float] = {}  # maximized, of those that have reached a horizon
        self._to_park: set[str] = set()  # restored ones that have made their steps
        self._told: set[str] = set()  # those that a search algorithm has been told the end of

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file, but for that of the trials: Tune keeps them.

        The base scheduler is in it if it can be saved; of Ray's, ASHA can, and HyperBand, median
        stopping and population based training cannot. Tune itself saves no schedulers.
        """
        left_out = {"_with_base", "_values", "_to_park", "_told"}
        if not can_be_saved(self._base):
            left_out.add("_base")
        state = {name: v for name, v in self.__dict__.items() if name not in left_out}
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(state))

    def restore(self, checkpoint_path: str) -> None:
        """Read the state back, whatever this object was before; Tune then adds the trials.

        A base scheduler that could not be saved is the one that this object was given.
        """
        self.__dict__.update(cloudpickle.loads(Path(checkpoint_path).read_bytes()))
        self._forget()

    @property
    def _trials(self) -> dict[str, Trial]:
        return self._horizons.trials

    # ------------------------------------------------------------------- Tune's questions

    @property
    def metric(self) -> str | None:
        """Name of the result that Tune is to require of each report."""
        return self._metric or self._base.metric

    @property
    def supports_buffered_results(self) -> bool:
        """Whether results may be delivered in batches."""
        return not self._horizons.grow and bool(self._base.supports_buffered_results)

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take the objective from the tuner, for the base scheduler too.

        Tune calls this once for each experiment. Trials of one before it have no part in it.

        Returns:
            False, of which Tune makes an exception, if a base scheduler that was given knows its
            objective already.
        """
        self._horizons.leave_experiment()
        self._forget()
        self._once.forget()
        if self._has_own_base:
            self._base = FIFOScheduler()  # one takes an objective once only
        self._metric, self._mode = metric, mode
        return bool(self._base.set_search_properties(metric, mode, **spec))

    def debug_string(self) -> str:
        """Return one line for Tune's status."""
        horizon = self._horizons.horizon or "a horizon from num_samples"
        return f"Using {horizon}, then: {self._base.debug_string()}"

    # ------------------------------------------------------------------------ trials

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Give a trial its horizon unless it has one, be it new, retried or restored.

        Raises:
            ValueError: There is no horizon, and the number of trials is not known either; the base
                scheduler is HyperBandForBOHB beside BBOSearch; or the horizon grows, and each trial
                is repeated, the metric or the mode is not known, or there are several.
        """
        try:
            self._add(tune_controller, trial)
        except Exception:
            search = bbo_search(tune_controller)
            if search is not None:
                search.leave_experiment()  # Ray ends it, and nobody would finish its trials
            raise

    def _add(self, tune_controller: Any, trial: Trial) -> None:
        """Give a trial its horizon, and hand it to the base scheduler unless it has made that."""
        self._check_search(tune_controller)
        show_to_stoppers(tune_controller, trial)
        is_new = trial.trial_id not in self._trials
        n_before = len(self._trials)
        self._trials[trial.trial_id] = trial
        if trial.status in {Trial.TERMINATED, Trial.ERROR}:
            self._remember(tune_controller, trial)
            return
        if is_new:
            self._horizons.assign(tune_controller, trial, n_before)
            self._tell_search(tune_controller, trial)
            has_ended = self._horizons.grow and self._was_there(trial)
            was_told = has_ended or self._horizons.is_continued(trial)
            if was_told:
                self._told.add(trial.trial_id)
            if has_checkpoint(trial) and was_told:
                self._remember(tune_controller, trial)
                if has_ended:
                    self._to_park.add(trial.trial_id)
                return
            self._with_base.add(trial.trial_id)
        if trial.trial_id in self._with_base:
            self._base.on_trial_add(self._seen_by_base(tune_controller), trial)

    def _check_search(self, tune_controller: Any) -> None:
        """Refuse search algorithms that do not fit, and prepare for others than ours."""
        search = bbo_search(tune_controller)
        if search is not None and needs_tune_bohb(self._base):
            search.refuse_bohb()
        if not self._horizons.grow:
            return
        self._objective(search)
        check_is_not_repeated(tune_controller)
        if search is None:
            self._tell_ends_once(tune_controller)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide whether a trial goes on."""
        done = finite_or_none(result.get(self._time_attr))
        if done is None:
            if self._once.first_time("time_attr"):
                _logger.warning(
                    "InnerHorizonScheduler cannot end trials at their horizon: their results have "
                    "no number of steps %r (time_attr).",
                    self._time_attr,
                )
        elif done >= self._horizons.target(trial):
            return self._at_horizon(tune_controller, trial, result)
        if trial.trial_id not in self._with_base:
            return str(TrialScheduler.CONTINUE)
        view = self._seen_by_base(tune_controller)
        decision = str(self._base.on_trial_result(view, trial, result))
        if decision == TrialScheduler.STOP:
            tell_stopped_early(tune_controller, trial)
        return decision

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Pass on the end of a trial."""
        done = finite_or_none(result.get(self._time_attr)) or 0.0
        if result.get(STOPPED_EARLY) and done < self._horizons.target(trial):
            tell_stopped_early(tune_controller, trial)
        self._warn_of_own_end(tune_controller, trial, result, done)
        self._tell_steps_made(tune_controller, trial, done)
        if trial.trial_id in self._with_base:
            self._base.on_trial_complete(self._seen_by_base(tune_controller), trial, result)

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Pass on the failure of a trial, which may be retried."""
        self._tell_steps_made(tune_controller, trial, self._horizons.done(trial))
        if trial.trial_id in self._with_base:
            self._base.on_trial_error(self._seen_by_base(tune_controller), trial)

    def on_trial_remove(self, tune_controller: Any, trial: Trial) -> None:
        """Pass on the end of a trial that was not running, and so has not ended by itself."""
        done = self._horizons.done(trial)
        if done < self._horizons.target(trial):
            tell_stopped_early(tune_controller, trial)
        self._tell_steps_made(tune_controller, trial, done)
        if trial.trial_id in self._with_base:
            self._base.on_trial_remove(self._seen_by_base(tune_controller), trial)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Return a trial that is to be continued, else what the base scheduler chooses."""
        self._park(tune_controller)
        if self._horizons.grow:
            for trial in self._trials.values():
                if self._is_waiting(trial) and not self._was_there(trial):
                    return trial
        chosen = self._base.choose_trial_to_run(self._seen_by_base(tune_controller))
        if chosen is None and self._horizons.grow:
            self._end_if_over(tune_controller)
        return chosen

    # -------------------------------------------------------------- growing horizons

    def _at_horizon(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Return Tune's decision for a trial that has made its steps."""
        if not self._horizons.grow:
            return str(TrialScheduler.STOP)
        self._values[trial.trial_id] = self._maximized(tune_controller, result)
        just_done = {trial.trial_id: float(result[self._time_attr])}
        if not can_checkpoint(trial, result):
            if self._once.first_time("checkpoint"):
                _logger.warning(
                    "InnerHorizonScheduler stops a trial at its horizon and cannot continue it if "
                    "it has no checkpoint by then: give tune.report(..., checkpoint=...) one "
                    "together with the last step, or define save_checkpoint and load_checkpoint."
                )
            self._horizons.end_if_spent(tune_controller, just_done)
            return str(TrialScheduler.STOP)
        if trial.trial_id in self._with_base:
            self._base.on_trial_complete(self._seen_by_base(tune_controller), trial, result)
            self._with_base.discard(trial.trial_id)
        self._tell_steps_made(tune_controller, trial, just_done[trial.trial_id])
        tune_controller.search_alg.on_trial_complete(trial.trial_id, result=result)
        self._told.add(trial.trial_id)
        self._promote(tune_controller, just_done)
        self._horizons.end_if_spent(tune_controller, just_done)
        return str(TrialScheduler.PAUSE)

    def _warn_of_own_end(
        self, tune_controller: Any, trial: Trial, result: Mapping[str, Any], done: float
    ) -> None:
        """Say once that a trial which ends itself at its horizon is not there to be continued."""
        horizon, target = self._horizons.horizon, self._horizons.target(trial)
        was_asked = trial.trial_id in self._values  # a trial without a checkpoint, which is stopped
        if not isinstance(horizon, GrowingHorizon) or was_asked or result.get(STOPPED_EARLY):
            return
        if not (horizon.promote and horizon.exponent and target <= done):
            return
        if done >= (horizon.maximum or math.inf):
            return
        if self._horizons.are_spent(tune_controller, {trial.trial_id: done}):
            return
        if self._once.first_time("own end"):
            _logger.warning(
                "InnerHorizonScheduler cannot continue trials that end by themselves at their "
                "horizon. It pauses them there, so leave out done=True and stop= at that step."
            )

    def _tell_ends_once(self, tune_controller: Any) -> None:
        """Let a search algorithm that is not ours hear nothing of a trial after its end, and warn.

        It does not expect a trial that has completed to go on. Many forget a trial then, and would
        raise an exception when Tune tells them of it again. Tune would try so for ever.
        """
        search_alg = getattr(tune_controller, "search_alg", None)
        if not isinstance(search_alg, SearchGenerator) or "on_trial_complete" in vars(search_alg):
            return

        def until_told(method: Callable[..., None]) -> Callable[..., None]:
            def call(trial_id: str, *args: Any, **kwargs: Any) -> None:
                if trial_id not in self._told:
                    method(trial_id, *args, **kwargs)

            return call

        search_alg.on_trial_complete = until_told(search_alg.on_trial_complete)
        search_alg.on_trial_result = until_told(search_alg.on_trial_result)
        if self._once.first_time("search"):
            _logger.warning(
                "InnerHorizonScheduler tells %s of each trial the first value only, after few "
                "steps: of a trial that is continued BBOSearch alone learns more.",
                searcher_name(tune_controller),
            )

    def _promote(self, tune_controller: Any, just_done: Mapping[str, float]) -> bool:
        """Give the best trials that wait the newest trial's number of steps.

        Args:
            tune_controller: Tune's controller.
            just_done: Steps of a trial that is about to wait and whose result Tune still holds.

        Returns:
            Whether there is one that goes on.
        """
        horizon = self._horizons.known(tune_controller)
        ids = list(self._trials)
        done = {i: just_done.get(i, self._horizons.done(self._trials[i])) for i in ids}
        steps = [
            math.ceil(done[i])
            if trial.is_finished()
            else math.ceil(max(done[i], self._horizons.target(trial)))
            for i, trial in self._trials.items()
        ]
        goal = horizon.steps(len(ids) - 1)
        # One that has failed, or was stopped, on its way can never get there: the next best may.
        values = [
            math.nan
            if self._trials[i].is_finished() and n < goal
            else self._values.get(i, math.nan)
            for i, n in zip(ids, steps, strict=True)
        ]
        promoted = False
        for index in horizon.promotions(values, steps):
            trial = self._trials[ids[index]]
            more = horizon.within_budget(goal - steps[index], spent=self._horizons.spent(just_done))
            if more < 1 or not (trial.trial_id in just_done or self._is_waiting(trial)):
                continue
            start = math.ceil(done[trial.trial_id])
            self._horizons.extend(tune_controller, trial, steps[index] + more, start=start)
            search = bbo_search(tune_controller)
            if search is not None:
                search.on_trial_continued(trial.trial_id)
            self._tell_search(tune_controller, trial)
            promoted = True
        return promoted

    def _tell_search(self, tune_controller: Any, trial: Trial) -> None:
        """Tell our search algorithm which steps a trial is to make."""
        search = bbo_search(tune_controller)
        if search is not None:
            start, stop = self._horizons.start(trial), int(self._horizons.target(trial))
            search.on_trial_horizon(trial.trial_id, start, stop)

    def _tell_steps_made(self, tune_controller: Any, trial: Trial, done: float) -> None:
        """Tell our search algorithm how many steps a trial that ends or is retried has made."""
        search = bbo_search(tune_controller)
        if search is not None and done > self._horizons.start(trial):
            search.on_trial_steps_made(trial.trial_id, int(done))

    def _end_if_over(self, tune_controller: Any) -> None:
        """Stop the trials that wait, once none is to come or under way and none is continued."""
        if not tune_controller.search_alg.is_finished():
            return
        alive = [trial for trial in self._trials.values() if not trial.is_finished()]
        if all(map(self._is_waiting, alive)) and not self._promote(tune_controller, {}):
            for trial in alive:
                tune_controller.stop_trial(trial)

    def _is_waiting(self, trial: Trial) -> bool:
        """Return whether a trial is paused and out of the base scheduler's hands."""
        return trial.status == Trial.PAUSED and trial.trial_id not in self._with_base

    def _park(self, tune_controller: Any) -> None:
        """Pause restored trials that have made their steps, before Tune starts them again."""
        for trial_id in self._to_park:
            if self._trials[trial_id].status == Trial.PENDING:
                tune_controller._set_trial_status(self._trials[trial_id], Trial.PAUSED)
        self._to_park.clear()

    def _remember(self, tune_controller: Any, trial: Trial) -> None:
        """Take note of the value that a restored trial had at its horizon."""
        result = trial.run_metadata.last_result
        if self._horizons.grow and (self._was_there(trial) or self._horizons.is_continued(trial)):
            self._told.add(trial.trial_id)
            self._values[trial.trial_id] = self._maximized(tune_controller, result)

    def _was_there(self, trial: Trial) -> bool:
        """Return whether a trial has made all its steps."""
        return self._horizons.done(trial) >= self._horizons.target(trial)

    def _maximized(self, tune_controller: Any, result: Mapping[str, Any]) -> float:
        """Return the value in a result, to be maximized; NaN if there is none.

        Raises:
            ValueError: The metric or the mode is not known.
        """
        metric, mode = self._objective(bbo_search(tune_controller))
        value = maximized(result, metric, mode)
        return math.nan if value is None else value

    def _objective(self, search: RecordingSearch | None) -> tuple[str, str]:
        """Return the metric and the mode by which trials are compared that a horizon continues.

        Raises:
            ValueError: They are not known, or are those of several objectives.
        """
        metric = self._metric or (search and search.metric) or self._base.metric
        mode = self._mode or (search and search.mode) or getattr(self._base, "_mode", None)
        if metric is None or mode is None:
            rule = "given to the tuner or the search algorithm for a horizon that grows"
            raise ValueError(errors.rule_message("metric and mode", rule, (metric, mode)))
        check_objective(metric, mode, "a horizon that grows")
        return metric, mode

    def _seen_by_base(self, tune_controller: Any) -> Any:
        return None if tune_controller is None else ControllerView(tune_controller, self._with_base)
