"""The grids of ``hpo_tables``: nine models with their hyperparameters' levels."""

import functools
from typing import Any

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from benchmarks.problems.hpo_tables import Grid

_forest = functools.partial(RandomForestRegressor, n_estimators=10, random_state=0)
_tree = functools.partial(DecisionTreeClassifier, random_state=0)


def _svc(log10_c: float, log10_gamma: float, kernel: str) -> Any:
    return SVC(C=10.0**log10_c, gamma=10.0**log10_gamma, kernel=kernel)


def _svr(log10_c: float, log10_gamma: float, log10_epsilon: float) -> Any:
    return SVR(
        C=10.0**log10_c, gamma=10.0**log10_gamma, epsilon=10.0**log10_epsilon, max_iter=20_000
    )


def _kernel_ridge(log10_alpha: float, log10_gamma: float, kernel: str) -> Any:
    ridge = KernelRidge(alpha=10.0**log10_alpha, gamma=10.0**log10_gamma, kernel=kernel)
    return TransformedTargetRegressor(ridge, transformer=StandardScaler())


def _boosting(log10_rate: float, **rest: Any) -> Any:
    return GradientBoostingRegressor(learning_rate=10.0**log10_rate, random_state=0, **rest)


def _neighbors(n_components: int, **rest: Any) -> Any:
    model = KNeighborsClassifier(**rest, algorithm="brute")
    return make_pipeline(PCA(n_components, random_state=0), model)


def _logistic(log10_c: float, n_components: int, class_weight: str | None) -> Any:
    model = LogisticRegression(C=10.0**log10_c, class_weight=class_weight, max_iter=300)
    return make_pipeline(PCA(n_components, random_state=0), model)


def _perceptron(log2_units: int, log10_alpha: float, log10_rate: float) -> Any:
    return MLPClassifier(
        hidden_layer_sizes=(2**log2_units,),
        alpha=10.0**log10_alpha,
        learning_rate_init=10.0**log10_rate,
        max_iter=15,
        batch_size=64,
        random_state=0,
    )


steps, ints, choices = FloatDistribution, IntDistribution, CategoricalDistribution
# In the order of the report; the last one is for ``--quick`` runs.
_ALL = (
    Grid(
        name="svc_digits",
        data="digits",
        metric="error rate",
        space={
            "log10_c": steps(-2.0, 3.0, step=0.5),
            "log10_gamma": steps(-5.0, 0.0, step=0.5),
            "kernel": choices(["rbf", "poly", "sigmoid"]),
        },
        model=_svc,
    ),
    Grid(
        name="svr_diabetes",
        data="diabetes",
        metric="mean squared error",
        space={
            "log10_c": steps(-1.0, 3.0, step=0.5),
            "log10_gamma": steps(-4.0, 0.5, step=0.5),
            "log10_epsilon": steps(-1.0, 2.0, step=0.5),
        },
        model=_svr,
    ),
    Grid(
        name="kernel_ridge_diabetes",
        data="diabetes",
        metric="mean squared error",
        space={
            "log10_alpha": steps(-4.0, 2.0, step=0.5),
            "log10_gamma": steps(-4.0, 0.5, step=0.25),
            "kernel": choices(["rbf", "laplacian"]),
        },
        model=_kernel_ridge,
    ),
    Grid(
        name="forest_diabetes",
        data="diabetes",
        metric="mean squared error",
        space={
            "max_depth": ints(1, 9, step=2),
            "min_samples_leaf": ints(1, 29, step=4),
            "max_features": steps(0.1, 1.0, step=0.15),
        },
        model=_forest,
    ),
    Grid(
        name="boosting_diabetes",
        data="diabetes",
        metric="mean squared error",
        space={
            "log10_rate": steps(-2.5, 0.0, step=0.25),
            "n_estimators": ints(5, 45, step=8),
            "max_depth": ints(1, 4),
        },
        model=_boosting,
    ),
    Grid(
        name="tree_cancer",
        data="breast_cancer",
        metric="error rate",
        space={
            "max_depth": ints(1, 10),
            "min_samples_leaf": ints(1, 19, step=2),
            "max_features": steps(0.2, 1.0, step=0.4),
            "criterion": choices(["gini", "entropy"]),
        },
        model=_tree,
    ),
    Grid(
        name="neighbors_digits",
        data="digits",
        metric="error rate",
        space={
            "n_neighbors": ints(1, 15, step=2),
            "metric": choices(["manhattan", "euclidean", "chebyshev", "cosine"]),
            "weights": choices(["uniform", "distance"]),
            "n_components": ints(4, 40, step=6),
        },
        model=_neighbors,
    ),
    Grid(
        name="logistic_cancer",
        data="breast_cancer",
        metric="log loss",
        space={
            "log10_c": steps(-4.0, 4.0, step=0.5),
            "n_components": ints(2, 30, step=2),
            "class_weight": choices([None, "balanced"]),
        },
        model=_logistic,
    ),
    Grid(
        name="perceptron_wine",
        data="wine",
        metric="log loss",
        space={
            "log2_units": ints(1, 6),
            "log10_alpha": steps(-4.0, 2.0, step=1.0),
            "log10_rate": steps(-4.0, -0.5, step=0.5),
        },
        model=_perceptron,
    ),
    Grid(
        name="quick_tree_wine",
        data="wine",
        metric="error rate",
        space={
            "max_depth": ints(1, 5),
            "min_samples_leaf": ints(1, 29, step=4),
            "criterion": choices(["gini", "entropy"]),
        },
        model=_tree,
    ),
)
GRIDS = {grid.name: grid for grid in _ALL}
