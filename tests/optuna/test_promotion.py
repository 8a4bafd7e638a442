"""A growing horizon in Optuna: what is trained, what is continued, and that nothing is twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

from bbo_plugins.methods.inner_horizon.horizon import GrowingHorizon, InnerHorizon
from bbo_plugins.optuna import PromotionCallback, continued_from, inner_steps
from bbo_plugins.optuna.study.continuations import (
    CONTINUED_FROM,
    GOAL,
    STEPS,
    STEPS_MADE,
    first_trials,
    index_of,
    steps_of,
)
from bbo_plugins.optuna.study.trials import TrialReader, mark_never_ran

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

GROWING = InnerHorizon.growing(constant=1.0)
X: dict[str, BaseDistribution] = {"x": FloatDistribution(0.0, 1.0)}


class Training:
    """An objective that trains a counter: its value is x and what is missing in training."""

    def __init__(self, horizon: InnerHorizon, sign: float = 1.0) -> None:
        """Start without checkpoints."""
        self.horizon, self.sign = horizon, sign
        self.checkpoints: dict[int, tuple[float, int]] = {}  # trial number -> x and steps
        self.made: list[tuple[int, int, int]] = []  # source or own number, first step, last step
        self.lock = threading.Lock()

    def __call__(self, trial: Trial) -> float:
        """Go on from the checkpoint of the source, if there is one."""
        x = trial.suggest_float("x", 0.0, 1.0)
        source = continued_from(trial)
        with self.lock:
            known, done = (x, 0) if source is None else self.checkpoints[source]
        assert known == x
        steps = inner_steps(trial, self.horizon)
        assert steps.start == done
        with self.lock:
            self.checkpoints[trial.number] = (x, steps.stop)
            self.made.append((trial.number, steps.start, steps.stop))
        return self.sign * (x + 1.0 / steps.stop)


def _trained(
    training: Training, study: Study | None = None, **optimize: Any
) -> tuple[Study, list[FrozenTrial]]:
    study = study or optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    callback = PromotionCallback(training.horizon)
    study.optimize(training, callbacks=[callback], **optimize)
    return study, study.get_trials(deepcopy=False)


def _expected_runs(horizon: GrowingHorizon, xs: Sequence[float]) -> list[tuple[int, int, int]]:
    """Return what a plain loop over the framework-free horizon trains: index, start and stop."""
    steps: list[int] = []
    runs: list[tuple[int, int, int]] = []

    def spent() -> int:
        return sum(stop - start for _, start, stop in runs)

    while more := horizon.within_budget(horizon.steps(len(steps)), spent=spent()):
        runs.append((len(steps), 0, more))
        steps.append(more)
        values = [-(x + 1.0 / n) for x, n in zip(xs, steps, strict=False)]
        for index in horizon.promotions(values, steps):
            goal = horizon.steps(len(steps) - 1)
            gain = horizon.within_budget(goal - steps[index], spent=spent())
            if gain:
                runs.append((index, steps[index], steps[index] + gain))
                steps[index] += gain
    return runs


def _sources(trials: Sequence[FrozenTrial]) -> list[int]:
    return [source for trial in trials if (source := continued_from(trial)) is not None]


def _assert_each_continued_once(trials: Sequence[FrozenTrial]) -> None:
    assert max(Counter(_sources(trials)).values()) == 1


def _add(study: Study, x: float, value: float | None, **rest: Any) -> int:
    """Add a finished trial and return its number."""
    attributes = {STEPS: [0, rest.pop("steps")]} if "steps" in rest else {}
    user_attrs = {**attributes, **rest.pop("user_attrs", {})}
    study.add_trial(
        create_trial(params={"x": x}, distributions=X, value=value, user_attrs=user_attrs, **rest)
    )
    return len(study.trials) - 1


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_study_trains_what_a_plain_loop_would(sign: float) -> None:
    """The same configurations, continuations and steps until the budget is spent to the last."""
    horizon = InnerHorizon.growing(constant=1.0, total_steps=800)
    training = Training(horizon, sign)
    study, trials = _trained(
        training,
        optuna.create_study(
            sampler=optuna.samplers.RandomSampler(seed=1),
            direction="minimize" if sign > 0 else "maximize",
        ),
    )
    first_of = first_trials(trials)
    new = [trial for trial in trials if trial.number not in first_of]
    assert all(trial.state is TrialState.COMPLETE for trial in trials)
    runs = _expected_runs(horizon, [trial.params["x"] for trial in new])
    first = [first_of.get(number, number) for number, _, _ in training.made]
    made = [
        (index_of(root, list(first_of)), start, stop)
        for root, (_, start, stop) in zip(first, training.made, strict=True)
    ]
    assert made == runs
    assert sum(stop - start for _, start, stop in made) == 800
    assert len(_sources(trials)) > 10
    assert PromotionCallback(horizon).is_spent(study)


def test_fixed_horizon_enqueues_nothing() -> None:
    """The callback has nothing to do, and no end either."""
    horizon = InnerHorizon(n_outer=5, constant=2.0)
    training = Training(horizon)
    _, trials = _trained(training, n_trials=6)
    assert training.made == [(number, 0, 10) for number in range(6)]
    assert not _sources(trials)
    assert [horizon.steps(trial.number) for trial in trials] == [10] * 6


def test_resumed_study_goes_on(tmp_path: Path) -> None:
    """Stopped at any point and opened again, it trains what an uninterrupted one does."""
    horizon = InnerHorizon.growing(constant=1.0, total_steps=300)
    whole = Training(horizon)
    _trained(whole)
    parts = Training(horizon)
    journal = str(tmp_path / "study.log")
    sampler = optuna.samplers.RandomSampler(seed=0)  # keeps its state; the callback has none
    for n_trials in (1, 7, 2, None):
        storage = JournalStorage(JournalFileBackend(journal))
        study = optuna.create_study(
            study_name="s", storage=storage, sampler=sampler, load_if_exists=True
        )
        _trained(parts, study, n_trials=n_trials)
    assert parts.made == whole.made


def test_spent_budget_prunes_what_still_starts() -> None:
    """A resumed study whose steps are spent runs one more trial, which does not train."""
    training = Training(InnerHorizon.growing(constant=1.0, total_steps=30))
    study, trials = _trained(training)
    _, more = _trained(training, study)
    assert [trial.state for trial in more[len(trials) :]] == [TrialState.PRUNED]
    assert sum(stop - start for _, start, stop in training.made) == 30


def test_trials_without_a_step_are_no_configurations() -> None:
    """However often a spent study is started again, the next one with more steps goes on."""
    training = Training(InnerHorizon.growing(constant=1.0, total_steps=30))
    study, trials = _trained(training)
    n_configurations = len(trials) - len(first_trials(trials))
    for _ in range(3):
        _trained(training, study)
    best = study.best_trial
    study.enqueue_trial(best.params, user_attrs={CONTINUED_FROM: best.number, GOAL: 50})
    _, trials = _trained(training, study)
    assert trials[-1].state is TrialState.PRUNED  # a continuation that could not begin
    training.horizon = InnerHorizon.growing(constant=1.0, total_steps=500)
    _, more = _trained(training, study, n_trials=4)
    assert steps_of(more[len(trials)]) == range((n_configurations + 1) ** 2)
    assert best.number in _sources(more[len(trials) :])


def test_what_never_ran_cannot_be_continued() -> None:
    """The error says which trial that is."""
    study = optuna.create_study()
    mark_never_ran(study, study.ask())
    study.tell(0, state=TrialState.PRUNED)
    study.enqueue_trial({}, user_attrs={CONTINUED_FROM: 0})
    with pytest.raises(ValueError, match="Trial 1 continues trial 0, which never ran"):
        inner_steps(study.ask(), GROWING)


def test_pruned_and_failed_trials_count_what_they_reported() -> None:
    """A trial that reported step 9 as its last has spent 10 steps, one that reported none all."""
    horizon = InnerHorizon.growing(constant=100.0, exponent=0.0, total_steps=150)
    study = optuna.create_study()
    callback = PromotionCallback(horizon)
    trial = study.ask(X)
    assert len(inner_steps(trial, horizon)) == 100
    trial.report(1.0, 9)
    study.tell(trial, state=TrialState.PRUNED)
    trial = study.ask(X)
    assert len(inner_steps(trial, horizon)) == 100
    study.tell(trial, state=TrialState.FAIL)
    assert not callback.is_spent(study)
    trial = study.ask(X)
    assert inner_steps(trial, horizon) == range(40)
    assert callback.is_spent(study)  # a running trial has taken its steps


def test_steps_that_nobody_recorded_count_by_the_horizon(caplog: pytest.LogCaptureFixture) -> None:
    """The objective of a plain loop ends with the budget too: over by its last trial at most."""
    horizon = InnerHorizon.growing(constant=1.0, total_steps=300)
    made: list[int] = []

    def objective(trial: Trial) -> float:
        steps = range(horizon.steps(trial.number))
        made.append(len(steps))
        return trial.suggest_float("x", 0.0, 1.0) + 1.0 / len(steps)

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    callback = PromotionCallback(horizon)
    study.optimize(objective, n_trials=40, callbacks=[callback])
    assert sum(made[:-1]) < 300 <= sum(made)
    assert callback.is_spent(study)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 1
    assert warned[0].startswith("Trial 0 has no number of steps recorded")
    assert "inner_steps(trial, horizon)" in warned[0]


def test_failed_continuation_is_tried_again_only_when_the_horizon_has_grown() -> None:
    """The trial it was to continue stays; the next attempt goes on from there to the new N."""
    horizon = InnerHorizon.growing(constant=1.0, promote=1)
    study = optuna.create_study()
    callback = PromotionCallback(horizon)
    _add(study, 0.1, 0.1, steps=1)
    _add(study, 0.9, 0.9, steps=4)
    assert callback.promote(study) == [0]
    assert callback.promote(study) == []  # it is waiting
    trial = study.ask()
    assert continued_from(trial) == 0
    assert callback.promote(study) == []  # it is running
    assert inner_steps(trial, horizon) == range(1, 4)
    study.tell(trial, state=TrialState.FAIL)
    assert callback.promote(study) == []
    _add(study, 0.8, 0.8, steps=9)
    assert callback.promote(study) == [0]
    trial = study.ask()
    assert inner_steps(trial, horizon) == range(1, 9)


def test_a_dead_worker_does_not_bar_its_configuration() -> None:
    """Some tens of trials later its continuation counts as failed: the best one is continued."""
    horizon = InnerHorizon.growing(constant=1.0, promote=1)
    study = optuna.create_study()
    callback = PromotionCallback(horizon)
    _add(study, 0.1, 0.1, steps=1)
    _add(study, 0.9, 0.9, steps=4)
    assert callback.promote(study) == [0]
    inner_steps(study.ask(), horizon)  # and its worker dies
    for _ in range(31):
        _add(study, 0.9, 0.9, steps=9)
        assert callback.promote(study) == []
    _add(study, 0.9, 0.9, steps=9)
    assert callback.promote(study) == [0]
    assert inner_steps(study.ask(), horizon) == range(1, 34**2)


def test_infeasible_and_unfinished_configurations_are_not_continued() -> None:
    """Neither a violated constraint nor a failed, pruned or running trial is built on."""
    study = optuna.create_study()
    callback = PromotionCallback(InnerHorizon.growing(constant=1.0, promote=9))
    _add(study, 0.1, 0.1, steps=1, system_attrs={"constraints": [0.5]})
    _add(study, 0.2, None, steps=4, state=TrialState.FAIL)
    _add(study, 0.3, 0.3, steps=9, state=TrialState.PRUNED, intermediate_values={1: 0.3})
    kept = _add(study, 0.4, 0.4, steps=16, system_attrs={"constraints": [-0.5]})
    inner_steps(study.ask(X), GROWING)
    assert callback.promote(study) == [kept]


def test_a_trial_without_recorded_steps_is_not_continued() -> None:
    """It was imported, say, and nothing tells that it has left a checkpoint."""
    study = optuna.create_study()
    callback = PromotionCallback(InnerHorizon.growing(constant=1.0, promote=9))
    _add(study, 0.1, 0.1)
    kept = _add(study, 0.4, 0.4, steps=1)
    inner_steps(study.ask(X), GROWING)
    assert callback.promote(study) == [kept]


def test_a_training_that_ended_early_was_meant_to_go_on() -> None:
    """It is not continued to the goal that it had, and a continuation begins where it ended."""
    study = optuna.create_study()
    callback = PromotionCallback(InnerHorizon.growing(constant=1.0, promote=9))
    ended = _add(study, 0.1, 0.1, steps=4, user_attrs={STEPS_MADE: 2})
    kept = _add(study, 0.2, 0.2, steps=1)
    assert callback.promote(study) == [kept]
    pruned = _add(study, 0.3, None, steps=9, state=TrialState.PRUNED, intermediate_values={2: 0.5})
    for source in (ended, pruned):
        study.enqueue_trial({"x": 0.1}, user_attrs={CONTINUED_FROM: source, GOAL: 16})
    while (trial := study.ask(X)).user_attrs.get(GOAL) != 16:
        study.tell(trial, 1.0)
    assert inner_steps(trial, GROWING) == range(2, 16)
    assert inner_steps(study.ask(X), GROWING) == range(3, 16)


def test_a_stored_trial_has_the_steps_it_had() -> None:
    """An objective can be called with ``study.best_trial``, and nothing is recorded."""
    study = optuna.create_study()
    inner_steps(running := study.ask(X), GROWING)
    study.tell(running, 1.0)
    (stored,) = study.trials
    assert inner_steps(stored, GROWING) == inner_steps(running, GROWING)
    _add(study, 0.5, 1.0)
    imported = study.trials[-1]
    assert inner_steps(imported, GROWING) == range(GROWING.steps(imported.number))
    assert not imported.user_attrs


def test_copied_trials_continue_none_of_other_parameters() -> None:
    """The numbers they name are of the study they come from; no configuration is lost."""
    training = Training(GROWING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(training, n_trials=40, callbacks=[PromotionCallback(GROWING)])
    assert len(first_trials(study.trials)) > 5
    copy = optuna.create_study()
    own = create_trial(params={"x": 0.5}, distributions=X, value=1.0)
    copy.add_trials([own] * 3)
    copy.add_trials(study.trials)
    for number, first in first_trials(copy.trials).items():
        assert copy.trials[number].params == copy.trials[first].params
    observed = TrialReader().read(copy).observed
    complete = copy.get_trials(states=[TrialState.COMPLETE])
    assert {row.params["x"] for row in observed} == {trial.params["x"] for trial in complete}


def test_threads_continue_nothing_twice() -> None:
    """Four threads share a study; each continuation finds the checkpoint of its source."""
    _, trials = _trained(Training(GROWING), n_trials=60, n_jobs=4)
    assert all(t.state is TrialState.COMPLETE for t in trials if t.state.is_finished())
    assert len(_sources(trials)) > 10
    _assert_each_continued_once(trials)


WORKER = """
import sys
import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from bbo_plugins.methods.inner_horizon.horizon import InnerHorizon
from bbo_plugins.optuna import PromotionCallback, continued_from, inner_steps

