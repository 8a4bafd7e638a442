"""The scheduler asked directly, on Tune's own trials: which horizon a trial gets, and when."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna.study.continuations import STEPS_MADE, steps_of, steps_taken

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandForBOHB,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
)
from ray.tune.search import BasicVariantGenerator, SearchGenerator

from bbo_plugins.ray import BBOSearch, InnerHorizonScheduler

if TYPE_CHECKING:
    from pathlib import Path

CONTINUE, PAUSE, STOP = "CONTINUE", "PAUSE", "STOP"


def _trial(trial_id: str, **config: Any) -> Trial:
    return Trial("train", trial_id=trial_id, config={"x": 1.0, **config}, stub=True)


def _controller(n_samples: int = 6, search: BBOSearch | None = None) -> Any:
    """Return as much of a controller as the scheduler asks for, and Tune's search algorithm."""
    search_alg = SearchGenerator(search or BBOSearch({"x": tune.uniform(0.0, 2.0)}, "loss", "min"))
    search_alg._total_samples = n_samples
    return SimpleNamespace(search_alg=search_alg, get_trials=list, get_live_trials=set)


def _add(scheduler: InnerHorizonScheduler, controller: Any, n: int) -> list[Trial]:
    trials = [_trial(str(number)) for number in range(n)]
    for trial in trials:
        scheduler.on_trial_add(controller, trial)
    return trials


def _report(scheduler: InnerHorizonScheduler, controller: Any, trial: Trial, done: Any) -> str:
    result = {"sgd_steps": done, "loss": 1.0, "should_checkpoint": True}
    decision = scheduler.on_trial_result(controller, trial, result)
    trial.run_metadata.last_result = result
    return decision


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


def test_horizon_and_step_size_are_in_the_config() -> None:
    """They are there before the trial starts, beside what the search has suggested."""
    horizon = InnerHorizon(n_outer=10, constant=3.0, learning_rate=2.0)
    scheduler = InnerHorizonScheduler(horizon, config_key="n", step_size_key="eta")
    for trial in _add(scheduler, _controller(), 3):
        assert trial.config == {"x": 1.0, "n": 30, "eta": pytest.approx(2.0 / math.sqrt(30.0))}
        assert trial.evaluated_params == {k: trial.config[k] for k in ("n", "eta")}


def test_number_of_trials_comes_from_the_search_algorithm() -> None:
    """T is what the tuner was asked for, also for Tune's own random search."""
    scheduler = InnerHorizonScheduler(loss="nonconvex", constant=0.5)
    (trial,) = _add(scheduler, _controller(n_samples=6), 1)
    assert trial.config["inner_horizon"] == 18
    random_search = BasicVariantGenerator()
    random_search._total_samples = 4
    scheduler = InnerHorizonScheduler(constant=1.0)
    (trial,) = _add(scheduler, SimpleNamespace(search_alg=random_search), 1)
    assert trial.config["inner_horizon"] == 4


@pytest.mark.parametrize("controller", [None, object(), _controller(2**63 - 1)])
def test_unknown_number_of_trials_is_an_error(controller: Any) -> None:
    """With ``num_samples=-1`` or without a search algorithm there is no T to go by."""
    with pytest.raises(ValueError, match="horizon must be an InnerHorizon, or n_outer given"):
        InnerHorizonScheduler().on_trial_add(controller, _trial("a"))
    scheduler = InnerHorizonScheduler(n_outer=5, constant=2.0)
    trial = _trial("a")
    scheduler.on_trial_add(controller, trial)
    assert trial.config["inner_horizon"] == 10


def test_given_values_are_kept() -> None:
    """A horizon or a step size of the user's own, constant or searched, is not overwritten."""
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=10))
    trials = [_trial("a", inner_horizon=7), _trial("b", step_size=0.5)]
    for trial in trials:
        scheduler.on_trial_add(_controller(), trial)
    assert trials[0].config["inner_horizon"] == 7
    assert trials[0].config["step_size"] == pytest.approx(1.0 / math.sqrt(7.0))
    assert trials[1].config == {"x": 1.0, "inner_horizon": 80, "step_size": 0.5}
    with pytest.raises(ValueError, match=r"config\['inner_horizon'\] must be an integer of at l"):
        scheduler.on_trial_add(_controller(), _trial("c", inner_horizon=0))


