"""Messages of this package take the way of Optuna's own.

A study is watched through Optuna's log lines, so what a sampler has to say stands among them: in
their format, at their verbosity (:func:`optuna.logging.set_verbosity`), above the progress bar and
not through it, and to the handlers of the root logger after
:func:`optuna.logging.enable_propagation` only.
"""

from __future__ import annotations

import logging
from typing import Final

import optuna

OURS: Final = "bbo_plugins"
_THEIRS: Final = "optuna"


class _ToOptuna(logging.Handler):
    """Hands each record to Optuna's logger, which knows its level, handlers and propagation."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the record on if Optuna would log one of its own of that level."""
        logger = logging.getLogger(_THEIRS)
        if logger.isEnabledFor(record.levelno):
            logger.handle(record)


def follow_optuna() -> None:
    """Send the messages of this package to Optuna's logger; to be called once, on import.

    A program that has given the logger "bbo_plugins" a handler or a level before keeps its own.
    """
    logger = logging.getLogger(OURS)
    if logger.handlers or logger.level != logging.NOTSET:
        return
    optuna.logging.get_verbosity()  # lets Optuna set its logger up, if nothing has yet
    logger.addHandler(_ToOptuna())
    logger.setLevel(logging.DEBUG)  # Optuna's verbosity decides
    logger.propagate = False
