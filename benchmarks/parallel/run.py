"""Regret and wall time against the number of worker processes, with an objective that sleeps.

Each run is one study in a journal file, shared by 1, 2, 4 or 8 processes, each with a sampler of
its own seed. All runs of a problem have the same number of trials and the same ``N_STARTUP``
start-up points (by seed). A trial takes ``--seconds`` on average, between half and three halves of
it by its number, the same for every sampler: workers drift apart as they do in practice, and
sleeping costs no processor. Workers import what they need before the clock starts, and the clock
stops at the last completion. ``--jobs`` is the number of runs at once.

Reported: the regret of the best observed trial, evaluated without noise; how much more workers add
to it; wall time and speed-up; the processor time of a suggestion.
"""

import argparse
from dataclasses import asdict

from benchmarks.common.report import Report
from benchmarks.common.runs import completed
from benchmarks.common.sampler_benchmark import add_study_arguments
from benchmarks.common.samplers import available
from benchmarks.common.studies import planned
from benchmarks.parallel.study import SharedStudy, execute
from benchmarks.parallel.tables import add_tables
from benchmarks.problems.functions import PROBLEMS

DESCRIPTION = "Regret and wall time of studies shared by 1 to 8 worker processes."
SIZES = {
    "samplers": ("bbo", "ours-map", "gpsampler", "tpe", "random"),
    "problems": ("hartmann6", "ackley5", "mixed_interaction5"),
    "workers": (1, 2, 4, 8),
    "trials": 64,
    "seconds": 1.0,
    "seeds": 5,
}
QUICK = {
    "samplers": ("bbo", "tpe"),
    "problems": ("branin",),
    "workers": (1, 3),
    "trials": 16,
    "seconds": 0.05,
    "seeds": 1,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    parser.add_argument("--workers", type=int, nargs="+", metavar="N", help="numbers of workers")
    parser.add_argument("--seconds", type=float, help="mean duration of a trial")
    add_study_arguments(parser, tuple(PROBLEMS), jobs=1)


def run(options: argparse.Namespace, report: Report) -> None:
    """Run every study that is not stored yet, then report on all that were asked for."""
    entrants = available(options.samplers, report)
    problems = {name: PROBLEMS[name] for name in options.problems}
    studies = planned(problems.values(), entrants, range(options.seeds), n_trials=options.trials)
    runs = [
        SharedStudy(**asdict(study), workers=workers, seconds=options.seconds)
        for study in studies
        for workers in options.workers
    ]
    effort = {"jobs": options.jobs, "minutes": options.minutes}
    found = completed(runs, execute, report, **effort)
    if len(found) == len(runs):  # the tables are of whole groups
        names = [entrant.name for entrant in entrants]
        add_tables(report, list(found.values()), names, sorted(options.workers))
