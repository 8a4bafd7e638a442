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
import concurrent.futures
import contextlib
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState
from scipy.stats import rankdata

from bbo_plugins.methods import training_subset
from bbo_plugins.optuna import UHEBOSampler
from benchmarks.common.histories import history
from benchmarks.common.report import Report, package_digest, read_records
from benchmarks.common.samplers import SAMPLERS, available, quiet
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import Problem
from benchmarks.regret.run import startup_points
from benchmarks.scale.rules import ALL, CHOSEN, RULES, Rule

DESCRIPTION = "What the model has of a very long study: regret by rule, and suggestion time."
FUNCTIONS = (
    "hartmann6",
    "rosenbrock5",
    "ackley5",
    "levy10",
    "schwefel4",
    "michalewicz5",
    "mixed_interaction5",
    "noisy_hartmann6",
)
CONTINUED = ("hartmann6", "levy10", "noisy_hartmann6")
TIMED = "hartmann6"
DEFAULT_SEEDS, QUICK_SEEDS = 4, 1
DEFAULT_TRIALS, QUICK_TRIALS = 300, 30
SHARE = 5  # the limit is the number of trials divided by this
LENGTHS, QUICK_LENGTHS = (1000, 2000, 5000, 10_000), (1100,)
PEER, PEER_MAX_LENGTH = "gpsampler", 2000
WARM_ASKS = 3
LEAST = 1e-6  # regrets below it, relative to that of a random point, are equal
PROTOCOL = 1


@dataclass(frozen=True, kw_only=True)
class Run:
    """One study; all its fields together are the key of its record."""

    function: str
    rule: str
    seed: int
    n_given: int
    n_trials: int
    limit: int
    source: str
    protocol: int = PROTOCOL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes, each with one thread (default: %(default)s)"
    )
    parser.add_argument("--trials", type=int, help="trials per study of the first table")
    parser.add_argument("--rules", nargs="+", choices=sorted(RULES), help="only these rules")
    parser.add_argument("--functions", nargs="+", choices=sorted(PROBLEMS), metavar="NAME")
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=("short", "real", "time"),
        default=["short", "real", "time"],
        help="which of the three tables to make (default: all)",
    )


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
    """Run one study; returns its record."""
    quiet()
    problem = PROBLEMS[run.function]
    study = optuna.create_study(sampler=UHEBOSampler(seed=run.seed))
    values: list[float] = []
    regrets: list[float] = []
    if run.n_given:
        study.add_trials(history(problem, run.n_given, run.seed))
        for trial in study.trials:
            values.append(trial.values[0])
            regrets.append(problem.regret(trial.params))
    else:
        for params in startup_points(problem, run.seed):
            study.enqueue_trial(params)
    start = time.process_time()
    with modeling(RULES[run.rule], run.limit):
        for number in range(run.n_given, run.n_given + run.n_trials):
            asked = study.ask(dict(problem.space))
            values.append(problem.observe(asked.params, seed=run.seed, number=number))
            regrets.append(problem.regret(asked.params))
            study.tell(asked, values[-1])
    return {
        **asdict(run),
        "regret": regrets[int(np.argmin(values))],
        "given": regrets[int(np.argmin(values[: run.n_given]))] if run.n_given else None,
        "scale": problem.scale,
        "cpu_seconds": round(time.process_time() - start, 2),
    }


def execute_all(runs: Sequence[Run], report: Report, jobs: int) -> list[dict[str, Any]]:
    """Execute the runs that are not stored yet; returns the records of all."""
    stored = _stored(report)
    todo = [run for run in runs if run not in stored]
    report.progress(f"{len(runs)} runs, {len(runs) - len(todo)} of them stored already")
    context = multiprocessing.get_context("spawn")
    with contextlib.ExitStack() as stack:
        results: Iterator[dict[str, Any]] = map(execute, todo)
        if jobs > 1:
            pool = concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context)
            results = stack.enter_context(pool).map(execute, todo)
        for record in results:
            report.record(**record)
            report.progress("{function} {rule} {seed}: {regret:.3g}".format_map(record))
    stored = _stored(report)
    return [stored[run] for run in runs]


