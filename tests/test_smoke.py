"""What has to work wherever the package is installed: these run against the built wheel in CI.

They need nothing beyond the package's own dependencies and pytest.
"""

from __future__ import annotations

import math
import subprocess
import sys
from importlib import metadata, resources

import optuna
import pytest

import bbo_plugins

pytestmark = pytest.mark.smoke


def test_version_is_that_of_the_distribution() -> None:
    """The module and the installed distribution agree on the version."""
    try:
        installed = metadata.version("bbo-plugins")
    except metadata.PackageNotFoundError:
        pytest.skip("a source tree that is not installed has no metadata")
    assert installed == bbo_plugins.__version__


def test_types_are_shipped() -> None:
    """Type checkers look for this marker before they believe an annotation."""
    assert resources.files(bbo_plugins).joinpath("py.typed").is_file()


def test_command_line_reports() -> None:
    """``python -m bbo_plugins`` works without any extra."""
    run = subprocess.run(
        [sys.executable, "-m", "bbo_plugins"], check=True, capture_output=True, text=True
    )
    assert bbo_plugins.__version__ in run.stdout


def test_sampler_runs_a_study_over_mixed_parameters() -> None:
    """The sampler gets past its start-up trials and keeps to the search space."""

    def objective(trial: optuna.Trial) -> float:
        rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
        width = trial.suggest_int("width", 1, 9)
        kind = trial.suggest_categorical("kind", ["a", "b", None])
        return math.log10(rate * 0.1) ** 2 + (width - 4) ** 2 + (kind != "b")

    study = optuna.create_study(sampler=bbo_plugins.UHEBOSampler(n_startup_trials=4, seed=0))
    study.optimize(objective, n_trials=10)
    assert len(study.trials) == 10
    assert all(type(trial.params["width"]) is int for trial in study.trials)
