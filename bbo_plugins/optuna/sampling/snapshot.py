"""A study's trials as the arrays a method works on.

A trial's part in it, by its state:

========  ========================================================================================
COMPLETE  an observation of all objectives, an infinitely good value as the best finite one; but one
          whose value is infinitely bad, far worse than usual
          (:func:`~bbo_plugins.methods.observations.failures_with_value`) or below a cutoff
          (:mod:`bbo_plugins.methods.penalties`) is as FAIL, unless a
          constraint is violated: then it is an observation of the constraints only; one with an
          outlier (:mod:`bbo_plugins.methods.outliers`) is an evaluated point without a value, whose
          constraints count
PRUNED    an observation that is not complete, of its predicted final value
          (:mod:`bbo_plugins.methods.learning_curves`); if the others do not tell, of the last
          report, but no better than the lower median of the complete ones; without a report or if
          the last one is not finite, as FAIL; by the same rules as a complete one, too
RUNNING   a pending point if its parameters are known: proposed, enqueued, or suggested already; no
          more once some tens of later trials have finished, as its worker is probably dead
FAIL      a failed point if it asked for any parameter: no observation, but not a point to suggest
          again
WAITING   nothing
========  ========================================================================================

A trial that Ray Tune removed before it ran is PRUNED without a value, and so is one without an
inner step to do; as nothing was evaluated, they are nothing.

Of trials that continue one another (:mod:`bbo_plugins.optuna.study.continuations`) only the
complete one with the longest training counts, as one observation; a continuation in any other state
is nothing, as the point is known from the trial it is to continue.

The search space has the parameters that the objective asks for now
(:class:`~bbo_plugins.optuna.study.parameters.ParameterLearner`), each with its latest range. A
trial outside of that is nothing. A range that depends on other parameters counts as the one that
holds all; what a model proposed outside the range that a trial then gave is a failed point beside
the trial. A parameter that some complete trial lacks has a condition
(:mod:`bbo_plugins.optuna.study.learned_conditions`), and so has one that only cut-off trials lack,
at levels where no complete trial was. A cut-off trial that lacks another parameter has the proposed
value of it; one without a proposal cannot be placed in the space and is left out. An infinite
constraint value keeps its sign and gets the largest finite magnitude, so that it stays violated or
satisfied.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.go_ucb.algorithm import FIT_NAME
from bbo_plugins.methods.observations import NO_ARM, Observations, TrialHistory, with_values
from bbo_plugins.optuna.sampling.preprocessing import FIRST_DECISION, Preprocessing, Preprocessor
from bbo_plugins.optuna.study.constraints import (
    MAX_CONSTRAINTS,
    OTHERS,
    are_feasible,
    constraint_table,
)
from bbo_plugins.optuna.study.parameters import dimension_of, is_modeled, is_value_of
from bbo_plugins.optuna.study.points import PlacedTrials, fixed_params, not_among
from bbo_plugins.optuna.study.storage import ARMS, Proposal
from bbo_plugins.optuna.study.trials import NoiseFunction, Once, StudyTrials, TrialReader, TrialRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    from bbo_plugins.space import Condition, SearchSpace
    from bbo_plugins.space.dimension import FloatArray

_MAX_RECORDS = 64  # stored proposals that are searched for a fit to continue
_NO_PROPOSAL = Proposal({})


@dataclass(frozen=True, kw_only=True)
class StudySnapshot:
    """The study when trial ``number`` was to be suggested, as every sampler reads it.

    Attributes:
        number: The trial's number.
        distributions: Distributions of all parameters that the model suggests or knows to be fixed.
        fixed: The fixed values.
        notes: What the user should know of the trials, by the kind of news.
    """

    number: int
    distributions: Mapping[str, BaseDistribution]
    fixed: Mapping[str, Any]
    notes: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Snapshot(StudySnapshot):
    """The study as the samplers that model values read it.

    Attributes:
        index: The trial's number among those that continue no other one.
        space: The parameters of the model, those held whose values are fixed for this trial.
        objectives: Finished and pending trials in the unit cube, maximized, once per objective:
            they differ in values and known noise.
        preprocessing: The input warping, the cutoff and the outliers of ``objectives``.
        fits: JSON form of the latest fit of each model, by the model's name.
        history: What suggested the other configurations, and their values.
        finished: Numbers of the configurations that have finished.
        whole: The snapshot of the study if this one has the trials of one branch only, else None.
    """

    index: int
    space: SearchSpace
    objectives: tuple[Observations, ...]
    preprocessing: Preprocessing
    fits: Mapping[str, Any]
    history: TrialHistory
    finished: frozenset[int]
    whole: Snapshot | None = None

    @property
    def observations(self) -> Observations:
        """The observations of the first objective, mostly the only one."""
        return self.objectives[0]

    @property
    def warm_starts(self) -> dict[str, WarmStart | None]:
        """What the latest fit of each Gaussian process left, None where that is unreadable."""
        of_processes = {n: fit for n, fit in self.fits.items() if not n.startswith(FIT_NAME)}
        return {name: WarmStart.from_json(fit) for name, fit in of_processes.items()}

    def params_at(self, x: FloatArray) -> dict[str, Any]:
        """Return the active parameters at point x (d,), with the fixed ones exactly as fixed."""
        return {**self.space.decode(x), **self.fixed}

    def with_pending(self, pending: FloatArray) -> Snapshot:
        """Return this snapshot with these pending points (p, d) in place of its own."""
        objectives = tuple(replace(one, pending=pending) for one in self.objectives)
        return replace(self, objectives=objectives)


class StudyReader:
    """Reads one study: its trials, and where they are in the latest search space.

    Only a cache: everything in it can be read from the study again. Safe to share among threads.

    Args:
        noise_func: Known noise variance of a finished trial's values; called once per trial.
        preprocessing_from: From how many complete trials on these decide on input warping
            (:mod:`bbo_plugins.methods.input_warping`) and on a cutoff
            (:mod:`bbo_plugins.methods.penalties`); never before twelve, None for never.
        outliers_from: The same for which values are outliers (:mod:`bbo_plugins.methods.outliers`);
            never with known noise.
        once: What the log has said of this study; None for nothing yet.

    Attributes:
        suggesting: Held while a suggestion is made, from reading the trials to storing it.
        once: What the log has said of this study.
    """

    def __init__(
        self,
        noise_func: NoiseFunction | None = None,
        preprocessing_from: int | None = 0,
        outliers_from: int | None = 0,
        *,
        once: Once | None = None,
    ) -> None:
        """Start with nothing read."""
        self.suggesting = threading.Lock()
        self.once = once or Once()
        self._knows_noise = noise_func is not None
        self._lock = threading.RLock()
        self._trials = TrialReader(noise_func, once=self.once)
        self._generation = 0
        self._placed = PlacedTrials({})
        self._make_preprocessor = partial(
            Preprocessor, preprocessing_from, None if self._knows_noise else outliers_from
        )
        self._preprocessor = self._make_preprocessor()

    def read(self, study: Study) -> StudyTrials:
        """Return the trials of ``study``."""
        with self._lock:
            trials = self._trials.read(study)
            if trials.generation != self._generation:
                if self._generation:  # another study by now
                    self.once.forget()
                self._generation = trials.generation
                self._placed = PlacedTrials({})
                self._preprocessor = self._make_preprocessor()
            return trials

    def distributions(self, study: Study) -> dict[str, BaseDistribution]:
        """Return the parameters that the objective asks for now, with the latest range.

        As long as no trial is complete, those that all others share. Left out are parameters with a
        single possible value, as there is nothing to suggest, and ranges that overflow.
        """
        trials = self.read(study)
        known = dict(trials.parameters.distributions)
        if known or any(row.complete for row in trials.rows):
            return known
        # One that ended before it suggested anything says nothing of the parameters.
        shared = _shared_by(
            row.trial
            for row in trials.rows
            if row.state.is_finished() and not row.never_ran and row.trial.distributions
        )
        return {name: shared[name] for name in sorted(shared) if is_modeled(shared[name])}

    def snapshot(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: Mapping[str, BaseDistribution],
        held: Mapping[str, Any],
        *,
        warps: Mapping[str, float] | None = None,
    ) -> Snapshot:
        """Return all that may influence what is suggested for ``trial``.

        Args:
            study: The study.
            trial: The trial to suggest for, which is left out.
            search_space: The parameters to suggest.
            held: Values at which other parameters are held. The model has a part in them too: it
                learns from trials where they were different.
            warps: Input warping; None for that which the trials decide on.
        """
        fixed = {**held, **fixed_params(trial, search_space)}
        with self._lock:
            trials = self.read(study)
            distributions = {**_known_and_held(trials, held), **search_space}
            placed = self.placed(distributions, trials.parameters.conditions)
            if len(trials.by_completion) < FIRST_DECISION:  # too few to decide on anything
                preprocessing = Preprocessing(warps or {})
            else:
                preprocessing = self._preprocessor.decide(trials, placed, held, warps)
            number = trial.number
            return _snapshot(
                trials, placed, number, fixed, preprocessing, knows_noise=self._knows_noise
            )

    def appeared(
        self, study: Study, trial: FrozenTrial, snapshot: Snapshot, *, only_earlier: bool = False
    ) -> tuple[Snapshot, FloatArray]:
        """Return ``snapshot`` with what is pending now, and the points (p, d) that are new in that.

        Points of trials that have finished since the snapshot count as pending. With
        ``only_earlier`` only trials with lower numbers than ``trial`` count.
        """
        with self._lock:
            trials = self.read(study)
            placed = self.placed(snapshot.distributions, trials.parameters.conditions)
            configurations = trials.configurations
            pending = placed.pending(configurations, trial.number, only_earlier=only_earlier)
            if only_earlier:
                trials = trials.before(trial.number)
            new = _finished(trials) - snapshot.finished
            _, observed = placed.place(
                [row for row in trials.observed if trials.first_of(row.number) in new]
            )
            failed = placed.failed(
                [row for row in trials.configurations if row.failed and row.number in new]
            )
        now = snapshot.space.stretched(np.concatenate([pending, observed, failed]))
        return snapshot.with_pending(now), not_among(now, snapshot.observations.pending)

    def place(
        self, snapshot: Snapshot, rows: Sequence[TrialRow]
    ) -> tuple[list[TrialRow], FloatArray]:
        """Return those of ``rows`` that have a place in the snapshot's space, and X (n, d)."""
        with self._lock:
            placed = self.placed(snapshot.distributions, snapshot.space.conditions)
            known, X = placed.place(rows)
        return known, snapshot.space.stretched(X)

    def placed(
        self,
        distributions: Mapping[str, BaseDistribution],
        conditions: Mapping[str, Condition] = MappingProxyType({}),
    ) -> PlacedTrials:
        """Return the trials placed by these parameters.

        Not to be called by two threads at once, as the result is shared and remembers what it has
        placed: one that suggests has :attr:`suggesting`.
        """
        self._placed = self._placed.over(distributions, conditions)
        return self._placed


