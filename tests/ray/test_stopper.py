"""The stopper, shown results in the ways Tune shows them."""

from __future__ import annotations

import math
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import create_trial

from bbo_plugins.methods.regret_gap import algorithm as stopping
from bbo_plugins.methods.regret_gap.rule import StoppingRecord, StoppingRule
from bbo_plugins.optuna import RegretGapTerminator
from bbo_plugins.space import Dimension, SearchSpace

pytest.importorskip("ray.tune", reason="needs the extra 'ray'")

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.stopper import CombinedStopper, NoopStopper

from bbo_plugins.ray import RegretGapStopper
from bbo_plugins.ray.tune.watching import show_to_stoppers
from tests.ray.schedulers import make_trial
from tests.ray.searches import MODELS

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE = FloatDistribution(0.0, 1.0)
SPACE = {"x": tune.uniform(0.0, 1.0), "n": {"k": tune.choice(["a", "b"]), "c": 3}}


def _stopper(**arguments: Any) -> RegretGapStopper:
    return RegretGapStopper("loss", "min", SPACE, **{"threshold": 0.1, **arguments})


def _result(x: float, loss: float | None = None, **fields: Any) -> dict[str, Any]:
    config = {"x": x, "n": {"k": "a", "c": 3}, "inner_horizon": 10}
    return {"loss": (x - 0.3) ** 2 if loss is None else loss, "config": config, **fields}


def _converging() -> Iterator[float]:
    """Yield points that look everywhere first and then stay where the minimum is."""
    rng = np.random.default_rng(0)
    yield from rng.uniform(size=12)
    while True:
        yield float(np.clip(0.3 + 0.01 * rng.normal(), 0.0, 1.0))


def _run(stopper: RegretGapStopper, n: int) -> int:
    """Run trials one at a time until the experiment is over; return how many there were."""
    for number, x in zip(range(n), _converging(), strict=False):
        stopper(str(number), _result(x))
        stopper(str(number), _result(x, done=True))
        if stopper.stop_all():
            return number + 1
    return n


def test_records_are_those_of_the_rule() -> None:
    """One record for each trial, equal to what the framework-free rule says of the same data."""
    stopper = _stopper(threshold="relative", min_n_trials=3, seed=5)
    _run(stopper, 8)
    points = [x for _, x in zip(range(8), _converging(), strict=False)]
    space = SearchSpace({"n/k": Dimension.categorical(["a", "b"]), "x": Dimension.floats(0.0, 1.0)})
    X = space.encode([{"x": x, "n/k": "a"} for x in points])
    y = -((np.array(points) - 0.3) ** 2)
    rule = StoppingRule(threshold="relative", min_n_trials=3)
    records: list[StoppingRecord] = []
    warm_start = None
    for n in range(1, len(points) + 1):
        found = stopping.evaluate(
            space, X[:n], y[:n], rule=rule, previous=records, warm_start=warm_start, seed=5
        )
        warm_start = found.warm_start or warm_start
        records.append(found.record)
    assert stopper.history() == records


@pytest.mark.parametrize(
    "arguments", [{}, {"threshold": "auto"}, {"threshold": 0.1, "graceful": False}], ids=str
)
def test_ends_an_experiment_that_has_converged(arguments: dict[str, Any]) -> None:
    """A search that only repeats what it knows is stopped, never before 20 trials."""
    stopper = RegretGapStopper("loss", "min", {"x": SPACE["x"]}, **arguments)
    n = _run(stopper, 80)
    assert 20 <= n < 80
    assert len(stopper.history()) == n
    assert stopper.history()[-1].terminate


def _function(trial: Any) -> dict[str, Any]:
    if trial.suggest_categorical("kind", ["svm", "forest"]) == "svm":
        trial.suggest_float("C", 1e-3, 1e3, log=True)
    else:
        trial.suggest_int("depth", 1, 19)
    return {"seed": 7}


