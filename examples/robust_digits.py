"""Tune a classifier against the worst plausible shift of its input, instead of on clean images.

Two decision-makers: we choose how strongly a digits classifier is regularized (``C``) and how far
its training images are tilted and blurred (``augmentation``, 1 being as far as it can get); then
nature chooses the ``tilt`` and the ``blur`` of the images it has to recognize, and is assumed to do
its worst. Both care for the same number, the log-loss under that shift: we minimize it, nature
maximizes it. Each trial of :class:`bbo_plugins.optuna.BILBOSampler` trains one classifier and tries
one shift on it.

Beside it, with as many trainings: naive tuning of the same two hyperparameters on clean images, and
a rule of thumb, augmentation 1 with the ``C`` of naive tuning. What each result is worth is found
out on a fine grid of shifts, on the images the search has seen and on fresh ones::

    python examples/robust_digits.py
    python examples/robust_digits.py --n-trials 100 --seed 3

A shift is cheap to try here, which is what makes that check possible. The search does without:
50 trainings and 50 shifts, where the grid has 369 shifts for each training.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import optuna
from scipy.ndimage import map_coordinates
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import Pipeline, make_pipeline
from threadpoolctl import threadpool_limits

from _script import add_count, add_out, add_seed, save_plot, timed
from bbo_plugins.optuna import BBOSampler, BILBOSampler
from bbo_plugins.visualization.matplotlib import plot_bilevel

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TILT, MAX_BLUR = 40.0, 0.8  # degrees; pixels of standard deviation
N_TRAIN, N_VALIDATION, N_COPIES = 800, 400, 2
GRID = (41, 9)  # tilts and blurs of the check


@dataclass(frozen=True)
class Digits:
    """Images (n, 8, 8) in three parts, and the random directions in which copies are shifted."""

    images: np.ndarray
    labels: np.ndarray
    parts: Mapping[str, np.ndarray]
    directions: np.ndarray  # of each copy's tilt (-1 to 1) and blur (0 to 1), shape (2, n_copies)

    @classmethod
    def split(cls, seed: int) -> Digits:
        """Load the images and split them at random."""
        images, labels = load_digits(return_X_y=True)
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(images))
        parts = np.split(order, [N_TRAIN, N_TRAIN + N_VALIDATION])
        n = N_COPIES * N_TRAIN
        directions = np.stack([rng.uniform(-1.0, 1.0, n), rng.uniform(0.0, 1.0, n)])
        named = dict(zip(("training", "validation", "fresh"), parts, strict=True))
        return cls(images.reshape(-1, 8, 8) / 16.0, labels, named, directions)


def shifted(images: np.ndarray, tilt: Any, blur: Any) -> np.ndarray:
    """Return the images (n, 8, 8), tilted by degrees and blurred; one value for all or n values."""
    n, width = images.shape[:2]
    angle = np.deg2rad(np.broadcast_to(tilt, n))[:, None, None]
    center = np.arange(width) - (width - 1) / 2.0
    down, right = center[:, None], center[None, :]
    rows = np.cos(angle) * down - np.sin(angle) * right - center[0]
    columns = np.sin(angle) * down + np.cos(angle) * right - center[0]
    which = np.broadcast_to(np.arange(n)[:, None, None], rows.shape)
    tilted = map_coordinates(images, [which, rows, columns], order=1, mode="grid-constant")
    reach = np.maximum(np.broadcast_to(blur, n), 0.01)[:, None, None]
    smear = np.exp(-0.5 * ((down - right) / reach) ** 2)
    smear /= smear.sum(axis=2, keepdims=True)
    return np.asarray(smear @ tilted @ smear.transpose(0, 2, 1))


def train(digits: Digits, params: Mapping[str, float]) -> Pipeline:
    """Train the classifier on tilted and blurred copies of the training images."""
    images = np.tile(digits.images[digits.parts["training"]], (N_COPIES, 1, 1))
    labels = np.tile(digits.labels[digits.parts["training"]], N_COPIES)
    tilt, blur = params["augmentation"] * digits.directions
    images = shifted(images, MAX_TILT * tilt, MAX_BLUR * blur)
    model = make_pipeline(
        Nystroem(gamma=0.05, n_components=200, random_state=0),
        LogisticRegression(C=params["C"], max_iter=200, tol=1e-3),
    )
    return model.fit(images.reshape(len(images), -1), labels)


def loss(model: Pipeline, digits: Digits, part: str, tilt: float = 0.0, blur: float = 0.0) -> float:
    """Return the log-loss on one part of the images under a shift."""
    images = shifted(digits.images[digits.parts[part]], tilt, blur)
    probabilities = model.predict_proba(images.reshape(len(images), -1))
    return float(log_loss(digits.labels[digits.parts[part]], probabilities, labels=range(10)))


def suggest_upper(trial: optuna.Trial) -> dict[str, float]:
    """Return our choice."""
    return {
        "C": trial.suggest_float("C", 0.1, 1e3, log=True),
        "augmentation": trial.suggest_float("augmentation", 0.0, 1.5),
    }


def tune_against_nature(
    digits: Digits, n_trials: int, seed: int
) -> tuple[optuna.Study, BILBOSampler]:
    """Tune against the worst shift: each trial trains once and tries one shift."""
    sampler = BILBOSampler(
        ["C", "augmentation"], ["tilt", "blur"], lower_direction="maximize", seed=seed
    )
    # Two directions: a trial gives both levels' values at once.
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)

    def objective(trial: optuna.Trial) -> tuple[float, float]:
        model = train(digits, suggest_upper(trial))
        tilt = trial.suggest_float("tilt", -MAX_TILT, MAX_TILT)
        blur = trial.suggest_float("blur", 0.0, MAX_BLUR)
        damage = loss(model, digits, "validation", tilt, blur)
        return damage, damage

    study.optimize(objective, n_trials=n_trials)
    return study, sampler


def tune_naively(digits: Digits, n_trials: int, seed: int) -> dict[str, float]:
    """Tune on clean images."""
    study = optuna.create_study(sampler=BBOSampler(seed=seed))
    study.optimize(
        lambda trial: loss(train(digits, suggest_upper(trial)), digits, "validation"),
        n_trials=n_trials,
    )
    return study.best_params


def worst(model: Pipeline, digits: Digits, part: str) -> tuple[float, float, float]:
    """Return the largest log-loss on the grid of shifts, and the tilt and the blur it is at."""
    tilts = np.linspace(-MAX_TILT, MAX_TILT, GRID[0])
    blurs = np.linspace(0.0, MAX_BLUR, GRID[1])
    return max((loss(model, digits, part, t, b), float(t), float(b)) for t in tilts for b in blurs)


def compare(digits: Digits, results: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Print what each result is worth; return its largest loss on the validation images."""
    largest = {}
    head = f"{'':20}{'C':>8}{'augm.':>8}{'clean':>8}{'worst':>8}{'worst, fresh':>14}"
    print(f"\n{head}  worst shift")
    for name, params in results.items():
        model = train(digits, params)
        clean = loss(model, digits, "validation")
        largest[name], tilt, blur = worst(model, digits, "validation")
        fresh = worst(model, digits, "fresh")[0]
        print(
            f"{name:20}{params['C']:8.3g}{params['augmentation']:8.2f}{clean:8.3f}"
            f"{largest[name]:8.3f}{fresh:14.3f}  {tilt:+.0f} degrees, blur {blur:.1f}"
        )
    return largest


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Tune against the worst plausible shift.")
    add_count(parser, "--n-trials", 50, "trainings of each search")
    add_out(parser, "robust_digits_output", "the plot")
    add_seed(parser, "the searches and of the split of the images")
    return parser.parse_args()


