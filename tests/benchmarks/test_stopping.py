"""The stopping benchmark: what is run and what is not, outcomes, tables, and the cost."""

import dataclasses
from pathlib import Path
from typing import Any

import optuna
import pytest

from bbo_plugins.optuna import RegretGapTerminator
from benchmarks.common.histories import history
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.common.timing import Timing
from benchmarks.problems.functions import PROBLEMS
from benchmarks.stopping import cost as stopping_cost
from benchmarks.stopping import run as stopping
from benchmarks.stopping import tables as stopping_tables
from benchmarks.stopping.histories import History, planned_studies
from benchmarks.stopping.problems import objective_of
from benchmarks.stopping.rules import DEFAULT
from benchmarks.stopping.series import PEER
from benchmarks.stopping.tables import Outcome, outcome_of


def test_scores_are_the_best_trials(tmp_path: Path) -> None:
    """After each trial they are those of the smallest value so far, the first of equals."""
    booth = objective_of("booth", tmp_path)
    study = planned_studies([booth], [SAMPLERS["random"]], 1, 5)[0]
    params = [{"x0": float(number)} for number in range(5)]
    values = [3.0, 1.0, 2.0, 1.0, 0.5]
    finished = History(study=study, params=params, values=values, attributes=[{}] * 5)
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


def test_a_suggested_trial_is_taken_over() -> None:
    """Given what our sampler leaves with a trial, the terminator fits nothing."""
    trials = history(PROBLEMS[stopping_cost.PROBLEM], 30, 0)
    sampler = SAMPLERS[stopping_cost.SAMPLER].build(0)
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
        Timing(entrant=entrant, seed=0, step=step, wall=wall, cpu=0.5 * wall)
        for step, peer, own in ((0, 0.2, 0.01), (1, 0.1, 0.02), (2, 0.3, 0.01))
        for entrant, wall in ((PEER, peer), (stopping_cost.OWN_FIT, own))
    ]
    row = stopping_cost._row(timings, stopping_cost.OWN_FIT, 20.0)
    assert row == ["own fit", "20.0", "5.0 - 30.0", "20.0", "200.0", "10.00", ">= 20", "met"]
    assert stopping_cost._row(timings, stopping_cost.OWN_FIT, 21.0)[-1] == "MISSED"
