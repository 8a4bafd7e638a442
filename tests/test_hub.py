"""What is to be published on OptunaHub can be loaded from there, and does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import optuna
import pytest

import bbo_plugins.optuna
from tests.docstrings import shorten_studies

optunahub = pytest.importorskip("optunahub")

ROOT = Path(__file__).parents[1] / "hub" / "package"
PACKAGES = sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("*/*/__init__.py"))


def _load(package: str, **_: Any) -> Any:
    return optunahub.load_local_module(package, registry_root=str(ROOT))


def test_every_class_for_studies_has_a_package() -> None:
    """Samplers and the terminator; nothing else is published."""
    exported = {name for package in PACKAGES for name in _load(package).__all__}
    promised = {
        name for name in bbo_plugins.optuna.__all__ if re.search("Sampler|Terminator", name)
    }
    assert promised <= exported <= set(bbo_plugins.optuna.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_is_ours(package: str) -> None:
    """The Hub's class is this package's class, not a copy."""
    module = _load(package)
    assert all(getattr(module, n) is getattr(bbo_plugins.optuna, n) for n in module.__all__)


@pytest.mark.parametrize("package", PACKAGES)
def test_package_has_the_files_of_the_registry(package: str) -> None:
    """The registry asks for these files, and its website for these fields."""
    folder = ROOT / package
    assert (folder / "LICENSE").read_text(encoding="utf-8") == (ROOT / "../../LICENSE").read_text(
        encoding="utf-8"
    )
    assert (folder / "requirements.txt").read_text(encoding="utf-8") == "bbo-plugins\n"
    readme = (folder / "README.md").read_text(encoding="utf-8")
    front = re.match(r"---\n(.*?)\n---\n", readme, flags=re.DOTALL)
    assert front is not None
    fields = [line.partition(":")[0] for line in front[1].splitlines()]
    assert fields == ["author", "title", "description", "tags", "optuna_versions", "license"]
    sections = re.findall(r"^## (.*)$", readme, flags=re.MULTILINE)
    assert sections == ["Abstract", "APIs", "Installation", "Example", "Others"]


@pytest.mark.parametrize("where", ["README.md", "example.py"])
@pytest.mark.parametrize("package", PACKAGES)
def test_examples_run(package: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both examples run, with this folder in place of the Hub's download."""
    text = (ROOT / package / where).read_text(encoding="utf-8")
    if where == "README.md":
        (text,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.setattr(optunahub, "load_module", _load)
    shorten_studies(monkeypatch, text)
    studies = []
    create = optuna.create_study

    def remember(**keywords: Any) -> optuna.Study:
        studies.append(create(**keywords))
        return studies[-1]

    monkeypatch.setattr(optuna, "create_study", remember)
    exec(compile(text, where, "exec"), {"__name__": "__main__"})  # noqa: S102 - our own file
    (study,) = studies
    assert len(study.trials) >= 14
    assert all(trial.state.is_finished() for trial in study.trials)
