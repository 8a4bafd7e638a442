"""The example in the docstring of each class for Ray Tune runs as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.docstrings import example_of

if TYPE_CHECKING:
    from pathlib import Path
    from types import CodeType


NAMES = ("BBOSearch", "InnerHorizonScheduler", "RegretGapStopper")


def _compiled(name: str) -> CodeType:
    import bbo_plugins.ray  # noqa: PLC0415 - not without Ray

    code = example_of(getattr(bbo_plugins.ray, name))
    assert code
    return compile(code, name, "exec")


def test_each_has_one() -> None:
    """It is Python, and every class has it."""
    pytest.importorskip("ray.tune", exc_type=ImportError)
    import bbo_plugins.ray  # noqa: PLC0415 - not without Ray

    assert set(bbo_plugins.ray.__all__) == set(NAMES)
    for name in NAMES:
        _compiled(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_example_runs(
    name: str, local_ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By itself, as if pasted into a new file; a whole experiment each."""
    assert local_ray.is_initialized()
    monkeypatch.setenv("HOME", str(tmp_path))
    exec(_compiled(name), {"__name__": "__main__"})  # noqa: S102 - our own
