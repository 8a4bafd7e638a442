"""The common base of the samplers that suggest with a model.

:class:`JointSampler` defines how a trial is suggested: check the study, read it, suggest, store the
proposal, and look whether another worker has proposed the same point meanwhile: then all but one of
them try again.
:class:`ModelSampler` is the base of the samplers with start-up, constraints and known noise; such a
sampler says how its model suggests a point of the unit cube.

A sampler keeps no state but its arguments: what it suggests for a trial follows from them, from the
trial's number, and from what the storage holds. The rest are caches, which deep copies and pickles
drop. The one exception is ``reseed_rng``, which Optuna calls before every trial if ``n_jobs`` > 1:
it changes what is drawn, but not the sequence of the start-up's points, which belong together.

Random numbers are derived from the seed, the trial's number and the purpose; nothing has a state
that a draw would advance. So a resumed study continues the sequence of an uninterrupted one, and
workers that share a seed do not repeat each other: their trials have different numbers.
"""

from __future__ import annotations

import functools
import logging
import math
import re
from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from zlib import crc32

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins import errors
from bbo_plugins.acquisition.maximize import clearance_of
from bbo_plugins.methods.observations import Suggestion
from bbo_plugins.optuna.sampling.branches import visiting
from bbo_plugins.optuna.sampling.design import (
    SEQUENCE_LENGTH,
    design_point,
    has_choice_without_value,
)
from bbo_plugins.optuna.sampling.snapshot import Snapshot, StudyReader, StudySnapshot
from bbo_plugins.optuna.study.constraints import checked_constraints, store_constraints
from bbo_plugins.optuna.study.parameters import (
    N_CHANGED,
    dimension_of,
    is_modeled,
    is_single,
    nearest_value,
)
from bbo_plugins.optuna.study.points import fixed_params
from bbo_plugins.optuna.study.storage import (
    ARMS,
    Proposal,
    end_as_failed,
    held_params,
    set_trial_attribute,
    store_proposal,
    withdraw_proposal,
)
from bbo_plugins.optuna.study.trials import BESIDE_KEY, PerStudy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.methods.go_ucb import GOUCBOptions
    from bbo_plugins.methods.gp_bo import Options
    from bbo_plugins.optuna.study.trials import NoiseFunction, Once
    from bbo_plugins.space.dimension import FloatArray

_logger = logging.getLogger(__name__)
_UNREADABLE_FIT = "a stored fit cannot be read, so the next one starts from nothing"
_MAX_ATTEMPTS, _MAX_BY_DESIGN = 16, 8  # by the method, then by the space-filling design
_LAST_ATTEMPT = _MAX_ATTEMPTS + _MAX_BY_DESIGN - 1
# What a generator is for: the same trial draws different numbers for different purposes.
_MODEL, _INDEPENDENT, _SHIFT = range(3)
_NUMBER = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")

SnapshotT = TypeVar("SnapshotT", bound=StudySnapshot)
SuggestionT = TypeVar("SuggestionT", bound=Suggestion)


