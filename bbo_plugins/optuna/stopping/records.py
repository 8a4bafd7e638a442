"""The stored state of a terminator: its settings, its records, and the state of its latest fit.

A finished trial cannot be written to any more, so all of it is kept in system attributes of the
study. The digest of the settings is part of each name: records that were made with other settings
are other records.

    bbo_plugins:stopping:3f2a91c05b7de846          {"v": 8, "criterion": "regret-gap", ...}
    bbo_plugins:stopping:3f2a91c05b7de846:17       {"n": 17, "trial": 16, "value": 0.25, ...}
    bbo_plugins:stopping:3f2a91c05b7de846:warm:0   "17:{"log_hyperparameters": [...], ..."

A record has an attribute of its own, so that workers do not overwrite each other's. The record of
the n-th completion takes the place of that of the (n - 1024)-th, so at most 1,024 records of less
than 1,000 characters are stored. The state from which the next fit starts exists once, in chunks
that the completion owns (:mod:`bbo_plugins.optuna.study.storage`). An attribute of another form
counts as missing and is made again.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bbo_plugins import errors
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.regret_gap.rule import WITH_ETA, StoppingRecord, StoppingRule
from bbo_plugins.optuna.study.storage import (
    decoded,
    joined_chunks,
    of_version,
    set_study_attribute,
    to_chunks,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from optuna.study import Study

CAPACITY = 1_024  # records kept of one terminator
_PREFIX = "bbo_plugins:stopping:"
_VERSION = 9  # a record of another version is of another decision


@dataclass(frozen=True)
class Settings:
    """All that a terminator's records depend on, beside the trials.

    Attributes:
        rule: Criterion, threshold and patience.
        seed: Seed of the candidates.
    """

    rule: StoppingRule
    seed: int

    @cached_property
    def content(self) -> dict[str, Any]:
        """The settings as JSON; two that mean the same are the same, whether spelled out or not."""
        eta = self.rule.fraction if self.rule.threshold in WITH_ETA else None
        return {**asdict(self.rule), "eta": eta, "seed": self.seed, "v": _VERSION}

    @cached_property
    def key(self) -> str:
        """Name of the attribute that holds the settings, and beginning of all others."""
        text = json.dumps(self.content, sort_keys=True)
        return _PREFIX + hashlib.sha256(text.encode("ascii")).hexdigest()[:16]

    @classmethod
    def from_content(cls, content: object) -> Settings | None:
        """Read :attr:`content` back; None if it is malformed."""
        known = of_version(content, _VERSION)
        if known is None:
            return None
        rule = {name: value for name, value in known.items() if name not in {"v", "seed"}}
        try:
            seed = errors.check_int("seed", known.get("seed"), minimum=0)
            return cls(StoppingRule(**rule), seed)
        except (TypeError, ValueError):
            return None


@dataclass(frozen=True)
class StoredRecord:
    """A record, and the number of the trial that was the newest in it."""

    number: int
    record: StoppingRecord

    def to_json(self) -> dict[str, Any]:
        """Return a form that is JSON in the strict sense: None stands for an infinite number."""
        return {
            "n": self.record.n_trials,
            "trial": self.number,
            "value": _or_none(self.record.value),
            "threshold": _or_none(self.record.threshold),
            "terms": dict(self.record.terms),
            "terminate": self.record.terminate,
            "failed": self.record.has_failed,
            "n_failed": self.record.n_failed,
        }

    @classmethod
    def from_json(cls, stored: Any) -> StoredRecord | None:
        """Read :meth:`to_json`'s form back; None if it is none."""
        try:
            value, threshold = stored["value"], stored["threshold"]
            record = StoppingRecord(
                n_trials=errors.check_int("n", stored["n"], minimum=1),
                value=math.inf if value is None else float(value),
                threshold=-math.inf if threshold is None else float(threshold),
                terms={name: float(term) for name, term in stored["terms"].items()},
                terminate=errors.check_bool("terminate", stored["terminate"]),
                has_failed=errors.check_bool("failed", stored["failed"]),
                n_failed=errors.check_int("n_failed", stored["n_failed"], minimum=0),
            )
            return cls(errors.check_int("trial", stored["trial"], minimum=0), record)
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
            return None


def stored_settings(attributes: Mapping[str, Any]) -> list[Settings]:
    """Return the settings of all terminators that have left records."""
    keys = sorted(key for key in attributes if key.startswith(_PREFIX))
    found = ((key, Settings.from_content(attributes[key])) for key in keys)
    return [settings for key, settings in found if settings and settings.key == key]


def records_of(
    attributes: Mapping[str, Any], settings: Settings, numbers: Collection[int]
) -> dict[int, StoredRecord]:
    """Return the stored records of a study by the number of completions, in that order.

    There is one of each trial at most, the earliest of several that workers may have left.

    Args:
        attributes: The study's system attributes.
        settings: The terminator's.
        numbers: Numbers of the complete trials; records of others do not count.
    """
    slots = (attributes.get(f"{settings.key}:{slot}") for slot in range(CAPACITY))
    found = {
        stored.record.n_trials: stored for stored in map(StoredRecord.from_json, slots) if stored
    }
    kept: dict[int, StoredRecord] = {}
    taken: set[int] = set()
    for n, stored in sorted(found.items()):
        if n <= len(numbers) and stored.number in numbers and stored.number not in taken:
            kept[n] = stored
            taken.add(stored.number)
    return kept


def stored_warm_start(attributes: Mapping[str, Any], settings: Settings) -> WarmStart | None:
    """Return the state from which the next fit may start, if there is one to be read."""
    text = joined_chunks(f"{settings.key}:warm:", attributes, owned=True)
    return WarmStart.from_json(decoded(text))


def store_settings(study: Study, settings: Settings) -> None:
    """Write the settings, for :func:`stored_settings`."""
    set_study_attribute(study, settings.key, settings.content)


def store_record(study: Study, settings: Settings, stored: StoredRecord) -> None:
    """Write a record, for :func:`records_of`."""
    set_study_attribute(
        study, f"{settings.key}:{stored.record.n_trials % CAPACITY}", stored.to_json()
    )


def store_warm_start(study: Study, settings: Settings, n: int, left: WarmStart) -> None:
    """Write the state that a fit has left, for :func:`stored_warm_start`.

    Args:
        study: The study.
        settings: The terminator's.
        n: The completion it belongs to.
        left: The state.
    """
    chunks = to_chunks(f"{settings.key}:warm:", left.to_json(), owner=n)
    for key, chunk in chunks.items():
        set_study_attribute(study, key, chunk)


def _or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None
