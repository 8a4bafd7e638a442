"""When to stop: criteria replayed over whole studies, and what stopping would have lost and saved.

Studies of every objective by every sampler are run once, to the full budget and never stopped
(``benchmarks.stopping.histories``); every criterion is then replayed over them completion by
completion (``benchmarks.stopping.series``), and every rule is applied to what it said. Histories
and series are JSON lines; those that are in the file already are not computed again, and another
threshold, patience or start costs nothing.

Reported, rule by rule and sampler by sampler, noisy objectives apart, on the half of the objectives
that rules may be tuned on and on the held-out half: how often the study was stopped and when, the
normalized simple regret then, in which share of runs stopping lost more than 1%, and the share of
the budget saved. Regret is that of the incumbent a user takes, the best observed trial, evaluated
without noise. Two controls need no model: ``stagnation`` (no better value in 30 trials, as Optuna's
BestValueStagnationEvaluator) and ``fixed`` (after 65 trials, whatever happens).
"""

import argparse
import concurrent.futures
import functools
import math
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from typing import Any

from benchmarks.common.report import Report, read_records
from benchmarks.common.samplers import SAMPLERS, available, quiet
from benchmarks.stopping.cost import add_cost
from benchmarks.stopping.histories import History, Run, execute, histories, planned_runs
from benchmarks.stopping.problems import (
    BUDGET,
    NAMES,
    QUICK_TABLE,
    Objective,
    default_names,
    needs_table,
    objective_of,
    tables_are_missing,
)
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
    Series,
    Source,
    evaluate,
    peer_is_missing,
    source_of,
    stored_series,
)
from benchmarks.stopping.tables import Outcome, add_tables, outcome_of

DESCRIPTION = "Regret lost and budget saved by stopping criteria, and what they cost."
DEFAULT_SAMPLERS = ("ours-uhe", "ours-map", "tpe", "random")
DEFAULT_SEEDS, QUICK_SEEDS = 10, 1
PEER_SEEDS = 3  # it costs more than all else together
QUICK_OBJECTIVES = ("booth", "noisy_branin", QUICK_TABLE)
QUICK_SAMPLERS = ("ours-uhe", "random")
QUICK_BUDGET = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    parser.add_argument(
        "--jobs", type=int, default=2, help="processes, each with one thread (default: %(default)s)"
    )
    parser.add_argument("--trials", type=int, help=f"budget of every objective (default: {BUDGET})")
    parser.add_argument(
        "--objectives", nargs="+", choices=NAMES, metavar="NAME", help="only these objectives"
    )
    parser.add_argument(
        "--samplers",
        nargs="+",
        choices=sorted(SAMPLERS),
        default=None,
        metavar="NAME",
        help=f"of {', '.join(sorted(SAMPLERS))} (default: {' '.join(DEFAULT_SAMPLERS)})",
    )
    parser.add_argument(
        "--rules",
        nargs="+",
        choices=DEFAULT_ENTRANTS,
        default=DEFAULT_ENTRANTS,
        metavar="NAME",
        help=f"of {', '.join(DEFAULT_ENTRANTS)} (default: all)",
    )
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=(PEER,),
        default=(),
        metavar="NAME",
        help=f"rules in addition: {PEER}, with our samplers and the first {PEER_SEEDS} seeds",
    )
    parser.add_argument("--no-cost", action="store_true", help="leave out the cost of a trial")


def run(options: argparse.Namespace, report: Report) -> None:
    """Run and evaluate what is not stored yet, then report on everything asked for."""
    quiet()
    default_samplers = QUICK_SAMPLERS if options.quick else DEFAULT_SAMPLERS
    samplers = available(options.samplers or default_samplers, report)
    entrants = _entrants(options, report)
    objectives = _objectives(options, report)
    n_trials = options.trials or (QUICK_BUDGET if options.quick else BUDGET)
    seeds = options.seeds or (QUICK_SEEDS if options.quick else DEFAULT_SEEDS)
    runs = planned_runs(objectives, samplers, seeds, n_trials)
    finished = _run_studies(runs, report, jobs=options.jobs)
    by_name = {objective.name: objective for objective in objectives}
    pairs = [
        (finished[planned], entrant)
        for planned in runs
        for entrant in entrants
        if _is_asked_of(entrant, planned, by_name[planned.function])
    ]
    series = _evaluate(pairs, report, jobs=options.jobs)
    outcomes = [
        _outcome(history, entrant, by_name[history.run.function], series)
        for history, entrant in pairs
    ]
    add_tables(report, outcomes)
    if not options.no_cost:
        _add_cost(options, report)