class JointSampler(BaseSampler, Generic[SnapshotT, SuggestionT]):
    """Base class of the samplers that suggest all parameters of a trial together.

    Args:
        seed: Seed of all random numbers; None for fresh randomness.
        independent_sampler: Sampler for what the model does not suggest; None for uniform draws.
        make_reader: Returns the reader of a new study.
    """

    def __init__(
        self,
        seed: int | None,
        *,
        independent_sampler: BaseSampler | None = None,
        make_reader: Callable[..., StudyReader] = StudyReader,
    ) -> None:
        """Check the seed."""
        self._independent_sampler = independent_sampler
        self._seed = _fresh_entropy() if seed is None else errors.check_int("seed", seed, minimum=0)
        self._draw_seed = self._seed  # of all but the start-up's design; reseed_rng changes it
        self._readers = PerStudy(make_reader)

    @abstractmethod
    def _check_study(self, study: Study) -> None:
        """Raise ValueError if the number of objectives or their directions do not fit."""

    @abstractmethod
    def _modeled_distributions(self, study: Study) -> dict[str, BaseDistribution]:
        """Return the distributions of the parameters to suggest together."""

    @abstractmethod
    def _read(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> SnapshotT:
        """Return all that may influence what is suggested for ``trial``."""

    @abstractmethod
    def _suggest(self, snapshot: SnapshotT, rng: np.random.Generator) -> SuggestionT:
        """Suggest the next trial.

        It depends on these arguments and those of the constructor only.

        Args:
            snapshot: The study.
            rng: Generator of this trial's random numbers.
        """

    def _attempt(self, snapshot: SnapshotT, rng: np.random.Generator) -> SuggestionT:
        """Suggest the next trial; a subclass may suggest it from a part of the study."""
        return self._suggest(snapshot, rng)

    @abstractmethod
    def _suggest_by_design(self, snapshot: SnapshotT, rng: np.random.Generator) -> SuggestionT:
        """Suggest a point of the start-up's design, as others have taken what models suggest."""

    @abstractmethod
    def _params_of(self, snapshot: SnapshotT, suggestion: SuggestionT) -> dict[str, Any]:
        """Return the parameters suggested, fixed ones exactly as fixed."""

    @abstractmethod
    def _look_again(
        self, study: Study, trial: FrozenTrial, snapshot: SnapshotT, suggestion: SuggestionT
    ) -> SnapshotT | None:
        """Return None if no other worker has come to the same point, else what is known now."""

    @abstractmethod
    def _is_behind(
        self, study: Study, trial: FrozenTrial, snapshot: SnapshotT, suggestion: SuggestionT
    ) -> bool:
        """Return whether a trial with a lower number has come to the same point."""

    @abstractmethod
    def _warn_if_uncovered(
        self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> None:
        """Say, once per parameter, that the model does not suggest it."""

    @abstractmethod
    def _announcement(self, snapshot: SnapshotT, suggestion: SuggestionT) -> str:
        """Return what the log says of the first model's suggestion; empty while there is none."""

    @abstractmethod
    def _attributes_of(self, snapshot: SnapshotT, suggestion: SuggestionT) -> Mapping[str, Any]:
        """Return the system attributes that are stored beside the proposal, if not 0 or empty."""

    def _is_left_to_independent(self, snapshot: SnapshotT) -> bool:
        """Return whether the trial is left to the independent sampler."""
        del snapshot
        return False

    def reader_of(self, study: Study) -> StudyReader:
        """Return the reader of a study, which remembers what it has read."""
        return self._readers.of(study)

    def reseed_rng(self) -> None:
        """Mix fresh randomness into all draws; Optuna does this for ``n_jobs`` > 1.

        The sequence of the start-up stays as it is: every trial takes the point of its number, so
        that workers do not repeat each other, and one reseeded for each trial would fill no space.
        """
        mixed = np.random.SeedSequence([self._draw_seed, _fresh_entropy()])
        high, low = mixed.generate_state(2, np.uint64).tolist()
        self._draw_seed = high << 64 | low
        if self._independent_sampler is not None:
            self._independent_sampler.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Refuse a study that does not fit; the trial made for it ends as failed.

        Raises:
            ValueError: Its number of objectives or their directions do not fit.
        """
        try:
            self._check_study(study)
        except ValueError:  # Optuna leaves a trial RUNNING after an error here
            end_as_failed(study, trial)
            raise
        if self._independent_sampler is not None:
            self._independent_sampler.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that the model suggests together.

        Raises:
            ValueError: The study does not fit.
        """
        del trial
        self._check_study(study)
        return self._modeled_distributions(study)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Suggest the parameters of ``search_space`` together.

        Returns:
            The parameters as Python values; none where they are left to the independent sampler
            or all of them are fixed already.

        Raises:
            ValueError: The study does not fit.
        """
        self._check_study(study)
        if len(fixed_params(trial, search_space)) == len(search_space):
            return {}
        # One suggestion at a time: the next thread is to know where this trial will be.
        # NumPy's defaults, whatever the program has set: overflow is looked for afterwards.
        numpy_defaults = np.errstate(divide="warn", over="warn", invalid="warn", under="ignore")
        reader = self._readers.of(study)
        with reader.suggesting, numpy_defaults:
            snapshot = self._read(study, trial, search_space)
            self._log_snapshot(snapshot, reader.once)
            if self._is_left_to_independent(snapshot):
                return {}
            params = self._suggest_and_store(study, trial, snapshot, reader.once)
        return {name: params[name] for name in search_space if name in params}

    def _suggest_and_store(
        self, study: Study, trial: FrozenTrial, snapshot: SnapshotT, once: Once
    ) -> dict[str, Any]:
        """Suggest what no other trial does, as far as that can be known, and store it.

        Another process may have been thinking at the same time and come to the same point. Each
        stores before it looks, so at least one of the two sees the other. One that sees a trial
        with a lower number there withdraws its proposal at once, and thinks of another point. One
        that sees only higher numbers thinks of another point, too, but looks again before that is
        stored: if the others have withdrawn, it keeps the first point. They stay if they had looked
        before it stored.
        """
        n_chunks, stored = 0, set(trial.system_attrs)  # which a retried trial inherits
        kept: tuple[SnapshotT, SuggestionT] | None = None  # what is stored, if it may be kept
        for attempt in range(_LAST_ATTEMPT + 1):
            rng = model_generator(self._draw_seed, trial.number, attempt)
            by_design = attempt >= _MAX_ATTEMPTS  # workers have met again and again
            suggestion = (self._suggest_by_design if by_design else self._attempt)(snapshot, rng)
            if kept is not None and self._look_again(study, trial, *kept) is None:
                break
            if by_design:
                _logger.debug("%s: trial %d makes way for others.", self, trial.number)
            self._log_notes(suggestion.notes, once)
            announcement = self._announcement(snapshot, suggestion)
            if announcement and once.first_time("announcement"):
                _logger.info("%s: %s", self, announcement)
            params = self._params_of(snapshot, suggestion)
            proposal = self._proposal_of(snapshot, suggestion, params)
            n_chunks = store_proposal(study, trial, proposal, replacing=n_chunks)
            for key, value in self._attributes_of(snapshot, suggestion).items():
                if value or key in stored:
                    set_trial_attribute(study, trial, key, value)
                    stored.add(key)
            seen = self._look_again(study, trial, snapshot, suggestion)
            if seen is None or attempt == _LAST_ATTEMPT:
                break
            kept = snapshot, suggestion
            if self._is_behind(study, trial, snapshot, suggestion):
                withdraw_proposal(study, trial)
                kept = None
            snapshot = seen
        return params

    def _proposal_of(
        self, snapshot: SnapshotT, suggestion: SuggestionT, params: Mapping[str, Any]
    ) -> Proposal:
        """Return what is stored of a suggestion of these parameters."""
        return replace(
            Proposal.of(params, snapshot.distributions),
            fits={name: start.to_json() for name, start in suggestion.warm_starts.items()},
            criterion=suggestion.criterion,
            arm=None if suggestion.arm is None else ARMS[suggestion.arm],
            expected_gain=suggestion.expected_gain,
        )

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Draw one parameter that the model does not cover.

        If a model has proposed a number outside the range, the value is the nearest one in it.

        Raises:
            ValueError: The study does not fit.
        """
        self._check_study(study)
        proposed = _proposed_number(trial, param_name, param_distribution)
        if proposed is not None:
            return nearest_value(param_distribution, proposed)
        self._warn_if_uncovered(study, trial, param_name, param_distribution)
        if self._independent_sampler is not None:
            return self._independent_sampler.sample_independent(
                study, trial, param_name, param_distribution
            )
        name = crc32(param_name.encode("utf-8", "surrogatepass"))
        rng = _generator(self._draw_seed, trial.number, _INDEPENDENT, name)
        if not is_modeled(param_distribution):  # a single value, or a range that overflows
            if isinstance(param_distribution, FloatDistribution):
                low, high = param_distribution.low, param_distribution.high
                if math.isinf(high - low):  # Optuna cannot draw from it
                    share = float(rng.random())
                    return low * (1.0 - share) + high * share
            fallback = RandomSampler(seed=int(rng.integers(2**31)))
            return fallback.sample_independent(study, trial, param_name, param_distribution)
        return dimension_of(param_distribution).decode(float(rng.random()))

    def _log_snapshot(self, snapshot: SnapshotT, once: Once) -> None:
        """Say what the trials tell, each thing once in this study."""
        for kind, note in snapshot.notes.items():
            if self._is_due(kind, snapshot) and once.first_time(kind):
                _logger.warning("%s: %s", self, note)

    def _is_due(self, kind: str, snapshot: SnapshotT) -> bool:
        """Return whether a note of this kind is to be logged already."""
        del kind, snapshot
        return True

    def _log_notes(self, notes: Sequence[str], once: Once) -> None:
        for note in notes:
            kind = _NUMBER.sub("#", note)  # the same note with other figures is the same kind
            if once.first_time("note", kind):
                _logger.warning("%s: %s", self, note)


class ModelSampler(JointSampler[Snapshot, Suggestion]):
    """Base class of the samplers that model values; for one objective, unless told otherwise.

    Args:
        n_startup_trials: Points that are evaluated or have failed before the model takes over, one
            at least evaluated.
        noise_func: Known noise variance of a finished trial's value, in squared units of the value.
        constraints_func: Constraint values of a finished trial, violated where above zero.
        independent_sampler: Sampler for the start-up and for parameters the model does not cover;
            None for a space-filling start-up and uniform draws.
        warn_independent_sampling: Whether to warn when the model does not cover a parameter.
        deterministic_objective: Whether the same parameters always give the same value; then none
            is an outlier.
        preprocesses: Whether the trials decide on input warping, on a cutoff, below which values
            count as failures, and on outliers, which are left out.
        seed: Seed of all random numbers; None for fresh randomness.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value outside its range.
    """

    def __init__(
        self,
        *,
        n_startup_trials: int,
        noise_func: NoiseFunction | None,
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None,
        independent_sampler: BaseSampler | None,
        warn_independent_sampling: bool,
        seed: int | None,
        deterministic_objective: bool,
        preprocesses: bool = True,
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
        self._deterministic = errors.check_bool("deterministic_objective", deterministic_objective)
        self._noise_func = noise_func
        self._constraints_func = constraints_func
        preprocessing_from = self._n_startup_trials if preprocesses else None
        make_reader = functools.partial(
            StudyReader,
            noise_func,
            preprocessing_from=preprocessing_from,
            outliers_from=None if self._deterministic else preprocessing_from,
        )
        super().__init__(seed, independent_sampler=independent_sampler, make_reader=make_reader)

    @property
    @abstractmethod
    def model_options(self) -> Options | GOUCBOptions:
        """The options of the method: what plots have to know of a sampler."""

    def _check_study(self, study: Study) -> None:
        n_objectives = len(study.directions)
        if n_objectives != 1:
            raise ValueError(
                f"study must have one objective for {self}, but got {n_objectives}. BBOSampler "
                "takes several."
            )

    def _modeled_distributions(self, study: Study) -> dict[str, BaseDistribution]:
        return self._readers.of(study).distributions(study)

    def _read(
        self, study: Study, trial: FrozenTrial, search_space: Mapping[str, BaseDistribution]
    ) -> Snapshot:
        held = held_params(study, self)
        return self._readers.of(study).snapshot(study, trial, search_space, held)

    def _is_left_to_independent(self, snapshot: Snapshot) -> bool:
        return self._independent_sampler is not None and not self._is_started(snapshot)

    def _attempt(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        if not self._is_started(snapshot):
            return self._suggest_by_design(snapshot, rng)
        if not snapshot.space.is_conditional:
            return super()._attempt(snapshot, rng)
        visit = visiting(snapshot, deterministic=self.model_options.deterministic)
        suggestion = super()._attempt(visit, rng)
        # What fits one branch is no start for a model of all.
        if visit.whole is None:
            return suggestion
        return replace(suggestion, warm_starts={})

    def _is_started(self, snapshot: Snapshot) -> bool:
        """Return whether the model takes over.

        It needs the points of the start-up. Failed ones count as soon as one is evaluated: they
        teach the model where not to look, and the one where to. If they would end the start-up
        while a choice of a category, or a branch of conditional parameters, has no value, twice as
        many points are needed: a model leaves it. It waits, too, as long as all values are the
        same, or all points violate a constraint by the same value, which says nothing of where to
        look.
        """
        if _lack_direction(snapshot):
            return False
        observations = snapshot.observations
        n, n_needed = len(observations.y), self._n_startup_trials
        if n < n_needed and has_choice_without_value(snapshot):
            n_needed *= 2
        return n > 0 and n + len(observations.failed) >= n_needed

    def _suggest_by_design(self, snapshot: Snapshot, rng: np.random.Generator) -> Suggestion:
        """Suggest the trial's place in the space-filling design, which no other trial has.

        Once as many points have failed as the start-up has, or give no direction, the design has no
        order.
        """
        observations = snapshot.observations
        failed = observations.failed
        n_useless = len(failed) + (len(observations.y) if _lack_direction(snapshot) else 0)
        sequence, index = divmod(snapshot.index, SEQUENCE_LENGTH)
        x = design_point(
            snapshot.space,
            index,
            [*observations.X, *observations.pending, *failed],
            shift=_generator(self._seed, sequence, _SHIFT),
            rng=rng,
            irregular=n_useless >= max(self._n_startup_trials, 1),
        )
        return Suggestion(x)

    def _params_of(self, snapshot: Snapshot, suggestion: Suggestion) -> dict[str, Any]:
        return snapshot.params_at(suggestion.x)

    def _proposal_of(
        self, snapshot: Snapshot, suggestion: Suggestion, params: Mapping[str, Any]
    ) -> Proposal:
        done = snapshot.preprocessing
        return replace(
            super()._proposal_of(snapshot, suggestion, params),
            warps=snapshot.space.warps,
            outliers=tuple(sorted(done.outliers)),
            number=snapshot.number if done.outliers else None,
            cutoff=done.cutoff if math.isfinite(done.cutoff) else None,
            digests=done.digests,
        )

    def _attributes_of(self, snapshot: Snapshot, suggestion: Suggestion) -> Mapping[str, Any]:
        return {BESIDE_KEY: len(snapshot.observations.pending) if suggestion.is_by_model else 0}

    def _look_again(
        self, study: Study, trial: FrozenTrial, snapshot: Snapshot, suggestion: Suggestion
    ) -> Snapshot | None:
        now, appeared = self._readers.of(study).appeared(study, trial, snapshot)
        return now if _is_taken(snapshot, suggestion, appeared) else None

    def _is_behind(
        self, study: Study, trial: FrozenTrial, snapshot: Snapshot, suggestion: Suggestion
    ) -> bool:
        reader = self._readers.of(study)
        _, appeared = reader.appeared(study, trial, snapshot, only_earlier=True)
        return _is_taken(snapshot, suggestion, appeared)

    def _is_due(self, kind: str, snapshot: Snapshot) -> bool:
        # At first a range that depends on other parameters may not be known as one.
        return kind != "unplaced" or snapshot.index >= max(self._n_startup_trials, N_CHANGED)

    def _log_snapshot(self, snapshot: Snapshot, once: Once) -> None:
        super()._log_snapshot(snapshot, once)
        for name, w in snapshot.space.warps.items():
            if once.first_time("warp", name):
                _logger.info(
                    "%s: changes gather at the %s end of %r, so the models see it stretched.",
                    self,
                    "low" if w > 0.0 else "high",
                    name,
                )
        if math.isfinite(snapshot.preprocessing.cutoff) and once.first_time("cutoff"):
            _logger.info(
                "%s: the worst values only tell the models where not to look, as the others are "
                "predicted better without them; the study keeps them.",
                self,
            )
        outliers = sorted(snapshot.preprocessing.outliers)
        left_out = [n for n in outliers if once.first_time("outlier", n)]
        if left_out:
            _logger.info(
                "%s: %s far worse than the others suggest, so the models leave %s out.",
                self,
                f"trial {left_out[0]} is"
                if len(left_out) == 1
                else f"trials {', '.join(map(str, left_out))} are",
                "it" if len(left_out) == 1 else "them",
            )

    def _announcement(self, snapshot: Snapshot, suggestion: Suggestion) -> str:
        if not suggestion.is_by_model:
            return ""
        n = len(snapshot.observations.y)
        observations = f"{n} observation" + "s" * (n > 1)
        index = snapshot.index
        if snapshot.history.first_suggested(index) < index:  # a study that goes on
            return f"a model goes on from {observations}."
        return (
            f"start-up is over, {observations}; a model suggests from trial {snapshot.number} on."
        )

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

    def _warn_if_uncovered(
        self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> None:
        reader = self._readers.of(study)
        if not self._warn_independent_sampling or ("uncovered", name) in reader.once:
            return
        if is_single(distribution):  # nothing for a model to suggest
            return
        trials = reader.read(study)
        if name in trials.parameters.dependent:  # the models know of it
            return
        known = reader.distributions(study).get(name)
        had = [row.trial.distributions.get(name) for row in trials.observed]
        if known == distribution or not any(had):  # the next model knows of it
            return
        n_observed = sum(not math.isnan(row.value) for row in trials.observed)
        n_failed = sum(row.failed for row in trials.configurations)
        # At first a range that depends on other parameters is not known as one.
        least = max(self._n_startup_trials, 0 if known is None else N_CHANGED)
        if n_observed == 0 or n_observed + n_failed < least:
            return
        if reader.once.first_time("uncovered", name):
            _logger.warning(
                "Parameter %r of trial %d is sampled by %s, not by the model of %s: %s. Pass "
                "warn_independent_sampling=False to %s to silence this warning.",
                name,
                trial.number,
                self._independent_sampler or "a uniform draw",
                self,
                _why_uncovered(
                    known, had[-1], distribution, disputed=name in trials.parameters.disputed
                ),
                self,
            )


def _proposed_number(trial: FrozenTrial, name: str, range_: BaseDistribution) -> float | None:
    """Return which number a model proposed for a parameter that has a range of several, if any."""
    if isinstance(range_, CategoricalDistribution) or not is_modeled(range_):
        return None
    proposal = Proposal.from_attributes(trial.system_attrs)
    return proposal.params.get(name) if proposal is not None and proposal.is_by_model else None


def _why_uncovered(
    known: BaseDistribution | None,
    latest: BaseDistribution | None,
    distribution: BaseDistribution,
    *,
    disputed: bool,
) -> str:
    """Return why the model has not suggested a parameter.

    Args:
        known: As what the model knows it, if it does.
        latest: What the latest trial had of it, if anything.
        distribution: What the trial asks for.
        disputed: Whether trials disagree about its type.
    """
    if known is not None:
        return f"its range was {known!r} in an earlier trial and is {distribution!r} now"
    if disputed:
        return "trials disagree about its type"
    if latest is not None and is_single(latest):
        return "it had one possible value until now"
    if is_modeled(distribution):
        return "the latest trials did not have it"
    return f"the range of {distribution!r} overflows"


def _is_taken(snapshot: Snapshot, suggestion: Suggestion, appeared: FloatArray) -> bool:
    """Return whether the suggestion is as good as at one of the points (p, d) that appeared."""
    space = snapshot.space
    # The least that a model keeps: with noise it may keep more.
    clearance = clearance_of(appeared, snapshot.observations.X, space, noisy=False)
    return bool((space.distances(suggestion.x[None, :], appeared) <= clearance).any())


def _lack_direction(snapshot: Snapshot) -> bool:
    """Return whether no objective's observations tell where to look."""
    return all(one.lacks_direction for one in snapshot.objectives)


def model_generator(seed: int, number: int, draw: int = 0) -> np.random.Generator:
    """Return the generator for everything a model draws for one trial.

    Args:
        seed: The sampler's seed.
        number: The trial's number.
        draw: Tells independent draws for one trial apart, as those of attempts to suggest it.
    """
    return _generator(seed, number, _MODEL, draw)


def _generator(seed: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, *key]))


def _fresh_entropy() -> int:
    """Return 128 random bits from the operating system."""
    return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]


def with_note_if_unreadable(step: SuggestionT, warm_starts: Mapping[str, object]) -> SuggestionT:
    """Return a suggestion with a note if a stored fit of its models could not be read, so is None.

    Others may be of models that the sampler does not have.
    """
    if all(warm_starts[name] for name in step.warm_starts if name in warm_starts):
        return step
    return replace(step, notes=(*step.notes, _UNREADABLE_FIT))
