"""RegretGapTerminator: what it records of a study, and what stops one."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from bbo_plugins.methods.regret_gap.algorithm import evaluate
from bbo_plugins.methods.regret_gap.rule import StoppingRule
from bbo_plugins.optuna import RegretGapTerminator, UHEBOSampler, report_cross_validation_scores
from bbo_plugins.optuna.study.storage import study_attributes
from bbo_plugins.visualization._data.objective import suggestions_of
from tests.optuna.stopping.studies import (
    PLANE,
    UNIT_SQUARE,
    add,
    add_all,
    assert_same,
    completed_in,
    converging,
    expected_records,
    new_study,
)
from tests.optuna.studies import BOX, quadratic, warnings_in

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import Trial


def _told(X: Any, values: Any, terminator: RegretGapTerminator, **study: Any) -> Study:
    """Return a study with these trials, the terminator asked after each."""
    made = new_study(**study)
    for row, value in zip(X, values, strict=True):
        add_all(made, row[None], np.array([value]))
        terminator.evaluate(made)
    return made


# ----------------------------------------------------------------------------------------- records
@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"threshold": "median", "n_initial": 5, "eta": 0.3},
        {"criterion": "expected-improvement", "threshold": 0.5, "patience": 1},
        {"deterministic_objective": True, "min_n_trials": 5},
    ],
)
def test_records_are_those_of_the_method(rule: dict[str, Any]) -> None:
    """The method of the paper, on the points and maximized values in the order of completion."""
    X, values = converging(24)
    terminator = RegretGapTerminator(**rule, seed=3)
    study = _told(X, values, terminator)
    expected = expected_records(X, values, StoppingRule(**rule), seed=3)
    assert_same(terminator.history(study), expected)
    assert terminator.evaluate(study) == terminator.history(study)[-1]


def test_catching_up_is_the_same_as_keeping_up() -> None:
    """Asked only at the end, it makes the records that it would have made all along."""
    X, values = converging(16)
    kept_up, caught_up = RegretGapTerminator(), RegretGapTerminator()
    study = new_study()
    add_all(study, X, values)
    caught_up.evaluate(study)
    assert_same(caught_up.history(study), kept_up.history(_told(X, values, kept_up)))
    assert [record.n_trials for record in caught_up.history(study)] == list(range(1, 17))


@pytest.mark.parametrize("threshold, first", [("relative", []), ("median", [1, 2, 3, 4, 5])])
def test_long_history_is_caught_up_in_part(
    threshold: Any, first: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many trials without records the last get one, and for "median" the first few too."""
    monkeypatch.setattr("bbo_plugins.optuna.terminator._MAX_CATCH_UP", 8)
    X, values = converging(30)
    study = new_study()
    add_all(study, X, values)
    terminator = RegretGapTerminator(threshold=threshold, n_initial=4)
    record = terminator.evaluate(study)
    recorded = [record.n_trials for record in terminator.history(study)]
    assert recorded == [*first, *range(23, 31)]
    if threshold == "median":
        initial = expected_records(X[:5], values[:5], terminator.settings.rule)
        median = np.median([r.value for r in initial[1:]])  # the very first has no signal
        assert record.threshold == pytest.approx(0.01 * median)
    for other in (terminator, RegretGapTerminator(threshold=threshold, n_initial=4)):
        add_all(study, X[:1], values[:1])
        other.evaluate(study)
    recorded = [record.n_trials for record in terminator.history(study)]
    assert recorded == [*first, *range(23, 33)]


def test_directions_mirror_each_other() -> None:
    """Maximizing minus the objective is the same study: same records, same stop."""
    X, values = converging()
    histories = []
    for sign, direction in ((1.0, "minimize"), (-1.0, "maximize")):
        terminator = RegretGapTerminator()
        study = _told(X, sign * values, terminator, direction=direction)
        histories.append(terminator.history(study))
    assert histories[0] == histories[1]
    assert any(record.terminate for record in histories[0])
    wrong = RegretGapTerminator()
    assert wrong.history(_told(X, -values, wrong)) != histories[0]


