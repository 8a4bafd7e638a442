"""A study's trials, one row each: state, parameters, value, constraints, noise, proposal.

A stored trial is read once. A row's values, one per objective, are maximized: signs are flipped
here, but for BILBO's functions (:mod:`bbo_plugins.optuna.bilevel.trials`). A complete trial has its
values, possibly infinite, and a pruned one its last intermediate value, if that is finite. Other
trials have none, nor has a pruned one with several objectives, for which Optuna knows no
intermediate values. The use of the trials in each state stands in one table, in
:mod:`bbo_plugins.optuna.sampling.snapshot`.

Constraint values are read in both of Optuna's forms: the list of ``constraints_func`` and the
single values of ``Trial.set_constraint``.
"""

from __future__ import annotations

import functools
import logging
import math
import numbers
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from bbo_plugins import errors
from bbo_plugins.methods.learning_curves import LearningCurve
from bbo_plugins.optuna.study.continuations import CONTINUED_FROM, first_trials, index_of
from bbo_plugins.optuna.study.parameters import ParameterLearner, Parameters, is_in_range
from bbo_plugins.optuna.study.storage import (
    CONSTRAINTS_KEY,
    RETRY_HISTORY,
    Proposal,
    address,
    all_trials,
    identity,
    is_stored,
    set_trial_attribute,
)

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


_logger = logging.getLogger(__name__)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - Optuna's times have no zone
_NEVER_RAN = "bbo_plugins:never_ran"  # system attribute
BILEVEL_KEY = "bbo_plugins:bilevel"  # system attribute of a bilevel study's trials: why BILBO asked
BESIDE_KEY = "bbo_plugins:beside"  # system attribute: how many trials ran beside it, if any did
_MAX_BESIDE = 1_000
_LARGEST_STEP = 2**53  # floats tell the steps up to it apart
_OBSERVED = (TrialState.COMPLETE, TrialState.PRUNED)
# A running trial that so many later ones have overtaken counts as dead: its worker cannot tell. For
# each later trial that still runs, hence for each worker, it takes a few more. That is more than
# workers overtake by chance, and few enough that a crash does not block a region for most of a
# study. A trial that is merely slow loses nothing but the distance that others keep from it. Only
# the storage is asked, not the clock, so a resumed study decides the same.
_MAX_OVERTAKEN, _MORE_PER_RUNNING = 32, 4
_MAX_STUDIES = 8  # studies of one storage that are remembered
_MAX_MESSAGES = 1_000  # studies of which it is remembered what the log has said

# Returns the known noise variance of a finished trial's value, a sequence for several objectives.
NoiseFunction: TypeAlias = Callable[[FrozenTrial], float | Sequence[float]]
_Reader = TypeVar("_Reader")
_Trial = TypeVar("_Trial", "TrialRow", FrozenTrial)


