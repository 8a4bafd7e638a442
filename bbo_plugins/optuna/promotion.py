"""A growing inner horizon in Optuna: how long each trial trains, and which are continued.

Whoever asks (:func:`inner_steps` in the objective, :class:`PromotionCallback` after it) reads the
study's storage and nothing else, so any number of workers may take part and a study may be resumed.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import optuna
from optuna.study import Study, StudyDirection
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState

from bbo_plugins import errors
from bbo_plugins.methods.inner_horizon.horizon import GrowingHorizon, InnerHorizon
from bbo_plugins.optuna.study.continuations import (
    CONTINUED_FROM,
    GOAL,
    STEPS,
    continued_from,
    end_of,
    first_trials,
    goal_of,
    index_of,
    steps_of,
    steps_taken,
)
from bbo_plugins.optuna.study.lock import StudyLock
from bbo_plugins.optuna.study.trials import (
    Once,
    TrialRow,
    beginning_none,
    check_one_function,
    mark_never_ran,
    never_ran,
    running_trials,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_logger = logging.getLogger(__name__)
_RULE = "an InnerHorizon"


class PromotionCallback:
    """Continues the best configurations of a study whenever the inner horizon has grown.

    After each trial, those of the best few configurations that have had less training than the
    newest one are enqueued again: as trials with the same parameters, whose attribute names the
    trial to go on from. The objective loads that trial's checkpoint and makes the missing steps::

        horizon = bbo_plugins.InnerHorizon.growing(total_steps=20_000)


        def objective(trial):
            rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
            source = continued_from(trial)
            model = new_model() if source is None else load(folder / f"{source}.pt")
            for step in inner_steps(trial, horizon):
                model.train_on(next_batch(), rate)
            save(model, folder / f"{trial.number}.pt")
            return model.validation_loss()


        study = optuna.create_study(sampler=bbo_plugins.BBOSampler(horizon=horizon))
        study.optimize(objective, callbacks=[PromotionCallback(horizon)])

    Checkpoints may as well go through Optuna's artifact store, which workers on several machines
    can share (``path`` is a file of this trial alone)::

            if source is not None:
                key = study.trials[source].user_attrs["checkpoint"]
                download_artifact(artifact_store=store, file_path=path, artifact_id=key)
            ...
            key = upload_artifact(artifact_store=store, file_path=path, study_or_trial=trial)
            trial.set_user_attr("checkpoint", key)

    The study ends, as if by ``study.stop()``, when the total number of steps of the horizon is
    spent; ``n_trials`` of ``optimize`` would count continuations as trials. Several workers at once
    may overrun it by what they have under way. A complete trial whose objective did not ask
    :func:`inner_steps` counts as if it had trained by ``range(horizon.steps(trial.number))``, of
    which a warning says so once; such a study may overrun the total by its last trial.

    The horizon sees configurations: its trial number is the number of those that began before, not
    the trial's number in the study. A configuration's value is that of its latest complete trial,
    also for :class:`~bbo_plugins.BBOSampler`; ``study.best_trial`` may be an earlier one, which
    then was better with less training. A configuration is not continued while a continuation of it
    is waiting or running, nor again to the same number of steps if one failed, nor ever if one was
    pruned; neither is one that violates a constraint. A worker that died leaves a running trial. It
    counts as failed once 32 later trials have finished, and 4 more for each later one that runs, or
    as soon as it is told to be (``study.tell(number, state=TrialState.FAIL)``); with a heartbeat of
    the storage Optuna does that.

    :class:`~bbo_plugins.optuna.RegretGapTerminator`, too, takes a configuration for one trial, with
    the value of its longest training.

    Works with every sampler but Optuna's ``GridSampler``, in both directions, with threads
    (``n_jobs``) and with several processes on one storage: nothing is enqueued twice. GridSampler
    raises an exception when an enqueued trial ends while one grid point is left. With a horizon
    that does not grow, nothing is ever enqueued.

    Args:
        horizon: The horizon, the same in every worker.

    Raises:
        TypeError: ``horizon`` is not an :class:`~bbo_plugins.InnerHorizon`.

    Example:
        .. code-block:: python

            import optuna
            from bbo_plugins import BBOSampler, InnerHorizon, PromotionCallback
            from bbo_plugins.optuna import continued_from, inner_steps

            horizon = InnerHorizon.growing(total_steps=1_000)
            checkpoints = {}


            def objective(trial):
                rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
                source = continued_from(trial)
                weight = 0.0 if source is None else checkpoints[source]
                for _ in inner_steps(trial, horizon):
                    weight -= rate * (weight - 1.0)
                checkpoints[trial.number] = weight
                return (weight - 1.0) ** 2


            study = optuna.create_study(sampler=BBOSampler(horizon=horizon, seed=0))
            study.optimize(objective, callbacks=[PromotionCallback(horizon)])
    """

    def __init__(self, horizon: InnerHorizon) -> None:
        """Check and keep the horizon."""
        errors.check_instance("horizon", horizon, InnerHorizon, _RULE)
        self._horizon = horizon
        self._lock = StudyLock()
        self._once = Once()

    def __call__(self, study: Study, trial: FrozenTrial) -> None:
        """Enqueue what is due, and stop ``study`` if its steps are spent.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: The study has more than one objective.
        """
        del trial
        self.promote(study)
        if self.is_spent(study):
            study.stop()

    def promote(self, study: Study) -> list[int]:
        """Enqueue the continuations that are due: for ask-and-tell loops.

        Returns:
            Numbers of the trials that will be continued. The list is empty if another worker was
            busy with that all the time; what remains due is enqueued after the next trial.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: The study has more than one objective.
        """
        check_one_function(study)
        if not self._due(study):
            return []
        with self._lock.held(study) as alone:
            due = self._due(study) if alone else []  # again, as others may have been quicker
            for source, goal in due:
                attributes = {CONTINUED_FROM: source.number, GOAL: goal}
                study.enqueue_trial(source.params, user_attrs=attributes)
                _logger.debug("Trial %d is to be continued to %d steps.", source.number, goal)
        return [source.number for source, _ in due]

    def is_spent(self, study: Study) -> bool:
        """Return whether the horizon's total number of steps is used up: for ask-and-tell loops.

        Raises:
            TypeError: ``study`` is not a study.
            ValueError: The study has more than one objective.
        """
        check_one_function(study)
        trials = study.get_trials(deepcopy=False)
        self._warn_of_unrecorded(trials)
        return self._horizon.within_budget(1, spent=_spent(trials, self._horizon)) == 0

    def _warn_of_unrecorded(self, trials: Sequence[FrozenTrial]) -> None:
        """Say once that steps are guessed, if the horizon's total depends on them."""
        horizon = self._horizon
        has_total = isinstance(horizon, GrowingHorizon) and horizon.total_steps is not None
        unrecorded = next(filter(_is_unrecorded, trials), None) if has_total else None
        if unrecorded is not None and self._once.first_time("unrecorded"):
            _logger.warning(
                "Trial %d has no number of steps recorded, nor perhaps have others: they count as "
                "trained by range(horizon.steps(trial.number)), and are not continued. Take the "
                "steps from inner_steps(trial, horizon), which records them and ends with the "
                "total.",
                unrecorded.number,
            )

    def _due(self, study: Study) -> list[tuple[FrozenTrial, int]]:
        """Return the trials to be continued now, each with the steps to be reached."""
        trials = study.get_trials(deepcopy=False)
        configurations = _configurations(trials)
        if not configurations:
            return []
        is_maximized = study.direction is StudyDirection.MAXIMIZE
        goal = self._horizon.steps(len(configurations) - 1)
        planned = sum(one.planned(self._horizon) for one in configurations)
        spent = _spent(trials, self._horizon) + planned
        alive = {trial.number for trial in running_trials(trials)}
        due = []
        steps = [one.steps(self._horizon) for one in configurations]
        for index in self._horizon.promotions(
            [one.value for one in configurations],
            steps,
            direction="maximize" if is_maximized else "minimize",
        ):
            one = configurations[index]
            more = self._horizon.within_budget(goal - steps[index], spent=spent)
            if one.trained is not None and not one.is_busy(alive) and more > 0:
                due.append((one.trained, goal))
                spent += more
        return due


