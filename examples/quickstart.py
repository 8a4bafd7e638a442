"""Tune an SGD-trained digits classifier with bbo_plugins, and see what tuning was worth.

The classifier is linear in random kernel features and trained by stochastic gradient descent. Seven
of its hyperparameters (three log-scaled floats, a float, a log-scaled integer, two choices) are
tuned by :class:`bbo_plugins.BBOSampler`, and by random search with the same number of trials.
What is maximized is 3-fold cross-validated accuracy; a part of the data that no trial sees tells
what was really gained. Both studies are stored in SQLite, so that a second run continues where the
first one ended::

    python examples/quickstart.py                  # 40 trials for either search
    python examples/quickstart.py --n-trials 60    # 20 more for either
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import optuna
from matplotlib.figure import Figure
from optuna.trial import TrialState
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from threadpoolctl import threadpool_limits

from _script import add_count, add_out, add_seed, timed
from bbo_plugins.optuna import BBOSampler

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EPOCHS = 15  # of every tuned training; scikit-learn's default goes on until nothing improves
RANDOM, OURS = "random search", "BBOSampler"


class Data(NamedTuple):
    """Images and labels: for cross-validation, and held out until the end."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Row(NamedTuple):
    """One line of the table at the end."""

    name: str
    validation: float
    test: float


def load_data() -> Data:
    """Split the digits; the split is the same in every run, or stored trials would not compare."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    return Data(X, y, X_test, y_test)


def default_model() -> Pipeline:
    """Return the classifier as one would write it down without tuning."""
    return Pipeline(
        [
            ("scale", MinMaxScaler()),
            ("features", Nystroem(random_state=0)),
            ("classify", SGDClassifier(random_state=0)),
        ]
    )


def tuned_model(params: Mapping[str, Any]) -> Pipeline:
    """Return the classifier with the hyperparameters of a trial."""
    features = Nystroem(gamma=params["gamma"], n_components=params["n_components"], random_state=0)
    classifier = SGDClassifier(
        loss=params["loss"],
        alpha=params["alpha"],
        learning_rate="invscaling",  # step t has length eta0 / t**power_t
        eta0=params["eta0"],
        power_t=params["power_t"],
        average=params["average"],
        max_iter=EPOCHS,
        tol=None,  # all epochs, always
        random_state=0,
    )
    return Pipeline([("scale", MinMaxScaler()), ("features", features), ("classify", classifier)])


def suggest(trial: optuna.Trial) -> dict[str, Any]:
    """Return the hyperparameters of one trial; this is the search space."""
    return {
        "gamma": trial.suggest_float("gamma", 1e-4, 10.0, log=True),
        "n_components": trial.suggest_int("n_components", 20, 200, log=True),
        "loss": trial.suggest_categorical("loss", ["hinge", "log_loss", "modified_huber"]),
        "alpha": trial.suggest_float("alpha", 1e-7, 0.1, log=True),
        "eta0": trial.suggest_float("eta0", 1e-3, 10.0, log=True),
        "power_t": trial.suggest_float("power_t", 0.0, 0.75),
        "average": trial.suggest_categorical("average", [False, True]),
    }


def validation_accuracy(model: Pipeline, data: Data) -> float:
    """Return the cross-validated accuracy, which both searches maximize."""
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model, data.X, data.y, cv=folds, error_score="raise")
    return float(scores.mean())


def held_out_accuracy(model: Pipeline, data: Data) -> float:
    """Train on all the search saw and score on what it never saw: the mean of three trainings."""
    scores = []
    for seed in range(3):
        model.set_params(features__random_state=seed, classify__random_state=seed)
        scores.append(model.fit(data.X, data.y).score(data.X_test, data.y_test))
    return float(np.mean(scores))


def finished_trials(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Return the completed trials; one that was interrupted does not count against the budget."""
    return study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])


