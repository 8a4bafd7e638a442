"""Stopping a Ray Tune experiment when nothing more is to be gained.

The rule is that of :class:`~bbo_plugins.RegretGapTerminator`
(:mod:`bbo_plugins.methods.regret_gap`), for any search algorithm. A stopper sees results only, and
beside InnerHorizonScheduler the status of trials. So it keeps the last value of each trial and one
record for each trial that has ended. Ray's checkpoints contain it, and after a restore it goes on
from there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from optuna.trial import create_trial
from ray.tune.result import DONE
from ray.tune.search.sample import Categorical, Integer, Quantized

from bbo_plugins import errors
from bbo_plugins.methods.regret_gap import algorithm as stopping
from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule
from bbo_plugins.optuna.stopping.completions import CompletedTrials, LearnedSpace
from bbo_plugins.optuna.study.parameters import is_single
from bbo_plugins.optuna.study.trials import Once, TrialRow
from bbo_plugins.ray.tune.conversions import (
    CONFIG_KEY,
    MODES,
    STOPPED_EARLY,
    TIME_ATTR,
    check_objective,
    entry_of,
    finite_or_none,
    maximized,
)
from bbo_plugins.ray.tune.spaces import (
    check_choices_come_back,
    example_of_domain,
    read_space,
    replayed,
)
from bbo_plugins.ray.tune.watching import WatchingStopper

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.distributions import BaseDistribution

    from bbo_plugins.gp.fit import WarmStart

_logger = logging.getLogger(__name__)


class LiveTrials:
    """The trials that have reported and may report again, judged by their results alone.

    Nobody tells a stopper that a scheduler has stopped or paused a trial: the trial falls silent.
    Trials take turns. If at most w trials ever ran side by side, then a trial that was silent while
    w others began has given up its place. If it is heard of again, it was slow, and w grows.
    """

    def __init__(self) -> None:
        """Start without any trial."""
        # For each trial heard of: how many had begun when it was last heard of.
        self._heard_at: dict[str, int] = {}
        self._live: dict[str, None] = {}  # the one heard of last is the last
        # For each trial, in the order of their beginning: how many earlier ones outlasted that.
        self._beside: list[int] = []
        self._width = 1

    @property
    def ids(self) -> list[str]:
        """The trials that have been heard of and not ended since."""
        return list(self._live)

    def hear(
        self, trial_id: str, *, done: bool, goes_on: Callable[[str], bool] = lambda _: False
    ) -> list[str]:
        """Take notice of a result, and return which trials have ended.

        Args:
            trial_id: The trial that has reported.
            done: Whether it says that this is its end.
            goes_on: Whether a trial is known to go on, however silent it is.

        Returns:
            The trials that are now known to have ended, in that order: this one if it is done,
            however often it says so, and silent ones.
        """
        is_new = trial_id not in self._heard_at
        if is_new:
            self._beside.append(0)
        else:
            for start in range(self._heard_at[trial_id], len(self._beside)):
                self._beside[start] += 1
                self._width = max(self._width, 1 + self._beside[start])
        self._heard_at[trial_id] = len(self._beside)
        self._live.pop(trial_id, None)
        ended = [one for one in self._silent() if not goes_on(one)] if is_new else []
        for other in ended:
            del self._live[other]
        if done:
            ended.append(trial_id)
        else:
            self._live[trial_id] = None
        return ended

    def _silent(self) -> list[str]:
        n_begun = len(self._beside)
        return [
            trial_id for trial_id in self._live if n_begun - self._heard_at[trial_id] > self._width
        ]


@dataclass(frozen=True)
class _Observed:
    """The parameters of a trial, their distributions, and its last value, maximized."""

    params: dict[str, Any]
    distributions: dict[str, BaseDistribution] = field(compare=False)
    value: float

    def as_row(self, number: int) -> TrialRow:
        """Return the same as a complete trial of a study."""
        trial = create_trial(value=self.value)  # which would refuse values off the grid
        trial.number = number
        trial.params, trial.distributions = self.params, self.distributions
        return TrialRow.read(trial)


class RegretGapStopper(WatchingStopper):
    """Ends an experiment when one more trial can hardly change what is known of the optimum.

    After each finished trial a Gaussian process says how much the expected best value can have
    moved by it: the gap of expected minimum simple regrets (Ishibashi et al., 2023). Once that is
    at most a threshold for ``patience`` trials in a row, the experiment ends::

        stopper = RegretGapStopper("loss", "min", space)
        tuner = tune.Tuner(trainable, param_space=space, run_config=tune.RunConfig(stop=stopper))

    A trial counts once, with the last value it has reported, as soon as it says that it is done,
    has made the steps of its horizon (``"sgd_steps"`` of the results and ``"inner_horizon"`` of the
    config), or has fallen silent because a scheduler stopped or paused it. If it is heard of again,
    its old value is dropped. A trial that fails counts with what it has reported before. Trials
    whose last value is missing, NaN or infinite do not count. Those whose value is far worse than
    usual count as failed.

    With :class:`~bbo_plugins.ray.BBOSearch` there is a better place for the same rule: with
    ``BBOSearch(terminator=RegretGapTerminator())`` no new trial is begun at all.

    Make one for each experiment: the same stopper would end a second one at once, or mix the trials
    of both.

    Args:
        metric: Name of the result that is optimized.
        mode: "min" or "max".
        space: The search space, as :class:`~bbo_plugins.ray.BBOSearch` takes it: Ray's domains or
            Optuna's distributions in nested dicts, choices among dicts, or a define-by-run
            function. Constants are ignored. Any integer in the range of ``tune.qrandint`` counts,
            as Ray's search algorithms begin its steps at different ones. The model covers all
            parameters that any finished trial had; where one exists is learned from these trials. A
            function is called with each trial's config, which must have what it asks for under the
            same names.
        threshold: "relative", "median", "auto" (Eq. 7 of the paper; fires when trials are repeated
            more than when the optimum is found), or a positive number in units of the metric; see
            :class:`~bbo_plugins.RegretGapTerminator`.
        graceful: Whether trials that run when the decision falls may finish. Those that begin
            after it are stopped at their first result, which gets an entry ``stopped_early``; with
            :class:`~bbo_plugins.ray.InnerHorizonScheduler` they are pruned trials of the study
            unless they have made all their steps. If False, Ray ends all trials at once, and the
            search algorithm is not told of them.
        **terminator_kwargs: ``criterion``, ``eta``, ``patience``, ``n_initial``, ``delta``,
            ``min_n_trials``, ``deterministic_objective`` and ``seed`` of
            :class:`~bbo_plugins.RegretGapTerminator`.

    Raises:
        TypeError: An argument has the wrong type, or is not known.
        ValueError: An argument has a value outside its range, or the space has a domain that
            cannot be searched, or none with more than one value.

    Example:
        .. code-block:: python

            from bbo_plugins.ray import RegretGapStopper
            from ray import tune


            def trainable(config):
                tune.report({"loss": (config["x"] - 3.0) ** 2})


            space = {"x": tune.uniform(0.0, 20.0)}
            stopper = RegretGapStopper("loss", "min", space, threshold="relative")
            tuner = tune.Tuner(
                trainable,
                param_space=space,
                tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=4),
                run_config=tune.RunConfig(stop=stopper, verbose=0),
            )
            print(tuner.fit().get_best_result().config)
    """

    def __init__(
        self,
        metric: str,
        mode: Literal["min", "max"],
        space: Mapping[str, Any] | Callable[[Any], dict[str, Any] | None],
        *,
        threshold: Literal["relative", "auto", "median"] | float = "relative",
        graceful: bool = True,
        **terminator_kwargs: Any,
    ) -> None:
        """Check and keep the arguments."""
        super().__init__()
        check_objective(metric, mode, "RegretGapStopper")
        errors.check_instance("metric", metric, str, "the name of a result")
        self._metric = metric
        self._mode = errors.check_word("mode", mode, MODES)
        self._read = _reader(space)
        self._space = LearnedSpace()
        self._graceful = errors.check_bool("graceful", graceful)
        seed = terminator_kwargs.pop("seed", None)
        self._seed = 0 if seed is None else errors.check_int("seed", seed, minimum=0)
        if str(threshold) == "cross-validation":  # not one of the words of the type
            rule = "another one, as there are no cross-validation scores in Ray's results"
            raise ValueError(errors.rule_message("threshold", rule, threshold))
        unknown = terminator_kwargs.keys() - StoppingRule.__dataclass_fields__.keys()
        if unknown:
            rule = "keyword arguments of RegretGapTerminator"
            raise TypeError(errors.rule_message("terminator_kwargs", rule, sorted(unknown)))
        self._rule = StoppingRule(threshold=threshold, **terminator_kwargs)
        self._live = LiveTrials()
        self._latest: dict[str, _Observed | None] = {}
        self._ended: dict[str, tuple[_Observed, TrialRow]] = {}  # in the order of their end
        self._n_rows = 0
        self._records: list[StoppingRecord] = []  # one for each of them
        self._warm_start: WarmStart | None = None
        self._finishing: set[str] | None = None  # once decided: trials that are waited for
        self._at_horizon: set[str] = set()  # trials that have made the steps of their horizon
        self._once = Once()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Take notice of a result; return whether its trial is to be stopped."""
        is_late = self._finishing is not None and trial_id not in self._finishing
        done, is_there = bool(result.get(DONE)), _is_at_horizon(result)
        if self._finishing is not None:
            # By now Tune has most likely ended or paused the others; of watched ones it is known.
            self._finishing -= self._at_horizon - {trial_id} - self.watched
        self._at_horizon.discard(trial_id)
        if is_there:
            self._at_horizon.add(trial_id)
        elif not done:
            self._ended.pop(trial_id, None)
        self._latest[trial_id] = self._observed(result)
        for ended in self._live.hear(trial_id, done=done, goes_on=self.is_watched_and_goes_on):
            if self._finishing is None:
                self._count(ended)
            elif not self.is_watched_and_goes_on(ended):
                self._finishing.discard(ended)
        if is_there and self._finishing is None:  # it counts, but Tune has still to end it
            self._count(trial_id)
        if is_late and not done:
            result[STOPPED_EARLY] = True
        return is_late

    def stop_all(self) -> bool:
        """Return whether the experiment is to end now."""
        if self._finishing is None:
            return False
        self._finishing = {one for one in self._finishing if not self._is_over(one)}
        return not self._finishing

    def _is_over(self, trial_id: str) -> bool:
        """Return whether a trial is seen to have ended, or to wait at its horizon."""
        return self.is_watched_and_over(trial_id, if_waiting=trial_id in self._at_horizon)

    def history(self) -> list[StoppingRecord]:
        """Return one record for each trial that has ended, the oldest first."""
        return list(self._records)

    def _count(self, trial_id: str) -> None:
        """Make the record of a trial that has ended."""
        observed = self._latest[trial_id]
        counted, _ = self._ended.get(trial_id, (None, None))
        if observed is None or observed == counted:
            return
        self._ended.pop(trial_id, None)
        self._ended[trial_id] = observed, observed.as_row(self._n_rows)
        self._n_rows += 1
        n = len(self._ended)
        del self._records[n - 1 :]  # if a trial was taken for ended and was heard of again
        completed = CompletedTrials.of([[row] for _, row in self._ended.values()], self._space)
        if completed is None:  # a define-by-run function may ask for a single value at first
            self._records.append(StoppingRecord(n_trials=n))
            return
        found = stopping.evaluate(
            completed.space,
            completed.X,
            completed.y,
            rule=self._rule,
            has_failed=completed.has_failed,
            previous=self._records,
            warm_start=self._warm_start,
            seed=self._seed,
        )
        self._warm_start = found.warm_start or self._warm_start
        self._records.append(found.record)
        if found.record.terminate:
            # One that has just reported its end goes on while Tune saves its checkpoint.
            waiting = {*self._live.ids, *filter(self.is_watched_and_goes_on, self._latest)}
            waiting = {one for one in waiting if not self._is_over(one)}
            self._finishing = waiting if self._graceful else set()
            _logger.info(
                "RegretGapStopper ends the experiment after %d finished trials: the %s is %.4g, "
                "and its threshold %.4g%s.",
                n,
                self._rule.criterion_in_words,
                found.record.value,
                found.record.threshold,
                f"; trials that may finish: {len(self._finishing)}" if self._finishing else "",
            )

    def _observed(self, result: Mapping[str, Any]) -> _Observed | None:
        """Return the parameters and the maximized value of a result; None unless it has both."""
        value = maximized(result, self._metric, self._mode)
        if value is None:
            is_missing = entry_of(result, self._metric) is None and bool(result.get(DONE))
            if is_missing and not self._ended and self._once.first_time("metric"):
                _logger.warning(
                    "RegretGapStopper cannot stop the experiment yet: no trial has ended with a "
                    "result that has the metric %r.",
                    self._metric,
                )
            return None
        try:
            params, distributions = self._read(result.get("config") or {})
        except (KeyError, ValueError) as error:  # a function may look the values up
            if self._once.first_time("config"):
                _logger.warning(
                    "RegretGapStopper passes over trials whose config is no point of the search "
                    "space: %s",
                    error,
                )
            return None
        return _Observed(params, distributions, value)