def test_horizon_stays_when_a_trial_is_added_again() -> None:
    """Retried, restored in another order, with a config made anew, or under another name."""
    before = InnerHorizonScheduler(InnerHorizon.growing(constant=3.0))
    trials = _add(before, _controller(), 4)
    wanted = [trial.config for trial in trials]
    assert [config["inner_horizon"] for config in wanted] == [3, 12, 27, 48]
    before.on_trial_add(_controller(), trials[1])
    after = InnerHorizonScheduler(InnerHorizon.growing(constant=3.0))
    trials[2].set_config({"x": 1.0})  # as Tune restores it if there are placeholders in it
    errored = trials[3]
    restarted = _trial("restarted", **errored.config)
    restarted.evaluated_params = errored.evaluated_params
    for trial in (restarted, trials[2], trials[0], trials[1]):
        after.on_trial_add(_controller(), trial)
    assert [trials[0].config, trials[1].config, trials[2].config, restarted.config] == wanted
    new = _trial("new")
    after.on_trial_add(_controller(), new)
    assert new.config["inner_horizon"] == 75


def test_trial_is_stopped_at_its_horizon() -> None:
    """Not a report earlier, and at the latest with the first one that is beyond it."""
    scheduler, controller = InnerHorizonScheduler(InnerHorizon(n_outer=10)), _controller()
    (trial,) = _add(scheduler, controller, 1)
    assert _report(scheduler, controller, trial, 79) == CONTINUE
    assert _report(scheduler, controller, trial, 80) == STOP
    assert _report(scheduler, controller, trial, 95.0) == STOP


def test_missing_number_of_steps_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Without the steps there is no backstop, but everything else goes on."""
    scheduler, controller = InnerHorizonScheduler(InnerHorizon(n_outer=1)), _controller()
    (trial,) = _add(scheduler, controller, 1)
    for done in (None, "many", math.nan):
        assert _report(scheduler, controller, trial, done) == CONTINUE
    assert len(caplog.records) == 1
    assert "'sgd_steps' (time_attr)" in caplog.text


def test_base_scheduler_decides_before_the_horizon() -> None:
    """What it stops is a pruned trial to the search algorithm, not a complete one."""
    search = BBOSearch({"x": tune.uniform(0.0, 2.0)}, "loss", "min")
    controller = _controller(search=search)
    base = ASHAScheduler(time_attr="sgd_steps", grace_period=1, max_t=100, reduction_factor=2)
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=10), base_scheduler=base)
    assert scheduler.set_search_properties("loss", "min")
    assert scheduler.metric == "loss"
    good, bad = _trial("good"), _trial("bad")
    for trial in (good, bad):
        search.suggest(trial.trial_id)
        scheduler.on_trial_add(controller, trial)
    result = {"sgd_steps": 1, "training_iteration": 1}
    assert scheduler.on_trial_result(controller, good, {**result, "loss": 1.0}) == CONTINUE
    assert scheduler.on_trial_result(controller, bad, {**result, "loss": 2.0}) == STOP
    search.on_trial_complete("bad", {**result, "loss": 2.0})
    search.on_trial_complete("good", {**result, "loss": 1.0})
    assert [t.state.name for t in search._ot_study.trials] == ["COMPLETE", "PRUNED"]


def test_base_scheduler_with_a_metric_of_its_own_is_heard() -> None:
    """Tune refuses a second metric if it is told that the scheduler has one."""
    base = ASHAScheduler(metric="accuracy", mode="max")
    scheduler = InnerHorizonScheduler(base_scheduler=base)
    assert scheduler.metric == "accuracy"
    assert not scheduler.set_search_properties("loss", "min")


def test_growing_horizon_needs_an_objective() -> None:
    """Without a metric and a mode there is no best trial."""
    scheduler = InnerHorizonScheduler(InnerHorizon.growing())
    controller = SimpleNamespace(search_alg=BasicVariantGenerator(), get_trials=list)
    (trial,) = _add(scheduler, controller, 1)
    with pytest.raises(ValueError, match="metric and mode must be given"):
        _report(scheduler, controller, trial, 4)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_growing_horizon_pauses_and_continues(mode: str) -> None:
    """The best that wait get the newest one's horizon and a step length that goes with it."""
    scheduler, controller = InnerHorizonScheduler(InnerHorizon.growing(promote=1)), _controller()
    controller.search_alg = BasicVariantGenerator()
    scheduler.set_search_properties("loss", mode)
    trials = _add(scheduler, controller, 3)
    sign = 1.0 if mode == "min" else -1.0
    for trial, loss in zip(trials, (2.0 * sign, 3.0 * sign, 1.0 * sign), strict=True):
        n = trial.config["inner_horizon"]
        result = {"sgd_steps": n, "loss": loss, "should_checkpoint": True}
        assert scheduler.on_trial_result(controller, trial, result) == PAUSE
        trial.run_metadata.last_result = result
        trial.set_status(Trial.PAUSED)
    # The first was the best when it ended, the second was not, and the third has all steps.
    assert [trial.config["inner_horizon"] for trial in trials] == [36, 16, 36]
    assert trials[0].evaluated_params["inner_horizon_continued_from"] == 4
    assert trials[0].config["step_size"] == pytest.approx(1.0 / 6.0)
    assert trials[1].config["step_size"] == pytest.approx(1.0 / 4.0)
    assert scheduler.choose_trial_to_run(controller) is trials[0]