def inner_steps(trial: BaseTrial, horizon: InnerHorizon) -> range:
    """Return the SGD steps that ``trial`` is to make; for use inside the objective.

    For a new configuration that is ``range(0, N)``, for a continuation ``range(n, N)`` with n the
    steps that its checkpoint has had. The steps are recorded with the trial, and asking again
    returns the same. Intermediate values, if reported, should be reported by these step numbers.

    With a horizon that does not grow, ``range(horizon.steps(trial.number))`` is the same, but
    records nothing. With one that grows, it knows of no continuations and of no end of the budget.

    Args:
        trial: The running trial. Of a stored one, as in ``objective(study.best_trial)``, the steps
            are those recorded, or the horizon's for a trial of that number.
        horizon: The horizon, the same in every worker.

    Raises:
        TypeError: ``trial`` is not an Optuna trial or ``horizon`` not an
            :class:`~bbo_plugins.InnerHorizon`.
        ValueError: ``trial`` continues one that never ran.
        optuna.TrialPruned: The horizon's total number of steps is spent.
    """
    errors.check_instance("trial", trial, BaseTrial, "an Optuna trial")
    errors.check_instance("horizon", horizon, InnerHorizon, _RULE)
    recorded = steps_of(trial)
    if recorded is not None:
        return recorded
    if not isinstance(trial, Trial):  # nothing can be recorded with a stored or fixed one
        return range(horizon.steps(trial.number))
    trials = trial.study.get_trials(deepcopy=False)
    source, goal = continued_from(trial), goal_of(trial)
    if source is None:
        start, goal = 0, horizon.steps(index_of(trial.number, beginning_none(trials)))
    else:
        begun = {
            one.number: one
            for one in trials
            if one.state is not TrialState.WAITING and not never_ran(one)
        }
        if source not in begun:
            raise ValueError(f"Trial {trial.number} continues trial {source}, which never ran.")
        start = end_of(begun[source], horizon)
        goal = goal or start
    spent = _spent([other for other in trials if other.number != trial.number], horizon)
    stop = start + horizon.within_budget(max(goal - start, 0), spent=spent)
    if stop == start:
        mark_never_ran(trial.study, trial)
        raise optuna.TrialPruned(f"No step is left for trial {trial.number}.")
    trial.set_user_attr(STEPS, [start, stop])
    return range(start, stop)