def _is_at_horizon(result: Mapping[str, Any]) -> bool:
    """Return whether a trial has made its steps, by the names that they usually have.

    A horizon that grows continues the best trials again and again, so that they are never silent.
    """
    target = finite_or_none((result.get("config") or {}).get(CONFIG_KEY))
    done = finite_or_none(result.get(TIME_ATTR))
    return target is not None and done is not None and done >= target


def _reader(space: Any) -> Callable[[Any], tuple[dict[str, Any], dict[str, BaseDistribution]]]:
    """Return what reads parameters and distributions, both by name, from the config of a trial.

    Raises:
        ValueError: There is nothing to search, or a domain that cannot be searched.
    """
    if callable(space):
        return partial(replayed, space)
    tree = read_space("space", _without_steps(space))
    check_choices_come_back("space", tree.distributions)
    if all(is_single(distribution) for distribution in tree.distributions.values()):
        example = example_of_domain(tree.constants)
        rule = f"a search space with at least one domain of more than one value, {example}"
        raise ValueError(errors.rule_message("space", rule, space))
    return tree.read


def _without_steps(space: Any) -> Any:
    """Return a space without steps between integers, which searches begin at different ones."""
    if isinstance(space, Mapping):
        return {name: _without_steps(value) for name, value in space.items()}
    if isinstance(space, Categorical):
        space = copy(space)
        space.categories = [*map(_without_steps, space.categories)]
    elif isinstance(space, Integer) and isinstance(space.get_sampler(), Quantized):
        sampler = space.get_sampler().get_sampler()
        space = copy(space)
        space.upper, space.sampler = space.upper + 1, sampler
    return space
