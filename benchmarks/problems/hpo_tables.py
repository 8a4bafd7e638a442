"""Tables of cross-validated scores: real hyperparameter tuning at the price of a look-up.

Each table is a grid of several hundred configurations of one scikit-learn model on one of the data
sets that come with it (``benchmarks.problems.hpo_grids``), every one scored on the same five
folds. A score
is to be minimized (error rate, log loss or mean squared error); a configuration's value is the mean
over the folds, and the scores of the folds are kept. A table is computed once and stored as JSON,
with a digest of its definition; a file with another digest is computed anew.
"""

import functools
import itertools
import json
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning

from bbo_plugins.space import SearchSpace
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common.report import file_digest, machine_facts
from benchmarks.problems.problem import cube_of, digest_of

N_FOLDS = 5
FOLDER = "stopping-tables"
_MAX_ROWS = 400  # of a data set; larger ones are thinned at random
_SMALLEST_PROBABILITY = 1e-6  # in a log loss

DataSet: TypeAlias = Literal["breast_cancer", "diabetes", "digits", "wine"]
Metric: TypeAlias = Literal["error rate", "log loss", "mean squared error"]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is tuned: a model's parameters, each with a finite number of levels.

    Attributes:
        name: What the table is called.
        data: The data set.
        metric: What a fold's score is.
        space: The parameters; stepped floats, stepped ints and categorical ones.
        model: Builds an unfitted estimator from the parameters.
    """

    name: str
    data: DataSet
    metric: Metric
    space: Mapping[str, BaseDistribution]
    model: Callable[..., Any]

    @functools.cached_property
    def cube(self) -> SearchSpace:
        """The parameters in the unit cube."""
        return cube_of(self.space)

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """Every configuration, the last parameter varying fastest."""
        axes = [
            at.choices or [at.low + (at.step or 1) * level for level in range(at.n_levels or 0)]
            for at in self.cube.dimensions
        ]
        return [dict(zip(self.space, row, strict=True)) for row in itertools.product(*axes)]

    @functools.cached_property
    def digest(self) -> str:
        """Digest of the definition: of the space, and of the files that hold model and scoring."""
        files = map(file_digest, ("benchmarks.problems.hpo_grids", __name__))
        return digest_of(self.name, dict(self.space), *files)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A grid's scores.

    Attributes:
        grid: The grid.
        scores: Scores on the folds of each configuration, in the grid's order, shape (m, n_folds).
    """

    grid: Grid
    scores: FloatArray

    def fold_scores(self, params: Mapping[str, Any]) -> list[float]:
        """Return the scores of one configuration on the folds."""
        (point,) = self.grid.cube.encode([params])
        axes = self.grid.cube.dimensions
        levels = [int(axis.level_of(u)) for axis, u in zip(axes, point, strict=True)]
        row = np.ravel_multi_index(levels, [axis.n_levels or 0 for axis in axes])
        scores: list[float] = self.scores[row].tolist()
        return scores

    def value(self, params: Mapping[str, Any]) -> float:
        """Return the cross-validated score of one configuration."""
        return float(np.mean(self.fold_scores(params)))

    @property
    def best(self) -> dict[str, Any]:
        """The configuration of the smallest cross-validated score, the first of equals."""
        return self.grid.configurations[int(np.argmin(self.scores.mean(axis=1)))]

    @property
    def typical_error(self) -> float:
        """Median over configurations of the standard error of the mean over the folds."""
        n_folds = self.scores.shape[1]
        return float(np.median(self.scores.std(axis=1, ddof=1)) / np.sqrt(n_folds))


def table_of(grid: Grid, directory: Path) -> Table:
    """Return the stored table of ``grid``, or compute and store it.

    Args:
        grid: The grid.
        directory: Where results go; tables have a folder of their own in there.
    """
    path = directory / FOLDER / f"{grid.name}.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if stored.get("digest") == grid.digest:
        return Table(grid=grid, scores=np.array(stored["scores"]))
    scores = _computed(grid)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written elsewhere and moved, so that a reader never meets half of a table.
    unfinished = path.with_suffix(f".{os.getpid()}")
    fresh = {"digest": grid.digest, "facts": machine_facts(), "scores": scores.tolist()}
    unfinished.write_text(json.dumps(fresh), encoding="utf-8")
    unfinished.replace(path)
    return Table(grid=grid, scores=scores)


def _computed(grid: Grid) -> FloatArray:
    """Score every configuration on every fold; shape (m, n_folds)."""
    (X, y), configurations = _data(grid.data), grid.configurations
    fold_of = np.random.default_rng(0).permutation(len(y)) % N_FOLDS
    scores = np.empty((len(configurations), N_FOLDS))
    with warnings.catch_warnings():
        # Few iterations are what makes some of the configurations bad ones.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for fold in range(N_FOLDS):
            train, test = fold_of != fold, fold_of == fold
            for row, params in enumerate(configurations):
                model = grid.model(**params).fit(X[train], y[train])
                scores[row, fold] = _score(grid.metric, model, X[test], y[test])
    return scores


def _data(name: DataSet) -> tuple[FloatArray, FloatArray]:
    """Return standardized inputs (n, p) and targets (n,), at most ``_MAX_ROWS`` of them."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    kept = np.random.default_rng(1).permutation(len(y))[:_MAX_ROWS]
    X = X[kept]
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9), y[kept]


def _score(metric: Metric, model: Any, X: FloatArray, y: FloatArray) -> float:
    if metric == "mean squared error":
        return float(np.square(model.predict(X) - y).mean())
    if metric == "error rate":
        return float((model.predict(X) != y).mean())
    columns = np.searchsorted(model.classes_, y)
    probabilities = model.predict_proba(X)[np.arange(len(y)), columns]
    return float(-np.log(np.maximum(probabilities, _SMALLEST_PROBABILITY)).mean())
