"""Regret on the functions of COCO, an independent benchmark, of our samplers and their peers.

See ``benchmarks.problems.coco``, which needs the package ``coco-experiment``.
"""

import argparse
import time

from benchmarks.common.options import add_names
from benchmarks.common.report import Report
from benchmarks.common.sampler_benchmark import SamplerBenchmark, add_study_arguments
from benchmarks.common.tables import CheckpointTables
from benchmarks.problems.coco import NAMES, SUITES, problem_named, suite_of

DESCRIPTION = "Regret on the functions of COCO: continuous, with integers, with constraints."
SIZES = {
    "suites": tuple(SUITES),
    "problems": NAMES,
    "samplers": ("bbo", "ours-map", "gpsampler", "tpe", "random"),
    "seeds": 1,
}
QUICK = {
    "problems": ("bbob-f1-2", "mixint-f1-5", "constrained-f1-2"),
    "samplers": ("bbo", "tpe"),
    "trials": 12,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_names(parser, "--suites", tuple(SUITES))
    add_study_arguments(parser, NAMES)


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for, suite by suite."""
    asked, started = vars(options), time.monotonic()
    for suite in options.suites:
        problems = [name for name in options.problems if suite_of(name) == suite]
        if not problems:
            continue
        minutes = options.minutes
        if minutes is not None:  # what the suites before have left
            minutes = max(minutes - (time.monotonic() - started) / 60.0, 0.0)
        benchmark = SamplerBenchmark(
            problems=NAMES,
            problem_named=problem_named,
            tables=CheckpointTables(name=suite, trials=(40, 80)),
            first=["bbo", "ours-map"],
        )
        own = {"problems": problems, "minutes": minutes}
        benchmark.run(argparse.Namespace(**{**asked, **own}), report)
