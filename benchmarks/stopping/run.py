"""When to stop: criteria replayed over whole studies, and what stopping would have lost and saved.

Studies of every objective by every sampler are run once, to the full budget and never stopped
(``benchmarks.stopping.histories``); every criterion is then replayed over them completion by
completion (``benchmarks.stopping.series``), and every rule is applied to what it said. Another
threshold, patience or start costs nothing, as histories and series are stored.

Reported, rule by rule and sampler by sampler, noisy objectives apart, on the half of the objectives
that rules may be tuned on and on the held-out half: how often the study was stopped and when, the
normalized simple regret then, in which share of runs stopping lost more than 1%, and the share of
the budget saved. Regret is that of the incumbent a user takes, the best observed trial, evaluated
without noise. Two controls need no model: ``stagnation`` (no better value in 30 trials, as Optuna's
BestValueStagnationEvaluator) and ``fixed`` (after 65 trials, whatever happens).
"""

import argparse
import functools
import math
from collections.abc import Mapping

from benchmarks.common.options import add_count, add_effort, add_names
from benchmarks.common.report import Report
from benchmarks.common.runs import Execute, by_processes, completed
from benchmarks.common.samplers import SAMPLERS, available
from benchmarks.common.studies import StudyRun, shortened
from benchmarks.problems.hpo_tables import is_missing
from benchmarks.problems.tuning import BUDGET, QUICK_TABLE
from benchmarks.stopping.cost import add_cost
from benchmarks.stopping.histories import History, execute, history_of, planned_studies
from benchmarks.stopping.problems import NAMES, Objective, default_names, needs_table, objective_of
from benchmarks.stopping.rules import (
    DEFAULT_ENTRANTS,
    ENTRANTS,
    FIXED,
    Entrant,
    stagnation_stop,
    stop_of,
)
from benchmarks.stopping.series import (
    PEER,
    Replay,
    Series,
    evaluate,
    peer_is_missing,
    replay_of,
    series_in,
)
from benchmarks.stopping.tables import Outcome, add_tables, outcome_of

DESCRIPTION = "Regret lost and budget saved by stopping criteria, and what they cost."
SIZES = {
    "problems": tuple(default_names()),
    "samplers": ("ours-uhe", "ours-map", "tpe", "random"),
    "rules": DEFAULT_ENTRANTS,
    "trials": BUDGET,
    "seeds": 10,
}
QUICK = {
    "problems": ("booth", "noisy_branin", QUICK_TABLE),
    "samplers": ("ours-uhe", "random"),
    "trials": 40,
    "seeds": 1,
}
PEER_SEEDS = 3  # it costs more than all else together


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_effort(parser)
    add_count(parser, "--trials", "budget of every objective")
    add_names(parser, "--problems", NAMES)
    add_names(parser, "--samplers", SAMPLERS)
    add_names(parser, "--rules", DEFAULT_ENTRANTS)
    peers = f"rules in addition, with our samplers and the first {PEER_SEEDS} seeds"
    add_names(parser, "--peers", (PEER,), peers)
    parser.add_argument("--no-cost", action="store_true", help="leave out the cost of a trial")


