"""Optuna's storage: all that is not public of Optuna, and what is kept in attributes.

No other file knows private names of Optuna's studies and trials, or the names of its system
attributes, so a release that renames one changes this file only. They are needed for what has no
public name: system attributes, a trial as it is now, a trial that has its attributes from the
start, and whether a study is being stopped.

What samplers and terminators store in attributes of a trial or a study is JSON, cut into chunks. A
storage is shared and may hold anything under a name, so reading never raises, and reads no more
than half a megabyte. One attribute can be too short for a text. An empty chunk ends it, so that a
shorter one can replace a longer one. Where several workers replace a text, each chunk begins with
its owner, and the next owner's chunk ends it too:

    bbo_plugins:stopping:3f2a91c05b7de846:warm:0 = '17:{"log_hyperparameters": [...], ...'

A sampler stores its *proposal* with each trial: the point, the arm pulled, the state of the fits,
what was decided on the trials before. Optuna writes a parameter to the storage only when the
objective asks for it, so other workers could not know where a running trial is; a fit is expensive
to start from nothing, and a decision to make again; and the outcome does not say which arm a bandit
has pulled:

    bbo_plugins:proposal:0 = '{"v": 1, "params": {"lr": 0.01, "optimizer": 2}, '
    bbo_plugins:proposal:1 = '"fits": {"Marginal": {"log_hyperparameters": [...], ...}, ...}}'

``params`` holds numbers: for a categorical parameter the index of its choice (a choice need not
survive JSON), for the others the value. ``fits`` holds the state of each fit by the model's name,
so that the next fit of that model can start from it, whatever other models there are by then. A
proposal that would be longer than what is read, as of some 400 parameters, is stored without the
last of them.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import PartialFixedSampler
from optuna.storages import InMemoryStorage
from optuna.trial import Trial, TrialState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import FrozenTrial

PREFIX = "bbo_plugins:proposal:"
ARMS = ("random", "model")  # in the order of the bandit's arms
_VERSION = 1
# Optuna's own system attributes, which it does not document.
CONSTRAINTS_KEY = "constraints"  # a list here, or one value per "constraints:<name>"
FIXED_PARAMS = "fixed_params"  # parameters that enqueue_trial gave the trial
RETRY_HISTORY = "retry_history"  # numbers of the failed trials that the trial repeats
GRID_KEYS = ("grid_id", "search_space")  # which point of which grid GridSampler gave the trial
CV_SCORES_KEY = "terminator:cv_scores"
# What says where a database, a journal's file, a journal in Redis, or a gRPC server is; then more.
_PLACES, _PARTS = ("url", "_file_path", "_url", "_host"), ("_prefix", "_port")
# Each opening of these is another database. Other spellings of such an address are not known.
_IN_MEMORY = ("sqlite://", "sqlite:///", "sqlite:///:memory:")
_MAX_CACHED = 128  # texts that were read lately: those of running trials are read again and again
_MAX_CHUNK = 2_045  # characters of one attribute as the storage writes it, quoted and escaped
MAX_CHUNKS = 256


def identity(study: Study) -> tuple[BaseStorage, int]:
    """Return a study's storage and its number there."""
    return study._storage, study._study_id


def address(study: Study) -> tuple[Any, ...] | None:
    """Return what names a study also where its storage is opened anew.

    None for one in memory, and for one in a storage that does not say where it is.
    """
    storage: Any = study._storage
    if isinstance(storage, InMemoryStorage):
        return None
    backend = getattr(storage, "_backend", storage)
    found = [getattr(backend, name, None) for name in (*_PLACES, *_PARTS)]
    place = [None if one is None else str(one) for one in found]
    is_named = any(place[: len(_PLACES)]) and place[0] not in _IN_MEMORY
    return (*place, study.study_name, study._study_id) if is_named else None


def all_trials(study: Study) -> list[FrozenTrial]:
    """Return all trials as they are now, by number; they are not copies."""
    return study._get_trials(deepcopy=False, use_cache=False)


def as_stored(study: Study, trial: Trial | FrozenTrial) -> FrozenTrial:
    """Return a trial as it is now."""
    return study._storage.get_trial(trial._trial_id)


def enqueued_params(trial: FrozenTrial) -> dict[str, Any]:
    """Return the parameters that ``enqueue_trial`` gave a trial."""
    params = trial.system_attrs.get(FIXED_PARAMS)
    return params if isinstance(params, dict) else {}


