"""What is read back from a shared storage may be anything: it is ignored, with one warning."""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from bbo_plugins.optuna.bilevel.trials import REASON_KEY
from bbo_plugins.optuna.stopping.cross_validation import report_cross_validation_scores
from bbo_plugins.optuna.stopping.progress import StoredRecords
from bbo_plugins.visualization._data.objective import posterior_of, suggestions_of
from tests.reliability.cases import QUICK
from tests.reliability.front_door import (
    BILEVEL,
    ESTIMATIONS,
    SAMPLERS,
    ask,
    assert_modeled,
    stored_of,
    study_of,
    terminator_of,
    value_of,
    warnings_in,
)
from tests.reliability.hostile import copy_of, cut, damaged_attributes, joined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    Attributes = dict[str, Any]

_RULES: tuple[dict[str, Any], ...] = ({}, {"threshold": "cross-validation"})


@cache
def original(name: str) -> Study:
    """Return a study with everything in it that we store: complete, failed and running trials."""
    study = study_of(name)
    for number in range(9):
        trial = ask(study)
        report_cross_validation_scores(trial, [0.1 * number, 0.2, 0.3])
        if number == 5:
            study.tell(trial, state=TrialState.FAIL)
        elif number != 6:
            study._storage.set_trial_system_attr(
                trial._trial_id, "constraints", [-0.5, 0.5 - number]
            )
            study.tell(trial, value_of(trial.params))
    for rule in _RULES:
        terminator_of(**rule).evaluate(study)
    return study


def own_attributes(study: Study) -> Attributes:
    """Return the study's system attributes."""
    return dict(study._storage.get_study_system_attrs(study._study_id))


def look_at(study: Study) -> None:
    """Do everything that reads attributes, and check what comes of it."""
    for _ in range(2):
        trial = ask(study)
        assert stored_of(study.trials[trial.number]) is not None
        study.tell(trial, value_of(trial.params))
    for rule in _RULES:
        terminator = terminator_of(**rule)
        record = terminator.evaluate(study)
        assert not math.isnan(record.value)
        assert terminator.history(study)[-1] == record
        terminator(study, study.trials[-1])
    StoredRecords.read_all(study)
    suggestions_of(study)
    posterior_of(study)


# ------------------------------------------------------------------------------- any damage at all


class Collected(logging.Handler):
    """Keeps the warnings of this package; hypothesis cannot use pytest's fixture."""

    def __init__(self) -> None:
        """Start with none."""
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.messages.append(record.getMessage())

    def __enter__(self) -> list[str]:
        """Listen."""
        logging.getLogger("bbo_plugins").addHandler(self)
        return self.messages

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        logging.getLogger("bbo_plugins").removeHandler(self)


def assert_said_once(messages: list[str]) -> None:
    """Check that the sampler and each of the terminators repeat no warning."""
    for message, n in Counter(messages).items():
        assert n <= (len(_RULES) if message.startswith("RegretGapTerminator") else 1), message


_FEW = settings(max_examples=4, suppress_health_check=list(HealthCheck))


def check_damaged_trials(name: str, data: st.DataObject) -> None:
    """Damage what is stored with some trials, and do everything that reads it."""
    study = original(name)
    chosen = data.draw(st.sets(st.sampled_from(range(len(study.trials))), min_size=1, max_size=3))
    attributes = {
        number: cut(data.draw(damaged_attributes(joined(study.trials[number].system_attrs))))
        for number in sorted(chosen)
    }
    with Collected() as messages:
        look_at(copy_of(study, name, attributes, own_attributes(study)))
    assert_said_once(messages)


def check_damaged_study(name: str, data: st.DataObject) -> None:
    """Damage what is stored with the study, and do everything that reads it."""
    study = original(name)
    own = data.draw(damaged_attributes(own_attributes(study)))
    with Collected() as messages:
        look_at(copy_of(study, name, {}, own))
    assert_said_once(messages)


@pytest.mark.parametrize("name", QUICK)
@_FEW
@given(data=st.data())
def test_damaged_attributes_of_trials(name: str, data: st.DataObject) -> None:
    """Suggestions, records, plots: nothing raises, and each kind of warning comes once."""
    check_damaged_trials(name, data)


@pytest.mark.parametrize("name", QUICK)
@_FEW
@given(data=st.data())
def test_damaged_attributes_of_the_study(name: str, data: st.DataObject) -> None:
    """Settings, records and states of the terminator's fits: nothing raises, nothing stops."""
    check_damaged_study(name, data)


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        7,
        "x",
        [],
        {"v": 1, "reason": "optimism", "bounds": {"lower": -5.0}},
        {"v": 2, "reason": "optimism", "bounds": {"lower": 0.0}},
        {"reason": "optimism", "bounds": {"lower": 0.0}},
    ],
)
def test_damaged_reasons_of_bilevel_queries(garbage: Any) -> None:
    """A trial whose attributes are damaged while it runs is told as ever, and not trusted."""
    study = study_of(BILEVEL)
    for _ in range(6):
        trial = ask(study)
        study._storage.set_trial_system_attr(trial._trial_id, REASON_KEY, garbage)
        study.tell(trial, value_of(trial.params))
        (doubt,) = study.trials[-1].system_attrs["constraints"]
        assert doubt > 0.0
    assert_modeled(study, ask(study))