def _finished(trials: StudyTrials) -> frozenset[int]:
    """Return the numbers of the configurations that have finished, those that failed included."""
    return frozenset(row.number for row in trials.configurations if row.state.is_finished())


def _known_and_held(trials: StudyTrials, held: Mapping[str, Any]) -> dict[str, BaseDistribution]:
    """Return the distributions of held parameters that the trials have."""
    known = trials.parameters.distributions
    return {
        name: known[name]
        for name, value in held.items()
        if name in known and is_value_of(dimension_of(known[name]), value)
    }


def _snapshot(
    trials: StudyTrials,
    placed: PlacedTrials,
    number: int,
    fixed: Mapping[str, Any],
    preprocessing: Preprocessing,
    *,
    knows_noise: bool,
) -> Snapshot:
    """Return the snapshot for trial ``number``; fixed values outside the space are ignored."""
    space = placed.space.warped(preprocessing.warps)
    fixed = {name: value for name, value in fixed.items() if placed.can_hold(name, value)}
    known, X = placed.place(trials.observed)
    unplaced = placed.unplaced(trials.observed)
    outside = [row for row in unplaced if placed.unconditional <= row.params.keys()]
    constraints, table = constraint_table(known) if trials.have_constraints else ((), None)
    noise = np.array([row.noise_variances for row in known], dtype=np.float64)
    noise = noise.reshape(len(known), trials.n_objectives)
    everything = Observations(
        X=space.stretched(X),
        y=np.zeros(len(known)),
        complete=np.array([row.complete for row in known], dtype=np.bool_),
        constraints=table if constraints else None,
        constraint_names=constraints,
        pending=space.stretched(placed.pending(trials.configurations, number)),
        failed=space.stretched(_failed(trials, placed)),
        has_value=np.ones(len(known), dtype=np.bool_),
        n_beside=np.array([row.n_beside for row in known], dtype=np.int64),
    )
    objectives = _with_values(
        [replace(everything, noise_variance=one if knows_noise else None) for one in noise.T],
        known,
        space,
        preprocessing,
    )
    others = (row for row in reversed(trials.rows) if row.number != number)
    return Snapshot(
        number=number,
        index=trials.index(number),
        space=space.held(fixed) if fixed else space,
        distributions=placed.distributions,
        fixed=fixed,
        objectives=objectives,
        fits=latest_fits(others, placed.space.names),
        history=trial_history(trials, number),
        finished=_finished(trials),
        preprocessing=preprocessing,
        notes=notes_of(
            example=_example_of(outside, placed),
            unplaced=len(outside),
            lacking=len(unplaced) - len(outside),
            infinite=sum(map(math.isinf, chain.from_iterable(row.values for row in known))),
            unreadable=sum(row.has_unreadable_proposal for row in trials.rows),
            noise=int(np.isnan(noise).any(axis=1).sum()) if knows_noise else 0,
            constraints=OTHERS in constraints,
        ),
    )


