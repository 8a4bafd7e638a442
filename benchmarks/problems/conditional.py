"""Define-by-run problems: which parameters a trial has depends on the values of others.

The synthetic ones have a known minimum of 0. The real ones tune models of scikit-learn on the data
that it ships; their value is the error of a cross-validation with fixed folds.

The groups say what each problem was used for while the samplers' way of dealing with conditions was
made:

- "chosen on": the prior of the length-scales, and what else was chosen, was chosen on these;
- "looked at": tried once when the method stood, and nothing was changed afterwards;
- "held out": written when the method was finished, before any sampler had been run on them;
- "real": scikit-learn's models; nothing was chosen on these either.
"""

import functools
import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from optuna.trial import Trial
from sklearn import datasets
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_selection import SelectKBest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier

from benchmarks.problems.problem import ObjectiveProblem

_CLASSES = ("r", "t", "s")
_N_ROWS = 400  # of the real data, so that an evaluation takes some 50 ms


def three_branches(trial: Trial) -> float:
    """A category with two or three floats of its own behind each value; the last one is best."""
    branch = trial.suggest_categorical("branch", ["a", "b", "c"])
    if branch == "a":
        x = np.array([trial.suggest_float(f"a{i}", 0.0, 1.0) for i in range(2)])
        return 0.3 + float(((x - 0.2) ** 2).sum())
    if branch == "b":
        x = np.array([trial.suggest_float(f"b{i}", 1e-4, 1.0, log=True) for i in range(2)])
        return 0.15 + float(((np.log10(x) + 1.7) ** 2).sum())
    x = np.array([trial.suggest_float(f"c{i}", -5.0, 5.0) for i in range(3)])
    return float(((x - 1.3) ** 2).sum() + (x[0] - 1.3) * (x[1] - 1.3)) / 8.0


def layer_widths(trial: Trial) -> float:
    """An integer, and a float for each level up to it; three are best."""
    n = trial.suggest_int("n_layers", 1, 4)
    widths = np.array([trial.suggest_float(f"width{i}", 0.0, 1.0) for i in range(n)])
    targets = 0.3 + 0.15 * np.arange(n)
    return float(((widths - targets) ** 2).mean()) + 0.1 * abs(n - 3)


def two_parents(trial: Trial) -> float:
    """Two independent categories, each with two floats behind each of its three values."""
    total = 0.0
    for parent, best in (("p", 1), ("q", 2)):
        choice = trial.suggest_categorical(parent, [0, 1, 2])
        x = trial.suggest_float(f"{parent}{choice}x", 0.0, 1.0)
        y = trial.suggest_float(f"{parent}{choice}y", 0.0, 1.0)
        total += 0.2 * abs(choice - best) + (x - 0.3 - 0.1 * choice) ** 2 + (y - 0.6) ** 2
    return total


def float_parent(trial: Trial) -> float:
    """A float above whose threshold there is another one, with a better minimum."""
    x = trial.suggest_float("x", 0.0, 1.0)
    y = trial.suggest_float("y", 0.0, 1.0)
    value = (x - 0.75) ** 2 + (y - 0.4) ** 2
    if x > 0.5:
        z = trial.suggest_float("z", -1.0, 1.0)
        return value + (z - 0.4 * x) ** 2
    return value + 0.1


def depth_two(trial: Trial) -> float:
    """A category behind a category; the minimum lies in the deepest branch."""
    side = trial.suggest_categorical("side", ["left", "right"])
    if side == "right":
        x = trial.suggest_float("rx", 0.0, 1.0)
        k = trial.suggest_int("rk", 1, 10)
        return 0.1 + (x - 0.3) ** 2 + 0.01 * (k - 4) ** 2
    kind = trial.suggest_categorical("kind", ["x", "y", "z"])
    u = trial.suggest_float(f"l{kind}", 0.0, 1.0)
    if kind == "x":
        return 0.2 + (u - 0.5) ** 2
    v = trial.suggest_float(f"l{kind}v", 0.0, 1.0)
    offset = 0.05 if kind == "y" else 0.0
    return offset + (u - 0.8) ** 2 + (v - 0.1) ** 2 + (u - 0.8) * (v - 0.1)


def network_depth(trial: Trial) -> float:
    """An integer depth, and a category and a log integer for each level up to it."""
    n = trial.suggest_int("depth", 1, 5)
    total = 0.3 * abs(n - 4)
    for i in range(n):
        activation = trial.suggest_categorical(f"activation{i}", _CLASSES)
        width = trial.suggest_int(f"width{i}", 4, 64, log=True)
        total += 0.2 * (activation != _CLASSES[i % 3])
        total += (math.log2(width) - (3.0, 4.0, 5.0, 3.0, 4.0)[i]) ** 2 / 4.0
    return total