# ------------------------------------------------------------------------------- nothing but damage

GARBAGE: dict[str, Any] = {
    "null": None,
    "number": 7,
    "huge number": 10**400,
    "NaN": math.nan,
    "list": [[], {}],
    "deep list": "[" * 2_000,
    "text": "not JSON",
    "long text": "x" * 1_000_000,
    "long list": [0.0] * 100_000,
    "wide record": {str(i): i for i in range(10_000)},
    "other version": '{"v":2,"params":{"x":0.5},"constraints":[],"fits":[]}',
    "huge digits": '{"v":1,"params":{"x":' + "9" * 1_500 + '},"constraints":[],"fits":[]}',
}


def replaced(attributes: Mapping[str, Any], garbage: Any) -> Attributes:
    """Return attributes with garbage instead of everything that begins with our prefix."""
    return {
        key: garbage if key.startswith("bbo_plugins:") else value
        for key, value in attributes.items()
    }


def without(attributes: Mapping[str, Any]) -> Attributes:
    """Return attributes without ours."""
    return {key: value for key, value in attributes.items() if not key.startswith("bbo_plugins:")}


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("name", QUICK)
def test_garbage_is_as_good_as_nothing(
    name: str, garbage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The next suggestion and all records are those of a study that has stored nothing.

    Sampler and terminator say so in one warning each, unless the storage says there is nothing.
    """
    study, found = original(name), []
    caplog.clear()
    for change in (lambda attributes: replaced(attributes, GARBAGE[garbage]), without):
        changed = {trial.number: change(trial.system_attrs) for trial in study.trials}
        made = copy_of(study, name, changed, change(own_attributes(study)))
        trial = ask(made)
        assert_modeled(made, trial)
        terminator = terminator_of()
        terminator.evaluate(made)
        found.append((trial.params, terminator.history(made)))
        if change is not without:
            assert len(StoredRecords.read_all(made)) == 1  # readable again
            assert terminator_of().history(made) == terminator.history(made)
    assert found[0] == found[1]
    n_expected = 0 if GARBAGE[garbage] is None else 1
    assert len(warnings_in(caplog, "with 7 trials cannot be read and is ignored")) == n_expected
    assert len(warnings_in(caplog, "cannot be read and are ignored")) == n_expected
    assert len(warnings_in(caplog)) == 2 * n_expected


@pytest.mark.parametrize("name", SAMPLERS)
def test_damaged_fits_are_made_again(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """If proposals can be read, but no fit in them, a fit starts from nothing, with a warning."""
    study = original(name)
    caplog.clear()
    attributes = {}
    for trial in study.trials[1:]:  # of the first one no parameters were known beforehand
        stored = stored_of(trial)
        assert stored is not None
        damaged = replace(stored, fits=tuple({"theta": [math.nan]} for _ in stored.fits))
        attributes[trial.number] = {**without(trial.system_attrs), **damaged.to_attributes()}
    made = copy_of(study, name, attributes, {})
    assert_modeled(made, ask(made))
    assert_modeled(made, ask(made))
    assert len(warnings_in(caplog, "a stored fit cannot be read")) == 1
    assert len(warnings_in(caplog)) == 1


@pytest.mark.parametrize("name", SAMPLERS)
def test_damaged_scores_are_no_scores(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A terminator that needs them does not stop, and says so once."""
    study = original(name)
    caplog.clear()
    key = "bbo_plugins:cv_scores:0"
    attributes = {
        trial.number: {**trial.system_attrs, key: {"n": 3, "scores": [0.1, "0.2", 0.3]}}
        for trial in study.trials
    }
    terminator = terminator_of(threshold="cross-validation")
    assert terminator.evaluate(study).threshold > -math.inf
    made = copy_of(study, name, attributes, {})
    assert terminator.evaluate(made).threshold == -math.inf
    assert len(warnings_in(caplog, "no scores")) == 1


# ----------------------------------------------------------------------------------------- enormous


@pytest.mark.parametrize("name", ESTIMATIONS)
def test_proposals_too_long_to_be_read_are_not_written(name: str) -> None:
    """With hundreds of parameters the point is stored without the fit, where others can read it."""
    space: dict[str, BaseDistribution] = {
        f"x{i:03}": FloatDistribution(0.0, 1.0) for i in range(450)
    }
    study = study_of(name)
    for _ in range(4):
        trial = study.ask(space)
        study.tell(trial, sum(trial.params.values()))
    trial = study.ask(space)
    stored = stored_of(study.trials[-1])
    assert stored is not None
    assert stored.params == trial.params
    assert stored.fits == ()
