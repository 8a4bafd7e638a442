"""Studies in which some evaluations go wrong by chance."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from bbo_plugins.gp.fit import WarmStart
from bbo_plugins.methods.outliers import outliers_of
from bbo_plugins.optuna import BBOSampler, GOUCBSampler, RegretGapTerminator, UHEBOSampler
from bbo_plugins.optuna.sampling import preprocessing
from bbo_plugins.optuna.sampling.snapshot import StudyReader
from bbo_plugins.optuna.study.storage import RETRY_HISTORY, Proposal
from tests.optuna.snapshots import ask, finished, look, study_of

if TYPE_CHECKING:
    from pathlib import Path

    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial, Trial

    from bbo_plugins.space import SearchSpace
    from bbo_plugins.space.dimension import FloatArray

EVERY = 6  # of so many evaluations one goes wrong


def _error(params: dict[str, float]) -> float:
    return (params["x"] - 0.3) ** 2 + (params["y"] - 0.6) ** 2


def _accident(trial: Trial) -> float:
    return 0.5 + 0.01 * trial.number if trial.number % EVERY == 3 else 0.0


def _objective(trial: Trial) -> float:
    params = {name: trial.suggest_float(name, 0.0, 1.0) for name in "xy"}
    return _error(params) + _accident(trial)


def _parabola(n: int = 14, *, wrong: int | None = 6, **fields: Any) -> list[FrozenTrial]:
    """Return trials along one of which one may have gone wrong."""
    xs = np.linspace(0.5, 9.5, n)
    ys = [-2.0 if i == wrong else -((x - 5.0) ** 2) / 10.0 for i, x in enumerate(xs)]
    return [finished(float(x), float(y), **fields) for x, y in zip(xs, ys, strict=True)]


def test_a_study_with_some_stops() -> None:
    """The terminator leaves them out as well; an estimate without them would be surprised."""
    study = optuna.create_study(sampler=BBOSampler(seed=0))
    study.optimize(_objective, n_trials=60, callbacks=[RegretGapTerminator(patience=2)])
    assert len(study.trials) < 60
    assert _error(study.best_params) < 1e-4


def test_the_optimum_is_found_all_the_same() -> None:
    """With all values the best error is 1.5e-4 at least, and the last ones some thousandths."""
    study = optuna.create_study(sampler=BBOSampler(seed=0))
    study.optimize(_objective, n_trials=30)
    assert min(_error(trial.params) for trial in study.trials) < 1e-5
    last = [_error(trial.params) for trial in study.trials[-10:]]
    assert np.quantile(last, 0.25) < 1e-3


def test_an_outlier_teaches_nothing_but_stays_known() -> None:
    """Its point is an evaluated one without a value, and no value in the study is changed."""
    study = study_of(*_parabola())
    snapshot = look(study)
    assert snapshot.preprocessing.outliers == {6}
    seen = snapshot.observations
    assert np.flatnonzero(~seen.has_value).tolist() == [6]
    assert len(seen.X) == 14
    assert len(seen.valued.y) == 13
    assert len(seen.failed) == 0
    assert study.trials[6].value == -2.0


def test_where_values_are_not_looked_at() -> None:
    """Too few of them, none that is wrong, or stated noise."""
    assert not look(study_of(*_parabola(11))).preprocessing.outliers
    assert not look(study_of(*_parabola(wrong=None))).preprocessing.outliers
    for reader in (StudyReader(lambda _: 0.01), StudyReader(outliers_from=None)):
        assert not look(study_of(*_parabola()), reader=reader).preprocessing.outliers
    assert look(study_of(*_parabola()), reader=StudyReader(outliers_from=14)).preprocessing.outliers
    assert not look(
        study_of(*_parabola()), reader=StudyReader(outliers_from=15)
    ).preprocessing.outliers


def test_an_outlier_still_teaches_the_constraints() -> None:
    """Its value is what went wrong."""
    seen = look(study_of(*_parabola(attributes={"constraints": [0.5]})))
    assert seen.preprocessing.outliers == {6}
    assert seen.observations.constraints is not None
    assert seen.observations.constraints.shape == (14, 1)
    assert len(seen.observations.valued.y) == 13


def test_one_of_several_objectives_is_enough() -> None:
    """The trial is then left out of the models of all."""
    study = optuna.create_study(directions=["maximize", "minimize"])
    for trial in _parabola():
        trial.values = [*trial.values, trial.params["x"]]
        study.add_trial(trial)
    seen = look(study)
    assert seen.preprocessing.outliers == {6}
    assert [len(one.valued.y) for one in seen.objectives] == [13, 13]


def _constrained(trial: Trial) -> float:
    value = _objective(trial)
    trial.set_user_attr("excess", trial.params["x"] - 0.5)
    trial.set_user_attr("error", _error(trial.params))
    return value


def _conditional(trial: Trial) -> float:
    branch = trial.suggest_categorical("branch", ["p", "q"])
    error = (trial.suggest_float(f"x_{branch}", 0.0, 1.0) - 0.3) ** 2 + (branch == "q")
    trial.set_user_attr("error", error)
    return error + _accident(trial)


def _two(trial: Trial) -> tuple[float, float]:
    value = _objective(trial)
    trial.set_user_attr("error", (trial.params["y"] - 0.6) ** 2)  # y has an effect on one only
    return trial.params["x"] ** 2, value


@pytest.mark.parametrize("objective", [_constrained, _conditional, _two])
def test_they_are_left_out_in_every_kind_of_study(objective: Any) -> None:
    """With all values the good ones of the last trials have errors of 1e-2 and more."""
    options: dict[str, Any] = {}
    if objective is _constrained:
        options["constraints_func"] = lambda trial: (trial.user_attrs["excess"],)
    study = optuna.create_study(
        directions=["minimize"] * (2 if objective is _two else 1),
        sampler=BBOSampler(seed=0, **options),
    )
    study.optimize(objective, n_trials=28)
    errors = [trial.user_attrs["error"] for trial in study.trials[-10:]]
    assert np.quantile(errors, 0.3) < 1e-4


def test_twelve_values_in_the_space_of_today_decide() -> None:
    """Trials without a parameter that was added since have no place, and infinite ones no value."""
    study = study_of(*_parabola(30, wrong=None))
    space: dict[str, BaseDistribution] = {
        "x": FloatDistribution(0.0, 10.0),
        "y": FloatDistribution(0.0, 1.0),
    }
    reader = StudyReader()
    for n, trial in enumerate(_parabola(12)):
        trial.params, trial.distributions = {**trial.params, "y": 0.1}, space
        study.add_trial(trial)
        distributions = reader.distributions(study)
        seen = reader.snapshot(study, ask(study), distributions, {})
        assert seen.space.is_conditional == (n < 9)  # until then it may be a parameter of a branch
        if n in (9, 10):
            assert not seen.preprocessing.outliers
    assert seen.preprocessing.outliers == {
        trial.number for trial in study.trials if trial.values == [-2.0]
    }
    infinite = [finished(9.9, -math.inf) for _ in range(3)]
    assert not look(study_of(*_parabola(11), *infinite)).preprocessing.outliers
    assert look(study_of(*_parabola(12), *infinite)).preprocessing.outliers == {6}


def test_what_is_a_failure_is_no_outlier() -> None:
    """A penalty stays a failed point."""
    seen = look(study_of(*_parabola(), finished(9.9, -1e9), finished(9.8, -math.inf)))
    assert seen.preprocessing.outliers == {6}
    assert len(seen.observations.still_failed) == 2
    assert len(seen.observations.valued.y) == 13


def test_an_infinitely_good_value_decides_on_nothing() -> None:
    """Outliers are found as without its trial."""
    study = study_of(finished(9.9, math.inf), *_parabola())
    assert look(study).preprocessing.outliers == {7}


def test_an_outlier_does_not_teach_what_pruned_trials_would_have_come_to() -> None:
    """The predictions are those of the study without it."""
    trials = []
    for i, trial in enumerate(_parabola(18, wrong=None)):
        final = trial.values[0]
        reported = {step: final - 4.0 / step for step in (1, 2, 4)}
        state, value = (TrialState.PRUNED, None) if i % 6 == 5 else (TrialState.COMPLETE, final)
        if i == 8:
            value = -3.0
        reports = {1: reported[1]} if value is None else reported
        trials.append(finished(trial.params["x"], value, state, reports))
    seen = look(study_of(*trials))
    assert seen.preprocessing.outliers == {8}
    without = look(study_of(*trials[:8], *trials[9:])).observations
    np.testing.assert_allclose(seen.observations.valued.y, without.y, rtol=1e-12)


def test_a_range_that_moves_on_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing is decided anew at every trial of such a study."""
    study = study_of(*_parabola(33))
    reader, decided = StudyReader(), []
    found = outliers_of

    def counted(*arguments: Any, **starts: Any) -> Any:
        decided.append(1)
        return found(*arguments, **starts)

    monkeypatch.setattr(preprocessing, "outliers_of", counted)
    seen = [
        look(study, {"x": FloatDistribution(0.0, high)}, reader=reader).preprocessing.outliers
        for high in (10.0, 11.0, 12.0)
    ]
    assert 6 in seen[0] == seen[1] == seen[2]
    assert len(decided) == 1


