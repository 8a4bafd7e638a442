"""A study with several objectives is refused, and leaves no trial that seems to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import optuna
import pytest
from optuna.samplers import PartialFixedSampler
from optuna.trial import TrialState

from bbo_plugins.optuna import BILBOSampler, GOUCBSampler, UHEBOSampler
from tests.optuna.studies import BOX

pytestmark = pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial

SAMPLERS: dict[str, Callable[[], BaseSampler]] = {
    "uhe": lambda: UHEBOSampler(seed=0),
    "go-ucb": lambda: GOUCBSampler(seed=0),
    "bilbo": lambda: BILBOSampler(["x"], ["y"], seed=0),
}


def _objective(trial: Trial) -> tuple[float, ...]:
    return (trial.suggest_float("x", -1.0, 1.0),) * 3


def _ask_and_suggest(study: Study) -> None:
    study.ask().suggest_float("x", -1.0, 1.0)


ENTRIES: dict[str, Callable[[Study], object]] = {
    "ask": _ask_and_suggest,
    "ask-fixed": lambda study: study.ask(BOX),
    "optimize-threads": lambda study: study.optimize(_objective, n_trials=9, n_jobs=2),
}


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", SAMPLERS)
def test_no_trial_of_a_refused_study_is_left_running(name: str, entry: str, held: bool) -> None:
    """However a trial is asked for, new or enqueued, also through Optuna's PartialFixedSampler."""
    sampler = SAMPLERS[name]()
    study = optuna.create_study(
        directions=["minimize"] * 3,
        sampler=PartialFixedSampler({"x": 0.0}, sampler) if held else sampler,
    )
    study.enqueue_trial({"x": 0.5})
    with pytest.raises(ValueError, match=r"study must have (one objective|the direction)"):
        ENTRIES[entry](study)
    assert {trial.state for trial in study.trials} == {TrialState.FAIL}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_refusal_of_a_trial_that_has_ended_says_why(name: str) -> None:
    """As when another worker took it for dead meanwhile."""
    study = optuna.create_study(directions=["minimize"] * 3)
    study.tell(study.ask(), state=TrialState.FAIL)
    with pytest.raises(ValueError, match=r"study must have (one objective|the direction)"):
        SAMPLERS[name]().before_trial(study, study.trials[0])
