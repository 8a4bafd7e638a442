"""The scripts in ``examples/``, run the way a user runs them; that for Ray: ``tests/ray``.

Those that train models for seconds are slow; ``.ci/run`` runs them all the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import optuna
import pytest

from bbo_plugins.optuna import RegretGapTerminator, continued_from
from bbo_plugins.optuna.study.continuations import steps_of
from benchmarks.bilevel.problems import branin_goldstein_price
from tests.example_scripts import load_example, run_example

if TYPE_CHECKING:
    from pathlib import Path


def _run(name: str, folder: Path, *arguments: str) -> tuple[str, str]:
    done = run_example(name, folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def _study(folder: Path, script: str, name: str) -> optuna.Study:
    storage = f"sqlite:///{folder / 'result' / script}.db"
    return optuna.load_study(study_name=name, storage=storage)


def _is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000


@pytest.mark.parametrize(
    "name, option, number, least",
    [
        ("quickstart", "--n-trials", "many", 1),
        ("bilevel", "--n-trials", "1", 2),
        ("many_hyperparameters", "--n-trials", "0", 1),
        ("model_choice", "--n-trials", "0", 1),
        ("small_and_accurate", "--n-trials", "0", 1),
        ("horizon_optuna", "--total-steps", "0", 1),
    ],
)
def test_impossible_budget_is_refused(
    name: str,
    option: str,
    number: str,
    least: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A budget without trials is a usage error, and nothing is written."""
    example = load_example(name, monkeypatch)
    result = tmp_path / "result"
    monkeypatch.setattr("sys.argv", [name, "--out", str(result), option, number])
    with pytest.raises(SystemExit) as refused:
        example.main()
    assert refused.value.code == 2
    error = capsys.readouterr().err
    assert option in error
    assert number == "many" or f"must be at least {least}, but got {number}" in error
    assert not result.exists()


@pytest.mark.slow
def test_quickstart_resumes(tmp_path: Path) -> None:
    """Run it, raise the budget: the studies hold the trials that were asked for, no more."""
    first, progress = _run("quickstart", tmp_path, "--n-trials", "3")
    table = re.findall(r"^(\S.*?)  +(0\.\d{4})  (0\.\d{4})$", first, flags=re.MULTILINE)
    assert [name for name, _, _ in table] == [
        "scikit-learn's defaults",
        "random search, 3 trials",
        "BBOSampler, 3 trials",
    ]
    assert "3/3" in progress, "Optuna's progress bar is shown"
    assert _is_picture(tmp_path / "result" / "optimization_history.png")
    second, _ = _run("quickstart", tmp_path, "--n-trials", "4")
    assert "BBOSampler: 3 trials stored, 1 to run" in second
    storage = f"sqlite:///{tmp_path / 'result' / 'quickstart.db'}"
    summaries = optuna.get_all_study_summaries(storage)
    assert [summary.n_trials for summary in summaries] == [4, 4]


@pytest.mark.slow
def test_stopping_resumes(tmp_path: Path) -> None:
    """Too small a budget for a stop: the study says so, is stored with its records, and resumed."""
    first, _ = _run("stopping", tmp_path, "--n-trials", "3", "--seed", "4")
    assert "did not stop by itself within 3 trials" in first
    assert _is_picture(tmp_path / "result" / "regret_gap.png")
    second, _ = _run("stopping", tmp_path, "--n-trials", "4", "--seed", "4")
    assert "3 trials stored, 1 to run" in second
    study = _study(tmp_path, "stopping", "digits, seed 4")
    assert len(RegretGapTerminator().history(study)) == len(study.trials) == 4


@pytest.mark.slow
def test_horizon_goes_on_with_the_first_run(tmp_path: Path) -> None:
    """Stopped after some trials, the study spends the rest of its steps, and then is finished."""
    arguments = ("--total-steps", "80", "--seed", "4")
    _, messages = _run("horizon_optuna", tmp_path, "--n-trials", "7", *arguments)
    assert "is to be continued to" in messages
    assert _is_picture(tmp_path / "result" / "horizon.png")
    second, _ = _run("horizon_optuna", tmp_path, *arguments)
    assert "7 trials stored" in second
    study = _study(tmp_path, "horizon", "digits, seed 4")
    trials = study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    assert sum(len(steps_of(trial) or ()) for trial in trials) == 80
    n_continued = sum(continued_from(trial) is not None for trial in trials)
    assert n_continued > 0
    counts = f"{len(trials) - n_continued} configurations, {n_continued} continuations"
    assert counts in second


@pytest.mark.slow
def test_registration_reports_both_estimates(tmp_path: Path) -> None:
    """A small budget gives one line for either sampler and two pictures."""
    out, _ = _run("registration", tmp_path, "--n-trials", "14")
    truth = re.search(r"correlation is (0\.\d+)", out)
    assert truth is not None
    found = dict(re.findall(r"(\w+): right in [01] of 1, median best value (0\.\d+)", out))
    assert set(found) == {"uhe", "map"}
    assert all(0.0 < float(value) <= float(truth[1]) for value in found.values())
    assert _is_picture(tmp_path / "result" / "registration.png")
    assert _is_picture(tmp_path / "result" / "lengthscales.png")


