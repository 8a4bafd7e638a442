"""Hypervolume that is missing to the best front known, of our sampler and its peers.

Thirteen problems with two to four objectives (``benchmarks.problems.multi_objective``). Details of
the step were chosen on the six of the group "chosen on"; those of "held out" were tried afterwards.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.common.report import Report, read_records
from benchmarks.common.sampler_benchmark import SamplerBenchmark
from benchmarks.common.samplers import SAMPLERS, Entrant, by_name
from benchmarks.common.tables import CheckpointTables
from benchmarks.problems.multi_objective import ALL, CHOSEN_ON, problem_named

DESCRIPTION = "Missing hypervolume with two to four objectives, constrained, noisy and mixed."
SIZES = {
    "problems": ALL,
    "samplers": ("bbo", "gpsampler", "tpe", "nsga2", "random", "qlognehvi"),
    "seeds": 10,
}
QUICK = {"problems": ("bnh",), "samplers": ("bbo", "nsga2"), "trials": 14, "seeds": 1}
_TIMED = range(55, 65)  # trials of which the time is given
_NOT_TIMED = {"forest_size"}  # its own time would count


ENTRANTS = by_name(
    (
        *SAMPLERS.values(),
        Entrant(name="nsga2", target="optuna.samplers:NSGAIISampler", distribution="optuna"),
        Entrant(
            name="qlognehvi",
            target="optuna_integration:BoTorchSampler",
            requires=("optuna_integration", "torch", "gpytorch", "botorch"),
            distribution="optuna-integration",
        ),
    )
)


@dataclass(frozen=True, kw_only=True)
class FrontBenchmark(SamplerBenchmark):
    """The usual tables, and the time of a suggestion by the number of objectives."""

    def run(self, options: argparse.Namespace, report: Report) -> None:
        """Run what is not stored yet, then add the tables of everything asked for."""
        super().run(options, report)
        add_times(report, options.problems, [*options.samplers, *options.peers])


def add_times(report: Report, problems: Sequence[str], entrants: Sequence[str]) -> None:
    """Add the median processor time of a suggestion after about 60 trials."""
    seconds: dict[tuple[int, str], list[float]] = {}
    for record in read_records(report.records_path):
        name = record["problem"]
        if name in problems and name not in _NOT_TIMED and len(record["seconds"]) >= _TIMED.stop:
            k = len(problem_named(name).directions)
            of_runs = seconds.setdefault((k, record["entrant"]), [])
            of_runs.append(statistics.median(record["seconds"][i] for i in _TIMED))
    present = [name for name in entrants if any(key[1] == name for key in seconds)]
    rows = []
    for k in sorted({k for k, _ in seconds}):
        times = (seconds.get((k, name)) for name in present)
        rows.append([k, *(f"{1e3 * statistics.median(t):.3g}" if t else "" for t in times)])
    if rows:
        title = f"Processor time of a suggestion in trials {_TIMED.start} to {_TIMED.stop - 1}, ms"
        report.table(title, ["objectives", *present], rows)


BENCHMARK = FrontBenchmark(
    problems=ALL,
    problem_named=problem_named,
    tables=CheckpointTables(name="multiobjective", trials=(40, 80)),
    first=["bbo"],
    entrants=ENTRANTS,
    groups={name: "chosen on" if name in CHOSEN_ON else "held out" for name in ALL},
)
add_arguments, run = BENCHMARK.add_arguments, BENCHMARK.run