def search(label: str, storage: str, data: Data, n_trials: int, seed: int) -> optuna.Study:
    """Open or create one stored study and run the trials it lacks."""
    study = optuna.create_study(
        study_name=f"{label}, seed {seed}",
        storage=storage,
        direction="maximize",
        load_if_exists=True,
    )
    done = len(finished_trials(study))
    if label == RANDOM:
        # Random search starts its stream anew in each process; without an own seed per start, a
        # resumed study would repeat its first trials.
        study.sampler = optuna.samplers.RandomSampler(seed=seed + 1_000 * done)
    else:
        # The one line to change in a study of your own. It needs no such care: each suggestion
        # depends on the seed, the trial's number and the stored trials only.
        study.sampler = BBOSampler(seed=seed)
    missing = max(0, n_trials - done)
    print(f"{label}: {done} trials stored, {missing} to run", flush=True)
    if missing:
        study.optimize(
            lambda trial: validation_accuracy(tuned_model(suggest(trial)), data),
            n_trials=missing,
            show_progress_bar=True,
        )
    return study


def plot(studies: Mapping[str, optuna.Study], default: Row, path: Path) -> None:
    """Draw every trial and the best value so far of each search, beside the default."""
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for color, (name, study) in zip(("tab:gray", "tab:blue"), studies.items(), strict=True):
        values = np.array([trial.value for trial in finished_trials(study)], dtype=float)
        count = np.arange(1, len(values) + 1)
        axes.scatter(count, values, s=14, color=color, alpha=0.5)
        axes.step(count, np.maximum.accumulate(values), where="post", color=color, label=name)
    axes.axhline(default.validation, color="black", linestyle=":", label=default.name)
    # Configurations that hardly learn would squeeze everything else into one line.
    axes.set_ylim(0.85, 1.0)
    axes.set_xlabel("trial")
    axes.set_ylabel("cross-validated accuracy")
    axes.set_title("Best accuracy so far (line) and single trials above 0.85 (dots)")
    figure.legend(loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=150)


def print_table(rows: list[Row]) -> None:
    """Print accuracies; the test column is the honest one, the other was maximized."""
    width = max(len(row.name) for row in rows)
    print(f"\n{'':{width}}  validation   test")
    for row in rows:
        print(f"{row.name:{width}}  {row.validation:10.4f}  {row.test:.4f}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Tune an SGD-trained digits classifier.")
    add_count(parser, "--n-trials", 40, "trials of either search, stored ones included")
    add_out(parser, "quickstart_output", "the database and the plot")
    add_seed(parser, "both searches")
    return parser.parse_args()


def main() -> None:
    """Run both searches, then print the table and draw the plot."""
    args = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # the progress bar says enough
    args.out.mkdir(parents=True, exist_ok=True)
    database = args.out / "quickstart.db"
    storage = f"sqlite:///{database}"
    data = load_data()

    studies = {
        label: search(label, storage, data, args.n_trials, args.seed) for label in (RANDOM, OURS)
    }
    default = Row(
        "scikit-learn's defaults",
        validation_accuracy(default_model(), data),
        held_out_accuracy(default_model(), data),
    )
    tuned = [
        Row(
            f"{name}, {len(finished_trials(study))} trials",
            study.best_value,
            held_out_accuracy(tuned_model(study.best_params), data),
        )
        for name, study in studies.items()
    ]
    print_table([default, *tuned])

    print(f"\nBest hyperparameters found by {OURS}:")
    for name, value in studies[OURS].best_params.items():
        print(f"  {name} = {value:.4g}" if isinstance(value, float) else f"  {name} = {value}")
    picture = args.out / "optimization_history.png"
    plot(studies, default, picture)
    print(f"\nStudies: {database}\nPlot:    {picture}")


if __name__ == "__main__":
    # These matrices are too small to be worth a second thread, and on a busy machine threads that
    # wait for each other take many times longer than one.
    with threadpool_limits(limits=1), timed():
        main()
