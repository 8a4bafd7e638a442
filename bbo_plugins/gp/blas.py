"""One BLAS thread while the package computes.

Matrices have at most about a thousand rows: more BLAS threads do not help, cost time on a busy
machine, and change the last bits of the result. The limit belongs to the process and not to a
thread, so computations that run at the same time share it.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


class SharedLimit:
    """Holds BLAS libraries at one thread as long as anybody computes.

    The first holder saves the number of threads, the last one restores it. A number that somebody
    else sets meanwhile is not overwritten at the end. One case cannot be seen from here: another
    library that sets one thread while this one holds, and lifts that afterwards, restores one
    thread.
    """

    def __init__(self) -> None:
        """Start without a holder."""
        self._lock = threading.Lock()
        self._n_holders = 0
        self._libraries: list[Any] | None = None  # threadpoolctl's controllers, once looked for
        self._saved: list[int] = []

    def acquire(self) -> list[int]:
        """Limit BLAS to one thread; returns the numbers of threads that this thread has seen."""
        with self._lock:
            if self._libraries is None:
                self._libraries = _loaded_libraries()
            seen: list[int] = [library.get_num_threads() for library in self._libraries]
            # A number other than 1 next to another holder was set by the user after that one came.
            self._saved = (
                [old if new == 1 else new for old, new in zip(self._saved, seen, strict=True)]
                if self._n_holders
                else seen
            )
            self._n_holders += 1
            for library in self._libraries:
                _set(library, 1)
        return seen

    def release(self, seen: list[int]) -> None:
        """Give up the limit; ``seen`` is what :meth:`acquire` returned to this thread."""
        with self._lock:
            self._n_holders -= 1
            self._restore(seen)

    def after_fork(self) -> None:
        """Restore the numbers of threads in a forked child: its parent's holders are not there."""
        self._lock = threading.Lock()
        if self._n_holders:
            self._n_holders = 0
            self._restore(self._saved)

    def _restore(self, seen: list[int]) -> None:
        for library, own, saved in zip(self._libraries or (), seen, self._saved, strict=True):
            # With OpenMP, releases of threadpoolctl that have controlling threads read and set the
            # number of this thread. Elsewhere the process has one number.
            is_per_thread = (
                hasattr(library, "clear_controlling_thread")
                and getattr(library, "threading_layer", None) == "openmp"
            )
            if is_per_thread:
                _set(library, own)
            elif not self._n_holders and library.get_num_threads() == 1:
                _set(library, saved)


def _loaded_libraries() -> list[Any]:
    """Return threadpoolctl's controllers of the BLAS libraries of NumPy and SciPy."""
    import scipy.linalg  # noqa: F401, PLC0415 - loads SciPy's BLAS, which may not be NumPy's
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - looking takes a millisecond

    blas = ThreadpoolController().select(user_api="blas").lib_controllers
    return [library for library in blas if library.get_num_threads() is not None]


def _set(library: Any, number: int) -> None:
    """Set a library's number of threads, whichever thread asked threadpoolctl for one before.

    From release 3.8 on only the first thread that sets a number may change it, and the others'
    requests do nothing. Here any thread may be the first to compute, and any other the last.
    """
    clear = getattr(library, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)
    library.set_num_threads(number)
    if clear is not None:
        clear()


_LIMIT: Final = SharedLimit()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_LIMIT.after_fork)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside ``with``, or inside a function decorated by a call of this.

    Nests, and may be entered by any number of threads at a time. After the last of them has left,
    by an exception or not, the process has the number of threads it had before.
    """
    seen = _LIMIT.acquire()
    try:
        yield
    finally:
        _LIMIT.release(seen)