def main() -> None:
    """Run both searches, print what their results are worth, and draw the plot."""
    args = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    args.out.mkdir(parents=True, exist_ok=True)
    digits = Digits.split(args.seed)

    print(f"{args.n_trials} trainings on clean images, then {args.n_trials} against nature")
    naive = tune_naively(digits, args.n_trials, args.seed)
    study, sampler = tune_against_nature(digits, args.n_trials, args.seed)
    solution = sampler.solution(study)
    largest = compare(
        digits,
        {
            "naive tuning": naive,
            "rule of thumb": {**naive, "augmentation": 1.0},
            "against the worst": solution.upper_params,
        },
    )
    answer = solution.lower_params
    print(
        f"\nThe model expected {solution.upper_value:.3f} at {answer['tilt']:+.0f} degrees and "
        f"blur {answer['blur']:.1f}."
    )
    ratio = largest["naive tuning"] / largest["against the worst"]
    print(f"Naive tuning's worst case is {ratio:.1f} times as bad.")
    picture = args.out / "bilevel.png"
    mpl.use("Agg")
    save_plot(plot_bilevel(study, sampler), picture)
    print(f"\nPlot: {picture}")


if __name__ == "__main__":
    # Threads that wait for each other on a busy machine take many times longer than one.
    with threadpool_limits(limits=1), timed():
        main()