def rare_branch(trial: Trial) -> float:
    """Twelve choices, each with two floats; one is far better, another one is a broad basin."""
    choice = trial.suggest_categorical("choice", list(range(12)))
    x = trial.suggest_float(f"x{choice}", 0.0, 1.0)
    y = trial.suggest_float(f"y{choice}", 0.0, 1.0)
    if choice == 7:
        return 2.0 * (x - 0.65) ** 2 + 2.0 * (y - 0.25) ** 2
    return 0.3 + 0.02 * choice + 0.5 * (x - 0.4) ** 2 + 0.5 * (y - 0.5) ** 2


def moving_optimum(trial: Trial) -> float:
    """A shared log float whose best value depends on the branch, and own floats in two of three."""
    kind = trial.suggest_categorical("kind", ["a", "b", "c"])
    rate = math.log10(trial.suggest_float("rate", 1e-5, 1.0, log=True))
    value = (rate - {"a": -4.0, "b": -2.5, "c": -1.0}[kind]) ** 2 / 2.0
    if kind == "a":
        return 0.2 + value
    own = trial.suggest_float(f"own_{kind}", 0.0, 1.0)
    return value + (own - {"b": 0.9, "c": 0.3}[kind]) ** 2 + {"b": 0.0, "c": 0.1}[kind]


def forty_parameters(trial: Trial) -> float:
    """Eight choices with five parameters each, so that 40 of 41 are conditional."""
    choice = trial.suggest_categorical("choice", list(range(8)))
    x = np.array([trial.suggest_float(f"x{choice}_{i}", 0.0, 1.0) for i in range(4)])
    k = trial.suggest_int(f"k{choice}", 1, 8)
    rng = np.random.default_rng(choice)
    value = float(((x - rng.uniform(0.1, 0.9, 4)) ** 2).sum()) + 0.01 * (k - 1 - choice) ** 2
    return value + 0.1 * ((choice * 3) % 8)


def threshold_and_switch(trial: Trial) -> float:
    """Two parameters that exist where a switch is on *and* a float is above its threshold."""
    size = trial.suggest_float("size", 0.1, 10.0, log=True)
    use = trial.suggest_categorical("use", [True, False])
    value = (math.log10(size) - 0.5) ** 2 + (0.0 if use else 0.15)
    if use and size > 1.0:
        share = trial.suggest_float("share", 0.0, 1.0)
        order = trial.suggest_int("order", 1, 6)
        return value + (share - 0.35) ** 2 + 0.03 * abs(order - 4)
    return value + 0.1


def small_rate(trial: Trial) -> float:
    """A log float below whose threshold there are an integer and a float, with a moving optimum."""
    rate = math.log10(trial.suggest_float("rate", 1e-4, 1.0, log=True))
    start = trial.suggest_float("start", 0.0, 1.0)
    value = (rate + 2.6) ** 2 / 3.0 + (start - 0.7) ** 2
    if rate >= -2.0:
        return value + 0.08
    period = trial.suggest_int("period", 1, 20)
    floor = trial.suggest_float("floor", 0.0, 1.0)
    return value + 0.002 * (period - 13) ** 2 + (floor - 0.1 - 0.3 * start) ** 2


def three_levels(trial: Trial) -> float:
    """A category behind a category behind a category; the minimum lies in the deepest branch."""
    family = trial.suggest_categorical("family", ["tree", "network"])
    if family == "tree":
        leaves = math.log2(trial.suggest_int("leaves", 2, 256, log=True))
        return 0.12 + 0.02 * (leaves - 5.0) ** 2
    rate = math.log10(trial.suggest_float("rate", 1e-5, 1e-1, log=True))
    optimizer = trial.suggest_categorical("optimizer", ["sgd", "adam", "newton"])
    if optimizer == "newton":
        return 0.25 + 0.1 * (rate + 1.5) ** 2
    if optimizer == "adam":
        beta = trial.suggest_float("beta", 0.0, 0.999)
        return 0.06 + 0.2 * (rate + 3.2) ** 2 + (beta - 0.9) ** 2
    value = 0.2 * (rate + 1.8) ** 2 + 2.0 * (trial.suggest_float("momentum", 0.0, 1.0) - 0.8) ** 2
    schedule = trial.suggest_categorical("schedule", ["constant", "step", "cosine"])
    if schedule == "constant":
        return 0.1 + value
    if schedule == "cosine":
        return 0.03 + value + (trial.suggest_float("warmup", 0.0, 0.5) - 0.1) ** 2
    every = trial.suggest_int("every", 1, 30)
    factor = trial.suggest_float("factor", 0.05, 1.0, log=True)
    return value + 0.001 * (every - 11) ** 2 + 0.1 * math.log10(factor / 0.3) ** 2


