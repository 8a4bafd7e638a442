"""Histories and what is replayed over them: the same as if the terminator had been there."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from bbo_plugins.optuna import RegretGapTerminator, UHEBOSampler
from benchmarks.common.samplers import SAMPLERS
from benchmarks.problems import tuning
from benchmarks.problems.hpo_grids import GRIDS
from benchmarks.problems.hpo_tables import Table
from benchmarks.problems.problem import N_STARTUP
from benchmarks.problems.tuning import QUICK_TABLE
from benchmarks.stopping import histories as stopping_histories
from benchmarks.stopping import series as stopping_series
from benchmarks.stopping.histories import History
from benchmarks.stopping.problems import objective_of
from benchmarks.stopping.rules import ENTRANTS, _thresholds, stagnation_stop, stop_of

N_TRIALS = 34


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a made-up table in it."""
    folder = tmp_path_factory.mktemp("stopping")
    grid = GRIDS[QUICK_TABLE]
    rng = np.random.default_rng(0)
    depth = np.array([params["max_depth"] for params in grid.configurations])
    scores = 0.1 * (depth[:, None] - 2.0) ** 2 + 0.05 * rng.random((len(depth), 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "table_of", lambda grid, _: Table(grid=grid, scores=scores))
        objective_of(QUICK_TABLE, folder)  # remembered for this folder
    return folder


def a_history(problem: str, sampler: str, directory: Path) -> History:
    """Run one study and read its record as from a file."""
    objective, entrant = objective_of(problem, directory), SAMPLERS[sampler]
    study = stopping_histories.planned_studies([objective], [entrant], 1, N_TRIALS)[0]
    record = json.loads(json.dumps(stopping_histories.execute(study, directory)))
    return stopping_histories.history_of(study, record)


def replayed(history: History, directory: Path, criterion: str, **options: Any) -> dict[str, Any]:
    """Return what a criterion said over a history, as from a file."""
    replay = stopping_series.replay_of(history.study, criterion, **options)
    record = stopping_series.evaluate(replay, history, directory)
    found: dict[str, Any] = json.loads(json.dumps(record))
    return found


@pytest.fixture(scope="module")
def ours(directory: Path) -> History:
    """Return a history of our sampler on the table."""
    return a_history(QUICK_TABLE, "ours-uhe", directory)


@pytest.fixture(scope="module")
def random(directory: Path) -> History:
    """Return a history of random search on a noisy function."""
    return a_history("noisy_branin", "random", directory)


def test_a_replayed_criterion_is_the_live_one(directory: Path, ours: History) -> None:
    """A terminator that watches the study says the same, hyperparameters of the sampler's used."""
    objective = objective_of(QUICK_TABLE, directory)
    assert objective.fold_scores is not None
    study = optuna.create_study(sampler=UHEBOSampler(seed=0))
    for params in objective.problem.startup_points(0):
        study.enqueue_trial(params)
    live, terminator = [], RegretGapTerminator()
    for number in range(N_TRIALS):
        trial = study.ask(dict(objective.problem.space))
        study.tell(trial, objective.problem.observe(trial.params, seed=0, number=number))
        live.append(terminator.evaluate(study))
    record = replayed(ours, directory, "regret-gap")
    values = [math.inf if value is None else value for value in record["values"]]
    assert values == pytest.approx([one.value for one in live], rel=1e-9)
    assert values[1:] != [math.inf] * (N_TRIALS - 1)
    # The sampler leaves nothing else in a study than what the record has.
    stripped = dataclasses.replace(ours, attributes=[{}] * N_TRIALS)
    other = replayed(stripped, directory, "regret-gap")
    assert other["values"][: N_STARTUP - 1] == record["values"][: N_STARTUP - 1]
    assert other["values"] != record["values"]


@pytest.mark.parametrize("name", [name for name, one in ENTRANTS.items() if one.rule is not None])
def test_a_rule_decides_as_the_terminator_does(
    name: str, directory: Path, ours: History, random: History
) -> None:
    """Thresholds and stop are those of a terminator that is given the rule itself."""
    entrant = ENTRANTS[name]
    assert entrant.rule is not None
    assert entrant.criterion is not None
    history = random if entrant.rule.threshold in {"median", "auto"} else ours
    rule = dataclasses.replace(entrant.rule, min_n_trials=5, n_initial=8, patience=2)
    if rule.threshold in {"median", "relative"}:
        rule = dataclasses.replace(rule, eta=0.9)  # so that there is a stop to be compared
    objective = objective_of(history.study.problem, directory)
    terminator = RegretGapTerminator(**dataclasses.asdict(rule))
    live = [terminator.evaluate(study) for study in history.growing(objective.problem)]
    options = {"threshold": entrant.threshold, "deterministic": entrant.is_deterministic}
    series = stopping_series.series_in(replayed(history, directory, entrant.criterion, **options))
    scores = best_scores(history, directory)
    thresholds = _thresholds(rule, series, scores)
    # A single completion has no signal, so that its threshold does not matter.
    assert thresholds[1:] == pytest.approx([one.threshold for one in live[1:]], rel=1e-9)
    expected = next((one.n_trials for one in live if one.terminate), None)
    assert stop_of(rule, series, scores) == expected
    assert name == "bound-cv" or expected is not None


def best_scores(history: History, directory: Path) -> list[list[float]]:
    """Return the scores of the best trial so far, by looking at all of them again each time."""
    fold_scores = objective_of(history.study.problem, directory).fold_scores
    if fold_scores is None:
        return [[] for _ in history.values]
    firsts = [int(np.argmin(history.values[:n])) for n in range(1, len(history.values) + 1)]
    return [fold_scores(history.params[first]) for first in firsts]


def test_regret_is_of_the_best_observed_trial(directory: Path, random: History) -> None:
    """With noise, that is not always the best of those seen; noise is not counted in it."""
    problem = objective_of("noisy_branin", directory).problem
    expected = [
        problem.regret(random.params[int(np.argmin(random.values[: n + 1]))])
        for n in range(N_TRIALS)
    ]
    assert random.regrets(problem) == expected
    true = [problem.regret(params) for params in random.params]
    assert random.regrets(problem) != np.minimum.accumulate(true).tolist()


@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::optuna.exceptions.ExperimentalWarning"
)
def test_stagnation_is_optunas() -> None:
    """The control stops where Optuna's evaluator runs out of patience."""
    terminator = pytest.importorskip("optuna.terminator")
    rng = np.random.default_rng(0)
    for _ in range(20):
        values = rng.choice(40, size=60).tolist()
        evaluator = terminator.BestValueStagnationEvaluator(max_stagnation_trials=9)
        study = optuna.create_study()
        expected = None
        for n, value in enumerate(values, start=1):
            study.add_trial(optuna.trial.create_trial(value=value))
            if evaluator.evaluate(study.trials, study.direction) < 0:
                expected = n
                break
        assert stagnation_stop(values, patience=9) == expected