def test_only_complete_trials_are_observations() -> None:
    """Pruned, failed, running and waiting trials change no record."""
    X, values = converging(12)
    terminator = RegretGapTerminator()
    study = new_study()
    study.ask(PLANE)
    at = {"x": 0.3, "y": 0.4}
    for index in range(12):
        add(study, at, -5.0, state=TrialState.PRUNED, intermediate_values={3: -5.0})
        add(study, at, None, state=TrialState.FAIL)
        study.enqueue_trial(at)
        add_all(study, X[[index]], values[[index]])
        terminator.evaluate(study)
    assert_same(terminator.history(study), expected_records(X, values))


@pytest.mark.parametrize("penalties", [[math.inf], [1e6], [1e4, 1e7, 1e9]], ids=str)
def test_values_that_count_as_failures_change_no_criterion(penalties: list[float]) -> None:
    """Penalties and diverged trainings of a study bring a record each, without a criterion."""
    X, values = converging(30)
    terminator, plain = RegretGapTerminator(), RegretGapTerminator()
    study = new_study()
    is_stopped = []
    for index in range(30):
        if index in {14, 17, 21, 22, 26}:
            add(study, {"x": 0.95, "y": 0.01 * index}, penalties[index % len(penalties)])
            is_stopped.append(RegretGapTerminator().should_terminate(study))
        add_all(study, X[[index]], values[[index]])
        terminator.evaluate(study)
    history = terminator.history(study)
    assert [r.n_trials for r in history if r.has_failed] == [15, 19, 24, 26, 31]
    assert all(r.value == math.inf and not r.is_below for r in history if r.has_failed)
    assert not any(is_stopped)
    expected = plain.history(_told(X, values, plain))
    kept = [r for r in history if not r.has_failed]
    assert [r.value for r in kept] == pytest.approx([r.value for r in expected])
    assert [r.threshold for r in kept] == pytest.approx([r.threshold for r in expected])
    last = [r.terminate for r in expected][-8:]
    assert any(last)
    assert [r.terminate for r in kept][-8:] == last


def test_records_that_took_penalties_for_values_do_not_count() -> None:
    """What is usual is known after ten values: the median is of criteria made without them."""
    X, values = converging(30)
    terminator = RegretGapTerminator(threshold="median", n_initial=5, eta=0.3)
    study = new_study()
    for index in range(30):
        if index in {3, 5}:
            add(study, {"x": 0.95, "y": 0.01 * index}, 10.0 ** (3 + index))
        add_all(study, X[[index]], values[[index]])
        terminator.evaluate(study)
    history = terminator.history(study)
    mistaken = [r.value for r in history if 4 <= r.n_trials < 10]
    later = [r for r in history if r.n_trials >= 10]
    assert max(mistaken) > 1e5 * max(r.value for r in later)
    assert all(r.n_failed == 2 and not r.has_failed for r in later)
    median = np.median([r.value for r in (*history[1:3], *later[:3])])  # the first has no signal
    assert [r.threshold for r in later[:3]] == [-math.inf, -math.inf, pytest.approx(0.3 * median)]
    assert {r.threshold for r in later[3:]} == {later[2].threshold}


def test_completions_count_in_the_order_of_completion() -> None:
    """Not by number: those that completed at the same time go by number, others by time."""
    X, values = converging(14)
    minutes = np.random.default_rng(5).permutation(14)
    minutes[minutes == 9] = 8
    study, terminator = new_study(), RegretGapTerminator()
    for (x, y), value, minute in zip(X, values, minutes.tolist(), strict=True):
        add(study, {"x": x, "y": y}, value, minute=minute)
    terminator.evaluate(study)
    order = np.lexsort([np.arange(14), minutes])
    assert_same(terminator.history(study), expected_records(X[order], values[order]))