@dataclass(frozen=True)
class TrialRow:
    """One stored trial; :meth:`read` builds one.

    The row of a finished trial is kept, and every suggestion asks all of them. So what many of its
    properties return is remembered.

    Attributes:
        trial: The trial as the storage holds it.
        number: Its number.
        state: Its state.
        params: Its parameters so far.
        values: Its value for each objective, maximized, or if pruned the last one it reported; all
            NaN if there are none to be used.
        constraints: Its constraint values by name, if it is complete or pruned.
        noise_variances: Known variance of each value's noise, NaN if unknown.
        sign: What its reports are multiplied by to be maximized: 1 or -1.
    """

    trial: FrozenTrial
    number: int
    state: TrialState
    params: Mapping[str, Any]
    values: tuple[float, ...]
    constraints: Mapping[str, float]
    noise_variances: tuple[float, ...]
    sign: float

    @classmethod
    def read(
        cls,
        trial: FrozenTrial,
        *,
        signs: Sequence[float] = (1.0,),
        noise_func: NoiseFunction | None = None,
    ) -> TrialRow:
        """Read a trial in any state.

        Args:
            trial: The trial.
            signs: Of each objective: 1 if it is maximized, -1 if minimized, see :func:`signs_of`.
            noise_func: Known noise variance of a trial's values; called if there are values.
        """
        stored = _values_of(trial, len(signs))
        values = tuple(sign * value for sign, value in zip(signs, stored, strict=True))
        noise = _unknown(len(signs))
        if noise_func is not None and not math.isnan(values[0]):
            noise = _variances(noise_func(trial), len(signs))
        return cls(
            trial=trial,
            number=trial.number,
            state=trial.state,
            params=trial.params,
            values=values,
            constraints=_constraints_of(trial) if trial.state in _OBSERVED else {},
            noise_variances=noise,
            sign=signs[0],
        )

    @cached_property
    def value(self) -> float:
        """The value for the first objective; NaN if there are no values to be used."""
        return self.values[0]

    @cached_property
    def complete(self) -> bool:
        """Whether the trial is complete, so that its value is final."""
        return self.state is TrialState.COMPLETE

    @property
    def violates(self) -> bool:
        """Whether it violates a constraint, as far as it reports them."""
        return any(value > 0.0 for value in self.constraints.values())

    @cached_property
    def failed(self) -> bool:
        """Whether its evaluation has failed, or was cut off without a value that can be used."""
        if self.never_ran:
            return False
        if self.state is TrialState.PRUNED:
            return math.isnan(self.value)
        return self.state is TrialState.FAIL

    @cached_property
    def never_ran(self) -> bool:
        """Whether it has ended before its evaluation began."""
        return never_ran(self.trial)

    @cached_property
    def is_retry(self) -> bool:
        """Whether it repeats a failed trial; its proposal is that one's, which counts already."""
        return RETRY_HISTORY in self.trial.system_attrs

    @property
    def repeated(self) -> tuple[Any, ...]:
        """Numbers of the failed trials that it repeats."""
        found = self.trial.system_attrs.get(RETRY_HISTORY)
        return tuple(found) if isinstance(found, list) else ()

    @cached_property
    def n_beside(self) -> int:
        """How many other trials were running when a model suggested it."""
        stored = self.trial.system_attrs.get(BESIDE_KEY)
        return stored if isinstance(stored, int) and 0 < stored <= _MAX_BESIDE else 0

    @cached_property
    def finished_at(self) -> float:
        """When it finished, in seconds; infinity if that is not known."""
        return seconds_of(self.trial.datetime_complete, unknown=math.inf)

    @property
    def completion_order(self) -> tuple[float, int]:
        """By what trials are put in the order in which they finished."""
        return self.finished_at, self.number

    @cached_property
    def curve(self) -> LearningCurve:
        """What it reported while it ran, but for what is not finite."""
        reports = self.trial.intermediate_values
        steps = [step for step in sorted(reports) if math.isfinite(reports[step])]
        values = np.array([reports[step] for step in steps], dtype=np.float64)
        within = [float(min(max(step, -_LARGEST_STEP), _LARGEST_STEP)) for step in steps]
        return LearningCurve(np.array(within, dtype=np.float64), self.sign * values)

    @cached_property
    def is_inside(self) -> bool:
        """Whether its numbers are in its own ranges: enqueued and fixed ones need not be."""
        ranges = self.trial.distributions
        return all(is_in_range(ranges[name], value) for name, value in self.params.items())

    @cached_property
    def has_proposal(self) -> bool:
        """Whether a proposal is stored with the trial, readable or not."""
        return is_stored(self.trial.system_attrs)

    @cached_property
    def has_unreadable_proposal(self) -> bool:
        """Whether that of an observed trial cannot be read.

        It may be half written as long as the trial runs, or if its worker has died meanwhile.
        """
        return self.has_proposal and self.state in _OBSERVED and self.outline is None

    @property
    def proposal(self) -> Proposal | None:
        """The stored proposal; None if there is none that can be read."""
        return Proposal.from_attributes(self.trial.system_attrs)

    @cached_property
    def outline(self) -> Proposal | None:
        """The same with the names of its fits only, which is kept in memory."""
        proposal = self.proposal
        return None if proposal is None else replace(proposal, fits=dict.fromkeys(proposal.fits))


def never_ran(trial: FrozenTrial) -> bool:
    """Return whether a trial has ended before its evaluation began."""
    return _NEVER_RAN in trial.system_attrs