@pytest.mark.parametrize("status", [Trial.RUNNING, Trial.PENDING])
def test_only_trials_that_wait_are_continued(status: str) -> None:
    """One that is being continued already keeps its horizon, and its place among the best."""
    scheduler, controller = InnerHorizonScheduler(InnerHorizon.growing(promote=1)), _controller()
    scheduler.set_search_properties("loss", "min")
    best, other = _add(scheduler, controller, 2)
    assert _report(scheduler, controller, best, 4) == PAUSE
    assert best.config["inner_horizon"] == 16
    best.set_status(status)
    scheduler.on_trial_add(controller, _trial("new"))
    result = {"sgd_steps": 16, "loss": 9.0, "should_checkpoint": True}
    assert scheduler.on_trial_result(controller, other, result) == PAUSE
    assert (best.config["inner_horizon"], other.config["inner_horizon"]) == (16, 16)
    best.set_status(Trial.PAUSED)
    assert scheduler.on_trial_result(controller, other, result) == PAUSE
    assert best.config["inner_horizon"] == 36
    assert best.evaluated_params["inner_horizon_continued_from"] == 4


@pytest.mark.parametrize("status", [Trial.TERMINATED, Trial.ERROR])
def test_next_best_moves_up(status: str) -> None:
    """A configuration that has failed for good, or was stopped, is none of those to continue."""
    scheduler, controller = InnerHorizonScheduler(InnerHorizon.growing(promote=1)), _controller()
    scheduler.set_search_properties("loss", "min")
    best, other = _add(scheduler, controller, 2)
    assert _report(scheduler, controller, best, 4) == PAUSE
    best.set_status(status)
    result = {"sgd_steps": 16, "loss": 9.0, "should_checkpoint": True}
    assert scheduler.on_trial_result(controller, other, result) == PAUSE
    assert other.config["inner_horizon"] == 16
    scheduler.on_trial_add(controller, _trial("new"))
    assert scheduler.on_trial_result(controller, other, result) == PAUSE
    assert (best.config["inner_horizon"], other.config["inner_horizon"]) == (16, 36)
    # The same is found out after a restore, from the trials alone.
    other.set_config({**other.config, "inner_horizon": 16})
    other.run_metadata.last_result = result
    restored = InnerHorizonScheduler(InnerHorizon.growing(promote=1))
    restored.set_search_properties("loss", "min")
    for trial in (best, other, _trial("new")):
        restored.on_trial_add(controller, trial)
    assert restored.on_trial_result(controller, other, result) == PAUSE
    assert other.config["inner_horizon"] == 36


def test_total_number_of_steps_is_not_exceeded() -> None:
    """When the steps are given out the search is told to end."""
    horizon = InnerHorizon.growing(constant=3.0, total_steps=30)
    scheduler, controller = InnerHorizonScheduler(horizon), _controller()
    trials = _add(scheduler, controller, 2)
    assert not controller.search_alg.is_finished()
    trials += [_trial("last")]
    scheduler.on_trial_add(controller, trials[-1])
    assert [trial.config["inner_horizon"] for trial in trials] == [3, 12, 15]
    assert controller.search_alg.is_finished()


def test_continuations_are_part_of_the_total() -> None:
    """What a continuation may make is what is left of it, and then nothing."""
    horizon = InnerHorizon.growing(constant=3.0, total_steps=20)
    scheduler, controller = InnerHorizonScheduler(horizon), _controller()
    scheduler.set_search_properties("loss", "min")
    trials = _add(scheduler, controller, 2)
    for trial in trials:
        assert _report(scheduler, controller, trial, trial.config["inner_horizon"]) == PAUSE
        trial.set_status(Trial.PAUSED)
    assert [trial.config["inner_horizon"] for trial in trials] == [8, 12]
    assert controller.search_alg.is_finished()