def test_a_decision_starts_from_the_latest_fit_that_one_of_its_trials_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which is of the usual kernel; whoever looks at the study later starts from it, too.

    But from none that left outliers out. It counts as one of as many values, so that no fit from
    nothing checks it.
    """
    starts: list[list[WarmStart | None]] = []
    n_values: list[int] = []

    def watched(space: SearchSpace, X: FloatArray, Y: FloatArray, **known: Any) -> Any:
        starts.append(known["warm_starts"])
        n_values.append(len(X))
        return outliers_of(space, X, Y, **known)

    monkeypatch.setattr(preprocessing, "outliers_of", watched)
    study = optuna.create_study(sampler=BBOSampler(n_startup_trials=9, seed=0))
    study.optimize(_objective, n_trials=29)
    look(study, dict.fromkeys("xy", FloatDistribution(0.0, 1.0)), reader=StudyReader())
    counts = range(12, 30)  # of trials that decide
    assert len(starts) == len(counts)
    names, are_none = {"Marginal", "MarginalCosinesUsed", "MarginalCosinesNotUsed"}, set()
    for n, given, n_known in zip(counts, starts, n_values, strict=True):
        proposals = [Proposal.from_attributes(one.system_attrs) for one in study.trials[:n]]
        latest = [one for one in proposals if one is not None and one.criterion in names][-1]
        fits = [] if latest.outliers else [{**latest.fits["Marginal"], "n_points": n_known}]
        assert [start and start.to_json() for start in given] == fits
        are_none.add(not fits)
    assert are_none == {False, True}


@pytest.mark.parametrize(
    "name, warps, outliers, repeats, is_taken",
    [
        ("x", {}, (), [], True),
        ("x", {}, (), [3], False),
        ("x", {}, (3,), [], False),
        ("x", {"x": 30.0}, (), [], False),
        ("y", {}, (), [], False),
    ],
)
def test_a_fit_of_another_space_or_of_other_data_starts_no_decision(
    name: str,
    warps: dict[str, float],
    outliers: tuple[int, ...],
    repeats: list[int],
    is_taken: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fit has to be of these parameters and all values, stretched alike, and not inherited."""
    fit = WarmStart(np.zeros(6), np.eye(6), -1.0, 12)
    proposal = Proposal(
        {name: 5.0},
        {"Marginal": fit.to_json()},
        criterion="Marginal",
        warps=warps,
        outliers=outliers,
    )
    inherited = {RETRY_HISTORY: repeats} if repeats else {}
    attributes = {**proposal.to_attributes(), **inherited}
    trials = [*_parabola(12), finished(5.0, 0.0, attributes=attributes)]
    starts: list[list[WarmStart]] = []

    def watched(space: SearchSpace, X: FloatArray, Y: FloatArray, **known: Any) -> Any:
        starts.append(known["warm_starts"])
        return outliers_of(space, X, Y, **known)

    monkeypatch.setattr(preprocessing, "outliers_of", watched)
    look(study_of(*trials))
    (given,) = starts
    taken = {**fit.to_json(), "n_points": len(trials)}
    assert [start.to_json() for start in given] == ([taken] if is_taken else [])


