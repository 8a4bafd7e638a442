"""The samplers that a quick test of reliability has, and those that only the long form has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.reliability.front_door import DEFAULT, ESTIMATIONS, SAMPLERS, SINGLE

if TYPE_CHECKING:
    from collections.abc import Sequence


def _quick(names: Sequence[str]) -> list[object]:
    """Return the names with those of UHEBOSampler marked slow: the default has its code."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=slow) if name in ESTIMATIONS else name for name in names]


QUICK, QUICK_SINGLE = _quick(SAMPLERS), _quick(SINGLE)

# For what is the same code in all samplers.
ONE_QUICK = [
    name if name == DEFAULT else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS
]