def beginning_none(trials: Sequence[FrozenTrial]) -> list[int]:
    """Return the numbers of those of a study's trials that begin no configuration, ascending.

    These are continuations, and trials that never ran.
    """
    return sorted({*first_trials(trials), *(one.number for one in trials if never_ran(one))})


def mark_never_ran(study: Study, trial: Trial | FrozenTrial) -> None:
    """Note that a running trial is about to end before its evaluation has begun."""
    set_trial_attribute(study, trial, _NEVER_RAN, value=True)


def running_trials(trials: Sequence[_Trial]) -> list[_Trial]:
    """Return those of ``trials``, which are by number, that run and whose worker is not dead."""
    running: list[_Trial] = []
    n_overtaking = 0
    for trial in reversed(trials):
        if n_overtaking >= _MAX_OVERTAKEN + _MORE_PER_RUNNING * len(running):
            break
        n_overtaking += trial.state.is_finished()
        if trial.state is TrialState.RUNNING:
            running.append(trial)
    return running[::-1]


@dataclass(frozen=True)
class StudyTrials:
    """The trials of one study at one time; :meth:`TrialReader.read` builds one.

    Attributes:
        rows: All trials by number.
        n_objectives: How many objectives the study has.
        parameters: Those that the objective asks for now; none without a complete trial.
        generation: Another number if this is another study, under an identifier used before.
    """

    rows: Sequence[TrialRow]
    n_objectives: int
    parameters: Parameters
    generation: int

    def before(self, number: int) -> StudyTrials:
        """Return the trials with lower numbers than ``number``."""
        return replace(self, rows=self.rows[:number])

    @cached_property
    def first(self) -> Mapping[int, int]:
        """For each continuation, by number, the first trial of its configuration."""
        if not any(CONTINUED_FROM in row.trial.user_attrs for row in self.rows):
            return {}
        return first_trials([row.trial for row in self.rows])

    def first_of(self, number: int) -> int:
        """Return the number of the first trial of the configuration of trial ``number``."""
        return self.first.get(number, number)

    @cached_property
    def configurations(self) -> Sequence[TrialRow]:
        """The trials that continue no other one."""
        return [row for row in self.rows if row.number not in self.first]

    def index(self, number: int) -> int:
        """Return how many configurations are older than the one that trial ``number`` begins.

        Unlike in :func:`beginning_none`, trials that never ran are among them: models count them.
        """
        return index_of(number, self._continuations) if self.first else number

    @cached_property
    def _continuations(self) -> list[int]:
        return list(self.first)

    @cached_property
    def observed(self) -> list[TrialRow]:
        """One complete or pruned trial of each configuration, by its own number.

        It is the latest complete one, which has the longest training. A continuation in any other
        state stands for nothing: the trial it was to continue still does.
        """
        rows, first = [row for row in self.rows if row.state in _OBSERVED], self.first
        if not first:
            return rows
        latest = {
            first[row.number]: row.number for row in rows if row.complete and row.number in first
        }
        return [
            row
            for row in rows
            if latest.get(beginning := self.first_of(row.number), beginning) == row.number
        ]

    @cached_property
    def have_constraints(self) -> bool:
        """Whether an observed trial reports a constraint."""
        return any(row.constraints for row in self.observed)

    @cached_property
    def by_completion(self) -> list[TrialRow]:
        """The complete ones among the observed trials, the first to finish first."""
        return sorted(
            (row for row in self.observed if row.complete), key=attrgetter("completion_order")
        )


