"""How long one suggestion takes, ours and our peers', in turn on identical histories.

Each entrant has its own in-memory study that holds the same complete trials. Per step each is asked
once, in alternating order; the asked trial ends as one that never ran, from which nobody learns
anything, and the history's next trial is added, so that all histories grow alike. Every third step
uses up one more number: by a trial's number ours choose the model, and no cost may be missed. Two
steps before the counted ones warm the entrants up; a first suggestion of a fresh entrant is
reported as "cold".
What counts is ``study.ask`` with all parameters suggested, on one thread. The first entrant is the
one that the others' times are divided by.

Some settings are measured once more the way users run them. In "own study" each entrant tells the
values at the points that it suggested, so that ours knows which of its models improves more, and
all trials have fits to start from. And one setting runs in a process that finds no thread variable
in its environment, beside two processes that keep their cores busy.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from bbo_plugins.optuna.study.trials import mark_never_ran
from benchmarks.__main__ import THREAD_VARIABLES
from benchmarks.common.histories import history
from benchmarks.common.options import add_names, positive_int
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS, Entrant, available, quiet
from benchmarks.common.timing import (
    RATIO_HEADERS,
    RATIO_NOTE,
    Timing,
    in_fresh_process,
    ratio_cells,
    timed,
)
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import N_STARTUP, Problem

DESCRIPTION = "Suggestion time of our sampler and its peers, in turn, on histories and in studies."
WARM_UP = 2
SKIP_EVERY = 3  # steps, after which even numbers follow odd ones, and odd ones even ones
OWN_STEPS = 4  # times as many steps are timed in own studies, as times differ more there
N_BUSY = 2  # processes beside the measured one
BESIDE = f", beside {N_BUSY} busy processes, nothing set"


@dataclass(frozen=True)
class Setting:
    """One history: the problem and its length."""

    problem: str
    n: int


FUNCTIONS = ("hartmann6", "levy20")
SIZES = {
    "samplers": ("ours-map", "bbo", "gpsampler", "tpe"),
    "settings": (
        *(Setting("hartmann6", n) for n in (50, 100, 200, 500, 1000)),
        *(Setting("levy20", n) for n in (100, 200, 500)),
    ),
    "own": (Setting("hartmann6", 100), Setting("levy20", 100)),
    "beside": Setting("hartmann6", 200),
    "seeds": 3,
    "repetitions": 6,
}
QUICK = {
    "samplers": ("ours-map", "tpe"),
    "settings": (Setting("hartmann6", 20),),
    "own": (Setting("hartmann6", 16),),
    "beside": Setting("hartmann6", 20),
    "seeds": 1,
    "repetitions": 1,
}
# The least ratio GPSampler / ours-map of warm suggestions.
TARGETS: Mapping[Setting, float] = {
    Setting("hartmann6", 100): 8.0,
    Setting("hartmann6", 200): 15.0,
    Setting("hartmann6", 500): 25.0,
    Setting("hartmann6", 1000): 40.0,
    Setting("levy20", 200): 10.0,
}
# By the kind of suggestions: "warm", "cold", "own study".
Timings = Mapping[str, list[Timing]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_names(parser, "--samplers", SAMPLERS, "these entrants, first the one to compare with")
    parser.add_argument(
        "--lengths",
        nargs="+",
        type=positive_int,
        metavar="N",
        help=f"histories of these lengths, of {' and '.join(FUNCTIONS)}",
    )


def study_with(trials: Sequence[FrozenTrial], entrant: Entrant, seed: int) -> optuna.Study:
    """Return an in-memory study that holds ``trials``."""
    sampler = entrant.build(seed, n_startup_trials=N_STARTUP)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    study.add_trials(trials)
    return study


def timed_ask(study: optuna.Study, problem: Problem) -> tuple[Trial, float, float]:
    """Ask once; returns the trial with its parameters, and wall and CPU time in seconds."""
    space = dict(problem.space)
    return timed(lambda: study.ask(space))


def abandon(study: optuna.Study, trial: Trial) -> None:
    """End a trial that nobody runs; as a failed one it would be a setting that is not valid."""
    mark_never_ran(study, trial)
    study.tell(trial, state=TrialState.FAIL)


def measure(setting: Setting, entrants: Sequence[Entrant], *, seed: int, n_steps: int) -> Timings:
    """Time every entrant on one growing history."""
    problem = PROBLEMS[setting.problem]
    trials = history(problem, setting.n + n_steps, seed)
    timings: dict[str, list[Timing]] = {"warm": [], "cold": []}

    def note(kind: str, entrant: Entrant, step: int, wall: float, cpu: float) -> None:
        timing = Timing(entrant=entrant.name, seed=seed, step=step, wall=wall, cpu=cpu)
        timings[kind].append(timing)

    for entrant in entrants:
        # Modules load, and memory pools fill, at an entrant's first suggestion in this process.
        timed_ask(study_with(trials[:20], entrant, seed), problem)
        cold = study_with(trials[: setting.n], entrant, seed)
        note("cold", entrant, 0, *timed_ask(cold, problem)[1:])
    studies = [(e, study_with(trials[: setting.n - WARM_UP], e, seed)) for e in entrants]
    for step in range(-WARM_UP, n_steps):
        for entrant, study in studies if step % 2 == 0 else reversed(studies):
            trial, wall, cpu = timed_ask(study, problem)
            if step >= 0:
                note("warm", entrant, step, wall, cpu)
            abandon(study, trial)
            study.add_trial(trials[setting.n + step])
            if step % SKIP_EVERY == SKIP_EVERY - 1:
                abandon(study, study.ask())
    return timings


def measure_own(
    setting: Setting, entrants: Sequence[Entrant], *, seed: int, n_steps: int
) -> Timings:
    """Time every entrant in a study of its own; all have the same start-up points."""
    problem = PROBLEMS[setting.problem]
    timings: list[Timing] = []
    studies = [(entrant, study_with([], entrant, seed)) for entrant in entrants]
    for _, study in studies:
        for point in problem.startup_points(seed, N_STARTUP):
            study.enqueue_trial(point)
    for step in range(-setting.n, OWN_STEPS * n_steps):
        for entrant, study in studies if step % 2 == 0 else reversed(studies):
            trial, wall, cpu = timed_ask(study, problem)
            study.tell(trial, problem.objective(trial, seed=seed))
            if step >= 0:
                timing = Timing(entrant=entrant.name, seed=seed, step=step, wall=wall, cpu=cpu)
                timings.append(timing)
    return {"own study": timings}


@contextmanager
def busy_processes() -> Iterator[None]:
    """Keep ``N_BUSY`` cores busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(N_BUSY)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure_beside_busy(
    setting: Setting, entrants: Sequence[Entrant], *, seed: int, n_steps: int
) -> Timings:
    """Time every entrant as :func:`measure` does, in a new process beside busy ones."""
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    words = [setting.problem, setting.n, seed, n_steps, *(e.name for e in entrants)]
    code = "import sys; from benchmarks.latency.run import print_timings as p; p(*sys.argv[1:])"
    with busy_processes():
        found = in_fresh_process(code, *map(str, words), environment=environment)
    return {kind + BESIDE: [Timing(**one) for one in timings] for kind, timings in found.items()}


