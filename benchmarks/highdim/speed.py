"""Seconds per suggestion at 20 parameters, ours and GPSampler's in turn on identical histories.

As in the ``latency`` benchmark, whose measuring this is, on its 20-dimensional problem. GPSampler
is not asked at the longest history: a suggestion takes it too long there.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.common.report import Report, append_record, read_records
from benchmarks.common.samplers import Entrant
from benchmarks.highdim.entrants import ENTRANTS, OURS
from benchmarks.latency.run import Setting, measure

PEER = "gpsampler"
PROBLEM = "levy20"
SIZES, QUICK_SIZES = (50, 100, 200, 500, 1000), (30, 40)
LONGEST_OF_PEER = 500
GROWTH = (200, 1000)
REPETITIONS, QUICK_REPETITIONS = 5, 2
SEED = 100

# Size -> entrant -> seconds of each counted step, in the order of the steps.
Times = Mapping[int, Mapping[str, Sequence[float]]]


def measured(report: Report, chosen: Sequence[Entrant], *, quick: bool) -> None:
    """Measure every size and write one record for each suggestion."""
    path = report.directory / f"{report.name}-speed.jsonl"
    path.unlink(missing_ok=True)
    for n in QUICK_SIZES if quick else SIZES:
        asked = [one for one in chosen if one.name == OURS or n <= LONGEST_OF_PEER]
        report.progress(f"timing {', '.join(one.name for one in asked)} at n = {n}")
        timings = measure(
            Setting(PROBLEM, n),
            asked,
            seed=SEED,
            repetitions=QUICK_REPETITIONS if quick else REPETITIONS,
            log=None,
        )
        for timing in timings:
            if timing.warm:
                append_record(
                    path,
                    {"n": n, "entrant": timing.entrant, "step": timing.step, "cpu": timing.cpu},
                )


def stored_times(report: Report) -> Times:
    """Return the times of the last measurement; empty if there is none."""
    times: dict[int, dict[str, list[float]]] = {}
    for record in read_records(report.directory / f"{report.name}-speed.jsonl"):
        per_entrant = times.setdefault(record["n"], {})
        per_entrant.setdefault(record["entrant"], []).append(record["cpu"])
    return times


def exponent(times: Times, sizes: tuple[int, int] = GROWTH) -> float:
    """Return p of a growth like n^p of our median time between two sizes."""
    first, last = (statistics.median(times[n][OURS]) for n in sizes)
    return math.log(last / first) / math.log(sizes[1] / sizes[0])


def add_speed(report: Report, samplers: Sequence[str], *, quick: bool, record: bool) -> None:
    """Measure, unless only what is stored is wanted, and add the table.

    Args:
        report: Where the table goes.
        samplers: The entrants that may be measured; ours has to be among them.
        quick: Whether to measure small sizes, a few times.
        record: Whether to measure.
    """
    chosen = [ENTRANTS[name] for name in (OURS, PEER) if name in samplers]
    if record and chosen and chosen[0].name == OURS:
        measured(report, chosen, quick=quick)
    times = stored_times(report)
    if not times:
        report.note("Suggestion times were not measured.")
        return
    rows = []
    for n, per_entrant in times.items():
        ours = per_entrant[OURS]
        theirs = per_entrant.get(PEER, [])
        ratios = [b / a for a, b in zip(ours, theirs, strict=False)]
        rows.append(
            [
                n,
                _milliseconds(ours),
                f"{1e3 * statistics.median(theirs):.0f}" if theirs else "",
                f"{statistics.median(ratios):.1f}" if ratios else "",
                f"{min(ratios):.1f} - {max(ratios):.1f}" if ratios else "",
            ]
        )
    headers = ["n", "ours: CPU ms [least, most]", f"{PEER}: CPU ms", f"{PEER} / ours", "spread"]
    report.table("One suggestion with 20 parameters after n trials, in turn", headers, rows)
    if all(n in times for n in GROWTH):
        report.note(
            f"From n = {GROWTH[0]} to {GROWTH[1]} our time grows like n^{exponent(times):.2f}."
        )


def _milliseconds(seconds: Sequence[float]) -> str:
    """Format the median, the least and the most."""
    low, median, high = (1e3 * f(seconds) for f in (min, statistics.median, max))
    return f"{median:.0f} [{low:.0f}, {high:.0f}]"
