"""The scheduler asked directly, on Tune's own trials: which horizon a trial gets, and when."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna.study.continuations import STEPS_MADE, continued_from, steps_of, steps_taken

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
)
from ray.tune.search import BasicVariantGenerator, SearchGenerator

from bbo_plugins.ray import BBOSearch, InnerHorizonScheduler

if TYPE_CHECKING:
    from pathlib import Path

CONTINUE, PAUSE, STOP = "CONTINUE", "PAUSE", "STOP"
ASHA = {"time_attr": "sgd_steps", "grace_period": 1, "max_t": 100, "reduction_factor": 2}


def _trial(trial_id: str, **config: Any) -> Trial:
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
        trials = [_trial(name, **config) for name in names]
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


def _horizons(*trials: Trial) -> list[int]:
    return [trial.config["inner_horizon"] for trial in trials]


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"horizon": 10}, TypeError, "horizon must be an InnerHorizon, but got 10"),
        (
            {"horizon": InnerHorizon(n_outer=3), "n_outer": 4},
            ValueError,
            "horizon must be None with n_outer",
        ),
        ({"loss": "flat"}, ValueError, "loss must be one of"),
        ({"n_inner": 3}, TypeError, "n_inner"),
        ({"time_attr": 3}, TypeError, "time_attr must be a name, but got 3"),
        ({"config_key": "a", "step_size_key": "a"}, ValueError, "step_size_key must be another"),
        ({"base_scheduler": "asha"}, TypeError, "base_scheduler must be a scheduler"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """Each message names the argument, the rule and the value."""
    with pytest.raises(error, match=message):
        InnerHorizonScheduler(**arguments)


# ------------------------------------------------------------------------- one horizon for all


def test_horizon_and_step_size_are_in_the_config() -> None:
    """They are there before the trial starts, beside what the search has suggested."""
    horizon = InnerHorizon(n_outer=10, constant=3.0, learning_rate=2.0)
    experiment = Experiment(horizon, config_key="n", step_size_key="eta")
    for trial in experiment.add("a", "b"):
        assert trial.config == {"x": 1.0, "n": 30, "eta": pytest.approx(2.0 / math.sqrt(30.0))}
        assert trial.evaluated_params == {k: trial.config[k] for k in ("n", "eta")}


def test_number_of_trials_comes_from_the_search_algorithm() -> None:
    """T is what the tuner was asked for, also for Tune's own random search."""
    (trial,) = Experiment(n_samples=6, loss="nonconvex", constant=0.5).add("a")
    assert _horizons(trial) == [18]
    random_search = Experiment(constant=1.0)
    random_search.controller.search_alg = BasicVariantGenerator()
    random_search.controller.search_alg._total_samples = 4
    assert _horizons(*random_search.add("a")) == [4]


@pytest.mark.parametrize(
    "controller", [None, SimpleNamespace(search_alg=SimpleNamespace(total_samples=2**63 - 1))]
)
def test_unknown_number_of_trials_is_an_error(controller: Any) -> None:
    """With ``num_samples=-1`` or without a search algorithm there is no T to go by."""
    with pytest.raises(ValueError, match="horizon must be an InnerHorizon, or n_outer given"):
        InnerHorizonScheduler().on_trial_add(controller, _trial("a"))
    scheduler, trial = InnerHorizonScheduler(n_outer=5, constant=2.0), _trial("a")
    scheduler.on_trial_add(controller, trial)
    assert _horizons(trial) == [10]


def test_given_values_are_kept() -> None:
    """A horizon or a step size of the user's own, constant or searched, is not overwritten."""
    experiment = Experiment(InnerHorizon(n_outer=10))
    (first,) = experiment.add("a", inner_horizon=7)
    (second,) = experiment.add("b", step_size=0.5)
    assert first.config["inner_horizon"] == 7
    assert first.config["step_size"] == pytest.approx(1.0 / math.sqrt(7.0))
    assert second.config == {"x": 1.0, "inner_horizon": 80, "step_size": 0.5}
    with pytest.raises(ValueError, match=r"config\['inner_horizon'\] must be an integer of at l"):
        experiment.add("c", inner_horizon=0)


