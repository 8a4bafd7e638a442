"""The scheduler with one horizon for all trials, alone and on top of another scheduler."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna.study.continuations import STEPS_MADE, steps_of, steps_taken

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    ASHAScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
)
from ray.tune.search import BasicVariantGenerator

from bbo_plugins.ray import InnerHorizonScheduler
from tests.ray.schedulers import ASHA, CONTINUE, STOP, Experiment, horizons, make_trial

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"horizon": 10}, TypeError, "horizon must be an InnerHorizon, but got 10"),
        (
            {"horizon": InnerHorizon(n_outer=3), "n_outer": 4},
            ValueError,
            "horizon must be None with n_outer",
        ),
        (
            {"horizon": InnerHorizon(n_outer=3), "metric": "loss", "mode": "min"},
            TypeError,
            "metric and mode belong to tune.TuneConfig",
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
    experiment = Experiment(horizon, config_key="n", step_size_key="eta")
    for trial in experiment.add("a", "b"):
        assert trial.config == {"x": 1.0, "n": 30, "eta": pytest.approx(2.0 / math.sqrt(30.0))}
        assert trial.evaluated_params == {k: trial.config[k] for k in ("n", "eta")}


def test_number_of_trials_comes_from_the_search_algorithm() -> None:
    """T is what the tuner was asked for, also for Tune's own random search."""
    (trial,) = Experiment(n_samples=6, loss="nonconvex", constant=0.5).add("a")
    assert horizons(trial) == [18]
    random_search = Experiment(constant=1.0)
    random_search.controller.search_alg = BasicVariantGenerator()
    random_search.controller.search_alg._total_samples = 4
    assert horizons(*random_search.add("a")) == [4]


@pytest.mark.parametrize(
    "controller", [None, SimpleNamespace(search_alg=SimpleNamespace(total_samples=2**63 - 1))]
)
def test_unknown_number_of_trials_is_an_error(controller: Any) -> None:
    """With ``num_samples=-1`` or without a search algorithm there is no T to go by."""
    with pytest.raises(ValueError, match="horizon must be an InnerHorizon, or n_outer given"):
        InnerHorizonScheduler().on_trial_add(controller, make_trial("a"))
    scheduler, trial = InnerHorizonScheduler(n_outer=5, constant=2.0), make_trial("a")
    scheduler.on_trial_add(controller, trial)
    assert horizons(trial) == [10]


@pytest.mark.parametrize(
    "horizon, config, message",
    [
        (InnerHorizon(n_outer=4), {}, "without a valid `metric`"),
        (InnerHorizon(n_outer=4), {"inner_horizon": 0}, "must be an integer of at least 1"),
        (None, {}, "as Tune knows no number of trials"),
    ],
)
def test_no_trial_stays_running_where_a_scheduler_refuses_one(
    horizon: InnerHorizon | None, config: dict[str, Any], message: str
) -> None:
    """Ray ends the experiment with the exception, and nobody would finish its trials."""
    experiment = Experiment(horizon, n_samples=0)
    experiment.scheduler._base = ASHAScheduler()  # which no tuner has told the metric
    with pytest.raises(ValueError, match=message):
        experiment.add("a", **config)
    assert [trial.state.name for trial in experiment.recorded] == ["FAIL"]


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
    assert horizons(*trials) == [3, 12, 27, 48]
    before.scheduler.on_trial_add(before.controller, trials[1])
    trials[2].set_config({"x": 1.0})  # as Tune restores it if there are placeholders in it
    restarted = make_trial("restarted", **trials[3].config)
    restarted.evaluated_params = trials[3].evaluated_params
    for trial in (restarted, trials[2], trials[0], trials[1]):
        after.scheduler.on_trial_add(after.controller, trial)
    assert [trials[0].config, trials[1].config, trials[2].config, restarted.config] == wanted
    assert horizons(*after.add("new")) == [75]


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
    assert horizons(good, bad) == [30, 30]
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
    assert horizons(*restored.add("a")) == [48]