def one_kind_has_layers(trial: Trial) -> float:
    """A category, one value of which has an integer and then two parameters for each level."""
    kind = trial.suggest_categorical("kind", ["linear", "forest", "network"])
    if kind == "linear":
        return (
            0.15 + 0.03 * (math.log10(trial.suggest_float("alpha", 1e-6, 1.0, log=True)) + 3) ** 2
        )
    if kind == "forest":
        depth = trial.suggest_int("depth", 1, 12)
        portion = trial.suggest_float("portion", 0.1, 1.0)
        return 0.07 + 0.004 * (depth - 8) ** 2 + 0.3 * (portion - 0.4) ** 2
    n = trial.suggest_int("n_layers", 1, 3)
    value = 0.08 * abs(n - 2)
    for i in range(n):
        units = math.log2(trial.suggest_int(f"units{i}", 4, 128, log=True))
        dropout = trial.suggest_float(f"dropout{i}", 0.0, 0.6)
        value += 0.05 * (units - 6.0 + i) ** 2 + (dropout - 0.15 - 0.1 * i) ** 2
    return value


def sharp_and_flat(trial: Trial) -> float:
    """Shared floats; where their curvature is high the value is best, an integer in two of four."""
    kind = trial.suggest_categorical("kind", ["sharp", "steep", "round", "flat"])
    shift = trial.suggest_float("shift", -1.0, 1.0)
    scale = math.log10(trial.suggest_float("scale", 1e-3, 1e3, log=True))
    curvature = {"sharp": 8.0, "steep": 2.0, "round": 0.5, "flat": 0.05}[kind]
    best = {"sharp": 0.43, "steep": -0.35, "round": 0.1, "flat": -0.7}[kind]
    value = curvature * ((shift - best) ** 2 + (scale - 3.0 * best) ** 2 / 9.0)
    if kind == "sharp":
        return value + 0.01 * (trial.suggest_int("order", 1, 9) - 6) ** 2
    if kind == "round":
        return value + 0.04 + 0.01 * (trial.suggest_int("window", 1, 15) - 4) ** 2
    return value + {"steep": 0.1, "flat": 0.08}[kind]


@functools.cache
def _data(name: str) -> tuple[Any, Any]:

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:_N_ROWS]
    return X[rows], y[rows]