def test_horizon_stays_when_a_trial_is_added_again() -> None:
    """Retried, restored in another order, with a config made anew, or under another name."""
    before, after = (Experiment(InnerHorizon.growing(constant=3.0)) for _ in range(2))
    trials = before.add(*"abcd")
    wanted = [trial.config for trial in trials]
    assert _horizons(*trials) == [3, 12, 27, 48]
    before.scheduler.on_trial_add(before.controller, trials[1])
    trials[2].set_config({"x": 1.0})  # as Tune restores it if there are placeholders in it
    restarted = _trial("restarted", **trials[3].config)
    restarted.evaluated_params = trials[3].evaluated_params
    for trial in (restarted, trials[2], trials[0], trials[1]):
        after.scheduler.on_trial_add(after.controller, trial)
    assert [trials[0].config, trials[1].config, trials[2].config, restarted.config] == wanted
    assert _horizons(*after.add("new")) == [75]


def test_trial_is_stopped_at_its_horizon() -> None:
    """Not a report earlier, and at the latest with the first one that is beyond it."""
    experiment = Experiment(InnerHorizon(n_outer=10))
    (trial,) = experiment.add("a")
    decisions = [experiment.report(trial, done) for done in (79, 80, 95.0)]
    assert decisions == [CONTINUE, STOP, STOP]


def test_missing_number_of_steps_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without the steps there is no backstop, but everything else goes on."""
    experiment = Experiment(InnerHorizon(n_outer=1))
    (trial,) = experiment.add("a")
    for done in (None, "many", math.nan):
        assert experiment.report(trial, done) == CONTINUE
    assert len(caplog.records) == 1
    assert "'sgd_steps' (time_attr)" in caplog.text


@pytest.mark.parametrize(
    "end, state", [("stopped", "PRUNED"), ("removed", "PRUNED"), ("failed", "FAIL")]
)
def test_steps_of_a_trial_that_ended_early_are_known(end: str, state: str) -> None:
    """The study counts SGD steps, though intermediate values are recorded by Ray's iterations."""
    experiment = Experiment(InnerHorizon(n_outer=1, constant=1_000.0))
    scheduler, controller, search = experiment.scheduler, experiment.controller, experiment.search
    (trial,) = experiment.add("a")
    for iteration in (1, 2, 3):
        done = 250 * iteration
        assert experiment.report(trial, done, training_iteration=iteration) == CONTINUE
        search.on_trial_result("a", trial.run_metadata.last_result)
    if end == "failed":
        scheduler.on_trial_error(controller, trial)
        search.on_trial_complete("a", error=True)
    elif end == "removed":
        scheduler.on_trial_remove(controller, trial)
        search.on_trial_complete("a")
    else:
        search.on_trial_stopped_early("a")
        experiment.end(trial)
    (recorded,) = experiment.recorded
    assert (recorded.state.name, steps_of(recorded)) == (state, range(1_000))
    assert steps_taken(recorded) == 750


def test_steps_of_a_retried_trial_are_those_of_its_end() -> None:
    """Not those at which it failed first; while it is retried it counts with all of them."""
    experiment = Experiment(InnerHorizon(n_outer=1, constant=200.0))
    (trial,) = experiment.add("a")
    assert experiment.report(trial, 150) == CONTINUE
    trial.set_status(Trial.ERROR)
    experiment.scheduler.on_trial_error(experiment.controller, trial)
    trial.set_status(Trial.PENDING)  # as Tune does with a trial that it retries
    experiment.scheduler.on_trial_add(experiment.controller, trial)
    assert steps_taken(experiment.recorded[0]) == 200
    assert experiment.report(trial, 100) == CONTINUE
    assert experiment.report(trial, 200) == STOP
    experiment.end(trial)
    (recorded,) = experiment.recorded
    assert recorded.user_attrs[STEPS_MADE] == steps_taken(recorded) == 200