def _entrants(options: argparse.Namespace, report: Report) -> list[Entrant]:
    """Return the rules asked for, and skip the peer by name if it cannot run here."""
    names = [name for name in ENTRANTS if name in {*options.rules, *options.peers}]
    missing = peer_is_missing()
    if PEER in names and missing:
        report.skip(PEER, f"not installed: {', '.join(missing)}")
        names.remove(PEER)
    return [ENTRANTS[name] for name in names]


def _objectives(options: argparse.Namespace, report: Report) -> list[Objective]:
    """Return the objectives asked for; tables that are not stored yet are computed."""
    default = QUICK_OBJECTIVES if options.quick else default_names()
    chosen = []
    for name in options.objectives or default:
        if needs_table(name) and tables_are_missing():
            report.skip(name, "not installed: sklearn")
            continue
        if needs_table(name):
            report.progress(f"table {name}")
        chosen.append(objective_of(name, report.directory))
    return chosen


def _is_asked_of(entrant: Entrant, planned: Run, objective: Objective) -> bool:
    """Tell whether a rule is applied to a run."""
    if entrant.noise_free_only and objective.is_noisy:
        return False
    if entrant.name == PEER:
        return SAMPLERS[planned.sampler].ours and planned.seed < PEER_SEEDS
    needs_scores = entrant.rule is not None and entrant.rule.threshold == "cross-validation"
    return objective.fold_scores is not None or not needs_scores


def _run_studies(runs: Sequence[Run], report: Report, *, jobs: int) -> dict[Run, History]:
    """Run the studies that are not stored yet; returns all histories."""
    stored = histories(read_records(report.records_path))
    todo = [planned for planned in runs if planned not in stored]
    report.progress(f"{len(runs)} studies, {len(runs) - len(todo)} of them stored already")
    work = functools.partial(execute, directory=report.directory)
    for done, record in enumerate(_mapped(work, [(planned,) for planned in todo], jobs), start=1):
        report.record(**record)
        place = f"{record['function']} {record['sampler']} seed {record['seed']}"
        report.progress(f"[{done}/{len(todo)}] {place}")
    return histories(read_records(report.records_path))


def _evaluate(
    pairs: Iterable[tuple[History, Entrant]], report: Report, *, jobs: int
) -> dict[tuple[tuple[Any, ...], Source], Series]:
    """Replay the criteria that are not stored yet; returns all series."""
    wanted = dict.fromkeys(
        (history.run, source)
        for history, entrant in pairs
        if (source := _source_of(entrant)) is not None
    )
    of_run = {history.run: history for history, _ in pairs}
    stored = stored_series(read_records(report.records_path))
    todo = [(of_run[run], source) for run, source in wanted if (astuple(run), source) not in stored]
    report.progress(f"{len(wanted)} replays, {len(wanted) - len(todo)} of them stored already")
    work = functools.partial(evaluate, directory=report.directory)
    for done, record in enumerate(_mapped(work, todo, jobs), start=1):
        report.record(**record)
        place = f"{record['run']['function']} {record['run']['sampler']} {record['criterion']}"
        report.progress(f"[{done}/{len(todo)}] {place}")
    return stored_series(read_records(report.records_path))


def _mapped(
    work: Callable[..., dict[str, Any]], items: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[dict[str, Any]]:
    """Yield the results of ``work`` as soon as they are there, over several processes."""
    if jobs == 1:
        yield from (work(*item) for item in items)
        return
    # Spawned, not forked: torch and BLAS have threads, and locks, of their own.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=jobs, mp_context=context) as pool:
        futures = [pool.submit(work, *item) for item in items]
        try:
            for future in concurrent.futures.as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@functools.cache
def _source_of(entrant: Entrant) -> Source | None:
    """Return what makes the series of a rule, None for a control."""
    if entrant.criterion is None:
        return None
    return source_of(
        entrant.criterion, threshold=entrant.threshold, deterministic=entrant.is_deterministic
    )


def _outcome(
    history: History,
    entrant: Entrant,
    objective: Objective,
    series: dict[tuple[tuple[Any, ...], Source], Series],
) -> Outcome:
    """Apply one rule to one history."""
    source = _source_of(entrant)
    if source is None:
        is_blind = entrant.name == "fixed"
        stop = FIXED if is_blind else stagnation_stop(history.values)
    elif entrant.rule is None:
        stop = series[astuple(history.run), source].stop
    else:
        found = series[astuple(history.run), source]
        stop = stop_of(entrant.rule, found, _best_scores(history, objective))
    if stop is not None and stop > len(history.values):
        stop = None
    return outcome_of(
        objective,
        history.regrets(objective.problem),
        stop,
        sampler=history.run.sampler,
        entrant=entrant.name,
        seed=history.run.seed,
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
