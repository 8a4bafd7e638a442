"""The regret benchmark: same start for everyone, resuming, and its statistics."""

import argparse
import dataclasses
from pathlib import Path

import numpy as np
import optuna
import pytest

from benchmarks import regret, regret_tables
from benchmarks.functions import PROBLEMS
from benchmarks.hpo_grids import GRIDS
from benchmarks.peers import SAMPLERS
from benchmarks.problem import from_unit
from benchmarks.report import Report, read_records
from benchmarks.stopping_problems import QUICK_TABLE, TABLE_NAMES, table_objective


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Return a report that writes to a temporary folder."""
    return Report(name="regret", directory=tmp_path, command="test")


def options(**values: object) -> argparse.Namespace:
    """Return the options of a tiny run."""
    given: dict[str, object] = {
        "functions": ["branin", "mixed_interaction5"],
        "samplers": ["tpe", "random"],
        "peers": [],
        "seeds": 2,
        "trials": 12,
        "jobs": 1,
        "quick": False,
        "paper": False,
        "tables": False,
    }
    return argparse.Namespace(**(given | values))


def a_run(sampler: str, **values: object) -> regret.Run:
    """Return one small run."""
    problem = PROBLEMS["noisy_branin"]
    run = regret.Run(
        function=problem.name,
        sampler=sampler,
        seed=3,
        n_trials=12,
        source=SAMPLERS[sampler].source(),
        problem=problem.fingerprint,
    )
    return dataclasses.replace(run, **values)  # type: ignore[arg-type]


def test_everyone_starts_alike(tmp_path: Path) -> None:
    """Two samplers have equal curves over the start-up points, then go their own ways."""
    runs = [
        dataclasses.replace(a_run(name, n_trials=25), function="levy6", problem="x")
        for name in ("tpe", "random")
    ]
    tpe, random = (regret.execute(run, tmp_path) for run in runs)
    start = regret.N_STARTUP
    assert tpe["curve"][:start] == random["curve"][:start]
    assert tpe["curve"] != random["curve"]
    assert len(tpe["curve"]) == 25


def test_a_run_repeats_exactly(tmp_path: Path) -> None:
    """The record of a run is a function of its key."""
    first, second = (regret.execute(a_run("tpe"), tmp_path) for _ in range(2))
    assert first["curve"] == second["curve"]


def test_interrupted_benchmark_resumes(
    report: Report, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only runs without a record are executed, and the tables are those of an unbroken run."""
    regret.run(options(), report)
    complete = read_records(report.records_path)
    assert len(complete) == 8
    text = report.records_path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    report.records_path.write_text("".join(lines[:5]) + lines[5][:20], encoding="utf-8")

    executed = []
    original = regret.execute

    def counted(run: regret.Run, directory: Path) -> dict[str, object]:
        executed.append(run)
        return original(run, directory)

    monkeypatch.setattr(regret, "execute", counted)
    resumed = Report(name="regret", directory=report.directory, command="test")
    regret.run(options(), resumed)
    assert len(executed) == 3
    assert "8 runs, 5 of them stored already" in capsys.readouterr().err
    assert resumed.sections[0] == report.sections[0]  # the rank table also holds times


def test_another_source_or_budget_is_another_run(tmp_path: Path) -> None:
    """Changed code, problem or budget must not be answered from the records."""
    run = a_run("random")
    record = regret.execute(run, tmp_path)
    stored = regret.stored_runs([record, {"broken": True}])
    assert list(stored) == [run]
    changes: tuple[dict[str, object], ...] = ({"source": "x"}, {"n_trials": 13}, {"problem": "y"})
    for change in changes:
        assert dataclasses.replace(run, **change) not in stored  # type: ignore[arg-type]


def test_workers_give_the_same_records(report: Report) -> None:
    """Two processes compute what one does."""
    chosen = options(functions=["branin"], samplers=["random"], trials=11)
    regret.run(chosen, report)
    other = Report(name="other", directory=report.directory, command="test")
    regret.run(argparse.Namespace(**(vars(chosen) | {"jobs": 2})), other)

    def curves(path: Path) -> dict[int, list[float]]:
        return {record["seed"]: record["curve"] for record in read_records(path)}

    assert curves(report.records_path) == curves(other.records_path)


def test_statistics() -> None:
    """Ranks, paired counts and the geometric mean agree with a hand calculation."""
    regrets = {
        "branin": {"a": np.array([1.0, 4.0]), "b": np.array([2.0, 2.0])},
        "levy6": {"a": np.array([1.0, 1.0]), "b": np.array([1.0, 8.0])},
    }
    assert regret_tables.ranks_by_median(regrets, ["a", "b"]).tolist() == [[2.0, 1.0], [1.0, 2.0]]
    assert regret_tables.ranks_by_seed(regrets, ["a", "b"]).tolist() == [[1.5, 1.5], [1.25, 1.75]]
    result = regret_tables.paired(regrets, "a", "b")
    assert (result["wins"], result["ties"], result["losses"]) == (2, 1, 1)
    assert result["ratio"] == pytest.approx(8.0**-0.25)