def test_trial_stopped_by_the_stopper_is_pruned() -> None:
    """Below its horizon its value is not that of a whole training; that of other trials is."""
    experiment = Experiment(InnerHorizon(n_outer=1, constant=20.0))
    rows = [(10, {"stopped_early": True}), (20, {"stopped_early": True}), (10, {})]
    for trial, (done, fields) in zip(experiment.add("a", "b", "c"), rows, strict=True):
        # As Tune does when a stopper says so: the scheduler is asked nothing before.
        trial.run_metadata.last_result = {"loss": 1.0, "training_iteration": 1, "done": True}
        experiment.end(trial, sgd_steps=done, **fields)
    states = [trial.state.name for trial in experiment.recorded]
    assert states == ["PRUNED", "COMPLETE", "COMPLETE"]


# ------------------------------------------------------------------------------ growing horizons


@pytest.mark.parametrize("mode", ["min", "max"])
def test_growing_horizon_pauses_and_continues(mode: str) -> None:
    """The best that wait get the newest one's horizon and a step length that goes with it."""
    experiment = Experiment(InnerHorizon.growing(promote=1))
    experiment.controller.search_alg = BasicVariantGenerator()
    experiment.scheduler.set_search_properties("loss", mode)
    trials = experiment.add(*"abc")
    sign = 1.0 if mode == "min" else -1.0
    for trial, loss in zip(trials, (2.0 * sign, 3.0 * sign, 1.0 * sign), strict=True):
        assert experiment.report(trial, trial.config["inner_horizon"], loss) == PAUSE
    # The first was the best when it ended, the second was not, and the third has all steps.
    assert _horizons(*trials) == [36, 16, 36]
    assert trials[0].evaluated_params["inner_horizon_continued_from"] == 4
    assert trials[0].config["step_size"] == pytest.approx(1.0 / 6.0)
    assert trials[1].config["step_size"] == pytest.approx(1.0 / 4.0)
    assert experiment.scheduler.choose_trial_to_run(experiment.controller) is trials[0]


def test_growing_horizon_needs_an_objective() -> None:
    """Without a metric and a mode there is no best trial."""
    experiment = Experiment(InnerHorizon.growing())
    experiment.controller.search_alg = BasicVariantGenerator()
    experiment.scheduler.set_search_properties(None, None)
    (trial,) = experiment.add("a")
    with pytest.raises(ValueError, match="metric and mode must be given"):
        experiment.report(trial, 4)


@pytest.mark.parametrize("status", [Trial.RUNNING, Trial.PENDING])
def test_only_trials_that_wait_are_continued(status: str) -> None:
    """One that is being continued already keeps its horizon, and its place among the best."""
    experiment = Experiment(InnerHorizon.growing(promote=1))
    best, other = experiment.add("best", "other")
    assert experiment.report(best, 4) == PAUSE
    assert best.config["inner_horizon"] == 16
    best.set_status(status)
    experiment.add("new")
    assert experiment.report(other, 16, 9.0) == PAUSE
    assert _horizons(best, other) == [16, 16]
    best.set_status(Trial.PAUSED)
    assert experiment.report(other, 16, 9.0) == PAUSE
    assert best.config["inner_horizon"] == 36
    assert best.evaluated_params["inner_horizon_continued_from"] == 4


