"""The GO-UCB paper's three tuning tasks on its Breast-cancer data set (Liu & Wang 2023, D.2).

A random forest of 7, a perceptron of 8 and gradient boosting of 11 hyperparameters; as there, every
sampler sees the box [0, 10]^d: continuous hyperparameters are mapped linearly, integers and choices
share it in equal parts. The objective is the error rate, averaged over five fixed folds.

What the text leaves open: inputs are not scaled (it names no scaling); the data set is
scikit-learn's Wisconsin diagnostic one of 569 rows; the models' own seed is fixed, so that the
objective is free of noise; "(0, 1)" is [0.001, 0.999], which all of its values are legal in.
"""

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from sklearn import __version__, datasets
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from benchmarks.common.report import file_digest
from benchmarks.problems.problem import Params, Problem, box, cube_of, digest_of

N_FOLDS = 5
SIDE = 10.0


@dataclass(frozen=True, kw_only=True)
class Task:
    """One model and its hyperparameters.

    Attributes:
        name: Its name in options, records and tables.
        hyperparameters: Their ranges, as the paper lists them.
        model: Makes the classifier.
    """

    name: str
    hyperparameters: Mapping[str, BaseDistribution]
    model: Callable[..., Any]

    @property
    def box(self) -> dict[str, BaseDistribution]:
        """The space that samplers see."""
        d = len(self.hyperparameters)
        return box(np.zeros(d), np.full(d, SIDE))

    def decoded(self, params: Params) -> dict[str, Any]:
        """Return the hyperparameters at a point of the box."""
        point = np.array([params[name] for name in self.box]) / SIDE
        return cube_of(self.hyperparameters).decode(point)

    def value(self, params: Params) -> float:
        """Return the error rate over the folds at a point of the box."""
        X, y, fold_of = data()
        hyperparameters = self.decoded(params)
        errors = []
        with warnings.catch_warnings():
            # Of too few iterations, and of names that scikit-learn is about to change.
            warnings.simplefilter("ignore")
            for fold in range(N_FOLDS):
                train = fold_of != fold
                model = self.model(random_state=0, **hyperparameters).fit(X[train], y[train])
                errors.append(float((model.predict(X[~train]) != y[~train]).mean()))
        return float(np.mean(errors))

    @property
    def problem(self) -> Problem:
        """The task as a problem; its least value, which nobody knows, is given as 0."""
        definition = self.name, dict(self.hyperparameters), file_digest(__name__), __version__
        return Problem(
            name=self.name,
            space=self.box,
            value=self.value,
            argmin={},
            minimum=0.0,
            n_trials=36,
            n_startup=6,
            group="table",
            definition=digest_of(*definition),
        )


@functools.cache
def data() -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Return inputs (n, p), classes (n,) and the fold of each row (n,)."""
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X, y, np.random.default_rng(0).permutation(len(y)) % N_FOLDS


floats, ints, choices = FloatDistribution, IntDistribution, CategoricalDistribution
# The order of hyperparameters is the paper's.
TASKS = (
    Task(
        name="forest7",
        hyperparameters={
            "n_estimators": ints(20, 200),
            "criterion": choices(["gini", "entropy", "log_loss"]),
            "max_depth": ints(1, 10),
            "min_samples_split": ints(2, 10),
            "min_samples_leaf": ints(1, 10),
            "max_features": choices(["sqrt", "log2"]),
            "bootstrap": choices([True, False]),
        },
        model=RandomForestClassifier,
    ),
    Task(
        name="perceptron8",
        hyperparameters={
            "activation": choices(["identity", "logistic", "tanh", "relu"]),
            "alpha": floats(1e-6, 1e-2),
            "learning_rate_init": floats(1e-6, 1e-2),
            "max_iter": ints(100, 300),
            "shuffle": choices([True, False]),
            "beta_1": floats(0.001, 0.999),
            "beta_2": floats(0.001, 0.999),
            "n_iter_no_change": ints(1, 10),
        },
        model=MLPClassifier,
    ),
    Task(
        name="boosting11",
        hyperparameters={
            "loss": choices(["log_loss", "exponential"]),
            "learning_rate": floats(0.001, 0.999),
            "n_estimators": ints(20, 200),
            "subsample": floats(0.001, 0.999),
            "criterion": choices(["friedman_mse", "squared_error"]),
            "min_samples_split": ints(2, 10),
            "min_samples_leaf": ints(1, 10),
            "min_weight_fraction_leaf": floats(0.0, 0.5),
            "max_depth": ints(1, 10),
            "max_features": choices(["sqrt", "log2"]),
            "max_leaf_nodes": ints(2, 10),
        },
        model=GradientBoostingClassifier,
    ),
)
