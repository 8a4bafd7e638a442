"""What the experiments of the tests train."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

from ray import tune


def loss_of(x: float, done: int) -> float:
    """Return a loss that is least at x = 3 and falls with the number of steps."""
    return (x - 3.0) ** 2 + 10.0 / done


def train(config: dict[str, Any]) -> None:
    """Make steps in chunks of ``config["chunk"]``, with a checkpoint after each."""
    done = 0
    if checkpoint := tune.get_checkpoint():
        with checkpoint.as_directory() as folder:
            done = json.loads((Path(folder) / "done.json").read_text(encoding="utf-8"))
    resumed_at = done
    while done < config["inner_horizon"]:
        done = min(done + config["chunk"], config["inner_horizon"])
        result = {
            "loss": loss_of(config["x"], done),
            "sgd_steps": done,
            "resumed_at": resumed_at,
            "step_size": config["step_size"],
        }
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "done.json").write_text(json.dumps(done), encoding="utf-8")
            tune.report(result, checkpoint=tune.Checkpoint.from_directory(folder))
        marker = config.get("fail_once")
        if marker and done >= config["chunk"] and config["x"] == 3.0 and not Path(marker).exists():
            Path(marker).touch()
            raise RuntimeError("fails once")


class Training(tune.Trainable):  # type: ignore[misc,unused-ignore] # Any without Ray
    """The same as a class, which knows nothing of its horizon."""

    def setup(self, config: dict[str, Any]) -> None:
        """Start from nothing."""
        self.x, self.chunk, self.done = config["x"], config["chunk"], 0

    def step(self) -> dict[str, Any]:
        """Make one chunk of steps."""
        self.done += self.chunk
        return {"loss": loss_of(self.x, self.done), "sgd_steps": self.done}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Return what is needed to go on."""
        del checkpoint_dir
        return {"done": self.done}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there."""
        self.done = checkpoint["done"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take over the actor of another trial."""
        self.setup(new_config)
        return True


def evaluate(config: dict[str, Any]) -> None:
    """Report one value, which may be unusable, or fail unless a file says otherwise."""
    x = config["x"]
    kind = "fine"
    for upper, word in ((1.0, "nan"), (2.0, "inf"), (3.0, "none"), (4.0, "fail")):
        if x < upper:
            kind = word
            break
    if kind == "fail" and not Path(config["repaired"]).exists():
        raise RuntimeError("fails until it is repaired")
    loss = {"nan": math.nan, "inf": math.inf}.get(kind, (x - 3.0) ** 2)
    tune.report({"other": 1.0} if kind == "none" else {"loss": loss, "other": 1.0})


def train_model(config: dict[str, Any]) -> None:
    """Report the loss of one of two kinds of models, each with parameters of its own."""
    model = config["model"]
    if model["kind"] == "svm":
        assert model.keys() == {"kind", "C"}
        loss = 0.3 + abs(math.log10(model["C"]) - 1.0)
    else:
        assert model.keys() == {"kind", "trees"}
        loss = 0.1 * abs(model["trees"]["depth"] - 7) + model["trees"]["c"]
    tune.report({"loss": loss})
