"""GO-UCB in many dimensions: simple and cumulative regret, and seconds per suggestion.

Every run starts from the same start-up points (Latin hypercube, by seed) and asks its sampler up to
the problem's budget; every finished run is one JSON line with all its values. Runs already in the
file (same problem, same entrant's code, same seed, at least as many evaluations) are not repeated,
so that the benchmark can be run in pieces: by ``--parts``, ``--problems``, ``--samplers``,
``--trials``, ``--minutes``. The tables are made from all stored runs of what is asked for, and say
how many there are.

Seeds begin at 100: smaller ones were used while the sampler was made. GPSampler and TuRBO take
minutes per run and get fewer seeds where there are 50 or 100 parameters. Two parts, of 10 and 30
parameters, are for the choice between our own two samplers, and have no one else.
"""

import argparse
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import optuna

from benchmarks.common.report import Report, read_records
from benchmarks.common.samplers import quiet
from benchmarks.highdim import tuning as highdim_hpo
from benchmarks.highdim.entrants import (
    EXPENSIVE,
    LITERAL,
    OURS,
    PEERS,
    UHE_BO,
    available,
    competes,
    entrants,
    source_of,
)
from benchmarks.highdim.problems import CASES, Case
from benchmarks.highdim.speed import add_speed
from benchmarks.highdim.tables import (
    add_moved_tables,
    add_paper_table,
    add_seconds_table,
    add_tuning_table,
)
from benchmarks.problems.problem import from_unit, space_filling

DESCRIPTION = "Regret and suggestion time of GO-UCB and its peers with 7 to 100 parameters."
MOVED_PARTS = ("d10", "d20", "d30", "d50", "d100")
PARTS = ("paper", *MOVED_PARTS, "hpo", "speed")
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
QUICK_PROBLEMS = ("f1", "rosenbrock-20")
QUICK_TRIALS = 14
QUICK_SAMPLERS = (OURS, "literal", "tpe", "cma-es", "random")
_DIGITS = 9
PROTOCOL = 1


@dataclass(frozen=True, kw_only=True)
class Run:
    """One study to be run; ``key`` is what its stored record is found by."""

    problem: str
    fingerprint: str
    sampler: str
    source: str
    seed: int
    n_trials: int
    protocol: int = PROTOCOL

    @property
    def key(self) -> tuple[object, ...]:
        """All but the budget, which no entrant knows but the literal ones."""
        budget = self.n_trials if self.sampler in LITERAL else None
        return (
            *(self.problem, self.fingerprint, self.sampler),
            *(self.source, self.seed, self.protocol, budget),
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    names = (OURS, UHE_BO, *LITERAL, *PEERS)
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--problems",
        nargs="+",
        choices=sorted(CASES),
        metavar="NAME",
        help=f"only these, of {', '.join(CASES)}",
    )
    parser.add_argument(
        "--samplers",
        nargs="+",
        choices=names,
        metavar="NAME",
        help=f"only these entrants, of {', '.join(names)}",
    )
    parser.add_argument(
        "--trials",
        type=int,
        metavar="N",
        help="evaluations per run, if the problem's budget is larger; a longer run that is stored "
        "counts as a shorter one",
    )
    parser.add_argument(
        "--expensive-seeds",
        type=int,
        metavar="K",
        help=f"seeds of {' and '.join(EXPENSIVE)} (default: by part)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="begin no further run after M minutes; 0 makes the tables from what is stored",
    )


def execute(run: Run) -> dict[str, Any]:
    """Run one study; returns its record."""
    quiet()
    case = CASES[run.problem]
    n_startup = min(case.n_startup, run.n_trials)
    sampler = entrants(n_startup)[run.sampler].build(run.seed, run.n_trials)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    for point in space_filling(n_startup, len(case.space), np.random.default_rng(run.seed)):
        study.enqueue_trial(from_unit(case.space, point))
    values, seconds = [], []
    for _ in range(run.n_trials):
        start = time.process_time()
        trial = study.ask(dict(case.space))
        seconds.append(round(time.process_time() - start, 5))
        value = case.value(trial.params)
        study.tell(trial, value)
        values.append(float(f"{value:.{_DIGITS}g}"))
    return {**asdict(run), "values": values, "seconds": seconds}


