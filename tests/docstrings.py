"""The examples in the docstrings of public names."""

from __future__ import annotations

import inspect
import re
import textwrap

_EXAMPLE = re.compile(
    r"^Example:\n    \.\. code-block:: python\n\n((?:    .*\n?|\n)+)", re.MULTILINE
)


def example_of(thing: object) -> str:
    """Return the code of the example in the docstring of a class or function; empty if none."""
    found = _EXAMPLE.search(inspect.getdoc(thing) or "")
    return textwrap.dedent(found.group(1)) if found else ""