class TrialReader:
    """Reads the trials of one study, each finished one once.

    Only a cache: everything in it can be read from the study again. Not to be shared among threads.

    Args:
        noise_func: Known noise variance of a finished trial's values; called once per trial. It
            counts as unknown if that raises an exception.
        once: What the log has said of this study; None for nothing yet.
    """

    def __init__(
        self, noise_func: NoiseFunction | None = None, *, once: Once | None = None
    ) -> None:
        """Start with nothing read."""
        once = once or Once()
        self._noise_func = noise_func and functools.partial(_noise_or_nan, noise_func, once)
        self._generation = 0
        self._forget()

    def _forget(self, signs: tuple[float, ...] = ()) -> None:
        self._generation += 1
        self._signs = signs
        self._finished: dict[int, TrialRow] = {}
        self._parameters = ParameterLearner()

    def read(self, study: Study) -> StudyTrials:
        """Return all trials of ``study``."""
        trials = all_trials(study)
        signs = signs_of(study)
        if self._signs != signs or self._is_another_study(trials):
            self._forget(signs)
        return StudyTrials(
            # First: the parameters learn from them.
            rows=[self._finished.get(trial.number) or self._read(trial) for trial in trials],
            n_objectives=len(signs),
            parameters=self._parameters.parameters(),
            generation=self._generation,
        )

    def _is_another_study(self, trials: Sequence[FrozenTrial]) -> bool:
        """Return whether trials are missing, or have finished at another time."""
        known = map(self._finished.get, range(len(trials)))
        return len(trials) < len(self._finished) or any(
            row is not None
            and row.trial is not trial
            and row.trial.datetime_complete != trial.datetime_complete
            for row, trial in zip(known, trials, strict=True)
        )

    def _read(self, trial: FrozenTrial) -> TrialRow:
        row = TrialRow.read(trial, signs=self._signs, noise_func=self._noise_func)
        if row.state.is_finished():
            self._finished[row.number] = row
            self._parameters.add(trial)
        return row


class Once:
    """A set that answers, safely among threads, whether something happens for the first time.

    A deep copy or a pickle starts with nothing seen.
    """

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._lock = threading.Lock()
        self._seen: set[Any] = set()

    def __reduce__(self) -> tuple[type[Once], tuple[()]]:
        """Leave everything out."""
        return Once, ()

    def first_time(self, *key: Any) -> bool:
        """Return True the first time it is called with these arguments, False ever after."""
        with self._lock:
            first = key not in self._seen
            self._seen.add(key)
            return first

    def forget(self) -> None:
        """Start anew."""
        with self._lock:
            self._seen.clear()

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        """Return whether this has happened."""
        with self._lock:
            return key in self._seen