def planned_runs(
    cases: Sequence[Case],
    samplers: Sequence[str],
    *,
    seeds: int | None,
    expensive_seeds: int | None,
    n_trials: int | None,
) -> list[Run]:
    """Return every run, seed by seed, so that an interrupted benchmark has complete seeds."""
    known = entrants(1)
    sources = {name: source_of(known[name]) for name in samplers}
    runs = []
    for number in range(max((seeds or 0, *(SEEDS[case.part][0] for case in cases)))):
        for case in cases:
            all_seeds, few_seeds = SEEDS[case.part]
            all_seeds = seeds or all_seeds
            few_seeds = min(all_seeds, few_seeds if expensive_seeds is None else expensive_seeds)
            runs += [
                Run(
                    problem=case.name,
                    fingerprint=case.fingerprint(),
                    sampler=name,
                    source=sources[name],
                    seed=FIRST_SEED + number,
                    n_trials=min(n_trials or case.n_trials, case.n_trials),
                )
                for name in samplers
                if number < (few_seeds if name in EXPENSIVE else all_seeds)
                and competes(name, case.part)
            ]
    return runs


def stored_runs(records: Iterable[dict[str, Any]]) -> dict[tuple[object, ...], dict[str, Any]]:
    """Return the readable records by the key of their run, the longest one of each."""
    fields = Run.__dataclass_fields__
    stored: dict[tuple[object, ...], dict[str, Any]] = {}
    for record in records:
        if fields.keys() <= record.keys() and "values" in record:
            key = Run(**{name: record[name] for name in fields}).key
            if key not in stored or stored[key]["n_trials"] < record["n_trials"]:
                stored[key] = record
    return stored


def is_stored(run: Run, stored: Mapping[tuple[object, ...], Mapping[str, Any]]) -> bool:
    """Tell whether a record answers ``run``."""
    return run.key in stored and bool(stored[run.key]["n_trials"] >= run.n_trials)


def execute_all(runs: Sequence[Run], report: Report, *, minutes: float | None) -> None:
    """Execute runs until the time is up; each record is written as soon as it is there."""
    start = time.monotonic()
    for done, planned in enumerate(runs, start=1):
        if minutes is not None and time.monotonic() - start >= 60.0 * minutes:
            report.progress(f"stopped after {minutes:g} minutes: {len(runs) - done + 1} runs left")
            return
        record = execute(planned)
        report.record(**record)
        report.progress(
            f"[{done}/{len(runs)}] {planned.problem} {planned.sampler} seed {planned.seed}: "
            f"best {min(record['values']):.4g} ({sum(record['seconds']):.1f} s of asking)"
        )


def chosen_cases(options: argparse.Namespace, report: Report) -> list[Case]:
    """Return the cases that are asked for and can be run."""
    names = options.problems or (QUICK_PROBLEMS if options.quick else CASES)
    parts = options.parts or PARTS
    cases = [case for name, case in CASES.items() if name in names and case.part in parts]
    if highdim_hpo.is_missing() and any(case.part == "hpo" for case in cases):
        report.skip("the tuning tasks", "not installed: scikit-learn")
        cases = [case for case in cases if case.part != "hpo"]
    return cases


def run(options: argparse.Namespace, report: Report) -> None:
    """Run what is not stored yet, then report on everything asked for."""
    quiet()
    cases = chosen_cases(options, report)
    everyone = QUICK_SAMPLERS if options.quick else (OURS, UHE_BO, *LITERAL, *PEERS)
    samplers = available(options.samplers or everyone, report)
    runs = planned_runs(
        cases,
        samplers,
        seeds=options.seeds or (1 if options.quick else None),
        expensive_seeds=options.expensive_seeds,
        n_trials=options.trials or (QUICK_TRIALS if options.quick else None),
    )
    stored = stored_runs(read_records(report.records_path))
    todo = [planned for planned in runs if not is_stored(planned, stored)]
    report.progress(f"{len(runs)} runs, {len(runs) - len(todo)} of them stored already")
    execute_all(todo, report, minutes=options.minutes)
    stored = stored_runs(read_records(report.records_path))
    records = [stored[planned.key] for planned in runs if planned.key in stored]
    n_missing = sum(not is_stored(planned, stored) for planned in runs)
    if n_missing:
        report.note(f"**{n_missing} of {len(runs)} runs have not been made, or not to their end.**")
    add_paper_table(report, records, samplers)
    for part in MOVED_PARTS:
        add_moved_tables(report, records, samplers, part)
    add_tuning_table(report, records, samplers)
    add_seconds_table(report, records, samplers)
    if "speed" in (options.parts or PARTS):
        add_speed(report, samplers, quick=options.quick, record=options.minutes != 0)