def test_nested_space_has_the_records_of_the_terminator() -> None:
    """Its trials span the same space as those of a study with the same names."""
    rng = np.random.default_rng(0)
    nested = RegretGapStopper("loss", "min", MODELS, threshold="relative", seed=5)
    study = optuna.create_study()
    unit = FloatDistribution(1e-3, 1e3, log=True)
    kind, depth = CategoricalDistribution(["svm", "forest"]), IntDistribution(1, 19)
    for number in range(16):
        if number % 2:
            own: dict[str, Any] = {"kind": "svm", "C": float(10.0 ** rng.uniform(-3.0, 3.0))}
            loss = 0.3 + abs(math.log10(own["C"]) - 1.0)
            distributions: dict[str, Any] = {"model": kind, "rate": RATE, "model/svm/C": unit}
            params = {"model": "svm", "rate": 0.5, "model/svm/C": own["C"]}
        else:
            own = {"kind": "forest", "depth": int(rng.integers(1, 20))}
            loss = 0.1 * abs(own["depth"] - 7)
            distributions = {"model": kind, "rate": RATE, "model/forest/depth": depth}
            params = {"model": "forest", "rate": 0.5, "model/forest/depth": own["depth"]}
        nested(
            str(number),
            {"loss": loss, "config": {"model": own, "rate": 0.5, "seed": 7}, "done": True},
        )
        study.add_trial(create_trial(params=params, distributions=distributions, value=loss))
    terminator = RegretGapTerminator(seed=5)
    terminator.evaluate(study)
    records = terminator.history(study)
    assert len(records) == 16
    assert all(math.isfinite(record.value) for record in records[2:])
    # The terminator rounds the state from which the next fit starts, as its storage does.
    for ours, theirs in zip(nested.history(), records, strict=True):
        assert (ours.n_trials, ours.terminate) == (theirs.n_trials, theirs.terminate)
        assert ours.value == pytest.approx(theirs.value, rel=1e-4)
        assert ours.threshold == pytest.approx(theirs.threshold)


