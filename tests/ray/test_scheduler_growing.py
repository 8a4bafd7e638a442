"""The scheduler with a horizon that grows: who is paused, who goes on, and the total of steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna.study.continuations import continued_from, steps_of, steps_taken

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import BasicVariantGenerator, Repeater

from tests.ray.schedulers import ASHA, CONTINUE, PAUSE, STOP, Experiment, horizons, make_trial


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
    assert horizons(*trials) == [36, 16, 36]
    assert trials[0].evaluated_params["inner_horizon_continued_from"] == 4
    assert trials[0].config["step_size"] == pytest.approx(1.0 / 6.0)
    assert trials[1].config["step_size"] == pytest.approx(1.0 / 4.0)
    assert experiment.scheduler.choose_trial_to_run(experiment.controller) is trials[0]


def test_repeated_trials_are_refused() -> None:
    """With a horizon of its own for each repeat a Repeater would average different trainings."""
    experiment = Experiment(InnerHorizon.growing())
    experiment.controller.search_alg.searcher = Repeater(experiment.search, repeat=2)
    with pytest.raises(ValueError, match="search_alg must be without a Repeater"):
        experiment.add("a")
    assert [trial.state.name for trial in experiment.recorded] == ["FAIL"]
    fixed = Experiment(InnerHorizon(n_outer=3, constant=1.0))
    fixed.controller.search_alg.searcher = Repeater(fixed.search, repeat=2)
    assert horizons(*fixed.add("a", "b")) == [3, 3]


def test_growing_horizon_needs_an_objective() -> None:
    """Without a metric and a mode there is no best trial."""
    experiment = Experiment(InnerHorizon.growing())
    experiment.controller.search_alg = BasicVariantGenerator()
    experiment.scheduler.set_search_properties(None, None)
    with pytest.raises(ValueError, match="metric and mode must be given"):
        experiment.add("a")


def test_growing_horizon_has_one_objective() -> None:
    """With several there is no best trial either; none stays RUNNING."""
    experiment = Experiment(InnerHorizon.growing())
    several: tuple[Any, Any] = (["loss", "time"], ["min", "min"])
    experiment.scheduler.set_search_properties(*several)
    with pytest.raises(ValueError, match="metric must be that of one objective for a horizon that"):
        experiment.add("a")
    assert [trial.state.name for trial in experiment.recorded] == ["FAIL"]


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
    assert horizons(best, other) == [16, 16]
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
    assert horizons(best, other) == [16, 36]
    # The same is found out after a restore, from the trials alone.
    other.set_config({**other.config, "inner_horizon": 16})
    restored = Experiment(InnerHorizon.growing(promote=1))
    for trial in (best, other, make_trial("new")):
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
    restarted = make_trial("restarted")
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
    """There is nothing to continue from, and one line in each experiment's log says so."""
    experiment = Experiment(InnerHorizon.growing())
    for n_experiments in (1, 2):
        for trial in experiment.add(*"abc"):
            assert experiment.report(trial, 100, should_checkpoint=False) == STOP
        assert [record.levelname for record in caplog.records] == ["WARNING"] * n_experiments
        experiment.scheduler.set_search_properties("loss", "min")


def test_a_trial_that_ends_itself_at_its_horizon_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Tune asks no scheduler about a result with ``done``, so the trial is never continued."""
    experiment = Experiment(InnerHorizon.growing())
    short, *at_horizon = experiment.add(*"abc")
    experiment.end(short, sgd_steps=1, done=True)
    assert not caplog.records
    for trial in at_horizon:
        experiment.end(trial, sgd_steps=trial.config["inner_horizon"], done=True)
    (record,) = caplog.records
    assert "leave out done=True" in record.getMessage()


@pytest.mark.parametrize(
    "horizon",
    [
        InnerHorizon.growing(minimum=2, maximum=2),
        InnerHorizon.growing(promote=0),
        InnerHorizon.growing(exponent=0.0),
        InnerHorizon.growing(constant=3.0, total_steps=6),
    ],
    ids=["largest", "none is continued", "constant", "all steps are given out"],
)
def test_a_trial_that_ends_itself_where_nothing_would_continue_it_is_done(
    horizon: InnerHorizon, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no later horizon, no trial is continued to it, or no step is left for that."""
    experiment = Experiment(horizon)
    for trial in experiment.add(*"ab"):
        experiment.end(trial, sgd_steps=trial.config["inner_horizon"], done=True)
    assert not caplog.records


def test_total_number_of_steps_is_not_exceeded() -> None:
    """When the steps are given out the search is told to end."""
    experiment = Experiment(InnerHorizon.growing(constant=3.0, total_steps=30))
    trials = experiment.add("a", "b")
    assert not experiment.is_finished
    assert horizons(*trials, *experiment.add("c")) == [3, 12, 15]
    assert experiment.is_finished


def test_another_experiment_begins_anew() -> None:
    """With the same scheduler; Tune says so by naming the objective."""
    first = Experiment(InnerHorizon.growing(constant=3.0, total_steps=30))
    first.add("a", "b", "c")
    second = Experiment()
    second.scheduler = first.scheduler
    assert second.scheduler.set_search_properties("loss", "min")
    assert horizons(*second.add("d", "e")) == [3, 12]
    assert not second.is_finished


def test_continuations_are_part_of_the_total() -> None:
    """What a continuation may make is what is left of it, and then nothing."""
    experiment = Experiment(InnerHorizon.growing(constant=3.0, total_steps=20))
    trials = experiment.add("a", "b")
    for trial in trials:
        assert experiment.report(trial, trial.config["inner_horizon"]) == PAUSE
    assert horizons(*trials) == [8, 12]
    assert experiment.is_finished


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