def test_latecomers_do_not_change_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial with an earlier time that shows up later comes after those that have a record."""
    X, values = converging(12)
    study, terminator = new_study(), RegretGapTerminator()
    for index in range(12):
        minute = 100 if index < 8 else 50 - index
        add(study, {"x": X[index, 0], "y": X[index, 1]}, values[index], minute=minute)
        if index in {7, 11}:
            terminator.evaluate(study)
    order = [*range(8), 11, 10, 9, 8]
    assert_same(terminator.history(study), expected_records(X[order], values[order]))
    again = RegretGapTerminator()  # reads the same order back, however little it would catch up
    monkeypatch.setattr("bbo_plugins.optuna.terminator._MAX_CATCH_UP", 1)
    add_all(study, X[:1], values[:1])
    again.evaluate(study)
    order.append(0)
    assert_same(again.history(study), expected_records(X[order], values[order]))


def test_no_usable_search_space_never_stops(caplog: pytest.LogCaptureFixture) -> None:
    """Parameters of one value only: no signal, ever, and one warning that says why."""
    study, terminator = new_study(), RegretGapTerminator(min_n_trials=2, patience=1, threshold=1e9)
    for index in range(6):
        add(study, {"a": 0.5}, 1.0 + index, distributions={"a": FloatDistribution(0.5, 0.5)})
        record = terminator.evaluate(study)
        assert not terminator.should_terminate(study)
    assert (record.n_trials, record.value, record.threshold) == (6, math.inf, -math.inf)
    assert len(terminator.history(study)) == 6
    (warning,) = warnings_in(caplog)
    assert "have no parameter of more than one value" in warning


def test_a_first_trial_without_parameters_is_no_reason_to_warn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A baseline may have none; from the second completion on there are signals."""
    study, terminator = new_study(), RegretGapTerminator(min_n_trials=4)
    study.add_trial(optuna.create_trial(value=3.0))
    for x in (0.1, 0.5, 0.9, 0.3, 0.4):
        terminator.evaluate(study)
        add(study, {"x": x}, (x - 0.3) ** 2, distributions={"x": FloatDistribution(0.0, 1.0)})
    assert math.isfinite(terminator.evaluate(study).value)
    assert not warnings_in(caplog)


def _branches(trial: optuna.Trial) -> float:
    if trial.suggest_categorical("k", ["a", "b"]) == "a":
        return 0.5 + (trial.suggest_float("a", 0.0, 1.0) - 0.2) ** 2
    return (trial.suggest_float("b", 0.0, 1.0) - 0.7) ** 2


def test_conditional_study_is_stopped_and_resumes() -> None:
    """It has a signal, stops, and another process makes the same records of the same trials."""
    study, terminator = new_study(sampler=UHEBOSampler(seed=0)), RegretGapTerminator()
    study.optimize(_branches, n_trials=60, callbacks=[terminator])
    history = terminator.history(study)
    assert history[-1].terminate
    assert 20 <= len(study.trials) < 60
    assert study.best_params["k"] == "b"
    assert study.best_params["b"] == pytest.approx(0.7, abs=0.05)
    again = new_study()
    again.add_trials(study.trials)
    for threshold in ("median", "auto"):  # no records of it are stored yet
        one, other = (RegretGapTerminator(threshold=threshold) for _ in range(2))
        assert math.isfinite(one.evaluate(study).value)
        other.evaluate(again)
        assert one.history(study) == other.history(again)


def test_each_branch_says_what_is_usual_in_it() -> None:
    """A branch may be far worse than another one until it is tuned; a penalty in it fails."""
    study, terminator = new_study(), RegretGapTerminator()
    sampled = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    sampled.optimize(_branches, n_trials=40)
    for index, trial in enumerate(sampled.trials):
        value = (trial.value or 0.0) + (1e4 if trial.params["k"] == "a" else 0.0)
        penalty = {35: 1e9, 38: math.inf}.get(index, value)
        add(study, trial.params, penalty, distributions=trial.distributions)
    terminator.evaluate(study)
    assert [r.n_trials for r in terminator.history(study) if r.has_failed] == [36, 39]


# ------------------------------------------------------------------------------- sampler's estimate


def test_estimate_is_used_beside_many_failures() -> None:
    """It is recent if it was made of most completions that have not failed."""
    study = new_study(sampler=UHEBOSampler(n_startup_trials=6, seed=1))
    for index in range(24):
        trial = study.ask(PLANE)
        value = sum(trial.params.values()) if index % 2 else math.inf
        study.tell(trial, value)
    completed = completed_in(study)
    assert completed.has_failed.sum() == 12
    assert completed.estimate is not None


