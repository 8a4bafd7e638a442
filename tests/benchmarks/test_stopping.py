"""The stopping benchmark: what is run and what is not, outcomes, tables, and the cost."""

import argparse
import dataclasses
import functools
import operator
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest

from bbo_plugins.optuna import RegretGapTerminator
from benchmarks import stopping, stopping_cost, stopping_tables
from benchmarks.functions import PROBLEMS
from benchmarks.histories import history
from benchmarks.peers import SAMPLERS
from benchmarks.report import Report, read_records
from benchmarks.stopping_histories import History, execute, histories, planned_runs
from benchmarks.stopping_problems import objective_of
from benchmarks.stopping_rules import DEFAULT, DEFAULT_ENTRANTS, ENTRANTS
from benchmarks.stopping_series import PEER, peer_is_missing
from benchmarks.stopping_tables import Outcome, outcome_of


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Return a report that writes to a temporary folder."""
    return Report(name="stopping", directory=tmp_path, command="test")


def options(**values: object) -> argparse.Namespace:
    """Return the options of a tiny run."""
    given: dict[str, object] = {
        "objectives": ["booth", "noisy_branin"],
        "samplers": ["tpe", "random"],
        "rules": ["gap-relative", "pi", "stagnation", "fixed"],
        "peers": [],
        "seeds": 1,
        "trials": 22,
        "jobs": 1,
        "quick": False,
        "no_cost": True,
    }
    return argparse.Namespace(**(given | values))


def refuse(*_: object, **__: object) -> None:
    """Stand in for what must not be called."""
    pytest.fail("this was computed already")


def test_nothing_is_computed_twice(
    report: Report, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted run is resumed, another rule needs no new study, and the tables agree."""
    stopping.run(options(), report)
    kinds = Counter(record["kind"] for record in read_records(report.records_path))
    assert kinds == {"history": 4, "series": 8}
    lines = report.records_path.read_text(encoding="utf-8").splitlines(keepends=True)
    report.records_path.write_text("".join(lines[:6]) + lines[6][:50], encoding="utf-8")
    again = Report(name="stopping", directory=report.directory, command="test")
    capsys.readouterr()
    stopping.run(options(), again)
    said = capsys.readouterr().err
    assert "4 studies, 4 of them stored already" in said
    assert "8 replays, 2 of them stored already" in said
    assert again.sections == report.sections

    monkeypatch.setattr(stopping, "execute", refuse)
    stopping.run(options(rules=["ei-median", "bound-median"]), report)
    said = capsys.readouterr().err
    assert "8 replays, 4 of them stored already" in said


def through_pickle(what: Any) -> Any:
    """Return a copy as another process gets it."""
    return pickle.loads(pickle.dumps(what))  # noqa: S301 - our own


def test_work_is_shared_among_processes(tmp_path: Path) -> None:
    """Two processes return what one does, and what they are to be sent can be sent."""
    items = [([("n", n)],) for n in range(5)]
    alone, together = (list(stopping._mapped(dict, items, jobs)) for jobs in (1, 2))
    assert alone == sorted(together, key=operator.itemgetter("n")) == [{"n": n} for n in range(5)]
    run = planned_runs([objective_of("booth", tmp_path)], [SAMPLERS["random"]], 1, 12)[0]
    work, sent = through_pickle((functools.partial(execute, directory=tmp_path), run))
    record = work(sent)
    assert record == execute(run, tmp_path)
    finished = histories([record])[run]
    assert through_pickle(finished) == finished