@pytest.mark.parametrize("status", [Trial.TERMINATED, Trial.ERROR])
def test_next_best_moves_up(status: str) -> None:
    """A configuration that has failed for good, or was stopped, is none of those to continue."""
    experiment = Experiment(InnerHorizon.growing(promote=1))
    best, other = experiment.add("best", "other")
    assert experiment.report(best, 4) == PAUSE
    best.set_status(status)
    assert experiment.report(other, 16, 9.0) == PAUSE
    assert other.config["inner_horizon"] == 16
    experiment.add("new")
    assert experiment.report(other, 16, 9.0) == PAUSE
    assert _horizons(best, other) == [16, 36]
    # The same is found out after a restore, from the trials alone.
    other.set_config({**other.config, "inner_horizon": 16})
    restored = Experiment(InnerHorizon.growing(promote=1))
    for trial in (best, other, _trial("new")):
        restored.scheduler.on_trial_add(restored.controller, trial)
    assert restored.report(other, 16, 9.0) == PAUSE
    assert other.config["inner_horizon"] == 36


@pytest.mark.parametrize("made", [(4, 16), (10, 16)])
def test_steps_are_told_to_the_search_algorithm(made: tuple[int, int]) -> None:
    """The study says which steps each trial makes; a large chunk may go beyond the horizon."""
    experiment = Experiment(InnerHorizon.growing(promote=1))
    for loss, (name, done) in enumerate(zip("ab", made, strict=True)):
        (trial,) = experiment.add(name)
        assert experiment.report(trial, done, float(loss)) == PAUSE
    trials = experiment.recorded
    assert [steps_of(trial) for trial in trials] == [range(4), range(16), range(made[0], 16)]
    assert [steps_taken(trial) for trial in trials] == [made[0], 16, 16 - made[0]]
    assert [continued_from(trial) for trial in trials] == [None, None, 0]


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_continuation_without_its_checkpoint_begins_anew(has_checkpoint: bool) -> None:
    """It is restarted from step 0, as new ones are, and the base scheduler may stop it again."""
    experiment = Experiment(InnerHorizon.growing(), base_scheduler=ASHAScheduler(**ASHA))
    restarted = _trial("restarted")
    restarted.evaluated_params = {"inner_horizon": 36, "step_size": 0.1}
    restarted.evaluated_params["inner_horizon_continued_from"] = 4
    if has_checkpoint:
        checkpoint = SimpleNamespace(checkpoint=None, metrics={})
        restarted.run_metadata.checkpoint_manager._latest_checkpoint_result = checkpoint
    (good,) = experiment.add("good")
    experiment.scheduler.on_trial_add(experiment.controller, restarted)
    assert restarted.config["inner_horizon"] == 36
    assert experiment.report(good, 1) == CONTINUE
    assert experiment.report(restarted, 1, 2.0) == (CONTINUE if has_checkpoint else STOP)


def test_trainable_without_checkpoints_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    """There is nothing to continue from, and one line in the log says so."""
    experiment = Experiment(InnerHorizon.growing())
    for trial in experiment.add(*"abc"):
        assert experiment.report(trial, 100, should_checkpoint=False) == STOP
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# ------------------------------------------------------------------------- a total of the steps


def test_total_number_of_steps_is_not_exceeded() -> None:
    """When the steps are given out the search is told to end."""
    experiment = Experiment(InnerHorizon.growing(constant=3.0, total_steps=30))
    trials = experiment.add("a", "b")
    assert not experiment.is_finished
    assert _horizons(*trials, *experiment.add("c")) == [3, 12, 15]
    assert experiment.is_finished


def test_continuations_are_part_of_the_total() -> None:
    """What a continuation may make is what is left of it, and then nothing."""
    experiment = Experiment(InnerHorizon.growing(constant=3.0, total_steps=20))
    trials = experiment.add("a", "b")
    for trial in trials:
        assert experiment.report(trial, trial.config["inner_horizon"]) == PAUSE
    assert _horizons(*trials) == [8, 12]
    assert experiment.is_finished


