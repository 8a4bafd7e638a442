"""Which observations the model should have when there are too many for all of them, by regret.

Three tables:

1. *Regret with a short memory.* Searches whose model has at most a fifth of the trials (60 of 300
   by default), by each rule that says which, from the same start-up points and seeds, beside the
   model of all trials. ``chosen`` is the package's own rule with this limit.
2. *Regret at the real limit.* A history of 2,000 trials is continued by 50, with the package's
   model and with that of all trials.
3. *Suggestion time* on histories of up to 10,000 trials, cold and warm, and GPSampler's on the
   shorter ones.

Regrets are noise-free, those of the best observed trial.
"""

import argparse
import contextlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState
from scipy.stats import rankdata

from bbo_plugins.methods import training_subset
from bbo_plugins.optuna import UHEBOSampler
from benchmarks.common import runs
from benchmarks.common.histories import history
from benchmarks.common.options import add_count, add_effort, add_names
from benchmarks.common.report import Report, package_digest
from benchmarks.common.samplers import SAMPLERS, available
from benchmarks.common.studies import run_study
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import Problem
from benchmarks.scale.rules import ALL, CHOSEN, RULES, Rule

DESCRIPTION = "What the model has of a very long study: regret by rule, and suggestion time."
LIMIT = training_subset.MAX_MODELED
PARTS = ("short", "real", "time")
# "continued" are the problems of the second table, "seeds_continued" its seeds, "given" and "more"
# the trials that are given and added.
SIZES = {
    "problems": (
        *("hartmann6", "rosenbrock5", "ackley5", "levy10"),
        *("schwefel4", "michalewicz5", "mixed_interaction5", "noisy_hartmann6"),
    ),
    "rules": tuple(RULES),
    "trials": 300,
    "seeds": 4,
    "continued": ("hartmann6", "levy10", "noisy_hartmann6"),
    "seeds_continued": 2,
    "given": 2 * LIMIT,
    "more": 50,
    "lengths": (1000, 2000, 5000, 10_000),
    "length_of_peer": 2000,
}
QUICK = {
    "problems": ("hartmann6",),
    "rules": (ALL, CHOSEN),
    "trials": 30,
    "seeds": 1,
    "continued": ("hartmann6",),
    "seeds_continued": 1,
    "given": LIMIT + 100,
    "more": 2,
    "lengths": (1100,),
    "length_of_peer": 0,
}
TIMED = "hartmann6"
SHARE = 5  # the limit is the number of trials divided by this
PEER = "gpsampler"
WARM_ASKS = 3
LEAST = 1e-6  # regrets below it, relative to that of a random point, are equal


@dataclass(frozen=True, kw_only=True)
class Run(runs.Run):
    """One study: ``n_trials`` trials after ``n_given``, with a model of at most ``limit``."""

    problem: str
    rule: str
    seed: int
    n_given: int
    n_trials: int
    limit: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_effort(parser)
    parser.set_defaults(jobs=1)
    add_count(parser, "--trials", "trials per study of the first table")
    add_names(parser, "--rules", RULES)
    add_names(parser, "--problems", PROBLEMS)
    add_names(parser, "--parts", PARTS, "only these tables")
    parser.set_defaults(parts=PARTS)


@contextlib.contextmanager
def modeling(rule: Rule, limit: int) -> Iterator[None]:
    """Let the models of this process have what ``rule`` chooses."""
    usual = training_subset.modeled

    def by_rule(observations: Any, features: Any) -> Any:
        return rule(observations, features, limit)

    training_subset.modeled = by_rule  # type: ignore[assignment]
    try:
        yield
    finally:
        training_subset.modeled = usual


def execute(run: Run) -> dict[str, Any]:
    """Run one study; returns what was measured."""
    problem = PROBLEMS[run.problem]
    given = history(problem, run.n_given, run.seed) if run.n_given else []
    with modeling(RULES[run.rule], run.limit):
        trials, seconds = run_study(
            problem, UHEBOSampler(seed=run.seed), seed=run.seed, n_trials=run.n_trials, given=given
        )
    regret = problem.regrets((trial.params, trial.value) for trial in trials)[-1]
    return {"regret": regret, "scale": problem.scale, "seconds": seconds}


def run_all(
    options: argparse.Namespace, report: Report, problems: Sequence[str], seeds: int, **sizes: Any
) -> list[dict[str, Any]]:
    """Run the studies of one table, by every rule of ``sizes``; returns all records or none."""
    rules = sizes.pop("rules")
    studies = [
        Run(problem=problem, rule=rule, seed=seed, source=package_digest(), **sizes)
        for seed in range(seeds)
        for problem in problems
        for rule in rules
    ]
    execute_all: runs.Execute[Run] = runs.by_processes(
        execute, jobs=options.jobs, minutes=options.minutes
    )
    records = list(runs.completed(studies, execute_all, report).values())
    return records if len(records) == len(studies) else []


