"""GO-UCB in many dimensions: simple and cumulative regret.

A longer run that is stored counts as a shorter one, so that the benchmark can be run in pieces: by
``--parts``, ``--problems``, ``--samplers``, ``--trials``, ``--minutes``. The tables are made from
all stored runs of what is asked for, and say how many there are.

Seeds begin at 100: smaller ones were used while the sampler was made. GPSampler, TuRBO, HEBO and
SMAC3 take minutes per run and get fewer seeds where there are 50 or 100 parameters. Two parts, of
10 and 30 parameters, are for the choice between our own samplers, and have no one else. Suggestion
times in turn are measured by ``python -m benchmarks latency --samplers go-ucb gpsampler``.
"""

import argparse
from dataclasses import replace

from benchmarks.common.options import add_names
from benchmarks.common.report import Report
from benchmarks.common.sampler_benchmark import add_study_arguments
from benchmarks.common.samplers import Entrant, available
from benchmarks.common.studies import planned, run_studies
from benchmarks.common.tables import add_seconds
from benchmarks.highdim.entrants import (
    BBO,
    ENTRANTS,
    EXPENSIVE,
    LITERAL,
    OURS,
    PEERS,
    UHE_BO,
    competes,
)
from benchmarks.highdim.problems import PARTS, PROBLEMS, part_of, problem_named
from benchmarks.highdim.tables import add_cumulative, add_moved_tables
from benchmarks.problems.problem import StudyProblem

DESCRIPTION = "Regret of GO-UCB and its peers with 7 to 100 parameters."
MOVED_PARTS = tuple(f"d{dimension}" for dimension in PARTS)
ALL_PARTS = ("paper", *MOVED_PARTS, "hpo")
FIRST_SEED = 100
# Per part: seeds of all entrants, and of those that take minutes per run.
SEEDS = {
    "paper": (5, 5),
    "d10": (10, 10),
    "d20": (10, 10),
    "d30": (10, 10),
    "d50": (5, 3),
    "d100": (5, 3),
    "hpo": (5, 5),
}
SIZES = {
    "parts": ALL_PARTS,
    "problems": tuple(PROBLEMS),
    "samplers": (BBO, OURS, UHE_BO, *LITERAL, *PEERS),
}
QUICK = {
    "problems": ("f1", "rosenbrock-20"),
    "samplers": (OURS, "literal", "tpe", "cma-es", "random"),
    "seeds": 1,
    "trials": 14,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_names(parser, "--parts", ALL_PARTS)
    add_study_arguments(parser, tuple(PROBLEMS), ENTRANTS, jobs=1)
    parser.add_argument(
        "--expensive-seeds",
        type=int,
        metavar="K",
        help=f"seeds of {' and '.join(EXPENSIVE)} (default: by part)",
    )


def seeds_of(problem: StudyProblem, entrant: Entrant, options: argparse.Namespace) -> range:
    """Return the seeds of an entrant on a problem; none if it does not take part."""
    part = part_of(problem.name)
    if not competes(entrant.name, part):
        return range(0)
    n_all, n_few = SEEDS[part]
    n_all = options.seeds or n_all
    n_few = min(n_all, n_few if options.expensive_seeds is None else options.expensive_seeds)
    return range(FIRST_SEED, FIRST_SEED + (n_few if entrant.name in EXPENSIVE else n_all))


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for."""
    parts = [part_of(name) for name in options.problems]
    asked = [part for part in options.parts if part in parts]
    problems = [
        problem
        for name, problem in PROBLEMS.items()
        if name in options.problems and part_of(name) in asked
    ]
    entrants = available((*options.samplers, *options.peers), report, ENTRANTS)
    names = [entrant.name for entrant in entrants]
    n_most = options.trials or max((problem.n_trials for problem in problems), default=0)
    runs = planned(
        [replace(problem, n_trials=min(n_most, problem.n_trials)) for problem in problems],
        entrants,
        lambda problem, entrant: seeds_of(problem, entrant, options),
    )
    records = run_studies(
        runs, problem_named, entrants, report, jobs=options.jobs, minutes=options.minutes
    )
    what = "The paper's {}: mean ± 1.96 standard errors (seeds)"
    add_cumulative(report, records, names, "paper", what.format("functions (20 parameters)"))
    for part in MOVED_PARTS:
        add_moved_tables(report, records, names, part)
    add_cumulative(report, records, names, "hpo", what.format("tuning tasks (error rate)"))
    add_seconds(report, records, names, {name: part_of(name) for name in PROBLEMS})
