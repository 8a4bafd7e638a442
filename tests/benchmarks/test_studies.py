"""Studies of problems by samplers: same start for everyone, resuming, any Optuna objective."""

import argparse
import dataclasses
import functools

import optuna
import pytest
from optuna.trial import Trial

from benchmarks.common.report import Report, read_records
from benchmarks.common.runs import Run, completed
from benchmarks.common.sampler_benchmark import SamplerBenchmark
from benchmarks.common.samplers import SAMPLERS, Entrant, available
from benchmarks.common.studies import StudyRun, execute, planned, run_studies, run_study
from benchmarks.common.tables import CheckpointTables
from benchmarks.highdim.problems import problem_named
from benchmarks.highdim.run import ENTRANTS
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import ObjectiveProblem

FAST = [SAMPLERS["tpe"], SAMPLERS["random"]]


def a_study(entrant: str, problem: str, n_trials: int) -> StudyRun:
    """Return one small run."""
    return StudyRun(
        problem=problem, entrant=entrant, seed=3, n_trials=n_trials, fingerprint="", source=""
    )


@pytest.mark.parametrize("name", [name for name in ENTRANTS if not name.startswith("literal-")])
def test_everyone_starts_alike(name: str) -> None:
    """The first values of every entrant are those of the start-up points of the seed."""
    if ENTRANTS[name].missing():
        pytest.skip("a peer is not installed")
    problem = problem_named("f2")
    record = execute(a_study(name, "f2", 11), problem_named, ENTRANTS)
    points = problem.startup_points(3, problem.n_startup)
    expected = [problem.value(point) for point in points]
    assert record["values"][: problem.n_startup] == pytest.approx(expected, rel=1e-8)
    assert len(record["values"]) == len(record["seconds"]) == 11
    assert len(set(record["values"])) == 11


def test_regret_is_that_of_the_best_observed_trial() -> None:
    """Noise decides which trial that is, and is not counted in its regret."""
    problem = PROBLEMS["noisy_branin"]
    trials, _ = run_study(problem, optuna.samplers.RandomSampler(seed=0), seed=0, n_trials=30)
    regrets = problem.measured(trials)["regrets"]
    for n in (1, 7, 30):
        best = min(trials[:n], key=lambda trial: trial.values[0])
        assert regrets[n - 1] == problem.regret(best.params)
    least = [min(problem.regret(trial.params) for trial in trials[:n]) for n in range(1, 31)]
    assert regrets != least


def test_a_benchmark_resumes(report: Report) -> None:
    """What is stored is not run again; longer runs answer shorter ones, and are cut for them."""
    problems = [PROBLEMS["branin"], PROBLEMS["levy6"]]
    plan = functools.partial(planned, problems, FAST, lambda _problem, _entrant: range(2))
    named = PROBLEMS.__getitem__
    first = run_studies(plan(n_trials=12), named, FAST, report)
    assert len(first) == 8
    assert [record["seed"] for record in first] == [0] * 4 + [1] * 4
    shorter = run_studies(plan(n_trials=5), named, FAST, report)
    assert [r["regrets"] for r in shorter] == [r["regrets"][:5] for r in first]
    assert len(read_records(report.records_path)) == 8

    changed = dataclasses.replace(FAST[0], distribution="scipy")  # other code
    assert len(run_studies(plan(n_trials=12)[:1], named, FAST, report)) == 1
    again = planned(problems[:1], [changed], lambda _problem, _entrant: [0], n_trials=12)
    run_studies(again, named, [changed], report)
    assert len(read_records(report.records_path)) == 9
    # Without time nothing begins, and the report says so.
    nothing = run_studies(plan(n_trials=13), named, FAST, report, minutes=0.0)
    assert [record["n_trials"] for record in nothing] == [12] * 8
    assert "8 of 8 runs have not been made" in report.sections[-1]


def squared(run: Run, offset: int) -> dict[str, int]:
    """Return what is measured."""
    return {"square": run.seed**2 + offset}