@pytest.mark.parametrize("estimation", ["map", "uhe"])
def test_estimates_of_our_sampler_are_used(estimation: Any) -> None:
    """No fit of its own once a model suggests: the hyperparameters behind the trial itself."""
    sampler = UHEBOSampler(estimation=estimation, n_startup_trials=6, seed=1)
    study, terminator = new_study(sampler=sampler), RegretGapTerminator()
    for _ in range(18):
        trial = study.ask(PLANE)
        study.tell(trial, (trial.params["x"] - 0.3) ** 2 + (trial.params["y"] - 0.6) ** 2)
        terminator.evaluate(study)
    X = np.array([[trial.params["x"], trial.params["y"]] for trial in study.trials])
    y = -np.array([trial.value for trial in study.trials])
    history = terminator.history(study)
    suggestions = [s for s in suggestions_of(study) if s.criterion == "Marginal"]
    for n in range(8, 19):
        shared = [s.hyperparameters for s in suggestions if s.number < n][-1]
        assert shared is not None
        found = evaluate(
            UNIT_SQUARE, X[:n], y[:n], rule=StoppingRule(), previous=history[: n - 1], shared=shared
        )
        assert history[n - 1] == found.record
    (warm,) = (text for key, text in study_attributes(study).items() if ":warm:" in key)
    assert warm.startswith("6:")  # the last fit of its own is that of the start-up


@pytest.mark.parametrize("deterministic", [False, True])
def test_estimate_without_noise_is_used_where_there_is_none(deterministic: bool) -> None:
    """A sampler that knows the noise has not estimated any, so the terminator fits its own."""
    rng = np.random.default_rng(0)
    sampler = UHEBOSampler(n_startup_trials=6, noise_func=lambda _: 0.01, seed=1)
    study = new_study(sampler=sampler)
    for _ in range(14):
        trial = study.ask(PLANE)
        study.tell(trial, sum(trial.params.values()) + 0.1 * rng.standard_normal())
    completed = completed_in(study)
    assert completed.estimate is not None
    rule = StoppingRule(deterministic_objective=deterministic)
    own, shared = (
        evaluate(completed.space, completed.X, completed.y, rule=rule, shared=shared).record
        for shared in (None, completed.estimate)
    )
    assert (own == shared) is not deterministic
    if not deterministic:
        terminator = RegretGapTerminator()
        terminator.evaluate(study)
        assert_same(terminator.history(study), expected_records(completed.X, -completed.y))


