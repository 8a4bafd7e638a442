"""What a terminator stores with a study: its settings, its records, and where its fits stand.

A finished trial cannot be written to any more, so all of it is kept in system attributes of the
study. The settings are part of the name, as their digest: records that were made with other
settings are other records.

    bbo_plugins:stopping:3f2a91c05b7de846          {"v": 1, "criterion": "regret-gap", ...}
    bbo_plugins:stopping:3f2a91c05b7de846:17       {"n": 17, "trial": 16, "value": 0.25, ...}
    bbo_plugins:stopping:3f2a91c05b7de846:warm:0   "17:{"theta": [...], ..."

A record has an attribute of its own, so that workers do not overwrite each other's; the record of
the n-th completion takes the place of that of the (n - 1024)-th, which bounds what is stored: at
most 1,024 records of less than 1,000 characters. The state from which the next fit starts exists
once, as one JSON text in chunks that each begin with the completion it belongs to. No attribute is
longer than 2,045 characters.

The storage is shared and may hold anything under these keys, so reading never raises: what is
malformed is not there, and is made again.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bbo_plugins import errors
from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule
from bbo_plugins.optuna.study.attributes import is_finite

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from optuna.study import Study

CAPACITY = 1_024  # records kept of one terminator


_PREFIX = "bbo_plugins:stopping:"


_VERSION = 1


_MAX_CHUNK = 2_000  # characters; the rest is for the completion's number, quotes and escapes


_MAX_CHUNKS = 100


_MAX_TERMS = 16


_MAX_NAME = 32


_MAX_N = 10**9


@dataclass(frozen=True)
class Settings:
    """What a terminator's records depend on, beside the trials.

    Attributes:
        rule: What decides.
        seed: Seed of the candidates.
    """

    rule: StoppingRule
    seed: int

    @cached_property
    def content(self) -> dict[str, Any]:
        """The settings as JSON; two that mean the same are the same, whether spelled out or not."""
        rule = {field.name: getattr(self.rule, field.name) for field in fields(self.rule)}
        has_eta = self.rule.threshold in {"relative", "median"}
        rule["eta"] = self.rule.fraction if has_eta else None
        rule["delta"] = float(self.rule.delta)
        rule["deterministic_objective"] = bool(self.rule.deterministic_objective)
        if not isinstance(self.rule.threshold, str):
            rule["threshold"] = float(self.rule.threshold)
        for name in ("patience", "n_initial", "min_n_trials"):
            rule[name] = int(rule[name])
        return {"v": _VERSION, **rule, "seed": self.seed}

    @cached_property
    def key(self) -> str:
        """Name of the attribute that holds the settings, and beginning of all others."""
        text = json.dumps(self.content, sort_keys=True)
        return _PREFIX + hashlib.sha256(text.encode("ascii")).hexdigest()[:16]

    @classmethod
    def from_content(cls, content: object) -> Settings | None:
        """Read :attr:`content` back; None if it is malformed."""
        if not isinstance(content, dict) or content.get("v") != _VERSION:
            return None
        rule = {name: value for name, value in content.items() if name not in {"v", "seed"}}
        try:
            seed = errors.check_int("seed", content.get("seed"), minimum=0)
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
        }

    @classmethod
    def from_json(cls, stored: object) -> StoredRecord | None:
        """Read :meth:`to_json`'s form back; None if it is malformed."""
        if not isinstance(stored, dict):
            return None
        n, number, terms = stored.get("n"), stored.get("trial"), stored.get("terms")
        value, threshold = stored.get("value"), stored.get("threshold")
        well_formed = (
            _is_count(n, minimum=1)
            and _is_count(number, minimum=0)
            and (value is None or is_finite(value))
            and (threshold is None or is_finite(threshold))
            and _are_terms(terms)
            and isinstance(stored.get("terminate"), bool)
        )
        if not well_formed:
            return None
        record = StoppingRecord(
            n_trials=stored["n"],
            value=math.inf if value is None else float(value),
            threshold=-math.inf if threshold is None else float(threshold),
            terms={name: float(term) for name, term in stored["terms"].items()},
            terminate=stored["terminate"],
        )
        return cls(stored["trial"], record)


def attributes_of(study: Study) -> dict[str, Any]:
    """Return the study's system attributes as they are now."""
    return dict(study._storage.get_study_system_attrs(study._study_id))


def stored_settings(attributes: Mapping[str, Any]) -> list[Settings]:
    """Return the settings of all terminators that have left records."""
    keys = sorted(key for key in attributes if key.startswith(_PREFIX))
    found = ((key, Settings.from_content(attributes[key])) for key in keys)
    return [settings for key, settings in found if settings and settings.key == key]


