"""How long one suggestion takes, ours and our peers', in turn on identical histories.

Each entrant has its own in-memory study that holds the same complete trials. Per step each is asked
once, in alternating order; the asked trial ends as one that never ran, from which nobody learns
anything, and the history's next trial is added, so that all histories grow alike. Two steps before
the counted ones warm the entrants up; a first suggestion of a fresh entrant is reported as "cold".
What counts is ``study.ask`` with all parameters suggested, on one thread.

One setting is measured once more the way users run it: in a process that finds no thread variable
in its environment, beside two processes that keep their cores busy.

The same run checks that speed is not bought with quality: see ``benchmarks.latency.quality``.
"""

import argparse
import cProfile
import io
import json
import os
import pstats
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from bbo_plugins.optuna.study.trials import mark_never_ran
from benchmarks.__main__ import THREAD_VARIABLES
from benchmarks.common import timing as common
from benchmarks.common.histories import history
from benchmarks.common.options import add_count, add_names
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS, Entrant, available, quiet
from benchmarks.common.tables import verdict
from benchmarks.latency.quality_tables import QualityLog, add_quality_tables, extra_cases
from benchmarks.problems.functions import PROBLEMS
from benchmarks.problems.problem import N_STARTUP, Problem

DESCRIPTION = "Suggestion time of our sampler and its peers on identical histories, in turn."
WARM_UP = 2
OURS = "ours-map"
TARGET_PEER = "gpsampler"
PROFILED_ASKS = 3
PROFILE_LINES = 14
# All of a suggestion, the model's part of it, and its two halves.
PROFILED_PARTS = ("ask", "suggest", "fit_map", "maximize")


@dataclass(frozen=True)
class Setting:
    """One history: the problem, its length, and the least ratio GPSampler / ours."""

    problem: str
    n: int
    target: float | None = None

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return PROBLEMS[self.problem].dimension


SETTINGS = (
    Setting("hartmann6", 50),
    Setting("hartmann6", 100, 8.0),
    Setting("hartmann6", 200, 15.0),
    Setting("hartmann6", 500, 25.0),
    Setting("hartmann6", 1000, 40.0),
    Setting("levy20", 100),
    Setting("levy20", 200, 10.0),
    Setting("levy20", 500),
)
SIZES = {
    "samplers": (OURS, "bbo", TARGET_PEER, "tpe"),
    "settings": SETTINGS,
    "beside": Setting("hartmann6", 200),
    "seeds": 3,
    "repetitions": 5,
}
QUICK = {
    "settings": (Setting("hartmann6", 30), Setting("levy20", 40)),
    "beside": Setting("hartmann6", 30),
    "seeds": 1,
    "repetitions": 2,
}
N_BUSY = 2  # processes beside the measured one


@dataclass(frozen=True, kw_only=True)
class Timing(common.Timing):
    """One timed suggestion."""

    problem: str
    dimension: int
    n: int
    warm: bool
    busy: bool = False

    @property
    def history(self) -> str:
        """What the suggestion started from, and beside what."""
        busy = f", beside {N_BUSY} busy processes, nothing set" if self.busy else ""
        return ("warm" if self.warm else "cold") + busy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this benchmark's own options."""
    add_names(parser, "--samplers", SAMPLERS, "only these entrants")
    add_names(parser, "--peers", SAMPLERS, "entrants in addition")
    parser.set_defaults(peers=[])
    add_count(parser, "--repetitions", "counted steps per history")
    add_count(parser, "--max-n", "leave out histories longer than this")
    parser.add_argument("--profile", action="store_true", help="profile ours in each setting")
    parser.add_argument(
        "--no-quality", action="store_true", help="leave out the check of fit and acquisition"
    )


def build(sampler: Entrant, seed: int) -> BaseSampler:
    """Build an entrant; GPSampler in the form that shows its model, which costs it nothing."""
    if sampler.name == TARGET_PEER:
        from benchmarks.latency.quality import CapturingGPSampler  # noqa: PLC0415 - needs the package

        return CapturingGPSampler(seed=seed)
    return sampler.build(seed, n_startup_trials=N_STARTUP)


def study_with(trials: Sequence[FrozenTrial], sampler: BaseSampler) -> optuna.Study:
    """Return an in-memory study that holds ``trials``."""
    study = optuna.create_study(direction="minimize", sampler=sampler)
    study.add_trials(trials)
    return study


