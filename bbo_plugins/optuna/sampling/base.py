"""The common base of the samplers that suggest with a model.

A subclass says how the model suggests a point of the unit cube (:meth:`ModelSampler._suggest`);
everything between that and Optuna is here: start-up, independent sampling, constraints, pending
trials, what is stored, what is logged, and the refusal of several objectives.

A sampler keeps no state but its arguments: what it suggests for a trial follows from them, from the
trial's number, and from what the storage holds. The rest are caches, which copies and pickles drop.
The one exception is ``reseed_rng``, which Optuna calls before every trial if ``n_jobs`` > 1: it
changes what is drawn, but not the space-filling start-up, whose points belong together.
"""

from __future__ import annotations

import functools
import logging
import math
import re
from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optuna.samplers import BaseSampler, PartialFixedSampler
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins import errors
from bbo_plugins.optuna.messages import Once
from bbo_plugins.optuna.sampling import randomness
from bbo_plugins.optuna.sampling.snapshot import Snapshot, StudyReader
from bbo_plugins.optuna.study.memory import PerStudy
from bbo_plugins.optuna.study.points import dimension_of, fixed_params, is_single
from bbo_plugins.optuna.study.proposal import Proposal, store_proposal
from bbo_plugins.optuna.study.trials import (
    MAX_CONSTRAINTS,
    OTHERS,
    checked_constraints,
    store_constraints,
)
from bbo_plugins.space import CLOSE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.methods.observations import Observations
    from bbo_plugins.space.dimension import FloatArray

_logger = logging.getLogger(__name__)


UNREADABLE_FIT = "a stored fit cannot be read, so the next one starts from nothing"


_MAX_ATTEMPTS = 3


_FEWEST_OBSERVATIONS = 2  # with which a model takes over after many failures


_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class ModelSuggestion:
    """A model's suggestion for the next trial.

    Attributes:
        x: (d,) a snapped point of the unit cube.
        fits: JSON-able state for the next fits, objective first, then the constraints.
        notes: Fallbacks taken, in words.
        loss: Name of the loss that the objective's fit minimized; None without a fit.
        arm: "random" or "model", which of its arms a bandit pulled; None if there was no choice.
        expected_gain: Improvement expected at ``x``, in standard deviations of the model's targets;
            None without a model.
    """

    x: FloatArray
    fits: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    loss: str | None = None
    arm: str | None = None
    expected_gain: float | None = None