def test_unknown_steps_are_part_of_the_total() -> None:
    """A trial that has ended without a word on its steps counts with all it was given."""
    experiment = Experiment(InnerHorizon.growing(constant=3.0, total_steps=30))
    silent, other = experiment.add("silent", "other")
    silent.run_metadata.last_result = {"loss": 1.0}
    other.run_metadata.last_result = {"sgd_steps": 7}
    silent.set_status(Trial.TERMINATED)
    other.set_status(Trial.ERROR)
    (third,) = experiment.add("third")
    assert third.config["inner_horizon"] == 30 - 3 - 7
    assert experiment.is_finished
    third.run_metadata.last_result = {"sgd_steps": 6}
    third.set_status(Trial.TERMINATED)
    assert _horizons(*experiment.add("last")) == [30 - 3 - 7 - 6]


def test_failed_continuation_is_part_of_the_total() -> None:
    """Its last report is one of before it went on, and says nothing of what it has made since."""
    experiment = Experiment(InnerHorizon.growing(constant=3.0, total_steps=1_000))
    first, second = experiment.add("first", "second")
    assert experiment.report(first, 3) == PAUSE
    assert first.config["inner_horizon"] == 12
    assert experiment.spent == 12 + 12
    first.set_status(Trial.ERROR)
    assert experiment.spent == 12 + 12
    first.run_metadata.last_result = {"sgd_steps": 5}
    assert experiment.spent == 5 + 12
    second.set_status(Trial.ERROR)
    assert experiment.spent == 5 + 12


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_large_chunks_are_part_of_the_total(has_checkpoints: bool) -> None:
    """A trainable that does not read N makes whole chunks; what it has made counts, and ends it."""
    experiment = Experiment(InnerHorizon.growing(constant=4.0, total_steps=1_000))
    for number in range(4):
        assert not experiment.is_finished
        (trial,) = experiment.add(str(number))
        assert trial.config["inner_horizon"] == min(4 * (number + 1) ** 2, 1_000 - 250 * number)
        decision = experiment.report(trial, 250, should_checkpoint=has_checkpoints)
        assert decision == (PAUSE if has_checkpoints else STOP)
        assert experiment.spent == 250 * (number + 1)
    assert experiment.is_finished


# ------------------------------------------------------------------------------ base schedulers


def test_base_scheduler_decides_before_the_horizon() -> None:
    """What it stops is a pruned trial to the search algorithm, not a complete one."""
    experiment = Experiment(InnerHorizon(n_outer=10), base_scheduler=ASHAScheduler(**ASHA))
    assert experiment.scheduler.metric == "loss"
    good, bad = experiment.add("good", "bad")
    assert experiment.report(good, 1) == CONTINUE
    assert experiment.report(bad, 1, 2.0) == STOP
    for trial in (bad, good):
        experiment.search.on_trial_complete(trial.trial_id, trial.run_metadata.last_result)
    assert [trial.state.name for trial in experiment.recorded] == ["COMPLETE", "PRUNED"]


def test_base_scheduler_with_a_metric_of_its_own_is_heard() -> None:
    """Tune refuses a second metric if it is told that the scheduler has one."""
    base = ASHAScheduler(metric="accuracy", mode="max")
    scheduler = InnerHorizonScheduler(base_scheduler=base)
    assert scheduler.metric == "accuracy"
    assert not scheduler.set_search_properties("loss", "min")


def test_trials_beyond_the_base_schedulers_end_are_not_passed_on() -> None:
    """What has been trained to its horizon is no longer the base scheduler's, whatever happens."""

    class Base(FIFOScheduler):  # type: ignore[misc,unused-ignore] # Any without Ray
        heard: ClassVar[list[str]] = []

        def on_trial_complete(self, tune_controller: Any, trial: Trial, result: Any) -> None:
            del tune_controller, result
            self.heard.append(f"complete {trial.trial_id}")

        def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
            del tune_controller
            self.heard.append(f"error {trial.trial_id}")

        def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
            del tune_controller
            self.heard.append(f"add {trial.trial_id}")

    experiment = Experiment(InnerHorizon.growing(constant=1.0), base_scheduler=Base())
    scheduler, controller = experiment.scheduler, experiment.controller
    first, second = experiment.add("first", "second")
    experiment.report(first, 4)
    for trial, heard in ((first, []), (second, ["add second", "error second", "complete second"])):
        Base.heard.clear()
        scheduler.on_trial_add(controller, trial)
        scheduler.on_trial_error(controller, trial)
        scheduler.on_trial_complete(controller, trial, {"sgd_steps": 1, "loss": 1.0})
        assert Base.heard == heard