def _example_of(rows: Sequence[TrialRow], placed: PlacedTrials) -> str:
    """Return which parameter's value of the latest trial is outside, as the end of a message."""
    for row in rows[-1:]:
        for name, value in row.params.items():
            if name in placed.distributions and not placed.can_hold(name, value):
                return f", such as {name!r} in trial {row.number}"
    return ""


def _failed(trials: StudyTrials, placed: PlacedTrials) -> FloatArray:
    """Return the points (f, d) of failed trials, and proposals outside of dependent ranges."""
    failed = placed.failed([row for row in trials.configurations if row.failed])
    if not trials.parameters.dependent:
        return failed
    finished = [row for row in trials.configurations if row.state.is_finished()]
    return np.concatenate([failed, placed.refused(finished)])


def _with_values(
    objectives: Sequence[Observations],
    known: Sequence[TrialRow],
    space: SearchSpace,
    preprocessing: Preprocessing,
) -> tuple[Observations, ...]:
    """Return the observations of k objectives with the values of the n trials they are of."""
    outliers = preprocessing.outliers
    values = np.array([row.values for row in known], dtype=np.float64)
    are_final = all(row.complete for row in known)
    return with_values(
        objectives,
        values.reshape(len(known), len(objectives)),
        space,
        curves=None if are_final else [row.curve for row in known],
        outliers=np.array([row.number in outliers for row in known]) if outliers else None,
        cutoff=preprocessing.cutoff,
    )