def stored_records(
    attributes: Mapping[str, Any], settings: Settings, slots: Iterable[int] = range(CAPACITY)
) -> dict[int, StoredRecord]:
    """Return the records made with ``settings`` by the number of completions, in that order.

    Args:
        attributes: The study's system attributes.
        settings: The terminator's.
        slots: Which places to look at; the record of n completions is at n modulo 1,024.
    """
    found = {}
    for slot in slots:
        stored = StoredRecord.from_json(attributes.get(f"{settings.key}:{slot}"))
        if stored is not None and stored.record.n_trials % CAPACITY == slot:
            found[stored.record.n_trials] = stored
    return dict(sorted(found.items()))


def n_unreadable(attributes: Mapping[str, Any], settings: Settings) -> int:
    """Return how many attributes of this terminator, its fits' state aside, cannot be read."""
    own = attributes.get(settings.key)
    records = (attributes.get(f"{settings.key}:{slot}") for slot in range(CAPACITY))
    damaged = (form is not None and StoredRecord.from_json(form) is None for form in records)
    return sum(damaged, start=int(own is not None and own != settings.content))


def records_of(
    attributes: Mapping[str, Any],
    settings: Settings,
    numbers: Collection[int],
    known: dict[int, StoredRecord] | None = None,
    missing: Iterable[int] | None = None,
) -> dict[int, StoredRecord]:
    """Return those of the stored records that fit a study with these complete trials.

    There is one of each trial at most, the earliest of several that workers may have left.

    Args:
        attributes: The study's system attributes.
        settings: The terminator's.
        numbers: Numbers of the complete trials.
        known: Records that have been read before, and stay.
        missing: Those to look for beside them, by the number of completions; None for all.
    """
    slots = range(CAPACITY) if missing is None else {n % CAPACITY for n in missing}
    found = stored_records(attributes, settings, slots)
    kept = known or {}
    if not found:
        return kept
    kept, taken = kept.copy(), {stored.number for stored in kept.values()}
    for n, stored in found.items():
        fits = n <= len(numbers) and stored.number in numbers
        if fits and n not in kept and stored.number not in taken:
            kept[n] = stored
            taken.add(stored.number)
    return dict(sorted(kept.items()))


def stored_warm_start(attributes: Mapping[str, Any], settings: Settings) -> WarmStart | None:
    """Return what the next fit may start from, if there is anything to be read."""
    texts: list[str] = []
    owner = None
    while len(texts) < _MAX_CHUNKS:
        chunk = attributes.get(f"{settings.key}:warm:{len(texts)}")
        if not isinstance(chunk, str) or len(chunk) > _MAX_CHUNK + 16:
            break
        n, _, text = chunk.partition(":")
        if owner is not None and n != owner:
            break  # left over from a longer state, or another worker is just writing
        owner = n
        texts.append(text)
    try:
        return WarmStart.from_json(json.loads("".join(texts)))
    except (ValueError, RecursionError):
        return None


def store_settings(study: Study, settings: Settings) -> None:
    """Write what :func:`stored_settings` reads."""
    _store(study, settings.key, settings.content)


def store_record(study: Study, settings: Settings, stored: StoredRecord) -> None:
    """Write one of what :func:`stored_records` reads."""
    _store(study, f"{settings.key}:{stored.record.n_trials % CAPACITY}", stored.to_json())


def store_warm_start(study: Study, settings: Settings, n: int, form: Mapping[str, Any]) -> None:
    """Write what :func:`stored_warm_start` reads.

    Args:
        study: The study.
        settings: The terminator's.
        n: The completion it belongs to.
        form: What :meth:`~bbo_plugins.gp.fit.WarmStart.to_json` returns.
    """
    text = json.dumps(form, separators=(",", ":"))
    for index, start in enumerate(range(0, len(text), _MAX_CHUNK)):
        chunk = f"{n}:{text[start : start + _MAX_CHUNK]}"
        _store(study, f"{settings.key}:warm:{index}", chunk)


def _store(study: Study, key: str, value: Any) -> None:
    study._storage.set_study_system_attr(study._study_id, key, value)


def _or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _is_count(value: object, *, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= _MAX_N


def _are_terms(value: object) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= _MAX_TERMS
        and all(isinstance(name, str) and len(name) <= _MAX_NAME for name in value)
        and all(map(is_finite, value.values()))
    )
