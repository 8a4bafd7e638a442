"""``python -m benchmarks``: what it accepts, and a run; CI runs each benchmark with ``--quick``."""

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command_line
from benchmarks.common import options

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("words", [["nosuch"], [], ["latency", "--seeds", "0"], ["regret", "--x"]])
def test_bad_arguments_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown names, no name, and senseless options end with status 2 and a usage line."""
    with pytest.raises(SystemExit) as stop:
        command_line.main(words)
    assert stop.value.code == 2
    assert "usage: python -m benchmarks" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(command_line.BENCHMARKS))
def test_every_benchmark_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each can be imported with the packages of the tests, and lists its options."""
    with pytest.raises(SystemExit) as stop:
        command_line.main([name, "--help"])
    assert not stop.value.code
    assert "--quick" in capsys.readouterr().out


def test_commands_in_the_docs_are_understood() -> None:
    """Every ``python -m benchmarks NAME ...`` that a page shows has options that there are."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    names = "|".join(command_line.BENCHMARKS)
    pattern = re.compile(rf"`python -m benchmarks ((?:{names})\b[^`]*)`")
    commands = {
        " ".join(words.split())
        for page in pages
        for words in pattern.findall(page.read_text(encoding="utf-8"))
    }
    assert len(commands) > 10
    for command in sorted(commands - {"papers NAME"}):
        name, *words = command.split()
        parser = argparse.ArgumentParser(exit_on_error=False)
        options.add_common(parser)
        importlib.import_module(f"benchmarks.{name}.run").add_arguments(parser)
        _, unknown = parser.parse_known_args(words)
        assert not unknown, command


def test_threads_are_limited_before_numpy_loads(tmp_path: Path) -> None:
    """In a fresh process the variables are set, and the report says so."""
    words = [
        "regret",
        "--problems",
        "branin",
        "--samplers",
        "random",
        "--seeds",
        "1",
        "--jobs",
        "1",
    ]
    printed = _run([*words, "--trials", "11"], tmp_path)
    assert "OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1, MKL_NUM_THREADS=1" in printed


@pytest.mark.slow  # CI runs them by themselves
@pytest.mark.parametrize("name", command_line.BENCHMARKS)
def test_the_quick_form_runs(name: str, tmp_path: Path) -> None:
    """It ends well, and its report has a table or says why there is none."""
    printed = _run([name, "--quick"], tmp_path)
    assert "\n| " in printed or "No stored results" in printed


def _run(words: list[str], folder: Path) -> str:
    """Return what a command prints, which is what it writes too."""
    command = [sys.executable, "-m", "benchmarks", *words, "--out", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert (folder / f"{words[0]}.md").read_text(encoding="utf-8") == done.stdout
    return done.stdout
