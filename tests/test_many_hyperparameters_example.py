"""The example with many hyperparameters: its search space, and a run as a script."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from sklearn.datasets import load_breast_cancer

from tests.example_scripts import load_example, run_example

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    """Return the script as a module."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield load_example("many_hyperparameters", monkeypatch)


def _params(example: Any, sampler: optuna.samplers.BaseSampler) -> dict[str, Any]:
    study = optuna.create_study(sampler=sampler)
    params: dict[str, Any] = example.suggest(study.ask())
    return params


def test_search_space_has_twenty_hyperparameters(example: Any) -> None:
    """As promised, and the same ones in every trial, so that the model covers them all."""
    names = [set(_params(example, optuna.samplers.RandomSampler(seed=s))) for s in range(10)]
    assert len(names[0]) == 20
    assert all(other == names[0] for other in names)


def test_groups_are_the_columns_that_they_are_called_after(example: Any) -> None:
    """Mean, error and worst, each with all ten properties."""
    columns = load_breast_cancer().feature_names
    for group, place in example.GROUPS.items():
        assert len(columns[place]) == 10
        assert all(group in name.split() for name in columns[place])


def test_hyperparameters_reach_the_pipeline(example: Any) -> None:
    """What a group's settings say becomes of its columns, and of the weights of the parts."""
    params = _params(example, optuna.samplers.RandomSampler(seed=0))
    params |= {"mean_components": 3, "error_components": 1, "worst_components": 7}
    params |= {"worst_weight": 0.01, "worst_whiten": True, "mean_clip": 1.5}
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = example.pipeline(params).fit(X, y)
    inputs = pipeline[0].transform(X)
    assert inputs.shape == (len(X), 11)
    np.testing.assert_allclose(inputs[:, 4:].std(axis=0, ddof=1), 0.01)
    clipped = pipeline[0].named_transformers_["mean"][:-1].transform(X[:, :10])
    assert np.abs(clipped).max() == 1.5
    assert pipeline[1].transform(inputs).shape == (len(X), 11 + params["n_landmarks"])


def test_script_compares_samplers(tmp_path: Path) -> None:
    """A row for each, none worse than guessing, and the means are those of the columns."""
    run = run_example("many_hyperparameters", tmp_path, "--n-trials", "5", "--n-seeds", "2")
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "result" / "many_hyperparameters.png").stat().st_size > 10_000
    rows = re.findall(r"^(\w+Sampler) +(\S+) +(\S+) +(\S+) +(\S+)$", run.stdout, re.MULTILINE)
    assert [row[0] for row in rows] == ["GOUCBSampler", "TPESampler", "RandomSampler"]
    for row in rows:
        first, second, mean, fresh = map(float, row[1:])
        assert mean == pytest.approx((first + second) / 2, abs=1.01e-4)
        assert 0.0 < max(first, second, fresh) < np.log(2.0)


def test_impossible_budget_is_refused(tmp_path: Path) -> None:
    """A budget without trials is a usage error."""
    run = run_example("many_hyperparameters", tmp_path, "--n-trials", "0")
    assert run.returncode == 2
    assert "must be at least 1, but got 0" in run.stderr
