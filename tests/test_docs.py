"""What the pages in docs/ tell their readers to type works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import optuna
import pytest

from tests.docstrings import shorten_studies

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{index}")
    for page in PAGES
    for index, block in enumerate(
        re.findall(
            r"^```python\n(.*?)^```$",
            page.read_text(encoding="utf-8"),
            flags=re.MULTILINE | re.DOTALL,
        )
    )
    if "ray" not in re.findall(r"^from (\w+) import", block, flags=re.MULTILINE)  # see tests/ray
]


def test_docs_show_code() -> None:
    """The test below has something to run."""
    assert len(BLOCKS) > 1


@pytest.mark.parametrize("block", BLOCKS)
def test_block_runs(block: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each one by itself, as if pasted into a new file, but in short studies."""
    monkeypatch.chdir(tmp_path)
    shorten_studies(monkeypatch, block)
    exec(compile(block, "docs", "exec"), {"__name__": "__main__"})  # noqa: S102 - our own


def test_gallery_shows_every_example() -> None:
    """Each script is named, and the pictures are small."""
    gallery = (PAGES[0].parent / "gallery.md").read_text(encoding="utf-8")
    scripts = sorted((PAGES[0].parents[1] / "examples").glob("[!_]*.py"))
    assert [s.name for s in scripts if f"`python examples/{s.name}`" not in gallery] == []
    pictures = [PAGES[0].parent / name for name in re.findall(r"\]\((images/[^)]*)\)", gallery)]
    assert len(pictures) == len(scripts) - 1  # that for Ray draws none
    assert all(0 < picture.stat().st_size < 60_000 for picture in pictures)


@pytest.mark.slow
def test_workers_on_one_new_sqlite_file(tmp_path: Path) -> None:
    """The page's program, with SQLite, in the page's shell commands: no worker dies."""
    page = next(page for page in PAGES if page.stem == "parallel").read_text(encoding="utf-8")
    program, commands = (
        re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)[0]
        for language in ("python", "bash")
    )
    journal, url = 'JournalStorage(JournalFileBackend("study.log"))', "sqlite:///study.db"
    assert journal in program
    program = program.replace(journal, f'"{url}"').replace("Callback(40)", "Callback(8)")
    (tmp_path / "tune.py").write_text(program, encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{tmp_path}/study.db")
    complete = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    assert len(complete) >= 8