def log_regret(record: Mapping[str, Any]) -> float:
    """Return log10 of the regret, negligible ones made equal."""
    return float(np.log10(max(record["regret"], LEAST * record["scale"])))


def add_regret_table(
    report: Report, title: str, records: Sequence[Mapping[str, Any]], rules: Sequence[str]
) -> None:
    """Add medians by function, mean ranks, and paired differences to the model of all trials."""
    if not records:
        return
    pairs: dict[tuple[str, int], dict[str, float]] = {}
    for record in records:
        pair = pairs.setdefault((record["problem"], record["seed"]), {})
        pair[record["rule"]] = log_regret(record)
    table = np.array([[pair[rule] for rule in rules] for pair in pairs.values()])
    functions = np.array([function for function, _ in pairs])
    rows: list[list[Any]] = [
        [function, *np.round(np.median(table[functions == function], axis=0), 2).tolist()]
        for function in dict.fromkeys(functions.tolist())
    ]
    rows.append(["mean rank", *np.round(rankdata(table, axis=1).mean(axis=0), 2).tolist()])
    if ALL in rules:
        losses = table - table[:, [rules.index(ALL)]]
        error = losses.std(axis=0) / np.sqrt(len(losses))
        both = zip(losses.mean(axis=0), error, strict=True)
        rows.append([f"mean, less {ALL}", *(f"{mean:.2f} ± {se:.2f}" for mean, se in both)])
    cpu = {rule: [sum(r["seconds"]) for r in records if r["rule"] == rule] for rule in rules}
    rows.append(["CPU s per study", *(round(statistics.mean(cpu[rule]), 1) for rule in rules)])
    report.table(title, ["log10 regret, median", *rules], rows)


def short_memory(options: argparse.Namespace, report: Report) -> None:
    """Compare the rules with a limit that is small enough for many long studies."""
    n_trials, rules = options.trials, options.rules
    limit = max(n_trials // SHARE, 10)
    sizes = {"n_given": 0, "n_trials": n_trials, "limit": limit}
    records = run_all(options, report, options.problems, options.seeds, rules=rules, **sizes)
    title = f"{n_trials} trials, a model of at most {limit}, {options.seeds} seeds"
    add_regret_table(report, title, records, rules)


def real_limit(options: argparse.Namespace, report: Report) -> None:
    """Continue a long history with the package's model and with that of all trials."""
    seeds, rules = min(options.seeds, options.seeds_continued), (CHOSEN, ALL)
    sizes = {"n_given": options.given, "n_trials": options.more, "limit": LIMIT}
    records = run_all(options, report, options.continued, seeds, rules=rules, **sizes)
    title = f"{options.given} given trials continued by {options.more}, a model of at most {LIMIT}"
    add_regret_table(report, title, records, rules)


def suggestion_times(problem: Problem, name: str, n: int, seed: int) -> tuple[float, list[float]]:
    """Return CPU seconds of a cold suggestion and of warm ones on a history of ``n`` trials."""
    trials = history(problem, n + WARM_ASKS, seed)
    study = optuna.create_study(sampler=SAMPLERS[name].build(seed))
    study.add_trials(trials[:n])
    times = []
    for k in range(1 + WARM_ASKS):
        start = time.process_time()
        asked = study.ask(dict(problem.space))
        times.append(time.process_time() - start)
        study.tell(asked, state=TrialState.FAIL)
        study.add_trials(trials[n + k : n + k + 1])
    return times[0], times[1:]


def long_histories(options: argparse.Namespace, report: Report) -> None:
    """Time suggestions of ours, both estimations, and of GPSampler where it can be borne."""
    entrants = available(("ours-uhe", "ours-map", PEER), report)
    rows = []
    for n in options.lengths:
        for entrant in entrants:
            if entrant.name == PEER and n > options.length_of_peer:
                continue
            cold, warm = suggestion_times(PROBLEMS[TIMED], entrant.name, n, 0)
            report.record(kind="time", n=n, entrant=entrant.name, cold=cold, warm=warm)
            rows.append([n, entrant.name, round(cold, 2), round(statistics.median(warm), 2)])
    report.table(
        f"CPU seconds of a suggestion, {TIMED}, in memory", ["n", "entrant", "cold", "warm"], rows
    )


def run(options: argparse.Namespace, report: Report) -> None:
    """Make the tables that are asked for."""
    for name, part in zip(PARTS, (short_memory, real_limit, long_histories), strict=True):
        if name in options.parts:
            part(options, report)