def print_timings(problem: str, n: str, seed: str, n_steps: str, *names: str) -> None:
    """Print the timings that :func:`measure_beside_busy` asks a new process for."""
    quiet()
    entrants = [SAMPLERS[name] for name in names]
    found = measure(Setting(problem, int(n)), entrants, seed=int(seed), n_steps=int(n_steps))
    print(json.dumps({kind: [asdict(one) for one in timings] for kind, timings in found.items()}))


def add_ratio_table(
    report: Report, found: Mapping[tuple[str, Setting], Sequence[Timing]], names: Sequence[str]
) -> None:
    """Add the table of ratios of each entrant's times to the first one's."""
    first, *peers = names
    rows = []
    for peer in peers:
        for (kind, setting), timings in found.items():
            judged = (kind, first, peer) == ("warm", "ours-map", "gpsampler")
            goal = TARGETS.get(setting) if judged else None
            head = [PROBLEMS[setting.problem].dimension, setting.n, kind, peer]
            rows.append([*head, *ratio_cells(timings, first, peer, goal)])
    title = f"Median suggestion time, peer / {first}"
    report.table(title, ["d", "n", "history", "peer", *RATIO_HEADERS], rows)
    report.note(RATIO_NOTE)


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure all settings, then report."""
    report.restart()
    entrants = available(options.samplers, report)
    if len(entrants) < 2:
        report.note("Nothing was measured: two entrants are needed.")
        return
    settings: Sequence[Setting] = options.settings
    if options.lengths:
        settings = [Setting(problem, n) for problem in FUNCTIONS for n in options.lengths]
    found: dict[tuple[str, Setting], list[Timing]] = {}
    for setting, method in (
        *((setting, measure) for setting in settings),
        *((setting, measure_own) for setting in options.own),
        (options.beside, measure_beside_busy),
    ):
        for seed in range(options.seeds):
            report.progress(f"timing {setting.problem}, n = {setting.n}, seed {seed}")
            timings = method(setting, entrants, seed=seed, n_steps=options.repetitions)
            for kind, fresh in timings.items():
                found.setdefault((kind, setting), []).extend(fresh)
                for one in fresh:
                    report.record(kind=kind, **asdict(setting), **asdict(one))
    add_ratio_table(report, found, [entrant.name for entrant in entrants])
