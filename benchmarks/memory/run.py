"""Memory of a long study: ours beside GPSampler's, each in a process of its own.

Two things are measured. *Peak*: the largest resident size of a fresh process that fills a study
with a history and asks a few times; that of the random sampler is what Python, Optuna and the
trials take by themselves. *Growth*: one and the same trial is suggested again and again, so that
the study stays as it is; what Python's allocators hold after garbage collection, and the resident
size, before and after 500 suggestions.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from benchmarks.common.histories import history
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS, available, quiet
from benchmarks.problems.functions import PROBLEMS

DESCRIPTION = "Peak memory of a long study beside GPSampler's, and growth over many suggestions."
FUNCTION = "hartmann6"
ENTRANTS = ("random", "ours-map", "ours-uhe", "gpsampler")
SIZES = {"lengths": (2000, 10_000), "repeated": 500}
QUICK = {"lengths": (300,), "repeated": 20}
PEER, PEER_MAX_LENGTH = "gpsampler", 2000
N_ASKS = 2
GROWTH_LENGTH = 60
WARM_UP = 20
MEGABYTE = 2.0**20
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process does.

    Attributes:
        entrant: The sampler's name.
        n: Number of complete trials that it starts from.
        n_repeated: How often one trial is suggested again; 0 for the peak instead.
    """

    entrant: str
    n: int
    n_repeated: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing."""
    del parser


def resident(*, largest: bool = False) -> float:
    """Return the resident size of this process, or the largest it has had so far, in MB.

    From Linux, which counts it for the program; ``ru_maxrss`` goes on from that of the parent
    process where it was started. Elsewhere the latter, of which only the largest is known.
    """
    if not _STATUS.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE
    field = "VmHWM:" if largest else "VmRSS:"
    lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) * 1024 / MEGABYTE for line in lines if line.startswith(field))


def peak(job: Job) -> dict[str, float]:
    """Ask a few times on a history; returns the peak in MB and the CPU seconds of asking."""
    problem = PROBLEMS[FUNCTION]
    study = optuna.create_study(sampler=SAMPLERS[job.entrant].build(0))
    study.add_trials(history(problem, job.n, 0))
    start = time.process_time()
    for _ in range(N_ASKS):
        study.tell(study.ask(dict(problem.space)), state=TrialState.FAIL)
    seconds = time.process_time() - start
    return {"peak": resident(largest=True), "seconds": seconds}


def growth(job: Job) -> dict[str, float]:
    """Suggest one trial again and again; returns the growth in bytes and of the process in MB."""
    problem = PROBLEMS[FUNCTION]
    space = dict(problem.space)
    sampler = SAMPLERS[job.entrant].build(0)
    study = optuna.create_study(sampler=sampler)
    study.add_trials(history(problem, job.n, 0))
    number = study.ask(space).number

    def suggest(count: int) -> None:
        for _ in range(count):
            sampler.sample_relative(study, study.get_trials(deepcopy=False)[number], space)
        gc.collect()

    suggest(WARM_UP)
    tracemalloc.start()
    suggest(WARM_UP)
    before, resident_before = tracemalloc.get_traced_memory()[0], resident()
    suggest(job.n_repeated)
    grown = tracemalloc.get_traced_memory()[0] - before
    return {"bytes": grown, "resident": resident() - resident_before}


def work(text: str) -> None:
    """Do the job given as JSON and print what it measured; what the fresh interpreter executes."""
    quiet()
    job = Job(**json.loads(text))
    print(json.dumps(growth(job) if job.n_repeated else peak(job)))


def in_own_process(job: Job) -> dict[str, Any]:
    """Do a job in a fresh interpreter; returns what it measured."""
    code = "import sys; from benchmarks.memory.run import work; work(sys.argv[1])"
    words = [sys.executable, "-c", code, json.dumps(asdict(job))]
    done = subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603 - our own
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure all entrants."""
    report.restart()
    entrants = [entrant.name for entrant in available(ENTRANTS, report)]
    rows = []
    for n in options.lengths:
        for name in entrants:
            if name == PEER and n > PEER_MAX_LENGTH:
                continue
            measured = in_own_process(Job(entrant=name, n=n))
            report.record(kind="peak", n=n, entrant=name, **measured)
            rows.append([n, name, round(measured["peak"]), round(measured["seconds"], 1)])
    report.table(
        f"Peak resident size, {FUNCTION}, {N_ASKS} suggestions",
        ["n", "entrant", "MB", "CPU s of asking"],
        rows,
    )
    rows = []
    for name in entrants[1:]:
        job = Job(entrant=name, n=GROWTH_LENGTH, n_repeated=options.repeated)
        measured = in_own_process(job)
        report.record(kind="growth", n=GROWTH_LENGTH, entrant=name, **measured)
        rows.append([name, measured["bytes"], round(measured["resident"], 2)])
    report.table(
        f"Growth over {options.repeated} suggestions for one trial, n = {GROWTH_LENGTH}",
        ["entrant", "bytes held by Python after collection", "resident MB"],
        rows,
    )
