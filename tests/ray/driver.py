"""A driver on a cluster, run as a script: ``driver.py '{"folder": ..., "address": ...}'``.

Starts an experiment, or restores the one in the folder. What happens is written to files there:
``progress.jsonl`` has one line for each result, ``summary.json`` how it ended.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from ray import tune

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.ray import BBOSearch, InnerHorizonScheduler

N_TRIALS = 5
CHUNK = 16
GROWING = InnerHorizon.growing(constant=4.0)  # N_t = 4 t²
SPACE = {"x": tune.uniform(0.0, 20.0)}


def is_held(config: dict[str, Any], done: int, resumed_at: int) -> bool:
    """Return whether to wait, with steps still to make: in a continuation if the horizon grows."""
    if not Path(config["hold"]).exists():
        return False
    return done > resumed_at > 0 if config["growing"] else done == 2 * CHUNK


def train(config: dict[str, Any]) -> None:
    """Pretend to make SGD steps, in chunks, with a checkpoint after each."""
    done = 0
    if checkpoint := tune.get_checkpoint():
        with checkpoint.as_directory() as folder:
            done = json.loads((Path(folder) / "done.json").read_text(encoding="utf-8"))
    resumed_at = done
    while done < config["inner_horizon"]:
        time.sleep(0.1)
        while is_held(config, done, resumed_at):
            time.sleep(0.05)
        done = min(done + CHUNK, config["inner_horizon"])
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "done.json").write_text(json.dumps(done), encoding="utf-8")
            tune.report(
                {
                    "loss": (config["x"] - 3.0) ** 2 + 1.0 / done,
                    "sgd_steps": done,
                    "resumed_at": resumed_at,
                    "node": ray.get_runtime_context().get_node_id(),
                },
                checkpoint=tune.Checkpoint.from_directory(folder),
            )


class Progress(tune.Callback):  # type: ignore[misc,unused-ignore] # Any without Ray
    """Writes one line for each result."""

    def __init__(self, path: Path) -> None:
        """Append to a file."""
        self.path = path

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Write who has reported what."""
        del iteration, trials, info
        line = {
            "trial": trial.trial_id,
            "n": result["config"]["inner_horizon"],
            "step_size": result["config"]["step_size"],
            "done": result["sgd_steps"],
            "resumed_at": result["resumed_at"],
            "node": result["node"],
            "pid": result["pid"],
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def summary(results: tune.ResultGrid) -> dict[str, Any]:
    """Return how the experiment ended."""
    return {
        "errors": results.num_errors,
        "terminated": results.num_terminated,
        "trials": [
            {
                "trial": result.metrics["trial_id"],
                "n": result.metrics["config"]["inner_horizon"],
                "step_size": result.metrics["config"]["step_size"],
                "done": result.metrics["sgd_steps"],
            }
            for result in results
        ],
    }


def main() -> None:
    """Run or restore the experiment."""
    job = json.loads(sys.argv[1])
    folder = Path(job["folder"])
    space = {**SPACE, "hold": str(folder / "hold"), "growing": job["growing"]}
    ray.init(address=job["address"], log_to_driver=False, logging_level="ERROR")
    if job["restore"]:
        tuner = tune.Tuner.restore(str(folder / "experiment"), trainable=train, param_space=space)
    else:
        horizon = GROWING if job["growing"] else None
        storage = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
        tuner = tune.Tuner(
            train,
            param_space=space,
            tune_config=tune.TuneConfig(
                search_alg=BBOSearch(seed=0, storage=storage),
                scheduler=InnerHorizonScheduler(horizon),
                metric="loss",
                mode="min",
                num_samples=N_TRIALS,
                max_concurrent_trials=2,
                reuse_actors=job["reuse_actors"],
            ),
            run_config=tune.RunConfig(
                name="experiment",
                storage_path=str(folder),
                # Until Ray has noticed that a node is gone, every attempt on it fails at once.
                failure_config=tune.FailureConfig(max_failures=20),
                callbacks=[Progress(folder / "progress.jsonl")],
                verbose=0,
            ),
        )
    results = tuner.fit()
    (folder / "summary.json").write_text(json.dumps(summary(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