def run(options: argparse.Namespace, report: Report) -> None:
    """Run and evaluate what is not stored yet, then report on everything asked for."""
    entrants = _entrants(options, report)
    objectives = {objective.name: objective for objective in _objectives(options, report)}
    samplers = available(options.samplers, report)
    studies = planned_studies(list(objectives.values()), samplers, options.seeds, options.trials)
    effort = {"jobs": options.jobs, "minutes": options.minutes}
    work = functools.partial(execute, directory=report.directory)
    records = completed(studies, by_processes(work, **effort), report)
    histories = {
        study: history_of(study, shortened(record, study.n_trials))
        for study, record in records.items()
    }

    pairs = [
        (history, entrant)
        for study, history in histories.items()
        for entrant in entrants
        if _is_asked_of(entrant, study, objectives[study.problem])
    ]
    replays = {
        replay: history
        for history, entrant in pairs
        if (replay := _replay_of(history.study, entrant)) is not None
    }
    work = functools.partial(evaluate, directory=report.directory)
    replay_all: Execute[Replay] = by_processes(
        work, inputs=lambda replay: (replays[replay],), **effort
    )
    found = completed(list(replays), replay_all, report)
    series = {replay: series_in(record) for replay, record in found.items()}
    outcomes = [
        _outcome(history, entrant, objectives[history.study.problem], series)
        for history, entrant in pairs
        if (replay := _replay_of(history.study, entrant)) is None or replay in series
    ]
    add_tables(report, outcomes)
    if not options.no_cost:
        _add_cost(options, report)


def _entrants(options: argparse.Namespace, report: Report) -> list[Entrant]:
    """Return the rules asked for, and skip the peer by name if it cannot run here."""
    names = [name for name in ENTRANTS if name in {*options.rules, *(options.peers or ())}]
    missing = peer_is_missing()
    if PEER in names and missing:
        report.skip(PEER, f"not installed: {', '.join(missing)}")
        names.remove(PEER)
    return [ENTRANTS[name] for name in names]


def _objectives(options: argparse.Namespace, report: Report) -> list[Objective]:
    """Return the objectives asked for; tables that are not stored yet are computed."""
    chosen = []
    for name in options.problems:
        if needs_table(name) and is_missing():
            report.skip(name, "not installed: sklearn")
            continue
        if needs_table(name):
            report.progress(f"table {name}")
        chosen.append(objective_of(name, report.directory))
    return chosen


def _is_asked_of(entrant: Entrant, study: StudyRun, objective: Objective) -> bool:
    """Tell whether a rule is applied to a run."""
    if entrant.noise_free_only and objective.is_noisy:
        return False
    if entrant.name == PEER:
        return SAMPLERS[study.entrant].ours and study.seed < PEER_SEEDS
    needs_scores = entrant.rule is not None and entrant.rule.threshold == "cross-validation"
    return objective.fold_scores is not None or not needs_scores


@functools.cache
def _replay_of(study: StudyRun, entrant: Entrant) -> Replay | None:
    """Return what makes the series that a rule is applied to, None for a control."""
    if entrant.criterion is None:
        return None
    return replay_of(
        study,
        entrant.criterion,
        threshold=entrant.threshold,
        deterministic=entrant.is_deterministic,
    )


def _outcome(
    history: History, entrant: Entrant, objective: Objective, series: Mapping[Replay, Series]
) -> Outcome:
    """Apply one rule to one history."""
    replay = _replay_of(history.study, entrant)
    if replay is None:
        stop = FIXED if entrant.name == "fixed" else stagnation_stop(history.values)
    elif entrant.rule is None:
        stop = series[replay].stop
    else:
        stop = stop_of(entrant.rule, series[replay], _best_scores(history, objective))
    if stop is not None and stop > len(history.values):
        stop = None
    return outcome_of(
        objective,
        history.regrets(objective.problem),
        stop,
        sampler=history.study.entrant,
        entrant=entrant.name,
        seed=history.study.seed,
    )


def _best_scores(history: History, objective: Objective) -> list[list[float]]:
    """Return the scores on the folds of the best trial so far, after each; empty without folds."""
    best, scores, found = math.inf, list[float](), []
    for params, value in zip(history.params, history.values, strict=True):
        if value < best:
            best = value
            scores = [] if objective.fold_scores is None else objective.fold_scores(params)
        found.append(scores)
    return found


def _add_cost(options: argparse.Namespace, report: Report) -> None:
    missing = peer_is_missing()
    if missing:
        report.skip(f"the cost of a trial, against {PEER}", f"not installed: {', '.join(missing)}")
    else:
        add_cost(report, quick=options.quick)
