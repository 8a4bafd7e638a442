"""A scheduler asked directly, with as much of Tune's controller as it needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.search import SearchGenerator

from bbo_plugins.ray import BBOSearch, InnerHorizonScheduler

if TYPE_CHECKING:
    from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon

CONTINUE, PAUSE, STOP = "CONTINUE", "PAUSE", "STOP"
ASHA = {"time_attr": "sgd_steps", "grace_period": 1, "max_t": 100, "reduction_factor": 2}


def make_trial(trial_id: str, **config: Any) -> Trial:
    """Return one of Tune's trials."""
    return Trial("train", trial_id=trial_id, config={"x": 1.0, **config}, stub=True)


class Experiment:
    """A scheduler, a search algorithm, and as much of Tune's controller as the two ask for."""

    def __init__(
        self, horizon: InnerHorizon | None = None, *, n_samples: int = 6, **arguments: Any
    ) -> None:
        """Set both up, for a loss that is minimized."""
        self.search = BBOSearch({"x": tune.uniform(0.0, 2.0)}, "loss", "min", seed=0)
        search_alg = SearchGenerator(self.search)
        search_alg._total_samples = n_samples
        self.controller: Any = SimpleNamespace(
            search_alg=search_alg, get_trials=list, get_live_trials=set
        )
        self.scheduler = InnerHorizonScheduler(horizon, **arguments)
        self.scheduler.set_search_properties("loss", "min")

    def add(self, *names: str, **config: Any) -> list[Trial]:
        """Have new trials suggested, and add them."""
        trials = [make_trial(name, **config) for name in names]
        for trial in trials:
            self.search.suggest(trial.trial_id)
            self.scheduler.on_trial_add(self.controller, trial)
        return trials

    def report(self, trial: Trial, done: Any, loss: float = 1.0, **fields: Any) -> str:
        """Report a result with a checkpoint, and do with the trial what is decided."""
        result = {"sgd_steps": done, "loss": loss, "training_iteration": 1}
        result |= {"should_checkpoint": True, **fields}
        decision = self.scheduler.on_trial_result(self.controller, trial, result)
        trial.run_metadata.last_result = result
        trial.set_status(
            {PAUSE: Trial.PAUSED, STOP: Trial.TERMINATED, CONTINUE: Trial.RUNNING}[decision]
        )
        return decision

    def end(self, trial: Trial, **fields: Any) -> None:
        """Tell both of the end of a trial, with its last result."""
        result = {**trial.run_metadata.last_result, **fields}
        self.scheduler.on_trial_complete(self.controller, trial, result)
        self.search.on_trial_complete(trial.trial_id, result)

    @property
    def spent(self) -> int:
        """The steps that are made or given out."""
        return self.scheduler._horizons.spent()

    @property
    def is_finished(self) -> bool:
        """Whether no trial is to come."""
        return bool(self.controller.search_alg.is_finished())

    @property
    def recorded(self) -> list[Any]:
        """The study's trials."""
        trials: list[Any] = self.search._ot_study.trials
        return trials


def horizons(*trials: Trial) -> list[int]:
    """Return how many steps each trial is to make."""
    return [trial.config["inner_horizon"] for trial in trials]
