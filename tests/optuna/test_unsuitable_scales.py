"""Studies with parameters on a scale that does not suit them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import optuna
import pytest
from optuna.samplers import PartialFixedSampler, RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from bbo_plugins.optuna import BBOSampler, UHEBOSampler
from bbo_plugins.optuna.sampling.snapshot import StudyReader
from bbo_plugins.visualization._data.objective import posterior_of
from tests.optuna.snapshots import ask
from tests.optuna.studies import stop_below

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import Trial

    from bbo_plugins.optuna.sampling.snapshot import Snapshot

RATE = optuna.distributions.FloatDistribution(1e-6, 1.0)


def _rates(trial: Trial) -> float:
    """Both matter by their order of magnitude, which only a log scale would tell."""
    rate, decay = trial.suggest_float("rate", 1e-6, 1.0), trial.suggest_float("decay", 1e-6, 1.0)
    return abs(math.log10(rate) + 3.0) + abs(math.log10(decay) + 2.0)


def _begun(sampler: BaseSampler, n: int = 40) -> Study:
    """Return a study of so many random trials that goes on with a sampler."""
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    study.optimize(_rates, n_trials=n)
    study.sampler = sampler
    return study


def _snapshot(study: Study, reader: StudyReader | None = None) -> Snapshot:
    space: dict[str, BaseDistribution] = {"decay": RATE, "rate": RATE}
    return (reader or StudyReader()).snapshot(study, ask(study), space, {})


def test_a_rate_that_is_not_declared_as_logarithmic_is_found() -> None:
    """Without warps a study of fifty trials ended at 1.2."""
    study = optuna.create_study(sampler=BBOSampler(seed=0))
    study.optimize(_rates, n_trials=40, callbacks=[stop_below(0.4)])
    assert study.best_value < 0.4
    warps = [one.warp for one in _snapshot(study).space.dimensions]
    assert max(warps) > 0.0
    assert min(warps) >= 0.0


def test_the_paper_s_sampler_and_a_start_up_have_no_warps() -> None:
    """The former is as published; the latter has the points of its design."""
    for sampler in (
        UHEBOSampler(estimation="uhe-paper", seed=0),
        BBOSampler(n_startup_trials=40, seed=0),
    ):
        study = _begun(sampler, 30)
        snapshot = _snapshot(study, sampler.reader_of(study))
        assert [one.warp for one in snapshot.space.dimensions] == [0.0, 0.0]
        assert any(one.warp for one in _snapshot(study).space.dimensions)


def test_a_resumed_study_is_the_same(tmp_path: Path) -> None:
    """What the trials say is read from them again; a new process decides as the old one did."""

    def storage() -> JournalStorage:
        return JournalStorage(JournalFileBackend(str(tmp_path / "study.log")))

    once = _begun(BBOSampler(seed=0), 26)
    optuna.create_study(storage=storage(), study_name="s").add_trials(once.trials)
    once.optimize(_rates, n_trials=4)
    for _ in range(4):
        again = optuna.load_study(storage=storage(), study_name="s", sampler=BBOSampler(seed=0))
        again.optimize(_rates, n_trials=1)
    assert [trial.params for trial in again.trials] == [trial.params for trial in once.trials]
    assert _snapshot(again).space.warps


def test_running_and_failed_trials_are_where_the_others_are() -> None:
    """Their points are stretched as well, and those of a look at what has appeared since."""
    study = _begun(BBOSampler(seed=1))
    reader = StudyReader()
    before = _snapshot(study, reader)
    assert min(one.warp for one in before.space.dimensions) > 0.0
    beside = study.ask({"rate": RATE, "decay": RATE})
    failed = study.ask({"rate": RATE, "decay": RATE})
    study.tell(failed, state=TrialState.FAIL)
    trial = ask(study)
    _, appeared = reader.appeared(study, trial, before)
    expected = before.space.encode([beside.params])
    there = before.space.encode([failed.params])
    np.testing.assert_allclose(appeared, [*expected, *there], atol=1e-9)
    after = _snapshot(study, reader)
    np.testing.assert_allclose(after.observations.pending[:1], expected, atol=1e-9)
    is_kept = [-one.values[0] >= after.preprocessing.cutoff for one in study.trials[:40]]
    known = after.space.encode([one.params for one in study.trials[:40]])
    np.testing.assert_allclose(after.observations.X, known[is_kept], atol=1e-9)
    failed_there = np.concatenate([there, known[np.logical_not(is_kept)]])
    np.testing.assert_allclose(
        np.sort(after.observations.still_failed, axis=0), np.sort(failed_there, axis=0), atol=1e-9
    )


def test_a_trial_that_ends_late_changes_no_decision() -> None:
    """The first to end decide, not those with the smallest numbers."""
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    late = [study.ask({"rate": RATE, "decay": RATE}) for _ in range(3)]
    study.optimize(_rates, n_trials=30)
    before = _snapshot(study).space.warps
    for trial in late:
        study.tell(trial, 1e3)
    assert before
    assert _snapshot(study).space.warps == before


@pytest.mark.filterwarnings("ignore:PartialFixedSampler")
def test_a_held_parameter_keeps_its_value() -> None:
    """Also if its scale was stretched by the trials before."""
    study = _begun(PartialFixedSampler({"rate": 0.02}, BBOSampler(seed=0)))
    study.optimize(_rates, n_trials=8)
    later = study.trials[40:]
    assert all(trial.params["rate"] == 0.02 for trial in later)
    assert min(abs(math.log10(trial.params["decay"]) + 2.0) for trial in later) < 0.2
    study.sampler = BBOSampler(seed=0)
    study.enqueue_trial({"decay": 0.5})
    study.optimize(_rates, n_trials=1)
    assert study.trials[-1].params["decay"] == 0.5
    assert _snapshot(study).space.warps.keys() == {"rate", "decay"}


def test_plots_see_the_scale_that_the_sampler_sees() -> None:
    """The model that they draw predicts what was observed, in the coordinates of its points."""
    study = _begun(UHEBOSampler(estimation="map", seed=0))
    study.optimize(_rates, n_trials=4)
    drawn = posterior_of(study)
    assert drawn is not None
    np.testing.assert_allclose(drawn.X, drawn.space.encode(list(drawn.params)), atol=1e-9)
    assert max(one.warp for one in drawn.space.dimensions) > 0.0
    median = drawn.quantiles(drawn.X)[1]
    assert np.abs(median - drawn.values).max() < 0.2