class PerStudy(Generic[_Reader]):
    """One reader for each of the latest few studies of each storage. Safe to share among threads.

    What the log has said of a study is remembered for longer, and not by the storage's object. So
    a message that comes once does not come again where each trial opens the storage anew, or where
    many studies take turns. A copy or a pickle starts without any.

    Args:
        make: Makes the reader of a study that has none yet; takes what the log has said of it as
            the keyword ``once``.
    """

    def __init__(self, make: Callable[..., _Reader]) -> None:
        """Start without any study."""
        self._make = make
        self._lock = threading.Lock()
        self._said: dict[Any, Once] = {}  # by the study's address
        self._said_in_memory: weakref.WeakKeyDictionary[BaseStorage, dict[Any, Once]]
        self._said_in_memory = weakref.WeakKeyDictionary()
        self._of_storage: weakref.WeakKeyDictionary[BaseStorage, dict[int, _Reader]]
        self._of_storage = weakref.WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the readers."""
        return type(self), (self._make,)

    def of(self, study: Study) -> _Reader:
        """Return the reader of ``study``."""
        with self._lock:
            storage, study_id = identity(study)
            readers = self._of_storage.setdefault(storage, {})
            reader = readers.pop(study_id, None)
            if reader is None:
                reader = self._make(once=self._said_of(study))
            readers[study_id] = reader  # the most recently used one last
            if len(readers) > _MAX_STUDIES:
                del readers[next(iter(readers))]
            return reader

    def _said_of(self, study: Study) -> Once:
        """Return what the log has said of ``study``, of one in memory while its storage lives."""
        storage, study_id = identity(study)
        place = address(study)
        said = self._said if place else self._said_in_memory.setdefault(storage, {})
        key = place or study_id
        if len(said) >= _MAX_MESSAGES and key not in said:
            del said[next(iter(said))]
        return said.setdefault(key, Once())


def check_one_objective(study: Any) -> None:
    """Check that ``study`` is one, and has one objective.

    Raises:
        TypeError: It is not a study.
        ValueError: It has several objectives.
    """
    errors.check_instance("study", study, Study, "an Optuna study")
    if len(study.directions) != 1:
        raise ValueError(f"study must have one objective, but got {len(study.directions)}.")


def check_one_function(study: Any) -> None:
    """Check that ``study`` is one, and that its trials are values of one function.

    Raises:
        TypeError: It is not a study.
        ValueError: It has several objectives, or is one of a bilevel problem, whose trials are
            values of several functions.
    """
    check_one_objective(study)
    if any(BILEVEL_KEY in trial.system_attrs for trial in study.get_trials(deepcopy=False)):
        raise ValueError(
            "study must have one objective, but its trials are values of the several functions of "
            "BILBOSampler. Its result is sampler.solution(study), its plot is plot_bilevel."
        )


def signs_of(study: Study) -> tuple[float, ...]:
    """Return what each value of ``study`` is multiplied by to be maximized: 1 or -1."""
    return tuple(
        1.0 if direction == StudyDirection.MAXIMIZE else -1.0 for direction in study.directions
    )


def _unknown(n: int) -> tuple[float, ...]:
    return (math.nan,) * n


def _values_of(trial: FrozenTrial, n: int) -> tuple[float, ...]:
    """Return the n values of a complete trial, or the one a pruned trial reported last; or NaN."""
    is_pruned = trial.state is TrialState.PRUNED
    if trial.state not in _OBSERVED or (is_pruned and n > 1):  # Optuna has no reports of several
        return _unknown(n)
    values = trial.values or []
    if is_pruned and trial.last_step is not None:
        values = [trial.intermediate_values[trial.last_step]]
    usable = not is_pruned or all(map(math.isfinite, values))
    return tuple(map(float, values)) if usable and len(values) == n else _unknown(n)


def _noise_or_nan(
    noise_func: NoiseFunction, once: Once, trial: FrozenTrial
) -> float | Sequence[float]:
    """Return what ``noise_func`` returns, NaN if it raises; the first exception is logged.

    As it is asked again for every later suggestion, its exception would end the study for good.
    """
    try:
        return noise_func(trial)
    except Exception:
        if once.first_time("noise_func"):
            _logger.warning(
                "noise_func raised an exception for trial %d, so its noise counts as unknown.",
                trial.number,
                exc_info=True,
            )
        return math.nan


def _variances(returned: Any, n: int) -> tuple[float, ...]:
    """Return the n variances that ``noise_func`` returned, NaN for what is none."""
    is_listed = isinstance(returned, Sequence) or (
        isinstance(returned, np.ndarray) and returned.ndim > 0
    )
    listed = list(returned) if is_listed else [returned]
    return tuple(map(_variance, listed)) if len(listed) == n else _unknown(n)


def _variance(returned: object) -> float:
    """Return a number if it is a variance, else NaN."""
    variance = _number(returned)
    return variance if 0.0 <= variance < math.inf else math.nan


def _constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """Return the constraint values of a trial by name, without what is no number."""
    values: dict[str, Any] = {}
    listed = trial.system_attrs.get(CONSTRAINTS_KEY)
    if isinstance(listed, list | tuple):
        values.update({str(index): value for index, value in enumerate(listed)})
    prefix = f"{CONSTRAINTS_KEY}:"
    for key, value in trial.system_attrs.items():
        if key.startswith(prefix):
            values[key.removeprefix(prefix)] = value
    # In memory, other samplers keep what the user's function returns, such as a NumPy float32.
    numbers_by_name = {name: _number(value) for name, value in values.items()}
    return {name: value for name, value in numbers_by_name.items() if not math.isnan(value)}


def _number(value: object) -> float:
    """Return a real number of any type as a float; NaN for one beyond the floats, and if none."""
    try:
        return float(value) if isinstance(value, numbers.Real) else math.nan
    except OverflowError:
        return math.nan


def seconds_of(time: datetime | None, *, unknown: float) -> float:
    """Return a time of Optuna's in seconds.

    Args:
        time: The time; Optuna's have no zone, so that one is left out.
        unknown: Returned for None.
    """
    return unknown if time is None else (time.replace(tzinfo=None) - _EPOCH).total_seconds()