@pytest.mark.parametrize(
    "config", [{"model": {"kind": "svm"}}, {"model": {"kind": "tree", "C": 1.0}}, {"other": 1}]
)
def test_configs_without_a_place_do_not_count(
    config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A warning says once what is missing; a function says it in its own words."""
    stopper = RegretGapStopper("loss", "min", MODELS)
    function = RegretGapStopper("loss", "min", _function)
    for number in range(3):
        stopper(str(number), {"loss": 1.0, "config": config, "done": True})
        function(str(number), {"loss": 1.0, "config": config, "done": True})
    assert stopper.history() == function.history() == []
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert "config['model'] must be one of the choices" in texts[0]
    assert "'kind' is not found" in texts[1]


@pytest.mark.parametrize("domain", [tune.qrandint(1, 10, 2), tune.qlograndint(1, 10, 2)])
def test_integers_between_the_steps_count(domain: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Ray's search draws multiples, and OptunaSearch begins at the lower end; others are out."""
    space = {"n": domain, "m": tune.choice([{"k": domain}, None])}
    stopper = RegretGapStopper("loss", "min", space)
    for n in range(12):
        stopper(str(n), {"loss": 1.0, "config": {"n": n, "m": {"k": n}}, "done": True})
    assert len(stopper.history()) == 10
    assert len(caplog.records) == 1
    assert domain.upper == 10  # of the user


def test_a_metric_that_is_never_there_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Of trials that have ended; once one had it, another may lack it."""
    stopper = _stopper()
    stopper("a", {"config": {"x": 0.5}})
    stopper("b", {**_result(0.5), "loss": math.nan, "done": True})
    assert not caplog.records
    for trial_id in "cd":
        stopper(trial_id, {"lss": 1.0, "config": {"x": 0.5}, "done": True})
    (record,) = caplog.records
    assert "no trial has ended with a result that has the metric 'loss'" in record.getMessage()
    other = _stopper()
    other("a", _result(0.5, done=True))
    other("b", {"config": {"x": 0.5}, "done": True})
    assert len(caplog.records) == 1


def test_maximizing_mirrors_minimizing() -> None:
    """The same values with the other sign and mode give the same records."""
    least, most = _stopper(), RegretGapStopper("loss", "max", SPACE, threshold=0.1)
    for number, x in zip(range(6), _converging(), strict=False):
        least(str(number), _result(x, done=True))
        most(str(number), _result(x, loss=-((x - 0.3) ** 2), done=True))
    assert least.history() == most.history()


def test_each_trial_counts_once() -> None:
    """Results come twice, with and without done, and the last one counts."""
    stopper = _stopper()
    for number in range(4):
        for loss in (9.0, 8.0, float(number)):
            assert not stopper(str(number), _result(0.1 * number, loss=loss))
        for _ in range(2):
            assert not stopper(str(number), _result(0.1 * number, loss=float(number), done=True))
    twin = _stopper()
    for number in range(4):
        twin(str(number), _result(0.1 * number, loss=float(number), done=True))
    stopper("1", _result(0.1, loss=1.0, done=True))
    assert stopper.history() == twin.history()
    assert [record.n_trials for record in stopper.history()] == [1, 2, 3, 4]


def test_trials_that_a_scheduler_stopped_count_too() -> None:
    """They never say that they are done; they have ended when others have taken their place."""
    stopper = _stopper()
    for number in range(6):
        for loss in (9.0, float(number)):
            stopper(str(number), _result(0.1 * number, loss=loss))
    assert [record.n_trials for record in stopper.history()] == [1, 2, 3, 4]
    stopper("0", _result(0.0, loss=7.0))  # it was only slow, so its value was not its last
    stopper("5", _result(0.5, loss=5.0, done=True))
    assert [record.n_trials for record in stopper.history()] == [1, 2, 3, 4]
    stopper("0", _result(0.0, loss=7.0, done=True))
    assert [record.n_trials for record in stopper.history()] == [1, 2, 3, 4, 5]


def test_value_of_a_trial_that_goes_on_is_replaced() -> None:
    """A trial that was continued counts with its new value, and as one."""
    stopper = _stopper()
    for number in range(5):
        stopper(str(number), _result(0.2 * number, loss=float(number), done=True))
    stopper("2", _result(0.4, loss=-1.0))
    stopper("2", _result(0.4, loss=-1.0, done=True))
    assert [record.n_trials for record in stopper.history()] == [1, 2, 3, 4, 5]
    twin = _stopper()
    for number, loss in ((0, 0.0), (1, 1.0), (3, 3.0), (4, 4.0), (2, -1.0)):
        twin(str(number), _result(0.2 * number, loss=loss, done=True))
    assert stopper.history()[-1].terms["std"] == pytest.approx(twin.history()[-1].terms["std"])


def test_trials_that_a_growing_horizon_continues_count() -> None:
    """Each time they have made their steps, although they are never silent and never done."""
    stopper = _stopper()

    def report(number: int, loss: float, steps: int, horizon: int) -> None:
        result = _result(0.1 * number, loss=loss, sgd_steps=steps)
        result["config"]["inner_horizon"] = horizon
        stopper(str(number), result)

    for number, horizon in enumerate((10, 20, 30)):
        report(number, 5.0 - number, horizon - 5, horizon)
        report(number, 4.0 - number, horizon, horizon)
        report(0, 1.0 / horizon, horizon, horizon)
    assert len(stopper.history()) == 3
    twin = _stopper()
    for number, loss in ((1, 3.0), (2, 2.0), (0, 1.0 / 30.0)):
        twin(str(number), _result(0.1 * number, loss=loss, done=True))
    assert stopper.history()[-1].terms["std"] == pytest.approx(twin.history()[-1].terms["std"])


def test_a_trial_that_a_growing_horizon_continues_is_not_waited_for() -> None:
    """At the decision it has made its steps; when another one reports, Tune knows of it."""
    stopper = _stopper(threshold=1e6, min_n_trials=2, patience=1)
    for number in range(2):
        stopper("running", _result(0.5, sgd_steps=3))
        assert not stopper(str(number), _result(0.1 * number, sgd_steps=10))
    assert not stopper.stop_all()
    assert not stopper("running", _result(0.5, sgd_steps=6))
    assert not stopper.stop_all()
    assert stopper("0", _result(0.0, sgd_steps=10))  # continued after the decision
    assert not stopper("running", _result(0.5, sgd_steps=10))
    assert not stopper.stop_all()  # Tune has still to end it
    late = _result(0.7, sgd_steps=10)
    assert stopper("new", late)
    assert late["stopped_early"]
    assert stopper.stop_all()


@pytest.mark.parametrize("loss", [math.nan, math.inf, None, "text"])
def test_unusable_values_do_not_count(loss: Any) -> None:
    """A failed evaluation is no observation, and no error."""
    stopper = _stopper()
    stopper("a", {**_result(0.5), "loss": loss, "done": True})
    stopper("b", {"config": {"x": 0.5}, "done": True})
    stopper("c", {"loss": 1.0, "config": {"x": 7.0, "n": {"k": "a"}}, "done": True})
    assert stopper.history() == []


def test_far_worse_values_count_as_failures() -> None:
    """The losses of diverged trainings do not keep an experiment from its end."""
    plain, diverging = (RegretGapStopper("loss", "min", {"x": SPACE["x"]}) for _ in range(2))
    _run(plain, 80)
    assert plain.history()[-1].terminate
    has_diverged = []
    for number, x in zip(range(80), _converging(), strict=False):
        diverging(str(number), _result(x, done=True))
        has_diverged.append(False)
        if diverging.stop_all():
            break
        if number >= 12:
            diverging(f"diverged {number}", _result(0.9, loss=10.0 ** (number - 5), done=True))
            has_diverged.append(True)
    assert diverging.history()[-1].terminate
    assert [record.has_failed for record in diverging.history()] == has_diverged


def test_metric_may_be_nested() -> None:
    """A metric is named by its path, as everywhere in Tune."""
    stopper = RegretGapStopper("val/loss", "min", SPACE)
    stopper("a", {**_result(0.5), "val": {"loss": 2.0}, "done": True})
    assert len(stopper.history()) == 1


def test_running_trials_may_finish(caplog: pytest.LogCaptureFixture) -> None:
    """The decision ends trials that begin after it; the experiment ends with those before it."""
    caplog.set_level("INFO", logger="bbo_plugins")
    stopper = _stopper()
    n = 0
    for n, x in enumerate(_converging()):
        assert not stopper("slow", _result(0.9))
        if stopper(str(n), _result(x, done=True)):
            break
    assert n >= 20
    assert caplog.records[-1].getMessage().endswith("; trials that may finish: 1.")
    assert not stopper.stop_all()
    assert not stopper("slow", _result(0.9))
    late = _result(0.3)
    assert stopper("late", late)
    assert late["stopped_early"]
    late = _result(0.3, done=True)  # which has ended by itself
    assert stopper("later", late)
    assert "stopped_early" not in late
    assert not stopper.stop_all()
    n_records = len(stopper.history())
    assert not stopper("slow", _result(0.9, done=True))
    assert stopper.stop_all()
    assert len(stopper.history()) == n_records


def test_silent_trials_are_not_waited_for_forever() -> None:
    """A trial that a scheduler has stopped before the decision is given up."""
    stopper = _stopper()
    stopper("silent", _result(0.9))
    for number, x in zip(range(80), _converging(), strict=False):
        stopper(str(number), _result(x, done=True))
        if stopper.stop_all():
            return
    pytest.fail("the experiment did not end")


def test_a_trial_that_is_watched_and_goes_on_is_waited_for() -> None:
    """However silent it is, and while Tune saves the checkpoint of its last result."""
    stopper = _stopper(threshold=1e6, min_n_trials=3, patience=1)
    trials = {name: make_trial(name) for name in ["slow", *"abcd"]}
    controller = SimpleNamespace(_stopper=CombinedStopper(NoopStopper(), stopper))
    for trial in trials.values():
        show_to_stoppers(controller, trial)
        trial.set_status(Trial.RUNNING)
    stopper("slow", _result(0.9, sgd_steps=5))
    for n, name in enumerate("abc", start=1):
        assert not stopper(name, _result(0.1 * n, sgd_steps=10, done=name == "b"))
        assert len(stopper.history()) == n  # without the slow one
        if name != "c":
            trials[name].set_status(Trial.TERMINATED)
    assert stopper.history()[-1].terminate
    assert not stopper("slow", _result(0.9, sgd_steps=10))
    assert not stopper.stop_all()
    trials["slow"].set_status(Trial.PAUSED)  # of a horizon that grows
    assert stopper("d", _result(0.7, sgd_steps=5))
    assert not stopper.stop_all()  # the last checkpoint of "c" is being saved
    restored = pickle.loads(pickle.dumps(stopper))  # noqa: S301 - just written
    for trial in trials.values():
        restored.watch(trial)
    trials["c"].set_status(Trial.TERMINATED)
    assert stopper.stop_all()
    assert restored.stop_all()


@pytest.mark.parametrize("status", [Trial.PAUSED, Trial.PENDING])
def test_a_trial_that_is_seen_to_wait_at_its_horizon_is_not_waited_for(status: str) -> None:
    """Whether or not a horizon that grows has continued it: its turn comes after the decision."""
    stopper = _stopper(threshold=1e6, min_n_trials=2, patience=1)
    trials = {name: make_trial(name) for name in "ab"}
    for number, (name, trial) in enumerate(trials.items()):
        stopper.watch(trial)
        trial.set_status(Trial.RUNNING)
        stopper(name, _result(0.1 * number, sgd_steps=10))
        assert not stopper.stop_all()
        trial.set_status(status)
    assert stopper.stop_all()


def test_a_trial_that_is_seen_to_be_paused_is_not_waited_for_forever() -> None:
    """A scheduler that has paused a trial below its horizon may never continue it."""
    stopper = _stopper(threshold=1e6, min_n_trials=2, patience=1)
    paused = make_trial("paused")
    stopper.watch(paused)
    stopper("paused", _result(0.9, sgd_steps=5))
    paused.set_status(Trial.PAUSED)
    for number in range(5):
        stopper(str(number), _result(0.5, done=True))
    assert stopper.stop_all()


def test_restored_stopper_goes_on() -> None:
    """Pickled after each result, as with Tune's checkpoints, it decides the same."""
    kept, restored = _stopper(), _stopper()
    for number, x in zip(range(40), _converging(), strict=False):
        for fields in ({}, {"done": True}):
            late = kept(str(number), _result(x, **fields))
            assert restored(str(number), _result(x, **fields)) == late
            restored = pickle.loads(pickle.dumps(restored))  # noqa: S301 - just written
        assert restored.stop_all() == kept.stop_all()
    assert kept.stop_all()
    assert restored.history() == kept.history()


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"metric": ["a"], "mode": ["min"]}, ValueError, "one objective for RegretGapStopper"),
        ({"mode": "minimize"}, ValueError, "mode must be one of 'min' or 'max'"),
        ({"space": {"c": tune.choice([1])}}, ValueError, "more than one value"),
        ({"threshold": "cross-validation"}, ValueError, "no cross-validation scores"),
        ({"patience": 0}, ValueError, "patience must be an integer of at least 1"),
        ({"graceful": 1}, TypeError, "graceful must be True or False"),
        ({"patients": 3}, TypeError, r"of RegretGapTerminator, but got \['patients'\]"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """Each message names the argument, the rule and the value."""
    with pytest.raises(error, match=message):
        RegretGapStopper(**{"metric": "loss", "mode": "min", "space": SPACE, **arguments})


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution:UserWarning")
def test_choices_that_differ_from_their_copies_are_refused() -> None:
    """A config comes from another process, where a function of a notebook is another one."""
    with pytest.raises(ValueError, match=r"space\['f'\] must be .* equal to their copies"):
        RegretGapStopper("loss", "min", {"f": tune.choice([math.sin, lambda x: x])})
    RegretGapStopper("loss", "min", {"f": tune.choice([math.sin, math.cos])})


# -------------------------------------------------------------------------------- live trials