def timed_ask(study: optuna.Study, problem: Problem) -> tuple[Trial, float, float]:
    """Ask once; returns the trial with its parameters, and wall and CPU time in seconds."""
    space = dict(problem.space)
    return common.timed(lambda: study.ask(space))


def abandon(study: optuna.Study, trial: Trial) -> None:
    """End a trial that nobody runs; as a failed one it would be a setting that is not valid."""
    mark_never_ran(study, trial)
    study.tell(trial, state=TrialState.FAIL)


def measure(
    setting: Setting,
    entrants: Sequence[Entrant],
    *,
    seed: int,
    repetitions: int,
    log: QualityLog | None,
) -> list[Timing]:
    """Time every entrant on one growing history."""
    problem = PROBLEMS[setting.problem]
    trials = history(problem, setting.n + repetitions, seed)
    timings: list[Timing] = []

    def note(entrant: Entrant, step: int, wall: float, cpu: float, *, warm: bool) -> None:
        what: dict[str, Any] = {
            "problem": setting.problem,
            "dimension": problem.dimension,
            "n": setting.n,
        }
        times: dict[str, Any] = {"seed": seed, "step": step, "wall": wall, "cpu": cpu}
        timings.append(Timing(entrant=entrant.name, warm=warm, **what, **times))

    for entrant in entrants:
        # Modules load, and memory pools fill, at an entrant's first suggestion in this process.
        timed_ask(study_with(trials[:20], build(entrant, seed)), problem)
        cold = study_with(trials[: setting.n], build(entrant, seed))
        note(entrant, 0, *timed_ask(cold, problem)[1:], warm=False)

    studies = {
        entrant.name: study_with(trials[: setting.n - WARM_UP], build(entrant, seed))
        for entrant in entrants
    }
    for step in range(-WARM_UP, repetitions):
        n_known = setting.n + step
        for entrant in entrants if step % 2 == 0 else reversed(entrants):
            study = studies[entrant.name]
            trial, wall, cpu = timed_ask(study, problem)
            if step >= 0:
                note(entrant, step, wall, cpu, warm=True)
            if log is not None and entrant.name == TARGET_PEER:
                log.add(setting.problem, seed, study.sampler, trials[:n_known], trial.params)
            abandon(study, trial)
            study.add_trial(trials[n_known])
    return timings


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
    setting: Setting, entrants: Sequence[Entrant], *, seed: int, repetitions: int
) -> list[Timing]:
    """Time every entrant as :func:`measure` does, in a new process beside busy ones."""
    environment = {k: v for k, v in os.environ.items() if k not in THREAD_VARIABLES}
    words = [setting.problem, setting.n, seed, repetitions, *(e.name for e in entrants)]
    command = [sys.executable, "-m", "benchmarks.latency.run", *map(str, words)]
    with busy_processes():
        done = subprocess.run(  # noqa: S603 - our own module with our own interpreter
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment
        )
    return [Timing(**timing, busy=True) for timing in json.loads(done.stdout)]


def main(words: Sequence[str]) -> None:
    """Print the timings that :func:`measure_beside_busy` asks a new process for."""
    quiet()
    problem, n, seed, repetitions, *names = words
    timings = measure(
        Setting(problem, int(n)),
        [SAMPLERS[name] for name in names],
        seed=int(seed),
        repetitions=int(repetitions),
        log=None,
    )
    fields = [{k: v for k, v in asdict(timing).items() if k != "busy"} for timing in timings]
    print(json.dumps(fields))


def profile(setting: Setting, seed: int) -> str:
    """Return where our own time goes in a setting: the functions with the largest own time."""
    problem = PROBLEMS[setting.problem]
    trials = history(problem, setting.n + WARM_UP + PROFILED_ASKS, seed)
    study = study_with(trials[: setting.n - WARM_UP], SAMPLERS[OURS].build(seed))
    profiler = cProfile.Profile()
    for step in range(-WARM_UP, PROFILED_ASKS):
        if step >= 0:
            profiler.enable()
        trial = study.ask(dict(problem.space))
        profiler.disable()
        abandon(study, trial)
        study.add_trial(trials[setting.n + step])
    text = io.StringIO()
    stats = pstats.Stats(profiler, stream=text).strip_dirs()
    stats.sort_stats("tottime").print_stats(PROFILE_LINES)
    lines = [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]
    functions = stats.get_stats_profile().func_profiles
    parts = [
        f"{name} {1e3 * functions[name].cumtime / PROFILED_ASKS:.1f}"
        for name in PROFILED_PARTS
        if name in functions
    ]
    return "\n".join([*lines, f"ms per suggestion, profiler included: {', '.join(parts)}"])