def study_attributes(study: Study) -> dict[str, Any]:
    """Return a study's system attributes as they are now."""
    return dict(study._storage.get_study_system_attrs(study._study_id))


def set_study_attribute(study: Study, key: str, value: Any) -> None:
    """Write a system attribute of a study."""
    study._storage.set_study_system_attr(study._study_id, key, value)


def set_trial_attribute(study: Study, trial: Trial | FrozenTrial, key: str, value: Any) -> None:
    """Write a system attribute of a running trial."""
    study._storage.set_trial_system_attr(trial._trial_id, key, value)


def set_intermediate_value(study: Study, trial: Trial, step: int, value: float) -> None:
    """Write what a running trial reports, also if it has reported this step before."""
    study._storage.set_trial_intermediate_value(trial._trial_id, step, value)


def end_as_failed(study: Study, trial: FrozenTrial) -> None:
    """End a trial as failed, without asking the sampler, unless it has ended."""
    if not as_stored(study, trial).state.is_finished():
        study._storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)


def tell(
    study: Study, trial: Trial | FrozenTrial, values: Sequence[float] | None, state: TrialState
) -> Exception | None:
    """Store how a trial ended, and return the exception that the sampler raised about it, if any.

    The sampler may stop the study, as one whose grid is exhausted does: see :func:`is_stopped`.
    """
    local = study._thread_local
    was_in_loop = getattr(local, "in_optimize_loop", False)
    local.in_optimize_loop = True  # elsewhere ``study.stop`` raises an exception
    try:
        study.tell(trial.number, values, state=state)
    except Exception as error:
        if as_stored(study, trial).state is not state:
            raise
        return error
    finally:
        local.in_optimize_loop = was_in_loop
    return None


def begin_trial(study: Study, template: FrozenTrial) -> Trial:
    """Begin a trial that has the attributes of ``template`` from the moment it is stored."""
    return _begun(study, study._storage.create_new_trial(study._study_id, template))


def begin_enqueued_trial(study: Study, key: str, value: Any) -> Trial | None:
    """Begin the next trial that was enqueued, with a system attribute; None if there is none."""
    storage_id = study._pop_waiting_trial_id()
    if storage_id is None:
        return None
    study._storage.set_trial_system_attr(storage_id, key, value)
    return _begun(study, storage_id)


def _begun(study: Study, storage_id: int) -> Trial:
    study._thread_local.cached_all_trials = None  # as in Study.ask
    return Trial(study, storage_id)


def suggest(trial: Trial, name: str, distribution: BaseDistribution) -> Any:
    """Suggest a value of a distribution, as ``trial.suggest_float`` and its like do."""
    return trial._suggest(name, distribution)


def is_stopped(study: Study, *, in_optimize: bool = False) -> bool:
    """Return whether ``study.stop()`` was called, with ``in_optimize`` by the present optimize.

    Optuna keeps the flag after ``study.optimize``, when trials are asked for and told one by one.
    """
    is_running = not in_optimize or getattr(study._thread_local, "in_optimize_loop", False)
    return bool(is_running and getattr(study, "_stop_flag", False))  # Hyperband's has none


def inner_sampler(study: Study) -> BaseSampler | None:
    """Return the study's sampler, out of any PartialFixedSampler around it; None if hidden."""
    return _unwrapped(study)[0]


def held_params(study: Study, sampler: BaseSampler) -> dict[str, Any]:
    """Return the values at which a PartialFixedSampler around ``sampler`` holds parameters."""
    inner, held = _unwrapped(study)
    return held if inner is sampler else {}


def _unwrapped(study: Study) -> tuple[BaseSampler | None, dict[str, Any]]:
    """Return the innermost sampler, and the values that those around it hold."""
    held: dict[str, Any] = {}
    sampler: Any = study.sampler
    while isinstance(sampler, PartialFixedSampler):
        fixed = getattr(sampler, "_fixed_params", None)
        held = {**(fixed if isinstance(fixed, dict) else {}), **held}
        sampler = getattr(sampler, "_base_sampler", None)
    return sampler, held