_NOTES = {
    "unplaced": "{trials} left out: a parameter had a value that its latest range or type does not "
    "have{example}.",
    "lacking": "{trials} left out: a parameter was added later.",
    "infinite": "{n} infinite value{s} so far; an infinitely good value counts as the best finite "
    "one, an infinitely bad one as a failure, or is left out where a constraint is violated.",
    "clipped": "{n} infinite value{s} so far; an infinitely good value of an objective counts as "
    "the best finite one, an infinitely bad one as a failed query; a constraint's keeps its sign.",
    "unreadable": "what is stored with {trials} cannot be read and is ignored: it is damaged, or "
    "of another version of this package.",
    "noise": "noise_func must return a finite non-negative variance, but did not for {trials} "
    "(with several objectives, one for each); noise without a variance counts as unknown.",
    "constraints": f"the trials have more than {MAX_CONSTRAINTS} constraints; the largest value of "
    "those reported least stands for them.",
    "misfits": "{trials} left out: without a parameter of the levels, without the query, or with a "
    "parameter on no level.",
}


def notes_of(*, example: str = "", **counts: int) -> dict[str, str]:
    """Return what to say of the trials, by its kind, given how often each of these was met."""
    notes = {}
    for kind, n in counts.items():
        s = "s" if n > 1 else ""
        if n:
            notes[kind] = _NOTES[kind].format(n=n, s=s, trials=f"{n} trial{s}", example=example)
    return notes


