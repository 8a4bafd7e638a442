"""Attributes of another form or version, as another program may leave: ignored, and said once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState

from bbo_plugins.optuna.stopping.cross_validation import report_cross_validation_scores
from bbo_plugins.optuna.stopping.progress import StoredRecords
from tests.reliability.cases import QUICK
from tests.reliability.front_door import (
    BILEVEL,
    DEFAULT,
    ESTIMATIONS,
    ask,
    assert_modeled,
    sampler_of,
    stored_of,
    study_of,
    terminator_of,
    value_of,
    warnings_in,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.distributions import BaseDistribution
    from optuna.study import Study

    Attributes = dict[str, Any]


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
            study.tell(trial, value_of(trial.params))
    terminator_of().evaluate(study)
    return study


def copy_of(
    study: Study, name: str, attributes: Mapping[int, Attributes], own: Mapping[str, Any]
) -> Study:
    """Return a study with the same trials and a sampler of this name, but other attributes.

    Args:
        study: The study.
        name: Name of the sampler.
        attributes: System attributes by trial, where they are other ones.
        own: System attributes of the study.
    """
    made = optuna.create_study(sampler=sampler_of(name))
    for trial in study.trials:
        copied = FrozenTrial(
            number=-1,
            trial_id=-1,
            state=trial.state,
            value=None,
            values=trial.values if trial.state is TrialState.COMPLETE else None,
            datetime_start=trial.datetime_start,
            datetime_complete=trial.datetime_complete,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs=trial.user_attrs,
            system_attrs=dict(attributes.get(trial.number, trial.system_attrs)),
            intermediate_values=trial.intermediate_values,
        )
        made.add_trial(copied)
    for key, value in own.items():
        made._storage.set_study_system_attr(made._study_id, key, value)
    return made


GARBAGE: dict[str, Any] = {
    "list": [[], {}],
    "text": "not JSON",
    "other version": '{"v":2,"params":{"x":0.5},"fits":{}}',
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

    The sampler says so in one warning. Of running and failed trials it does not: what is stored
    with them may be half written.
    """
    study, found = original(name), []
    caplog.clear()
    for change in (lambda attributes: replaced(attributes, GARBAGE[garbage]), without):
        changed = {trial.number: change(trial.system_attrs) for trial in study.trials}
        own = change(study._storage.get_study_system_attrs(study._study_id))
        made = copy_of(study, name, changed, own)
        trial = ask(made)
        assert_modeled(made, trial)
        terminator = terminator_of()
        terminator.evaluate(made)
        # Without attributes a study of BILBO's functions cannot be recognized, and has a signal.
        records = [] if name == BILEVEL else terminator.history(made)
        found.append((trial.params, records))
        if change is not without:
            assert len(StoredRecords.read_all(made)) == 1  # readable again
            assert terminator_of(threshold="cross-validation").evaluate(made).threshold < 0.0
    assert found[0] == found[1]
    n = sum(trial.state is TrialState.COMPLETE for trial in study.trials[1:])
    assert len(warnings_in(caplog, f"with {n} trials cannot be read and is ignored")) == 1
    lacks_scores = name != BILEVEL  # that study cannot be stopped in any case
    assert len(warnings_in(caplog, "no scores from report_cross_validation_scores")) == lacks_scores
    assert len(warnings_in(caplog)) == 1 + lacks_scores


@pytest.mark.parametrize(
    "model, n_warnings", [("Marginal", 1), ("Failures", 1), ("of another sampler", 0)]
)
def test_damaged_fits_are_made_again(
    model: str, n_warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    """If proposals can be read, but no fit of a model, it starts from nothing, with one warning.

    Fits that the sampler does not use are nothing to it.
    """
    study, attributes = original(DEFAULT), {}
    for trial in study.trials[1:]:  # of the first one no parameters were known beforehand
        stored = stored_of(trial)
        assert stored is not None
        no_fit: dict[str, list[float]] = {"log_hyperparameters": []}
        damaged = replace(stored, fits={**stored.fits, model: no_fit})
        attributes[trial.number] = {**without(trial.system_attrs), **damaged.to_attributes()}
    made = copy_of(study, DEFAULT, attributes, {})
    caplog.clear()
    for _ in range(2):
        assert_modeled(made, ask(made))
    assert len(warnings_in(caplog, "a stored fit cannot be read")) == n_warnings
    assert len(warnings_in(caplog)) == n_warnings


@pytest.mark.parametrize("name", [DEFAULT, *ESTIMATIONS])
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
    assert stored.fits == {}