# -------------------------------------------------------------------------------------- thresholds
def test_cross_validation_threshold_is_that_of_the_best_trial(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Eq. (5) for the scores of the best trial so far; none, and a warning, where it has none."""
    X, values = converging(6)
    values[3], values[5] = -1.0, -2.0
    study = new_study()
    terminator = RegretGapTerminator(threshold="cross-validation", criterion="regret-bound")
    scores = {2: [1.0, 2.0], 3: [5.0, 5.5, 6.0, 7.0], 5: None}
    for index, ((x, y), value) in enumerate(zip(X, values, strict=True)):
        study.enqueue_trial({"x": x, "y": y})
        trial = study.ask(PLANE)
        if scores.get(index) is not None:
            report_cross_validation_scores(trial, np.array(scores[index]))
        study.tell(trial, value)
        terminator.evaluate(study)
    deviation = math.sqrt((1 / 4 + 1 / 3) * float(np.var([5.0, 5.5, 6.0, 7.0], ddof=1)))
    thresholds = [record.threshold for record in terminator.history(study)]
    assert thresholds[3:] == [pytest.approx(deviation), pytest.approx(deviation), -math.inf]
    assert thresholds[0] == -math.inf
    (warning,) = warnings_in(caplog)
    assert "no scores from report_cross_validation_scores" in warning


# ---------------------------------------------------------------------------------------- stopping
def _objective(trial: Trial) -> float:
    return quadratic({name: trial.suggest_float(name, 0.0, 1.0) for name in BOX})


def _lines_in(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    records = [r for r in caplog.records if r.name.endswith("terminator") and r.levelno == level]
    return [record.getMessage() for record in records]


def _stops_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in _lines_in(caplog, logging.INFO) if "stops the study" in text]


def test_callback_stops_the_study(caplog: pytest.LogCaptureFixture) -> None:
    """A study that has converged ends early, with one line that says why and in which units."""
    caplog.set_level(logging.INFO, logger="bbo_plugins.optuna.terminator")
    study = new_study(sampler=UHEBOSampler(estimation="map", seed=0))
    terminator = RegretGapTerminator()
    study.optimize(_objective, n_trials=100, callbacks=[terminator, terminator])
    history = terminator.history(study)
    n = len(study.trials)
    assert 20 <= n < 60
    assert [record.terminate for record in history] == [False] * (n - 1) + [True]
    assert study.best_value < 0.01
    assert terminator.should_terminate(study)  # and does not say it again
    (message,) = _stops_in(caplog)
    for part in (
        f"after {n} complete trials",
        f"trial {n - 1}",
        "regret gap",
        "3 in a row",
        f"{history[-1].value:.4g} <= {history[-1].threshold:.4g}",
        "0.1 times the standard deviation",
        "in the objective's units",
    ):
        assert part in message


@pytest.mark.parametrize("seed", range(3))
def test_a_study_with_a_fixed_parameter_is_stopped(seed: int) -> None:
    """What other values of the fixed parameter would bring is no reason to go on."""

    def objective(trial: Trial) -> float:
        return (trial.suggest_float("x", -3.0, 3.0) - 1.0) ** 2 + trial.suggest_int("k", 1, 4)

    random = optuna.samplers.RandomSampler(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.PartialFixedSampler({"k": 2}, random)
    study = new_study(sampler=sampler)
    study.optimize(objective, n_trials=40, callbacks=[RegretGapTerminator()])
    assert len(study.trials) < 40


def test_continued_study_goes_on_until_there_is_a_new_reason() -> None:
    """What was recorded before a trial started does not stop it; its own record may."""
    X, values = converging(40)
    terminator = RegretGapTerminator()
    study = _told(X[:30], values[:30], terminator)
    assert any(record.terminate for record in terminator.history(study))
    add(study, {"x": 0.9, "y": 0.9}, 5.0)  # far away: the criterion is above its threshold again
    assert not terminator.should_terminate(study)
    assert not RegretGapTerminator().should_terminate(study)
    ran: list[int] = []
    study.optimize(
        _objective_in_plane, n_trials=2, callbacks=[terminator, lambda *_: ran.append(1)]
    )
    assert len(ran) == 2


def _objective_in_plane(trial: Trial) -> float:
    return trial.suggest_float("x", 0.0, 1.0) + 9.0 * trial.suggest_float("y", 0.0, 1.0)


def test_worker_stops_for_what_another_found() -> None:
    """A record of another worker's trial counts if that completed since one's own trial began."""
    X, values = converging(30)
    terminator = RegretGapTerminator()
    stops = [r.n_trials for r in terminator.history(_told(X, values, terminator)) if r.terminate]
    n = stops[0]
    for own_start, is_due in ((n - 2, True), (n + 1, False)):
        study = _told(X[:n], values[:n], RegretGapTerminator())
        # the n-th trial, numbered n - 1, completed at minute n - 1
        add(study, {"x": 0.95, "y": 0.95}, 9.0, minute=own_start + 1)
        worker = RegretGapTerminator()
        assert worker.evaluate(study).terminate is False
        assert worker.should_terminate(study) is is_due


@pytest.mark.parametrize("has_seen", [False, True])
def test_worker_stops_for_what_another_found_between_its_trials(*, has_seen: bool) -> None:
    """However long ago that completed, unless the worker has seen it and was told to go on."""
    X, values = converging(40)
    worker, other = RegretGapTerminator(), RegretGapTerminator()
    study = _told(X[:4], values[:4], other)

    def run(n_trials: int) -> int:
        """Return how many of so many trials the worker ran."""
        before = len(study.trials)
        study.optimize(lambda _: 9.0, n_trials=n_trials, callbacks=[worker])
        return len(study.trials) - before

    assert run(1) == 1
    for row, value in zip(X[4:], values[4:], strict=True):
        add_all(study, row[None], np.array([value]))
        other.evaluate(study)
    assert any(record.terminate for record in other.history(study))
    if has_seen:
        run(1)
    assert run(3) == (3 if has_seen else 1)


def test_a_stop_between_two_polls_is_found() -> None:
    """A worker that asks after every second trial sees every record since it last asked."""
    X, values = converging(40)
    terminator, other = RegretGapTerminator(), RegretGapTerminator()
    told = other.history(_told(X, values, other))
    n = next(record.n_trials for record in told if record.terminate)
    study = _told(X[: n - 1], values[: n - 1], other)
    assert not terminator.should_terminate(study)
    add_all(study, X[n - 1 : n], values[n - 1 : n])
    add(study, {"x": 0.95, "y": 0.95}, 9.0)  # whose record has no reason to stop
    answers = [terminator.should_terminate(study) for _ in range(2)]
    assert answers == [True, True]
    add(study, {"x": 0.9, "y": 0.95}, 9.0)  # the study is continued
    assert not terminator.should_terminate(study)


# --------------------------------------------------------------------------------------- arguments
@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"threshold": "best"}, ValueError, "threshold must be a positive number or one of"),
        ({"n_initial": 1_001}, ValueError, "n_initial must be at most 1000, but got 1001"),
        ({"patience": 1_001}, ValueError, "patience must be at most 1000, but got 1001"),
        ({"seed": -1}, ValueError, "seed must be an integer of at least 0, but got -1"),
        ({"seed": 1.5}, TypeError, "seed must be an integer"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Those of the rule, and what a terminator can keep in a storage."""
    with pytest.raises(error, match=message):
        RegretGapTerminator(**arguments)


def test_violated_constraints_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """They are not looked at; as long as all are met, that does not matter."""
    sampler = optuna.samplers.RandomSampler(seed=0)
    study, terminator = optuna.create_study(sampler=sampler), RegretGapTerminator()
    for number in range(6):
        trial = study.ask({"x": FloatDistribution(0.0, 1.0)})
        violation = -1.0 if number < 3 else 1.0
        study._storage.set_trial_system_attr(trial._trial_id, "constraints", [violation])
        study.tell(trial, trial.params["x"])
        terminator.should_terminate(study)
        found = warnings_in(caplog)
        assert len(found) == (number >= 3)
        assert all("does not look at constraints" in line for line in found)


@pytest.mark.parametrize("method", ["evaluate", "should_terminate", "history"])
def test_unfit_studies_are_refused(method: str) -> None:
    """Before the first trial: several objectives, or what is no study at all.

    By the callback they are after one trial.
    """
    terminator = RegretGapTerminator()
    study = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(ValueError, match="study must have one objective, but got 2"):
        getattr(terminator, method)(study)
    with pytest.raises(TypeError, match="study must be an Optuna study, but got 3"):
        getattr(terminator, method)(3)
    with pytest.raises(TypeError, match="trial must be an Optuna trial, but got 4"):
        terminator(optuna.create_study(), 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one objective"):
        study.optimize(lambda _: (1.0, 2.0), n_trials=5, callbacks=[terminator])
    assert len(study.trials) == 1


def test_copies_and_pickles_are_as_good() -> None:
    """They leave the caches behind, and continue where the storage says."""
    X, values = converging(12)
    terminator = RegretGapTerminator(eta=0.2, seed=4)
    study = _told(X[:8], values[:8], terminator)
    for other in (pickle.loads(pickle.dumps(terminator)), copy.deepcopy(terminator)):  # noqa: S301
        assert other.settings == terminator.settings
        assert other.history(study) == terminator.history(study)
    add_all(study, X[8:], values[8:])
    other.evaluate(study)
    assert_same(
        terminator.history(study), expected_records(X, values, StoppingRule(eta=0.2), seed=4)
    )


def test_study_without_completions() -> None:
    """There is nothing to say yet, and nothing is stored."""
    study, terminator = new_study(), RegretGapTerminator()
    study.ask(PLANE)
    record = terminator.evaluate(study)
    assert (record.n_trials, record.value, record.terminate) == (0, math.inf, False)
    assert not terminator.should_terminate(study)
    assert terminator.history(study) == []
    assert study_attributes(study) == {}
