"""GO-UCB in many dimensions: simple and cumulative regret.

A longer run that is stored counts as a shorter one, so that the benchmark can be run in pieces: by
``--parts``, ``--problems``, ``--samplers``, ``--trials``, ``--minutes``. The tables are made from
all stored runs of what is asked for, and say how many there are.

Seeds begin at 100: smaller ones were used while the sampler was made. Two parts, of 10 and 30
parameters, are for the choice between our own samplers, and have no one else; the paper's literal
variants take part where nothing is moved. Suggestion times in turn are measured by
``python -m benchmarks latency --samplers go-ucb gpsampler``.

``ours`` is GO-UCB, ``bbo`` the sampler in which it takes turns with a Gaussian process.

``literal`` has the paper's settings; ``literal-exact`` solves the paper's optimization problems
instead of following them for its numbers of steps, with its other settings. ``uhe-bo`` is this
package's other sampler, for the question which of the two to use. All are told how many
start-up points there are, where they have an argument for it; the rest are their own defaults.
CMA-ES ignores the start-up points and begins at the center of the box, as Optuna's does by default.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.common.options import add_names
from benchmarks.common.report import Report
from benchmarks.common.runs import grouped
from benchmarks.common.sampler_benchmark import SamplerBenchmark, add_study_arguments
from benchmarks.common.samplers import SAMPLERS, Entrant, by_name
from benchmarks.common.tables import CheckpointTables, wald
from benchmarks.highdim.problems import PARTS, PROBLEMS, part_of, problem_named

DESCRIPTION = "Regret of GO-UCB and its peers with 7 to 100 parameters."
OURS = "ours"
BBO = "bbo"
UHE_BO = "uhe-bo"
LITERAL = ("literal", "literal-exact")
PEERS = ("gpsampler", "hebo", "smac", "turbo", "tpe", "cma-es", "random")
ENTRANTS = by_name(
    (
        replace(SAMPLERS["go-ucb"], name=OURS),
        SAMPLERS[BBO],
        replace(SAMPLERS["ours-uhe"], name=UHE_BO),
        *(
            Entrant(
                name=name,
                target="benchmarks.highdim.literal:LiteralSampler",
                arguments={"exact": name == "literal-exact"},
                knows_budget=True,
            )
            for name in LITERAL
        ),
        *(SAMPLERS[name] for name in PEERS),
    )
)
UNMOVED = {"paper": "functions (20 parameters)", "hpo": "tuning tasks (error rate)"}
ALL_PARTS = ("paper", *(f"d{dimension}" for dimension in PARTS), "hpo")
FEW = ("paper", "d50", "d100", "hpo")  # parts that have fewer seeds
CHECKPOINTS = {
    "d10": (50,), "d20": (100,), "d30": (100,), "d50": (100,), "d100": (100,)
}  # fmt: skip
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


def taking_part(samplers: Iterable[str], part: str) -> list[str]:
    """Return who of ``samplers`` takes part."""
    if part in {"d10", "d30"}:
        return [name for name in samplers if name in {BBO, OURS, UHE_BO}]
    return [name for name in samplers if part in UNMOVED or name not in LITERAL]


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for, part by part."""
    asked = vars(options)
    for part in options.parts:
        problems = [name for name in options.problems if part_of(name) == part]
        samplers = taking_part(options.samplers, part)
        if not problems or not samplers:
            continue
        benchmark = SamplerBenchmark(
            problems=problems,
            problem_named=problem_named,
            tables=CheckpointTables(
                name=part, trials=CHECKPOINTS.get(part), group=("family", "families")
            ),
            first=[BBO, OURS],
            entrants=ENTRANTS,
            first_seed=100,
        )
        seeds = options.seeds or (5 if part in FEW else 10)
        chosen = {"problems": problems, "samplers": samplers, "seeds": seeds}
        records = benchmark.run(argparse.Namespace(**{**asked, **chosen}), report)
        if part in UNMOVED:
            add_cumulative(report, records, samplers, part)


def add_cumulative(
    report: Report, records: Sequence[Mapping[str, Any]], samplers: Sequence[str], part: str
) -> None:
    """Add cumulative regret over all evaluations, and after the start-up.

    The optimum of a tuning task is the least error rate that any run has met.
    """
    rows = []
    for (problem,), of_problem in grouped(records, "problem").items():
        runs_of = grouped(of_problem, "entrant")
        values = {
            name: [np.array(record["values"]) for record in runs_of.get((name,), [])]
            for name in samplers
        }
        minimum = PROBLEMS[problem].minimum
        if part == "hpo":
            minimum = min(float(run.min()) for runs in values.values() for run in runs)
            report.note(f"Least error rate met on {problem}: {minimum:.5f}.")
        startup = PROBLEMS[problem].n_startup
        for what, first in (("all", 0), ("after the start-up", startup)):
            sums = {
                name: [float((run - minimum)[first:].sum()) for run in runs]
                for name, runs in values.items()
            }
            cells = [f"{wald(found)} ({len(found)})" if found else "" for found in sums.values()]
            rows.append([problem, what, *cells])
    report.table(
        f"The paper's {UNMOVED[part]}, cumulative regret: mean ± 1.96 standard errors (seeds)",
        ["problem", "trials", *samplers],
        rows,
    )