def _stored(report: Report) -> dict[Run, dict[str, Any]]:
    fields = Run.__dataclass_fields__
    return {
        Run(**{name: record[name] for name in fields}): record
        for record in read_records(report.records_path)
        if fields.keys() <= record.keys()
    }


def log_regret(record: Mapping[str, Any]) -> float:
    """Return log10 of the regret, negligible ones made equal."""
    return float(np.log10(max(record["regret"], LEAST * record["scale"])))


def add_regret_table(
    report: Report, title: str, records: Sequence[Mapping[str, Any]], rules: Sequence[str]
) -> None:
    """Add medians by function, mean ranks, and paired differences to the model of all trials."""
    pairs: dict[tuple[str, int], dict[str, float]] = {}
    for record in records:
        pair = pairs.setdefault((record["function"], record["seed"]), {})
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
    cpu = {rule: [r["cpu_seconds"] for r in records if r["rule"] == rule] for rule in rules}
    rows.append(["CPU s per study", *(round(statistics.mean(cpu[rule]), 1) for rule in rules)])
    report.table(title, ["log10 regret, median", *rules], rows)


def short_memory(options: argparse.Namespace, report: Report) -> None:
    """Compare the rules with a limit that is small enough for many long studies."""
    n_trials = options.trials or (QUICK_TRIALS if options.quick else DEFAULT_TRIALS)
    rules = tuple(options.rules or ((ALL, CHOSEN) if options.quick else RULES))
    functions = options.functions or (FUNCTIONS[:1] if options.quick else FUNCTIONS)
    seeds = options.seeds or (QUICK_SEEDS if options.quick else DEFAULT_SEEDS)
    limit = max(n_trials // SHARE, 10)
    runs = [
        Run(
            function=function,
            rule=rule,
            seed=seed,
            n_given=0,
            n_trials=n_trials,
            limit=limit,
            source=package_digest(),
        )
        for seed in range(seeds)
        for function in functions
        for rule in rules
    ]
    records = execute_all(runs, report, options.jobs)
    title = f"{n_trials} trials, a model of at most {limit}, {seeds} seeds"
    add_regret_table(report, title, records, rules)


def real_limit(options: argparse.Namespace, report: Report) -> None:
    """Continue a long history with the package's model and with that of all trials."""
    limit = training_subset.MAX_MODELED
    n_given, n_trials = (limit + 100, 2) if options.quick else (2 * limit, 50)
    functions = CONTINUED[:1] if options.quick else CONTINUED
    seeds = 1 if options.quick else min(options.seeds or DEFAULT_SEEDS, 2)
    runs = [
        Run(
            function=function,
            rule=rule,
            seed=seed,
            n_given=n_given,
            n_trials=n_trials,
            limit=limit,
            source=package_digest(),
        )
        for seed in range(seeds)
        for function in functions
        for rule in (CHOSEN, ALL)
    ]
    records = execute_all(runs, report, options.jobs)
    title = f"{n_given} given trials continued by {n_trials}, a model of at most {limit}"
    add_regret_table(report, title, records, (CHOSEN, ALL))


def suggestion_times(problem: Problem, name: str, n: int, seed: int) -> tuple[float, list[float]]:
    """Return CPU seconds of a cold suggestion and of warm ones on a history of ``n`` trials."""
    trials = history(problem, n + WARM_ASKS, seed)
    study = optuna.create_study(sampler=SAMPLERS[name].build(seed, None))
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
    for n in QUICK_LENGTHS if options.quick else LENGTHS:
        for entrant in entrants:
            if entrant.name == PEER and n > (0 if options.quick else PEER_MAX_LENGTH):
                continue
            cold, warm = suggestion_times(PROBLEMS[TIMED], entrant.name, n, 0)
            report.record(kind="time", n=n, entrant=entrant.name, cold=cold, warm=warm)
            rows.append([n, entrant.name, round(cold, 2), round(statistics.median(warm), 2)])
    report.table(
        f"CPU seconds of a suggestion, {TIMED}, in memory", ["n", "entrant", "cold", "warm"], rows
    )


def run(options: argparse.Namespace, report: Report) -> None:
    """Make the tables that are asked for."""
    quiet()
    parts = {"short": short_memory, "real": real_limit, "time": long_histories}
    for name, part in parts.items():
        if name in options.parts:
            part(options, report)