@pytest.mark.parametrize("status", [Trial.TERMINATED, Trial.ERROR])
def test_unknown_steps_are_part_of_the_total(status: str) -> None:
    """A trial that has ended without a word on its steps counts with all it was given."""
    horizon = InnerHorizon.growing(constant=3.0, total_steps=30)
    scheduler, controller = InnerHorizonScheduler(horizon), _controller()
    silent, other = _add(scheduler, controller, 2)
    silent.run_metadata.last_result = {"loss": 1.0}
    other.run_metadata.last_result = {"sgd_steps": 7}
    for trial in (silent, other):
        trial.set_status(status)
    third, last = _trial("third"), _trial("last")
    scheduler.on_trial_add(controller, third)
    assert third.config["inner_horizon"] == 30 - 3 - 7
    assert controller.search_alg.is_finished()
    third.run_metadata.last_result = {"sgd_steps": 6}
    third.set_status(status)
    scheduler.on_trial_add(controller, last)
    assert last.config["inner_horizon"] == 30 - 3 - 7 - 6


def test_failed_continuation_is_part_of_the_total() -> None:
    """Its last report is one of before it went on, and says nothing of what it has made since."""
    horizon = InnerHorizon.growing(constant=3.0, total_steps=1_000)
    scheduler, controller = InnerHorizonScheduler(horizon), _controller()
    scheduler.set_search_properties("loss", "min")
    first, second = _add(scheduler, controller, 2)
    assert _report(scheduler, controller, first, 3) == PAUSE
    assert first.config["inner_horizon"] == 12
    assert scheduler._horizons.spent() == 12 + 12
    first.set_status(Trial.ERROR)
    assert scheduler._horizons.spent() == 12 + 12
    first.run_metadata.last_result = {"sgd_steps": 5}
    assert scheduler._horizons.spent() == 5 + 12
    second.set_status(Trial.ERROR)
    assert scheduler._horizons.spent() == 5 + 12


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_large_chunks_are_part_of_the_total(has_checkpoints: bool) -> None:
    """A trainable that does not read N makes whole chunks; what it has made counts, and ends it."""
    horizon = InnerHorizon.growing(constant=4.0, total_steps=1_000)
    scheduler, controller = InnerHorizonScheduler(horizon), _controller()
    scheduler.set_search_properties("loss", "min")
    made = 0
    for number in range(20):
        if controller.search_alg.is_finished():
            break
        trial = _trial(str(number))
        scheduler.on_trial_add(controller, trial)
        assert trial.config["inner_horizon"] == min(4 * (number + 1) ** 2, 1_000 - made)
        result = {"sgd_steps": 250, "loss": 1.0, "should_checkpoint": has_checkpoints}
        decision = scheduler.on_trial_result(controller, trial, result)
        assert decision == (PAUSE if has_checkpoints else STOP)
        trial.run_metadata.last_result = result
        trial.set_status(Trial.PAUSED if has_checkpoints else Trial.TERMINATED)
        made += 250
        assert scheduler._horizons.spent() == made
    assert made == 1_000


