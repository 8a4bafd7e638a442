"""Faults inside a worker: ``ask`` returns a valid point, and one warning says what it fell back to.

Every history goes through the terminator too, which must end in a record, with or without a signal.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from scipy.linalg import lapack

from bbo_plugins.optuna.sampling.snapshot import StudyReader
from tests.reliability.cases import QUICK
from tests.reliability.front_door import (
    BILEVEL,
    DEFAULT,
    SINGLE,
    SPACE,
    ask,
    assert_modeled,
    evaluate,
    fallback_of,
    is_modeled,
    run,
    sampler_of,
    space_of,
    stored_of,
    study_of,
    terminator_of,
    value_of,
    warnings_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

each = pytest.mark.parametrize("name", QUICK)
each_single = pytest.mark.parametrize("name", SINGLE)


# -------------------------------------------------------------------------------- linear algebra

_factorize = lapack.dpotrf


def not_positive_definite(matrix: Any, **options: Any) -> tuple[Any, int]:
    """Return what LAPACK returns of a matrix whose third leading minor is not positive."""
    return _factorize(matrix, **options)[0], 3


def not_a_number(matrix: Any, **options: Any) -> tuple[Any, int]:
    """Return a factor that is not a number, with no error reported."""
    return np.full_like(_factorize(matrix, **options)[0], np.nan), 0


FAILURES = (not_positive_definite, not_a_number)


class Failing:
    """A factorization that fails from the ``first`` call on, up to and including the ``last``."""

    def __init__(self, failure: Callable[..., tuple[Any, int]], first: int, last: float) -> None:
        """Start to count."""
        self.failure, self.first, self.last, self.n_calls = failure, first, last, 0

    def __call__(self, matrix: Any, **options: Any) -> tuple[Any, int]:
        """Factorize or fail."""
        self.n_calls += 1
        fails = self.first <= self.n_calls <= self.last
        return (self.failure if fails else _factorize)(matrix, **options)


@each
@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("nth", [1, 17])
def test_one_factorization_fails(
    name: str,
    failure: Callable[..., tuple[Any, int]],
    nth: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The study goes on, the other trials are modeled, and at most one point is random."""
    study = study_of(name)
    run(study, 6)
    caplog.clear()
    failing = Failing(failure, nth, nth)
    monkeypatch.setattr(lapack, "dpotrf", failing)
    trials = []
    while failing.n_calls < nth:
        trials.append(ask(study))
        study.tell(trials[-1], value_of(trials[-1].params))
    assert len(warnings_in(caplog, fallback_of(name))) <= 1
    run(study, 1)
    assert_modeled(study, ask(study))
    random = [trial for trial in trials if not is_modeled(study.trials[trial.number])]
    assert len(random) == len(warnings_in(caplog))


