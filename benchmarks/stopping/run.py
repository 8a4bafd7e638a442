"""When to stop: rules replayed over whole studies, and what stopping would have lost and saved.

Studies of every objective by every sampler are run once, to the full budget and never stopped;
every rule is then replayed over them completion by completion (``benchmarks.stopping.replay``).

Reported, rule by rule and sampler by sampler, noisy objectives apart, on the half of the objectives
that rules may be tuned on and on the held-out half: in which share of runs stopping lost more than
1%, and the share of the budget saved. Regret is that of the incumbent a user takes, the best
observed trial, evaluated without noise.
"""

import argparse
import functools

from benchmarks.common.options import add_count, add_effort, add_names
from benchmarks.common.report import Report
from benchmarks.common.runs import completed
from benchmarks.common.samplers import SAMPLERS, available
from benchmarks.common.studies import planned, shortened
from benchmarks.problems.tuning import BUDGET, QUICK_TABLE
from benchmarks.stopping.cost import add_cost
from benchmarks.stopping.problems import NAMES, problem_named
from benchmarks.stopping.replay import (
    ALL_RULES,
    PEER,
    execute,
    is_asked_of,
    peer_is_missing,
    replay_of,
    stop_in,
)
from benchmarks.stopping.tables import Outcome, add_tables

DESCRIPTION = "Regret lost and budget saved by stopping criteria, and what they cost."
DEFAULT_RULES = tuple(name for name in ALL_RULES if name != PEER)
SIZES = {
    "problems": NAMES[:-1],
    "samplers": ("ours-uhe", "ours-map", "tpe", "random"),
    "rules": DEFAULT_RULES,
    "trials": BUDGET,
    "seeds": 10,
}
QUICK = {
    "problems": ("noisy_branin", QUICK_TABLE),
    "samplers": ("ours-uhe",),
    "trials": 18,
    "seeds": 1,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_effort(parser)
    add_count(parser, "--trials", "budget of every objective")
    add_names(parser, "--problems", NAMES)
    add_names(parser, "--samplers", SAMPLERS)
    add_names(parser, "--rules", ALL_RULES)


def run(options: argparse.Namespace, report: Report) -> None:
    """Run and replay what is not stored yet, then report on everything asked for."""
    rules = list(options.rules)
    missing = peer_is_missing()
    if PEER in rules and missing:
        report.skip(PEER, f"not installed: {', '.join(missing)}")
        rules.remove(PEER)
    problems = {name: problem_named(name, report.directory) for name in options.problems}
    samplers = available(options.samplers, report)
    studies = planned(problems.values(), samplers, range(options.seeds), n_trials=options.trials)
    effort = {"jobs": options.jobs, "minutes": options.minutes}
    work = functools.partial(execute, directory=report.directory)
    found = completed(studies, work, report, **effort)
    records = {study: shortened(record, study.n_trials) for study, record in found.items()}
    replays = {
        replay_of(study, rule): study
        for study in records
        for rule in rules
        if is_asked_of(rule, study, problems[study.problem])
    }
    stops = completed(
        list(replays),
        functools.partial(stop_in, directory=report.directory),
        report,
        inputs=lambda replay: (records[replays[replay]],),
        **effort,
    )
    regrets = {
        study: problems[study.problem].regrets(zip(one["params"], one["values"], strict=True))
        for study, one in records.items()
    }
    outcomes = [
        Outcome(
            problem=problems[replay.problem],
            sampler=replay.entrant,
            rule=replay.rule,
            seed=replay.seed,
            regrets=regrets[replays[replay]],
            stop=record["stop"],
        )
        for replay, record in stops.items()
    ]
    add_tables(report, outcomes)
    if missing:
        report.skip(f"the cost of a trial, against {PEER}", f"not installed: {', '.join(missing)}")
    else:
        add_cost(report, quick=options.quick)
