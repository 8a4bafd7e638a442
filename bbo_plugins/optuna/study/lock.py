"""Mutual exclusion of the workers that share a study, by nothing but its storage.

Optuna's storages offer no test-and-set on a study. A worker that wants the lock writes a claim of
its own and then looks for others' claims; if there is one it withdraws, waits a little and tries
again, but not for a claim that has not changed since it gave up on it: its worker is busy or dead.
As each writes before it looks, of two workers at least one sees the other, so never do both
go on; both may withdraw. A claim counts for a minute, so that a worker that died with it does not
block the others for good: work under the lock must take less.

    bbo_plugins:lock:4711:9f86d081884c7d65 = 1763658000.25    (a time; 0 where withdrawn)
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from bbo_plugins.optuna.study.storage import set_study_attribute, study_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optuna.study import Study

PREFIX = "bbo_plugins:lock:"
LIFETIME = 60.0  # seconds
_N_ATTEMPTS = 12
_PAUSE = 0.005  # seconds, at most, after the first failure; twice as much after each further one
_LONGEST_PAUSE = 0.5


class StudyLock:
    """A lock that one worker holds at a time; threads that share this object wait for each other.

    May be copied and pickled: the copy is another worker.
    """

    def __init__(self) -> None:
        """Start as a worker of our own."""
        self._token = uuid.uuid4().hex[:16]
        self._threads = threading.Lock()
        self._given_up: set[tuple[str, float]] = set()  # claims of others, for which it has waited

    def __reduce__(self) -> tuple[type[StudyLock], tuple[()]]:
        """Leave out everything."""
        return StudyLock, ()

    @contextmanager
    def held(self, study: Study) -> Iterator[bool]:
        """Try to hold the lock of ``study``; yields whether that succeeded."""
        key = f"{PREFIX}{os.getpid()}:{self._token}"  # a forked process has the same token
        with self._threads:
            held = self._acquire(study, key)
            try:
                yield held
            finally:
                if held:
                    set_study_attribute(study, key, 0.0)

    def _acquire(self, study: Study, key: str) -> bool:
        rng = np.random.default_rng()
        for attempt in range(_N_ATTEMPTS):
            set_study_attribute(study, key, time.time())
            claims = _claims_of_others(study, key)
            if not claims:
                return True
            set_study_attribute(study, key, 0.0)
            if claims & self._given_up:
                return False
            if attempt < _N_ATTEMPTS - 1:
                time.sleep(rng.uniform(0.0, min(_PAUSE * 2**attempt, _LONGEST_PAUSE)))
        self._given_up = claims
        return False


def _claims_of_others(study: Study, key: str) -> set[tuple[str, float]]:
    now = time.time()
    earliest, latest = now - LIFETIME, now + LIFETIME
    return {
        (name, claimed)
        for name, claimed in study_attributes(study).items()
        if name.startswith(PREFIX)
        and name != key
        and isinstance(claimed, int | float)
        and earliest < claimed < latest  # compared only: 10**400 is no float
    }