def to_chunks(prefix: str, content: Mapping[str, Any], owner: int | None = None) -> dict[str, str]:
    """Return the attributes that hold ``content`` as JSON, named by the prefix and a number.

    Args:
        prefix: Beginning of the attributes' names.
        content: JSON in the strict sense.
        owner: Number with which each chunk begins; None for none.

    Returns:
        At most :data:`MAX_CHUNKS` of them can be read again.
    """
    text = json.dumps(content, separators=(",", ":"))
    head = "" if owner is None else f"{owner}:"
    limit = _MAX_CHUNK - len(head)
    attributes: dict[str, str] = {}
    start = 0
    while start < len(text):
        chunk = text[start : start + limit]
        # Storages write the chunk as JSON again: a quote or backslash becomes two characters.
        while (excess := len(json.dumps(chunk)) - limit) > 0:
            chunk = chunk[: -((excess + 1) // 2)]
        attributes[f"{prefix}{len(attributes)}"] = head + chunk
        start += len(chunk)
    return attributes


def joined_chunks(prefix: str, attributes: Mapping[str, Any], *, owned: bool = False) -> str:
    """Return the text that :func:`to_chunks` has cut; an empty one if there is none to be read.

    Args:
        prefix: Beginning of the attributes' names.
        attributes: The attributes of a trial or a study.
        owned: Whether each chunk begins with its owner.
    """
    chunks: list[str] = []
    owners = set()
    while chunk := attributes.get(f"{prefix}{len(chunks)}"):
        if not isinstance(chunk, str) or len(chunk) > _MAX_CHUNK or len(chunks) >= MAX_CHUNKS:
            return ""
        owner, _, text = chunk.partition(":") if owned else ("", "", chunk)
        owners.add(owner)
        if len(owners) > 1:
            break  # left over from a longer text, or another worker is just writing
        chunks.append(text)
    return "".join(chunks)


def decoded(text: str) -> Any:
    """Return what a JSON text says, None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def of_version(content: object, version: int) -> dict[str, Any] | None:
    """Return ``content`` if it is an object of this version, else None."""
    return content if isinstance(content, dict) and content.get("v") == version else None


def is_finite(number: object) -> bool:
    """Return whether ``number`` is one, and can be converted to a finite float."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    try:
        return math.isfinite(number)
    except OverflowError:  # an int beyond the floats
        return False


@dataclass(frozen=True)
class Proposal:
    """The stored part of one suggestion.

    Attributes:
        params: Proposed value of each parameter of the relative search space; for a categorical
            one, the index of the choice.
        fits: JSON forms of the fits to start the next ones from, by the models' names. If they are
            too long to be stored, the last ones are left out.
        criterion: Name of what the objective's model was fitted by; None without a fit.
        arm: "random" or "model", which of its arms a bandit pulled; None if there was no choice.
        expected_gain: Improvement the model expected of the trial, in standard deviations of its
            targets; None without a model.
        inactive: Names of the model's other parameters, which do not exist at the point.
        warps: Input warping of the model's parameters, of those that have one.
        outliers: Numbers of the trials whose values were left out of the models.
        number: That of the trial that the proposal was made for, with outliers. A trial with
            another one was added from elsewhere, where the outliers' numbers are of other trials,
            or repeats a failed one.
        cutoff: The value, maximized, below which others counted as failures; None for none.
        digests: For each of ``warps``, ``outliers`` and ``cutoff`` that is as the trials decided, a
            digest of what the decision was made of.
    """

    params: Mapping[str, float | int]
    fits: Mapping[str, Any] = field(default_factory=dict)
    criterion: str | None = None
    arm: str | None = None
    expected_gain: float | None = None
    inactive: tuple[str, ...] = ()
    warps: Mapping[str, float] = field(default_factory=dict)
    outliers: tuple[int, ...] = ()
    number: int | None = None
    cutoff: float | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, params: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]
    ) -> Proposal:
        """Build a proposal from parameters as Optuna's users see them.

        Args:
            params: The parameters proposed.
            distributions: The distributions of all parameters of the model.
        """
        stored = {
            name: _number_of(value, distributions[name])
            for name, value in params.items()
            if name in distributions
        }
        return cls(stored, inactive=tuple(sorted(distributions.keys() - stored.keys())))

    @property
    def is_by_model(self) -> bool:
        """Whether a model or the bandit made it, not the start-up's design or a fallback."""
        return self.criterion is not None or self.arm is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the model's parameters, in the order of its columns."""
        return tuple(sorted({*self.params, *self.inactive}))

    def values(self, distributions: Mapping[str, BaseDistribution]) -> dict[str, Any]:
        """Return the parameters as Optuna's users see them, without those that do not fit."""
        values = {}
        for name, number in self.params.items():
            distribution = distributions.get(name)
            if isinstance(distribution, CategoricalDistribution):
                if isinstance(number, int) and 0 <= number < len(distribution.choices):
                    values[name] = distribution.choices[number]
            elif distribution is not None:
                values[name] = number
        return values

    def to_attributes(self) -> dict[str, str]:
        """Return the system attributes that hold this proposal."""
        content = {
            "v": _VERSION,
            "params": dict(self.params),
            "fits": dict(self.fits) or None,
            "criterion": self.criterion,
            "arm": self.arm,
            "expected_gain": self.expected_gain,
            "inactive": self.inactive or None,
            "warps": dict(self.warps) or None,
            "outliers": self.outliers or None,
            "number": self.number if self.outliers else None,
            "cutoff": self.cutoff,
            "digests": dict(self.digests) or None,
        }
        content = {name: value for name, value in content.items() if value is not None}
        attributes = to_chunks(PREFIX, content)
        if len(attributes) > MAX_CHUNKS and self.fits:
            *kept, _ = self.fits.items()
            return replace(self, fits=dict(kept)).to_attributes()
        return attributes

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> Proposal | None:
        """Read the proposal in a trial's system attributes; None if there is none to be read."""
        return cls._from_text(joined_chunks(PREFIX, attributes))

    @classmethod
    @lru_cache(maxsize=_MAX_CACHED)
    def _from_text(cls, text: str) -> Proposal | None:
        content = of_version(decoded(text), _VERSION)
        if content is None:
            return None
        params: Any = content.get("params")
        fits: Any = content.get("fits", {})
        criterion: Any = content.get("criterion")
        arm: Any = content.get("arm")
        gain: Any = content.get("expected_gain")
        inactive: Any = content.get("inactive", [])
        warps: Any = content.get("warps", {})
        outliers: Any = content.get("outliers", [])
        number: Any = content.get("number")
        cutoff: Any = content.get("cutoff")
        digests: Any = content.get("digests", {})
        well_formed = (
            isinstance(params, dict)
            and isinstance(warps, dict)
            and all(map(is_finite, (*params.values(), *warps.values())))
            and isinstance(fits, dict)
            and isinstance(digests, dict)
            and isinstance(inactive, list)
            and isinstance(outliers, list)
            and all(type(one) is int for one in outliers)
            and (number is None or type(number) is int)
            and all(isinstance(name, str) for name in inactive)
            and (criterion is None or isinstance(criterion, str))
            and (arm is None or arm in ARMS)
            and all(one is None or is_finite(one) for one in (gain, cutoff))
        )
        if not well_formed:
            return None
        return cls(
            params=params,
            fits=fits,
            criterion=criterion,
            arm=arm,
            expected_gain=gain,
            inactive=tuple(inactive),
            warps=warps,
            outliers=tuple(outliers),
            number=number,
            cutoff=cutoff,
            digests=digests,
        )