def test_configs_must_not_change_with_a_growing_horizon(tmp_path: Path) -> None:
    """However the scheduler that would change them is wrapped; a fixed horizon allows it."""
    policy = tmp_path / "policy.txt"
    policy.write_text('["0", "1", 5, 5, {"x": 0.5}, {"x": 0.7}]\n', encoding="utf-8")
    pbt = PopulationBasedTraining(hyperparam_mutations={"x": tune.uniform(0.0, 1.0)})
    for base in (pbt, PopulationBasedTrainingReplay(str(policy))):
        for scheduler in (base, ResourceChangingScheduler(ResourceChangingScheduler(base))):
            with pytest.raises(ValueError, match="base_scheduler must be None or another"):
                InnerHorizonScheduler(InnerHorizon.growing(), base_scheduler=scheduler)
            InnerHorizonScheduler(InnerHorizon(n_outer=3), base_scheduler=scheduler)
    unchanged = ResourceChangingScheduler(ASHAScheduler())
    InnerHorizonScheduler(InnerHorizon.growing(), base_scheduler=unchanged)


def test_schedulers_that_need_another_search_are_refused() -> None:
    """HyperBandForBOHB by us, at the first trial; population based training by Ray, beside any."""
    bohb = HyperBandForBOHB(time_attr="sgd_steps", max_t=9, reduction_factor=3)
    experiment = Experiment(InnerHorizon(n_outer=3), base_scheduler=bohb)
    with pytest.raises(ValueError, match="another one than HyperBandForBOHB with BBOSearch"):
        experiment.add("a")
    assert experiment.recorded[0].state.name == "FAIL"
    pbt = PopulationBasedTraining(hyperparam_mutations={"x": tune.uniform(0.0, 1.0)})
    with pytest.raises(ValueError, match="Search algorithms cannot be used with"):
        Experiment(InnerHorizon(n_outer=3), base_scheduler=pbt).add("a")


# ------------------------------------------------------------------------------ save and restore


def test_scheduler_can_be_saved_and_restored(tmp_path: Path) -> None:
    """The horizon, the objective and what ASHA has seen so far; the trials are added by Tune."""
    base = ResourceChangingScheduler(ASHAScheduler(**ASHA), lambda *_, **__: None)
    before = Experiment(n_samples=6, constant=5.0, time_attr="steps", base_scheduler=base)
    (good,) = before.add("good")
    assert before.report(good, 1, steps=1) == CONTINUE
    before.scheduler.save(str(tmp_path / "state"))
    after = Experiment(InnerHorizon.growing(), n_samples=3)
    after.add("a", "b")
    after.scheduler.restore(str(tmp_path / "state"))
    after.scheduler.on_trial_add(after.controller, good)
    (bad,) = after.add("bad")
    assert _horizons(good, bad) == [30, 30]
    assert len(after.scheduler._trials) == 2
    assert after.report(bad, 1, 2.0, steps=1) == STOP
    assert after.report(good, 1, steps=30) == STOP


def test_base_scheduler_that_cannot_be_saved_is_the_given_one(tmp_path: Path) -> None:
    """HyperBand knows its trials as objects, which a restored experiment has no more."""
    InnerHorizonScheduler(n_outer=6, base_scheduler=HyperBandScheduler()).save(str(tmp_path / "s"))
    base = HyperBandScheduler()
    restored = Experiment(base_scheduler=base)
    restored.scheduler.restore(str(tmp_path / "s"))
    assert restored.scheduler._base is base
    assert _horizons(*restored.add("a")) == [48]