def test_every_run_is_recorded_once_by_two_processes(report: Report) -> None:
    """Records come in the order of the runs, with the inputs that belong to each."""
    runs = [
        Run(source="here", problem="square", entrant="a", seed=seed, n_trials=1)
        for seed in (3, 1, 2, 3)
    ]
    found = completed(runs, squared, report, inputs=lambda run: (10 * run.seed,), jobs=2)
    assert [record["square"] for record in found.values()] == [39, 11, 24]
    assert len(read_records(report.records_path)) == 3


def test_missing_packages_skip_an_entrant_by_name(report: Report) -> None:
    """The report names who is missing and what is not installed."""
    absent = Entrant(name="absent", target="nowhere:Sampler", requires=("nowhere",))
    entrants = {"absent": absent, "random": SAMPLERS["random"]}
    assert available(["absent", "random", "random"], report, entrants) == [SAMPLERS["random"]]
    assert report.sections == ["**SKIPPED absent: not installed: nowhere.**"]


def test_an_entrant_is_given_what_it_has_parameters_for() -> None:
    """Its own arguments go first; what it has no parameter for is left out."""
    known = {"n_startup_trials": 4, "budget": 30}
    built = {name: SAMPLERS[name].build(0, **known) for name in ("tpe", "random", "uhe-literal")}
    assert vars(built["tpe"])["_n_startup_trials"] == 4
    assert vars(built["uhe-literal"])["_n_trials"] == 30
    assert SAMPLERS["cma-es"].arguments["n_startup_trials"] == 1


# ------------------------------------------------------------------------- any Optuna objective


def conditional(trial: Trial) -> float:
    """A choice decides which parameter there is; constrained to x >= 1."""
    if trial.suggest_categorical("kind", ["a", "b"]) == "a":
        x = trial.suggest_float("x", 0.0, 4.0)
        trial.set_constraint("least", 1.0 - x)
        return x
    return 2.0 + trial.suggest_int("k", 0, 3)


CONDITIONAL = ObjectiveProblem(name="conditional", function=conditional, n_trials=15, minimum=1.0)


def test_a_conditional_constrained_objective() -> None:
    """Regret is that of the best feasible trial, and None before there is one."""
    trials, seconds = run_study(
        CONDITIONAL, optuna.samplers.TPESampler(seed=1, n_startup_trials=4), seed=0, n_trials=15
    )
    assert [trial.params for trial in trials[:10]] == CONDITIONAL.startup_points(0)
    regrets = CONDITIONAL.measured(trials)["regrets"]
    for n in range(1, 16):
        feasible = [t.values[0] for t in trials[:n] if t.constraints.get("least", 0.0) <= 0.0]
        assert regrets[n - 1] == (min(feasible) - 1.0 if feasible else None)
    assert {len(trial.params) for trial in trials} == {2}
    assert {trial.params.keys() >= {"x"} for trial in trials} == {True, False}
    assert len(seconds) == 15
    assert 1.0 < CONDITIONAL.scale < 3.0


def conditional_named(name: str) -> ObjectiveProblem:
    """Return the only problem there is."""
    assert name == CONDITIONAL.name
    return CONDITIONAL


def test_a_sampler_benchmark_is_what_it_is_made_of(report: Report) -> None:
    """Command line, studies and tables come from the names, problems and entrants alone."""
    benchmark = SamplerBenchmark(
        problems=["conditional"],
        problem_named=conditional_named,
        tables=CheckpointTables(name="made up", trials=(12,)),
        first=["tpe"],
    )
    parser = argparse.ArgumentParser()
    benchmark.add_arguments(parser)
    words = ["--problems", "conditional", "--samplers", "tpe", "random", "--jobs", "1"]
    options = parser.parse_args(words)
    options.seeds = 2
    benchmark.run(options, report)
    titles = [text.splitlines()[0] for text in report.sections]
    assert titles == [
        "## made up: simple regret, median [quartiles] (number of seeds)",
        "## made up: mean rank of all that have the run, 1 is best",
        "## made up: paired comparison, below 1 the first is better",
        "Runs in made up: tpe 2, random 2.",
        "## CPU ms per suggestion, start-up included",
    ]
    assert "| tpe against random | 12 " in report.sections[2]
