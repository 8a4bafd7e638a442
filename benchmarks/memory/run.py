"""Peak memory of a long study: ours beside GPSampler's, each in a process of its own.

It is the largest resident size of a fresh process that fills a study with a history and asks a few
times; that of the random sampler is what Python, Optuna and the trials take by themselves.
"""

import argparse
import resource
import sys
import time
from pathlib import Path

import optuna
from optuna.trial import TrialState

from benchmarks.common.histories import history
from benchmarks.common.report import Report
from benchmarks.common.samplers import SAMPLERS, available
from benchmarks.common.timing import in_fresh_process
from benchmarks.problems.functions import PROBLEMS

DESCRIPTION = "Peak memory of a long study beside GPSampler's."
FUNCTION = "hartmann6"
ENTRANTS = ("random", "ours-map", "ours-uhe", "gpsampler")
SIZES = {"lengths": (2000, 10_000)}
QUICK = {"lengths": (300,)}
PEER, PEER_MAX_LENGTH = "gpsampler", 2000
N_ASKS = 2
MEGABYTE = 2.0**20
_STATUS = Path("/proc/self/status")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing."""
    del parser


def largest_resident() -> float:
    """Return the largest resident size that this process has had so far, in MB.

    From Linux, which counts it for the program; ``ru_maxrss`` goes on from that of the parent
    process where it was started.
    """
    if not _STATUS.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE
    lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def peak(entrant: str, n: int) -> dict[str, float]:
    """Ask a few times on a history; returns the peak in MB and the CPU seconds of asking."""
    problem = PROBLEMS[FUNCTION]
    study = optuna.create_study(sampler=SAMPLERS[entrant].build(0))
    study.add_trials(history(problem, n, 0))
    start = time.process_time()
    for _ in range(N_ASKS):
        study.tell(study.ask(dict(problem.space)), state=TrialState.FAIL)
    seconds = time.process_time() - start
    return {"peak": largest_resident(), "seconds": seconds}


_PROBE = """
import json, sys
from benchmarks.common.samplers import quiet
from benchmarks.memory.run import peak
quiet()
print(json.dumps(peak(sys.argv[1], int(sys.argv[2]))))
"""


def run(options: argparse.Namespace, report: Report) -> None:
    """Measure all entrants."""
    report.restart()
    entrants = [entrant.name for entrant in available(ENTRANTS, report)]
    rows = []
    for n in options.lengths:
        for name in entrants:
            if name == PEER and n > PEER_MAX_LENGTH:
                continue
            measured = in_fresh_process(_PROBE, name, str(n))
            report.record(n=n, entrant=name, **measured)
            rows.append([n, name, round(measured["peak"]), round(measured["seconds"], 1)])
    report.table(
        f"Peak resident size, {FUNCTION}, {N_ASKS} suggestions",
        ["n", "entrant", "MB", "CPU s of asking"],
        rows,
    )
