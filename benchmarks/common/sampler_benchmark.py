"""A benchmark of samplers: its command line, its studies and its tables, from what is its own.

The ``run`` module of such a benchmark has its ``DESCRIPTION``, ``SIZES`` and ``QUICK`` (which name
problems, samplers and seeds), a function that returns a problem by its name, and::

    BENCHMARK = SamplerBenchmark(...)
    add_arguments, run = BENCHMARK.add_arguments, BENCHMARK.run
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.common.options import add_count, add_effort, add_names
from benchmarks.common.report import Report
from benchmarks.common.runs import Record
from benchmarks.common.samplers import SAMPLERS, Entrant, available
from benchmarks.common.studies import planned, run_studies
from benchmarks.common.tables import CheckpointTables, Comparison, add_seconds
from benchmarks.problems.problem import StudyProblem


def add_study_arguments(
    parser: argparse.ArgumentParser,
    problems: Sequence[str],
    entrants: Mapping[str, Entrant] = SAMPLERS,
    *,
    jobs: int = 2,
) -> None:
    """Add the options of a benchmark that runs studies."""
    add_names(parser, "--problems", problems)
    add_names(parser, "--samplers", entrants, "only these entrants")
    add_count(parser, "--trials", "budget of every problem (default: stated per problem)")
    add_effort(parser)
    parser.set_defaults(jobs=jobs)


@dataclass(frozen=True, kw_only=True)
class SamplerBenchmark:
    """What is a benchmark's own.

    Attributes:
        problems: Names of the problems.
        problem_named: Returns a problem; a function of a module, which other processes import.
        tables: Its tables.
        first: The entrants that are compared in pairs with all others; by default ours.
        entrants: Who may take part, by name.
        first_seed: Where the seeds begin, higher than those by which samplers were tuned.
    """

    problems: Sequence[str]
    problem_named: Callable[[str], StudyProblem]
    tables: CheckpointTables
    first: Sequence[str] = ()
    entrants: Mapping[str, Entrant] = field(default_factory=lambda: SAMPLERS)
    first_seed: int = 0

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options."""
        add_study_arguments(parser, self.problems, self.entrants)

    def run(self, options: argparse.Namespace, report: Report) -> list[Record]:
        """Run what is not stored yet, then add the tables of everything asked for; the records."""
        problems = {name: self.problem_named(name) for name in options.problems}
        entrants = available(options.samplers, report, self.entrants)
        runs = planned(
            problems.values(),
            entrants,
            lambda _problem, _entrant: range(self.first_seed, self.first_seed + options.seeds),
            n_trials=options.trials,
        )
        effort = {"jobs": options.jobs, "minutes": options.minutes}
        records = run_studies(runs, self.problem_named, entrants, report, **effort)
        names = [entrant.name for entrant in entrants]
        groups = {name: problem.group for name, problem in problems.items()}
        comparison = Comparison.of(records, names, problems, groups)
        ours = [entrant.name for entrant in entrants if entrant.ours]
        self.tables.add(report, comparison, first=self.first or ours)
        for name, problem in problems.items():
            if len(problem.directions) > 1:
                groups[name] = f"{len(problem.directions)} objectives"
        add_seconds(report, records, names, groups)
        return records
