"""What the package says stands among Optuna's own lines; tried in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

STUDY = """
import logging
import optuna
{before}
import bbo_plugins.optuna
{after}
sampler = bbo_plugins.optuna.UHEBOSampler(n_startup_trials=3, seed=0)
study = optuna.create_study(sampler=sampler)
study.optimize(lambda t: t.suggest_float("x", 0.0, 1.0) ** 2, n_trials=5, show_progress_bar={bar})
logging.getLogger("bbo_plugins.anything").warning("a warning")
"""
SAYS = "start-up is over"


def _stderr(before: str = "", after: str = "", *, bar: bool = False) -> str:
    """Run the study and return what it writes to the terminal, progress bar included."""
    script = STUDY.format(before=before, after=after, bar=bar)
    run = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=100
    )
    return run.stderr + run.stdout


def _lines_with(text: str, output: str) -> list[str]:
    return [line for line in output.replace("\r", "\n").splitlines() if text in line]


def test_shown_once_and_formatted_as_optuna_does() -> None:
    """By default: INFO and above, in Optuna's format, once."""
    output = _stderr()
    (line,) = _lines_with(SAYS, output)
    assert line.startswith("[I 2")
    (line,) = _lines_with("a warning", output)
    assert line.startswith("[W 2")
    assert len(_lines_with("finished with value", output)) == 5


@pytest.mark.parametrize(
    "before, after, n_told, n_warnings",
    [
        pytest.param("", "optuna.logging.set_verbosity(optuna.logging.WARNING)", 0, 1, id="quiet"),
        pytest.param(
            "logging.basicConfig(); optuna.logging.disable_default_handler()",
            "optuna.logging.enable_propagation()",
            1,
            1,
            id="propagation",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "logging.getLogger('bbo_plugins').setLevel(logging.ERROR)",
            "",
            0,
            0,
            id="own level",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_follows_the_settings(before: str, after: str, n_told: int, n_warnings: int) -> None:
    """Whoever has set Optuna's logging up has set ours up."""
    output = _stderr(before, after)
    assert len(_lines_with(SAYS, output)) == n_told
    assert len(_lines_with("a warning", output)) == n_warnings


def test_progress_bar_is_not_broken() -> None:
    """Lines are written above the bar: none has a part of the bar in it."""
    output = _stderr(bar=True)
    (line,) = _lines_with(SAYS, output)
    assert line.startswith("[I 2")
    assert "%|" not in line
    assert len(_lines_with("100%|", output)) >= 1