@pytest.mark.slow
def test_many_hyperparameters_compares_samplers(tmp_path: Path) -> None:
    """A row for each, none worse than guessing, and the means are those of the columns."""
    out, _ = _run("many_hyperparameters", tmp_path, "--n-trials", "3", "--n-seeds", "2")
    assert _is_picture(tmp_path / "result" / "many_hyperparameters.png")
    rows = re.findall(r"^(\w+Sampler) +(\S+) +(\S+) +(\S+) +(\S+)$", out, re.MULTILINE)
    assert [row[0] for row in rows] == ["GOUCBSampler", "TPESampler", "RandomSampler"]
    for row in rows:
        first, second, mean, fresh = map(float, row[1:])
        assert mean == pytest.approx((first + second) / 2, abs=1.01e-4)
        assert 0.0 < max(first, second, fresh) < np.log(2.0)


@pytest.mark.slow
def test_bilevel_finds_the_solution(tmp_path: Path) -> None:
    """It prints the solution it found beside the true one and writes both pictures."""
    out, _ = _run("bilevel", tmp_path, "--n-trials", "45", "--html")
    found, true = re.findall(r"^(?:BILBO|true) +(\S+) +(\S+) +(\S+) +(\S+)$", out, re.MULTILINE)
    assert float(found[1]) == pytest.approx(float(found[2]), abs=0.05)
    assert float(found[3]) == pytest.approx(float(true[3]), abs=2.0)
    assert _is_picture(tmp_path / "result" / "bilevel.png")
    assert (tmp_path / "result" / "bilevel.html").is_file()


def test_bilevel_has_the_papers_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to shift and scale, those of the benchmark; so is the solution."""
    module = load_example("bilevel", monkeypatch)
    task = branin_goldstein_price()
    points = np.random.default_rng(0).random((20, 2))
    for name, function in (("upper", module.branin), ("lower", module.goldstein_price)):
        ours = [function(x, z) for x, z in points.tolist()]
        theirs = [task.value(name, {"x0": x, "z0": z}) for x, z in points.tolist()]
        assert np.corrcoef(ours, theirs)[0, 1] == pytest.approx(1.0, abs=1e-12)
    assert task.solution is not None
    expected = (task.solution["x0"], task.solution["z0"])
    assert module.true_solution() == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_robust_digits_compares_and_checks_the_whole_grid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With little data and a coarse grid: shifts, the worst of them, the table and its ratio."""
    robust = load_example("robust_digits", monkeypatch)
    monkeypatch.setattr(robust, "N_TRAIN", 250)
    monkeypatch.setattr(robust, "GRID", (5, 3))
    images = np.random.default_rng(0).random((3, 8, 8))
    np.testing.assert_allclose(robust.shifted(images, 0.0, 0.0), images, atol=1e-12)
    assert np.abs(robust.shifted(images, 0.01, 0.0) - images).max() < 0.01
    digits = robust.Digits.split(0)
    model = robust.train(digits, {"C": 10.0, "augmentation": 0.0})
    largest, tilt, blur = robust.worst(model, digits, "validation")
    assert largest == robust.loss(model, digits, "validation", tilt, blur)
    for tilt, blur in ((40.0, 0.0), (-40.0, 0.8), (0.0, 0.0), (20.0, 0.4)):
        assert robust.loss(model, digits, "validation", tilt, blur) <= largest
    monkeypatch.setattr("sys.argv", ["robust_digits", "--n-trials", "8", "--out", str(tmp_path)])
    robust.main()
    out = capsys.readouterr().out
    line = r"^(naive tuning|against the worst) +\S+ +\S+ +\S+ +(\S+)"
    rows = dict(re.findall(line, out, re.MULTILINE))
    (ratio,) = re.findall(r"worst case is (\S+) times", out)
    expected = float(rows["naive tuning"]) / float(rows["against the worst"])
    assert float(ratio) == pytest.approx(expected, abs=0.06 + 0.01 * expected)
    assert _is_picture(tmp_path / "bilevel.png")


@pytest.mark.slow
def test_model_choice_tries_each_kind(tmp_path: Path) -> None:
    """Every kind of model has trials, the best one is what is printed, and there is a picture."""
    out, progress = _run("model_choice", tmp_path, "--n-trials", "12")
    rows = re.findall(r"^(\w[\w ]+?) {2,}(\d+) +(0\.\d{4}) +(0\.\d{4})$", out, re.MULTILINE)
    assert [row[0] for row in rows] == ["support vectors", "neighbors", "forest", "linear"]
    assert sum(int(row[1]) for row in rows) == 12
    best = min(rows, key=lambda row: float(row[2]))
    assert f"  kind = {best[0]}\n" in out
    assert "12/12" in progress
    assert _is_picture(tmp_path / "result" / "model_choice.png")


@pytest.mark.slow
def test_small_and_accurate_draws_the_front(tmp_path: Path) -> None:
    """The front it prints is one: the larger the forest, the fewer errors it makes."""
    out, _ = _run("small_and_accurate", tmp_path, "--n-trials", "12")
    rows = re.findall(r"^  (0\.\d{4}) +(\d+) +\d+ +\d+$", out, flags=re.MULTILINE)
    errors, sizes = ([float(row[i]) for row in rows] for i in (0, 1))
    assert len(rows) >= 2
    assert errors == sorted(errors, reverse=True)
    assert sizes == sorted(sizes)
    assert "random search it beats or meets" in out
    assert _is_picture(tmp_path / "result" / "small_and_accurate.png")
