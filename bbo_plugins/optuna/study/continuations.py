"""Trials that continue the training of another one: what marks them, and what they stand for.

A configuration is a set of parameters together with all training it has had: one trial and the
trials that continue it, one after the other. User attributes of a trial say so, which
:meth:`optuna.study.Study.enqueue_trial` can set, every storage keeps, and the dashboard shows:

    bbo_plugins:continued_from   number of the trial whose training this one goes on with
    bbo_plugins:goal             steps that the configuration is to have had after this trial
    bbo_plugins:steps            [a, b]: this trial trains from step a up to, not including, b
    bbo_plugins:steps_made       steps that the configuration has had when the trial ended; b if it
                                 is not there and the trial is complete

The storage is shared and may hold anything under these keys, so reading never raises: what is
malformed is not there.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_left
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from optuna.trial import BaseTrial, FrozenTrial, TrialState

from bbo_plugins import errors
from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna.study.storage import enqueued_params

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONTINUED_FROM = "bbo_plugins:continued_from"
GOAL = "bbo_plugins:goal"
STEPS = "bbo_plugins:steps"
STEPS_MADE = "bbo_plugins:steps_made"
_Noise = TypeVar("_Noise")
_MAX_COUNT = 2**53  # beyond which integers are no exact floats; the storage may hold any


def continued_from(trial: BaseTrial) -> int | None:
    """Return the number of the trial whose training ``trial`` is to go on with, None if it is new.

    For use inside the objective: where this is a number, load the checkpoint that the trial of that
    number has saved, see :class:`~bbo_plugins.optuna.PromotionCallback`.

    Raises:
        TypeError: ``trial`` is not a trial.
    """
    errors.check_instance("trial", trial, BaseTrial, "an Optuna trial")
    source = trial.user_attrs.get(CONTINUED_FROM)
    return source if _is_count(source) and source < trial.number else None


def steps_of(trial: BaseTrial) -> range | None:
    """Return the steps that ``trial`` is to make, None if it has none recorded."""
    recorded = trial.user_attrs.get(STEPS)
    if not isinstance(recorded, list | tuple) or len(recorded) != 2:
        return None
    start, stop = recorded
    return range(start, stop) if _is_count(start) and _is_count(stop) else None


def goal_of(trial: BaseTrial) -> int | None:
    """Return the number of steps that a continuation is to reach, None for any other trial."""
    goal = trial.user_attrs.get(GOAL)
    return goal if _is_count(goal) else None


def steps_taken(trial: FrozenTrial) -> int:
    """Return how many steps ``trial`` has made, or will have if it is running.

    Where it is not recorded how many it has made, one that did not complete has made those up to
    the last one it reported; all if none.
    """
    steps = steps_of(trial)
    if steps is None or trial.state is TrialState.WAITING:
        return 0
    made = trial.user_attrs.get(STEPS_MADE)
    if _is_count(made) and trial.state.is_finished():  # else it is of a failure and a retry
        return max(made - steps.start, 0)
    if trial.state in {TrialState.PRUNED, TrialState.FAIL} and trial.last_step is not None:
        return min(max(trial.last_step + 1 - steps.start, 0), len(steps))
    return len(steps)


def end_of(trial: FrozenTrial, horizon: InnerHorizon) -> int:
    """Return the steps that the configuration has had when ``trial`` ended.

    If none are recorded, these are the horizon's for a trial of that number.
    """
    steps = steps_of(trial)
    return horizon.steps(trial.number) if steps is None else steps.start + steps_taken(trial)


def first_trials(trials: Sequence[FrozenTrial]) -> dict[int, int]:
    """Return, for each continuation by number, the first trial of its configuration.

    A trial that was copied from another study may name a number that is of other parameters here;
    it continues nothing.

    Args:
        trials: All of a study's trials by number.

    Returns:
        The numbers of first trials by those of the continuations, these in ascending order.
    """
    first: dict[int, int] = {}
    for trial in trials:
        source = continued_from(trial) if CONTINUED_FROM in trial.user_attrs else None
        if source is not None and _have_same_params(trial, trials[source]):
            first[trial.number] = first.get(source, source)
    return first


def _have_same_params(trial: FrozenTrial, source: FrozenTrial) -> bool:
    """Return whether a continuation has the parameters of a trial, as far as it has any yet."""
    fixed = {**enqueued_params(trial), **trial.params}
    known = [(fixed[name], value) for name, value in source.params.items() if name in fixed]
    return all(one == other or (one != one and other != other) for one, other in known)  # noqa: PLR0124 - NaN


def index_of(number: int, others: Sequence[int]) -> int:
    """Return how many configurations are older than the one that trial ``number`` begins.

    Args:
        number: The trial's number.
        others: Numbers of the trials that begin no configuration, in ascending order; without any,
            the index is the trial's number.
    """
    return number - bisect_left(others, number)


def noise_func_with(
    horizon: InnerHorizon | None, noise_func: Callable[[FrozenTrial], _Noise] | None
) -> Callable[[FrozenTrial], _Noise | float] | None:
    """Return ``noise_func``; if that is None the horizon's noise, if that knows it.

    Raises:
        TypeError: ``horizon`` is no :class:`~bbo_plugins.InnerHorizon`.
    """
    if horizon is not None:
        errors.check_instance("horizon", horizon, InnerHorizon, "an InnerHorizon or None")
        if noise_func is None and horizon.phi is not None:
            return functools.partial(known_noise, horizon)
    return noise_func


def known_noise(horizon: InnerHorizon, trial: FrozenTrial) -> float:
    """Return the noise variance that ``horizon`` knows of the value of a finished trial.

    It follows from all steps that its configuration has had, or from the horizon's if they are not
    recorded. NaN if the horizon knows of none.
    """
    variance = horizon.noise_variance(max(end_of(trial, horizon), 1))
    return math.nan if variance is None else variance


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT
