"""The stopping benchmark: rules replayed as if the terminator had been there, outcomes, cost."""

import json
from pathlib import Path
from typing import Any

import optuna
import pytest

from bbo_plugins.optuna import RegretGapTerminator, UHEBOSampler, report_cross_validation_scores
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS
from benchmarks.common.studies import planned
from benchmarks.problems.functions import PROBLEMS
from benchmarks.stopping import replay
from benchmarks.stopping.problems import problem_named
from benchmarks.stopping.replay import DEFAULT, FIXED, PEER, STAGNATION, is_asked_of, replay_of
from benchmarks.stopping.tables import Outcome, add_tables

N_TRIALS = 26


@pytest.mark.parametrize("name", ["booth", "noisy_branin"])
def test_a_replayed_rule_stops_where_it_does_live(name: str, tmp_path: Path) -> None:
    """A terminator that watches the study says the same, the sampler's hyperparameters used."""
    problem = problem_named(name, tmp_path)
    (run,) = planned([problem], [SAMPLERS["ours-uhe"]], lambda _p, _s: [0], n_trials=N_TRIALS)
    record = json.loads(json.dumps(replay.execute(run, tmp_path)))  # as from a file
    study = optuna.create_study(sampler=UHEBOSampler(seed=0))
    for params in problem.startup_points(0):
        study.enqueue_trial(params)
    terminators = {rule: replay.terminator_of(rule, 0) for rule in (DEFAULT, "gap-auto", "pi")}
    stops: dict[str, int] = {}
    for number in range(N_TRIALS):
        trial = study.ask(dict(problem.space))
        value = problem.observe(trial.params, seed=0, number=number)
        study.tell(trial, value)
        assert (trial.params, value) == (record["params"][number], record["values"][number])
        for rule, terminator in terminators.items():
            if terminator.should_terminate(study):
                stops.setdefault(rule, number + 1)
    assert stops
    for rule in terminators:
        found = replay.stop_in(replay_of(run, rule), record, tmp_path)
        assert found == {"stop": stops.get(rule)}


def test_scores_on_folds_are_replayed() -> None:
    """What a live study has stored of them is what the terminator of a replay reads."""
    problem = PROBLEMS["branin"]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for number in range(8):
        trial = study.ask(dict(problem.space))
        report_cross_validation_scores(trial, [1.0, 2.0 + number])
        study.tell(trial, float(number))
    record: dict[str, list[Any]] = {
        "params": [trial.params for trial in study.trials],
        "values": [trial.value for trial in study.trials],
        "attributes": [replay._stored_by_us(trial) for trial in study.trials],
    }
    (*_, replayed) = replay.growing(record, problem)
    thresholds = [
        RegretGapTerminator(criterion="regret-bound", threshold="cross-validation")
        .evaluate(each)
        .threshold
        for each in (study, replayed)
    ]
    assert thresholds[0] == thresholds[1] > 0.0


def test_controls_and_who_is_asked(tmp_path: Path) -> None:
    """Stagnation counts trials without a better value; a rule is asked where it applies."""
    assert replay.stagnation_stop([3.0, 2.0, 2.0, 2.0, 2.0, 1.0], patience=2) == 5
    assert replay.stagnation_stop([3.0, 2.0, 1.0], patience=2) is None
    (run,) = planned(
        [PROBLEMS["branin"]], [SAMPLERS["random"]], lambda _p, _s: [0], n_trials=N_TRIALS
    )
    stop = replay.stop_in(replay_of(run, FIXED), {"values": [0.0] * 70}, tmp_path)["stop"]
    assert stop == replay.FIXED_STOP
    branin, noisy = PROBLEMS["branin"], PROBLEMS["noisy_branin"]
    assert is_asked_of(STAGNATION, run, noisy)
    assert is_asked_of("gap-relative-deterministic", run, branin)
    assert not is_asked_of("gap-relative-deterministic", run, noisy)
    assert not is_asked_of("bound-cv", run, branin)
    assert not is_asked_of(PEER, run, branin)


def an_outcome(
    name: str, stop: int | None, *, end: float = 0.1, rule: str = DEFAULT, seed: int = 0
) -> Outcome:
    """Return an outcome of four trials whose regret falls from 3 to ``end`` scales."""
    problem = problem_named(name, Path())
    regrets = [at * problem.scale for at in (3.0, 0.5, 0.5, end)]
    return Outcome(
        problem=problem, sampler="ours-uhe", rule=rule, seed=seed, regrets=regrets, stop=stop
    )


def test_outcomes_by_hand(report: Report) -> None:
    """Loss is in units of the median regret; shares are over runs, half by half, noise apart."""
    early = an_outcome("booth", 2)
    assert early.loss == pytest.approx(0.4)
    assert early.saved == 0.5
    for stop in (4, None):
        late = an_outcome("booth", stop)
        assert (late.loss, late.saved) == (0.0, 0.0)
    outcomes = [
        early,
        an_outcome("booth", 3, end=0.499, seed=1),
        an_outcome("six_hump_camel", None),
        an_outcome("noisy_branin", 1),
        an_outcome("booth", 1, rule="pi"),
    ]
    add_tables(report, outcomes)
    text = report.text().replace(" ", "")
    halves = "|50.0%(1)|37.5%|0.0%(0)|0.0%|33.3%(1)|25.0%|"
    assert f"|gap-relative|ours-uhe|3|67%{halves}" in text
    assert "|gap-relative|ours-uhe|1|100%|" in text
    assert "In-samplehalf(2):booth,noisy_branin." in text