@dataclass(frozen=True)
class _Configuration:
    """One configuration with its trials, the first one and its continuations, by number."""

    trials: tuple[FrozenTrial, ...]

    @property
    def trained(self) -> FrozenTrial | None:
        """The complete trial with the longest training, if there is one."""
        complete = [trial for trial in self.trials if trial.state is TrialState.COMPLETE]
        return complete[-1] if complete else None

    @property
    def value(self) -> float:
        """Its value, NaN if it cannot or must not be continued.

        Without recorded steps nothing says that there is a checkpoint to go on from.
        """
        trained = self.trained
        pruned = any(trial.state is TrialState.PRUNED for trial in self.trials[1:])
        if trained is None or pruned or _is_unrecorded(trained):
            return math.nan
        read = TrialRow.read(trained)
        return math.nan if read.violates else read.value

    def is_busy(self, alive: Collection[int]) -> bool:
        """Return whether it is being trained, or about to be.

        Args:
            alive: Numbers of the running trials whose worker is not dead.
        """
        return any(
            trial.number in alive or trial.state is TrialState.WAITING for trial in self.trials
        )

    def planned(self, horizon: InnerHorizon) -> int:
        """Return the steps that its waiting continuation, if there is one, will make."""
        waiting = [goal_of(t) or 0 for t in self.trials[1:] if t.state is TrialState.WAITING]
        if not waiting or self.trained is None:
            return 0
        return max(waiting[-1] - end_of(self.trained, horizon), 0)

    def steps(self, horizon: InnerHorizon) -> int:
        """Return the largest number of steps it has had or was meant to have."""
        goals = [goal_of(trial) or 0 for trial in self.trials]
        trained = self.trained
        if trained is not None:
            planned = steps_of(trained)
            goals.append(end_of(trained, horizon) if planned is None else planned.stop)
        return max(goals)


def _configurations(trials: Sequence[FrozenTrial]) -> list[_Configuration]:
    """Return the configurations by age, up to the newest one that has been started.

    Trials for which no step was left are none.
    """
    first = first_trials(trials)
    members: dict[int, list[FrozenTrial]] = {}
    for trial in trials:
        if never_ran(trial):
            continue
        members.setdefault(first.get(trial.number, trial.number), []).append(trial)
    configurations = [_Configuration(tuple(one)) for one in members.values()]
    while configurations and configurations[-1].trials[0].state is TrialState.WAITING:
        configurations.pop()
    return configurations


def _spent(trials: Sequence[FrozenTrial], horizon: InnerHorizon) -> int:
    """Return the steps that ``trials`` have taken together."""
    return sum(
        horizon.steps(trial.number) if _is_unrecorded(trial) else steps_taken(trial)
        for trial in trials
    )


def _is_unrecorded(trial: FrozenTrial) -> bool:
    """Return whether the steps of a complete trial are not known."""
    return trial.state is TrialState.COMPLETE and steps_of(trial) is None
