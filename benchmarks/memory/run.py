"""Memory of a long study: ours beside GPSampler's, each in a process of its own.

Two things are measured. *Peak*: the largest resident size of a fresh process that fills a study
with a history and asks a few times; that of the random sampler is what Python, Optuna and the
trials take by themselves. *Growth*: one and the same trial is suggested again and again, so that
the study stays as it is; what Python's allocators hold after garbage collection, and the resident
size, before and after 500 suggestions.
"""

import argparse
import gc
import resource
import sys
import time
import tracemalloc
from pathlib import Path

import optuna
from optuna.trial import TrialState

from benchmarks.common.histories import history
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS, available
from benchmarks.common.timing import in_fresh_process
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


def peak(entrant: str, n: int) -> dict[str, float]:
    """Ask a few times on a history; returns the peak in MB and the CPU seconds of asking."""
    problem = PROBLEMS[FUNCTION]
    study = optuna.create_study(sampler=SAMPLERS[entrant].build(0))
    study.add_trials(history(problem, n, 0))
    start = time.process_time()
    for _ in range(N_ASKS):
        study.tell(study.ask(dict(problem.space)), state=TrialState.FAIL)
    seconds = time.process_time() - start
    return {"peak": resident(largest=True), "seconds": seconds}


def growth(entrant: str, n_repeated: int) -> dict[str, float]:
    """Suggest one trial again and again; returns the growth in bytes and of the process in MB."""
    problem = PROBLEMS[FUNCTION]
    space = dict(problem.space)
    sampler = SAMPLERS[entrant].build(0)
    study = optuna.create_study(sampler=sampler)
    study.add_trials(history(problem, GROWTH_LENGTH, 0))
    number = study.ask(space).number

    def suggest(count: int) -> None:
        for _ in range(count):
            sampler.sample_relative(study, study.get_trials(deepcopy=False)[number], space)
        gc.collect()

    suggest(WARM_UP)
    tracemalloc.start()
    suggest(WARM_UP)
    before, resident_before = tracemalloc.get_traced_memory()[0], resident()
    suggest(n_repeated)
    grown = tracemalloc.get_traced_memory()[0] - before
    return {"bytes": grown, "resident": resident() - resident_before}


def in_own_process(what: str, entrant: str, count: int) -> dict[str, float]:
    """Return what ``peak`` or ``growth`` measures in an interpreter of its own."""
    code = f"""
import json, sys
from benchmarks.common.samplers import quiet
from benchmarks.memory.run import {what}
quiet()
print(json.dumps({what}(sys.argv[1], int(sys.argv[2]))))
"""
    found: dict[str, float] = in_fresh_process(code, entrant, str(count))
    return found


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure all entrants."""
    report.restart()
    entrants = [entrant.name for entrant in available(ENTRANTS, report)]
    rows = []
    for n in options.lengths:
        for name in entrants:
            if name == PEER and n > PEER_MAX_LENGTH:
                continue
            measured = in_own_process("peak", name, n)
            report.record(kind="peak", n=n, entrant=name, **measured)
            rows.append([n, name, round(measured["peak"]), round(measured["seconds"], 1)])
    report.table(
        f"Peak resident size, {FUNCTION}, {N_ASKS} suggestions",
        ["n", "entrant", "MB", "CPU s of asking"],
        rows,
    )
    rows = []
    for name in entrants[1:]:
        measured = in_own_process("growth", name, options.repeated)
        report.record(kind="growth", n=GROWTH_LENGTH, entrant=name, **measured)
        rows.append([name, measured["bytes"], round(measured["resident"], 2)])
    report.table(
        f"Growth over {options.repeated} suggestions for one trial, n = {GROWTH_LENGTH}",
        ["entrant", "bytes held by Python after collection", "resident MB"],
        rows,
    )