@pytest.mark.parametrize("names", [("Marginal", "Marginal 1"), ("Marginal",)])
def test_decisions_on_several_objectives_start_from_their_own_fits(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or all from the one that many of them have together."""
    fits = {name: WarmStart(np.full(6, -i), np.eye(6), -1.0, 12) for i, name in enumerate(names)}
    stored = {name: fit.to_json() for name, fit in fits.items()}
    attributes = Proposal({"x": 5.0}, stored, criterion="Marginal").to_attributes()
    study = optuna.create_study(directions=["minimize", "minimize"])
    for i in range(13):
        study.add_trial(
            optuna.create_trial(
                values=[float(i), float(-i)],
                params={"x": 0.5 * i},
                distributions={"x": FloatDistribution(0.0, 10.0)},
                system_attrs=attributes if i == 12 else None,
            )
        )
    starts: list[list[WarmStart]] = []

    def watched(space: SearchSpace, X: FloatArray, Y: FloatArray, **known: Any) -> Any:
        starts.append(known["warm_starts"])
        return outliers_of(space, X, Y, **known)

    monkeypatch.setattr(preprocessing, "outliers_of", watched)
    look(study)
    (given,) = starts
    expected = [fits["Marginal"], fits[names[-1]]]
    assert [start.theta.tolist() for start in given] == [one.theta.tolist() for one in expected]


def test_ranges_of_the_time_may_be_odd() -> None:
    """Of trials that others have added; the decision waits then."""
    study = study_of(*_parabola(13))
    odd = finished(5.0, 0.0)
    odd.distributions = {"x": FloatDistribution(-1e308, 1e308)}
    study.add_trial(odd)
    assert look(study, reader=StudyReader()).preprocessing.outliers == set()
    study.add_trials(_parabola(1, wrong=None))
    assert look(study).preprocessing.outliers == {6}


@pytest.mark.parametrize("make", [BBOSampler, UHEBOSampler, GOUCBSampler])
def test_values_of_a_deterministic_objective_are_believed(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """And those of the paper's algorithm; the log names each trial that is left out, once."""

    def left_out(**arguments: Any) -> list[int]:
        caplog.clear()
        study = optuna.create_study(direction="maximize", sampler=make(seed=0, **arguments))
        study.add_trials(_parabola())
        with caplog.at_level(logging.INFO, logger="bbo_plugins"):
            for _ in range(2):
                study.ask({"x": FloatDistribution(0.0, 10.0)})
        lines = [line for line in caplog.messages if "far worse than the others" in line]
        return [int(line.split("trial ")[1].split()[0]) for line in lines]

    assert left_out() == [6]
    assert not left_out(deterministic_objective=True)
    if make is UHEBOSampler:
        assert not left_out(estimation="uhe-paper", n_trials=30)


def test_the_log_is_of_a_study(caplog: pytest.LogCaptureFixture) -> None:
    """One sampler names the trials of each study that it is used for."""
    caplog.set_level(logging.INFO, "bbo_plugins")
    sampler = BBOSampler(seed=0)
    for _ in range(2):
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials(_parabola())
        study.ask({"x": FloatDistribution(0.0, 10.0)})
    told = "trial 6 is far worse than the others suggest, so the models leave it out."
    assert sum(told in line for line in caplog.messages) == 2


def test_a_study_under_the_same_id_decides_anew(tmp_path: Path) -> None:
    """SQLite gives a new study the number of a deleted one; trials have the same numbers, too."""
    url, reader = f"sqlite:///{tmp_path}/study.db", StudyReader()

    def decided_by(trials: list[FrozenTrial]) -> frozenset[int]:
        study = optuna.create_study(study_name="one", storage=url, direction="maximize")
        study.add_trials(trials)
        found = look(study, reader=reader).preprocessing.outliers
        optuna.delete_study(study_name="one", storage=url)
        return found

    assert decided_by(_parabola()) == {6}
    assert decided_by(_parabola(wrong=None)) == frozenset()


def test_a_trial_that_ends_late_changes_no_decision() -> None:
    """The first to end decide: a resumed study and other workers find the same outliers."""
    study = optuna.create_study(direction="maximize")
    late = [study.ask({"x": FloatDistribution(0.0, 10.0)}) for _ in range(2)]
    study.add_trials(_parabola(15))
    reader = StudyReader()
    before = look(study, reader=reader).preprocessing.outliers
    assert before == {8}
    study.tell(late[0], -1e3)
    study.tell(late[1], state=TrialState.FAIL)
    assert (
        look(study, reader=reader).preprocessing.outliers
        == look(study).preprocessing.outliers
        == before
    )


def test_a_resumed_study_is_the_same(tmp_path: Path) -> None:
    """What is left out follows from the stored trials."""

    def study(name: str) -> Study:
        storage = JournalStorage(JournalFileBackend(str(tmp_path / name)))
        sampler = BBOSampler(seed=0)
        return optuna.create_study(
            study_name="s", storage=storage, sampler=sampler, load_if_exists=True
        )

    study("whole").optimize(_objective, n_trials=20)
    for n in (13, 4, 3):
        study("parts").optimize(_objective, n_trials=n)
    whole, parts = ([trial.params for trial in study(name).trials] for name in ("whole", "parts"))
    assert whole == parts
