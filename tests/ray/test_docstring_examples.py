"""The example in the docstring of each class for Ray Tune runs as it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.docstrings import example_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["BBOSearch", "InnerHorizonScheduler", "RegretGapStopper"])
def test_example_runs(
    name: str, local_ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By itself, as if pasted into a new file."""
    assert local_ray.is_initialized()
    import bbo_plugins.ray  # noqa: PLC0415 - not without Ray

    assert {*bbo_plugins.ray.__all__} == {"BBOSearch", "InnerHorizonScheduler", "RegretGapStopper"}
    code = example_of(getattr(bbo_plugins.ray, name))
    assert code
    monkeypatch.setenv("HOME", str(tmp_path))
    exec(compile(code, name, "exec"), {"__name__": "__main__"})  # noqa: S102 - our own