def test_far_worse_problems_are_named(report: Report) -> None:
    """A median more than 3 times GPSampler's gets a note, unless both are negligible."""
    regrets = {
        ("branin", "ours-map"): 4.0,
        ("branin", "gpsampler"): 1.0,
        ("levy6", "ours-map"): 1e-9,
        ("levy6", "gpsampler"): 1e-12,
    }
    records = [
        {
            "function": function,
            "sampler": sampler,
            "seed": 0,
            "regret": value,
            "n_trials": 60,
            "ask_seconds": 1.0,
        }
        for (function, sampler), value in regrets.items()
    ]
    regret_tables.add_tables(report, records, ["ours-map", "gpsampler"])
    text = report.text()
    assert "more than 3x gpsampler's: branin (4.0x)." in text


def test_the_papers_cases_and_tables_run_only_when_asked_for(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without names, a run has all other problems; ``--paper`` and ``--tables`` have just those."""
    everything = options(functions=None)
    names = {problem.name for problem in regret.chosen_problems(everything, report)}
    paper = regret.chosen_problems(options(functions=None, paper=True), report)
    assert {problem.group for problem in paper} == {"paper"}
    assert len(paper) == 4
    assert names == PROBLEMS.keys() - {problem.name for problem in paper}
    quick = regret.chosen_problems(options(functions=None, quick=True), report)
    assert [problem.name for problem in quick] == list(regret.QUICK_PROBLEMS)
    named = regret.chosen_problems(options(functions=["h1"], paper=True, quick=True), report)
    assert [problem.name for problem in named] == ["h1"]
    monkeypatch.setattr(
        regret, "problem_named", lambda name, _: dataclasses.replace(named[0], name=name)
    )
    tables = regret.chosen_problems(options(functions=None, tables=True), report)
    assert [problem.name for problem in tables] == list(TABLE_NAMES)
    quick = regret.chosen_problems(options(functions=None, quick=True, tables=True), report)
    assert [problem.name for problem in quick] == [QUICK_TABLE]
    monkeypatch.setattr(regret, "tables_are_missing", lambda: True)
    assert regret.chosen_problems(options(functions=None, tables=True), report) == []
    mixed = regret.chosen_problems(options(functions=["h1", QUICK_TABLE]), report)
    assert [problem.name for problem in mixed] == ["h1"]
    assert "not installed: scikit-learn" in report.text()


def test_records_of_the_papers_cases_keep_their_points(tmp_path: Path) -> None:
    """The points are in trial order and give the recorded curve; other records have none."""
    problem = PROBLEMS["paper_branin"]
    run = a_run("random", function=problem.name, problem=problem.fingerprint)
    record = regret.execute(run, tmp_path)
    regrets = [problem.regret(from_unit(problem.space, point)) for point in record["points"]]
    assert np.minimum.accumulate(regrets) == pytest.approx(record["curve"], rel=1e-6)
    assert "points" not in regret.execute(a_run("random"), tmp_path)


def test_paper_run_writes_beside_the_other(report: Report) -> None:
    """``--paper`` keeps its records and tables in files of its own, with both figures' tables."""
    regret.run(options(functions=["paper_deceptive2"], paper=True, trials=11), report)
    report.finish()
    assert {path.name for path in report.directory.iterdir()} == {
        f"{regret.PAPER_REPORT}.{suffix}" for suffix in ("jsonl", "md", "machine.json")
    }
    assert len(read_records(report.directory / "regret-paper.jsonl")) == 4
    assert "(Fig. 2)" in report.text()
    assert "(Fig. 4)" in report.text()


def test_a_table_is_tuned_like_a_function(report: Report) -> None:
    """``--tables`` has files of its own; the regret is above the table's smallest score."""
    pytest.importorskip("sklearn")
    regret.run(options(functions=[QUICK_TABLE], tables=True, trials=11), report)
    records = read_records(report.directory / "regret-tables.jsonl")
    assert len(records) == 4
    scores = table_objective(QUICK_TABLE, report.directory).problem
    values = sorted({scores.value(params) for params in GRIDS[QUICK_TABLE].configurations})
    for record in records:
        nearest = min(values, key=lambda value: abs(value - values[0] - record["regret"]))
        assert record["regret"] == pytest.approx(nearest - values[0], abs=1e-12)
    assert "| quick_tree_wine | table | 11 |" in " ".join(report.text().split())


def test_everyone_is_told_the_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An entrant that wants to know the number of trials is built with it."""
    told = []

    def build(seed: int, n_trials: int | None) -> optuna.samplers.BaseSampler:
        told.append((seed, n_trials))
        return optuna.samplers.RandomSampler(seed=seed)

    entrant = dataclasses.replace(SAMPLERS["random"], build=build)
    monkeypatch.setattr(regret, "SAMPLERS", {"random": entrant})
    regret.execute(a_run("random"), tmp_path)
    assert told == [(3, 12)]
