"""Simple regret per problem, sampler and seed, from the same start-up points and budget.

The regret is the noise-free regret of the incumbent a user would take: the best observed trial.

``--paper`` runs the UHE paper's own functions, unmoved, with its acquisition function (GP-UCB,
multiplier 1.96) and its 20 seeds; what its text leaves open is in
``benchmarks.problems.functions``. The paper's own model, and its prediction errors, are in
``python -m benchmarks papers uhe_bo``.

``--integers`` runs functions in which floats and integers act together
(``benchmarks.problems.integers``).

``--tables`` tunes scikit-learn models on its data sets, looked up in tables of cross-validated
scores (``benchmarks.problems.hpo_tables``), without noise and, some of them, with that of their
folds.
"""

import argparse
import functools
from typing import Any

from benchmarks.common.options import fill
from benchmarks.common.report import Report
from benchmarks.common.sampler_benchmark import SamplerBenchmark, add_study_arguments
from benchmarks.common.tables import CheckpointTables
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.tuning import NAMES, QUICK_TABLE, TABLE_NAMES, problem_named

DESCRIPTION = "Simple regret of our samplers and their peers on shifted and rotated test functions."
QUICK = {"seeds": 1, "trials": 13}
QUICK_PROBLEMS = {
    "regret": ("branin", "deceptive2", "noisy_hartmann6", "mixed_interaction5"),
    "regret-integers": ("integer_ridge4",),
    "regret-tables": (QUICK_TABLE,),
}
APART = {
    group: tuple(name for name, problem in PROBLEMS.items() if problem.group == group)
    for group in ("paper", "integers")
}
# Each kind of run, which is the name of its report, with the sizes that it has by default.
KINDS: dict[str, dict[str, Any]] = {
    "regret": {
        "problems": tuple(name for name, one in PROBLEMS.items() if one.group not in APART),
        "samplers": (
            *("bbo", "ours-uhe", "ours-map", "go-ucb"),
            *("gpsampler", "hebo", "smac", "tpe", "random"),
        ),
        "seeds": 10,
    },
    "regret-paper": {
        "problems": APART["paper"],
        "samplers": (
            *("ours-uhe-ucb", "ours-map-ucb", "uhe-literal"),
            *("gpsampler", "tpe", "random"),
        ),
        "seeds": 20,
    },
}
KINDS["regret-integers"] = {**KINDS["regret"], "problems": APART["integers"]}
KINDS["regret-tables"] = {**KINDS["regret"], "problems": TABLE_NAMES, "trials": 60}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_study_arguments(parser, NAMES)
    kind = parser.add_mutually_exclusive_group()
    for name, what in (
        ("paper", "the UHE paper's functions and settings"),
        ("integers", "functions of floats and integers"),
        ("tables", "tables of scikit-learn models' scores"),
    ):
        words = f"{what}; writes regret-{name}.*"
        kind.add_argument(
            f"--{name}", dest="kind", action="store_const", const=f"regret-{name}", help=words
        )
    parser.set_defaults(kind="regret")


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for."""
    report.name = options.kind
    quick_problems = {"problems": QUICK_PROBLEMS.get(options.kind, KINDS[options.kind]["problems"])}
    fill(options, KINDS[options.kind], {**QUICK, **quick_problems})
    named = functools.partial(problem_named, directory=report.directory)
    tables = CheckpointTables(name=options.kind, trials=None)
    SamplerBenchmark(problems=NAMES, problem_named=named, tables=tables).run(options, report)
