"""Tune a training by stochastic gradient descent with Ray Tune, from a total number of steps.

A digits classifier is trained by mini-batches (scikit-learn's ``partial_fit``); its step length,
its regularization and its batch size are tuned. All steps of all trials together are the budget.
Nobody says how many trials there are to be or how long each is to train: each trial trains longer
than the one before, and whenever that has grown, the best three so far are continued from their
checkpoints (:class:`bbo_plugins.InnerHorizon`). Three plugins work together under Ray Tune:

- :class:`bbo_plugins.ray.BBOSearch` suggests the hyperparameters,
- :class:`bbo_plugins.ray.InnerHorizonScheduler` says how many steps each trial makes,
- :class:`bbo_plugins.ray.RegretGapStopper` ends the experiment when nothing more is to be gained.

An experiment that was interrupted goes on where it was::

    python examples/ray_sgd.py                       # 20,000 steps
    python examples/ray_sgd.py --total-steps 60000
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray
from ray import tune
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from _script import add_count, add_out, add_seed, timed
from bbo_plugins import InnerHorizon
from bbo_plugins.ray import BBOSearch, InnerHorizonScheduler, RegretGapStopper

SPACE = {
    "rate": tune.loguniform(1e-1, 1e3),  # times config["step_size"], which the horizon sets
    "alpha": tune.loguniform(1e-7, 1e-1),
    "batch_size": tune.choice([8, 32, 128]),
}
CHUNK = 250  # steps between two reports, which take longer than a step
WORST_LOSS = 10.0  # what a diverged training counts as


class Data(NamedTuple):
    """Images and labels to train on, to validate on, and to test on in the end."""

    X: np.ndarray
    y: np.ndarray
    X_valid: np.ndarray
    y_valid: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def load(cls) -> Data:
        """Load the digits and split them, always in the same way."""
        images, labels = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(
            images / 16.0, labels, test_size=500, random_state=0
        )
        X, X_valid, y, y_valid = train_test_split(X, y, test_size=400, random_state=0)
        return cls(X, y, X_valid, y_valid, X_test, y_test)


class Training:
    """A model and how many steps it has had."""

    def __init__(self, config: dict[str, Any]) -> None:
        """Start anew; the model gets its first weights with its first step."""
        self.done = 0
        self.config = config
        self.model = SGDClassifier(loss="log_loss", learning_rate="constant", random_state=0)

    def step(self, data: Data) -> None:
        """Make one step on a mini-batch, which depends on the number of the step alone."""
        # The length of the steps is another one when the trial is continued.
        eta = self.config["rate"] * self.config["step_size"]
        self.model.set_params(alpha=self.config["alpha"], eta0=eta)
        size = self.config["batch_size"]
        rows = np.random.default_rng(self.done).integers(len(data.y), size=size)
        # scikit-learn updates once per image: shorter updates make one step of them.
        self.model.partial_fit(
            data.X[rows],
            data.y[rows],
            classes=np.arange(10),
            sample_weight=np.full(size, 1.0 / size),
        )
        self.done += 1

    def log_loss(self, data: Data) -> float:
        """Return the logarithm of the validation loss, which is what the search models best."""
        probabilities = np.nan_to_num(self.model.predict_proba(data.X_valid), nan=0.1)
        loss = log_loss(data.y_valid, probabilities, labels=np.arange(10))
        return float(np.log(min(loss, WORST_LOSS)))

    def save(self, folder: str) -> tune.Checkpoint:
        """Write a checkpoint."""
        (Path(folder) / "training.pkl").write_bytes(pickle.dumps((self.done, self.model)))
        return tune.Checkpoint.from_directory(folder)

    def load(self, checkpoint: tune.Checkpoint) -> None:
        """Go on from a checkpoint."""
        with checkpoint.as_directory() as folder:
            content = (Path(folder) / "training.pkl").read_bytes()
        self.done, self.model = pickle.loads(content)  # noqa: S301 - which only we have written


def train(config: dict[str, Any], data: Data) -> None:
    """Train up to the horizon of this trial; this is what Ray Tune runs."""
    checkpoint = tune.get_checkpoint()
    training = Training(config)
    if checkpoint is not None:
        training.load(checkpoint)
    horizon = config["inner_horizon"]
    while training.done < horizon:
        for _ in range(min(CHUNK, horizon - training.done)):
            training.step(data)
        with tempfile.TemporaryDirectory() as folder:
            tune.report(
                {"log_loss": training.log_loss(data), "sgd_steps": training.done},
                checkpoint=training.save(folder),
            )


def make_tuner(folder: Path, data: Data, total_steps: int, n_trials: int, seed: int) -> tune.Tuner:
    """Open or create the experiment in a folder."""
    trainable = tune.with_parameters(train, data=data)
    path = folder / "experiment"
    if tune.Tuner.can_restore(path):
        print(f"Going on with the experiment in {path}")
        return tune.Tuner.restore(str(path), trainable=trainable, param_space=SPACE)
    horizon = InnerHorizon.growing(total_steps=total_steps)
    return tune.Tuner(
        trainable,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            search_alg=BBOSearch(seed=seed),
            scheduler=InnerHorizonScheduler(horizon),
            metric="log_loss",
            mode="min",
            num_samples=n_trials,
            max_concurrent_trials=2,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name=path.name,
            storage_path=str(folder),
            stop=RegretGapStopper("log_loss", "min", SPACE),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
            verbose=0,
        ),
    )


def report(results: tune.ResultGrid, data: Data, total_steps: int) -> None:
    """Print the best trials, and how good the best model is on images that nothing has seen."""
    done = [result for result in results if result.metrics and "log_loss" in result.metrics]
    done.sort(key=lambda result: float(result.metrics["log_loss"]))
    spent = sum(result.metrics["sgd_steps"] for result in done)
    if not done:
        raise SystemExit("No trial has reported anything.")
    print(f"\n{len(done)} trials, {spent} of {total_steps} steps\n")
    print("validation loss  steps      rate     alpha  batch size")
    for result in done[:5]:
        config = result.metrics["config"]
        print(
            f"{np.exp(result.metrics['log_loss']):15.4f}{result.metrics['sgd_steps']:7}"
            f"{config['rate']:10.3g}{config['alpha']:10.2g}{config['batch_size']:12}"
        )
    best = Training(done[0].metrics["config"])
    best.load(done[0].checkpoint)
    error = 1.0 - best.model.score(data.X_test, data.y_test)
    print(f"\nTest error of the best: {100.0 * error:.1f}%")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Tune a training with Ray Tune.")
    add_count(parser, "--total-steps", 20_000, "steps of all trials together", metavar="B")
    add_count(parser, "--n-trials", 100, "trials at most, if the steps last so long")
    add_out(parser, "ray_sgd_output", "the experiment")
    add_seed(parser, "the search")
    return parser.parse_args()


def main() -> None:
    """Run the experiment, then print what came out."""
    args = parse_arguments()
    folder = args.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    data = Data.load()
    # Of its own, whatever else runs on this machine; a cluster's address would go here.
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )
    tuner = make_tuner(folder, data, args.total_steps, args.n_trials, args.seed)
    results = tuner.fit()
    report(results, data, args.total_steps)
    print(f"\nExperiment: {folder / 'experiment'}")


if __name__ == "__main__":
    with timed():
        main()
