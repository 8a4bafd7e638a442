"""The experiments of the five papers at the papers' own settings, as far as they can be run here.

``python -m benchmarks papers [NAME]`` with one of the five names runs one paper, without a name all
of them. Each module of this folder says what its paper leaves open and what was chosen;
``docs/papers.md`` sets the figures beside the papers'. Runs that are stored are not repeated.

The papers are rerun with plain models (``benchmarks.common.plain_gp``) and the papers' formulas,
not with this package's samplers: these have benchmarks of their own.
"""

import argparse
import functools
import importlib
import inspect
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.options import add_effort, add_names
from benchmarks.common.report import Report, file_digest, package_digest
from benchmarks.common.runs import Run, completed
from benchmarks.common.samplers import quiet
from benchmarks.problems.problem import digest_of

DESCRIPTION = "The five papers' own experiments, figure by figure."
PAPERS = ("uhe_bo", "go_ucb", "regret_gap", "inner_horizon", "bilbo")


@dataclass(frozen=True, kw_only=True)
class Experiment(Run):
    """One run of one paper; a longer one that is stored is another run.

    Attributes:
        paper: Module of this folder.
    """

    paper: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    parser.add_argument(
        "paper", nargs="?", choices=PAPERS, help="one paper; all of them if none is named"
    )
    cases = [case for paper in PAPERS for case in module_of(paper).cases(quick=False)]
    problems, entrants = (sorted({str(case[i]) for case in cases}) for i in (0, 1))
    add_names(parser, "--problems", problems)
    add_names(parser, "--entrants", entrants)
    add_effort(parser)
    parser.set_defaults(jobs=1)


def module_of(paper: str) -> Any:
    """Return the module of a paper, which has ``SEEDS``, ``cases``, ``execute``, ``add_tables``."""
    return importlib.import_module(f"benchmarks.papers.{paper}")


def _digest(module: Any) -> str:
    """Return a digest of what decides a run: a module up to its tables, which come last."""
    decisive, _, _ = inspect.getsource(module).partition("\ndef add_tables")
    return digest_of(decisive)


def planned(paper: str, options: argparse.Namespace) -> list[Experiment]:
    """Return the runs of one paper, seed by seed."""
    module = module_of(paper)
    parts = _digest(module), file_digest("benchmarks.common.plain_gp"), package_digest()
    source = "-".join(parts)
    fewer: Mapping[str, int] = getattr(module, "RUNS", {})
    usual = 1 if options.quick else module.SEEDS
    return [
        Experiment(
            source=source,
            paper=paper,
            problem=problem,
            entrant=entrant,
            seed=seed,
            n_trials=n_trials,
        )
        for seed in range(options.seeds or usual)
        for problem, entrant, n_trials in module.cases(quick=options.quick)
        if (options.seeds or seed < fewer.get(entrant, fewer.get(problem, usual)))
        and problem in (options.problems or [problem])
        and entrant in (options.entrants or [entrant])
    ]


def execute(run: Experiment, directory: Path) -> Mapping[str, Any]:
    """Execute one run; returns what was measured."""
    quiet()
    start = time.process_time()
    measured = module_of(run.paper).execute(asdict(run), directory)
    return {**measured, "cpu_seconds": round(time.process_time() - start, 2)}


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then add every paper's tables."""
    for paper in (options.paper,) if options.paper else PAPERS:
        module = module_of(paper)
        for what, why in module.missing() if hasattr(module, "missing") else ():
            report.skip(what, why)
        work = functools.partial(execute, directory=report.directory)
        effort = {"jobs": options.jobs, "minutes": options.minutes}
        records = list(completed(planned(paper, options), work, report, **effort).values())
        if not records:
            continue
        n_seeds = sorted({record["seed"] for record in records})
        report.note(f"**{paper}**: seeds {n_seeds[0]} to {n_seeds[-1]}; {len(records)} runs.")
        module.add_tables(report, records)
