"""The example with many hyperparameters: its search space, and a run as a script."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.datasets import load_breast_cancer

import bbo_plugins

SCRIPT = Path(__file__).parents[1] / "examples" / "many_hyperparameters.py"


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    # A script finds what is installed; what is to be tested is the package these tests import.
    package = Path(bbo_plugins.__file__).parents[1]
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={**os.environ, "PYTHONPATH": str(package)},
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """Return the names that the script defines."""
    return runpy.run_path(str(SCRIPT))


def _params(example: dict[str, Any], sampler: optuna.samplers.BaseSampler) -> dict[str, Any]:
    study = optuna.create_study(sampler=sampler)
    params: dict[str, Any] = example["suggest"](study.ask())
    return params


def test_search_space_has_twenty_hyperparameters(example: dict[str, Any]) -> None:
    """As promised, and the same ones in every trial, so that the model covers them all."""
    names = [set(_params(example, optuna.samplers.RandomSampler(seed=s))) for s in range(10)]
    assert len(names[0]) == 20
    assert all(other == names[0] for other in names)


def test_groups_are_the_columns_that_they_are_called_after(example: dict[str, Any]) -> None:
    """Mean, error and worst, each with all ten properties."""
    columns = load_breast_cancer().feature_names
    for group, place in example["GROUPS"].items():
        assert len(columns[place]) == 10
        assert all(group in name.split() for name in columns[place])


def test_hyperparameters_reach_the_pipeline(example: dict[str, Any]) -> None:
    """What a group's settings say becomes of its columns, and of the weights of the parts."""
    params = _params(example, optuna.samplers.RandomSampler(seed=0))
    params |= {"mean_components": 3, "error_components": 1, "worst_components": 7}
    params |= {"worst_weight": 0.01, "worst_whiten": True, "mean_clip": 1.5}
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = example["pipeline"](params).fit(X, y)
    inputs = pipeline[0].transform(X)
    assert inputs.shape == (len(X), 11)
    np.testing.assert_allclose(inputs[:, 4:].std(axis=0, ddof=1), 0.01)
    clipped = pipeline[0].named_transformers_["mean"][:-1].transform(X[:, :10])
    assert np.abs(clipped).max() == 1.5
    assert pipeline[1].transform(inputs).shape == (len(X), 11 + params["n_landmarks"])


def test_script_compares_samplers(tmp_path: Path) -> None:
    """A row for each, none worse than guessing, and the means are those of the columns."""
    run = _run("--n-trials", "5", "--n-seeds", "2", "--out", str(tmp_path / "out"))
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "out" / "many_hyperparameters.png").stat().st_size > 10_000
    rows = re.findall(r"^(\w+Sampler) +(\S+) +(\S+) +(\S+) +(\S+)$", run.stdout, re.MULTILINE)
    assert [row[0] for row in rows] == ["GOUCBSampler", "TPESampler", "RandomSampler"]
    for row in rows:
        first, second, mean, fresh = map(float, row[1:])
        assert mean == pytest.approx((first + second) / 2, abs=1.01e-4)
        assert 0.0 < max(first, second, fresh) < np.log(2.0)


def test_impossible_budget_is_refused() -> None:
    """A budget without trials is a usage error."""
    run = _run("--n-trials", "0")
    assert run.returncode == 2
    assert "must be at least 1, but got 0" in run.stderr