def test_what_is_missing_is_skipped_by_name(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without scikit-learn no table, without torch no peer and no cost; the rest is measured."""
    monkeypatch.setattr(stopping, "tables_are_missing", lambda: True)
    monkeypatch.setattr(stopping, "peer_is_missing", lambda: ("torch",))
    names = ["booth", "svc_digits"]
    chosen = options(objectives=names, samplers=["random"], peers=[PEER], trials=21, no_cost=False)
    stopping.run(chosen, report)
    text = report.text()
    assert "SKIPPED svc_digits: not installed: sklearn." in text
    assert f"SKIPPED {PEER}: not installed: torch." in text
    assert f"SKIPPED the cost of a trial, against {PEER}: not installed: torch." in text
    assert "held-out half (1)" not in text.lower()
    assert "In-sample half (1): booth." in text


def test_who_is_asked_of_what(tmp_path: Path) -> None:
    """Determinism is not claimed of noise, folds are needed for Eq. (5), the peer sees few runs."""
    booth, noisy = (objective_of(name, tmp_path) for name in ("booth", "noisy_branin"))
    folds = dataclasses.replace(booth, fold_scores=lambda _: [1.0, 2.0])
    samplers = [SAMPLERS["ours-map"], SAMPLERS["tpe"]]
    runs = planned_runs([booth], samplers, stopping.PEER_SEEDS + 1, 20)
    first = {run.sampler: run for run in runs if run.seed == 0}

    def asked(name: str, objective: Any, run: Any = first["tpe"]) -> bool:
        return stopping._is_asked_of(ENTRANTS[name], run, objective)

    assert asked("gap-relative-deterministic", booth)
    assert not asked("gap-relative-deterministic", noisy)
    assert asked("bound-cv", folds)
    assert not asked("bound-cv", booth)
    assert all(asked(name, folds) for name in DEFAULT_ENTRANTS)
    assert PEER not in DEFAULT_ENTRANTS
    with_peer = [run for run in runs if asked(PEER, booth, run)]
    assert [(run.sampler, run.seed) for run in with_peer] == [
        ("ours-map", seed) for seed in range(stopping.PEER_SEEDS)
    ]


def test_scores_are_the_best_trials(tmp_path: Path) -> None:
    """After each trial they are those of the smallest value so far, the first of equals."""
    booth = objective_of("booth", tmp_path)
    run = planned_runs([booth], [SAMPLERS["random"]], 1, 5)[0]
    params = [{"x0": float(number)} for number in range(5)]
    values = [3.0, 1.0, 2.0, 1.0, 0.5]
    finished = History(run=run, params=params, values=values, attributes=[{}] * 5)
    folds = dataclasses.replace(booth, fold_scores=lambda point: [point["x0"], 7.0])
    found = stopping._best_scores(finished, folds)
    assert found == [[0.0, 7.0], [1.0, 7.0], [1.0, 7.0], [1.0, 7.0], [4.0, 7.0]]
    assert stopping._best_scores(finished, booth) == [[]] * 5


def test_outcome_by_hand(tmp_path: Path) -> None:
    """Loss is in units of the median regret, the normalized regret in those of the largest one."""
    booth = objective_of("booth", tmp_path)
    scale = booth.problem.scale
    regrets = [3.0 * scale, 0.5 * scale, 0.5 * scale, 0.1 * scale]

    def found(stop: int | None) -> Outcome:
        return outcome_of(booth, regrets, stop, sampler="tpe", entrant=DEFAULT, seed=0)

    early = found(2)
    assert early.loss == pytest.approx(0.4)
    assert early.is_premature
    assert early.stopped
    assert early.saved == 0.5
    assert early.regret == pytest.approx(0.5 * scale / booth.largest_regret)
    assert early.full_regret == pytest.approx(0.1 * scale / booth.largest_regret)
    for stop in (4, None):
        late = found(stop)
        assert (late.loss, late.saved, late.stopped, late.is_premature) == (0.0, 0.0, False, False)


def made_up(function: str, half: Any, stop: int, loss: float, **values: Any) -> Outcome:
    """Return an outcome of the default rule with our sampler."""
    given: dict[str, Any] = {
        "function": function,
        "family": "smooth",
        "half": half,
        "sampler": "ours-uhe",
        "entrant": DEFAULT,
        "seed": 0,
        "budget": 100,
        "stop": stop,
        "stopped": stop < 100,
        "regret": 0.25,
        "full_regret": 0.125,
        "loss": loss,
    }
    return Outcome(**(given | values))


def test_tables_and_goals(report: Report) -> None:
    """Shares are over runs, half by half; a goal is met by loss and saving together."""
    outcomes = [
        made_up("a", "in-sample", 40, 0.0099),
        made_up("b", "in-sample", 60, -0.3),
        made_up("c", "held-out", 20, 0.0101),
        made_up("c", "held-out", 100, 0.0, seed=1),
        made_up("n", "in-sample", 70, 0.0, family="noisy"),
        made_up("a", "in-sample", 50, 0.5, sampler="random", entrant="pi"),
    ]
    stopping_tables.add_tables(report, outcomes)
    text = report.text().replace(" ", "")
    row = "|gap-relative|ours-uhe|4|75%|50[35,70]|0.2500|0.1250|"
    row += "0.0%(0)|50.0%|50.0%(1)|40.0%|25.0%(1)|45.0%|"
    assert row in text
    assert "|pi|random|1|100%|50[50,50]|0.2500|0.1250|100.0%(1)|50.0%|-|-|" in text
    assert "|noise-free|ours-uhe|in-sample|<=4%lost,>=35%saved|0.0%(0)|50.0%|met|" in text
    assert "|noise-free|ours-uhe|held-out|<=4%lost,>=35%saved|50.0%(1)|40.0%|MISSED|" in text
    assert "|noisy|ours-uhe|all|<=10%lost,>=25%saved|0.0%(0)|30.0%|met|" in text
    assert "|c|smooth|held-out|2|60[20,100]|0.2500|0.1250|50.0%(1)|0.010|40.0%|" in text
    assert "|smooth|ours-uhe|4|" in text
    assert "In-sample half (3): a, b, n." in report.text()


def test_nothing_measured_is_said(report: Report) -> None:
    """Without any outcome there is a note, not a crash."""
    stopping_tables.add_tables(report, [])
    assert "Nothing was measured." in report.text()


def test_a_suggested_trial_is_taken_over() -> None:
    """Given what our sampler leaves with a trial, the terminator fits nothing."""
    trials = history(PROBLEMS[stopping_cost.PROBLEM], 30, 0)
    sampler = SAMPLERS[stopping_cost.SAMPLER].build(0, None)
    study = optuna.create_study(sampler=sampler)
    study.add_trials(trials[:29])
    terminator = RegretGapTerminator()
    terminator.evaluate(study)
    other = optuna.create_study()
    other.add_trials(study.trials)
    study.add_trial(stopping_cost._suggested(study, trials[29]))
    other.add_trial(trials[29])
    shared, own = terminator.evaluate(study), RegretGapTerminator().evaluate(other)
    assert shared.n_trials == own.n_trials == 30
    assert [trial.value for trial in study.trials if trial.value is not None] == [
        trial.value for trial in trials
    ]
    assert shared.value != own.value


def test_cost_ratios_by_hand() -> None:
    """Medians over all calls, the spread over pairs of the same step."""
    timings = [
        stopping_cost.Timing(entrant=entrant, seed=0, step=step, wall=wall, cpu=0.5 * wall)
        for step, peer, own in ((0, 0.2, 0.01), (1, 0.1, 0.02), (2, 0.3, 0.01))
        for entrant, wall in ((PEER, peer), (stopping_cost.OWN_FIT, own))
    ]
    row = stopping_cost._row(timings, stopping_cost.OWN_FIT, 20.0)
    assert row == ["own fit", "20.0", "5.0 - 30.0", "20.0", "200.0", "10.00", ">= 20", "met"]
    assert stopping_cost._row(timings, stopping_cost.OWN_FIT, 21.0)[-1] == "MISSED"


def test_cost_is_measured_in_turn() -> None:
    """Every entrant is timed once a step, where the peer's packages are."""
    if peer_is_missing():
        pytest.skip("torch is not installed")
    timings = stopping_cost.measure(20, 2, 0)
    counts = Counter(timing.entrant for timing in timings)
    assert counts == {PEER: 2, stopping_cost.OWN_FIT: 2, stopping_cost.SHARED: 2}
    assert [timing.entrant for timing in timings[:3]] == [t.entrant for t in timings[:2:-1]]
