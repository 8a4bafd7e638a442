"""Things that are to be said once."""

from __future__ import annotations

import threading
from typing import Any


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