def _error(model: Any, data: str) -> float:
    """Return the error rate of a 3-fold cross-validation."""
    X, y = _data(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return 1.0 - float(cross_val_score(model, X, y, cv=StratifiedKFold(3)).mean())


def _classifier(trial: Trial, kinds: tuple[str, ...]) -> Any:
    """Return one of these classifiers with its own parameters."""
    kind = trial.suggest_categorical("classifier", kinds)
    if kind == "svm":
        kernel = trial.suggest_categorical("kernel", ["rbf", "poly"])
        C = trial.suggest_float("svm_C", 1e-3, 1e3, log=True)
        gamma = trial.suggest_float("gamma", 1e-5, 1e1, log=True)
        degree = trial.suggest_int("degree", 2, 4) if kernel == "poly" else 3
        return SVC(C=C, kernel=kernel, gamma=gamma, degree=degree, max_iter=2000)
    if kind == "neighbors":
        n = trial.suggest_int("n_neighbors", 1, 50, log=True)
        metric = trial.suggest_categorical("metric", ["euclidean", "manhattan", "cosine"])
        weights = trial.suggest_categorical("weights", ["uniform", "distance"])
        return KNeighborsClassifier(n, metric=metric, weights=weights)
    if kind == "tree":
        depth = trial.suggest_int("max_depth", 1, 20)
        leaf = trial.suggest_int("min_samples_leaf", 1, 50, log=True)
        criterion = trial.suggest_categorical("criterion", ["gini", "entropy"])
        return DecisionTreeClassifier(
            max_depth=depth, min_samples_leaf=leaf, criterion=criterion, random_state=0
        )
    C = trial.suggest_float("logistic_C", 1e-4, 1e3, log=True)
    return LogisticRegression(C=C, max_iter=50)


def four_classifiers(trial: Trial) -> float:
    """Support vectors, neighbors, a tree or a linear model on digits, with their parameters."""
    return _error(_classifier(trial, ("svm", "neighbors", "tree", "linear")), "digits")


def preprocessing_and_model(trial: Trial) -> float:
    """A preprocessing step, with its own parameters, before one of three classifiers, on tumors."""
    step = trial.suggest_categorical("step", ["none", "scale", "pca", "select", "rank"])
    steps: list[Any] = []
    if step == "scale":
        steps = [StandardScaler()]
    elif step == "pca":
        n = trial.suggest_int("n_components", 1, 20)
        whiten = trial.suggest_categorical("whiten", [True, False])
        steps = [StandardScaler(), PCA(n, whiten=whiten, random_state=0)]
    elif step == "select":
        steps = [StandardScaler(), SelectKBest(k=trial.suggest_int("k", 1, 30))]
    elif step == "rank":
        steps = [QuantileTransformer(n_quantiles=100, output_distribution="normal")]
    model = _classifier(trial, ("svm", "neighbors", "tree"))
    return _error(make_pipeline(*steps, model), "breast_cancer")


def small_network(trial: Trial) -> float:
    """A perceptron with one to four layers, a width for each, on digits."""
    n = trial.suggest_int("n_layers", 1, 4)
    widths = [trial.suggest_int(f"width{i}", 4, 64, log=True) for i in range(n)]
    solver = trial.suggest_categorical("solver", ["adam", "sgd"])
    rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    momentum = trial.suggest_float("momentum", 0.0, 0.99) if solver == "sgd" else 0.9
    network = MLPClassifier(
        widths,
        solver=solver,
        learning_rate_init=rate,
        momentum=momentum,
        alpha=trial.suggest_float("alpha", 1e-6, 1e-1, log=True),
        max_iter=15,
        random_state=0,
    )
    return _error(make_pipeline(StandardScaler(), network), "digits")


def four_regressors(trial: Trial) -> float:
    """Kernel ridge, support vectors, a forest or neighbors on diabetes, after one of three steps.

    The value is the squared error relative to that of the mean, at most 1.
    """
    step = trial.suggest_categorical("step", ["scale", "pca", "rank"])
    steps: list[Any] = [StandardScaler()]
    if step == "pca":
        steps.append(PCA(trial.suggest_int("n_components", 1, 10), random_state=0))
    elif step == "rank":
        steps = [
            QuantileTransformer(n_quantiles=trial.suggest_int("n_quantiles", 5, 200, log=True))
        ]
    kind = trial.suggest_categorical("regressor", ["ridge", "svm", "forest", "neighbors"])
    if kind == "ridge":
        alpha = trial.suggest_float("alpha", 1e-4, 1e3, log=True)
        kernel = trial.suggest_categorical("kernel", ["rbf", "polynomial", "laplacian"])
        gamma = trial.suggest_float("ridge_gamma", 1e-5, 1e1, log=True)
        steps.append(KernelRidge(alpha=alpha, kernel=kernel, gamma=gamma))
    elif kind == "svm":
        C = trial.suggest_float("C", 1e-1, 1e4, log=True)
        gamma = trial.suggest_float("svm_gamma", 1e-5, 1e1, log=True)
        epsilon = trial.suggest_float("epsilon", 1e-1, 1e2, log=True)
        steps.append(SVR(C=C, gamma=gamma, epsilon=epsilon, max_iter=5000))
    elif kind == "forest":
        leaf = trial.suggest_int("min_samples_leaf", 1, 50, log=True)
        portion = trial.suggest_float("max_features", 0.1, 1.0)
        steps.append(
            ExtraTreesRegressor(15, min_samples_leaf=leaf, max_features=portion, random_state=0)
        )
    else:
        n = trial.suggest_int("n_neighbors", 1, 100, log=True)
        weights = trial.suggest_categorical("weights", ["uniform", "distance"])
        steps.append(KNeighborsRegressor(n, weights=weights))
    X, y = _data("diabetes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = cross_val_score(make_pipeline(*steps), X, y, cv=KFold(3)).mean()
    return min(1.0, 1.0 - float(score))


N_TRIALS = 100
_FUNCTIONS = {
    "chosen on": (
        *(three_branches, layer_widths, two_parents, float_parent),
        *(depth_two, rare_branch, forty_parameters),
    ),
    "looked at": (network_depth, moving_optimum, threshold_and_switch),
    "held out": (small_rate, three_levels, one_kind_has_layers, sharp_and_flat),
}
SYNTHETIC = {
    one.__name__: ObjectiveProblem(
        name=one.__name__, function=one, n_trials=N_TRIALS, minimum=0.0, group=group
    )
    for group, functions in _FUNCTIONS.items()
    for one in functions
}
REAL = {
    # An error is at most 1, its own unit; what could be reached is not known.
    one.__name__: ObjectiveProblem(
        name=one.__name__, function=one, n_trials=N_TRIALS, minimum=0.0, group="real", unit=1.0
    )
    for one in (four_classifiers, preprocessing_and_model, small_network, four_regressors)
}
PROBLEMS: Mapping[str, ObjectiveProblem] = SYNTHETIC | REAL
