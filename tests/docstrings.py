"""The examples in the docstrings of public names, and a way to run shown code in short studies."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any

import optuna

if TYPE_CHECKING:
    import pytest

_EXAMPLE = re.compile(
    r"^Example:\n    \.\. code-block:: python\n\n((?:    .*\n?|\n)+)", re.MULTILINE
)


def example_of(thing: object) -> str:
    """Return the code of the example in the docstring of a class or function; empty if none."""
    found = _EXAMPLE.search(inspect.getdoc(thing) or "")
    return textwrap.dedent(found.group(1)) if found else ""


def shorten_studies(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let calls of ``Study.optimize`` in this code end soon after its sampler or rule has begun.

    Samplers start with 10 points that fill the space, a terminator judges from 20 trials on.
    """
    most = 22 if "Terminator" in code else 14
    optimize = optuna.Study.optimize

    def shortened(study: Any, func: Any, n_trials: int | None = None, **options: Any) -> None:
        wanted = n_trials if n_trials is None else min(n_trials, most)
        optimize(study, func, n_trials=wanted, **options)

    monkeypatch.setattr(optuna.Study, "optimize", shortened)