def _number_of(value: Any, distribution: BaseDistribution) -> float | int:
    if isinstance(distribution, IntDistribution):
        return int(value)  # Optuna's own representation is a float, which merges large integers
    internal = distribution.to_internal_repr(value)
    return int(internal) if isinstance(distribution, CategoricalDistribution) else float(internal)


def is_stored(attributes: Mapping[str, Any]) -> bool:
    """Return whether a trial's system attributes hold a proposal, readable or not."""
    return attributes.get(f"{PREFIX}0") not in (None, "")


def store_proposal(
    study: Study, trial: FrozenTrial, proposal: Proposal, *, replacing: int = 0
) -> int:
    """Write ``proposal`` to the system attributes of ``trial``.

    Args:
        study: The study.
        trial: The trial; it may have inherited a longer proposal.
        proposal: The proposal.
        replacing: Largest number of chunks that have been written for this trial before.

    Returns:
        The largest number of chunks that have been written for this trial.
    """
    attributes = proposal.to_attributes()
    n_chunks = len(attributes)
    following = f"{PREFIX}{n_chunks}"
    if n_chunks < replacing or following in trial.system_attrs:
        attributes[following] = ""  # the end
    for key, chunk in attributes.items():
        set_trial_attribute(study, trial, key, chunk)
    return max(n_chunks, replacing)


def withdraw_proposal(study: Study, trial: FrozenTrial) -> None:
    """Take back what is stored as the proposal for ``trial``, so that it is nowhere."""
    set_trial_attribute(study, trial, f"{PREFIX}0", "")