class ModelSampler(BaseSampler):
    """Base class of the samplers that suggest all parameters of a trial together, by a model.

    Args:
        n_startup_trials: Usable observations before the model takes over; two if at least twice as
            many points have been evaluated or have failed.
        noise_func: Known noise variance of a finished trial's value, in squared units of the value.
        constraints_func: Constraint values of a finished trial, violated where above zero.
        independent_sampler: Sampler for the start-up and for parameters the model does not cover;
            None for a space-filling start-up and uniform draws.
        warn_independent_sampling: Whether to warn when the model does not cover a parameter.
        seed: Seed of all random numbers; None for fresh randomness.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range.
    """

    def __init__(
        self,
        *,
        n_startup_trials: int,
        noise_func: Callable[[FrozenTrial], float] | None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None,
        independent_sampler: BaseSampler | None,
        warn_independent_sampling: bool,
        seed: int | None,
    ) -> None:
        """Check and keep the arguments."""
        trial_function = "a function of a FrozenTrial or None"
        if noise_func is not None:
            errors.check_callable("noise_func", noise_func, trial_function)
        if constraints_func is not None:
            errors.check_callable("constraints_func", constraints_func, trial_function)
        if independent_sampler is not None:
            rule = "an Optuna sampler or None"
            errors.check_instance("independent_sampler", independent_sampler, BaseSampler, rule)
        self._n_startup_trials = errors.check_int("n_startup_trials", n_startup_trials, minimum=0)
        self._warn_independent_sampling = errors.check_bool(
            "warn_independent_sampling", warn_independent_sampling
        )
        self._seed = (
            randomness.fresh_entropy()
            if seed is None
            else errors.check_int("seed", seed, minimum=0)
        )
        self._draw_seed = self._seed  # of all but the start-up's design; reseed_rng changes it
        self._noise_func = noise_func
        self._constraints_func = constraints_func
        self._independent_sampler = independent_sampler
        self._forget()

    def _forget(self) -> None:
        self._readers = PerStudy(functools.partial(StudyReader, self._noise_func))
        self._once = Once()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the caches and their locks."""
        return {k: v for k, v in self.__dict__.items() if k not in {"_readers", "_once"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Start with empty caches."""
        self.__dict__.update(state)
        self._forget()

    @abstractmethod
    def _suggest(self, snapshot: Snapshot, rng: np.random.Generator) -> ModelSuggestion:
        """Suggest the next point; called only with at least one observation.

        Must not depend on anything but the arguments and the sampler's own arguments.

        Args:
            snapshot: The parameters to suggest, the other trials, and the stored fits.
            rng: Generator of this trial's random numbers.
        """

    def reseed_rng(self) -> None:
        """Mix fresh randomness into all draws; Optuna does this for ``n_jobs`` > 1.

        The space-filling start-up stays as it is: every trial takes the point of its number, so
        that workers do not repeat each other, and a design reseeded for each trial would be none.
        """
        self._draw_seed = randomness.mix(self._draw_seed, randomness.fresh_entropy())
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Refuse a study with several objectives; the trial made for it ends as failed.

        Raises:
            ValueError: The study has more than one objective.
        """
        with failing_if_refused(study, trial):
            self._refuse_multi_objective(study)
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that all complete trials share, single-valued ones left out.

        Raises:
            ValueError: The study has more than one objective.
        """
        del trial
        self._refuse_multi_objective(study)
        return self._readers.of(study).shared_distributions(study)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest the parameters of ``search_space`` together.

        Returns:
            The parameters as Python values; none where they are left to the independent sampler
            or all of them are fixed already.

        Raises:
            ValueError: The study has more than one objective.
        """
        self._refuse_multi_objective(study)
        if len(fixed_params(trial, search_space)) == len(search_space):
            return {}
        reader = self._readers.of(study)
        # One suggestion at a time: the next thread is to know where this trial will be.
        with reader.suggesting:
            snapshot = reader.snapshot(study, trial, search_space, held_params(study, self))
            self._log_snapshot(snapshot)
            if self._is_started(snapshot.observations):
                params = self._sample_by_model(reader, study, trial, snapshot)
            elif self._independent_sampler is None:
                params = self._sample_for_startup(study, trial, snapshot)
            else:
                return {}
        return {name: params[name] for name in search_space}

    def _is_started(self, observations: Observations) -> bool:
        """Return whether the model takes over.

        It needs the observations of the start-up. Where most evaluations fail, that many may never
        come; then two do, as soon as there are twice as many points in all: the failed ones teach
        the model where not to look.
        """
        n_failed = 0 if observations.failed is None else len(observations.failed)
        n = len(observations.y)
        is_stuck = n >= _FEWEST_OBSERVATIONS and n + n_failed >= 2 * self._n_startup_trials
        return n >= max(self._n_startup_trials, 1) or (n_failed > 0 and is_stuck)

    def _sample_for_startup(
        self, study: Study, trial: FrozenTrial, snapshot: Snapshot
    ) -> dict[str, Any]:
        params = self._params_of_design(snapshot)
        store_proposal(study, trial, Proposal.of(params, snapshot.distributions))
        return params

    def _params_of_design(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return the trial's place in the space-filling design, which no other trial has.

        Once as many points have failed as the start-up has, the design has no order.
        """
        observations = snapshot.observations
        failed = () if observations.failed is None else observations.failed
        taken = [*observations.X, *observations.pending, *failed]
        x = randomness.design_point(
            snapshot.space,
            self._seed,
            snapshot.configuration,
            taken,
            irregular=len(failed) >= max(self._n_startup_trials, 1),
        )
        return snapshot.params_at(x)

    def _sample_by_model(
        self, reader: StudyReader, study: Study, trial: FrozenTrial, snapshot: Snapshot
    ) -> dict[str, Any]:
        if reader.once.first_time("model"):
            _logger.info(
                "%s: start-up is over, %s; a model suggests from trial %d on.",
                self,
                _counted(len(snapshot.observations.y), "observation"),
                trial.number,
            )
        n_chunks = 0
        for attempt in range(_MAX_ATTEMPTS):
            rng = randomness.model_generator(self._draw_seed, trial.number, attempt)
            suggestion = self._suggest(snapshot, rng)
            self._log_notes(suggestion.notes)
            params = snapshot.params_at(suggestion.x)
            proposal = _proposal(params, snapshot, suggestion)
            n_chunks = store_proposal(study, trial, proposal, replacing=n_chunks)
            # Another process may have been thinking at the same time and come to the same point.
            # It stores before it looks, as we do, so at least one of the two sees the other.
            appeared = reader.appeared(study, trial, snapshot)
            distances = snapshot.space.distances(suggestion.x[None, :], appeared)
            if not (distances < CLOSE).any():
                break
            snapshot = snapshot.with_pending(appeared)
        else:  # workers in step come to the same points again and again
            _logger.debug("%s: trial %d makes way for others, to any point.", self, trial.number)
            params = self._params_of_design(snapshot)
            own = replace(suggestion, arm=None, expected_gain=None)  # the point is not the model's
            proposal = _proposal(params, snapshot, own)
            store_proposal(study, trial, proposal, replacing=n_chunks)
        return params

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw one parameter that the model does not cover.

        Raises:
            ValueError: The study has more than one objective.
        """
        self._refuse_multi_objective(study)
        self._warn_if_uncovered(study, trial, param_name, param_distribution)
        if self._independent_sampler is not None:
            return self._independent_sampler.sample_independent(
                study, trial, param_name, param_distribution
            )
        dimension = dimension_of(param_distribution)
        return randomness.uniform_value(dimension, self._draw_seed, trial.number, param_name)

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Evaluate and store the constraints of a complete or pruned trial.

        Raises:
            ValueError: A constraint value is NaN.
            TypeError: ``constraints_func`` did not return a sequence of numbers.
        """
        if self._constraints_func is not None and state in {TrialState.COMPLETE, TrialState.PRUNED}:
            constraints = None
            try:
                constraints = checked_constraints(self._constraints_func(trial))
            finally:
                store_constraints(study, trial, constraints)
        if self._independent_sampler is not None:
            self._independent_sampler.after_trial(study, trial, state, values)

    def _refuse_multi_objective(self, study: Study) -> None:
        n_objectives = len(study.directions)
        if n_objectives != 1:
            raise ValueError(
                f"study must have one objective for {self}, but got {n_objectives}. For several, "
                "use NSGAIISampler, TPESampler or GPSampler of optuna.samplers."
            )

    def _warn_if_uncovered(
        self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> None:
        if not self._warn_independent_sampling or ("uncovered", name) in self._once:
            return
        if is_single(distribution):  # nothing for a model to suggest
            return
        reader = self._readers.of(study)
        if reader.shared_distributions(study).get(name) == distribution:
            return
        n_observed = sum(not math.isnan(row.value) for row in reader.read(study).observed)
        if n_observed < max(self._n_startup_trials, 1):
            return
        if self._once.first_time("uncovered", name):
            _logger.warning(
                "Parameter %r of trial %d is sampled by %s, not by the model of %s: not all "
                "complete trials have it with this range, as it is conditional, new, or its range "
                "has changed. The model knows nothing of it, which may cost performance. Pass "
                "warn_independent_sampling=False to %s to silence this warning.",
                name,
                trial.number,
                self._independent_sampler or "a uniform draw",
                self,
                self,
            )

    def _log_snapshot(self, snapshot: Snapshot) -> None:
        if snapshot.n_infinite and self._once.first_time("infinite"):
            _logger.warning(
                "%s: %s so far; an infinite value counts as the largest or smallest finite one.",
                self,
                _counted(snapshot.n_infinite, "infinite value"),
            )
        if snapshot.n_invalid_noise and self._once.first_time("noise"):
            _logger.warning(
                "%s: noise_func must return a finite non-negative variance, but did not for %s; "
                "noise without a variance counts as unknown.",
                self,
                _counted(snapshot.n_invalid_noise, "trial"),
            )
        if OTHERS in snapshot.constraints and self._once.first_time("constraints"):
            _logger.warning(
                "%s: the trials have more than %d constraints; the largest value of those reported "
                "least stands for them.",
                self,
                MAX_CONSTRAINTS,
            )
        if snapshot.n_unreadable and self._once.first_time("unreadable"):
            _logger.warning(
                "%s: what is stored with %s cannot be read and is ignored: it is damaged, or of "
                "another version of this package.",
                self,
                _counted(snapshot.n_unreadable, "trial"),
            )

    def _log_notes(self, notes: Sequence[str]) -> None:
        for note in notes:
            kind = _NUMBER.sub("#", note)  # the same note with other figures is the same kind
            if self._once.first_time("note", kind):
                _logger.warning("%s: %s", self, note)


def _proposal(params: dict[str, Any], snapshot: Snapshot, suggestion: ModelSuggestion) -> Proposal:
    return Proposal.of(
        params,
        snapshot.distributions,
        fits=suggestion.fits,
        constraints=snapshot.constraints,
        loss=suggestion.loss,
        arm=suggestion.arm,
        expected_gain=suggestion.expected_gain,
    )


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


@contextmanager
def failing_if_refused(study: Study, trial: FrozenTrial) -> Iterator[None]:
    """End ``trial`` as FAIL if its study is refused, with a ValueError, before anything is sampled.

    Optuna creates a trial before it asks the sampler, and leaves it RUNNING after an error there.
    """
    try:
        yield
    except ValueError:
        if not study._storage.get_trial(trial._trial_id).state.is_finished():
            study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        raise


def held_params(study: Study, sampler: BaseSampler) -> dict[str, Any]:
    """Return the values at which a PartialFixedSampler around ``sampler`` holds parameters."""
    held: dict[str, Any] = {}
    outer: Any = study.sampler
    while isinstance(outer, PartialFixedSampler):
        fixed = getattr(outer, "_fixed_params", None)
        held = {**(fixed if isinstance(fixed, dict) else {}), **held}
        outer = getattr(outer, "_base_sampler", None)
    return held if outer is sampler else {}
