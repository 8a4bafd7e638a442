"""Measurements: times of entrants that are asked in turn, and what a fresh interpreter measures."""

import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One timed step of one entrant, in seconds."""

    entrant: str
    seed: int
    step: int
    wall: float
    cpu: float


def timed(call: Callable[[], Result]) -> tuple[Result, float, float]:
    """Return what a call returns, and its wall and CPU time in seconds."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def in_fresh_process(code: str, *words: str, environment: Mapping[str, str] | None = None) -> Any:
    """Return what Python code, given some words, prints as JSON in an interpreter of its own."""
    done = subprocess.run(  # noqa: S603 - our own interpreter and our own text
        [sys.executable, "-c", code, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Ratio:
    """How long the peer takes, divided by how long ours does, of the same steps.

    Attributes:
        ours: Wall times of ours, in seconds.
        theirs: Those of the peer.
        wall: Ratio of median wall times.
        cells: It, the least and the largest ratio of two calls of the same step, and the ratio of
            median CPU times.
    """

    ours: list[float]
    theirs: list[float]
    wall: float
    cells: tuple[str, str, str]


def ratio_of(timings: Iterable[Timing], ours: str, peer: str) -> Ratio | None:
    """Compare two entrants; None if one has no times."""
    by_entrant: dict[str, dict[tuple[int, int], Timing]] = {ours: {}, peer: {}}
    for timing in timings:
        by_entrant.setdefault(timing.entrant, {})[timing.seed, timing.step] = timing
    own, theirs = by_entrant[ours], by_entrant[peer]
    if not own or not theirs:
        return None
    pairs = [theirs[key].wall / own[key].wall for key in own]
    walls = [[t.wall for t in found.values()] for found in (own, theirs)]
    cpus = [statistics.median(t.cpu for t in found.values()) for found in (own, theirs)]
    wall = statistics.median(walls[1]) / statistics.median(walls[0])
    spread = f"{min(pairs):.1f} - {max(pairs):.1f}"
    return Ratio(walls[0], walls[1], wall, (f"{wall:.1f}", spread, f"{cpus[1] / cpus[0]:.1f}"))