def latest_fits(latest: Iterable[TrialRow], names: Sequence[str]) -> dict[str, Any]:
    """Return the JSON form of the latest fit of each model, by the model's name.

    What a retried trial has inherited is older than its number says.

    Args:
        latest: The trials, the latest first.
        names: Parameters that a proposal's model must have had for its fits to be of use.
    """
    fits: dict[str, Any] = {}
    storing = (row for row in latest if row.has_proposal and not row.is_retry)
    for row in islice(storing, _MAX_RECORDS):
        has_new = row.outline is not None and not row.outline.fits.keys() <= fits.keys()
        proposal = row.proposal if has_new else None
        if proposal is not None and proposal.names == names:
            fits = {**proposal.fits, **fits}
    return fits


def trial_history(trials: StudyTrials, asking: int) -> TrialHistory:
    """Return what suggested all configurations but the asking one, and their values.

    Args:
        trials: The study's trials.
        asking: Number of the trial to leave out.
    """
    observed = trials.observed
    has_constraints = trials.have_constraints
    feasible = are_feasible(observed) if has_constraints else [row.complete for row in observed]
    value_of = {
        trials.first_of(row.number): row.value
        for row, counts in zip(observed, feasible, strict=True)
        if counts
    }
    rows = [
        row
        for row in trials.configurations
        if row.number != asking and row.state is not TrialState.WAITING
    ]
    origins = [(not row.is_retry and row.outline) or _NO_PROPOSAL for row in rows]
    return TrialHistory(
        indices=np.array([trials.index(row.number) for row in rows], dtype=np.int64),
        arms=np.array(
            [ARMS.index(one.arm) if one.arm else NO_ARM for one in origins], dtype=np.int64
        ),
        finished=np.array([row.state.is_finished() for row in rows], dtype=np.bool_),
        values=np.array([value_of.get(row.number, math.nan) for row in rows], dtype=np.float64),
        expected_gains=np.array([one.expected_gain for one in origins], dtype=np.float64),
        criteria=np.array([one.criterion or "" for one in origins], dtype=np.object_),
    )


def _shared_by(trials: Iterable[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Return the parameters that all of ``trials`` have with the same distribution."""
    shared: dict[str, BaseDistribution] | None = None
    for trial in trials:
        items = (trial.distributions if shared is None else shared).items()
        shared = {name: one for name, one in items if trial.distributions.get(name) == one}
    return shared or {}