def _milliseconds(walls: Sequence[float]) -> str:
    """Return median, mean and 95th percentile of times in seconds."""
    figures = (statistics.median(walls), statistics.mean(walls), np.percentile(walls, 95))
    return " / ".join(f"{1e3 * figure:.1f}" for figure in figures)


def _ratio_row(
    setting: Setting, peer: str, timings: Sequence[Timing], history: str
) -> list[Any] | None:
    """Return one line of the table: peer / ours."""
    of_setting = [t for t in timings if (t.problem, t.n) == (setting.problem, setting.n)]
    chosen = [t for t in of_setting if t.history == history]
    found = common.ratio_of(chosen, OURS, peer)
    if found is None:
        return None
    target = setting.target if history == "warm" and peer == TARGET_PEER else None
    met = "" if target is None else verdict(found.wall >= target)
    return [
        setting.dimension,
        setting.n,
        history,
        peer,
        *found.cells,
        _milliseconds(found.theirs),
        _milliseconds(found.ours),
        "" if target is None else f">= {target:g}",
        met,
    ]


def add_ratio_table(
    report: Report, settings: Sequence[Setting], timings: Sequence[Timing], peers: Sequence[str]
) -> list[Setting]:
    """Add the table of ratios and return the settings whose target was missed."""
    rows, missed = [], []
    kinds = dict.fromkeys(t.history for t in sorted(timings, key=lambda t: not t.warm))
    for kind in kinds:
        for peer in peers:
            for setting in settings:
                row = _ratio_row(setting, peer, timings, kind)
                if row is None:
                    continue
                rows.append(row)
                if row[-1] == "MISSED":
                    missed.append(setting)
    headers = ["d", "n", "history", "peer", "peer / ours", "spread", "CPU time"]
    headers += ["peer ms", "ours ms", "target", "met"]
    report.table("Median suggestion time, peer / ours", headers, rows)
    report.note(
        "Ratios are medians over medians of wall time; the spread is the least and the largest "
        'ratio of two suggestions of the same step; "CPU time" is the ratio of median CPU times, '
        "which other work on the machine does not disturb. Milliseconds are median / mean / 95th "
        "percentile: context, not results."
    )
    return missed


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure all settings, then check the quality, then report."""
    report.restart()
    entrants = available((*options.samplers, *options.peers), report)
    names = [entrant.name for entrant in entrants]
    if OURS not in names or len(entrants) == 1:
        report.note("Nothing was measured: ours and at least one peer are needed.")
        return
    settings = [s for s in options.settings if options.max_n is None or s.n <= options.max_n]
    seeds, repetitions, beside = options.seeds, options.repetitions, options.beside
    log = QualityLog(report) if TARGET_PEER in names and not options.no_quality else None

    timings: list[Timing] = []
    for setting in settings:
        for seed in range(seeds):
            report.progress(f"timing {setting.problem}, n = {setting.n}, seed {seed}")
            fresh = measure(setting, entrants, seed=seed, repetitions=repetitions, log=log)
            for timing in fresh:
                report.record(kind="timing", **asdict(timing))
            timings += fresh
    for seed in range(seeds):
        report.progress(f"timing {beside.problem}, n = {beside.n}, seed {seed}, beside busy ones")
        timings += measure_beside_busy(beside, entrants, seed=seed, repetitions=repetitions)
    for timing in timings:
        if timing.busy:
            report.record(kind="timing", **asdict(timing))
    missed = add_ratio_table(
        report, [*dict.fromkeys([*settings, beside])], timings, [n for n in names if n != OURS]
    )
    if log is not None:
        extra_cases(log, quick=options.quick, seeds=seeds)
        add_quality_tables(report, log)
    for setting in settings if options.profile else missed:
        report.note(
            f"Profile of {PROFILED_ASKS} suggestions, {setting.problem}, n = {setting.n}:\n\n"
            f"```\n{profile(setting, 0)}\n```"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