def test_trial_stopped_by_the_stopper_is_pruned() -> None:
    """Below its horizon its value is not that of a whole training; that of other trials is."""
    search = BBOSearch({"x": tune.uniform(0.0, 2.0)}, "loss", "min", seed=0)
    controller = _controller(search=search)
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=1, constant=20.0))
    for number, (done, fields) in enumerate(
        [(10, {"stopped_early": True}), (20, {"stopped_early": True}), (10, {})]
    ):
        trial = _trial(str(number))
        search.suggest(trial.trial_id)
        scheduler.on_trial_add(controller, trial)
        result = {"loss": 1.0, "sgd_steps": done, "training_iteration": 1, "done": True, **fields}
        # As Tune does when a stopper says so: the scheduler is asked nothing before.
        scheduler.on_trial_complete(controller, trial, result)
        search.on_trial_complete(trial.trial_id, result)
    states = [trial.state.name for trial in search._ot_study.trials]
    assert states == ["PRUNED", "COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("end", ["stopped", "removed", "failed"])
def test_steps_of_a_trial_that_ended_early_are_known(end: str) -> None:
    """The study counts SGD steps, though intermediate values are recorded by Ray's iterations."""
    search = BBOSearch({"x": tune.uniform(0.0, 2.0)}, "loss", "min", seed=0)
    controller = _controller(search=search)
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=1, constant=1_000.0))
    trial = _trial("a")
    search.suggest("a")
    scheduler.on_trial_add(controller, trial)
    for iteration in (1, 2, 3):
        result = {"loss": 1.0, "sgd_steps": 250 * iteration, "training_iteration": iteration}
        assert scheduler.on_trial_result(controller, trial, result) == CONTINUE
        search.on_trial_result("a", result)
        trial.run_metadata.last_result = result
    if end == "failed":
        scheduler.on_trial_error(controller, trial)
        search.on_trial_complete("a", error=True)
    elif end == "removed":
        scheduler.on_trial_remove(controller, trial)
        search.on_trial_complete("a")
    else:
        search.on_trial_stopped_early("a")
        scheduler.on_trial_complete(controller, trial, result)
        search.on_trial_complete("a", result)
    (recorded,) = search._ot_study.trials
    assert recorded.state.name == ("FAIL" if end == "failed" else "PRUNED")
    assert steps_of(recorded) == range(1_000)
    assert steps_taken(recorded) == 750


@pytest.mark.parametrize("failed_at", [50, 200])
def test_steps_of_a_retried_trial_are_those_of_its_end(failed_at: int) -> None:
    """Not those at which it failed first; while it is retried it counts with all of them."""
    search = BBOSearch({"x": tune.uniform(0.0, 2.0)}, "loss", "min", seed=0)
    controller = _controller(search=search)
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=1, constant=200.0))
    trial = _trial("a")
    search.suggest("a")
    scheduler.on_trial_add(controller, trial)
    for iteration, done in enumerate((failed_at, 100, 200), 1):
        result = {"loss": 1.0, "sgd_steps": done, "training_iteration": iteration}
        decision = scheduler.on_trial_result(controller, trial, result)
        assert decision == (STOP if done == 200 else CONTINUE)
        trial.run_metadata.last_result = result
        if iteration == 1:  # as Tune does with a trial that it retries
            trial.set_status(Trial.ERROR)
            scheduler.on_trial_error(controller, trial)
            trial.set_status(Trial.PENDING)
            scheduler.on_trial_add(controller, trial)
            assert steps_taken(search._ot_study.trials[0]) == 200
        elif done < 200:
            search.on_trial_result("a", result)
    scheduler.on_trial_complete(controller, trial, result)
    search.on_trial_complete("a", result)
    (recorded,) = search._ot_study.trials
    assert recorded.user_attrs[STEPS_MADE] == steps_taken(recorded) == 200


def test_steps_beyond_the_horizon_are_known() -> None:
    """A value after a large chunk has all its steps behind it, also one that is continued."""
    search = BBOSearch({"x": tune.uniform(0.0, 2.0)}, "loss", "min", seed=0)
    controller = _controller(search=search)
    scheduler = InnerHorizonScheduler(InnerHorizon.growing(promote=1))
    scheduler.set_search_properties("loss", "min")
    for number, done in enumerate((10, 16)):
        search.suggest(str(number))
        trial = _trial(str(number))
        scheduler.on_trial_add(controller, trial)
        result = {"loss": number, "sgd_steps": done, "should_checkpoint": True}
        assert scheduler.on_trial_result(controller, trial, result) == PAUSE
        trial.run_metadata.last_result = result
        trial.set_status(Trial.PAUSED)
    trials = search._ot_study.trials
    assert [steps_of(trial) for trial in trials] == [range(4), range(16), range(10, 16)]
    assert [steps_taken(trial) for trial in trials] == [10, 16, 6]


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_continuation_without_its_checkpoint_begins_anew(has_checkpoint: bool) -> None:
    """It is restarted from step 0, as new ones are, and the base scheduler may stop it again."""
    base = ASHAScheduler(time_attr="sgd_steps", grace_period=1, max_t=100, reduction_factor=2)
    scheduler = InnerHorizonScheduler(InnerHorizon.growing(), base_scheduler=base)
    controller = _controller()
    scheduler.set_search_properties("loss", "min")
    good, restarted = _trial("good"), _trial("restarted")
    restarted.evaluated_params = {
        "inner_horizon": 36,
        "step_size": 0.1,
        "inner_horizon_continued_from": 4,
    }
    if has_checkpoint:
        checkpoint = SimpleNamespace(checkpoint=None, metrics={})
        restarted.run_metadata.checkpoint_manager._latest_checkpoint_result = checkpoint
    for trial in (good, restarted):
        scheduler.on_trial_add(controller, trial)
    assert restarted.config["inner_horizon"] == 36
    result = {"sgd_steps": 1, "training_iteration": 1}
    assert scheduler.on_trial_result(controller, good, {**result, "loss": 1.0}) == CONTINUE
    decision = scheduler.on_trial_result(controller, restarted, {**result, "loss": 2.0})
    assert decision == (CONTINUE if has_checkpoint else STOP)


