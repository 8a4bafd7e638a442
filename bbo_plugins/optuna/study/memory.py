"""What is kept in memory, safely among threads: one object per study, what has been said."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.storages import BaseStorage
    from optuna.study import Study

_MAX_STUDIES = 8  # studies of one storage that are remembered
_Kept = TypeVar("_Kept")


class PerStudy(Generic[_Kept]):
    """One object for each of the latest few studies of each storage. Safe to share among threads.

    A copy or a pickle starts without any.

    Args:
        make: Makes the object of a study that has none yet.
    """

    def __init__(self, make: Callable[[], _Kept]) -> None:
        """Start without any study."""
        self._make = make
        self._lock = threading.Lock()
        self._of_storage: weakref.WeakKeyDictionary[BaseStorage, OrderedDict[int, _Kept]] = (
            weakref.WeakKeyDictionary()
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what is kept."""
        return type(self), (self._make,)

    def of(self, study: Study) -> _Kept:
        """Return the object of ``study``."""
        with self._lock:
            of_study = self._of_storage.setdefault(study._storage, OrderedDict())
            if study._study_id not in of_study:
                of_study[study._study_id] = self._make()
            of_study.move_to_end(study._study_id)
            while len(of_study) > _MAX_STUDIES:
                of_study.popitem(last=False)
            return of_study[study._study_id]


class Once:
    """A set that answers, safely among threads, whether something happens for the first time."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self._lock = threading.Lock()
        self._seen: set[Any] = set()

    def first_time(self, *key: Any) -> bool:
        """Return True the first time it is called with these arguments, False ever after."""
        with self._lock:
            first = key not in self._seen
            self._seen.add(key)
            return first

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        """Return whether this has happened."""
        with self._lock:
            return key in self._seen