horizon = InnerHorizon.growing(constant=1.0, total_steps=500)

def objective(trial):
    x = trial.suggest_float("x", 0.0, 1.0)
    source = continued_from(trial)
    steps = inner_steps(trial, horizon)
    if source is not None:
        with open(f"{sys.argv[2]}/{source}.txt") as checkpoint:
            assert int(checkpoint.read()) == steps.start
    with open(f"{sys.argv[2]}/{trial.number}.txt", "w") as checkpoint:
        checkpoint.write(str(steps.stop))
    return x + 1.0 / steps.stop

optuna.logging.set_verbosity(optuna.logging.ERROR)
sampler = optuna.samplers.RandomSampler(seed=int(sys.argv[3]))
storage = JournalStorage(JournalFileBackend(sys.argv[1]))
study = optuna.load_study(study_name="s", storage=storage, sampler=sampler)
study.optimize(objective, callbacks=[PromotionCallback(horizon)])
"""


def test_processes_continue_nothing_twice(tmp_path: Path) -> None:
    """Two processes share a journal file until the budget is spent.

    Not an SQLite file: there, Optuna has been seen to give one enqueued trial to both.
    """
    path = str(tmp_path / "journal.log")
    storage = JournalStorage(JournalFileBackend(path))
    study = optuna.create_study(study_name="s", storage=storage)
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, path, str(tmp_path), str(seed)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors
    trials = study.get_trials()
    states = Counter(trial.state for trial in trials)
    assert states[TrialState.FAIL] == states[TrialState.RUNNING] == 0
    assert len(_sources(trials)) > 10
    _assert_each_continued_once(trials)
    spent = sum(
        trial.user_attrs[STEPS][1] - trial.user_attrs[STEPS][0]
        for trial in trials
        if trial.state is TrialState.COMPLETE
    )
    largest = max(trial.user_attrs[STEPS][1] for trial in trials if STEPS in trial.user_attrs)
    assert 500 <= spent <= 500 + largest  # one of the two may not have seen the other's last


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: PromotionCallback(5), "horizon must be an InnerHorizon, but got 5."),  # type: ignore[arg-type]
        (
            lambda: PromotionCallback(GROWING).promote(3),  # type: ignore[arg-type]
            "study must be an Optuna study, but got 3.",
        ),
        (
            lambda: inner_steps(3, GROWING),  # type: ignore[arg-type]
            "trial must be an Optuna trial, but got 3.",
        ),
        (
            lambda: inner_steps(optuna.create_study().ask(), 9),  # type: ignore[arg-type]
            "horizon must be an InnerHorizon, but got 9.",
        ),
        (
            lambda: continued_from(3),  # type: ignore[arg-type]
            "trial must be an Optuna trial, but got 3.",
        ),
    ],
)
def test_wrong_types_are_refused(call: Callable[[], Any], message: str) -> None:
    """By name, with the rule and the value."""
    with pytest.raises(TypeError) as caught:
        call()
    assert message in str(caught.value)


def test_several_objectives_are_refused() -> None:
    """There is no best configuration to continue."""
    study = optuna.create_study(directions=["minimize", "minimize"])
    with pytest.raises(ValueError, match="study must have one objective, but got 2"):
        PromotionCallback(GROWING).promote(study)