@each
@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: f.__name__)
def test_every_factorization_fails(
    name: str,
    failure: Callable[..., tuple[Any, int]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All points are random, no two the same, and each model and the terminator say so once.

    When the fault is gone, so is the fallback.
    """
    n_kinds = 2 if name == DEFAULT else 1  # of models, each of which fails in words of its own
    study = study_of(name)
    run(study, 6)
    caplog.clear()
    with monkeypatch.context() as patch:
        patch.setattr(lapack, "dpotrf", Failing(failure, 1, math.inf))
        run(study, 4)
        terminator = terminator_of()
        assert terminator.evaluate(study).value == math.inf
        assert not any(record.terminate for record in terminator.history(study))
    assert len({tuple(trial.params.values()) for trial in study.trials}) == 10
    assert len(warnings_in(caplog, fallback_of(name))) == n_kinds
    has_signal = name != BILEVEL  # a study of several functions never has one
    assert len(warnings_in(caplog, "so there is no signal")) == has_signal
    assert len(warnings_in(caplog)) == n_kinds + has_signal
    assert_modeled(study, ask(study))
    run(study, 1)
    assert (terminator.evaluate(study).value < math.inf) == has_signal


# ------------------------------------------------------------------------------------------ values


def study_with(name: str, values: Sequence[float], **arguments: Any) -> Study:
    """Return a study whose trials had these values, whatever their parameters."""
    study = study_of(name, **arguments)
    for value in values:
        trial = ask(study)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The value nan is not acceptable")
            study.tell(trial, value)
    return study


_ORDERS = np.random.default_rng(0).permutation(30).tolist()
QUIET_HISTORIES = {
    "all but one equal": [3.0] * 11 + [2.0],
    "all NaN": [math.nan] * 12,
    "all but one NaN": [math.nan] * 11 + [1.0],
    "30 orders of magnitude": [10.0 ** (order - 15) for order in _ORDERS],
    "equal up to rounding": [1.0, 1.0 + 2e-16, 1.0 - 1e-16] * 4,
}
INFINITE_HISTORIES = {
    "all inf": [math.inf] * 12,
    "inf, NaN and numbers": [math.inf, math.nan, 1.0, 2.0] * 3,
}


def warnings_but_for_nan(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings other than BILBO's, once for each function, that a value is missing."""
    of_nan = warnings_in(caplog, "fewer queries are made near it")
    assert len(of_nan) == len(set(of_nan)) <= 2
    return [line for line in warnings_in(caplog) if line not in of_nan]


@each
@pytest.mark.parametrize("history", QUIET_HISTORIES)
def test_odd_values_need_no_fallback(
    name: str, history: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Trials are modeled as ever, without a word; failed ones alone leave the start-up design."""
    values = QUIET_HISTORIES[history]
    study = study_with(name, values)
    n_usable = sum(not math.isnan(value) for value in values)
    trials = [ask(study) for _ in range(3)]
    if n_usable >= (4 if name == BILEVEL else 1):  # BILBO has a model for each query
        assert any(is_modeled(study.trials[trial.number]) for trial in trials)
    assert evaluate(study).n_trials == n_usable
    assert warnings_but_for_nan(caplog) == []


@each
@pytest.mark.parametrize("history", INFINITE_HISTORIES)
def test_infinite_values_warn_once(
    name: str, history: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Sampler and terminator say once how they count, but for a study that it cannot stop."""
    study = study_with(name, INFINITE_HISTORIES[history])
    run(study, 2)
    ask(study)
    evaluate(study)
    expected = 1 if name == BILEVEL else 2
    assert len(warnings_in(caplog, "infinite value")) == expected
    assert len(warnings_but_for_nan(caplog)) == expected


# --------------------------------------------------------------------------------------- the space


def params_of(name: str, i: int = 0, **changed: Any) -> dict[str, Any]:
    """Return the parameters of a trial; of a bilevel study, every other one of the lower level."""
    params = {"c": "a", "lr": 0.1, "n": 3, "x": 0.5, **changed}
    return {**params, "query": ("upper", "lower")[i % 2]} if name == BILEVEL else params


def finished(
    params: dict[str, Any],
    value: float | None,
    space: dict[str, BaseDistribution] | None = None,
    **options: Any,
) -> FrozenTrial:
    """Return a complete trial, or one in another state, that no sampler of ours has seen."""
    known = space_of(BILEVEL) if space is None else space
    distributions = {parameter: known[parameter] for parameter in params}
    return create_trial(params=params, distributions=distributions, value=value, **options)


# Each with the parameters of which a value may lie outside what the model knows.
CHANGED: dict[str, tuple[dict[str, BaseDistribution], set[str]]] = {
    "one more parameter": ({**SPACE, "new": FloatDistribution(0.0, 1.0)}, {"new"}),
    "one fewer": ({k: v for k, v in SPACE.items() if k != "x"}, set()),
    "wider range": ({**SPACE, "x": FloatDistribution(-1.0, 2.0)}, {"x"}),
    "narrower range": ({**SPACE, "x": FloatDistribution(0.4, 0.5)}, {"x"}),
    "range elsewhere": ({**SPACE, "lr": FloatDistribution(2.0, 3.0, log=True)}, {"lr"}),
    "other steps": (
        {**SPACE, "n": IntDistribution(1, 9), "x": FloatDistribution(0.0, 1.0, step=0.25)},
        {"n", "x"},
    ),
    "nothing in common": (
        {"a": FloatDistribution(0.0, 1.0), "b": IntDistribution(0, 3)},
        {"a", "b"},
    ),
}


def _is_inside(params: dict[str, Any], space: dict[str, BaseDistribution]) -> bool:
    """Return whether every number that a space knows is in its range."""
    ranges = {name: one for name, one in space.items() if not hasattr(one, "choices")}
    known = [(params[name], one) for name, one in ranges.items() if name in params]
    return all(one.low <= value <= one.high for value, one in known)  # type: ignore[attr-defined]


@each_single
@pytest.mark.parametrize("change", CHANGED)
def test_search_space_changes(name: str, change: str, caplog: pytest.LogCaptureFixture) -> None:
    """What is suggested outside a new range becomes the nearest value in it.

    Trials outside of it are left out, with one warning.
    """
    space, _ = CHANGED[change]
    study = study_of(name)
    run(study, 6)
    for _ in range(6):
        trial = ask(study, space)
        study.tell(trial, 1.0)
    found = warnings_in(caplog)
    n_outside = sum(not _is_inside(trial.params, space) for trial in study.trials[:6])
    left_out = [line for line in found if f"{n_outside} trials left out: a parameter had" in line]
    assert len(left_out) == (change in {"narrower range", "range elsewhere"})
    assert found == left_out
    evaluate(study)


@pytest.mark.parametrize(
    "change", ["wider range", "narrower range", "range elsewhere", "other steps"]
)
def test_range_of_a_bilevel_study_changes(change: str, caplog: pytest.LogCaptureFixture) -> None:
    """What lies outside a new range is drawn, with a warning; then the models have that range."""
    changed, uncovered = CHANGED[change]
    space = {**space_of(BILEVEL), **changed}
    study = study_of(BILEVEL)
    run(study, 6)
    for _ in range(6):
        trial = ask(study, space)
        study.tell(trial, value_of(trial.params))
    found = [line for line in warnings_in(caplog) if "trials left out" not in line]
    assert (change == "range elsewhere") <= len(found) <= len(uncovered)
    for line in found:
        assert any(f"Parameter {parameter!r}" in line for parameter in uncovered)
        assert "sampled by a uniform draw, not by the model" in line
    assert_modeled(study, ask(study, space))
    evaluate(study)


@each
def test_categorical_choices_change(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Trials added with other choices are no reason to stop; one warning says they are left out."""
    study = study_of(name)
    run(study, 6)
    other = {**space_of(name), "c": CategoricalDistribution(["a", "other"])}
    study.add_trials([finished(params_of(name, i, c="other"), 1.0, other) for i in range(3)])
    run(study, 3)
    found = warnings_in(caplog)
    if name != BILEVEL:  # which knows from its own trials what the objective asks for
        drawn, left_out = found
        assert "Parameter 'c'" in drawn
        assert "3 trials left out" in left_out
        found = []
    assert found == []
    evaluate(study)


@each
@pytest.mark.parametrize("other", ["random", "tpe"])
def test_trials_of_another_sampler(name: str, other: str, caplog: pytest.LogCaptureFixture) -> None:
    """They are observations like any other: the first trial after them is modeled."""
    made_by: dict[str, optuna.samplers.BaseSampler] = {
        "random": optuna.samplers.RandomSampler(seed=0),
        "tpe": optuna.samplers.TPESampler(seed=0, n_startup_trials=4),
    }
    study = optuna.create_study(sampler=made_by[other])
    run(study, 8, space_of(name))
    study.sampler = sampler_of(name)
    assert_modeled(study, ask(study))
    study.sampler = made_by[other]
    run(study, 3, space_of(name))
    study.sampler = sampler_of(name)
    assert_modeled(study, ask(study))
    evaluate(study)
    assert warnings_in(caplog) == []


# --------------------------------------------------------------------------------- enqueued, fixed


@each
@pytest.mark.parametrize(
    "enqueued",
    [
        {"x": 7.0, "n": 2},
        {"c": "a", "lr": 5.0, "n": 3, "x": 0.5, "query": "upper"},
        {"unknown": 1.0},
    ],
    ids=repr,
)
def test_parameters_enqueued_out_of_range(
    name: str, enqueued: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """They are tried as they are, the others are valid, and the model leaves the trial out."""
    study = study_of(name)
    run(study, 6)
    study.enqueue_trial(enqueued)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Fixed parameter")  # Optuna's, and enough
        trial = study.ask(space_of(name))
    for parameter, distribution in space_of(name).items():
        value = trial.params[parameter]
        if parameter in enqueued:
            assert value == enqueued[parameter]
        else:
            assert distribution._contains(distribution.to_internal_repr(value))
    beside = ask(study)  # while that one is still running
    assert_modeled(study, beside)
    study.tell(trial, 0.0)
    study.tell(beside, 1.0)
    assert_modeled(study, ask(study))
    evaluate(study)
    assert warnings_in(caplog) == []


# ------------------------------------------------------------------------------------- constraints


def constrain(study: Study, trial: Trial, *values: float) -> None:
    """Store constraint values of a running trial, as Optuna does."""
    study._storage.set_trial_system_attr(trial._trial_id, "constraints", list(values))


@each
def test_constraints_appear_half_way(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """None, then one, then three, then none again: every trial is modeled, and without a word."""
    study = study_of(name)
    run(study, 6)
    for values in [(-0.5,), (0.5,), (0.1, -0.2, math.inf), (-1.0, -1.0, -math.inf), None, (0.0,)]:
        trial = ask(study)
        assert_modeled(study, trial)
        if values is not None:
            constrain(study, trial, *values)
        study.tell(trial, value_of(trial.params))
    evaluate(study)
    assert warnings_in(caplog) == []


def test_thousands_of_constraints(caplog: pytest.LogCaptureFixture) -> None:
    """64 are modeled, the last of which stands for the others, violated ones among them."""
    study = study_of(DEFAULT)
    for i in range(5):
        trial = ask(study)
        violated = [1.0 if i == 4 else -1.0] * (3_000 - i)
        constrain(study, trial, *[-0.5 - 0.1 * i] * 30, *violated)
        study.tell(trial, value_of(trial.params))
    asked = ask(study)
    assert_modeled(study, asked)
    stored = stored_of(study.trials[asked.number])
    assert stored is not None
    assert len(stored.fits) == 1 + 64
    snapshot = StudyReader().snapshot(study, study.trials[-1], SPACE, {})
    assert snapshot.observations.constraints is not None
    assert snapshot.observations.constraints[:, -1].tolist() == [-0.5, -0.6, -0.7, -0.8, 1.0]
    (warning,) = warnings_in(caplog)
    assert "more than 64 constraints" in warning


# ------------------------------------------------------------------------------------- other trials


@each
def test_trials_without_what_they_should_have(name: str) -> None:
    """Pruned without a report or with NaN, failed without parameters, running without any."""
    study = study_of(name)
    run(study, 5)
    params = params_of(name)
    study.add_trials(
        [
            finished(params, None, state=TrialState.PRUNED),
            finished(params, None, state=TrialState.PRUNED, intermediate_values={3: math.nan}),
            finished(params, None, state=TrialState.PRUNED, intermediate_values={1: math.inf}),
            finished({}, None, {}, state=TrialState.PRUNED),
            finished({}, None, {}, state=TrialState.FAIL),
            create_trial(state=TrialState.RUNNING),
            create_trial(state=TrialState.WAITING),
            finished(params, None, state=TrialState.WAITING),
        ]
    )
    trial = study.ask(space_of(name))
    study.tell(trial, 0.0)
    run(study, 3)
    evaluate(study)
    assert_modeled(study, ask(study))