def test_trainable_without_checkpoints_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    """There is nothing to continue from, and one line in the log says so."""
    scheduler, controller = InnerHorizonScheduler(InnerHorizon.growing()), _controller()
    scheduler.set_search_properties("loss", "min")
    for trial in _add(scheduler, controller, 3):
        result = {"sgd_steps": 100, "loss": 1.0}
        assert scheduler.on_trial_result(controller, trial, result) == STOP
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


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
    """HyperBandForBOHB by us, wrapped or not; population based training by Ray, beside any."""
    for base in (HyperBandForBOHB(), ResourceChangingScheduler(HyperBandForBOHB())):
        search = BBOSearch({"x": tune.uniform(0.0, 2.0)}, "loss", "min", seed=0)
        scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=3), base_scheduler=base)
        scheduler.set_search_properties("loss", "min")
        search.suggest("a")
        with pytest.raises(ValueError, match="another one than HyperBandForBOHB with BBOSearch"):
            scheduler.on_trial_add(_controller(search=search), _trial("a"))
        assert search._ot_study.trials[0].state.name == "FAIL"
    pbt = PopulationBasedTraining(hyperparam_mutations={"x": tune.uniform(0.0, 1.0)})
    scheduler = InnerHorizonScheduler(InnerHorizon(n_outer=3), base_scheduler=pbt)
    scheduler.set_search_properties("loss", "min")
    with pytest.raises(ValueError, match="Search algorithms cannot be used with"):
        scheduler.on_trial_add(_controller(), _trial("a"))


@pytest.mark.parametrize(
    "wrap",
    [lambda base: base, lambda base: ResourceChangingScheduler(base, lambda *_, **__: None)],
    ids=["bare", "wrapped"],
)
def test_scheduler_can_be_saved_and_restored(tmp_path: Path, wrap: Any) -> None:
    """The horizon, the objective and what ASHA has seen so far; the trials are added by Tune."""
    base = wrap(ASHAScheduler(time_attr="sgd_steps", grace_period=1, max_t=99, reduction_factor=2))
    before = InnerHorizonScheduler(constant=5.0, time_attr="steps", base_scheduler=base)
    before.set_search_properties("loss", "min")
    result = {"sgd_steps": 1, "steps": 1, "training_iteration": 1}
    (good,) = _add(before, _controller(n_samples=6), 1)
    assert before.on_trial_result(_controller(), good, {**result, "loss": 1.0}) == CONTINUE
    before.save(str(tmp_path / "state"))
    after = InnerHorizonScheduler(InnerHorizon.growing())
    _add(after, _controller(), 2)
    after.restore(str(tmp_path / "state"))
    bad = _trial("bad")
    for trial in (good, bad):
        after.on_trial_add(_controller(n_samples=3), trial)
        assert trial.config["inner_horizon"] == 30
    assert len(after._trials) == 2
    assert after.on_trial_result(_controller(), bad, {**result, "loss": 2.0}) == STOP
    assert after.on_trial_result(_controller(), good, {**result, "steps": 30}) == STOP


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

    scheduler = InnerHorizonScheduler(InnerHorizon.growing(constant=1.0), base_scheduler=Base())
    scheduler.set_search_properties("loss", "min")
    controller = _controller()
    first, second = _add(scheduler, controller, 2)
    _report(scheduler, controller, first, 4)
    Base.heard.clear()
    scheduler.on_trial_add(controller, first)
    scheduler.on_trial_error(controller, first)
    scheduler.on_trial_complete(controller, first, {"sgd_steps": 4, "loss": 1.0})
    assert Base.heard == []
    scheduler.on_trial_add(controller, second)
    scheduler.on_trial_error(controller, second)
    scheduler.on_trial_complete(controller, second, {"sgd_steps": 1, "loss": 1.0})
    assert Base.heard == ["add 1", "error 1", "complete 1"]
