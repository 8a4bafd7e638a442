"""Studies of problems by samplers: the runner of every benchmark whose entrants are samplers.

Every entrant meets the same start-up points, the same noise and the same budget by seed.  Problems
are those of ``benchmarks.problems.problem``: functions of a fixed space, or any Optuna objective
(conditional parameters, constraints, several objectives).  Tables of what is measured are made by
``benchmarks.common.tables``.

A benchmark of this kind is its problems, its entrants and one call of :func:`run_studies`.
"""

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial

from benchmarks.common.report import Report
from benchmarks.common.runs import Record, Run, completed
from benchmarks.common.samplers import Entrant, quiet
from benchmarks.problems.problem import StudyProblem


@dataclass(frozen=True, kw_only=True)
class StudyRun(Run):
    """One study to be run."""

    fingerprint: str
    knows_budget: bool = False

    @property
    def key(self) -> Self:
        """All but the budget, unless the entrant knows it: longer runs answer shorter ones."""
        return self if self.knows_budget else replace(self, n_trials=0)


def run_study(
    problem: StudyProblem,
    sampler: BaseSampler,
    *,
    seed: int,
    n_trials: int,
    before_tell: Callable[[Trial], object] = lambda _trial: None,
) -> tuple[list[FrozenTrial], list[float]]:
    """Run one study.

    Args:
        problem: What to optimize.
        sampler: By what.
        seed: Of the start-up points and of the noise.
        n_trials: Number of trials.
        before_tell: Called with every trial when its value is known and the study is not told yet.

    Returns:
        All trials, and the processor seconds of each suggestion.
    """
    quiet()
    study = optuna.create_study(directions=list(problem.directions), sampler=sampler)
    for params in problem.startup_points(seed, min(problem.n_startup, n_trials)):
        study.enqueue_trial(dict(params))
    seconds = []
    for _ in range(n_trials):
        start = time.process_time()
        trial = study.ask(dict(problem.space))
        asked = time.process_time()
        value = problem.objective(trial, seed=seed)
        # Where the objective suggests, it is part of the suggestion.
        seconds.append((asked if problem.space else time.process_time()) - start)
        before_tell(trial)
        study.tell(trial, value)
    return study.get_trials(deepcopy=False), seconds


def execute(
    run: StudyRun, problem_named: Callable[[str], StudyProblem], entrants: Mapping[str, Entrant]
) -> dict[str, Any]:
    """Execute one run; returns what the problem measures, and ``seconds`` of each suggestion."""
    problem = problem_named(run.problem)
    n_startup = min(problem.n_startup, run.n_trials)
    sampler = entrants[run.entrant].build(
        run.seed, n_startup_trials=n_startup, budget=run.n_trials, problem=problem
    )
    trials, seconds = run_study(problem, sampler, seed=run.seed, n_trials=run.n_trials)
    return {**problem.measured(trials), "seconds": [round(each, 5) for each in seconds]}


def planned(
    problems: Iterable[StudyProblem],
    entrants: Sequence[Entrant],
    seeds: Callable[[StudyProblem, Entrant], Iterable[int]],
    *,
    n_trials: int | None = None,
) -> list[StudyRun]:
    """Return every run, seed by seed, so that an interrupted benchmark has complete seeds.

    Args:
        problems: The problems.
        entrants: The entrants.
        seeds: The seeds of an entrant on a problem; none if it does not take part.
        n_trials: The largest budget; None for each problem's own.
    """
    sources = {entrant.name: entrant.source() for entrant in entrants}
    runs = [
        StudyRun(
            problem=problem.name,
            entrant=entrant.name,
            seed=seed,
            n_trials=problem.n_trials if n_trials is None else n_trials,
            fingerprint=problem.fingerprint,
            source=sources[entrant.name],
            knows_budget=entrant.knows_budget,
        )
        for problem in problems
        for entrant in entrants
        for seed in seeds(problem, entrant)
    ]
    return sorted(runs, key=lambda run: run.seed)


def run_studies(
    runs: Sequence[StudyRun],
    problem_named: Callable[[str], StudyProblem],
    entrants: Iterable[Entrant],
    report: Report,
    *,
    jobs: int = 1,
    minutes: float | None = None,
) -> list[Record]:
    """Run the studies that are not stored yet; returns the records of all, in their order.

    Args:
        runs: The studies.
        problem_named: Returns a problem; a function of a module, or a partial one, which other
            processes can import.
        entrants: At least those of the runs.
        report: Where records are, and go.
        jobs: Number of processes.
        minutes: No study begins after so many.
    """
    work = functools.partial(
        execute,
        problem_named=problem_named,
        entrants={entrant.name: entrant for entrant in entrants},
    )
    found = completed(runs, work, report, jobs=jobs, minutes=minutes)
    return [shortened(record, run.n_trials) for run, record in found.items()]


def shortened(record: Record, n_trials: int) -> Record:
    """Return a record as if its run had ended after ``n_trials``."""
    series = {k: v[:n_trials] for k, v in record.items() if isinstance(v, list)}
    return {**record, **series, "n_trials": min(record["n_trials"], n_trials)}
